//! Sources that are rewritten with their length and time of change put back, as editors of disk images and some archives do:
//! what arrives is one version of the file, or nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::client::{Running, unfinished, words};
use crate::sync::{CopyFixture, fixtures};
use crate::tree::set_time;
use crate::wait::{LONG, until};

/// At [`SLOW`] a file takes some six seconds.
const BYTES: usize = 24 << 20;
const SLOW: &str = "4MB/s";
/// Long ago, so that the resolution of a clock does not matter.
const LONG_AGO: i64 = 1_500_000_000;

fn write(path: &Path, byte: u8) {
    fs::write(path, vec![byte; BYTES]).unwrap();
    set_time(path, LONG_AGO, 0);
}

/// Other bytes in the same file, of the same length and time.
fn rewrite(path: &Path, byte: u8) {
    File::options().write(true).open(path).unwrap().write_all_at(&vec![byte; BYTES], 0).unwrap();
    set_time(path, LONG_AGO, 0);
}

fn begin_slow_copy(fixture: &CopyFixture) -> Running {
    let running = fixture.client.begin(words!["cp", "-r", fixture.from, fixture.to, "--limit", SLOW, "--json"]);
    until("a block has arrived", LONG, || {
        unfinished(&fixture.target).iter().any(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0))
    });
    running
}

#[test]
fn a_file_rewritten_while_it_is_sent_does_not_arrive_torn() {
    for fixture in fixtures() {
        let file = fixture.source.join("f");
        write(&file, b'a');
        let running = begin_slow_copy(&fixture);
        rewrite(&file, b'b');
        let outcome = running.finish();
        let receipt = outcome.json();
        assert_eq!(outcome.code, 6, "{}: {receipt}", fixture.name);
        let reason = receipt["failures"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("changed while it was being copied"), "{}: {reason}", fixture.name);
        assert!(!fixture.target.join("f").exists(), "{}", fixture.name);
        // A file that is no longer written is copied.
        fixture.copy(0, &[]);
        assert!(fs::read(fixture.target.join("f")).unwrap() == vec![b'b'; BYTES], "{}", fixture.name);
    }
}

#[test]
fn a_file_rewritten_after_it_was_copied_is_copied_again() {
    for fixture in fixtures() {
        let (file, small, still) =
            (fixture.source.join("f"), fixture.source.join("small"), fixture.source.join("still"));
        for path in [&file, &small, &still] {
            fs::write(path, vec![b'a'; 3_000_000]).unwrap();
            set_time(path, LONG_AGO, 0);
        }
        fixture.copy(0, &[]);
        // Longer than clocks and file systems may differ.
        std::thread::sleep(std::time::Duration::from_secs(3));
        fixture.copy(0, &[]);
        File::options().write(true).open(&file).unwrap().write_all_at(b"other bytes", 1_000_000).unwrap();
        set_time(&file, LONG_AGO, 0);
        fs::set_permissions(&small, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let planned = fixture.copy(0, &["--dry-run"]);
        assert_eq!(planned["files"], if fixture.name == "pull" { 0 } else { 1 }, "{}: {planned}", fixture.name);
        let receipt = fixture.copy(0, &[]);
        let facts = (receipt["files"].as_u64(), receipt["skipped"].as_u64(), receipt["refreshed"].as_u64());
        // A file at a node as the source is compared by length and time: there is no record of the last copy.
        let expected = if fixture.name == "pull" { (Some(0), Some(3), Some(1)) } else { (Some(1), Some(2), Some(1)) };
        assert_eq!(facts, expected, "{}: {receipt}", fixture.name);
        let is_there = fs::read(fixture.target.join("f")).unwrap() == fs::read(&file).unwrap();
        assert_eq!(is_there, fixture.name != "pull", "{}", fixture.name);
        assert!(receipt["sent_bytes"].as_u64().unwrap() <= 3_000_000, "{receipt}");
        let again = fixture.copy(0, &["--dry-run"]);
        assert_eq!(again["files"], 0, "{}: {again}", fixture.name);
    }
}

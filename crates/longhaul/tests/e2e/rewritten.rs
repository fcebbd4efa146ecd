//! Sources that are rewritten with their length and time of change put back, as editors of disk images and some archives do:
//! what arrives is one version of the file, or nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::client::{Running, unfinished, words};
use crate::sync::{CopyFixture, ways};
use crate::tree::set_time;
use crate::wait::{LONG, until};

/// At [`SLOW`] a file takes some six seconds.
const BYTES: usize = 24 << 20;
const SLOW: &str = "4MB/s";
/// Long ago, so that no clock's tick is in the way.
const THEN: i64 = 1_500_000_000;

fn write(path: &Path, byte: u8) {
    fs::write(path, vec![byte; BYTES]).unwrap();
    set_time(path, THEN, 0);
}

/// Other bytes in the same file, of the same length and time.
fn rewrite(path: &Path, byte: u8) {
    File::options().write(true).open(path).unwrap().write_all_at(&vec![byte; BYTES], 0).unwrap();
    set_time(path, THEN, 0);
}

fn slowly(way: &CopyFixture) -> Running {
    let running = way.client.begin(words!["cp", "-r", way.from, way.to, "--limit", SLOW, "--json"]);
    until("a block has arrived", LONG, || {
        unfinished(&way.target).iter().any(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0))
    });
    running
}

#[test]
fn a_file_rewritten_while_it_is_sent_does_not_arrive_torn() {
    for way in ways() {
        let file = way.source.join("f");
        write(&file, b'a');
        let running = slowly(&way);
        rewrite(&file, b'b');
        let outcome = running.finish();
        let told = outcome.json();
        assert_eq!(outcome.code, 6, "{}: {told}", way.name);
        let reason = told["failures"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("changed while it was being copied"), "{}: {reason}", way.name);
        assert!(!way.target.join("f").exists(), "{}", way.name);
        // At rest it goes.
        way.copy(0, &[]);
        assert!(fs::read(way.target.join("f")).unwrap() == vec![b'b'; BYTES], "{}", way.name);
    }
}

#[test]
fn a_file_rewritten_after_it_was_copied_goes_again() {
    for way in ways() {
        let (file, small, still) = (way.source.join("f"), way.source.join("small"), way.source.join("still"));
        for path in [&file, &small, &still] {
            fs::write(path, vec![b'a'; 3_000_000]).unwrap();
            set_time(path, THEN, 0);
        }
        way.copy(0, &[]);
        // Longer than clocks and file systems may differ.
        std::thread::sleep(std::time::Duration::from_secs(3));
        way.copy(0, &[]);
        File::options().write(true).open(&file).unwrap().write_all_at(b"other bytes", 1_000_000).unwrap();
        set_time(&file, THEN, 0);
        fs::set_permissions(&small, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let planned = way.copy(0, &["--dry-run"]);
        assert_eq!(planned["files"], if way.name == "pull" { 0 } else { 1 }, "{}: {planned}", way.name);
        let receipt = way.copy(0, &[]);
        let facts = (receipt["files"].as_u64(), receipt["skipped"].as_u64(), receipt["refreshed"].as_u64());
        // What a node is the source of goes by length and time: nobody has kept a record of the last copy there.
        let expected = if way.name == "pull" { (Some(0), Some(3), Some(1)) } else { (Some(1), Some(2), Some(1)) };
        assert_eq!(facts, expected, "{}: {receipt}", way.name);
        let is_there = fs::read(way.target.join("f")).unwrap() == fs::read(&file).unwrap();
        assert_eq!(is_there, way.name != "pull", "{}", way.name);
        assert!(receipt["sent_bytes"].as_u64().unwrap() <= 3_000_000, "{receipt}");
        let again = way.copy(0, &["--dry-run"]);
        assert_eq!(again["files"], 0, "{}: {again}", way.name);
    }
}

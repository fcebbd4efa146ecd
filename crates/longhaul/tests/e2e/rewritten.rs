//! Sources that are rewritten with their length and time of change put back, as editors of disk images and some archives do:
//! what arrives is one version of the file, or nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::client::{Running, unfinished, words};
use crate::sync::{Way, ways};
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

fn slowly(way: &Way) -> Running {
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

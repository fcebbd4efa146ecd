//! Unfinished files in a directory store, which a later attempt resumes.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::fs;
use std::os::unix::fs::MetadataExt;

use model::{RelPath, Timestamp};
use store::posix::{Links, Posix};
use store::{Finish, Store};

const TAG: &str = "0123456789abcdef";

fn finish(size: u64) -> Finish {
    Finish {
        size,
        mode: 0o644,
        mtime: Timestamp { seconds: 7, nanos: 0 },
        durable: false,
        replace: true,
        attributes: None,
    }
}

fn fixture() -> (tempfile::TempDir, Posix, RelPath) {
    let dir = tempfile::tempdir().unwrap();
    let store = Posix::open(dir.path(), Links::Inside).unwrap();
    (dir, store, RelPath::parse(b"f").unwrap())
}

#[test]
fn a_file_that_was_kept_is_resumed() {
    let (dir, store, path) = fixture();
    let sink = store.create(&path, TAG).unwrap();
    sink.reserve(1 << 20).unwrap();
    sink.write_at(b"begun", 0).unwrap();
    sink.keep();
    drop(sink);
    let part = dir.path().join(String::from_utf8(store::posix::temporary_name(TAG)).unwrap());
    assert_eq!(fs::metadata(&part).unwrap().len(), 5, "what is reserved does not count as written");
    assert!(store.resume(&path, "another").unwrap().is_none());
    let sink = store.resume(&path, TAG).unwrap().unwrap();
    sink.write_at(b" and done", 5).unwrap();
    sink.commit(&finish(14)).unwrap();
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"begun and done");
    assert!(!part.exists());
}

#[test]
fn a_cleared_range_reads_as_zeros() {
    let (dir, store, path) = fixture();
    let sink = store.create(&path, TAG).unwrap();
    sink.write_at(&[7; 3 << 20], 0).unwrap();
    sink.keep();
    drop(sink);
    let sink = store.resume(&path, TAG).unwrap().unwrap();
    // Ranges inside a block, across blocks, across the end of the written bytes and behind it.
    sink.clear(1, 5).unwrap();
    sink.clear((1 << 20) - 10, (1 << 20) + 20).unwrap();
    sink.clear((3 << 20) - 4, 8 << 20).unwrap();
    sink.clear(20 << 20, 1 << 20).unwrap();
    sink.commit(&finish(21 << 20)).unwrap();
    let there = fs::read(dir.path().join("f")).unwrap();
    let mut wanted = vec![7; 3 << 20];
    wanted[1..6].fill(0);
    wanted[(1 << 20) - 10..(2 << 20) + 10].fill(0);
    wanted[(3 << 20) - 4..].fill(0);
    wanted.resize(21 << 20, 0);
    assert!(there == wanted, "a byte that was cleared is there, or one that was not is gone");
    assert!(fs::metadata(dir.path().join("f")).unwrap().blocks() * 512 < 4 << 20);
}

#[test]
fn a_link_a_directory_and_a_file_with_a_second_name_are_not_resumed() {
    let (dir, store, path) = fixture();
    let part = dir.path().join(String::from_utf8(store::posix::temporary_name(TAG)).unwrap());
    let victim = dir.path().join("victim");
    fs::write(&victim, "victim").unwrap();
    fs::hard_link(&victim, &part).unwrap();
    assert!(store.resume(&path, TAG).unwrap().is_none(), "it has another name as well");
    store.forget(&path, TAG).unwrap();
    assert!(!part.exists() && fs::read(&victim).unwrap() == b"victim");
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    assert!(store.resume(&path, TAG).unwrap().is_none(), "it is a link");
    store.forget(&path, TAG).unwrap();
    fs::create_dir(&part).unwrap();
    assert!(store.resume(&path, TAG).unwrap().is_none(), "it is a directory");
    assert!(store.forget(&path, TAG).is_err() && part.is_dir());
}

#[test]
fn a_process_that_joins_an_unfinished_file_writes_to_it_and_changes_nothing_else() {
    let (dir, store, path) = fixture();
    let own = store.create(&path, TAG).unwrap();
    own.guard();
    own.write_at(b"begin", 0).unwrap();
    // A second store over the same directory, as another process has it.
    let beside = Posix::open(dir.path(), Links::Inside).unwrap();
    assert!(beside.resume(&path, TAG).unwrap().is_none(), "it is locked");
    let joined = beside.join(&path, TAG, 20).unwrap().unwrap();
    joined.write_at(b"middle", 10).unwrap();
    own.note_written_to(16);
    joined.clear(12, 2).unwrap();
    drop(joined);
    let second = beside.join(&path, TAG, 20).unwrap().unwrap();
    second.discard();
    own.commit(&finish(20)).unwrap();
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"begin\0\0\0\0\0mi\0\0le\0\0\0\0");
    assert!(beside.join(&path, TAG, 20).unwrap().is_none(), "it has its name now");
}

#[test]
fn keeping_a_file_late_cuts_nothing_off_that_a_later_attempt_wrote() {
    let (dir, store, path) = fixture();
    let first = store.create(&path, TAG).unwrap();
    let later = store.resume(&path, TAG).unwrap().unwrap();
    later.write_at(b"all of it", 0).unwrap();
    first.keep();
    drop(first);
    later.commit(&finish(9)).unwrap();
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"all of it");
}

#[test]
fn bytes_that_another_process_wrote_are_kept_for_a_later_attempt() {
    let (dir, store, path) = fixture();
    let own = store.create(&path, TAG).unwrap();
    own.write_at(b"begin", 0).unwrap();
    store.join(&path, TAG, 100).unwrap().unwrap().write_at(b"end", 97).unwrap();
    own.note_written_to(100);
    own.keep();
    drop(own);
    let again = store.resume(&path, TAG).unwrap().unwrap();
    again.commit(&finish(100)).unwrap();
    assert!(fs::read(dir.path().join("f")).unwrap().ends_with(b"end"));
}

#[test]
fn a_file_with_a_second_name_and_a_link_cannot_be_joined() {
    let (dir, store, path) = fixture();
    let own = store.create(&path, TAG).unwrap();
    let temporary = dir.path().join(format!(".longhaul-{TAG}.part"));
    fs::hard_link(&temporary, dir.path().join("other")).unwrap();
    assert!(store.join(&path, TAG, 5).unwrap().is_none(), "it has another name as well");
    drop(own);
    std::os::unix::fs::symlink("other", &temporary).unwrap();
    assert!(store.join(&path, TAG, 5).unwrap().is_none(), "a link");
    assert!(store.join(&path, "0000", 5).unwrap().is_none());
}

//! Tests how long files stay open.

use model::entry::Timestamp;
use store::memory::Memory;
use store::{Finish, Store};

use super::*;

/// A dealer whose files are fully dealt.
struct AllDealt;

impl RangeDealer for AllDealt {
    fn claim_hole(&self, _: u64, _: u64, _: u64) -> Option<((u64, u64), bool)> {
        None
    }

    fn is_dealt(&self, _: u64) -> bool {
        true
    }

    fn found_end(&self, _: u64, _: u64) {}

    fn end_file(&self, _: &Range, _: &OpenFile, _: u64) -> Result<(), Refusal> {
        Ok(())
    }
}

const SIZE: u64 = 8;

fn open_files(files: u64) -> OpenFiles {
    let store = Memory::default();
    for file in 0..files {
        let sink = store.create(&path(file), "t").unwrap();
        sink.write_at(b"abcdefgh", 0).unwrap();
        let mtime = Timestamp { seconds: 1, nanos: 0 };
        let finish = Finish { size: SIZE, mode: 0o644, mtime, durable: false, replace: true, attributes: None };
        sink.commit(&finish).unwrap();
    }
    let name = model::Name::new(b"r").unwrap();
    OpenFiles::new(vec![SourceRoot { store: Arc::new(store), path: RelPath::root(), name }], Vec::new())
}

fn path(file: u64) -> RelPath {
    RelPath::parse(format!("f{file}").as_bytes()).unwrap()
}

/// The second half of a file.
fn half(open_files: &OpenFiles, file: u64) -> Range {
    let stat = open_files.roots[0].store.stat(&path(file)).unwrap();
    let (mtime, changed) = (stat.meta.mtime, stat.changed);
    Range { file, source: 0, path: path(file), size: SIZE, mtime, changed, offset: 4, len: 4, last: true }
}

#[test]
fn a_late_stream_finds_its_file_still_open() {
    let open_files = open_files(1);
    let range = half(&open_files, 0);
    let first = Arc::clone(&open_files.file(&range).unwrap().source);
    open_files.release(&AllDealt, &range);
    // Another stream was dealt its range before, and reads it only now.
    let second = Arc::clone(&open_files.file(&range).unwrap().source);
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn few_of_many_fully_dealt_files_stay_open() {
    let files = 3 * DEALT_OPEN_MAX as u64;
    let open_files = open_files(files);
    // A file that a stream reads stays open.
    let read_file = half(&open_files, 0);
    open_files.file(&read_file).unwrap();
    open_files.file(&read_file).unwrap();
    open_files.release(&AllDealt, &read_file);
    for file in 1..files {
        let range = half(&open_files, file);
        open_files.file(&range).unwrap();
        open_files.release(&AllDealt, &range);
    }
    assert_eq!(open_files.table().files.len(), DEALT_OPEN_MAX + 1);
    open_files.release(&AllDealt, &read_file);
    assert_eq!(open_files.table().files.len(), DEALT_OPEN_MAX);
}

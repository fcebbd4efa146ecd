//! Tests an incoming file without a job.

use std::cell::Cell;

use model::RelPath;
use model::entry::Timestamp;
use model::spec::Options;
use store::Store;
use store::memory::Memory;

use super::*;
use crate::journal::Journals;
use crate::receive::Policy;
use crate::receive::reorder::HeldBlocks;

/// A job of one file that keeps no journals.
struct OneFile {
    store: Memory,
    policy: Policy,
    held_blocks: Arc<HeldBlocks>,
    opened: Cell<u32>,
}

impl Default for OneFile {
    fn default() -> OneFile {
        let policy = Policy {
            options: Options::default(),
            may_replace: Ok(()),
            tag: "t".into(),
            journals: None,
            reports_plans: false,
        };
        OneFile { store: Memory::default(), policy, held_blocks: Arc::default(), opened: Cell::new(0) }
    }
}

impl FileJob for OneFile {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn held_blocks(&self) -> &Arc<HeldBlocks> {
        &self.held_blocks
    }

    fn below_target(&self, path: &RelPath) -> Option<RelPath> {
        Some(path.clone())
    }

    fn before_unfinished_file(&self, _: &RelPath) {
        self.opened.set(self.opened.get() + 1);
    }

    fn journal_of(&self, _: &Wanted) -> Option<(&Journals, Journal, Vec<Row>)> {
        None
    }

    fn with_room<T>(&self, mut operation: impl FnMut() -> store::Result<T>) -> store::Result<T> {
        operation()
    }

    fn is_over(&self) -> bool {
        false
    }

    fn busy_with(&self, _: String) -> impl Drop + '_ {
        Vec::<()>::new()
    }
}

const HALF: u64 = 4;

fn incoming(job: &OneFile) -> Incoming {
    let mtime = Timestamp { seconds: 1, nanos: 0 };
    let path = RelPath::parse(b"f").unwrap();
    let wanted = Wanted {
        id: 1,
        path,
        size: 2 * HALF,
        mode: 0o644,
        mtime,
        attributes: None,
        compare_by: model::Algorithm::Crc32c,
    };
    Incoming::new(job, wanted, None, None)
}

fn write_block(incoming: &Incoming, job: &OneFile, offset: u64, bytes: &[u8]) -> Stored {
    let sum = BlockSum::of(bytes, false);
    let len = bytes.len() as u64;
    let part = Part { file: 1, offset, len, crc32c: sum.crc32c, hole: false, whole: false };
    incoming.take(job, &part, Payload::Bytes(bytes), sum, || Ok(Stored::Open)).unwrap().unwrap()
}

#[test]
fn blocks_of_any_order_go_to_one_unfinished_file() {
    let job = OneFile::default();
    let file = incoming(&job);
    assert_eq!(job.opened.get(), 0, "nothing is made before the first block");
    assert_eq!(write_block(&file, &job, HALF, b"efgh"), Stored::Open);
    assert_eq!(write_block(&file, &job, 0, b"abcd"), Stored::Open);
    assert_eq!(job.opened.get(), 1);
    let mut read = [0; 8];
    let source = file.sink(&job).unwrap().as_source().unwrap();
    source.read_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"abcdefgh");
}

#[test]
fn a_file_that_is_kept_takes_no_more_blocks() {
    let job = OneFile::default();
    let file = incoming(&job);
    write_block(&file, &job, 0, b"abcd");
    file.keep(&job);
    assert_eq!(write_block(&file, &job, HALF, b"efgh"), Stored::Unwanted);
    assert!(file.location(&job).unwrap().is_none(), "a mover gets no location");
    assert_eq!(job.opened.get(), 1, "a late block does not make it anew");
}

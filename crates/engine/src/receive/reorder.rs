//! Puts blocks in order, for a target that takes a file from its first byte to its last.
//!
//! Streams bring the blocks of a file in any order. A block that is not due is held in memory, up to a bound for the whole job; beyond
//! the bound its stream waits. Streams must not wait for each other in a circle: the block that is due may be on a stream behind
//! a block of another file that waits. So the last stream that still moves never waits, however much is held.
//!
//! What this module does not know: where a block is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Bytes that a job holds before its streams wait.
const HELD_MAX: u64 = 256 << 20;

/// How often a waiting stream checks whether it may go on.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Checks without progress of the file after which a block is held beyond the bound: the block that is due may be behind it on the
/// same stream, while the other streams have nothing to do.
const CHECKS_MAX: u32 = 20;

/// The bytes that all files of a transfer hold together, and its streams that move or wait.
#[derive(Debug, Default)]
pub(super) struct HeldBlocks {
    held: AtomicU64,
    streams: AtomicUsize,
    waiting: AtomicUsize,
}

impl HeldBlocks {
    /// Counts a stream as bringing blocks, until the result is dropped.
    pub fn join(self: &Arc<HeldBlocks>) -> impl Drop + use<> {
        struct Joined(Arc<HeldBlocks>);
        impl Drop for Joined {
            fn drop(&mut self) {
                self.0.streams.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.streams.fetch_add(1, Ordering::AcqRel);
        Joined(Arc::clone(self))
    }

    /// Whether a block may be held in memory; otherwise its stream waits.
    fn has_room_for(&self, bytes: u64) -> bool {
        let alone = self.waiting.load(Ordering::Acquire) + 1 >= self.streams.load(Ordering::Acquire);
        alone || self.held.load(Ordering::Acquire) + bytes <= HELD_MAX
    }
}

/// The content of a block, borrowed from its record.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockContent<'a> {
    Bytes(&'a [u8]),
    Hole(u64),
}

impl BlockContent<'_> {
    fn len(&self) -> u64 {
        match self {
            BlockContent::Bytes(bytes) => bytes.len() as u64,
            BlockContent::Hole(len) => *len,
        }
    }

    fn hold(&self) -> OwnedContent {
        match self {
            BlockContent::Bytes(bytes) => OwnedContent::Bytes(bytes.to_vec()),
            BlockContent::Hole(len) => OwnedContent::Hole(*len),
        }
    }
}

/// The content of a block that is held.
#[derive(Debug)]
enum OwnedContent {
    Bytes(Vec<u8>),
    Hole(u64),
}

impl OwnedContent {
    fn content(&self) -> BlockContent<'_> {
        match self {
            OwnedContent::Bytes(bytes) => BlockContent::Bytes(bytes),
            OwnedContent::Hole(len) => BlockContent::Hole(*len),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            OwnedContent::Bytes(bytes) => bytes.len() as u64,
            OwnedContent::Hole(_) => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// The offset of the byte that is due.
    next: u64,
    held: BTreeMap<u64, OwnedContent>,
    /// A stream is writing the block that is due.
    writing: bool,
    /// A write failed: the file is given up.
    failed: bool,
}

/// The blocks of one file that wait for those before them.
#[derive(Debug)]
pub(super) struct ReorderBuffer {
    held_blocks: Arc<HeldBlocks>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The result for a block that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockOutcome {
    /// It is written, or held until it is due.
    Taken,
    /// The file, or the job, has been given up.
    Late,
}

impl ReorderBuffer {
    pub fn new(held_blocks: &Arc<HeldBlocks>) -> ReorderBuffer {
        ReorderBuffer { held_blocks: Arc::clone(held_blocks), queue: Mutex::default(), changed: Condvar::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Gives the file up: waiting streams go on, and held blocks are dropped.
    pub fn give_up(&self) {
        let mut queue = self.queue();
        queue.failed = true;
        let held: u64 = std::mem::take(&mut queue.held).values().map(OwnedContent::bytes).sum();
        self.held_blocks.held.fetch_sub(held, Ordering::AcqRel);
        drop(queue);
        self.changed.notify_all();
    }

    /// Writes a block and all held ones that follow it, or holds it. `put` is called for one block at a time, in order.
    ///
    /// # Errors
    /// `put` failed: the file is given up.
    pub fn take<E>(
        &self,
        offset: u64,
        content: BlockContent<'_>,
        is_over: impl Fn() -> bool,
        mut put: impl FnMut(u64, BlockContent<'_>) -> Result<(), E>,
    ) -> Result<BlockOutcome, E> {
        let mut queue = self.queue();
        let mut checks = 0;
        let mut last_next = queue.next;
        loop {
            if queue.failed || is_over() {
                return Ok(BlockOutcome::Late);
            }
            if offset < queue.next || queue.held.contains_key(&offset) {
                return Ok(BlockOutcome::Taken);
            }
            if offset == queue.next && !queue.writing {
                break;
            }
            let held = match content {
                BlockContent::Bytes(bytes) => bytes.len() as u64,
                BlockContent::Hole(_) => 0,
            };
            checks = if last_next == queue.next { checks + 1 } else { 0 };
            last_next = queue.next;
            if checks > CHECKS_MAX || self.held_blocks.has_room_for(held) {
                self.held_blocks.held.fetch_add(held, Ordering::AcqRel);
                queue.held.insert(offset, content.hold());
                return Ok(BlockOutcome::Taken);
            }
            self.held_blocks.waiting.fetch_add(1, Ordering::AcqRel);
            self.changed.wait_for(&mut queue, CHECK_EVERY);
            self.held_blocks.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        queue.writing = true;
        drop(queue);
        let mut done = put(offset, content);
        let mut end = offset + content.len();
        loop {
            let mut queue = self.queue();
            queue.next = end;
            queue.failed |= done.is_err();
            let next = if queue.failed { None } else { queue.held.remove(&end) };
            let Some(next) = next else {
                queue.writing = false;
                self.changed.notify_all();
                return done.map(|()| BlockOutcome::Taken);
            };
            self.held_blocks.held.fetch_sub(next.bytes(), Ordering::AcqRel);
            drop(queue);
            self.changed.notify_all();
            done = put(end, next.content());
            end += next.content().len();
        }
    }
}

impl Drop for ReorderBuffer {
    fn drop(&mut self) {
        let left: u64 = self.queue().held.values().map(OwnedContent::bytes).sum();
        self.held_blocks.held.fetch_sub(left, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn put(reorder: &ReorderBuffer, written: &Mutex<Vec<u8>>, offset: u64, bytes: &[u8]) -> BlockOutcome {
        let put = |at: u64, content: BlockContent<'_>| {
            let mut written = written.lock();
            assert_eq!(written.len() as u64, at, "in order");
            match content {
                BlockContent::Bytes(bytes) => written.extend(bytes),
                BlockContent::Hole(len) => written.extend(vec![0; len as usize]),
            }
            Ok::<(), Infallible>(())
        };
        let content = if bytes.is_empty() { BlockContent::Hole(4) } else { BlockContent::Bytes(bytes) };
        reorder.take(offset, content, || false, put).unwrap()
    }

    #[test]
    fn blocks_in_any_order_come_out_in_order() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let reorder = ReorderBuffer::new(&held_blocks);
        let written = Mutex::default();
        for (offset, bytes) in [(8, &b"ij"[..]), (4, b""), (8, b"ij"), (0, b"abcd"), (0, b"abcd"), (10, b"k")] {
            assert_eq!(put(&reorder, &written, offset, bytes), BlockOutcome::Taken);
        }
        assert_eq!(*written.lock(), b"abcd\0\0\0\0ijk");
        assert_eq!(held_blocks.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_block_is_written_after_a_failure() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let reorder = ReorderBuffer::new(&held_blocks);
        let fails = |_: u64, _: BlockContent<'_>| Err::<(), &str>("full");
        assert_eq!(reorder.take(4, BlockContent::Bytes(b"b"), || false, fails), Ok(BlockOutcome::Taken), "held");
        assert_eq!(reorder.take(0, BlockContent::Bytes(b"aaaa"), || false, fails), Err("full"));
        assert_eq!(reorder.take(5, BlockContent::Bytes(b"c"), || false, fails), Ok(BlockOutcome::Late));
        drop(reorder);
        assert_eq!(held_blocks.held.load(Ordering::Relaxed), 0, "blocks that are never written are not held for ever");
    }

    #[test]
    fn a_waiting_stream_goes_on_when_the_file_is_given_up() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let _joined = [held_blocks.join(), held_blocks.join()];
        let reorder = ReorderBuffer::new(&held_blocks);
        let fine = |_: u64, _: BlockContent<'_>| Ok::<(), Infallible>(());
        assert_eq!(reorder.take(9, BlockContent::Bytes(b"held"), || false, fine), Ok(BlockOutcome::Taken));
        held_blocks.held.fetch_add(HELD_MAX, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reorder.take(4, BlockContent::Bytes(b"b"), || false, fine));
            while held_blocks.waiting.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            reorder.give_up();
            assert_eq!(waiting.join().unwrap(), Ok(BlockOutcome::Late));
        });
        assert_eq!(held_blocks.held.load(Ordering::Relaxed), HELD_MAX);
    }

    #[test]
    fn a_waiting_stream_goes_on_when_the_job_ends() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let _joined = [held_blocks.join(), held_blocks.join()];
        held_blocks.held.store(HELD_MAX, Ordering::Relaxed);
        let reorder = ReorderBuffer::new(&held_blocks);
        let over = std::sync::atomic::AtomicBool::new(false);
        let fine = |_: u64, _: BlockContent<'_>| Ok::<(), Infallible>(());
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| reorder.take(4, BlockContent::Bytes(b"b"), || over.load(Ordering::Acquire), fine));
            over.store(true, Ordering::Release);
            assert_eq!(waiting.join().unwrap(), Ok(BlockOutcome::Late));
        });
    }

    /// Two files whose blocks cross on two streams, with no memory left: each stream waits for a block that the other brings.
    #[test]
    fn streams_never_wait_for_each_other() {
        let held_blocks = Arc::new(HeldBlocks::default());
        held_blocks.held.store(HELD_MAX, Ordering::Relaxed);
        let files: [(ReorderBuffer, Mutex<Vec<u8>>); 2] = [
            (ReorderBuffer::new(&held_blocks), Mutex::default()),
            (ReorderBuffer::new(&held_blocks), Mutex::default()),
        ];
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for (late, early) in [(0, 1), (1, 0)] {
                let (held_blocks, files, barrier) = (&held_blocks, &files, &barrier);
                scope.spawn(move || {
                    let _joined = held_blocks.join();
                    barrier.wait();
                    for at in (0..64u64).map(|n| n * 2) {
                        put(&files[late].0, &files[late].1, at + 1, b"b");
                        put(&files[early].0, &files[early].1, at, b"a");
                    }
                });
            }
        });
        assert!(files.iter().all(|(_, written)| *written.lock() == b"ab".repeat(64)));
    }
}

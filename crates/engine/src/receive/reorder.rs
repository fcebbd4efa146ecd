//! Blocks put in order, for a target that takes a file from its first byte to its last.
//!
//! Streams bring the blocks of a file in any order. One whose turn has not come is held in memory, up to a bound for the whole
//! job; beyond it the stream that brings it waits. It must not wait for itself: a block that is due may be on a stream behind
//! one that waits for another file. So the last stream that still moves never waits, whatever it holds.
//!
//! Does not know: what a block is written to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Bytes that a job holds before streams wait for their turn.
const HELD_MAX: u64 = 256 << 20;

/// How often who waits looks whether there is still something to wait for.
const LOOK: Duration = Duration::from_millis(100);
/// Looks without a step of the file after which a block is held whatever is held already: what is due may be behind it on a
/// stream that waits, while another that could let it pass has nothing to do.
const LOOKS_MAX: u32 = 20;

/// What all files of a transfer hold together, and how many streams still move.
#[derive(Debug, Default)]
pub(super) struct HeldBlocks {
    held: AtomicU64,
    streams: AtomicUsize,
    waiting: AtomicUsize,
}

impl HeldBlocks {
    /// A stream brings blocks until the result is dropped.
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

    /// Whether a block may be held, or its stream waits instead.
    fn takes(&self, bytes: u64) -> bool {
        let alone = self.waiting.load(Ordering::Acquire) + 1 >= self.streams.load(Ordering::Acquire);
        alone || self.held.load(Ordering::Acquire) + bytes <= HELD_MAX
    }
}

/// A piece of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    Hole(u64),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Hole(len) => *len,
        }
    }

    fn hold(&self) -> Held {
        match self {
            Piece::Bytes(bytes) => Held::Bytes(bytes.to_vec()),
            Piece::Hole(len) => Held::Hole(*len),
        }
    }
}

#[derive(Debug)]
enum Held {
    Bytes(Vec<u8>),
    Hole(u64),
}

impl Held {
    fn piece(&self) -> Piece<'_> {
        match self {
            Held::Bytes(bytes) => Piece::Bytes(bytes),
            Held::Hole(len) => Piece::Hole(*len),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Held::Bytes(bytes) => bytes.len() as u64,
            Held::Hole(_) => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// The byte that is due.
    next: u64,
    held: BTreeMap<u64, Held>,
    /// Somebody writes what is due.
    writing: bool,
    /// A write failed: nothing more comes of it.
    failed: bool,
}

/// The blocks of one file that wait for those before them.
#[derive(Debug)]
pub(super) struct ReorderBuffer {
    held_blocks: Arc<HeldBlocks>,
    queue: Mutex<Queue>,
    moved: Condvar,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is written, or held until it is.
    Taken,
    /// The file, or the job, has been given up.
    Late,
}

impl ReorderBuffer {
    pub fn new(held_blocks: &Arc<HeldBlocks>) -> ReorderBuffer {
        ReorderBuffer { held_blocks: Arc::clone(held_blocks), queue: Mutex::default(), moved: Condvar::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Nothing more comes of the file: who waits is let go, and nothing is held.
    pub fn give_up(&self) {
        let mut queue = self.queue();
        queue.failed = true;
        let held: u64 = std::mem::take(&mut queue.held).values().map(Held::bytes).sum();
        self.held_blocks.held.fetch_sub(held, Ordering::AcqRel);
        drop(queue);
        self.moved.notify_all();
    }

    /// Writes a block and all held ones that follow it, or holds it. `put` is called for one block at a time, in order.
    pub fn take<E>(
        &self,
        offset: u64,
        piece: Piece<'_>,
        is_over: impl Fn() -> bool,
        mut put: impl FnMut(u64, Piece<'_>) -> Result<(), E>,
    ) -> Result<Turn, E> {
        let mut queue = self.queue();
        let (mut looks, mut seen) = (0, queue.next);
        loop {
            if queue.failed || is_over() {
                return Ok(Turn::Late);
            }
            if offset < queue.next || queue.held.contains_key(&offset) {
                return Ok(Turn::Taken);
            }
            if offset == queue.next && !queue.writing {
                break;
            }
            let held = match piece {
                Piece::Bytes(bytes) => bytes.len() as u64,
                Piece::Hole(_) => 0,
            };
            looks = if seen == queue.next { looks + 1 } else { 0 };
            seen = queue.next;
            if looks > LOOKS_MAX || self.held_blocks.takes(held) {
                self.held_blocks.held.fetch_add(held, Ordering::AcqRel);
                queue.held.insert(offset, piece.hold());
                return Ok(Turn::Taken);
            }
            self.held_blocks.waiting.fetch_add(1, Ordering::AcqRel);
            self.moved.wait_for(&mut queue, LOOK);
            self.held_blocks.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        queue.writing = true;
        drop(queue);
        let mut done = put(offset, piece);
        let mut end = offset + piece.len();
        loop {
            let mut queue = self.queue();
            queue.next = end;
            queue.failed |= done.is_err();
            let next = if queue.failed { None } else { queue.held.remove(&end) };
            let Some(next) = next else {
                queue.writing = false;
                self.moved.notify_all();
                return done.map(|()| Turn::Taken);
            };
            self.held_blocks.held.fetch_sub(next.bytes(), Ordering::AcqRel);
            drop(queue);
            self.moved.notify_all();
            done = put(end, next.piece());
            end += next.piece().len();
        }
    }
}

impl Drop for ReorderBuffer {
    fn drop(&mut self) {
        let left: u64 = self.queue().held.values().map(Held::bytes).sum();
        self.held_blocks.held.fetch_sub(left, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn put(reorder: &ReorderBuffer, written: &Mutex<Vec<u8>>, offset: u64, bytes: &[u8]) -> Turn {
        let put = |at: u64, piece: Piece<'_>| {
            let mut written = written.lock();
            assert_eq!(written.len() as u64, at, "in order");
            match piece {
                Piece::Bytes(bytes) => written.extend(bytes),
                Piece::Hole(len) => written.extend(vec![0; len as usize]),
            }
            Ok::<(), Infallible>(())
        };
        let piece = if bytes.is_empty() { Piece::Hole(4) } else { Piece::Bytes(bytes) };
        reorder.take(offset, piece, || false, put).unwrap()
    }

    #[test]
    fn blocks_in_any_order_come_out_in_order() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let (reorder, written) = (ReorderBuffer::new(&held_blocks), Mutex::default());
        for (offset, bytes) in [(8, &b"ij"[..]), (4, b""), (8, b"ij"), (0, b"abcd"), (0, b"abcd"), (10, b"k")] {
            assert_eq!(put(&reorder, &written, offset, bytes), Turn::Taken);
        }
        assert_eq!(*written.lock(), b"abcd\0\0\0\0ijk");
        assert_eq!(held_blocks.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nothing_comes_after_a_failure() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let reorder = ReorderBuffer::new(&held_blocks);
        let fails = |_: u64, _: Piece<'_>| Err::<(), &str>("full");
        assert_eq!(reorder.take(4, Piece::Bytes(b"b"), || false, fails), Ok(Turn::Taken), "held");
        assert_eq!(reorder.take(0, Piece::Bytes(b"aaaa"), || false, fails), Err("full"));
        assert_eq!(reorder.take(5, Piece::Bytes(b"c"), || false, fails), Ok(Turn::Late));
        drop(reorder);
        assert_eq!(held_blocks.held.load(Ordering::Relaxed), 0, "what nobody wrote is not held for ever");
    }

    #[test]
    fn who_waits_is_let_go_when_the_file_is_given_up() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let _joined = [held_blocks.join(), held_blocks.join()];
        let reorder = ReorderBuffer::new(&held_blocks);
        let fine = |_: u64, _: Piece<'_>| Ok::<(), Infallible>(());
        assert_eq!(reorder.take(9, Piece::Bytes(b"held"), || false, fine), Ok(Turn::Taken));
        held_blocks.held.fetch_add(HELD_MAX, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reorder.take(4, Piece::Bytes(b"b"), || false, fine));
            while held_blocks.waiting.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            reorder.give_up();
            assert_eq!(waiting.join().unwrap(), Ok(Turn::Late));
        });
        assert_eq!(held_blocks.held.load(Ordering::Relaxed), HELD_MAX);
    }

    #[test]
    fn who_waits_is_let_go_when_the_job_ends() {
        let held_blocks = Arc::new(HeldBlocks::default());
        let _joined = [held_blocks.join(), held_blocks.join()];
        held_blocks.held.store(HELD_MAX, Ordering::Relaxed);
        let (reorder, over) = (ReorderBuffer::new(&held_blocks), std::sync::atomic::AtomicBool::new(false));
        let fine = |_: u64, _: Piece<'_>| Ok::<(), Infallible>(());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reorder.take(4, Piece::Bytes(b"b"), || over.load(Ordering::Acquire), fine));
            over.store(true, Ordering::Release);
            assert_eq!(waiting.join().unwrap(), Ok(Turn::Late));
        });
    }

    /// Two files whose blocks cross on two streams, and not a byte of room: each stream waits behind what the other brings.
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

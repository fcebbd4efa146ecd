//! Reading a large file ahead over a few connections, each with several requests under way.
//!
//! A chunk that is read ahead is asked for in pieces. Every connection takes the next piece when it has room for one: a fast connection
//! carries more of them, and no connection is idle while bytes are wanted. Four connections with eight pieces of 1 MiB each have 32 MiB
//! under way, as much as xrdcp by default: 0.9 Gbit/s at 300 ms. More on one connection would let a slow one hold back the others: its
//! pieces arrive last, and the read-ahead goes no further than 64 MiB beyond the first byte that is missing. For the same reason a connection
//! begins with two pieces, and gets room for one more with each that arrives: TCP begins slowly, and not at the same pace on all.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use store::Result;

use super::connection::RootResult;
use super::pipelined_reads::PipelinedReads;
use super::reading::RootFile;
use crate::ahead::Fetch;
use crate::request_error::RequestError;

/// Bytes of one request.
const PIECE_BYTES: u64 = 1 << 20;
/// The most requests under way on one connection.
const PIECES_MAX: usize = 8;
/// Requests under way on a connection that begins.
const PIECES_AT_FIRST: usize = 2;
/// Connections for one file.
const CONNECTIONS_MAX: usize = 4;
/// A connection that had no piece for so long is given back.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// A file that is read ahead.
pub(super) struct ParallelRead {
    file: Arc<RootFile>,
    queue: Arc<PieceQueue>,
}

/// A chunk of which pieces have not arrived.
struct PendingChunk {
    start: u64,
    state: Mutex<ChunkState>,
    changed: Condvar,
}

struct ChunkState {
    bytes: Vec<u8>,
    /// Bytes that have not arrived.
    missing: usize,
    /// Why its reader does not wait any more.
    failed: Option<RequestError>,
}

/// A part of a chunk that one request asks for.
struct ChunkPiece {
    chunk: Arc<PendingChunk>,
    offset: u64,
    bytes: u32,
}

/// A piece that was asked for.
struct AskedPiece {
    chunk: Arc<PendingChunk>,
    /// Bytes that have not arrived.
    missing: usize,
}

/// Pieces that no connection has asked for yet.
#[derive(Default)]
struct PieceQueue {
    state: Mutex<QueueState>,
    more: Condvar,
}

#[derive(Default)]
struct QueueState {
    pieces: VecDeque<ChunkPiece>,
    /// Threads that read, each over a connection of its own.
    threads: usize,
    /// Those of them that wait for a piece.
    waiting: usize,
    /// Nobody reads the file any more.
    is_closed: bool,
}

impl PendingChunk {
    fn new(span: &Range<u64>) -> PendingChunk {
        let missing = (span.end - span.start) as usize;
        let state = ChunkState { bytes: vec![0; missing], missing, failed: None };
        PendingChunk { start: span.start, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.state.lock();
        let at = (offset - self.start) as usize;
        state.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        state.missing -= bytes.len();
        if state.missing == 0 {
            self.changed.notify_all();
        }
    }

    fn fail(&self, error: &RequestError) {
        self.state.lock().failed.get_or_insert_with(|| error.clone());
        self.changed.notify_all();
    }

    /// Waits until all bytes have arrived, or a piece of them has failed.
    fn wait(&self) -> RootResult<Vec<u8>> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.missing == 0 {
                return Ok(std::mem::take(&mut state.bytes));
            }
            self.changed.wait(&mut state);
        }
    }

    fn has_failed(&self) -> bool {
        self.state.lock().failed.is_some()
    }
}

impl QueueState {
    /// The next piece that somebody still waits for.
    fn take(&mut self) -> Option<ChunkPiece> {
        while let Some(piece) = self.pieces.pop_front() {
            if !piece.chunk.has_failed() {
                return Some(piece);
            }
        }
        None
    }
}

impl PieceQueue {
    /// Takes the next piece, if there is one.
    fn take(&self) -> Option<ChunkPiece> {
        self.state.lock().take()
    }

    /// Waits for the next piece. Returns none, and counts the thread no longer, if there was none for a while or there will be none.
    fn wait(&self) -> Option<ChunkPiece> {
        let mut state = self.state.lock();
        loop {
            if let Some(piece) = state.take() {
                return Some(piece);
            }
            state.waiting += 1;
            let is_idle = state.is_closed || self.more.wait_for(&mut state, IDLE_MAX).timed_out();
            state.waiting -= 1;
            if is_idle && state.pieces.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

/// What one thread reads over its connection.
struct PieceReader {
    file: Arc<RootFile>,
    queue: Arc<PieceQueue>,
    asked: HashMap<u64, AskedPiece>,
    /// The number of the next request.
    next: u64,
    /// The thread runs and is one of the queue's.
    is_counted: bool,
}

impl PieceReader {
    fn run(mut self) {
        self.is_counted = true;
        while let Some(first) = self.queue.wait() {
            if let Err(error) = self.read(&first) {
                self.fail(&error);
            }
        }
        self.is_counted = false;
    }

    /// Reads a piece and all that follow it without a pause, over one connection.
    fn read(&mut self, first: &ChunkPiece) -> RootResult<()> {
        let number = self.note(first);
        let (connection, handle) = self.file.connection()?;
        let mut reads = PipelinedReads::new(self.file.root().clone(), connection, handle);
        reads.ask(first.offset, first.bytes, number)?;
        let mut room = PIECES_AT_FIRST;
        while reads.under_way() > 0 {
            while reads.under_way() < room
                && let Some(piece) = self.queue.take()
            {
                let number = self.note(&piece);
                reads.ask(piece.offset, piece.bytes, number)?;
            }
            let pieces_before = self.asked.len();
            reads.receive(&mut |number, offset, bytes| {
                self.put(number, offset, bytes);
                true
            })?;
            room = (room + pieces_before - self.asked.len()).min(PIECES_MAX);
        }
        self.file.keep(reads.connection);
        Ok(())
    }

    /// Notes that a piece is asked for. Returns the number of its request.
    fn note(&mut self, piece: &ChunkPiece) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, AskedPiece { chunk: Arc::clone(&piece.chunk), missing: piece.bytes as usize });
        self.next
    }

    fn put(&mut self, number: u64, offset: u64, bytes: &[u8]) {
        let Some(piece) = self.asked.get_mut(&number) else { return };
        piece.chunk.put(offset, bytes);
        piece.missing -= bytes.len();
        if piece.missing == 0 {
            self.asked.remove(&number);
        }
    }

    /// Fails all chunks of which pieces are under way.
    fn fail(&mut self, error: &RequestError) {
        self.asked.drain().for_each(|(_, piece)| piece.chunk.fail(error));
    }
}

impl Drop for PieceReader {
    /// Leaves nobody waiting if the thread panicked.
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let error = RequestError::config_error("the thread that read it ended");
        self.fail(&error);
        let mut state = self.queue.state.lock();
        state.threads -= 1;
        if state.threads == 0 {
            state.pieces.drain(..).for_each(|piece| piece.chunk.fail(&error));
        }
    }
}

impl ParallelRead {
    pub fn new(file: RootFile) -> ParallelRead {
        ParallelRead { file: Arc::new(file), queue: Arc::default() }
    }

    /// Has a range read by the threads. Returns none if not one thread can be started.
    fn read(&self, span: &Range<u64>) -> Option<RootResult<Vec<u8>>> {
        let chunk = Arc::new(PendingChunk::new(span));
        let piece = |offset: u64| {
            let bytes = (span.end - offset).min(PIECE_BYTES) as u32;
            ChunkPiece { chunk: Arc::clone(&chunk), offset, bytes }
        };
        let mut state = self.queue.state.lock();
        state.pieces.extend(span.clone().step_by(PIECE_BYTES as usize).map(piece));
        let threads_wanted = state.pieces.len().div_ceil(PIECES_MAX);
        for _ in state.waiting..threads_wanted {
            if state.threads >= CONNECTIONS_MAX || !self.start_thread() {
                break;
            }
            state.threads += 1;
        }
        if state.threads == 0 {
            state.pieces.clear();
            return None;
        }
        drop(state);
        self.queue.more.notify_all();
        Some(chunk.wait())
    }

    fn start_thread(&self) -> bool {
        let (file, queue) = (Arc::clone(&self.file), Arc::clone(&self.queue));
        let reader = PieceReader { file, queue, asked: HashMap::new(), next: 0, is_counted: false };
        std::thread::Builder::new().name("root-read".into()).spawn(move || reader.run()).is_ok()
    }
}

impl Drop for ParallelRead {
    fn drop(&mut self) {
        self.queue.state.lock().is_closed = true;
        self.queue.more.notify_all();
    }
}

impl Fetch for ParallelRead {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        self.file.retrying(|| {
            // A thread is not worth its start where one request is enough.
            let read = if span.end - span.start > PIECE_BYTES { self.read(&span) } else { None };
            read.unwrap_or_else(|| self.file.read_whole(&span))
        })
    }

    fn is_random(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(span: Range<u64>) -> Arc<PendingChunk> {
        Arc::new(PendingChunk::new(&span))
    }

    fn piece(chunk: &Arc<PendingChunk>, offset: u64) -> ChunkPiece {
        ChunkPiece { chunk: Arc::clone(chunk), offset, bytes: 2 }
    }

    #[test]
    fn a_chunk_is_whole_when_its_pieces_have_arrived_in_any_order() {
        let chunk = pending(100..106);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| chunk.wait());
            for (offset, bytes) in [(104, b"ef"), (100, b"ab"), (102, b"cd")] {
                assert!(!waiting.is_finished());
                chunk.put(offset, bytes);
            }
            assert_eq!(waiting.join().unwrap().unwrap(), b"abcdef");
        });
    }

    #[test]
    fn a_piece_that_fails_ends_the_wait_and_the_other_pieces_are_not_asked_for() {
        let (failing, other) = (pending(0..6), pending(6..8));
        let queue = PieceQueue::default();
        queue.state.lock().pieces.extend([piece(&failing, 0), piece(&failing, 2), piece(&other, 6)]);
        assert_eq!(queue.take().unwrap().offset, 0);
        failing.fail(&RequestError::connection_error("gone"));
        failing.fail(&RequestError::connection_error("gone too"));
        assert_eq!(failing.wait().unwrap_err().why, "gone");
        assert_eq!(queue.take().unwrap().offset, 6);
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_thread_that_is_not_needed_ends_and_is_counted_no_longer() {
        let queue = PieceQueue::default();
        queue.state.lock().threads = 1;
        queue.state.lock().is_closed = true;
        queue.state.lock().pieces.push_back(piece(&pending(0..2), 0));
        assert!(queue.wait().is_some(), "what is waited for is read to the end");
        assert!(queue.wait().is_none());
        let state = queue.state.lock();
        assert_eq!((state.threads, state.waiting), (0, 0));
    }
}

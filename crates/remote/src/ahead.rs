//! Read-ahead: a remote file is fetched in chunks, several at a time, ahead of its readers.
//!
//! A reader asks for a megabyte at an offset. One request for each would cost a round trip for each: 3.5 MB/s at 300 ms.
//! Eight chunks of 8 MiB at once are 64 MiB in flight: 1.8 Gbit/s at 300 ms for each open file. A chunk is dropped when all of it
//! has been read, or when no reader is in it and the readers are far beyond it.
//!
//! Readers that follow each other are a run. A reader that goes back, for the bytes of a lost connection, begins another run,
//! which does not disturb the first. For such a run, more chunks are fetched ahead the longer it goes on.
//!
//! Does not know: how a chunk is fetched.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use store::{Error, Extent, Result, Source, Stat};

/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: u64 = 8 << 20;
/// Chunks that are fetched ahead of the one that is read.
pub(crate) const AHEAD: u64 = 7;
/// Chunks that are kept behind the one that is read, for readers that lag.
const BEHIND: u64 = 8;
/// The most runs of one file that are tracked: the first, and those that read something again.
const RUNS_MAX: usize = 4;
/// Chunks of all files together, in flight or in memory, at which fetching ahead stops: 512 MiB.
const CHUNKS_MAX: usize = 64;

/// Chunks of all files together.
static CHUNKS_HELD: AtomicUsize = AtomicUsize::new(0);

/// Fetches a range of a file.
pub(crate) trait Fetch: Send + Sync {
    /// All bytes of the range.
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>>;
    /// Whether ranges can be fetched in any order. Otherwise chunks are fetched one after the other.
    fn is_random(&self) -> bool;
}

/// Counts a chunk in [`CHUNKS_HELD`] for as long as it lives.
struct ChunkCount;

impl ChunkCount {
    fn new() -> ChunkCount {
        CHUNKS_HELD.fetch_add(1, Ordering::Relaxed);
        ChunkCount
    }
}

impl Drop for ChunkCount {
    fn drop(&mut self) {
        CHUNKS_HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Chunk {
    Fetching,
    Ready { bytes: Arc<Vec<u8>>, unread: usize, _counted: ChunkCount },
    Failed(Error),
}

/// Readers that follow each other through the file.
#[derive(Clone, Copy)]
struct ReadRun {
    /// The furthest chunk that a reader of the run has entered.
    last: u64,
    /// Chunks to fetch beyond `last`: more as the run goes on.
    reach: u64,
}

#[derive(Default)]
struct State {
    chunks: BTreeMap<u64, Chunk>,
    /// The runs, the one that was read last in front.
    runs: Vec<ReadRun>,
    /// The number of readers in a chunk; no entry where there is none.
    readers: BTreeMap<u64, usize>,
}

impl State {
    /// The run of a reader that enters a chunk, and whether that run begins here.
    fn run_at(&mut self, chunk: u64, ahead: u64, behind: u64) -> (ReadRun, bool) {
        let follows = |run: &ReadRun| chunk <= run.last + run.reach.max(1) && chunk + behind >= run.last;
        let (mut run, begins) = match self.runs.iter().position(follows) {
            Some(at) => (self.runs.remove(at), false),
            // A reader that begins at the beginning is expected to read the whole file.
            None if self.runs.is_empty() && chunk == 0 => (ReadRun { last: 0, reach: ahead }, false),
            None => (ReadRun { last: chunk, reach: 0 }, true),
        };
        if chunk > run.last {
            run = ReadRun { last: chunk, reach: (2 * run.reach).clamp(1, ahead) };
        }
        self.runs.insert(0, run);
        self.runs.truncate(RUNS_MAX);
        (run, begins)
    }
}

struct ReadAheadShared {
    fetch: Box<dyn Fetch>,
    size: u64,
    ahead: u64,
    state: Mutex<State>,
    arrived: Condvar,
}

/// A file that is fetched ahead of its readers.
struct ReadAhead(Arc<ReadAheadShared>);

impl ReadAheadShared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Chunks behind the readers that are kept for those that lag.
    fn behind(&self) -> u64 {
        self.ahead.max(BEHIND)
    }

    fn span(&self, chunk: u64) -> Range<u64> {
        chunk * CHUNK_BYTES..((chunk + 1) * CHUNK_BYTES).min(self.size)
    }

    /// Fetches a chunk that is marked as being fetched.
    fn fetch_chunk(&self, chunk: u64) {
        let counted = ChunkCount::new();
        // Wakes the waiting readers even if this thread panics.
        let guard = FetchGuard { inner: self, chunk };
        let fetched = match self.fetch.fetch(self.span(chunk)) {
            Ok(bytes) => Chunk::Ready { unread: bytes.len(), bytes: Arc::new(bytes), _counted: counted },
            Err(error) => Chunk::Failed(error),
        };
        self.state().chunks.insert(chunk, fetched);
        drop(guard);
    }
}

/// Wakes the readers that wait for a chunk, and removes the chunk if it is still being fetched.
struct FetchGuard<'a> {
    inner: &'a ReadAheadShared,
    chunk: u64,
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        if matches!(state.chunks.get(&self.chunk), Some(Chunk::Fetching)) {
            state.chunks.remove(&self.chunk);
        }
        drop(state);
        self.inner.arrived.notify_all();
    }
}

/// A reader in a chunk, which is kept for as long as the guard lives.
struct ReaderGuard<'a> {
    inner: &'a ReadAheadShared,
    chunk: u64,
}

impl Drop for ReaderGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        if let Entry::Occupied(mut readers) = state.readers.entry(self.chunk) {
            *readers.get_mut() -= 1;
            if *readers.get() == 0 {
                readers.remove();
            }
        }
    }
}

impl ReadAhead {
    /// A file of `size` bytes, of which `ahead` chunks are fetched ahead of the one that is read.
    pub fn new(fetch: Box<dyn Fetch>, size: u64, ahead: u64) -> ReadAhead {
        ReadAhead(Arc::new(ReadAheadShared { fetch, size, ahead, state: Mutex::default(), arrived: Condvar::new() }))
    }

    /// Reads at an offset. Returns fewer bytes than `buffer` holds only at the end of the file.
    ///
    /// # Errors
    /// A chunk cannot be fetched.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.0.size);
        let mut at = offset;
        while at < end {
            let chunk = at / CHUNK_BYTES;
            let stop = end.min((chunk + 1) * CHUNK_BYTES);
            let into = &mut buffer[(at - offset) as usize..(stop - offset) as usize];
            let (reading, is_isolated) = self.enter(chunk);
            if is_isolated {
                into.copy_from_slice(&self.0.fetch.fetch(at..stop)?);
            } else {
                self.read_chunk(chunk, (at % CHUNK_BYTES) as usize, into)?;
            }
            drop(reading);
            at = stop;
        }
        Ok((end.saturating_sub(offset)) as usize)
    }

    /// Counts a reader in a chunk. Returns `true` where no run leads to the chunk: of an isolated range, only the requested bytes are
    /// fetched.
    fn enter(&self, chunk: u64) -> (ReaderGuard<'_>, bool) {
        let inner = &*self.0;
        let mut state = inner.state();
        *state.readers.entry(chunk).or_default() += 1;
        let (run, begins) = state.run_at(chunk, inner.ahead, inner.behind());
        let is_isolated = begins && inner.fetch.is_random() && !state.chunks.contains_key(&chunk);
        if !is_isolated {
            self.fetch_ahead(&mut state, chunk, run);
        }
        (ReaderGuard { inner, chunk }, is_isolated)
    }

    fn read_chunk(&self, chunk: u64, at: usize, into: &mut [u8]) -> Result<()> {
        let inner = &self.0;
        let mut state = inner.state();
        loop {
            match state.chunks.get_mut(&chunk) {
                None => {
                    state.chunks.insert(chunk, Chunk::Fetching);
                    drop(state);
                    inner.fetch_chunk(chunk);
                    state = inner.state();
                }
                Some(Chunk::Fetching) => inner.arrived.wait(&mut state),
                Some(Chunk::Failed(_)) => {
                    // The next reader tries again.
                    if let Some(Chunk::Failed(error)) = state.chunks.remove(&chunk) {
                        inner.arrived.notify_all();
                        return Err(error);
                    }
                }
                Some(Chunk::Ready { bytes, unread, .. }) => {
                    let bytes = Arc::clone(bytes);
                    *unread = unread.saturating_sub(into.len());
                    if *unread == 0 {
                        state.chunks.remove(&chunk);
                    }
                    drop(state);
                    into.copy_from_slice(&bytes[at..at + into.len()]);
                    return Ok(());
                }
            }
        }
    }

    /// Starts to fetch the chunks after this one, and drops those that no reader needs any more.
    fn fetch_ahead(&self, state: &mut State, chunk: u64, run: ReadRun) {
        let inner = &self.0;
        let State { chunks, runs, readers } = state;
        // A reader that waited for a late chunk still finds it, however far ahead the other readers are.
        let wanted = |at: &u64| {
            readers.contains_key(at)
                || runs.iter().any(|run| at + inner.behind() >= run.last && *at <= run.last + inner.ahead)
        };
        chunks.retain(|at, held| matches!(held, Chunk::Fetching) || wanted(at));
        if !inner.fetch.is_random() {
            return;
        }
        for next in chunk + 1..=chunk + run.reach {
            if next * CHUNK_BYTES >= inner.size || CHUNKS_HELD.load(Ordering::Relaxed) >= CHUNKS_MAX {
                return;
            }
            // All chunks up to the furthest have been fetched before; those that are gone have been read.
            if next <= run.last || chunks.contains_key(&next) {
                continue;
            }
            chunks.insert(next, Chunk::Fetching);
            let own = Arc::clone(inner);
            let begun = std::thread::Builder::new().name("read-ahead".into()).spawn(move || own.fetch_chunk(next));
            if begun.is_err() {
                // The reader that gets there fetches the chunk itself.
                chunks.remove(&next);
                return;
            }
        }
    }
}

/// A remote file open for reading. Its facts are those of the moment when it was opened: all later responses are compared with
/// them.
pub(crate) struct RemoteFile {
    stat: Stat,
    ahead: ReadAhead,
}

impl RemoteFile {
    pub fn new(fetch: impl Fetch + 'static, stat: Stat) -> RemoteFile {
        RemoteFile::with_ahead(fetch, stat, AHEAD)
    }

    /// The same, with `ahead` chunks fetched ahead of the one that is read.
    pub fn with_ahead(fetch: impl Fetch + 'static, stat: Stat, ahead: u64) -> RemoteFile {
        RemoteFile { ahead: ReadAhead::new(Box::new(fetch), stat.meta.size, ahead), stat }
    }
}

impl std::fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteFile").field("stat", &self.stat).finish_non_exhaustive()
    }
}

impl Source for RemoteFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.ahead.read_at(buffer, offset)
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.stat)
    }

    fn extent(&self, _offset: u64, size: u64) -> Result<Extent> {
        Ok(Extent::Data(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicU64;

    struct Fake {
        size: u64,
        random: bool,
        fetched: Arc<Mutex<Vec<Range<u64>>>>,
        fail_once: AtomicU64,
    }

    /// The bytes of a span; the beginnings of all chunks differ. Copied from a block whose length divides no chunk, because the tests
    /// read half a gigabyte.
    fn bytes(span: Range<u64>) -> Vec<u8> {
        static BLOCK: LazyLock<Vec<u8>> =
            LazyLock::new(|| (0..1_048_583_u32).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect());
        let (mut at, mut left) = ((span.start % BLOCK.len() as u64) as usize, (span.end - span.start) as usize);
        let mut bytes = Vec::with_capacity(left);
        while left > 0 {
            let piece = left.min(BLOCK.len() - at);
            bytes.extend_from_slice(&BLOCK[at..at + piece]);
            (at, left) = (0, left - piece);
        }
        bytes
    }

    impl Fetch for Fake {
        fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
            assert!(span.end <= self.size && span.start < span.end);
            self.fetched.lock().push(span.clone());
            if self.fail_once.compare_exchange(span.start, u64::MAX, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Err(Error::Unsupported { what: "reading", store: "a fake" });
            }
            Ok(bytes(span))
        }

        fn is_random(&self) -> bool {
            self.random
        }
    }

    type Fetched = Arc<Mutex<Vec<Range<u64>>>>;

    fn ahead(size: u64, random: bool, fail: u64) -> (ReadAhead, Fetched) {
        let fetched = Fetched::default();
        let fake = Fake { size, random, fetched: Arc::clone(&fetched), fail_once: AtomicU64::new(fail) };
        (ReadAhead::new(Box::new(fake), size, AHEAD), fetched)
    }

    fn assert_reads_right(ahead: &ReadAhead, offset: u64, len: usize) {
        let mut buffer = vec![0; len];
        let got = ahead.read_at(&mut buffer, offset).unwrap();
        assert!(buffer[..got] == bytes(offset..offset + got as u64), "at {offset}");
        assert_eq!(got as u64, (ahead.0.size.saturating_sub(offset)).min(len as u64));
    }

    #[test]
    fn a_file_in_order_is_fetched_once() {
        for random in [true, false] {
            let size = 3 * CHUNK_BYTES + 12_345;
            let (ahead, fetched) = ahead(size, random, u64::MAX);
            (0..=size / 1_000_000).for_each(|at| assert_reads_right(&ahead, at * 1_000_000, 1_000_000));
            assert_reads_right(&ahead, size, 10);
            assert_reads_right(&ahead, size + 5, 10);
            let mut spans = fetched.lock().clone();
            spans.sort_by_key(|span| span.start);
            assert_eq!(spans.len(), 4);
            assert!(ahead.0.state().chunks.is_empty(), "what has been read is dropped");
        }
    }

    #[test]
    fn only_the_requested_bytes_of_an_isolated_range_are_fetched() {
        let (ahead, fetched) = ahead(100 * CHUNK_BYTES, true, u64::MAX);
        assert_reads_right(&ahead, 50 * CHUNK_BYTES + 7, 1000);
        assert_reads_right(&ahead, 20 * CHUNK_BYTES - 100, 200);
        let spans = fetched.lock().clone();
        assert_eq!(spans[0], 50 * CHUNK_BYTES + 7..50 * CHUNK_BYTES + 1007);
        assert_eq!(spans[1], 20 * CHUNK_BYTES - 100..20 * CHUNK_BYTES);
    }

    #[test]
    fn a_failure_is_reported_and_the_next_read_tries_again() {
        let (ahead, _) = ahead(CHUNK_BYTES, true, 0);
        assert!(ahead.read_at(&mut [0; 10], 0).is_err());
        assert_reads_right(&ahead, 0, 10);
    }

    /// Bytes that were requested.
    fn bytes_requested(fetched: &Fetched) -> u64 {
        fetched.lock().iter().map(|span| span.end - span.start).sum()
    }

    #[test]
    fn a_chunk_that_a_reader_waits_for_is_kept_however_far_the_others_are() {
        let size = 40 * CHUNK_BYTES;
        let (ahead, fetched) = ahead(size, true, u64::MAX);
        assert_reads_right(&ahead, 0, 10);
        let (waiting, _) = ahead.enter(0);
        (1..30).for_each(|chunk| assert_reads_right(&ahead, chunk * CHUNK_BYTES, CHUNK_BYTES as usize));
        assert!(ahead.0.state().chunks.contains_key(&0));
        drop(waiting);
        (30..40).for_each(|chunk| assert_reads_right(&ahead, chunk * CHUNK_BYTES, CHUNK_BYTES as usize));
        assert!(!ahead.0.state().chunks.contains_key(&0), "no reader needs it any more");
        assert_eq!(bytes_requested(&fetched), size);
        assert!(ahead.0.state().readers.is_empty());
    }

    /// As when a connection is lost and its blocks are sent again.
    #[test]
    fn reading_a_range_again_fetches_little_more_than_the_range() {
        let size = 60 * CHUNK_BYTES;
        let (ahead, fetched) = ahead(size, true, u64::MAX);
        (0..40).for_each(|chunk| assert_reads_right(&ahead, chunk * CHUNK_BYTES, CHUNK_BYTES as usize));
        assert_reads_right(&ahead, 5 * CHUNK_BYTES, 1 << 20);
        assert_reads_right(&ahead, 5 * CHUNK_BYTES + (2 << 20), 1 << 20);
        (40..60).for_each(|chunk| assert_reads_right(&ahead, chunk * CHUNK_BYTES, CHUNK_BYTES as usize));
        assert!(
            bytes_requested(&fetched) <= size + (1 << 20) + CHUNK_BYTES,
            "{} beside {size}",
            bytes_requested(&fetched) - size
        );
    }

    #[test]
    fn a_run_that_begins_in_the_middle_is_read_further_ahead_as_it_goes_on() {
        let run = |at: &[u64]| {
            let mut state = State::default();
            let comes: Vec<_> = at.iter().map(|chunk| state.run_at(*chunk, AHEAD, BEHIND)).collect();
            comes.into_iter().map(|(run, begins)| (run.last, run.reach, begins)).collect::<Vec<_>>()
        };
        assert_eq!(run(&[0, 0, 1]), [(0, AHEAD, false), (0, AHEAD, false), (1, AHEAD, false)]);
        let from_20 =
            [(20, 0, true), (20, 0, false), (21, 1, false), (22, 2, false), (23, 4, false), (24, AHEAD, false)];
        assert_eq!(run(&[20, 20, 21, 22, 23, 24]), from_20);
        let overtaken = [(0, AHEAD, false), (3, AHEAD, false), (3, AHEAD, false), (3, AHEAD, false)];
        assert_eq!(run(&[0, 3, 1, 2]), overtaken, "within what was fetched ahead");
        let beside = [(0, AHEAD, false), (20, 0, true), (1, AHEAD, false), (21, 1, false), (2, AHEAD, false)];
        assert_eq!(run(&[0, 20, 1, 21, 2]), beside);
    }

    #[test]
    fn many_readers_of_one_file_get_its_bytes() {
        let size = 5 * CHUNK_BYTES + 3;
        let (ahead, _) = ahead(size, true, u64::MAX);
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1 << 20, Ordering::Relaxed);
                        if at >= size {
                            return;
                        }
                        assert_reads_right(&ahead, at, 1 << 20);
                    }
                });
            }
        });
    }
}

//! A file that is being received: made when its first block arrives, committed when it is complete and verified.

use model::Refusal;
use std::sync::Arc;

use model::checksum::{BlockSum, Digest};
use parking_lot::{Mutex, MutexGuard, RwLock};
use store::digest::SerialDigests;
use store::{FileAnnouncement, Sink, Writes};
use wire::WireError;
use wire::frame::{Outcome, UNKNOWN_SIZE};
use wire::mover::FileLocation;
use wire::receiver::{Stored, Wanted};
use wire::record::Part;

mod file_job;
mod place;

pub(super) use self::file_job::FileJob;
use super::Receiving;
use super::reorder::{BlockContent, BlockOutcome, ReorderBuffer};
use super::space::Promise;
use crate::error::Error;
use crate::journal::{Journal, Row, SourceVersion};

/// The size and time of a file at the source, which an unfinished file must match.
pub(super) fn subject(wanted: &Wanted) -> SourceVersion {
    SourceVersion { size: wanted.size, mtime: wanted.mtime }
}

/// A file that blocks are being written to.
pub(super) struct Incoming {
    wanted: Wanted,
    /// The digest of the existing file, where that decides whether blocks are needed.
    existing: Option<Digest>,
    sink: Mutex<SinkState>,
    serial: Mutex<SerialDigests>,
    /// Locked shared while a block is written and entered in the ledger, exclusively while the file is committed: a block that arrives
    /// twice must not be written into a committed file.
    gate: RwLock<CommitGate>,
    /// Promised space, until it is reserved in the file system or written.
    promise: Mutex<Option<Promise>>,
    journal: Mutex<JournalState>,
    /// Holes must be written as zeros: the unfinished file is an earlier attempt's, or the target has no holes.
    fills_holes: bool,
    /// The target takes the file in order.
    reorder: Option<ReorderBuffer>,
}

/// The payload of a part.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    /// Its bytes; empty for a hole.
    Bytes(&'a [u8]),
    /// A mover has written its bytes.
    Written,
}

/// An unfinished file, and the tag it was made with.
#[derive(Clone)]
struct UnfinishedFile {
    sink: Arc<dyn Sink>,
    tag: String,
}

/// The unfinished file that blocks are written to, if there is one.
#[derive(Default)]
enum SinkState {
    /// Not made yet: the first block makes it.
    #[default]
    NotMade,
    /// The unfinished file.
    Open(UnfinishedFile),
    /// Discarded or kept for a later attempt: a late block must not make it again.
    Gone,
}

/// The journal of a file's blocks.
#[derive(Default)]
struct JournalState {
    journal: Option<Journal>,
    /// The journal can no longer be written: a later attempt cannot resume, but the unfinished file is still guarded.
    broken: bool,
    /// The rows of blocks that are not flushed yet, and their bytes.
    pending: Vec<Row>,
    pending_bytes: u64,
}

/// In a durable job, blocks are flushed before they are journalled, whenever this number of bytes has been written.
const FLUSH_BYTES: u64 = 64 << 20;

/// From this size on, space is reserved in the file system when a file is begun.
const RESERVE_BYTES: u64 = 1 << 20;

/// Whether blocks may still be written: the gate closes before the file is committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitGate {
    Open,
    Closed,
}

impl Incoming {
    pub(super) fn new(
        job: &impl FileJob,
        wanted: Wanted,
        existing: Option<Digest>,
        promise: Option<Promise>,
    ) -> Incoming {
        let writes = job.store().capabilities().writes;
        Incoming {
            wanted,
            existing,
            sink: Mutex::default(),
            serial: Mutex::new(SerialDigests::new(&job.policy().options.checksums)),
            gate: RwLock::new(CommitGate::Open),
            promise: Mutex::new(promise),
            journal: Mutex::default(),
            fills_holes: writes != Writes::Anywhere,
            reorder: (writes == Writes::InOrder).then(|| ReorderBuffer::new(job.held_blocks())),
        }
    }

    /// Resumes the unfinished file of an earlier attempt.
    pub(super) fn resumed(self, sink: Arc<dyn Sink>, journal: Journal) -> Incoming {
        *self.sink_state() = SinkState::Open(UnfinishedFile { sink, tag: journal.tag().to_owned() });
        self.journal().journal = Some(journal);
        Incoming { fills_holes: true, ..self }
    }

    fn sink_state(&self) -> MutexGuard<'_, SinkState> {
        self.sink.lock()
    }

    /// Takes the unfinished file away, so that no block is written to it any more.
    fn take_sink(&self) -> Option<Arc<dyn Sink>> {
        match std::mem::replace(&mut *self.sink_state(), SinkState::Gone) {
            SinkState::Open(open) => Some(open.sink),
            SinkState::NotMade | SinkState::Gone => None,
        }
    }

    fn journal(&self) -> MutexGuard<'_, JournalState> {
        self.journal.lock()
    }

    fn settle_promise(&self) {
        drop(self.promise().take());
    }

    fn promise(&self) -> MutexGuard<'_, Option<Promise>> {
        self.promise.lock()
    }

    /// Writes a block and enters it in the ledger, unless the file is being committed already.
    pub(super) fn take(
        &self,
        job: &impl FileJob,
        part: &Part,
        payload: Payload<'_>,
        sum: BlockSum,
        enter: impl FnOnce() -> Result<Stored, WireError>,
    ) -> Result<store::Result<Stored>, WireError> {
        let gate = self.gate.read();
        if *gate == CommitGate::Closed {
            return Ok(Ok(Stored::Unwanted));
        }
        let written = match payload {
            Payload::Bytes(bytes) => self.write(job, part, bytes),
            Payload::Written => self.note_written(part),
        };
        let written = written.and_then(|outcome| {
            self.note(job, part, sum)?;
            Ok(outcome)
        });
        match written {
            // The reason is another block's failure or the end of the job, and has been reported.
            Ok(BlockOutcome::Late) => Ok(Ok(Stored::Unwanted)),
            Ok(BlockOutcome::Taken) => {
                if let Some(promise) = &mut *self.promise() {
                    promise.reduce(if part.hole { 0 } else { part.len });
                }
                enter().map(Ok)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Notes that a mover has written a block.
    fn note_written(&self, part: &Part) -> store::Result<BlockOutcome> {
        match &*self.sink_state() {
            SinkState::Open(open) if !part.hole => open.sink.note_written_to(part.offset + part.len),
            SinkState::Open(_) | SinkState::NotMade => {}
            SinkState::Gone => return Ok(BlockOutcome::Late),
        }
        Ok(BlockOutcome::Taken)
    }

    /// The location of the file for a mover; none where the file is complete, or has been given up.
    pub(super) fn location(&self, job: &impl FileJob) -> store::Result<Option<FileLocation>> {
        let gate = self.gate.read();
        if *gate == CommitGate::Closed {
            return Ok(None);
        }
        let Some(path) = job.below_target(&self.wanted.path) else { return Ok(None) };
        let tag = self.open(job)?.tag;
        Ok(Some(FileLocation { path, tag, size: self.wanted.size, fills_holes: self.fills_holes }))
    }

    fn sink(&self, job: &impl FileJob) -> store::Result<Arc<dyn Sink>> {
        self.open(job).map(|open| open.sink)
    }

    /// The unfinished file, made on first use.
    fn open(&self, job: &impl FileJob) -> store::Result<UnfinishedFile> {
        let mut sink_state = self.sink_state();
        match &*sink_state {
            SinkState::Open(open) => return Ok(open.clone()),
            SinkState::Gone => return Err(late()),
            SinkState::NotMade => {}
        }
        match self.begin(job) {
            Ok(made) => {
                *sink_state = SinkState::Open(made.clone());
                Ok(made)
            }
            Err(error) => {
                // Otherwise the next block would wait for this journal in vain, and begin a file without one.
                self.end_journal();
                Err(error)
            }
        }
    }

    fn begin(&self, job: &impl FileJob) -> store::Result<UnfinishedFile> {
        let (made, tag) = match self.begin_journal(job) {
            Some(tag) => {
                let made = job.with_room(|| job.store().create(&self.wanted.path, &tag))?;
                made.guard();
                (made, tag)
            }
            None => {
                job.before_unfinished_file(&self.wanted.path.parent());
                let tag = format!("{}-{:x}", job.policy().tag, self.wanted.id);
                (job.with_room(|| job.store().create(&self.wanted.path, &tag))?, tag)
            }
        };
        made.announce(&FileAnnouncement {
            size: Some(self.wanted.size).filter(|size| *size != UNKNOWN_SIZE),
            mtime: self.wanted.mtime,
            replace: job.policy().replaces(),
        })?;
        let sparse = self.wanted.attributes.as_ref().is_some_and(|a| a.sparse);
        if !sparse && self.wanted.size != UNKNOWN_SIZE && self.wanted.size >= RESERVE_BYTES {
            // Space that was not reserved stays promised until it is written.
            if job.with_room(|| made.reserve(self.wanted.size))? {
                self.settle_promise();
            }
        }
        Ok(UnfinishedFile { sink: made, tag })
    }

    /// Takes the file's journal, where the file is worth one and no other job has it. Returns the tag of the unfinished file.
    fn begin_journal(&self, job: &impl FileJob) -> Option<String> {
        // Without a writable state directory the file cannot be resumed later, but it can be transferred.
        let (journals, mut journal, rows) = job.journal_of(&self.wanted)?;
        if !rows.is_empty() {
            journal.restart(journals, &self.wanted.path, subject(&self.wanted), &[]).ok()?;
        }
        let tag = journal.tag().to_owned();
        // An unfinished file of this tag is about another subject, or its journal was lost. If it cannot be removed (another user's file, a
        // directory), the file cannot be resumed later, but it can be transferred.
        if job.store().forget(&self.wanted.path, &tag).is_err() {
            journal.remove();
            return None;
        }
        self.journal().journal = Some(journal);
        Some(tag)
    }

    /// Enters a block that has been written in the journal.
    fn note(&self, job: &impl FileJob, part: &Part, sum: BlockSum) -> store::Result<()> {
        let mut state = self.journal();
        if state.journal.is_none() || state.broken || part.len == 0 {
            return Ok(());
        }
        state.pending.push(Row { offset: part.offset, len: part.len, sum });
        state.pending_bytes += part.len;
        if job.policy().options.durable && state.pending_bytes < FLUSH_BYTES {
            return Ok(());
        }
        self.write_rows(job, &mut state)
    }

    fn write_rows(&self, job: &impl FileJob, state: &mut JournalState) -> store::Result<()> {
        let durable = job.policy().options.durable;
        if durable && let SinkState::Open(open) = &*self.sink_state() {
            open.sink.flush()?;
        }
        let rows = std::mem::take(&mut state.pending);
        state.pending_bytes = 0;
        if let Some(journal) = &mut state.journal {
            let written = journal.write(&rows).and_then(|()| if durable { journal.flush() } else { Ok(()) });
            state.broken = written.is_err();
        }
        Ok(())
    }

    fn write(&self, job: &impl FileJob, part: &Part, bytes: &[u8]) -> store::Result<BlockOutcome> {
        let sink = self.sink(job)?;
        let content = if part.hole { BlockContent::Hole(part.len) } else { BlockContent::Bytes(bytes) };
        let put = |offset, content: BlockContent<'_>| self.put(job, &*sink, offset, content);
        match &self.reorder {
            Some(reorder) => reorder.take(part.offset, content, || job.is_over(), put),
            None => put(part.offset, content).map(|()| BlockOutcome::Taken),
        }
    }

    fn put(&self, job: &impl FileJob, sink: &dyn Sink, offset: u64, content: BlockContent<'_>) -> store::Result<()> {
        let mut serial = self.serial.lock();
        match content {
            BlockContent::Hole(len) => serial.feed_hole(offset, len),
            BlockContent::Bytes(bytes) => serial.feed(offset, bytes),
        }
        drop(serial);
        match content {
            BlockContent::Hole(len) if self.fills_holes => job.with_room(|| sink.clear(offset, len)),
            BlockContent::Hole(_) | BlockContent::Bytes([]) => Ok(()),
            BlockContent::Bytes(bytes) => job.with_room(|| sink.write_at(bytes, offset)),
        }
    }

    /// Removes the unfinished file and its journal.
    fn discard(&self) {
        self.reorder.iter().for_each(ReorderBuffer::give_up);
        if let Some(sink) = self.take_sink() {
            sink.discard();
        }
        self.end_journal();
    }

    fn end_journal(&self) {
        if let Some(journal) = self.journal().journal.take() {
            journal.remove();
        }
    }

    /// Keeps the unfinished file for a later attempt, where it is journalled. From then on no block is written to it: a later attempt may
    /// already have resumed it.
    fn keep(&self, job: &impl FileJob) {
        self.reorder.iter().for_each(ReorderBuffer::give_up);
        *self.gate.write() = CommitGate::Closed;
        let mut state = self.journal();
        if !state.broken && !state.pending.is_empty() {
            state.broken = self.write_rows(job, &mut state).is_err();
        }
        let journal = state.journal.take();
        let is_broken = state.broken;
        drop(state);
        match (journal, self.take_sink()) {
            // The journal is locked until the file is kept.
            (Some(_locked), Some(sink)) if !is_broken => sink.keep(),
            (journal, sink) => {
                if let Some(sink) = sink {
                    sink.discard();
                }
                if let Some(journal) = journal {
                    journal.remove();
                }
            }
        }
    }
}

fn late() -> store::Error {
    store::Error::Unsupported { what: "a late block", store: "a file given up" }
}

impl Receiving {
    /// Expects the blocks of a file. Called before the sender can learn that the file is wanted.
    pub(super) fn expect_file(&self, incoming: Incoming) {
        self.incoming().insert(incoming.wanted.id, Arc::new(incoming));
    }

    /// Fails a file that cannot be written. After an error that every other file would meet as well, the unfinished file is kept for a
    /// later attempt.
    pub(super) fn file_failed(&self, id: u64, error: store::Error) {
        if error.is_fatal() {
            self.leave(id);
        } else {
            self.discard(id);
        }
        self.store_failed(id, error);
    }

    /// Keeps an unfinished file for a later attempt, because the job ends before the file is complete.
    pub(super) fn leave(&self, id: u64) {
        let incoming = self.incoming().remove(&id);
        if let Some(incoming) = incoming {
            self.fence(id);
            incoming.keep(self);
        }
    }

    fn store_failed(&self, id: u64, error: store::Error) {
        let refusal = Refusal::from_error(&error);
        // The job fails before the file is settled: if it was the last one, the job would otherwise succeed first.
        if error.is_fatal() {
            self.fail(Error::Store(error));
        }
        self.settle(id, Outcome::Failed(refusal));
    }

    pub(super) fn discard(&self, id: u64) {
        let incoming = self.incoming().remove(&id);
        if let Some(incoming) = incoming {
            incoming.discard();
        }
    }

    pub(super) fn settle(&self, id: u64, outcome: Outcome) {
        self.state().machine.settled(id, outcome);
        self.actions.notify_one();
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests;

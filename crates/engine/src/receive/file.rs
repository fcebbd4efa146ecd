//! A file that is being received: made when its first block arrives, committed when it is complete and verified.

use model::Refusal;
use std::sync::Arc;

use model::checksum::{BlockSum, Digest};
use parking_lot::{Mutex, MutexGuard, RwLock};
use store::digest::InOrder;
use store::{FileAnnouncement, Sink, Writes};
use wire::WireError;
use wire::frame::{Outcome, UNKNOWN_SIZE};
use wire::mover::FileLocation;
use wire::receiver::{Stored, Wanted};
use wire::record::Part;

mod place;
mod sinks;

pub(super) use self::sinks::Sinks;
use super::Receiving;
use super::reorder::{BlockContent, BlockOutcome, ReorderBuffer};
use super::space::Promise;
use crate::error::Error;
use crate::journal::{Journal, Row, Subject};

/// The size and time of a file at the source, which an unfinished file must match.
pub(super) fn subject(wanted: &Wanted) -> Subject {
    Subject { size: wanted.size, mtime: wanted.mtime }
}

/// A file that blocks are being written to.
pub(super) struct Incoming {
    wanted: Wanted,
    /// The digest of what is there already, where that decides.
    there: Option<Digest>,
    sink: Mutex<SinkState>,
    serial: Mutex<InOrder>,
    /// Locked shared while a block is written and entered, exclusively while the file is committed: a block that arrives twice must
    /// not be written into a committed file.
    gate: RwLock<CommitGate>,
    /// Promised space, until it is reserved in the file system or written.
    promise: Mutex<Option<Promise>>,
    log: Mutex<JournalState>,
    /// Holes must be written as zeros: the unfinished file is an earlier attempt's, or the target has no holes.
    fills_holes: bool,
    /// The target takes the file in order.
    reorder: Option<ReorderBuffer>,
}

/// The payload of a part.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    /// Its bytes, none for a hole.
    Bytes(&'a [u8]),
    /// A mover has written them.
    Written,
}

/// An unfinished file, and the tag it was made with.
#[derive(Clone)]
struct Unfinished {
    sink: Arc<dyn Sink>,
    tag: String,
}

/// The unfinished file that blocks are written to, if there is one.
#[derive(Default)]
enum SinkState {
    /// Not made yet: the first block makes it.
    #[default]
    Empty,
    /// The unfinished file.
    Open(Unfinished),
    /// Given up or left: a late block must not make it again.
    Gone,
}

/// The journal of a file's blocks.
#[derive(Default)]
struct JournalState {
    journal: Option<Journal>,
    /// The journal can no longer be written: a later attempt cannot resume, but the unfinished file is still guarded.
    broken: bool,
    /// Blocks that wait to be durable, and their bytes.
    waiting: Vec<Row>,
    waiting_bytes: u64,
}

/// In a durable job, journalled blocks are on stable storage: so many bytes are flushed together.
const FLUSH_BYTES: u64 = 64 << 20;

/// From this size on, room is reserved in the file system when a file is begun.
const RESERVE_BYTES: u64 = 1 << 20;

/// Whether blocks may still be written: the gate closes before the file is committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitGate {
    Open,
    Closed,
}

impl Incoming {
    pub(super) fn new(sinks: &impl Sinks, wanted: Wanted, there: Option<Digest>, promise: Option<Promise>) -> Incoming {
        let serial = Mutex::new(InOrder::new(&sinks.policy().options.checksums));
        let (gate, log, promise) = (RwLock::new(CommitGate::Open), Mutex::default(), Mutex::new(promise));
        let writes = sinks.store().capabilities().writes;
        let reorder = (writes == Writes::InOrder).then(|| ReorderBuffer::new(sinks.held_blocks()));
        let (sink, fills_holes) = (Mutex::default(), writes != Writes::Anywhere);
        Incoming { wanted, there, sink, serial, gate, promise, log, fills_holes, reorder }
    }

    /// Resumes the unfinished file of an earlier attempt.
    pub(super) fn going_on(self, sink: Arc<dyn Sink>, journal: Journal) -> Incoming {
        *self.slot() = SinkState::Open(Unfinished { sink, tag: journal.tag().to_owned() });
        self.log().journal = Some(journal);
        Incoming { fills_holes: true, ..self }
    }

    fn slot(&self) -> MutexGuard<'_, SinkState> {
        self.sink.lock()
    }

    /// Takes the unfinished file away, so that nobody writes to it any more.
    fn take_sink(&self) -> Option<Arc<dyn Sink>> {
        match std::mem::replace(&mut *self.slot(), SinkState::Gone) {
            SinkState::Open(open) => Some(open.sink),
            SinkState::Empty | SinkState::Gone => None,
        }
    }

    fn log(&self) -> MutexGuard<'_, JournalState> {
        self.log.lock()
    }

    fn settle_promise(&self) {
        drop(self.promise().take());
    }

    fn promise(&self) -> MutexGuard<'_, Option<Promise>> {
        self.promise.lock()
    }

    /// Writes a block and enters it, unless the file is on its way to its name already.
    pub(super) fn take(
        &self,
        sinks: &impl Sinks,
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
            Payload::Bytes(bytes) => self.write(sinks, part, bytes),
            Payload::Written => self.reached(part),
        };
        let written = written.and_then(|turn| {
            self.note(sinks, part, sum)?;
            Ok(turn)
        });
        match written {
            // Another block's failure, or the end of the job, is the reason, and has been told.
            Ok(BlockOutcome::Late) => Ok(Ok(Stored::Unwanted)),
            Ok(BlockOutcome::Taken) => {
                if let Some(promise) = &mut *self.promise() {
                    promise.kept(if part.hole { 0 } else { part.len });
                }
                enter().map(Ok)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// A mover has written a block.
    fn reached(&self, part: &Part) -> store::Result<BlockOutcome> {
        match &*self.slot() {
            SinkState::Open(open) if !part.hole => open.sink.reached(part.offset + part.len),
            SinkState::Open(_) | SinkState::Empty => {}
            SinkState::Gone => return Ok(BlockOutcome::Late),
        }
        Ok(BlockOutcome::Taken)
    }

    /// Where a mover finds the file; nowhere where it is complete, or has been given up.
    pub(super) fn place(&self, sinks: &impl Sinks) -> store::Result<Option<FileLocation>> {
        let gate = self.gate.read();
        if *gate == CommitGate::Closed {
            return Ok(None);
        }
        let Some(path) = sinks.below_target(&self.wanted.path) else { return Ok(None) };
        let tag = self.open(sinks)?.tag;
        Ok(Some(FileLocation { path, tag, size: self.wanted.size, fills_holes: self.fills_holes }))
    }

    fn sink(&self, sinks: &impl Sinks) -> store::Result<Arc<dyn Sink>> {
        self.open(sinks).map(|open| open.sink)
    }

    /// The file, made on first use.
    fn open(&self, sinks: &impl Sinks) -> store::Result<Unfinished> {
        let mut slot = self.slot();
        match &*slot {
            SinkState::Open(open) => return Ok(open.clone()),
            SinkState::Gone => return Err(late()),
            SinkState::Empty => {}
        }
        match self.begin(sinks) {
            Ok(made) => {
                *slot = SinkState::Open(made.clone());
                Ok(made)
            }
            Err(error) => {
                // Else the next block would wait for this journal in vain, and begin a file that it says nothing about.
                self.end_journal();
                Err(error)
            }
        }
    }

    fn begin(&self, sinks: &impl Sinks) -> store::Result<Unfinished> {
        let (made, tag) = match self.begin_journal(sinks) {
            Some(tag) => {
                let made = sinks.with_room(|| sinks.store().create(&self.wanted.path, &tag))?;
                made.guard();
                (made, tag)
            }
            None => {
                sinks.opening(&self.wanted.path.parent());
                let tag = format!("{}-{:x}", sinks.policy().tag, self.wanted.id);
                (sinks.with_room(|| sinks.store().create(&self.wanted.path, &tag))?, tag)
            }
        };
        made.announce(&FileAnnouncement {
            size: Some(self.wanted.size).filter(|size| *size != UNKNOWN_SIZE),
            mtime: self.wanted.mtime,
            replace: sinks.policy().replaces(),
        })?;
        let sparse = self.wanted.attributes.as_ref().is_some_and(|a| a.sparse);
        if !sparse && self.wanted.size != UNKNOWN_SIZE && self.wanted.size >= RESERVE_BYTES {
            // Room that is only there, and not taken, stays promised until it is written.
            if sinks.with_room(|| made.reserve(self.wanted.size))? {
                self.settle_promise();
            }
        }
        Ok(Unfinished { sink: made, tag })
    }

    /// Takes the file's journal, where it is worth one and nobody else has it. Returns the tag of the unfinished file.
    fn begin_journal(&self, sinks: &impl Sinks) -> Option<String> {
        // A state directory that cannot be written to costs the resume, not the transfer.
        let (journals, mut journal, there) = sinks.journal_of(&self.wanted)?;
        if !there.is_empty() {
            journal.restart(journals, &self.wanted.path, subject(&self.wanted), &[]).ok()?;
        }
        let tag = journal.tag().to_owned();
        // Of an attempt about another subject, or from before its journal was lost. What cannot be removed (somebody
        // else's file, a directory) is in the way of the resume, not of the transfer.
        if sinks.store().forget(&self.wanted.path, &tag).is_err() {
            journal.remove();
            return None;
        }
        self.log().journal = Some(journal);
        Some(tag)
    }

    /// Writes down that a block has been written.
    fn note(&self, sinks: &impl Sinks, part: &Part, sum: BlockSum) -> store::Result<()> {
        let mut log = self.log();
        if log.journal.is_none() || log.broken || part.len == 0 {
            return Ok(());
        }
        log.waiting.push(Row { offset: part.offset, len: part.len, sum });
        log.waiting_bytes += part.len;
        if sinks.policy().options.durable && log.waiting_bytes < FLUSH_BYTES {
            return Ok(());
        }
        self.write_log(sinks, &mut log)
    }

    fn write_log(&self, sinks: &impl Sinks, log: &mut JournalState) -> store::Result<()> {
        let durable = sinks.policy().options.durable;
        if durable && let SinkState::Open(open) = &*self.slot() {
            open.sink.flush()?;
        }
        let rows = std::mem::take(&mut log.waiting);
        log.waiting_bytes = 0;
        if let Some(journal) = &mut log.journal {
            let written = journal.write(&rows).and_then(|()| if durable { journal.flush() } else { Ok(()) });
            log.broken = written.is_err();
        }
        Ok(())
    }

    fn write(&self, sinks: &impl Sinks, part: &Part, bytes: &[u8]) -> store::Result<BlockOutcome> {
        let sink = self.sink(sinks)?;
        let content = if part.hole { BlockContent::Hole(part.len) } else { BlockContent::Bytes(bytes) };
        let put = |offset, content: BlockContent<'_>| self.put(sinks, &*sink, offset, content);
        match &self.reorder {
            Some(reorder) => reorder.take(part.offset, content, || sinks.is_over(), put),
            None => put(part.offset, content).map(|()| BlockOutcome::Taken),
        }
    }

    fn put(&self, sinks: &impl Sinks, sink: &dyn Sink, offset: u64, content: BlockContent<'_>) -> store::Result<()> {
        let mut serial = self.serial.lock();
        match content {
            BlockContent::Hole(len) => serial.feed_hole(offset, len),
            BlockContent::Bytes(bytes) => serial.feed(offset, bytes),
        }
        drop(serial);
        match content {
            BlockContent::Hole(len) if self.fills_holes => sinks.with_room(|| sink.clear(offset, len)),
            BlockContent::Hole(_) | BlockContent::Bytes([]) => Ok(()),
            BlockContent::Bytes(bytes) => sinks.with_room(|| sink.write_at(bytes, offset)),
        }
    }

    /// Removes what was written of it.
    fn discard(&self) {
        self.reorder.iter().for_each(ReorderBuffer::give_up);
        if let Some(sink) = self.take_sink() {
            sink.discard();
        }
        self.end_journal();
    }

    fn end_journal(&self) {
        if let Some(journal) = self.log().journal.take() {
            journal.remove();
        }
    }

    /// Keeps what was written of it for a later attempt, where that is written down. No block is being written then, and
    /// none will be: whoever goes on with it must not be written to behind its back.
    fn keep(&self, sinks: &impl Sinks) {
        self.reorder.iter().for_each(ReorderBuffer::give_up);
        *self.gate.write() = CommitGate::Closed;
        let mut log = self.log();
        if !log.broken && !log.waiting.is_empty() {
            log.broken = self.write_log(sinks, &mut log).is_err();
        }
        let (kept, broken) = (log.journal.take(), log.broken);
        drop(log);
        match (kept, self.take_sink()) {
            (Some(_locked), Some(sink)) if !broken => sink.keep(),
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
    /// Makes room for a file's blocks, before the sender can hear that it is wanted.
    pub(super) fn expect_file(&self, incoming: Incoming) {
        self.incoming().insert(incoming.wanted.id, Arc::new(incoming));
    }

    /// A file cannot be written. What would meet every other file as well will pass: then what is there is kept.
    pub(super) fn file_failed(&self, id: u64, error: store::Error) {
        if error.is_fatal() {
            self.leave(id);
        } else {
            self.discard(id);
        }
        self.store_failed(id, error);
    }

    /// The job ends before the file is complete.
    pub(super) fn leave(&self, id: u64) {
        let incoming = self.incoming().remove(&id);
        if let Some(incoming) = incoming {
            self.fence(id);
            incoming.keep(self);
        }
    }

    fn store_failed(&self, id: u64, error: store::Error) {
        let refusal = Refusal::from_error(&error);
        // Said before the file is settled: if it was the last one, the job would otherwise end in peace first.
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

//! The sending side of a job: stream threads take orders from the machine, and read, digest, seal and send ranges.
//!
//! What it does not know: where streams come from, and what the control connection carries; see [`crate::job`].

mod deals;
mod mover_streams;
mod pace;
pub(crate) mod read;
mod sending_stream;
mod side;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::checksum::Digest;
use model::name::RelPath;
use model::spec::Options;
use model::{Fault, Refusal, Timestamp, v1};
use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::waker::Waker;
use wire::Sender;
use wire::frame::{JobName, Offered, PlaceToken, Plan};
use wire::sender::{MISSES_NAMED_MAX, Miss, Order, Range};

use crate::error::{Error, Result};

use crate::lineage;
use crate::meter::{Meter, Stage};
use crate::scan::{ScanSink, ScannedEntry, SourceRoot};
use crate::stream::{DataStream, RecordBuffer};

use pace::Pace;
use read::{OpenFiles, Pending};
use sending_stream::SendingStream;

struct State {
    machine: Sender,
    over: bool,
    failure: Option<Error>,
    /// Streams that are surplus.
    retired: BTreeSet<u32>,
    /// Files that have changed since the last copy, until the receiver gets their ids.
    doubted: Vec<u64>,
}

/// The sending side of one job, shared by its threads.
pub struct Sending {
    state: Mutex<State>,
    /// Stream threads wait here for orders.
    work: Condvar,
    /// The scanner waits here for room.
    room: Condvar,
    waker: Waker,
    open_files: OpenFiles,
    specials: Mutex<Vec<RelPath>>,
    /// Unfinished files that were left out.
    unfinished: AtomicU64,
    /// The last copy may have missed changes from this time on.
    unseen_from: OnceLock<Timestamp>,
    /// The place tokens of the sources, until the receiver gets them.
    lineage: Mutex<Vec<Vec<PlaceToken>>>,
    job: OnceLock<JobName>,
    pace: Pace,
    busy: Mutex<String>,
}

/// How often a stream that waits checks whether its connection is lost.
const CHECK_EVERY: Duration = Duration::from_millis(250);

impl Sending {
    /// The sending side of a job from these sources.
    pub fn new(mut roots: Vec<SourceRoot>, options: &Options, waker: Waker) -> Arc<Sending> {
        if options.copy_links {
            roots.iter_mut().for_each(SourceRoot::follow_links);
        }
        let names = roots.iter().map(|r| r.name.clone()).collect();
        let checksums = options.checksums.clone();
        let machine = Sender::new(checksums.clone(), names);
        let machine = if options.dry_run { machine.dry() } else { machine };
        let retired = BTreeSet::new();
        Arc::new(Sending {
            state: Mutex::new(State { machine, over: false, failure: None, retired, doubted: Vec::new() }),
            unseen_from: OnceLock::new(),
            work: Condvar::new(),
            room: Condvar::new(),
            waker,
            open_files: OpenFiles::new(roots, checksums),
            specials: Mutex::default(),
            unfinished: AtomicU64::new(0),
            lineage: Mutex::default(),
            job: OnceLock::new(),
            pace: Pace::default(),
            busy: Mutex::default(),
        })
    }

    /// Sends the receiver the place tokens of the sources, before any entry is offered.
    pub fn send_lineage(&self, job: &JobName) {
        *self.lineage.lock() = lineage::of_sources(job, self.roots());
        let _ = self.job.set(*job);
    }

    /// Sets the time from which on the last copy to the same target may have missed changes: files that have changed since are not skipped
    /// by length and time alone.
    pub fn doubt_from(&self, unseen_from: Timestamp) {
        let _ = self.unseen_from.set(unseen_from);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Builds the records that go on the control connection.
    ///
    /// # Errors
    /// The machine's state is inconsistent.
    pub fn pump_inline(&self) -> Result<()> {
        let mut buffer: Option<RecordBuffer> = None;
        let meter = Meter::default();
        loop {
            let Some(range) = self.state().machine.next_inline() else { return Ok(()) };
            let buffer = buffer.get_or_insert_default();
            let pending = self.build(std::slice::from_ref(&range), buffer, &meter);
            if !pending.parts.is_empty() {
                let record = buffer.to_inline(&pending.parts);
                let built = self.state().machine.built_inline(record, &pending.built);
                built.map_err(Error::Bookkeeping)?;
            }
        }
    }

    /// The next order for a stream; waits for one. Meanwhile the stream checks whether its connection is lost: the last records that it
    /// carried may not have arrived.
    fn next_order(&self, stream: &impl SendingStream) -> Result<NextOrder> {
        let mut state = self.state();
        loop {
            if state.over {
                return Ok(NextOrder::Over);
            }
            if state.retired.contains(&stream.id()) || stream.is_surplus() {
                return Ok(NextOrder::Retire);
            }
            if let Some(order) = state.machine.next_order(stream.id()) {
                return Ok(NextOrder::Order(order));
            }
            if self.work.wait_for(&mut state, CHECK_EVERY).timed_out() && !state.over && stream.is_lost() {
                return Err(stream.lost());
            }
        }
    }

    /// Waits until all that a surplus stream carried has arrived.
    fn drain(&self, stream: &impl SendingStream) -> Result<()> {
        let mut state = self.state();
        while !state.over && state.machine.unacknowledged(stream.id()) > 0 {
            self.work.wait_for(&mut state, CHECK_EVERY);
            if !state.over && stream.is_lost() {
                return Err(stream.lost());
            }
        }
        state.machine.stream_lost(stream.id());
        Ok(())
    }

    /// Sends until the job is over or the stream is surplus. Returns whether the stream could carry another job.
    fn send_loop(&self, stream: &mut DataStream) -> Result<bool> {
        let mut buffer = RecordBuffer::default();
        let meter = Arc::clone(stream.meter());
        loop {
            let ranges = match self.next_ranges(stream, &meter, &mut buffer)? {
                NextRanges::Over => return Ok(true),
                NextRanges::Retire => {
                    stream.finish();
                    return Ok(false);
                }
                NextRanges::Ranges(ranges) => ranges,
            };
            let pending = self.build(&ranges, &mut buffer, &meter);
            if pending.parts.is_empty() {
                self.waker.wake();
                continue;
            }
            let built = self.state().machine.built(stream.id(), &pending.built);
            built.map_err(Error::Bookkeeping)?;
            if !pending.last.is_empty() {
                self.waker.wake();
            }
            meter.enter(Stage::Pace);
            if !self.pace.wait(buffer.payload().len() as u64) {
                return Ok(true);
            }
            stream.send(&pending.parts, &mut buffer)?;
        }
    }

    /// Waits for the ranges that a stream is to send next. Compares files and checks claims meanwhile, where the machine orders it.
    fn next_ranges(&self, stream: &impl SendingStream, meter: &Meter, buffer: &mut RecordBuffer) -> Result<NextRanges> {
        loop {
            meter.enter(Stage::Idle);
            match self.next_order(stream)? {
                NextOrder::Over => return Ok(NextRanges::Over),
                NextOrder::Retire => {
                    self.drain(stream)?;
                    return Ok(NextRanges::Retire);
                }
                NextOrder::Order(Order::Send(ranges)) => return Ok(NextRanges::Ranges(ranges)),
                NextOrder::Order(Order::Compare { range, known }) => {
                    let equal = meter.within(Stage::Storage, || self.compare(&range, &known));
                    equal.as_ref().err().into_iter().for_each(|refusal| self.unreachable(refusal));
                    self.state().machine.compared(range.file, equal);
                    self.work.notify_all();
                    self.waker.wake();
                }
                NextOrder::Order(Order::Check { range, crc32c }) => {
                    meter.within(Stage::Storage, || self.check_claim(&range, crc32c, buffer));
                }
            }
        }
    }

    /// Compares a range that the receiver has from an earlier attempt with the source.
    fn check_claim(&self, range: &Range, crc32c: u32, buffer: &mut RecordBuffer) {
        let same = self.open_files.check(self, range, crc32c, buffer, &|| self.state().over);
        let last = self.state().machine.checked(range.file, (range.offset, range.len), same);
        if last && let Err(refusal) = self.digest_serially(range) {
            self.drop_file(range.file, refusal);
        }
        self.work.notify_all();
        self.waker.wake();
    }

    fn drop_file(&self, id: u64, refusal: Refusal) {
        self.unreachable(&refusal);
        self.state().machine.drop_file(id, refusal);
        self.waker.wake();
    }

    /// The entries that failed, by name, as far as this side knows.
    pub fn misses(&self) -> Vec<Miss> {
        self.state().machine.misses().to_vec()
    }

    fn note_special(&self, source: u32, path: &RelPath) {
        let mut specials = self.specials.lock();
        if specials.len() < MISSES_NAMED_MAX {
            let root = RelPath::root().join(&self.open_files.roots[source as usize].name);
            specials.push(root.join_path(path));
        }
    }

    /// FIFOs, sockets and devices that were left out, by name.
    pub fn specials(&self) -> Vec<RelPath> {
        self.specials.lock().clone()
    }

    /// The receiver's totals once the job is finished; until then this end's count.
    pub fn totals(&self) -> wire::frame::Totals {
        let state = self.state();
        *state.machine.finished().unwrap_or(state.machine.settled())
    }

    /// The digests of the file that ended last.
    pub fn last_digests(&self) -> Vec<Digest> {
        self.state().machine.last_digests().to_vec()
    }

    /// Bytes that were sent more than once.
    pub fn resent_bytes(&self) -> u64 {
        self.state().machine.resent_bytes()
    }

    /// Reports why nothing moves while a file is read in full for its digests.
    fn digesting<T>(&self, path: &RelPath, make: impl FnOnce() -> T) -> T {
        let set_busy = |why: String| *self.busy.lock() = why;
        set_busy(format!("making the digests of {path} at the source"));
        let digests = make();
        set_busy(String::new());
        digests
    }

    /// Steps of a dry run that the receiver has reported since the last call.
    pub fn take_plans(&self) -> Vec<Plan> {
        self.state().machine.take_plans()
    }

    fn build<'m>(&self, ranges: &[Range], buffer: &mut RecordBuffer, meter: &'m Meter) -> Pending<'m> {
        meter.enter(Stage::Compute);
        buffer.clear();
        let mut pending = Pending::new(meter);
        for (at, range) in ranges.iter().enumerate() {
            let mark = pending.mark();
            if let Err(refusal) = self.open_files.read_range(self, range, ranges.len() - at, buffer, &mut pending) {
                pending.rewind(mark, buffer);
                self.drop_file(range.file, refusal);
            }
        }
        pending
    }
}

/// The ranges that a stream is to send next.
enum NextRanges {
    /// These ranges, as one record.
    Ranges(Vec<Range>),
    /// None: the stream is surplus, and all that it carried has arrived.
    Retire,
    /// None: the job is over.
    Over,
}

/// The next order for a stream.
enum NextOrder {
    Order(Order),
    /// The stream is surplus.
    Retire,
    /// The job is over.
    Over,
}

impl ScanSink for Sending {
    fn roots(&self) -> &[SourceRoot] {
        &self.open_files.roots
    }

    fn offer(&self, found: ScannedEntry) -> Option<u64> {
        let mut state = self.state();
        while !state.over && !state.machine.has_room() {
            self.room.wait(&mut state);
        }
        if state.over {
            return None;
        }
        if found.what == Offered::Special {
            self.note_special(found.source, &found.path);
        }
        let id = state.machine.offer_with(found.source, found.path, found.name, found.what, found.attributes);
        if let Some(changed) = found.changed {
            state.machine.note_changed(id, changed);
            if self.unseen_from.get().is_some_and(|from| changed >= *from) {
                state.doubted.push(id);
            }
        }
        state.machine.set_expected(id, found.expected);
        drop(state);
        self.waker.wake();
        Some(id)
    }

    fn leave(&self) -> Option<()> {
        let mut state = self.state();
        state.machine.leave();
        (!state.over).then_some(())
    }

    fn scan_end(&self) {
        self.state().machine.scan_end();
        self.waker.wake();
    }

    fn left_out(&self, files: u64) {
        self.unfinished.fetch_add(files, Ordering::Relaxed);
    }

    fn reached(&self, identity: (u64, u64)) {
        if let Some(job) = self.job.get() {
            let token = lineage::token(job, identity);
            self.lineage.lock().push(vec![token]);
        }
    }

    fn unreachable(&self, refusal: &Refusal) {
        if refusal.fault == Fault::Path {
            self.state().failure.get_or_insert_with(|| Error::ThisEnd(refusal.clone()));
            self.waker.wake();
        }
    }
}

/// The node's facts about streams, with the addresses that this end sees.
pub(crate) fn with_addresses(mut facts: Vec<v1::Stream>, ours: &[v1::Stream]) -> Vec<v1::Stream> {
    for stream in &mut facts {
        if let Some(own) = ours.iter().find(|own| own.id == stream.id) {
            stream.address.clone_from(&own.address);
            stream.peer_address.clone_from(&own.peer_address);
        }
    }
    facts
}

/// The facts about a connection that carried no records, in the form of a receipt: the kernel's counters since `base`.
pub fn control_facts(socket: &std::net::TcpStream, base: &model::tcp::TcpInfo) -> v1::Stream {
    crate::stream::facts(socket, 0, 0, "sealed", base)
}

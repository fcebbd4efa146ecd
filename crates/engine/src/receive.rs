//! The receiving side of a job: stream threads receive records, check them, write their blocks and commit complete files; the metadata
//! worker makes directories and links and judges existing files; the resume verifier judges the files that take long to judge.
//!
//! What it does not know: where streams come from, and access control beyond its [`Policy`].

mod dry;
mod extras;
mod file;
mod metadata_worker;
mod mover_streams;
mod reorder;
mod resume_verifier;
mod space;
mod target_place;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::Progress;
use model::account::TargetWaits;
use model::checksum::{BlockSum, Digest};
use model::name::RelPath;
use model::spec::{LiveSettings, Options};
use model::{Algorithm, Expected, Refusal};
use parking_lot::{Condvar, Mutex, MutexGuard};
use store::Store;
use sys::waker::Waker;
use wire::frame::{Counts, JobName, PlaceToken, Plan, Removal, Totals};
use wire::limits::ENTRIES_IN_FLIGHT_MAX;
use wire::receiver::{Stored, Target};
use wire::record::Part;
use wire::sender::Miss;
use wire::{Frame, Receiver, SettledFile, WireError};

use crate::error::{Error, Result};
use crate::filter::Filters;
use crate::journal::Journals;
use crate::lineage::{self, Nested};
use crate::meter::{Meter, Stage};
use crate::movers::{MoverSide, MoverStream, Movers};
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, RecordBuffer};

use extras::Extras;
use file::{Incoming, Payload};
use reorder::HeldBlocks;
use resume_verifier::SlowFile;
use space::SpaceState;

pub use target_place::TargetPlace;

/// The settings of the receiving side, and its rights on existing files.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The job's options.
    pub options: Options,
    /// Whether existing files may be replaced; if not, why.
    pub may_replace: std::result::Result<(), Refusal>,
    /// Part of the names of unfinished files: random, chosen by this end for this attempt, so that no other job and no
    /// earlier attempt of this one can have it.
    pub tag: String,
    /// The journals of large files; none where unfinished files are not kept for a later attempt.
    pub journals: Option<Journals>,
    /// Steps of a dry run are reported to the other end, not to this one's caller.
    pub reports_plans: bool,
}

impl Policy {
    /// Whether existing files are replaced.
    fn replaces(&self) -> bool {
        !self.options.no_overwrite && self.may_replace.is_ok()
    }
}

struct State {
    machine: Receiver,
    over: bool,
    failure: Option<Error>,
}

/// The receiving side of one job, shared by its threads.
pub struct Receiving {
    state: Mutex<State>,
    /// The metadata worker waits here for something to do.
    actions: Condvar,
    waker: Waker,
    store: Arc<dyn Store>,
    target: Target,
    policy: Policy,
    incoming: Mutex<HashMap<u64, Arc<Incoming>>>,
    /// Directories that existed before and may not be changed.
    kept_dirs: Mutex<HashSet<u64>>,
    before_unfinished_file: Box<dyn Fn(&model::RelPath) + Send + Sync>,
    filters: Filters,
    slow: Mutex<VecDeque<SlowFile>>,
    /// The resume verifier waits here.
    slow_work: Condvar,
    room: SpaceState,
    /// Blocks that wait for those before them, where the target takes files in order.
    held_blocks: Arc<HeldBlocks>,
    busy: Mutex<String>,
    waited: Mutex<TargetWaits>,
    /// How many files wait for another job that writes them, and since when.
    others_write: Mutex<(u32, Option<Instant>)>,
    /// Files that are not skipped by length and time alone.
    doubted: Mutex<HashSet<u64>>,
    /// More files were doubted than [`DOUBTED_MAX`]: all files count as doubted.
    doubts_all: AtomicBool,
    /// The job by which the sender computes the tokens of its sources.
    job: OnceLock<JobName>,
    /// Entries of which only the metadata were updated.
    refreshed: AtomicU64,
    /// Offered entries that existed before.
    found: AtomicU64,
    /// Entries that exist and were not offered.
    extras: Mutex<Extras>,
    /// The job is over; sleeping threads are woken.
    over: AtomicBool,
    sleepers: (Mutex<()>, Condvar),
    /// Movers, which may be writing to unfinished files too.
    movers: Mutex<Option<Movers>>,
}

/// The checksum of a part, if it is the one in the record.
pub(crate) fn check(checksums: &[Algorithm], part: &Part, bytes: &[u8]) -> Option<BlockSum> {
    if checksums.is_empty() {
        return Some(BlockSum { crc32c: part.crc32c, adler32: None });
    }
    let with_adler32 = checksums.contains(&Algorithm::Adler32);
    let sum = if part.hole { BlockSum::of_zeros(part.len, with_adler32) } else { BlockSum::of(bytes, with_adler32) };
    (sum.crc32c == part.crc32c).then_some(sum)
}

/// The number of records of one stream after which the sender gets a report without waiting for the next tick.
const RECORDS_PER_WAKE: u64 = 16;
/// Files that the sender may doubt before they are judged.
const DOUBTED_MAX: usize = ENTRIES_IN_FLIGHT_MAX;

impl Receiving {
    /// The receiving side of a job. `before_unfinished_file` gets each directory before an unfinished file is made there.
    pub fn new(
        store: Arc<dyn Store>,
        target: Target,
        policy: Policy,
        waker: Waker,
        before_unfinished_file: Box<dyn Fn(&model::RelPath) + Send + Sync>,
    ) -> Arc<Receiving> {
        let mut machine = Receiver::new(target.clone(), policy.options.checksums.clone());
        if policy.options.delete.is_allowed() {
            machine = machine.deleting();
        }
        if policy.options.dry_run {
            machine = machine.dry();
        }
        let filters = Filters::new(&policy.options.filters).unwrap_or_else(|_| Filters::nothing());
        Arc::new(Receiving {
            state: Mutex::new(State { machine, over: false, failure: None }),
            actions: Condvar::new(),
            waker,
            store,
            target,
            policy,
            incoming: Mutex::default(),
            kept_dirs: Mutex::default(),
            before_unfinished_file,
            filters,
            slow: Mutex::default(),
            slow_work: Condvar::new(),
            room: SpaceState::default(),
            held_blocks: Arc::default(),
            busy: Mutex::default(),
            waited: Mutex::default(),
            others_write: Mutex::default(),
            doubted: Mutex::default(),
            doubts_all: AtomicBool::new(false),
            job: OnceLock::new(),
            refreshed: AtomicU64::new(0),
            found: AtomicU64::new(0),
            extras: Mutex::default(),
            over: AtomicBool::new(false),
            sleepers: Default::default(),
            movers: Mutex::default(),
        })
    }

    /// Sets the expected sizes and digests of files, by their paths below the target.
    pub fn set_expected(&self, expected: HashMap<RelPath, Expected>) {
        self.state().machine.set_expected(expected);
    }

    /// Sets the job by which the sender computes the tokens of its sources.
    pub fn expect_lineage(&self, job: JobName) {
        let _ = self.job.set(job);
    }

    /// Fails a job that would copy a tree into itself, or remove its own source, before anything is made or removed.
    fn refuse_nested(&self, sources: &[Vec<PlaceToken>]) {
        let Some(job) = self.job.get() else { return };
        let path = &self.target.path;
        let nested = sources.iter().find_map(|source| lineage::nested(job, source, &*self.store, &self.target));
        let target = if path.is_root() { "the target".to_owned() } else { path.to_string() };
        let error = match nested {
            Some(Nested::TargetWithin) if self.policy.options.recursive => Error::TargetWithinSource { target },
            Some(Nested::SourceWithin) if self.policy.options.delete.is_allowed() => {
                Error::SourceWithinTarget { target }
            }
            _ => return,
        };
        self.fail(error);
        self.close();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Sleeps, unless the job is over. Returns whether it is.
    fn sleep(&self, span: Duration) -> bool {
        let (lock, woken) = &self.sleepers;
        woken.wait_while_for(&mut lock.lock(), |()| !self.is_over(), span);
        self.is_over()
    }

    /// Reports why nothing moves, until the result is dropped.
    fn busy_with(&self, why: String) -> impl Drop + '_ {
        struct Busy<'a>(&'a Receiving);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                self.0.set_busy(String::new());
            }
        }
        self.set_busy(why);
        Busy(self)
    }

    /// Sets the reason why nothing moves; empty when bytes move.
    fn set_busy(&self, why: String) {
        *self.busy.lock() = why;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn incoming(&self) -> MutexGuard<'_, HashMap<u64, Arc<Incoming>>> {
        self.incoming.lock()
    }

    /// Notes files that the sender knows to have changed since they were last copied to this target.
    fn doubt(&self, ids: Vec<u64>) {
        let mut doubted = self.doubted.lock();
        // A sender has no more files than this in flight.
        if doubted.len() + ids.len() > DOUBTED_MAX {
            self.doubts_all.store(true, Ordering::Relaxed);
        } else {
            doubted.extend(ids);
        }
    }

    /// Whether a file must not be skipped by length and time alone.
    fn is_doubted(&self, id: u64) -> bool {
        let is_named = self.doubted.lock().remove(&id);
        is_named || self.doubts_all.load(Ordering::Relaxed)
    }

    /// Adds the time of a wait.
    fn note_wait(&self, note: impl FnOnce(&mut TargetWaits)) {
        note(&mut self.waited.lock());
    }

    /// Fails the job.
    fn fail(&self, error: Error) {
        let mut state = self.state();
        state.failure.get_or_insert(error);
        drop(state);
        self.waker.wake();
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        *self.state().machine.totals()
    }

    /// The digests of the file that was completed last.
    pub fn last_digests(&self) -> Vec<Digest> {
        self.state().machine.last_digests().to_vec()
    }

    /// The entries that failed, by name.
    pub fn misses(&self) -> Vec<Miss> {
        self.state().machine.misses().to_vec()
    }

    /// FIFOs, sockets and devices that were left out, by name.
    pub fn specials(&self) -> Vec<model::RelPath> {
        self.state().machine.specials().to_vec()
    }

    /// Processes a record: checks every part, writes those that are expected, completes files.
    fn take_record(&self, parts: &[Part], payload: &[u8], meter: &Meter) -> std::result::Result<(), WireError> {
        let mut at = 0;
        for part in parts {
            let len = if part.hole { 0 } else { part.len as usize };
            let bytes = &payload[at..at + len];
            at += len;
            meter.enter(Stage::Compute);
            let sum = check(&self.policy.options.checksums, part, bytes);
            let expected = self.state().machine.expects(part)?;
            match sum {
                _ if !expected => {}
                None => {
                    self.state().machine.damaged(part)?;
                    self.waker.wake();
                }
                Some(sum) => {
                    meter.enter(Stage::Storage);
                    self.take_part(part, Payload::Bytes(bytes), sum)?;
                }
            }
        }
        Ok(())
    }

    fn take_part(&self, part: &Part, payload: Payload<'_>, sum: BlockSum) -> std::result::Result<(), WireError> {
        let Some(incoming) = self.incoming().get(&part.file).cloned() else { return Ok(()) };
        match incoming.take(self, part, payload, sum, || self.state().machine.stored(part, sum))? {
            Err(error) => self.file_failed(part.file, error),
            Ok(Stored::Complete(complete)) => self.complete(&complete),
            // The machine may have given the file up over this block, which leaves the metadata worker something to do.
            Ok(Stored::Unwanted) => {
                self.actions.notify_one();
                self.waker.wake();
            }
            Ok(Stored::Open) => {}
        }
        Ok(())
    }

    /// Receives records until the stream ends or the sender marks the end of the job's records. Returns whether the stream may carry
    /// another job.
    fn receive_loop(&self, stream: &mut DataStream) -> Result<bool> {
        let mut buffer = RecordBuffer::default();
        let mut records = 0u64;
        loop {
            let Some(parts) = stream.receive(&mut buffer)? else { return Ok(false) };
            if parts.is_empty() {
                return Ok(true);
            }
            let taken = self.take_record(&parts, buffer.payload(), stream.meter());
            if let Err(source) = taken {
                // The fault is not the stream's but the peer's: the job ends.
                self.fail(Error::Protocol { peer: "the sender".into(), source });
                return Ok(false);
            }
            self.state().machine.record_done(stream.id());
            records += 1;
            if records.is_multiple_of(RECORDS_PER_WAKE) {
                self.waker.wake();
            }
        }
    }
}

impl Side for Receiving {
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError> {
        if let Frame::Lineage(sources) = frame {
            self.refuse_nested(&sources);
            return Ok(());
        }
        if let Frame::Doubted(ids) = frame {
            self.doubt(ids);
            return Ok(());
        }
        if let Frame::Same(ids) = &frame {
            ids.iter().for_each(|id| self.skip_unchanged(*id));
        }
        let result = self.state().machine.handle_frame(frame);
        self.actions.notify_one();
        result
    }

    fn poll_frame(&self) -> Option<Frame> {
        let mut state = self.state();
        if self.policy.reports_plans {
            let plans = state.machine.take_plans();
            if !plans.is_empty() {
                return Some(Frame::Plans(plans));
            }
            if let Some(removal) = state.machine.take_removal() {
                return Some(Frame::Removing(removal));
            }
        }
        state.machine.poll_frame()
    }

    fn report_files(&self) {
        self.state().machine.report_files();
    }

    fn take_files(&self) -> Vec<SettledFile> {
        self.state().machine.take_files()
    }

    fn current(&self) -> Option<RelPath> {
        self.state().machine.current()
    }

    fn take_removal(&self) -> Option<Removal> {
        if self.policy.reports_plans { None } else { self.state().machine.take_removal() }
    }

    fn take_plans(&self) -> Vec<Plan> {
        if self.policy.reports_plans { Vec::new() } else { self.state().machine.take_plans() }
    }

    fn pump(&self) -> Result<()> {
        Ok(())
    }

    fn tick(&self) {
        self.state().machine.tick();
    }

    /// Nothing to do: the sender keeps the limit, the client the number of streams.
    fn steer(&self, _to: &LiveSettings) {}

    fn sends(&self) -> bool {
        false
    }

    fn retire(&self, _streams: &BTreeSet<u32>) {}

    fn busy(&self) -> String {
        self.busy.lock().clone()
    }

    fn wants_streams(&self) -> bool {
        self.state().machine.wants_streams()
    }

    fn is_finished(&self) -> bool {
        self.state().machine.is_finished()
    }

    fn progress(&self) -> Progress {
        self.state().machine.progress()
    }

    fn counts(&self) -> Counts {
        Counts { refreshed: self.refreshed.load(Ordering::Relaxed), ..Counts::default() }
    }

    fn waited(&self) -> TargetWaits {
        let mut waited = *self.waited.lock();
        waited.space += self.full_for();
        waited
    }

    fn take_failure(&self) -> Option<Error> {
        self.state().failure.take()
    }

    fn close(&self) {
        self.state().over = true;
        self.over.store(true, Ordering::Release);
        self.actions.notify_all();
        // The lock is taken, so that no thread is between its check and its sleep.
        drop(self.sleepers.0.lock());
        self.sleepers.1.notify_all();
        drop(self.slow.lock());
        self.slow_work.notify_all();
    }

    fn for_movers(self: Arc<Self>) -> Option<Arc<dyn MoverSide>> {
        let options = &self.policy.options;
        // Without checksums the blocks that a lost mover had written could not be verified.
        let takes_movers = self.store.capabilities().writes == store::Writes::Anywhere
            && !options.dry_run
            && !options.checksums.is_empty();
        takes_movers.then_some(self as Arc<dyn MoverSide>)
    }

    fn run_stream(&self, mut stream: DataStream) -> StreamEnd {
        let _joined = self.held_blocks.join();
        let result = self.receive_loop(&mut stream);
        StreamEnd::of(stream, result)
    }
}

impl MoverSide for Receiving {
    fn attach_movers(&self, movers: &Movers) {
        *self.movers.lock() = Some(movers.clone());
    }

    fn answer(&self, stream: &MoverStream) {
        self.answer_mover(stream);
    }
}

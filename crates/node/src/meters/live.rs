//! Running work: each job, copy or request has counters of its own, whose differences are added to the totals from time to time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use engine::control::{Control, Moved};
use model::v1::flows::Volume;
use parking_lot::{Mutex, MutexGuard};

use super::{Counter, JobOutcome, Meters, Protocol};
use crate::flows::User;

/// A job of the native protocol, which the engine counts.
struct NativeJob {
    control: Control,
    is_receiver: bool,
}

/// A unit of work: a job, a copy or a request.
struct MeteredWork {
    by: Protocol,
    user: Arc<User>,
    peer: OnceLock<IpAddr>,
    bytes_in: Counter,
    bytes_out: Counter,
    files_in: Counter,
    files_out: Counter,
    job: Option<NativeJob>,
    /// How it ended: an index into [`JobOutcome::ALL`].
    ended: AtomicU8,
}

/// The part of a unit of work that the totals contain already.
#[derive(Default)]
struct Settled {
    volume: Volume,
    kernel: Moved,
}

#[derive(Default)]
struct LiveState {
    next: u64,
    work: HashMap<u64, (Arc<MeteredWork>, Settled)>,
    /// The keys in `work` of delegated transfers that have not ended.
    delegated: Vec<u64>,
    /// The highest number of a delegated transfer that was added.
    seen: u64,
}

/// All work under way.
#[derive(Default)]
pub(super) struct LiveWork(Mutex<LiveState>);

/// The meter of a unit of work, which ends when this is dropped.
pub(crate) struct WorkMeter {
    meters: Arc<Meters>,
    number: u64,
    work: Arc<MeteredWork>,
}

impl MeteredWork {
    fn new(by: Protocol, user: User, peer: Option<IpAddr>, job: Option<NativeJob>) -> MeteredWork {
        let ended = AtomicU8::new(JobOutcome::Failed as u8);
        let peer = peer.map_or_else(OnceLock::new, OnceLock::from);
        MeteredWork {
            by,
            user: Arc::new(user),
            peer,
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            files_in: Counter::default(),
            files_out: Counter::default(),
            job,
            ended,
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer.get().copied().or_else(|| self.job.as_ref().and_then(|job| job.control.peer()))
    }

    fn read(&self) -> (Volume, Moved) {
        let Some(job) = &self.job else {
            let (bytes_in, bytes_out) = (self.bytes_in.get(), self.bytes_out.get());
            let (files_in, files_out) = (self.files_in.get(), self.files_out.get());
            return (Volume { bytes_in, bytes_out, files_in, files_out, requests: 0 }, Moved::default());
        };
        let moved = job.control.moved().0;
        let volume = if job.is_receiver {
            Volume { bytes_in: moved.bytes, files_in: moved.files, ..Volume::default() }
        } else {
            Volume { bytes_out: moved.bytes, files_out: moved.files, ..Volume::default() }
        };
        (volume, moved)
    }

    /// Adds the difference since the last call to the totals; the last call counts the work as one request.
    fn update_totals(&self, settled: &mut Settled, meters: &Meters, last: bool) {
        let (volume, kernel) = self.read();
        let more = Volume { requests: u64::from(last), ..volume.since(&settled.volume) };
        meters.moved(self.by, self.peer(), &self.user, &more);
        meters.resent_segments.add(kernel.resent_segments.saturating_sub(settled.kernel.resent_segments));
        let bytes = kernel.resent_segment_bytes.saturating_sub(settled.kernel.resent_segment_bytes);
        meters.resent_segment_bytes.add(bytes);
        *settled = Settled { volume, kernel };
    }
}

impl LiveWork {
    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.0.lock()
    }

    /// Adds the bytes that have moved to the totals, and removes delegated transfers that have ended.
    pub fn update_totals(&self, meters: &Meters) {
        let mut state = self.state();
        state.work.values_mut().for_each(|(work, settled)| work.update_totals(settled, meters, false));
        let delegated = std::mem::take(&mut state.delegated);
        for number in delegated {
            let has_ended = |work: &MeteredWork| work.job.as_ref().is_none_or(|job| job.control.has_ended());
            match state.work.get(&number) {
                Some((work, _)) if !has_ended(work) => state.delegated.push(number),
                _ => state.end(number, meters),
            }
        }
    }

    /// The units of work by protocol, and the number of their open streams.
    pub fn count(&self) -> ([u64; Protocol::ALL.len()], u64) {
        let state = self.state();
        let mut counts = [0; Protocol::ALL.len()];
        let mut streams = 0;
        for (work, _) in state.work.values() {
            counts[work.by as usize] += 1;
            streams += work.job.as_ref().map_or(0, |job| u64::from(job.control.moved().1));
        }
        (counts, streams)
    }
}

impl LiveState {
    fn begin(&mut self, work: Arc<MeteredWork>) -> u64 {
        self.next += 1;
        self.work.insert(self.next, (work, Settled::default()));
        self.next
    }

    fn end(&mut self, number: u64, meters: &Meters) {
        let Some((work, mut settled)) = self.work.remove(&number) else { return };
        work.update_totals(&mut settled, meters, true);
        let how = match (work.by, &work.job) {
            (Protocol::Copy, _) => JobOutcome::ALL.get(usize::from(work.ended.load(Ordering::Acquire))).copied(),
            (Protocol::Delegated, Some(job)) => Some(meters.count_receipt(&job.control)),
            // The outcome of a client's job is counted when its session logs it.
            _ => None,
        };
        if let Some(how) = how {
            meters.ended(work.by, how);
        }
    }
}

impl Meters {
    /// Counts the receipt of a delegated transfer. Returns its outcome.
    fn count_receipt(&self, control: &Control) -> JobOutcome {
        let Some(receipt) = control.receipt() else { return JobOutcome::Failed };
        self.resent_bytes.add(receipt.resent_bytes);
        (0..receipt.failures.iter().filter(|miss| miss.fault == "integrity").count()).for_each(|_| self.damaged());
        receipt.state.into()
    }

    fn begin_work(self: &Arc<Meters>, work: MeteredWork) -> WorkMeter {
        let work = Arc::new(work);
        if Protocol::JOBS.contains(&work.by) {
            self.began(work.by);
        }
        WorkMeter { meters: Arc::clone(self), number: self.live.state().begin(Arc::clone(&work)), work }
    }

    /// An HTTP request begins.
    pub fn request(self: &Arc<Meters>, by: Protocol, peer: IpAddr, user: User) -> WorkMeter {
        self.begin_work(MeteredWork::new(by, user, Some(peer), None))
    }

    /// A third-party copy begins; [`WorkMeter::add_remote`] sets its other end later.
    pub fn copy(self: &Arc<Meters>, user: User) -> WorkMeter {
        self.begin_work(MeteredWork::new(Protocol::Copy, user, None, None))
    }

    /// A client's job begins.
    pub fn job(self: &Arc<Meters>, user: User, control: &Control, is_receiver: bool) -> WorkMeter {
        let job = NativeJob { control: control.clone(), is_receiver };
        self.begin_work(MeteredWork::new(Protocol::Native, user, None, Some(job)))
    }

    /// Adds new delegated transfers, in the order of their numbers.
    pub fn add_delegated(&self, delegated: impl Iterator<Item = (u64, User, Control)>) {
        let mut state = self.live.state();
        for (number, user, control) in delegated {
            // Another thread may have added it at the same moment.
            if number <= state.seen {
                continue;
            }
            state.seen = number;
            self.began(Protocol::Delegated);
            let job = NativeJob { control, is_receiver: false };
            let number = state.begin(Arc::new(MeteredWork::new(Protocol::Delegated, user, None, Some(job))));
            state.delegated.push(number);
        }
    }

    /// The highest number of a delegated transfer that was added.
    pub fn last_delegated(&self) -> u64 {
        self.live.state().seen
    }
}

impl WorkMeter {
    /// Adds bytes of files that were received.
    pub fn received(&self, bytes: u64) {
        self.work.bytes_in.add(bytes);
    }

    /// Adds bytes of files that were sent.
    pub fn sent(&self, bytes: u64) {
        self.work.bytes_out.add(bytes);
    }

    /// A whole file was received.
    pub fn file_received(&self) {
        self.work.files_in.add(1);
    }

    /// A whole file was sent.
    pub fn file_sent(&self) {
        self.work.files_out.add(1);
    }

    /// Sets the address of the other end.
    pub fn add_remote(&self, peer: IpAddr) {
        let _ = self.work.peer.set(peer.to_canonical());
    }

    /// Sets the outcome; a copy without one has failed.
    pub fn set_outcome(&self, how: JobOutcome) {
        self.work.ended.store(how as u8, Ordering::Release);
    }
}

impl Drop for WorkMeter {
    fn drop(&mut self) {
        self.meters.live.state().end(self.number, &self.meters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::control::Label;
    use model::Progress;
    use model::spec::LiveSettings;
    use model::v1;

    fn user() -> User {
        User { holder: "h".into(), who: "w".into() }
    }

    fn control() -> Control {
        Control::new(Label::default(), LiveSettings::default(), Arc::default())
    }

    fn arrived(control: &Control, bytes_arrived: u64) {
        control.record_progress(&Progress { bytes_arrived, files_settled: 1, ..Progress::default() }, 3);
    }

    #[test]
    fn running_work_is_counted_while_it_runs_and_once() {
        let meters = Arc::new(Meters::default());
        let out = |by: Protocol| meters.totals[by as usize].bytes_out.get();
        let meter = meters.request(Protocol::Https, [192, 0, 2, 1].into(), user());
        meter.sent(70);
        assert_eq!(out(Protocol::Https), 0);
        meters.update_totals();
        meters.update_totals();
        assert_eq!(out(Protocol::Https), 70);
        meter.sent(5);
        assert_eq!(meters.live.count().0[Protocol::Https as usize], 1);
        drop(meter);
        meters.update_totals();
        assert_eq!((out(Protocol::Https), meters.live.count().0[Protocol::Https as usize]), (75, 0));
        let report = meters.flows.report(&crate::flows::FlowQuery { only: None, top: 5 });
        assert_eq!((report.windows[2].targets[0].bytes, report.windows[2].users[0].volume.requests), (75, 1));
    }

    #[test]
    fn the_bytes_of_a_job_are_read_from_its_control() {
        let meters = Arc::new(Meters::default());
        let (job, native) = (control(), &meters.totals[Protocol::Native as usize]);
        let meter = meters.job(user(), &job, true);
        job.begin_attempt(Some([192, 0, 2, 1].into()));
        arrived(&job, 500);
        meters.update_totals();
        assert_eq!((native.bytes_in.get(), native.begun.get(), meters.live.count().1), (500, 1, 3));
        arrived(&job, 800);
        job.record_stream_facts(&[v1::Stream { retransmits: 2, resent_bytes: 30, ..v1::Stream::default() }]);
        drop(meter);
        assert_eq!((native.bytes_in.get(), native.files_in.get(), native.bytes_out.get()), (800, 1, 0));
        assert_eq!((meters.resent_segments.get(), meters.resent_segment_bytes.get()), (2, 30));
    }

    #[test]
    fn a_delegated_transfer_is_counted_until_it_has_ended() {
        let meters = Arc::new(Meters::default());
        let transfer = control();
        let sums = &meters.totals[Protocol::Delegated as usize];
        meters.add_delegated([(7, user(), transfer.clone())].into_iter());
        meters.add_delegated([(7, user(), transfer.clone())].into_iter());
        assert_eq!((meters.last_delegated(), sums.begun.get()), (7, 1), "it is added once");
        arrived(&transfer, 40);
        meters.update_totals();
        assert_eq!((sums.bytes_out.get(), sums.ended.iter().map(Counter::get).sum::<u64>()), (40, 0));
        transfer.end(None);
        meters.update_totals();
        meters.update_totals();
        assert_eq!(sums.ended[JobOutcome::Failed as usize].get(), 1);
        assert_eq!(meters.live.count(), ([0; Protocol::ALL.len()], 0));
    }

    #[test]
    fn a_copy_without_an_outcome_has_failed() {
        let meters = Arc::new(Meters::default());
        drop(meters.copy(user()));
        let copy = meters.copy(user());
        copy.set_outcome(JobOutcome::Done);
        drop(copy);
        let ended = |how: JobOutcome| meters.totals[Protocol::Copy as usize].ended[how as usize].get();
        assert_eq!((ended(JobOutcome::Done), ended(JobOutcome::Failed)), (1, 1));
    }
}

//! Work under way: each unit of work has counters of its own, whose differences are added to the totals from time to time.

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
    receives: bool,
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
    /// How it ended, by [`JobOutcome::ALL`].
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
    errands: Vec<u64>,
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
        let volume = if job.receives {
            Volume { bytes_in: moved.bytes, files_in: moved.files, ..Volume::default() }
        } else {
            Volume { bytes_out: moved.bytes, files_out: moved.files, ..Volume::default() }
        };
        (volume, moved)
    }

    /// Adds what the totals do not contain yet; the last call counts the work as one request.
    fn settle(&self, settled: &mut Settled, meters: &Meters, last: bool) {
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

    /// Adds what has moved to the totals, and ends delegated transfers that have ended.
    pub fn settle(&self, meters: &Meters) {
        let mut state = self.state();
        state.work.values_mut().for_each(|(work, settled)| work.settle(settled, meters, false));
        let errands = std::mem::take(&mut state.errands);
        for number in errands {
            let has_ended = |work: &MeteredWork| work.job.as_ref().is_none_or(|job| job.control.has_ended());
            match state.work.get(&number) {
                Some((work, _)) if !has_ended(work) => state.errands.push(number),
                _ => state.end(number, meters),
            }
        }
    }

    /// The units of work by protocol, and the number of their open streams.
    pub fn count(&self) -> ([u64; Protocol::ALL.len()], u64) {
        let state = self.state();
        let (mut counts, mut streams) = ([0; Protocol::ALL.len()], 0);
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
        work.settle(&mut settled, meters, true);
        let how = match (work.by, &work.job) {
            (Protocol::Copy, _) => JobOutcome::ALL.get(usize::from(work.ended.load(Ordering::Acquire))).copied(),
            (Protocol::Errand, Some(job)) => Some(meters.take_in(&job.control)),
            // The outcome of a client's job is counted when its session logs it.
            _ => None,
        };
        if let Some(how) = how {
            meters.ended(work.by, how);
        }
    }
}

impl Meters {
    /// Counts the receipt of a delegated transfer; returns its outcome.
    fn take_in(&self, control: &Control) -> JobOutcome {
        let Some(receipt) = control.receipt() else { return JobOutcome::Failed };
        self.resent_bytes.add(receipt.resent_bytes);
        (0..receipt.failures.iter().filter(|miss| miss.fault == "integrity").count()).for_each(|_| self.damaged());
        receipt.state.into()
    }

    fn move_by(self: &Arc<Meters>, work: MeteredWork) -> WorkMeter {
        let work = Arc::new(work);
        if Protocol::JOBS.contains(&work.by) {
            self.began(work.by);
        }
        WorkMeter { meters: Arc::clone(self), number: self.live.state().begin(Arc::clone(&work)), work }
    }

    /// An HTTP request begins.
    pub fn request(self: &Arc<Meters>, by: Protocol, peer: IpAddr, user: User) -> WorkMeter {
        self.move_by(MeteredWork::new(by, user, Some(peer), None))
    }

    /// A third-party copy begins; [`WorkMeter::is_with`] tells its other end later.
    pub fn copy(self: &Arc<Meters>, user: User) -> WorkMeter {
        self.move_by(MeteredWork::new(Protocol::Copy, user, None, None))
    }

    /// A client's job begins.
    pub fn job(self: &Arc<Meters>, user: User, control: &Control, receives: bool) -> WorkMeter {
        let job = NativeJob { control: control.clone(), receives };
        self.move_by(MeteredWork::new(Protocol::Native, user, None, Some(job)))
    }

    /// Adds delegated transfers that are new; they come with growing numbers.
    pub fn errands(&self, errands: impl Iterator<Item = (u64, User, Control)>) {
        let mut state = self.live.state();
        for (number, user, control) in errands {
            // Another thread may have added it at the same moment.
            if number <= state.seen {
                continue;
            }
            state.seen = number;
            self.began(Protocol::Errand);
            let job = NativeJob { control, receives: false };
            let here = state.begin(Arc::new(MeteredWork::new(Protocol::Errand, user, None, Some(job))));
            state.errands.push(here);
        }
    }

    /// The highest number of a delegated transfer that was added.
    pub fn last_errand(&self) -> u64 {
        self.live.state().seen
    }
}

impl WorkMeter {
    /// Adds bytes of files that came in.
    pub fn came(&self, bytes: u64) {
        self.work.bytes_in.add(bytes);
    }

    /// Adds bytes of files that went out.
    pub fn went(&self, bytes: u64) {
        self.work.bytes_out.add(bytes);
    }

    /// A whole file came in.
    pub fn file_came(&self) {
        self.work.files_in.add(1);
    }

    /// A whole file went out.
    pub fn file_went(&self) {
        self.work.files_out.add(1);
    }

    /// Sets the address of the other end.
    pub fn is_with(&self, peer: IpAddr) {
        let _ = self.work.peer.set(peer.to_canonical());
    }

    /// Sets the outcome; a copy without one has failed.
    pub fn ends(&self, how: JobOutcome) {
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
    use model::spec::Steer;
    use model::v1;

    fn user() -> User {
        User { holder: "h".into(), who: "w".into() }
    }

    fn control() -> Control {
        Control::new(Label::default(), Steer::default(), Arc::default())
    }

    fn arrived(control: &Control, bytes_arrived: u64) {
        control.saw(&Progress { bytes_arrived, files_settled: 1, ..Progress::default() }, 3);
    }

    #[test]
    fn what_runs_is_counted_while_it_runs_and_once() {
        let meters = Arc::new(Meters::default());
        let out = |by: Protocol| meters.by[by as usize].bytes_out.get();
        let moving = meters.request(Protocol::Https, [192, 0, 2, 1].into(), user());
        moving.went(70);
        assert_eq!(out(Protocol::Https), 0);
        meters.settle();
        meters.settle();
        assert_eq!(out(Protocol::Https), 70);
        moving.went(5);
        assert_eq!(meters.live.count().0[Protocol::Https as usize], 1);
        drop(moving);
        meters.settle();
        assert_eq!((out(Protocol::Https), meters.live.count().0[Protocol::Https as usize]), (75, 0));
        let told = meters.flows.told(&crate::flows::FlowQuery { only: None, top: 5 });
        assert_eq!((told.windows[2].targets[0].bytes, told.windows[2].users[0].volume.requests), (75, 1));
    }

    #[test]
    fn a_job_is_asked_how_far_it_is() {
        let meters = Arc::new(Meters::default());
        let (job, native) = (control(), &meters.by[Protocol::Native as usize]);
        let moving = meters.job(user(), &job, true);
        job.meets(Some([192, 0, 2, 1].into()));
        arrived(&job, 500);
        meters.settle();
        assert_eq!((native.bytes_in.get(), native.begun.get(), meters.live.count().1), (500, 1, 3));
        arrived(&job, 800);
        job.saw_end(&[v1::Stream { retransmits: 2, resent_bytes: 30, ..v1::Stream::default() }]);
        drop(moving);
        assert_eq!((native.bytes_in.get(), native.files_in.get(), native.bytes_out.get()), (800, 1, 0));
        assert_eq!((meters.resent_segments.get(), meters.resent_segment_bytes.get()), (2, 30));
    }

    #[test]
    fn an_errand_is_looked_after_until_it_has_ended() {
        let meters = Arc::new(Meters::default());
        let (errand, sums) = (control(), &meters.by[Protocol::Errand as usize]);
        meters.errands([(7, user(), errand.clone())].into_iter());
        meters.errands([(7, user(), errand.clone())].into_iter());
        assert_eq!((meters.last_errand(), sums.begun.get()), (7, 1), "once, whoever looks");
        arrived(&errand, 40);
        meters.settle();
        assert_eq!((sums.bytes_out.get(), sums.ended.iter().map(Counter::get).sum::<u64>()), (40, 0));
        errand.end(None);
        meters.settle();
        meters.settle();
        assert_eq!(sums.ended[JobOutcome::Failed as usize].get(), 1);
        assert_eq!(meters.live.count(), ([0; Protocol::ALL.len()], 0));
    }

    #[test]
    fn a_copy_that_says_nothing_has_failed() {
        let meters = Arc::new(Meters::default());
        drop(meters.copy(user()));
        let copy = meters.copy(user());
        copy.ends(JobOutcome::Done);
        drop(copy);
        let ended = |how: JobOutcome| meters.by[Protocol::Copy as usize].ended[how as usize].get();
        assert_eq!((ended(JobOutcome::Done), ended(JobOutcome::Failed)), (1, 1));
    }
}

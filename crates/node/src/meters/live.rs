//! What is under way: each piece of work counts by itself, and its differences are taken in from time to time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use engine::control::{Control, Moved};
use model::v1::flows::Volume;
use parking_lot::{Mutex, MutexGuard};

use super::{By, Count, Ended, Meters};
use crate::flows::User;

/// A job of the native protocol, which the engine counts.
struct Job {
    control: Control,
    receives: bool,
}

/// A piece of work.
struct Part {
    by: By,
    user: Arc<User>,
    peer: OnceLock<IpAddr>,
    bytes_in: Count,
    bytes_out: Count,
    files_in: Count,
    files_out: Count,
    job: Option<Job>,
    /// How it ended, by [`Ended::ALL`].
    ended: AtomicU8,
}

/// What of a piece of work is in the sums already.
#[derive(Default)]
struct Settled {
    volume: Volume,
    kernel: Moved,
}

#[derive(Default)]
struct Inner {
    next: u64,
    parts: HashMap<u64, (Arc<Part>, Settled)>,
    /// Errands that are looked after until they have ended, by their numbers here.
    errands: Vec<u64>,
    /// The last of all errands that was seen.
    seen: u64,
}

/// All of it.
#[derive(Default)]
pub(super) struct Live(Mutex<Inner>);

/// A piece of work under way; it is over when this is dropped.
pub(crate) struct Moving {
    meters: Arc<Meters>,
    number: u64,
    part: Arc<Part>,
}

impl Part {
    fn new(by: By, user: User, peer: Option<IpAddr>, job: Option<Job>) -> Part {
        let ended = AtomicU8::new(Ended::Failed as u8);
        let peer = peer.map_or_else(OnceLock::new, OnceLock::from);
        let (bytes_in, bytes_out, files_in, files_out) = Default::default();
        Part { by, user: Arc::new(user), peer, bytes_in, bytes_out, files_in, files_out, job, ended }
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
        let volume = match job.receives {
            true => Volume { bytes_in: moved.bytes, files_in: moved.files, ..Volume::default() },
            false => Volume { bytes_out: moved.bytes, files_out: moved.files, ..Volume::default() },
        };
        (volume, moved)
    }

    /// Takes in what is not in the sums yet; the last time counts it as one request.
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

impl Live {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Takes everything in.
    pub fn settle(&self, meters: &Meters) {
        let mut inner = self.inner();
        inner.parts.values_mut().for_each(|(part, settled)| part.settle(settled, meters, false));
        let errands = std::mem::take(&mut inner.errands);
        for number in errands {
            let has_ended = |part: &Part| part.job.as_ref().is_none_or(|job| job.control.has_ended());
            match inner.parts.get(&number) {
                Some((part, _)) if !has_ended(part) => inner.errands.push(number),
                _ => inner.end(number, meters),
            }
        }
    }

    /// How many there are of each protocol, and the streams that they have open.
    pub fn count(&self) -> ([u64; By::ALL.len()], u64) {
        let inner = self.inner();
        let (mut counts, mut streams) = ([0; By::ALL.len()], 0);
        for (part, _) in inner.parts.values() {
            counts[part.by as usize] += 1;
            streams += part.job.as_ref().map_or(0, |job| u64::from(job.control.moved().1));
        }
        (counts, streams)
    }
}

impl Inner {
    fn begin(&mut self, part: Arc<Part>) -> u64 {
        self.next += 1;
        self.parts.insert(self.next, (part, Settled::default()));
        self.next
    }

    fn end(&mut self, number: u64, meters: &Meters) {
        let Some((part, mut settled)) = self.parts.remove(&number) else { return };
        part.settle(&mut settled, meters, true);
        let how = match (part.by, &part.job) {
            (By::Copy, _) => Ended::ALL.get(usize::from(part.ended.load(Ordering::Acquire))).copied(),
            (By::Errand, Some(job)) => Some(meters.take_in(&job.control)),
            // What came of a guest's job is told when its session writes it down.
            _ => None,
        };
        if let Some(how) = how {
            meters.ended(part.by, how);
        }
    }
}

impl Meters {
    /// What an errand's receipt says.
    fn take_in(&self, control: &Control) -> Ended {
        let Some(receipt) = control.receipt() else { return Ended::Failed };
        self.resent_bytes.add(receipt.resent_bytes);
        (0..receipt.failures.iter().filter(|miss| miss.fault == "integrity").count()).for_each(|_| self.damaged());
        receipt.state.into()
    }

    fn move_by(self: &Arc<Meters>, part: Part) -> Moving {
        let part = Arc::new(part);
        if By::JOBS.contains(&part.by) {
            self.began(part.by);
        }
        Moving { meters: Arc::clone(self), number: self.live.inner().begin(Arc::clone(&part)), part }
    }

    /// A request of HTTP begins.
    pub fn request(self: &Arc<Meters>, by: By, peer: IpAddr, user: User) -> Moving {
        self.move_by(Part::new(by, user, Some(peer), None))
    }

    /// A copy begins; where the other end is turns out later.
    pub fn copy(self: &Arc<Meters>, user: User) -> Moving {
        self.move_by(Part::new(By::Copy, user, None, None))
    }

    /// A job of a guest begins.
    pub fn job(self: &Arc<Meters>, user: User, control: &Control, receives: bool) -> Moving {
        let job = Job { control: control.clone(), receives };
        self.move_by(Part::new(By::Native, user, None, Some(job)))
    }

    /// Looks after errands that are new here. They come with numbers that grow.
    pub fn errands(&self, errands: impl Iterator<Item = (u64, User, Control)>) {
        let mut inner = self.live.inner();
        for (number, user, control) in errands {
            // Somebody else may have looked at the same moment.
            if number <= inner.seen {
                continue;
            }
            inner.seen = number;
            self.began(By::Errand);
            let job = Job { control, receives: false };
            let here = inner.begin(Arc::new(Part::new(By::Errand, user, None, Some(job))));
            inner.errands.push(here);
        }
    }

    /// The number of the last errand that was seen.
    pub fn last_errand(&self) -> u64 {
        self.live.inner().seen
    }
}

impl Moving {
    /// Bytes of files came in.
    pub fn came(&self, bytes: u64) {
        self.part.bytes_in.add(bytes);
    }

    /// Bytes of files went out.
    pub fn went(&self, bytes: u64) {
        self.part.bytes_out.add(bytes);
    }

    /// A file came in, whole.
    pub fn file_came(&self) {
        self.part.files_in.add(1);
    }

    /// A file went out, whole.
    pub fn file_went(&self) {
        self.part.files_out.add(1);
    }

    /// The other end is there.
    pub fn is_with(&self, peer: IpAddr) {
        let _ = self.part.peer.set(peer.to_canonical());
    }

    /// It ended like this; a copy that says nothing has failed.
    pub fn ends(&self, how: Ended) {
        self.part.ended.store(how as u8, Ordering::Release);
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.meters.live.inner().end(self.number, &self.meters);
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
        let out = |by: By| meters.by[by as usize].bytes_out.get();
        let moving = meters.request(By::Https, [192, 0, 2, 1].into(), user());
        moving.went(70);
        assert_eq!(out(By::Https), 0);
        meters.settle();
        meters.settle();
        assert_eq!(out(By::Https), 70);
        moving.went(5);
        assert_eq!(meters.live.count().0[By::Https as usize], 1);
        drop(moving);
        meters.settle();
        assert_eq!((out(By::Https), meters.live.count().0[By::Https as usize]), (75, 0));
        let told = meters.flows.told(&crate::flows::Reader { only: None, top: 5 });
        assert_eq!((told.windows[2].targets[0].bytes, told.windows[2].users[0].volume.requests), (75, 1));
    }

    #[test]
    fn a_job_is_asked_how_far_it_is() {
        let meters = Arc::new(Meters::default());
        let (job, native) = (control(), &meters.by[By::Native as usize]);
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
        let (errand, sums) = (control(), &meters.by[By::Errand as usize]);
        meters.errands([(7, user(), errand.clone())].into_iter());
        meters.errands([(7, user(), errand.clone())].into_iter());
        assert_eq!((meters.last_errand(), sums.begun.get()), (7, 1), "once, whoever looks");
        arrived(&errand, 40);
        meters.settle();
        assert_eq!((sums.bytes_out.get(), sums.ended.iter().map(Count::get).sum::<u64>()), (40, 0));
        errand.end(None);
        meters.settle();
        meters.settle();
        assert_eq!(sums.ended[Ended::Failed as usize].get(), 1);
        assert_eq!(meters.live.count(), ([0; By::ALL.len()], 0));
    }

    #[test]
    fn a_copy_that_says_nothing_has_failed() {
        let meters = Arc::new(Meters::default());
        drop(meters.copy(user()));
        let copy = meters.copy(user());
        copy.ends(Ended::Done);
        drop(copy);
        let ended = |how: Ended| meters.by[By::Copy as usize].ended[how as usize].get();
        assert_eq!((ended(Ended::Done), ended(Ended::Failed)), (1, 1));
    }
}

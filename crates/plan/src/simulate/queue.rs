//! A queue: files of one work from one site to one other, and the transfers that move them. Between two rounds of the scheduler its rate is
//! constant, so a queue is advanced alone.
//!
//! Does not know: other queues, links, or how rates come about.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use model::Fault;
use scenario::SimulationSettings;
use sched::limits::FILE_BACKOFF;
use sched::retry::{Remedy, remedy};

use super::conduct::QueueConduct;
use super::files::{QueueFiles, SimulatedFile};
use super::law::PathTerms;
use super::loss_course::LossCourse;
use crate::routes::NetworkRoute;

/// The part of a file that counts as nothing: sums are rounded.
const NOTHING: f64 = 1e-9;
/// The time that counts as none, seconds: a time within a year is exact to 4e-9 s, and a simulation with shorter steps would never end.
pub const NO_TIME_S: f64 = 1e-6;

/// A queue.
#[derive(Clone, Debug)]
pub struct SimulatedQueue {
    /// The work, by its number in the scenario.
    pub work: usize,
    /// The site that sends.
    pub source: usize,
    /// The site that receives.
    pub target: usize,
    /// The queue that must be done before this one begins.
    pub after: Option<usize>,
    /// The route that was chosen for it; none while it has the shortest one, or none.
    pub route: Option<NetworkRoute>,
    /// The resources that it uses.
    pub path: Vec<u32>,
    /// The terms of its transfers; none while there is no route.
    pub terms: Option<PathTerms>,
    /// The rate that all its transfers have together, bytes per second.
    pub rate_bytes_s: f64,
    /// Files that have not begun.
    pub files: QueueFiles,
    /// Share of the attempts that fail.
    pub failure_rate: f64,
    /// Whether completed files are kept for queues that this one feeds.
    pub feeds: bool,
    /// How its files become transfers.
    pub conduct: QueueConduct,
    /// What loss leaves of the running transfer, where losses are followed one by one.
    course: Option<TransferCourse>,
    /// Since when the path of its transfers is gone, and their rate before.
    gone: Option<Gone>,
    /// Completed files since the last call of [`SimulatedQueue::take_completed`].
    completed: Vec<SimulatedFile>,
    retries: BinaryHeap<Retry>,
    transfers: Vec<SimulatedTransfer>,
    random: fastrand::Rng,
    moved_bytes: f64,
}

/// What happened to a file, for the accounts of its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// The file.
    pub file: SimulatedFile,
    /// When its last attempt began, seconds.
    pub begun_s: f64,
    /// When it was complete or failed.
    pub ended_s: f64,
    /// The attempt failed, and is repeated.
    pub failed: bool,
}

/// The course of a transfer whose losses are followed.
#[derive(Clone, Debug)]
struct TransferCourse {
    /// When its data began, seconds.
    begun_s: f64,
    /// The number of its streams.
    streams: f64,
    /// The course of each stream.
    loss: LossCourse,
}

/// A path that is gone.
#[derive(Clone, Copy, Debug)]
struct Gone {
    since_s: f64,
    /// The rate of the queue before, bytes per second.
    rate_bytes_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct SimulatedTransfer {
    /// When its start-up is over.
    starts_s: f64,
    files_left: u32,
    moving: Moving,
}

#[derive(Clone, Copy, Debug)]
struct Moving {
    /// The file as it will be after this attempt.
    file: SimulatedFile,
    begun_s: f64,
    /// What is left of this attempt.
    left_bytes: f64,
    /// The attempt will fail when nothing of it is left.
    fails: bool,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    due_s: f64,
    file: SimulatedFile,
}

impl PartialEq for Retry {
    fn eq(&self, other: &Retry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Retry {}

impl Ord for Retry {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Retry) -> Ordering {
        other.due_s.total_cmp(&self.due_s)
    }
}

impl PartialOrd for Retry {
    fn partial_cmp(&self, other: &Retry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SimulatedQueue {
    /// A queue without a route and a rate, of a hub.
    pub fn new(work: usize, ends: (usize, usize), files: QueueFiles, failure_rate: f64, seed: u64) -> SimulatedQueue {
        let (source, target) = ends;
        SimulatedQueue {
            work,
            source,
            target,
            after: None,
            route: None,
            path: Vec::new(),
            terms: None,
            rate_bytes_s: 0.0,
            files,
            failure_rate,
            feeds: false,
            conduct: QueueConduct::of(&SimulationSettings::default()),
            course: None,
            gone: None,
            completed: Vec::new(),
            retries: BinaryHeap::new(),
            transfers: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            moved_bytes: 0.0,
        }
    }

    /// Advances from one time to another. `record` gets each attempt that ended.
    pub fn advance(&mut self, from_s: f64, until_s: f64, record: &mut impl FnMut(Done)) {
        let mut now = from_s;
        loop {
            self.begin(now);
            let next = self.next_event_s(now).min(until_s);
            self.flow(now, next - now);
            now = next;
            self.complete(now, record);
            if now >= until_s {
                return;
            }
        }
    }

    /// When something changes by itself at the present rate: a start-up is over, a file is complete, or a file arrives for which a transfer may begin.
    pub fn next_event_s(&self, now_s: f64) -> f64 {
        let rate = self.transfer_rate(now_s);
        let of_transfer = |transfer: &SimulatedTransfer| match transfer.starts_s > now_s {
            true => transfer.starts_s,
            false if rate > 0.0 => now_s + transfer.moving.left_bytes / rate,
            false => f64::INFINITY,
        };
        let next = self.transfers.iter().map(of_transfer).fold(self.next_of_course_s(now_s), f64::min);
        if self.may_begin() { next.min(self.next_file_s().max(now_s)) } else { next }
    }

    /// Whether it has something to move now.
    pub fn is_active(&self, now_s: f64) -> bool {
        self.terms.is_some() && self.has_files(now_s)
    }

    /// Whether it has something to move now, or would have if it had a route.
    pub fn has_files(&self, now_s: f64) -> bool {
        !self.transfers.is_empty() || self.next_file_s() <= now_s
    }

    /// Whether it has transfers now.
    pub fn has_transfers(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// Whether nothing moves, waits, or is still to come by itself.
    pub fn is_done(&self) -> bool {
        self.transfers.is_empty() && self.retries.is_empty() && self.files.left() == 0
    }

    /// The number of transfers that it has, or would have with the files that wait.
    pub fn transfers_wanted(&self, now_s: f64) -> u32 {
        let most = self.conduct.transfers_max;
        let waiting = self.waiting(now_s).min(most.into()) as u32;
        (self.transfers.len() as u32 + waiting).min(most)
    }

    /// Files that are there and not moving, those that wait for another attempt included.
    pub fn waiting(&self, now_s: f64) -> u64 {
        self.files.waiting(now_s) + self.retries.len() as u64
    }

    /// Since when its next file waits, seconds; none if none waits.
    pub fn waits_since_s(&self, now_s: f64) -> Option<f64> {
        Some(self.files.next_s()).filter(|arrived| *arrived <= now_s)
    }

    /// Bytes that are left to move, files that have not arrived included.
    pub fn left_bytes(&self) -> f64 {
        let moving: f64 = self.transfers.iter().map(|transfer| transfer.moving.left_bytes).sum();
        let retried: f64 = self.retries.iter().map(|retry| retry.file.left_bytes).sum();
        moving + retried + self.files.left() as f64 * self.files.mean_bytes()
    }

    /// Takes the bytes that were moved since the last call.
    pub fn take_moved_bytes(&mut self) -> f64 {
        std::mem::take(&mut self.moved_bytes)
    }

    /// Takes the files that were completed since the last call, for queues that this one feeds.
    pub fn take_completed(&mut self) -> Vec<SimulatedFile> {
        std::mem::take(&mut self.completed)
    }

    fn may_begin(&self) -> bool {
        self.terms.is_some() && self.transfers.len() < self.conduct.transfers_max as usize
    }

    /// When the next file is there, seconds; infinite if none comes by itself.
    pub fn next_file_s(&self) -> f64 {
        self.retries.peek().map_or(f64::INFINITY, |retry| retry.due_s).min(self.files.next_s())
    }

    /// The rate of one moving transfer, bytes per second.
    fn transfer_rate(&self, now_s: f64) -> f64 {
        let moving = self.transfers.iter().filter(|transfer| transfer.starts_s <= now_s).count();
        if moving == 0 { 0.0 } else { (self.rate_bytes_s / moving as f64).min(self.transfer_cap_bytes_s(now_s)) }
    }

    /// The most that one of its transfers can carry now, bytes per second. What loss leaves is not known before a transfer has its share of the path.
    pub fn transfer_cap_bytes_s(&self, now_s: f64) -> f64 {
        let Some(terms) = &self.terms else { return 0.0 };
        match &self.course {
            None if self.conduct.follows_loss => terms.without_loss().cap_bytes_s(),
            None => terms.cap_bytes_s(),
            Some(course) => {
                let rate = course.loss.rate_at(now_s - course.begun_s);
                rate.map_or_else(|| terms.cap_bytes_s(), |rate| rate * course.streams)
            }
        }
    }

    /// When the rate that loss leaves changes next, seconds.
    fn next_of_course_s(&self, now_s: f64) -> f64 {
        let next = |course: &TransferCourse| course.begun_s + course.loss.next_change_s(now_s - course.begun_s);
        self.course.as_ref().map_or(f64::INFINITY, next)
    }

    /// Notes whether the path is gone at this time. When it is there again, transfers need a while to come back.
    pub fn note_path(&mut self, now_s: f64, is_gone: bool) {
        match (self.gone, is_gone) {
            (None, true) if self.has_transfers() => {
                self.gone = Some(Gone { since_s: now_s, rate_bytes_s: self.rate_bytes_s });
            }
            (Some(gone), false) => {
                let resumption_s = self.terms.as_ref().map_or(0.0, |terms| {
                    terms.resumption_s(now_s - gone.since_s, gone.rate_bytes_s / self.transfers.len().max(1) as f64)
                });
                for transfer in &mut self.transfers {
                    transfer.starts_s = transfer.starts_s.max(now_s + resumption_s);
                }
                self.gone = None;
            }
            _ => {}
        }
    }

    /// Begins transfers for files that are there.
    fn begin(&mut self, now_s: f64) {
        while self.may_begin() && self.next_file_s() <= now_s {
            let Some(moving) = self.next_file(now_s) else { return };
            let starts_s = now_s + self.startup_s(now_s);
            self.transfers.push(SimulatedTransfer {
                starts_s,
                files_left: self.conduct.files_per_transfer - 1,
                moving: Moving { begun_s: starts_s, ..moving },
            });
        }
    }

    /// The start-up of a transfer that begins now. Where its losses are followed, their course begins.
    fn startup_s(&mut self, now_s: f64) -> f64 {
        let Some(terms) = &self.terms else { return 0.0 };
        let share = self.rate_bytes_s / (self.transfers.len() + 1) as f64;
        if self.conduct.follows_loss {
            let streams = f64::from(terms.streams_at(share));
            let loss = LossCourse::new(terms, share / streams);
            let follows = loss != LossCourse::default();
            self.course = Some(TransferCourse { begun_s: now_s + terms.session_s(), streams, loss });
            if follows {
                return terms.session_s();
            }
        }
        terms.startup_s(share)
    }

    /// The next file that is there: one whose pause after a failure is over, else the one that has waited longest.
    fn next_file(&mut self, now_s: f64) -> Option<Moving> {
        let file = if self.retries.peek().is_some_and(|retry| retry.due_s <= now_s) {
            self.retries.pop().map(|retry| retry.file)
        } else {
            self.next_new_file(now_s)
        }?;
        let fails = self.failure_rate > 0.0 && self.random.f64() < self.failure_rate;
        let left_bytes = if fails { file.left_bytes * self.random.f64() } else { file.left_bytes };
        let after = SimulatedFile { left_bytes: file.left_bytes - left_bytes, ..file };
        Some(Moving { file: after, begun_s: now_s, left_bytes, fails })
    }

    /// The next file that has not begun and that no cache at the target answers.
    fn next_new_file(&mut self, now_s: f64) -> Option<SimulatedFile> {
        while self.files.next_s() <= now_s {
            if let Some(file) = self.files.take(&mut self.random) {
                return Some(file);
            }
        }
        None
    }

    /// Moves bytes for some seconds.
    fn flow(&mut self, now_s: f64, seconds: f64) {
        let bytes = self.transfer_rate(now_s) * seconds;
        if bytes <= 0.0 {
            return;
        }
        for transfer in self.transfers.iter_mut().filter(|transfer| transfer.starts_s <= now_s) {
            transfer.moving.left_bytes -= bytes;
            self.moved_bytes += bytes;
        }
    }

    /// Ends the files of which nothing is left; their transfers go on with the next files, or end.
    fn complete(&mut self, now_s: f64, record: &mut impl FnMut(Done)) {
        let no_bytes = self.transfer_rate(now_s) * NO_TIME_S;
        let mut at = 0;
        while at < self.transfers.len() {
            let transfer = self.transfers[at];
            let moving = transfer.moving;
            if transfer.starts_s > now_s || moving.left_bytes > NOTHING * moving.file.bytes + no_bytes {
                at += 1;
                continue;
            }
            let answer_s = self.terms.as_ref().map_or(0.0, PathTerms::end_s);
            self.end_file(moving, now_s + answer_s, record);
            let next = if transfer.files_left > 0 { self.next_file(now_s) } else { None };
            match next {
                Some(moving) => {
                    self.transfers[at] = SimulatedTransfer { files_left: transfer.files_left - 1, moving, ..transfer };
                    at += 1;
                }
                None => drop(self.transfers.swap_remove(at)),
            }
        }
    }

    fn end_file(&mut self, moving: Moving, ended_s: f64, record: &mut impl FnMut(Done)) {
        record(Done { file: moving.file, begun_s: moving.begun_s, ended_s, failed: moving.fails });
        if moving.fails {
            let failures = moving.file.failures + 1;
            // The simulated fault is one of the path; the remedy is the one that a hub takes.
            if remedy(Fault::Path, false) == Remedy::Later {
                let pause = FILE_BACKOFF.pause(failures, self.random.f64());
                let file = SimulatedFile { failures, ..moving.file };
                self.retries.push(Retry { due_s: ended_s + pause.as_secs_f64(), file });
            }
        } else if self.feeds {
            let bytes = moving.file.bytes;
            self.completed.push(SimulatedFile { arrived_s: ended_s, bytes, left_bytes: bytes, failures: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use scenario::{Congestion, Sizes};

    use super::super::files::EvenFiles;
    use super::*;

    fn queue(count: u64, interval_s: f64, failure_rate: f64) -> SimulatedQueue {
        let files =
            EvenFiles { first_s: 0.0, interval_s, count, begun: 0, mean_bytes: 1e9, sizes: Sizes::Equal, cache: None };
        let mut queue = SimulatedQueue::new(0, (0, 1), QueueFiles::Even(files), failure_rate, 1);
        queue.terms = Some(PathTerms {
            rtt_s: 0.0,
            loss: 0.0,
            mss_bytes: 8948.0,
            window_bytes: 1e9,
            congestion: Congestion::Bbr,
            streams: None,
        });
        queue.rate_bytes_s = 1e8;
        queue
    }

    fn run(queue: &mut SimulatedQueue, until_s: f64) -> Vec<Done> {
        let mut all = Vec::new();
        queue.advance(0.0, until_s, &mut |done| all.push(done));
        all
    }

    #[test]
    fn files_take_the_time_of_their_bytes_at_the_rate_of_the_queue() {
        let mut queue = queue(8, 0.0, 0.0);
        let ended: Vec<f64> = run(&mut queue, 1000.0).iter().map(|done| done.ended_s).collect();
        assert_eq!(ended.len(), 8);
        assert!((ended[7] - 80.0).abs() < 1e-6, "{ended:?}");
        assert!(queue.is_done());
        assert!((queue.take_moved_bytes() - 8e9).abs() < 10.0);
    }

    #[test]
    fn a_step_in_many_pieces_gives_the_same_as_one() {
        let whole: Vec<f64> = run(&mut queue(20, 3.0, 0.2), 2000.0).iter().map(|done| done.ended_s).collect();
        let (mut pieces, mut queue) = (Vec::new(), queue(20, 3.0, 0.2));
        for piece in 0..2000 {
            queue.advance(f64::from(piece), f64::from(piece + 1), &mut |done| pieces.push(done.ended_s));
        }
        assert_eq!(whole.len(), pieces.len());
        assert!(whole.iter().zip(&pieces).all(|(a, b)| (a - b).abs() < 1e-6), "{whole:?} {pieces:?}");
    }

    #[test]
    fn a_file_that_takes_less_than_the_clock_shows_is_complete_after_a_year() {
        let mut queue = queue(3, 0.0, 0.0);
        let QueueFiles::Even(files) = &mut queue.files else { panic!() };
        (files.first_s, files.mean_bytes) = (31_536_000.0, 1.0);
        queue.rate_bytes_s = 1e12;
        assert_eq!(run(&mut queue, 31_536_001.0).len(), 3);
    }

    #[test]
    fn an_attempt_that_fails_is_repeated_after_the_pause_of_the_hub() {
        let all = run(&mut queue(50, 0.0, 0.3), 1e5);
        let failed = all.iter().filter(|done| done.failed).count();
        assert_eq!(all.len() - failed, 50, "every file arrives in the end");
        assert!((8..40).contains(&failed), "{failed} of {}", all.len());
    }
}

//! The reins of a running job: what may be changed while it runs, and what it is doing, for whoever asks.
//!
//! Both ends of a job have one. A change at either end is told to the other ([`wire::Frame::Steer`]), so that both show
//! the same; the sending end keeps the limit, the client opens and closes streams.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::Progress;
use model::id::Uuid;
use model::spec::Steer;
use model::v1;
use parking_lot::{Mutex, MutexGuard};
use sys::waker::Waker;

use pilot::eta::{Estimator, Eta};

/// Over how long the rate "now" is taken.
const WINDOW: Duration = Duration::from_secs(3);

/// What a job is, for those who ask about it.
#[derive(Clone, Debug, Default)]
pub struct Label {
    /// The transfer's id.
    pub id: Uuid,
    /// `send`, `receive` or `carry`.
    pub role: &'static str,
    /// Where the bytes come from.
    pub source: Vec<String>,
    /// Where they go.
    pub target: String,
}

/// What a job has moved over the network so far, attempts that failed included; what lay there already is none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of files.
    pub bytes: u64,
    /// Files settled.
    pub files: u64,
    /// Segments that this host's TCP sent again, of streams that have ended.
    pub resent_segments: u64,
    /// Their bytes.
    pub resent_segment_bytes: u64,
}

#[derive(Debug)]
struct Inner {
    label: Label,
    /// The address of the other end.
    peer: Option<IpAddr>,
    moved: Moved,
    /// Bytes and files of this attempt that `moved` has.
    counted: (u64, u64),
    steer: Steer,
    /// Until when the limit holds; for ever where none is said.
    limit_until: Option<Instant>,
    /// Counts changes made here, which the other end must hear of.
    version: u64,
    /// The limit in force was set at the other end.
    limit_is_theirs: bool,
    progress: Progress,
    samples: VecDeque<(Instant, u64)>,
    estimator: Estimator,
    streams: u32,
    waiting_for: String,
    receipt: Option<Box<v1::Receipt>>,
    started: Instant,
    ended: bool,
    /// By `longhaul job cancel`, or by the API.
    is_ended_by_order: bool,
    waker: Option<Waker>,
    /// Whoever watches wants to hear of every file.
    tells_files: bool,
}

/// The reins of one job. Clones hold the same.
#[derive(Clone, Debug)]
pub struct Control {
    inner: Arc<Mutex<Inner>>,
    cancel: Arc<AtomicBool>,
}

impl Inner {
    /// Adds what came since the last look. A file that is given up takes nothing back: its bytes have moved.
    fn count(&mut self, progress: &Progress) {
        let bytes = progress.bytes_sent();
        let files = progress.files_settled.saturating_sub(progress.files_in_place);
        self.moved.bytes += bytes.saturating_sub(self.counted.0);
        self.moved.files += files.saturating_sub(self.counted.1);
        self.counted = (bytes.max(self.counted.0), files.max(self.counted.1));
    }
}

impl Inner {
    /// What the transfer is doing, or how it ended.
    fn stage(&self) -> v1::Stage {
        match self.receipt.as_ref().map(|receipt| receipt.state) {
            _ if !self.ended && self.steer.paused => v1::Stage::Paused,
            _ if !self.ended && !self.waiting_for.is_empty() => v1::Stage::Waiting,
            _ if !self.ended => v1::Stage::Running,
            Some(v1::State::Done) => v1::Stage::Done,
            Some(v1::State::Partial) => v1::Stage::Partial,
            Some(v1::State::Interrupted) | None if self.is_ended_by_order => v1::Stage::Cancelled,
            Some(v1::State::Interrupted) => v1::Stage::Interrupted,
            Some(v1::State::Failed) | None => v1::Stage::Failed,
        }
    }
}

impl Control {
    /// For a job that begins with these settings; `cancel` ends it from elsewhere.
    pub fn new(label: Label, steer: Steer, cancel: Arc<AtomicBool>) -> Control {
        let inner = Inner {
            label,
            peer: None,
            moved: Moved::default(),
            counted: (0, 0),
            steer,
            limit_until: None,
            version: 0,
            limit_is_theirs: false,
            progress: Progress::default(),
            samples: VecDeque::new(),
            estimator: Estimator::default(),
            streams: 0,
            waiting_for: String::new(),
            receipt: None,
            started: Instant::now(),
            ended: false,
            is_ended_by_order: false,
            waker: None,
            tells_files: false,
        };
        Control { inner: Arc::new(Mutex::new(inner)), cancel }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whoever watches the job wants to hear of every file.
    pub fn tell_files(&self) {
        self.inner().tells_files = true;
    }

    /// Whether every file is to be told of.
    pub fn tells_files(&self) -> bool {
        self.inner().tells_files
    }

    /// Ends the job.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
        if let Some(waker) = &self.inner().waker {
            waker.wake();
        }
    }

    /// Whether somebody ended the job.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    /// The flag behind [`Control::is_cancelled`].
    pub fn cancel_flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// What the job is to keep, and how often that was changed here.
    pub fn steer(&self) -> (Steer, u64) {
        let mut inner = self.inner();
        if inner.limit_until.is_some_and(|until| until <= Instant::now()) {
            // Whoever set it has not said it again in time.
            (inner.steer.limit_bit_s, inner.limit_until) = (0, None);
            inner.version += 1;
        }
        (inner.steer, inner.version)
    }

    /// Changes the job. What is left out stays as it is.
    pub fn change(&self, change: &v1::Change) {
        let mut inner = self.inner();
        let steer = inner.steer;
        inner.steer = Steer {
            limit_bit_s: change.limit_bit_s.unwrap_or(steer.limit_bit_s),
            streams: change.streams.unwrap_or(steer.streams).min(wire::limits::STREAMS_MAX / 4),
            paused: change.paused.unwrap_or(steer.paused),
        };
        inner.version += u64::from(inner.steer != steer);
        if change.limit_bit_s.is_some() {
            inner.limit_until =
                change.limit_for_s.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
            inner.limit_is_theirs = false;
        }
        inner.is_ended_by_order |= change.cancel;
        if let Some(waker) = &inner.waker {
            waker.wake();
        }
        drop(inner);
        if change.cancel {
            self.cancel();
        }
    }

    /// Takes over what the other end says.
    pub fn adopt(&self, steer: Steer) {
        let mut inner = self.inner();
        if steer.limit_bit_s != inner.steer.limit_bit_s {
            (inner.limit_is_theirs, inner.limit_until) = (true, None);
        }
        inner.steer = steer;
    }

    /// Whether the limit in force was set at the other end.
    pub fn limit_is_theirs(&self) -> bool {
        self.inner().limit_is_theirs
    }

    /// The thread that must hear of changes.
    pub fn attach(&self, waker: Waker) {
        self.inner().waker = Some(waker);
    }

    /// An attempt begins, with this other end: its numbers start anew.
    pub fn meets(&self, peer: Option<IpAddr>) {
        let mut inner = self.inner();
        inner.peer = peer.map(|peer| peer.to_canonical()).or(inner.peer);
        inner.counted = (0, 0);
    }

    /// The address of the other end, once there was one.
    pub fn peer(&self) -> Option<IpAddr> {
        self.inner().peer
    }

    /// What has moved so far, and how many streams are open.
    pub fn moved(&self) -> (Moved, u32) {
        let inner = self.inner();
        (inner.moved, if inner.ended { 0 } else { inner.streams })
    }

    /// An attempt's streams have ended, and this is what the kernel says of them.
    pub fn saw_end(&self, streams: &[v1::Stream]) {
        let mut inner = self.inner();
        inner.streams = 0;
        inner.moved.resent_segments += streams.iter().map(|stream| stream.retransmits).sum::<u64>();
        inner.moved.resent_segment_bytes += streams.iter().map(|stream| stream.resent_bytes).sum::<u64>();
    }

    /// How it ended and what was to be told of it, where it has ended and told.
    pub fn receipt(&self) -> Option<v1::Receipt> {
        self.inner().receipt.as_deref().cloned()
    }

    /// The job's numbers now.
    pub fn saw(&self, progress: &Progress, streams: u32) {
        let mut inner = self.inner();
        let now = Instant::now();
        (inner.progress, inner.streams) = (*progress, streams);
        inner.count(progress);
        inner.samples.push_back((now, progress.bytes_sent()));
        let (since, waits) = (now - inner.started, !inner.waiting_for.is_empty());
        let steer = inner.steer;
        inner.estimator.observe(since, progress, &steer, waits);
        while inner.samples.front().is_some_and(|(at, _)| now - *at > WINDOW) && inner.samples.len() > 2 {
            inner.samples.pop_front();
        }
    }

    /// When it will be done, where that can be told.
    pub fn eta(&self) -> Option<Eta> {
        let inner = self.inner();
        inner.estimator.eta(inner.started.elapsed()).filter(|_| !inner.ended)
    }

    /// Why nothing moves; empty when it does.
    pub fn wait_for(&self, what: &str) {
        let mut inner = self.inner();
        if inner.waiting_for != what {
            what.clone_into(&mut inner.waiting_for);
        }
    }

    /// Why nothing moves; empty when it does.
    pub fn waiting_for(&self) -> String {
        self.inner().waiting_for.clone()
    }

    /// The job has ended.
    pub fn end(&self, receipt: Option<v1::Receipt>) {
        let mut inner = self.inner();
        inner.ended = true;
        inner.receipt = receipt.map(Box::new);
        inner.waiting_for.clear();
        inner.waker = None;
    }

    /// Whether the job has ended.
    pub fn has_ended(&self) -> bool {
        self.inner().ended
    }

    /// What the transfer is doing, for those who ask.
    pub fn show(&self) -> v1::Transfer {
        let eta = self.eta();
        let inner = self.inner();
        let receipt = inner.receipt.as_deref();
        v1::Transfer {
            id: inner.label.id,
            state: inner.stage(),
            role: inner.label.role.into(),
            source: inner.label.source.clone(),
            target: inner.label.target.clone(),
            bytes: inner.progress.bytes_arrived,
            sent_bytes: inner.moved.bytes,
            bytes_total: match inner.progress.is_endless() {
                true => inner.progress.bytes_arrived,
                false => inner.progress.bytes_offered,
            },
            files: inner.progress.files_settled,
            files_total: inner.progress.files_offered,
            scanned: inner.progress.scanned && !inner.progress.is_endless(),
            rate_bit_s: if inner.ended { 0 } else { rate_bit_s(&inner.samples) },
            limit_bit_s: inner.steer.limit_bit_s,
            streams: inner.streams,
            seconds: inner.started.elapsed().as_secs_f64(),
            eta_s: eta.map(|eta| eta.left.as_secs_f64()),
            eta_error_s: eta.map(|eta| eta.error.as_secs_f64()),
            waiting_for: inner.waiting_for.clone(),
            failed: receipt.map(|receipt| receipt.failed),
            exit: receipt.map(|receipt| receipt.exit),
            error: receipt.and_then(|receipt| receipt.error.clone()),
            receipt: inner.receipt.clone(),
            ..v1::Transfer::default()
        }
    }
}

fn rate_bit_s(samples: &VecDeque<(Instant, u64)>) -> u64 {
    let (Some((from, first)), Some((to, last))) = (samples.front(), samples.back()) else { return 0 };
    let seconds = (*to - *from).as_secs_f64();
    if seconds > 0.0 { (last.saturating_sub(*first) as f64 * 8.0 / seconds) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> Control {
        Control::new(Label::default(), Steer { limit_bit_s: 5, ..Steer::default() }, Arc::default())
    }

    #[test]
    fn a_change_leaves_the_rest_and_counts_once() {
        let control = control();
        control.change(&v1::Change { streams: Some(3), ..v1::Change::default() });
        assert_eq!(control.steer(), (Steer { limit_bit_s: 5, streams: 3, paused: false }, 1));
        control.change(&v1::Change { streams: Some(3), ..v1::Change::default() });
        assert_eq!(control.steer().1, 1);
        control.adopt(Steer { paused: true, ..Steer::default() });
        assert_eq!((control.steer().1, control.show().state), (1, v1::Stage::Paused));
        control.change(&v1::Change { paused: Some(false), cancel: true, ..v1::Change::default() });
        assert!(control.is_cancelled() && control.show().state == v1::Stage::Running);
    }

    #[test]
    fn a_limit_that_is_not_said_again_lapses() {
        let control = control();
        let limit =
            |limit, seconds| v1::Change { limit_bit_s: Some(limit), limit_for_s: seconds, ..v1::Change::default() };
        control.change(&limit(7, Some(3600)));
        assert_eq!((control.steer().0.limit_bit_s, control.steer().1), (7, 1));
        control.change(&limit(7, Some(0)));
        assert_eq!((control.steer().0.limit_bit_s, control.steer().1), (0, 2), "the other end is to hear of it");
        control.change(&limit(9, Some(0)));
        control.change(&limit(8, None));
        assert_eq!(control.steer().0.limit_bit_s, 8);
    }

    #[test]
    fn what_moved_adds_up_over_attempts_and_never_shrinks() {
        let control = control();
        let saw = |arrived, in_place, files| {
            let progress = Progress {
                bytes_arrived: arrived,
                bytes_in_place: in_place,
                files_settled: files,
                ..Progress::default()
            };
            control.saw(&progress, 2);
            let (moved, streams) = control.moved();
            (moved.bytes, moved.files, streams)
        };
        control.meets(Some("::ffff:192.0.2.1".parse().unwrap()));
        assert_eq!(control.peer(), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(saw(100, 40, 1), (60, 1, 2));
        assert_eq!(saw(50, 40, 1), (60, 1, 2), "a file was given up");
        assert_eq!(saw(110, 40, 1), (70, 1, 2));
        control.saw_end(&[v1::Stream { retransmits: 3, resent_bytes: 9, ..v1::Stream::default() }]);
        assert_eq!(control.moved().1, 0);
        // Another attempt, which finds in place what the first one brought.
        control.meets(None);
        assert_eq!(saw(130, 110, 2), (90, 3, 2));
        assert_eq!((control.moved().0.resent_segments, control.moved().0.resent_segment_bytes), (3, 9));
    }

    #[test]
    fn what_it_waits_for_is_shown() {
        let control = control();
        control.wait_for("space");
        assert_eq!((control.show().state, control.show().waiting_for.as_str()), (v1::Stage::Waiting, "space"));
        control.end(None);
        assert_eq!((control.show().state, control.has_ended()), (v1::Stage::Failed, true));
    }
}

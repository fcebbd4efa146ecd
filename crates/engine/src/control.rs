//! The control of a running job: changes its settings while it runs, and shows its status.
//!
//! Each end of a job has one. A change at one end is sent to the other ([`wire::Frame::Steer`]), so that both show the same
//! settings. The sending end enforces the limit; the client opens and closes streams.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::Progress;
use model::id::Uuid;
use model::spec::LiveSettings;
use model::v1;
use parking_lot::{Mutex, MutexGuard};
use sys::waker::Waker;

use pilot::eta::{Estimator, Eta};

/// The time over which the present rate is averaged.
const WINDOW: Duration = Duration::from_secs(3);

/// The names of a job in its status.
#[derive(Clone, Debug, Default)]
pub struct Label {
    /// The transfer's id.
    pub id: Uuid,
    /// `send`, `receive` or `carry`.
    pub role: &'static str,
    /// The sources of the bytes.
    pub source: Vec<String>,
    /// Their target.
    pub target: String,
}

/// What a job has moved over the network so far, failed attempts included. Bytes that the target had already do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of files.
    pub bytes: u64,
    /// Files settled.
    pub files: u64,
    /// Segments that this host's TCP retransmitted, on streams that have ended.
    pub resent_segments: u64,
    /// Bytes of these segments.
    pub resent_segment_bytes: u64,
}

#[derive(Debug)]
struct ControlState {
    label: Label,
    /// The address of the other end.
    peer: Option<IpAddr>,
    moved: Moved,
    /// Bytes and files of this attempt that `moved` includes.
    counted: (u64, u64),
    steer: LiveSettings,
    /// When the limit lapses; none for a limit that does not.
    limit_until: Option<Instant>,
    /// Counts the changes made at this end, which must be sent to the other.
    version: u64,
    /// The limit in force was set at the other end.
    limit_is_remote: bool,
    progress: Progress,
    samples: VecDeque<(Instant, u64)>,
    estimator: Estimator,
    streams: u32,
    waiting_for: String,
    receipt: Option<Box<v1::Receipt>>,
    started: Instant,
    ended: bool,
    /// The job was cancelled, by `longhaul job cancel` or by the API.
    is_ended_by_order: bool,
    waker: Option<Waker>,
    /// Every settled file is reported to the watcher of the job.
    reports_files: bool,
}

/// The control of one job. Clones share its state.
#[derive(Clone, Debug)]
pub struct Control {
    state: Arc<Mutex<ControlState>>,
    cancel: Arc<AtomicBool>,
}

impl ControlState {
    /// Adds what has arrived since the last call. A file that is given up subtracts nothing: its bytes have moved.
    fn count(&mut self, progress: &Progress) {
        let bytes = progress.bytes_sent();
        let files = progress.files_settled.saturating_sub(progress.files_in_place);
        self.moved.bytes += bytes.saturating_sub(self.counted.0);
        self.moved.files += files.saturating_sub(self.counted.1);
        self.counted = (bytes.max(self.counted.0), files.max(self.counted.1));
    }

    /// The stage of the transfer: what it does, or how it ended.
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
    /// The control of a job that begins with these settings. Setting `cancel` ends the job.
    pub fn new(label: Label, steer: LiveSettings, cancel: Arc<AtomicBool>) -> Control {
        let state = ControlState {
            label,
            peer: None,
            moved: Moved::default(),
            counted: (0, 0),
            steer,
            limit_until: None,
            version: 0,
            limit_is_remote: false,
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
            reports_files: false,
        };
        Control { state: Arc::new(Mutex::new(state)), cancel }
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock()
    }

    /// From now on every settled file is reported to the watcher of the job.
    pub fn report_files(&self) {
        self.state().reports_files = true;
    }

    /// Whether every settled file is reported.
    pub fn reports_files(&self) -> bool {
        self.state().reports_files
    }

    /// Ends the job.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
        if let Some(waker) = &self.state().waker {
            waker.wake();
        }
    }

    /// Whether the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    /// The flag behind [`Control::is_cancelled`].
    pub fn cancel_flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// The job's settings, and how often they were changed at this end.
    pub fn settings(&self) -> (LiveSettings, u64) {
        let mut state = self.state();
        if state.limit_until.is_some_and(|until| until <= Instant::now()) {
            // The limit lapses: it was not renewed in time.
            state.steer.limit_bit_s = 0;
            state.limit_until = None;
            state.version += 1;
        }
        (state.steer, state.version)
    }

    /// Changes the job's settings. A setting that the change leaves out stays as it is.
    pub fn change(&self, change: &v1::Change) {
        let mut state = self.state();
        let steer = state.steer;
        state.steer = LiveSettings {
            limit_bit_s: change.limit_bit_s.unwrap_or(steer.limit_bit_s),
            streams: change.streams.unwrap_or(steer.streams).min(wire::limits::STREAMS_MAX / 4),
            paused: change.paused.unwrap_or(steer.paused),
        };
        state.version += u64::from(state.steer != steer);
        if change.limit_bit_s.is_some() {
            state.limit_until =
                change.limit_for_s.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
            state.limit_is_remote = false;
        }
        state.is_ended_by_order |= change.cancel;
        if let Some(waker) = &state.waker {
            waker.wake();
        }
        drop(state);
        if change.cancel {
            self.cancel();
        }
    }

    /// Takes over the settings that the other end has sent.
    pub fn adopt_settings(&self, steer: LiveSettings) {
        let mut state = self.state();
        if steer.limit_bit_s != state.steer.limit_bit_s {
            state.limit_is_remote = true;
            state.limit_until = None;
        }
        state.steer = steer;
    }

    /// Whether the limit in force was set at the other end.
    pub fn limit_is_remote(&self) -> bool {
        self.state().limit_is_remote
    }

    /// Sets the waker of the thread that carries out changes.
    pub fn set_waker(&self, waker: Waker) {
        self.state().waker = Some(waker);
    }

    /// Begins an attempt with this peer: its numbers start at zero.
    pub fn begin_attempt(&self, peer: Option<IpAddr>) {
        let mut state = self.state();
        state.peer = peer.map(|peer| peer.to_canonical()).or(state.peer);
        state.counted = (0, 0);
    }

    /// The address of the other end, once an attempt has begun.
    pub fn peer(&self) -> Option<IpAddr> {
        self.state().peer
    }

    /// What the job has moved so far, and how many streams are open.
    pub fn moved(&self) -> (Moved, u32) {
        let state = self.state();
        (state.moved, if state.ended { 0 } else { state.streams })
    }

    /// Adds the kernel's facts about the streams of an attempt, once they have ended.
    pub fn record_stream_facts(&self, streams: &[v1::Stream]) {
        let mut state = self.state();
        state.streams = 0;
        state.moved.resent_segments += streams.iter().map(|stream| stream.retransmits).sum::<u64>();
        state.moved.resent_segment_bytes += streams.iter().map(|stream| stream.resent_bytes).sum::<u64>();
    }

    /// The receipt, once the job has ended with one.
    pub fn receipt(&self) -> Option<v1::Receipt> {
        self.state().receipt.as_deref().cloned()
    }

    /// Takes over the job's present numbers.
    pub fn record_progress(&self, progress: &Progress, streams: u32) {
        let mut state = self.state();
        let now = Instant::now();
        state.progress = *progress;
        state.streams = streams;
        state.count(progress);
        state.samples.push_back((now, progress.bytes_sent()));
        let since = now - state.started;
        let waits = !state.waiting_for.is_empty();
        let steer = state.steer;
        state.estimator.observe(since, progress, &steer, waits);
        while state.samples.front().is_some_and(|(at, _)| now - *at > WINDOW) && state.samples.len() > 2 {
            state.samples.pop_front();
        }
    }

    /// When the job will be done; none where that cannot be estimated.
    pub fn eta(&self) -> Option<Eta> {
        let state = self.state();
        state.estimator.eta(state.started.elapsed()).filter(|_| !state.ended)
    }

    /// Sets the reason why nothing moves; empty when bytes move.
    pub fn wait_for(&self, what: &str) {
        let mut state = self.state();
        if state.waiting_for != what {
            what.clone_into(&mut state.waiting_for);
        }
    }

    /// The reason why nothing moves; empty when bytes move.
    pub fn waiting_for(&self) -> String {
        self.state().waiting_for.clone()
    }

    /// Marks the job as ended.
    pub fn end(&self, receipt: Option<v1::Receipt>) {
        let mut state = self.state();
        state.ended = true;
        state.receipt = receipt.map(Box::new);
        state.waiting_for.clear();
        state.waker = None;
        // A node lists jobs long after their end.
        state.samples = VecDeque::new();
        state.estimator = Estimator::default();
    }

    /// Whether the job has ended.
    pub fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// The status of the transfer, for the API and the command line.
    pub fn show(&self) -> v1::Transfer {
        let eta = self.eta();
        let state = self.state();
        let receipt = state.receipt.as_deref();
        v1::Transfer {
            id: state.label.id,
            state: state.stage(),
            role: state.label.role.into(),
            source: state.label.source.clone(),
            target: state.label.target.clone(),
            bytes: state.progress.bytes_arrived,
            sent_bytes: state.moved.bytes,
            bytes_total: if state.progress.is_endless() {
                state.progress.bytes_arrived
            } else {
                state.progress.bytes_offered
            },
            files: state.progress.files_settled,
            files_total: state.progress.files_offered,
            scanned: state.progress.scanned && !state.progress.is_endless(),
            rate_bit_s: if state.ended { 0 } else { rate_bit_s(&state.samples) },
            limit_bit_s: state.steer.limit_bit_s,
            streams: state.streams,
            seconds: state.started.elapsed().as_secs_f64(),
            eta_s: eta.map(|eta| eta.left.as_secs_f64()),
            eta_error_s: eta.map(|eta| eta.error.as_secs_f64()),
            waiting_for: state.waiting_for.clone(),
            failed: receipt.map(|receipt| receipt.failed),
            exit: receipt.map(|receipt| receipt.exit),
            error: receipt.and_then(|receipt| receipt.error.clone()),
            receipt: state.receipt.clone(),
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
        Control::new(Label::default(), LiveSettings { limit_bit_s: 5, ..LiveSettings::default() }, Arc::default())
    }

    #[test]
    fn a_change_keeps_the_other_settings_and_counts_once() {
        let control = control();
        control.change(&v1::Change { streams: Some(3), ..v1::Change::default() });
        assert_eq!(control.settings(), (LiveSettings { limit_bit_s: 5, streams: 3, paused: false }, 1));
        control.change(&v1::Change { streams: Some(3), ..v1::Change::default() });
        assert_eq!(control.settings().1, 1);
        control.adopt_settings(LiveSettings { paused: true, ..LiveSettings::default() });
        assert_eq!((control.settings().1, control.show().state), (1, v1::Stage::Paused));
        control.change(&v1::Change { paused: Some(false), cancel: true, ..v1::Change::default() });
        assert!(control.is_cancelled() && control.show().state == v1::Stage::Running);
    }

    #[test]
    fn a_limit_that_is_not_renewed_lapses() {
        let control = control();
        let limit =
            |limit, seconds| v1::Change { limit_bit_s: Some(limit), limit_for_s: seconds, ..v1::Change::default() };
        control.change(&limit(7, Some(3600)));
        assert_eq!((control.settings().0.limit_bit_s, control.settings().1), (7, 1));
        control.change(&limit(7, Some(0)));
        assert_eq!(
            (control.settings().0.limit_bit_s, control.settings().1),
            (0, 2),
            "the lapse is a change that is sent to the other end"
        );
        control.change(&limit(9, Some(0)));
        control.change(&limit(8, None));
        assert_eq!(control.settings().0.limit_bit_s, 8);
    }

    #[test]
    fn moved_bytes_add_up_over_attempts_and_never_shrink() {
        let control = control();
        let saw = |arrived, in_place, files| {
            let progress = Progress {
                bytes_arrived: arrived,
                bytes_in_place: in_place,
                files_settled: files,
                ..Progress::default()
            };
            control.record_progress(&progress, 2);
            let (moved, streams) = control.moved();
            (moved.bytes, moved.files, streams)
        };
        control.begin_attempt(Some("::ffff:192.0.2.1".parse().unwrap()));
        assert_eq!(control.peer(), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(saw(100, 40, 1), (60, 1, 2));
        assert_eq!(saw(50, 40, 1), (60, 1, 2), "a file was given up");
        assert_eq!(saw(110, 40, 1), (70, 1, 2));
        control.record_stream_facts(&[v1::Stream { retransmits: 3, resent_bytes: 9, ..v1::Stream::default() }]);
        assert_eq!(control.moved().1, 0);
        // A second attempt: the target already has the bytes of the first one.
        control.begin_attempt(None);
        assert_eq!(saw(130, 110, 2), (90, 3, 2));
        assert_eq!((control.moved().0.resent_segments, control.moved().0.resent_segment_bytes), (3, 9));
    }

    #[test]
    fn the_status_shows_what_the_job_waits_for() {
        let control = control();
        control.wait_for("space");
        assert_eq!((control.show().state, control.show().waiting_for.as_str()), (v1::Stage::Waiting, "space"));
        control.end(None);
        assert_eq!((control.show().state, control.has_ended()), (v1::Stage::Failed, true));
    }
}

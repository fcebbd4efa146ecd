//! Decides the number of streams: at the start as many as shorten slow start, then more where the evidence says that a stream is the
//! limit. New streams are kept only if the rate rises.

use std::time::Duration;

use model::account::StageTimes;
use model::laws;

use crate::accumulator::{Accumulator, IntervalRates};
use crate::{Known, PathHistory};

/// The largest number of streams that the pilot chooses by itself.
pub const STREAMS_MAX: u32 = 128;

/// A job begins with one stream for each such span of the round-trip time. Twice the streams save one round trip of slow start: at
/// 303 ms sixteen streams save 1.2 s.
const ROUND_TRIP_PER_STREAM: Duration = Duration::from_millis(20);
const FIRST_MAX: u32 = 16;
/// Below this round-trip time streams can be opened and closed at no cost.
const NEAR_RTT: Duration = Duration::from_millis(2);
/// A window or buffer that is full for at least this share of the busy time is the limit. The kernel counts a send buffer as full
/// only while nothing in it is left to send, which is a small part of the time in which the buffer is the limit.
const FULL: f64 = 0.1;
/// The gain in rate that keeps a new stream.
const GAIN: f64 = 0.01;
/// How long a step that did not help is not repeated.
const RESTRAINT: Duration = Duration::from_secs(60);
/// The restraint doubles each time, up to this: every stream that is opened uses up a number of the session.
const RESTRAINT_MAX: Duration = Duration::from_secs(3600);

/// The number of streams to begin with, over a path of this round-trip time.
pub fn first_streams(rtt: Duration, known: &Known) -> u32 {
    let past = known.past.as_ref();
    if rtt < NEAR_RTT {
        // At this distance processors are the scarce resource.
        return past.map_or(known.processors.clamp(2, 8), |past| past.streams.clamp(1, STREAMS_MAX));
    }
    let by_rtt = (rtt.as_nanos().div_ceil(ROUND_TRIP_PER_STREAM.as_nanos()) as u32).clamp(1, FIRST_MAX);
    let Some(past) = past else { return by_rtt };
    let window = usable(known.send_buffer_bytes) as f64;
    let by_window = match past.capacity_bytes_s {
        0 => 1,
        rate => laws::streams_for_window(rate as f64 * 8.0, rtt.as_secs_f64(), window).min(STREAMS_MAX.into()) as u32,
    };
    past.streams.clamp(1, STREAMS_MAX).max(by_rtt).max(by_window)
}

/// The part of a buffer that carries payload: the kernel counts its own structures too, and keeps sent data until it is
/// acknowledged. Never more than a window can announce (RFC 7323).
fn usable(buffer: u64) -> u64 {
    (buffer / 2).clamp(64 << 10, laws::WINDOW_BYTES_MAX)
}

/// The state of the path and its streams, without the accumulator's sums.
pub(super) struct PathView {
    pub streams: u32,
    /// The path is full, and its rate is held.
    pub is_full: bool,
    /// The receiver's threads wait for this end.
    pub peer_waits: bool,
    pub loss_based: bool,
    pub processors: u32,
}

/// Why one stream is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Its window or its buffer is full of data in flight.
    Window,
    /// Its thread reads, digests and seals all the time.
    Thread,
    /// It takes loss for congestion, and here loss is not congestion.
    Loss,
}

#[derive(Clone, Copy, Debug)]
struct StreamTrial {
    reason: Reason,
    from: u32,
    rate_before: f64,
    at: Duration,
}

/// A step that did not help.
#[derive(Clone, Copy, Debug)]
struct FailedStep {
    reason: Reason,
    from: u32,
    until: Duration,
    restraint: Duration,
}

/// Decides the number of streams.
#[derive(Debug, Default)]
pub(super) struct StreamCount {
    trial: Option<StreamTrial>,
    changed: Option<Duration>,
    /// The steps that did not help, and until when each is not repeated.
    failed_steps: Vec<FailedStep>,
    /// The number of streams that an earlier job settled at.
    first: Option<u32>,
    /// More streams were put on trial since `Pilot::tick` last read this.
    pub(super) has_widened: bool,
    pub(super) peer_before: (StageTimes, bool),
}

impl StreamCount {
    pub(super) fn new(past: Option<&PathHistory>) -> StreamCount {
        StreamCount { first: past.map(|past| past.streams.clamp(1, STREAMS_MAX)), ..StreamCount::default() }
    }

    /// The new number of streams, if it should change.
    pub(super) fn tick(&mut self, now: Duration, accumulator: &Accumulator, view: &PathView) -> Option<u32> {
        if accumulator.min_rtt().is_zero() {
            return None;
        }
        if let Some(first) = self.first.take().filter(|first| *first > view.streams) {
            return Some(first);
        }
        let round = accumulator.round();
        let epoch = (round * 4).max(Duration::from_secs(1));
        let changed = *self.changed.get_or_insert(now);
        if now.saturating_sub(changed) < epoch {
            return None;
        }
        if let Some(trial) = self.trial {
            // New streams go through slow start before they are judged.
            if now.saturating_sub(trial.at) < epoch * 2 + round * 8 {
                return None;
            }
            self.trial = None;
            let rate = accumulator.over(epoch).rate;
            if rate < trial.rate_before * (1.0 + GAIN) {
                self.note_failure(&trial, now);
                self.changed = Some(now);
                return Some(trial.from);
            }
        }
        if accumulator.grows(epoch) {
            return None;
        }
        let last = accumulator.over(epoch);
        let (reason, to) = Self::step(&last, accumulator, view)?;
        let to = to.min(STREAMS_MAX);
        let has_failed =
            self.failed_steps.iter().any(|step| step.reason == reason && step.from <= view.streams && now < step.until);
        if to <= view.streams || has_failed {
            return None;
        }
        self.has_widened = true;
        self.trial = Some(StreamTrial { reason, from: view.streams, rate_before: last.rate, at: now });
        self.changed = Some(now);
        Some(to)
    }

    /// The number of streams without those on trial.
    pub(super) fn settled(&self, streams: u32) -> u32 {
        self.trial.map_or(streams, |trial| trial.from)
    }

    /// Notes a trial that did not help: the same step is not tried again for a while.
    fn note_failure(&mut self, trial: &StreamTrial, now: Duration) {
        let known = self.failed_steps.iter_mut().find(|step| step.reason == trial.reason && step.from == trial.from);
        match known {
            Some(step) => {
                step.restraint = (step.restraint * 2).min(RESTRAINT_MAX);
                step.until = now + step.restraint;
            }
            None => {
                let reason = trial.reason;
                let from = trial.from;
                self.failed_steps.push(FailedStep { reason, from, until: now + RESTRAINT, restraint: RESTRAINT });
            }
        }
    }

    /// Whether, and why, more streams would carry more.
    fn step(last: &IntervalRates, accumulator: &Accumulator, view: &PathView) -> Option<(Reason, u32)> {
        let streams = view.streams;
        // At the held rate no window should ever be full: one that is full was the limit when the rate was measured.
        let threshold = if view.is_full { 3.0 * FULL } else { FULL };
        if last.is_windowed(threshold) && view.peer_waits && !accumulator.queue_stands() {
            // All windows full all the time: twice the streams give twice the rate. Full half of the time: fewer are needed.
            let least = if last.fills { 0.5 } else { 0.25 };
            let grown = f64::from(streams) * (1.0 + last.full_window_part().clamp(least, 1.0));
            return Some((Reason::Window, (grown.ceil() as u32).max(streams + 1)));
        }
        if view.is_full || accumulator.queue_stands() {
            return None;
        }
        if last.compute + last.storage > 0.75 && streams < view.processors.max(1) * 2 && view.peer_waits {
            return Some((Reason::Thread, streams + 1));
        }
        (view.loss_based && last.loss > 1e-6 && last.socket > 0.5).then_some((Reason::Loss, streams * 2))
    }
}

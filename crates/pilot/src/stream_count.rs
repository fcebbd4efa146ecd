//! Decides the number of streams: at the start as many as slow start is worth, then more where the evidence says that a stream is the
//! limit. New streams are kept only if the rate rises.

use std::time::Duration;

use model::account::Spent;
use model::laws;

use crate::accumulator::{Accumulator, Lapse};
use crate::{Known, Past};

/// The largest number of streams that the pilot chooses by itself.
pub const STREAMS_MAX: u32 = 128;

/// For each so much of round-trip time one stream to begin with. Twice the streams save one round trip of slow start:
/// at 303 ms sixteen of them save 1.2 s of it.
const ROUND_TRIP_PER_STREAM: Duration = Duration::from_millis(20);
const FIRST_MAX: u32 = 16;
/// Below this round-trip time streams come and go at no cost.
const NEAR: Duration = Duration::from_millis(2);
/// Share of the busy time with a full window or buffer from which on that is what limits. The kernel counts a send
/// buffer as full only while nothing in it is left to send, which is a small part of the time that it does limit.
const FULL: f64 = 0.1;
/// What must be gained by a stream to keep it.
const GAIN: f64 = 0.01;
/// How long a step that did not help is not taken again.
const RESTRAINT: Duration = Duration::from_secs(60);
/// It doubles each time, up to this: every stream that comes and goes uses up a number of the session.
const RESTRAINT_MAX: Duration = Duration::from_secs(3600);

/// The number of streams to begin with, over a path of this round-trip time.
pub fn first_streams(rtt: Duration, known: &Known) -> u32 {
    let past = known.past.as_ref();
    if rtt < NEAR {
        // Next door, processors are what there may be too few of at work.
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

/// What of a buffer carries payload: the kernel counts its own structures too, and keeps sent data until it is
/// acknowledged. Never more than a window can say (RFC 7323).
fn usable(buffer: u64) -> u64 {
    (buffer / 2).clamp(64 << 10, laws::WINDOW_BYTES_MAX)
}

/// What the counting looks at besides the accumulator.
pub(super) struct View {
    pub streams: u32,
    /// What may be sent is held: the path is full.
    pub held: bool,
    /// The receiver's threads wait for us.
    pub peer_waits: bool,
    pub loss_based: bool,
    pub processors: u32,
}

/// Why one stream is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Its window, or its buffer, is full of what is on its way.
    Window,
    /// Its thread reads, digests and seals all the time.
    Thread,
    /// It takes loss for congestion, and loss is not congestion here.
    Loss,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    reason: Reason,
    from: u32,
    rate_before: f64,
    at: Duration,
}

/// A step that did not help.
#[derive(Clone, Copy, Debug)]
struct Vain {
    reason: Reason,
    from: u32,
    until: Duration,
    restraint: Duration,
}

/// Counts streams.
#[derive(Debug, Default)]
pub(super) struct StreamCount {
    trial: Option<Trial>,
    changed: Option<Duration>,
    /// Steps that did not help, and when.
    vain: Vec<Vain>,
    /// What an earlier job found right.
    first: Option<u32>,
    /// More streams are on trial since the last look.
    pub(super) widened: bool,
    pub(super) peer_before: (Spent, bool),
}

impl StreamCount {
    pub(super) fn new(past: Option<&Past>) -> StreamCount {
        StreamCount { first: past.map(|past| past.streams.clamp(1, STREAMS_MAX)), ..StreamCount::default() }
    }

    /// The new number of streams, if it should change.
    pub(super) fn tick(&mut self, now: Duration, accumulator: &Accumulator, view: &View) -> Option<u32> {
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
            // New streams have slow starts of their own before they count.
            if now.saturating_sub(trial.at) < epoch * 2 + round * 8 {
                return None;
            }
            self.trial = None;
            let rate = accumulator.over(epoch).rate;
            if rate < trial.rate_before * (1.0 + GAIN) {
                self.forgo(&trial, now);
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
        let vain = self.vain.iter().any(|v| v.reason == reason && v.from <= view.streams && now < v.until);
        if to <= view.streams || vain {
            return None;
        }
        self.widened = true;
        self.trial = Some(Trial { reason, from: view.streams, rate_before: last.rate, at: now });
        self.changed = Some(now);
        Some(to)
    }

    /// Streams in force, of so many: those on trial are none yet.
    pub(super) fn settled(&self, streams: u32) -> u32 {
        self.trial.map_or(streams, |trial| trial.from)
    }

    /// A trial was in vain: the same is not tried again for a while.
    fn forgo(&mut self, trial: &Trial, now: Duration) {
        let known = self.vain.iter_mut().find(|v| v.reason == trial.reason && v.from == trial.from);
        match known {
            Some(vain) => {
                vain.restraint = (vain.restraint * 2).min(RESTRAINT_MAX);
                vain.until = now + vain.restraint;
            }
            None => {
                let (reason, from) = (trial.reason, trial.from);
                self.vain.push(Vain { reason, from, until: now + RESTRAINT, restraint: RESTRAINT });
            }
        }
    }

    /// Whether, and why, more streams would carry more.
    fn step(last: &Lapse, accumulator: &Accumulator, view: &View) -> Option<(Reason, u32)> {
        let streams = view.streams;
        // Held at what the path gives, no window is ever full: one that is was what gave so little.
        let much = if view.held { 3.0 * FULL } else { FULL };
        if last.is_windowed(much) && view.peer_waits && !accumulator.queue_stands() {
            // All windows full all the time: twice the streams are twice the rate. Full half of the time: less is needed.
            let least = if last.fills { 0.5 } else { 0.25 };
            let grown = f64::from(streams) * (1.0 + last.windows().clamp(least, 1.0));
            return Some((Reason::Window, (grown.ceil() as u32).max(streams + 1)));
        }
        if view.held || accumulator.queue_stands() {
            return None;
        }
        if last.compute + last.storage > 0.75 && streams < view.processors.max(1) * 2 && view.peer_waits {
            return Some((Reason::Thread, streams + 1));
        }
        (view.loss_based && last.loss > 1e-6 && last.socket > 0.5).then_some((Reason::Loss, streams * 2))
    }
}

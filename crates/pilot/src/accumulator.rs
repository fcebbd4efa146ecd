//! Adds up the samples of all streams, and derives loss, queues and limits from the sums.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use model::account::{Stage, StageTimes};

use crate::Sample;

/// Sums over all streams since the transfer began; streams that have ended still count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub at: Duration,
    pub delivered_bytes: u64,
    pub sent_bytes: u64,
    pub resent_bytes: u64,
    pub busy: Duration,
    pub receive_window_limited: Duration,
    pub send_buffer_limited: Duration,
    pub spent: StageTimes,
    /// The mean of the streams' smoothed round-trip times at this moment.
    pub rtt: Duration,
    pub mss: u32,
}

/// How long the sums are kept.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// The sums over the streams of a transfer, over time.
#[derive(Debug, Default)]
pub struct Accumulator {
    last: HashMap<u32, Sample>,
    now: Sums,
    past: VecDeque<Sums>,
    min_rtt: Duration,
    /// Bytes sent, and bytes sent again, while no queue stood on the path.
    sent_and_resent_without_queue: (u64, u64),
    last_queue_at: Option<Duration>,
    window_bytes: u64,
    window_scaling: Option<bool>,
    congestion: String,
    streams: u32,
    /// The largest send buffer that this host gives a stream, bytes; 0 where that is not known.
    send_buffer_bytes: u64,
}

/// The part of a buffer or window that is payload: the kernel counts its own structures too, and keeps sent data until it is
/// acknowledged.
const USABLE: f64 = 0.5;

/// An estimate of a path, from the samples of its streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathEstimate {
    /// Smallest round-trip time of the path.
    pub min_rtt: Duration,
    /// Mean round-trip time while the path was busy.
    pub rtt: Duration,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// Bytes that the peer has acknowledged.
    pub delivered_bytes: u64,
    /// Share of the bytes that were sent again.
    pub loss: f64,
    /// Share of the bytes that were sent again while no queue stood: loss that is not congestion.
    pub loss_without_queue: f64,
    /// Share of the busy time in which the receiver's window was full.
    pub receive_window_limited: f64,
    /// Share of the busy time in which the send buffer was full.
    pub send_buffer_limited: f64,
    /// The largest window that the receiver offered one stream, bytes.
    pub window_bytes: u64,
    /// Whether windows are scaled at both ends; none where no sample says so.
    pub window_scaling: Option<bool>,
    /// The rate of the full path, bytes per second of payload; 0 if it never was full.
    pub capacity_bytes_s: u64,
    /// The present limit on all streams together, bytes per second; none where only congestion control decides.
    pub cap_bytes_s: Option<u64>,
    /// Congestion control that the evidence asks for and the host does not permit.
    pub missed: Option<&'static str>,
    /// Congestion control that the user asked for.
    pub forced: Option<String>,
    /// Congestion control in force.
    pub congestion: String,
}

impl Accumulator {
    /// An empty accumulator, for a host that gives a stream at most this send buffer, in bytes.
    pub fn new(send_buffer_bytes: u64) -> Accumulator {
        Accumulator { send_buffer_bytes, ..Accumulator::default() }
    }

    /// Adds the samples of all streams that are open now.
    pub fn observe(&mut self, now: Duration, samples: &[Sample]) {
        let before = self.now;
        self.past.push_back(before);
        while self.past.front().is_some_and(|sums| now.saturating_sub(sums.at) > KEPT_FOR) {
            self.past.pop_front();
        }
        for sample in samples {
            let new = || Sample { stream: sample.stream, ..Sample::default() };
            let last = self.last.entry(sample.stream).or_insert_with(new);
            let (then, tcp) = (&last.tcp, &sample.tcp);
            let segments = tcp.delivered_segments.wrapping_sub(then.delivered_segments);
            let sums = &mut self.now;
            sums.delivered_bytes += u64::from(segments) * u64::from(tcp.mss_bytes);
            sums.sent_bytes += tcp.bytes_sent.saturating_sub(then.bytes_sent);
            sums.resent_bytes += tcp.bytes_retransmitted.saturating_sub(then.bytes_retransmitted);
            sums.busy += tcp.busy.saturating_sub(then.busy);
            sums.receive_window_limited += tcp.receive_window_limited.saturating_sub(then.receive_window_limited);
            sums.send_buffer_limited += tcp.send_buffer_limited.saturating_sub(then.send_buffer_limited);
            sums.spent.add(&sample.spent.since(&last.spent));
            if !tcp.min_rtt.is_zero() && (self.min_rtt.is_zero() || tcp.min_rtt < self.min_rtt) {
                self.min_rtt = tcp.min_rtt;
            }
            self.window_bytes = self.window_bytes.max(tcp.send_window_bytes);
            self.window_scaling = Some(tcp.window_scaling);
            self.now.mss = tcp.mss_bytes;
            last.clone_from(sample);
        }
        self.now.at = now;
        self.streams = samples.len() as u32;
        if let Some(first) = samples.first() {
            self.now.rtt = samples.iter().map(|s| s.tcp.rtt).sum::<Duration>() / samples.len() as u32;
            self.congestion.clone_from(&first.congestion);
        }
        if self.queue_stands() {
            self.last_queue_at = Some(now);
        }
        // Segments that an overflow dropped are sent again after the queue has gone.
        if self.last_queue_at.is_none_or(|at| now - at > self.round() * 4) {
            self.sent_and_resent_without_queue.0 += self.now.sent_bytes - before.sent_bytes;
            self.sent_and_resent_without_queue.1 += self.now.resent_bytes - before.resent_bytes;
        }
    }

    /// Smallest round-trip time; zero before the first sample.
    pub fn min_rtt(&self) -> Duration {
        self.min_rtt
    }

    /// One round trip, or the shortest time over which a measurement is meaningful.
    pub(super) fn round(&self) -> Duration {
        self.min_rtt.max(Duration::from_millis(100))
    }

    /// Whether data waits in a queue of the path: the round-trip time is above its least by more than noise.
    pub(super) fn queue_stands(&self) -> bool {
        self.now.rtt > self.min_rtt + (self.min_rtt / 8).max(Duration::from_millis(3))
    }

    /// Whether the queue is longer than chance explains.
    pub(super) fn queue_is_long(&self) -> bool {
        self.now.rtt > self.min_rtt + (self.min_rtt / 8).max(Duration::from_millis(10))
    }

    /// Share of the bytes that were sent again while no queue stood.
    pub(super) fn loss_without_queue(&self) -> f64 {
        ratio(self.sent_and_resent_without_queue.1 as f64, self.sent_and_resent_without_queue.0 as f64)
    }

    /// The highest rate over any stretch of the last `span`. A stretch is long enough for acknowledgements that come in bursts to even
    /// out.
    pub(super) fn best_rate(&self, span: Duration) -> f64 {
        let stretch = self.round().max(Duration::from_millis(300));
        let from = self.now.at.saturating_sub(span);
        let mut best: f64 = 0.0;
        let mut start = 0;
        for (at, sums) in self.past.iter().chain([&self.now]).enumerate() {
            while start < at && self.past[start].at + stretch <= sums.at {
                start += 1;
            }
            if sums.at >= from && start > 0 {
                best = best.max(IntervalRates::between(&self.past[start - 1], sums).rate);
            }
        }
        best
    }

    /// Whether the rate still grows, so that the present limit may not be the final one.
    pub(super) fn grows(&self, span: Duration) -> bool {
        let (whole, half) = (self.over(span), self.over(span / 2));
        half.rate > whole.rate * 1.05
    }

    /// The rates of the last `span`.
    pub(super) fn over(&self, span: Duration) -> IntervalRates {
        let from = self.now.at.saturating_sub(span);
        let then = self.past.iter().rev().find(|sums| sums.at <= from).or(self.past.front()).copied();
        let rates = IntervalRates::between(&then.unwrap_or_default(), &self.now);
        IntervalRates { fills: self.fills(rates.rate), ..rates }
    }

    /// Whether the bytes in flight at this rate fill a stream's send buffer or the window that it was offered.
    fn fills(&self, rate: f64) -> bool {
        let in_flight = rate * self.min_rtt.as_secs_f64() / f64::from(self.streams.max(1));
        let full = |bytes: u64| bytes > 0 && in_flight > bytes as f64 * USABLE;
        full(self.window_bytes) || full(self.send_buffer_bytes)
    }

    /// The estimate of the path from all samples so far.
    pub fn estimate(&self) -> PathEstimate {
        let all = IntervalRates::between(&Sums::default(), &self.now);
        PathEstimate {
            min_rtt: self.min_rtt,
            rtt: self.now.rtt,
            mss_bytes: self.now.mss,
            delivered_bytes: self.now.delivered_bytes,
            loss: all.loss,
            loss_without_queue: self.loss_without_queue(),
            receive_window_limited: all.receive_window,
            send_buffer_limited: all.send_buffer,
            window_bytes: self.window_bytes,
            window_scaling: self.window_scaling,
            congestion: self.congestion.clone(),
            ..PathEstimate::default()
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The differences between two moments, as rates and shares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IntervalRates {
    /// Bytes that arrived, per second.
    pub rate: f64,
    /// Share of the bytes sent that were sent again.
    pub loss: f64,
    /// Segments sent.
    segments: f64,
    /// Segments sent again.
    again: f64,
    /// Share of the busy time in which the receiver's window was full.
    pub receive_window: f64,
    /// Share of the busy time in which the send buffer was full.
    pub send_buffer: f64,
    /// The bytes in flight fill the window or the buffer.
    pub fills: bool,
    /// Share of the threads' time in the socket.
    pub socket: f64,
    /// Share of the threads' time in storage.
    pub storage: f64,
    /// Share of the threads' time in computing.
    pub compute: f64,
}

/// From this share of the busy time on, a window or buffer counts as full where the bytes in flight fill it too: BBR settles at the
/// rate that a full window gives, and hardly ever runs into it again.
const FULL_PART_MIN: f64 = 0.05;

impl IntervalRates {
    /// Share of the busy time in which a window or a buffer was full.
    pub(super) fn full_window_part(&self) -> f64 {
        self.receive_window + self.send_buffer
    }

    /// Whether windows or buffers are the limit: full for more than this share of the time, or the rate has settled at what they
    /// allow.
    pub(super) fn is_windowed(&self, above: f64) -> bool {
        self.full_window_part() > above || self.fills && self.full_window_part() > FULL_PART_MIN
    }

    /// Whether more was lost than chance explains at a constant rate of loss `base`: more than three standard deviations (of a Poisson
    /// distribution) above it, and more than a `margin` that is not worth a reaction.
    pub(super) fn loses_more_than(&self, base: f64, margin: f64) -> bool {
        let expected = self.segments * base;
        self.again > expected + 3.0 * expected.sqrt() + 3.0 + self.segments * margin
    }

    fn between(then: &Sums, now: &Sums) -> IntervalRates {
        let seconds = now.at.saturating_sub(then.at).as_secs_f64();
        let spent = now.spent.since(&then.spent);
        let total = spent.total().as_secs_f64();
        let share = |stage: Stage| ratio(spent.wall_in(stage).as_secs_f64(), total);
        let busy = now.busy.saturating_sub(then.busy).as_secs_f64();
        let sent = (now.sent_bytes - then.sent_bytes) as f64;
        let again = (now.resent_bytes - then.resent_bytes) as f64;
        let of_busy = |now: Duration, then: Duration| ratio(now.saturating_sub(then).as_secs_f64(), busy);
        IntervalRates {
            rate: ratio((now.delivered_bytes - then.delivered_bytes) as f64, seconds),
            loss: ratio(again, sent),
            segments: sent / f64::from(now.mss.max(1)),
            again: again / f64::from(now.mss.max(1)),
            receive_window: of_busy(now.receive_window_limited, then.receive_window_limited),
            send_buffer: of_busy(now.send_buffer_limited, then.send_buffer_limited),
            fills: false,
            socket: share(Stage::Socket),
            storage: share(Stage::Storage),
            compute: share(Stage::Compute),
        }
    }
}

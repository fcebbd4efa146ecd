//! A test over time: makes intervals and totals from samples of the streams, and leaves out the start. Pure.

use std::time::Duration;

use model::tcp::TcpInfo;
use model::v1::probe::Direction;
use model::v1::probe::tcp::{Flow, Interval, Kernel, Total};

use super::stream::{FinishedStream, StreamSample};

/// Samples of all streams at one moment.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    at: Duration,
    samples: Vec<StreamSample>,
}

impl Snapshot {
    fn of(&self, id: u32) -> StreamSample {
        self.samples.iter().find(|sample| sample.id == id).copied().unwrap_or_default()
    }
}

/// Makes intervals and totals from samples.
#[derive(Debug)]
pub(crate) struct IntervalRecorder {
    interval: Duration,
    omit: Duration,
    last: Snapshot,
    /// The samples when counting began, after the start that is left out; none until then.
    counts_from: Option<Snapshot>,
}

fn rate_bit_s(bytes: u64, span: Duration) -> u64 {
    let seconds = span.as_secs_f64();
    if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 }
}

/// The kernel's facts in public form.
pub(crate) fn kernel(tcp: &TcpInfo) -> Kernel {
    Kernel {
        rtt_s: tcp.rtt.as_secs_f64(),
        min_rtt_s: tcp.min_rtt.as_secs_f64(),
        cwnd_bytes: u64::from(tcp.cwnd_segments) * u64::from(tcp.mss_bytes),
        window_bytes: tcp.send_window_bytes,
        mss_bytes: tcp.mss_bytes,
        path_mtu_bytes: tcp.path_mtu_bytes,
        sent_bytes: tcp.bytes_sent,
        resent_bytes: tcp.bytes_retransmitted,
        retransmits: tcp.retransmits,
        spurious: tcp.spurious.into(),
        delivery_rate_bit_s: tcp.delivery_rate_bytes_s.saturating_mul(8),
        busy_s: tcp.busy.as_secs_f64(),
        receive_window_limited_s: tcp.receive_window_limited.as_secs_f64(),
        send_buffer_limited_s: tcp.send_buffer_limited.as_secs_f64(),
        window_scaling: tcp.window_scaling,
    }
}

fn flow(now: &StreamSample, then: &StreamSample, span: Duration) -> Flow {
    let bytes = now.bytes.saturating_sub(then.bytes);
    Flow {
        stream: now.id,
        direction: Direction::of(now.is_forward),
        bytes,
        rate_bit_s: rate_bit_s(bytes, span),
        kernel: now.sends.then(|| kernel(&now.tcp.since(&then.tcp))),
    }
}

impl IntervalRecorder {
    pub(crate) fn new(interval: Duration, omit: Duration) -> IntervalRecorder {
        let counts_from = omit.is_zero().then(Snapshot::default);
        IntervalRecorder { interval, omit, last: Snapshot::default(), counts_from }
    }

    /// When the next sample is due, after the start.
    pub(crate) fn due(&self) -> Duration {
        let next = self.last.at + self.interval;
        if self.counts_from.is_none() { next.min(self.omit) } else { next }
    }

    /// Takes samples; returns an interval if one is complete.
    pub(crate) fn record(&mut self, at: Duration, samples: Vec<StreamSample>) -> Option<Interval> {
        if at < self.due() {
            return None;
        }
        Some(self.close(at, samples))
    }

    /// Ends the interval at `at`, however short it is.
    pub(crate) fn close(&mut self, at: Duration, samples: Vec<StreamSample>) -> Interval {
        let omitted = self.counts_from.is_none();
        let span = at.saturating_sub(self.last.at);
        let flows = samples.iter().map(|sample| flow(sample, &self.last.of(sample.id), span)).collect();
        let interval = Interval { start_s: self.last.at.as_secs_f64(), end_s: at.as_secs_f64(), omitted, flows };
        self.last = Snapshot { at, samples };
        if omitted && at >= self.omit {
            self.counts_from = Some(self.last.clone());
        }
        interval
    }

    /// How long ago the last interval ended.
    pub(crate) fn since_last(&self, at: Duration) -> Duration {
        at.saturating_sub(self.last.at)
    }

    /// The total of a stream over the whole test.
    pub(crate) fn total(&self, ended: &FinishedStream) -> Total {
        let sample = &ended.sample;
        let from = self.counts_from.clone().unwrap_or_else(|| self.last.clone());
        let counted_bytes = sample.bytes.saturating_sub(from.of(sample.id).bytes);
        // Bytes of a remote sender arrive a round trip after the start; that delay is no part of the rate. Where the first byte
        // arrived in the second half of the test, the delay cannot be distinguished from a slow rate.
        let begin = if sample.sends || sample.first > sample.last / 2 { from.at } else { from.at.max(sample.first) };
        let counted = sample.last.saturating_sub(begin);
        Total {
            flow: flow(sample, &StreamSample::default(), sample.last),
            counted_bytes,
            counted_s: counted.as_secs_f64(),
            congestion: ended.congestion.clone(),
            cpu_s: ended.cpu.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(id: u32, bytes: u64, last: Duration) -> StreamSample {
        StreamSample { id, is_forward: true, sends: false, bytes, first: Duration::ZERO, last, tcp: TcpInfo::default() }
    }

    #[test]
    fn the_start_does_not_count() {
        let mut recorder = IntervalRecorder::new(SECOND, SECOND / 2);
        assert_eq!(recorder.due(), SECOND / 2);
        assert_eq!(recorder.record(SECOND / 4, vec![sample(1, 10, SECOND / 4)]), None);
        let first = recorder.record(SECOND / 2, vec![sample(1, 1_000, SECOND / 2)]).unwrap();
        assert!(first.omitted && first.flows[0].bytes == 1_000 && first.flows[0].rate_bit_s == 16_000, "{first:?}");
        let second = recorder.record(SECOND * 3 / 2, vec![sample(1, 5_000, SECOND * 3 / 2)]).unwrap();
        assert!(!second.omitted && second.flows[0].rate_bit_s == 32_000, "{second:?}");
        let last = sample(1, 7_000, SECOND * 2);
        let ended = FinishedStream { sample: last, cpu: SECOND, congestion: "bbr".into(), error: None };
        let total = recorder.total(&ended);
        assert_eq!((total.flow.bytes, total.counted_bytes, total.counted_s), (7_000, 6_000, 1.5));
        let recorder = IntervalRecorder::new(SECOND, Duration::ZERO);
        let late = FinishedStream { sample: StreamSample { first: SECOND / 2, ..ended.sample }, ..ended };
        assert_eq!(recorder.total(&late).counted_s, 1.5, "its first bytes were half a second on their way");
    }

    #[test]
    fn a_late_sample_makes_one_long_interval() {
        let mut recorder = IntervalRecorder::new(SECOND, Duration::ZERO);
        let late = recorder.record(SECOND * 3, vec![sample(1, 3_000, SECOND * 3)]).unwrap();
        assert_eq!((late.start_s, late.end_s, late.flows[0].rate_bit_s), (0.0, 3.0, 8_000));
        assert_eq!(recorder.due(), SECOND * 4);
    }
}

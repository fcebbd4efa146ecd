//! A test's course in time: intervals, what does not count, and the totals, from looks at the streams. Pure.

use std::time::Duration;

use model::tcp::TcpInfo;
use model::v1::probe::Direction;
use model::v1::probe::tcp::{Flow, Interval, Kernel, Total};

use super::stream::{Ended, Look};

/// What was counted at a moment.
#[derive(Clone, Debug, Default)]
struct Mark {
    at: Duration,
    looks: Vec<Look>,
}

impl Mark {
    fn of(&self, id: u32) -> Look {
        self.looks.iter().find(|look| look.id == id).copied().unwrap_or_default()
    }
}

/// Makes intervals and totals.
#[derive(Debug)]
pub(crate) struct Course {
    interval: Duration,
    omit: Duration,
    last: Mark,
    /// Where counting begins: none while it has not.
    counts_from: Option<Mark>,
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

fn flow(now: &Look, then: &Look, span: Duration) -> Flow {
    let bytes = now.bytes.saturating_sub(then.bytes);
    Flow {
        stream: now.id,
        direction: Direction::of(now.up),
        bytes,
        rate_bit_s: rate_bit_s(bytes, span),
        kernel: now.sends.then(|| kernel(&now.tcp.since(&then.tcp))),
    }
}

impl Course {
    pub(crate) fn new(interval: Duration, omit: Duration) -> Course {
        let counts_from = omit.is_zero().then(Mark::default);
        Course { interval, omit, last: Mark::default(), counts_from }
    }

    /// When the next look is due.
    pub(crate) fn due(&self) -> Duration {
        let next = self.last.at + self.interval;
        if self.counts_from.is_none() { next.min(self.omit) } else { next }
    }

    /// A look at the streams: an interval, where one is complete.
    pub(crate) fn saw(&mut self, at: Duration, looks: Vec<Look>) -> Option<Interval> {
        if at < self.due() {
            return None;
        }
        Some(self.close(at, looks))
    }

    /// The interval that ends now, however short.
    pub(crate) fn close(&mut self, at: Duration, looks: Vec<Look>) -> Interval {
        let omitted = self.counts_from.is_none();
        let span = at.saturating_sub(self.last.at);
        let flows = looks.iter().map(|look| flow(look, &self.last.of(look.id), span)).collect();
        let interval = Interval { start_s: self.last.at.as_secs_f64(), end_s: at.as_secs_f64(), omitted, flows };
        self.last = Mark { at, looks };
        if omitted && at >= self.omit {
            self.counts_from = Some(self.last.clone());
        }
        interval
    }

    /// How long ago the last interval ended.
    pub(crate) fn since_last(&self, at: Duration) -> Duration {
        at.saturating_sub(self.last.at)
    }

    /// A stream over the whole test.
    pub(crate) fn total(&self, ended: &Ended) -> Total {
        let look = &ended.look;
        let from = self.counts_from.clone().unwrap_or_else(|| self.last.clone());
        let counted_bytes = look.bytes.saturating_sub(from.of(look.id).bytes);
        // Where the other end sends, its first bytes come a round trip after the start: that is not the path's rate. Of
        // what is over sooner nobody knows.
        let begin = if look.sends || look.first > look.last / 2 { from.at } else { from.at.max(look.first) };
        let counted = look.last.saturating_sub(begin);
        Total {
            flow: flow(look, &Look::default(), look.last),
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

    fn look(id: u32, bytes: u64, last: Duration) -> Look {
        Look { id, up: true, sends: false, bytes, first: Duration::ZERO, last, tcp: TcpInfo::default() }
    }

    #[test]
    fn the_start_does_not_count() {
        let mut course = Course::new(SECOND, SECOND / 2);
        assert_eq!(course.due(), SECOND / 2);
        assert_eq!(course.saw(SECOND / 4, vec![look(1, 10, SECOND / 4)]), None);
        let first = course.saw(SECOND / 2, vec![look(1, 1_000, SECOND / 2)]).unwrap();
        assert!(first.omitted && first.flows[0].bytes == 1_000 && first.flows[0].rate_bit_s == 16_000, "{first:?}");
        let second = course.saw(SECOND * 3 / 2, vec![look(1, 5_000, SECOND * 3 / 2)]).unwrap();
        assert!(!second.omitted && second.flows[0].rate_bit_s == 32_000, "{second:?}");
        let ended = Ended { look: look(1, 7_000, SECOND * 2), cpu: SECOND, congestion: "bbr".into(), error: None };
        let total = course.total(&ended);
        assert_eq!((total.flow.bytes, total.counted_bytes, total.counted_s), (7_000, 6_000, 1.5));
        let course = Course::new(SECOND, Duration::ZERO);
        let late = Ended { look: Look { first: SECOND / 2, ..ended.look }, ..ended };
        assert_eq!(course.total(&late).counted_s, 1.5, "its first bytes were half a second on their way");
    }

    #[test]
    fn a_late_look_makes_a_long_interval_and_no_second_one() {
        let mut course = Course::new(SECOND, Duration::ZERO);
        let late = course.saw(SECOND * 3, vec![look(1, 3_000, SECOND * 3)]).unwrap();
        assert_eq!((late.start_s, late.end_s, late.flows[0].rate_bit_s), (0.0, 3.0, 8_000));
        assert_eq!(course.due(), SECOND * 4);
    }
}

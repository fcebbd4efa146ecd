//! What random loss leaves of one stream in the first minutes. The laws of loss hold for a stream that has lost many times; a stream whose window
//! began at its share of the path takes several losses to get there, and a short transfer ends before that.
//!
//! Does not know: randomness. A packet is lost after each `1 / loss` packets.

use model::laws::{CUBIC_BETA, CUBIC_C, INITIAL_WINDOW_SEGMENTS};
use scenario::Congestion;

use super::law::PathTerms;

/// Losses that are followed one by one; afterwards the law holds.
const LOSSES_MAX: usize = 24;
/// Steps of the integration for all losses together.
const STEPS_MAX: u32 = 20_000;
/// Steps in a round trip.
const STEPS_PER_ROUND_TRIP: f64 = 4.0;
/// The window of a stream relative to its part of the path's bandwidth-delay product, where the queue of the path has that length as well.
const WINDOW_WITH_QUEUE: f64 = 2.0;
/// Times that count as the same, seconds: sums are rounded.
const SAME_S: f64 = 1e-9;
/// What Reno keeps of its window after a loss (RFC 5681).
const RENO_BETA: f64 = 0.5;

/// The rate that one stream can have, from the beginning of its data on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossCourse {
    /// In the order of time. After the last, the law holds.
    spans: Vec<LossSpan>,
}

/// The time between two losses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LossSpan {
    /// The end, seconds after the first data.
    until_s: f64,
    /// The mean rate, bytes per second.
    bytes_s: f64,
}

impl LossCourse {
    /// The course of a stream whose share of the path is `share_bytes_s`. Empty where loss does not limit the stream.
    pub fn new(terms: &PathTerms, share_bytes_s: f64) -> LossCourse {
        let responds = matches!(terms.congestion, Congestion::Cubic | Congestion::Reno);
        if !responds || terms.loss <= 0.0 || terms.rtt_s <= 0.0 || !share_bytes_s.is_finite() || share_bytes_s <= 0.0 {
            return LossCourse::default();
        }
        let mut window = LossyWindow::new(terms, share_bytes_s);
        let mut course = LossCourse::default();
        let mut now_s = 0.0;
        while course.spans.len() < LOSSES_MAX {
            let Some(seconds) = window.advance_to_loss() else { break };
            now_s += seconds;
            course.spans.push(LossSpan { until_s: now_s, bytes_s: terms.mss_bytes / terms.loss / seconds });
            window.lose();
        }
        course
    }

    /// The rate at a time after the first data, bytes per second; none where the law holds.
    pub fn rate_at(&self, elapsed_s: f64) -> Option<f64> {
        self.spans.iter().find(|span| elapsed_s + SAME_S < span.until_s).map(|span| span.bytes_s)
    }

    /// When the rate changes next, seconds after the first data; infinite if it does not.
    pub fn next_change_s(&self, elapsed_s: f64) -> f64 {
        self.spans
            .iter()
            .map(|span| span.until_s)
            .find(|until_s| *until_s > elapsed_s + SAME_S)
            .unwrap_or(f64::INFINITY)
    }
}

/// The window of a stream, in segments.
struct LossyWindow {
    congestion: Congestion,
    rtt_s: f64,
    /// Packets between two losses.
    packets: f64,
    /// The window that the stream's share of the path needs.
    share: f64,
    /// The window that the path and its queue hold.
    most: f64,
    now: f64,
    growth: Growth,
    steps_left: u32,
}

/// How a window grows.
#[derive(Clone, Copy)]
enum Growth {
    /// It doubles each round trip, until it loses for the first time.
    SlowStart,
    /// CUBIC after a loss: `after_loss` is the window then, `origin` the one that it aims at (RFC 9438, section 4.2).
    Cubic { after_loss: f64, origin: f64 },
    /// Reno after a loss: one segment each round trip.
    Reno { after_loss: f64 },
}

impl LossyWindow {
    fn new(terms: &PathTerms, share_bytes_s: f64) -> LossyWindow {
        let share = (share_bytes_s * terms.rtt_s / terms.mss_bytes).max(1.0);
        LossyWindow {
            congestion: terms.congestion,
            rtt_s: terms.rtt_s,
            packets: 1.0 / terms.loss,
            share,
            most: (share * WINDOW_WITH_QUEUE).min(terms.window_bytes / terms.mss_bytes).max(1.0),
            now: INITIAL_WINDOW_SEGMENTS,
            growth: Growth::SlowStart,
            steps_left: STEPS_MAX,
        }
    }

    /// Sends until the next packet is lost. Returns the seconds that it took; none if that needs too many steps.
    fn advance_to_loss(&mut self) -> Option<f64> {
        let step_s = self.rtt_s / STEPS_PER_ROUND_TRIP;
        let (mut sent, mut seconds) = (0.0, 0.0);
        loop {
            self.steps_left = self.steps_left.checked_sub(1)?;
            self.now = self.window_after(seconds).clamp(1.0, self.most);
            // A window above the share waits in the queue of the path.
            let packets = self.now.min(self.share) / STEPS_PER_ROUND_TRIP;
            if sent + packets >= self.packets {
                return Some(seconds + step_s * (self.packets - sent) / packets);
            }
            sent += packets;
            seconds += step_s;
        }
    }

    fn window_after(&self, seconds: f64) -> f64 {
        let round_trips = seconds / self.rtt_s;
        match self.growth {
            Growth::SlowStart => INITIAL_WINDOW_SEGMENTS * round_trips.min(64.0).exp2(),
            Growth::Reno { after_loss } => after_loss + round_trips,
            Growth::Cubic { after_loss, origin } => {
                let k_s = ((origin - after_loss).max(0.0) / CUBIC_C).cbrt();
                let cubic = CUBIC_C * (seconds - k_s).powi(3) + origin;
                // The Reno-friendly region (RFC 9438, section 4.3).
                let reno = after_loss + round_trips * 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
                cubic.max(reno)
            }
        }
    }

    /// The response to a loss.
    fn lose(&mut self) {
        self.growth = match self.congestion {
            Congestion::Cubic => {
                let last_origin = match self.growth {
                    Growth::Cubic { origin, .. } => origin,
                    _ => 0.0,
                };
                // Fast convergence (RFC 9438, section 4.7): a stream that did not get back to its last window aims lower.
                let converges = self.now < last_origin;
                let origin = if converges { self.now * (1.0 + CUBIC_BETA) / 2.0 } else { self.now };
                Growth::Cubic { after_loss: self.now * CUBIC_BETA, origin }
            }
            Congestion::Reno | Congestion::Bbr => Growth::Reno { after_loss: self.now * RENO_BETA },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(congestion: Congestion, loss: f64) -> PathTerms {
        PathTerms { rtt_s: 0.1, loss, mss_bytes: 1428.0, window_bytes: 512e6, congestion, streams: Some(8) }
    }

    /// The mean rate of the last of the losses that are followed.
    fn last_rate(congestion: Congestion, share_bytes_s: f64) -> f64 {
        LossCourse::new(&terms(congestion, 1e-4), share_bytes_s).spans.last().unwrap().bytes_s
    }

    #[test]
    fn a_stream_begins_at_its_share_and_comes_down_to_the_law() {
        let share = 7.4e6;
        for congestion in [Congestion::Cubic, Congestion::Reno] {
            let terms = terms(congestion, 1e-4);
            let course = LossCourse::new(&terms, share);
            assert!(course.rate_at(0.0).unwrap() > share * 0.7, "the first 14 MB with slow start: {course:?}");
            let law = terms.stream_bytes_s();
            let ratio = last_rate(congestion, share) / law;
            assert!((0.9..1.2).contains(&ratio), "{congestion:?}: {ratio} of the law");
        }
    }

    #[test]
    fn no_course_exceeds_the_share() {
        let course = LossCourse::new(&terms(Congestion::Cubic, 1e-5), 1e6);
        assert!(course.spans.iter().all(|span| span.bytes_s <= 1e6 * 1.000_001), "{course:?}");
    }

    #[test]
    fn rates_follow_each_other_and_end_with_the_law() {
        let course = LossCourse::new(&terms(Congestion::Cubic, 1e-4), 7.4e6);
        let first = course.next_change_s(0.0);
        assert!(first > 0.0 && course.next_change_s(first) > first);
        assert_eq!(course.rate_at(1e9), None);
        assert_eq!(course.next_change_s(1e9), f64::INFINITY);
    }

    #[test]
    fn bbr_and_a_path_without_loss_have_no_course() {
        assert_eq!(LossCourse::new(&terms(Congestion::Bbr, 1e-4), 1e6), LossCourse::default());
        assert_eq!(LossCourse::new(&terms(Congestion::Cubic, 0.0), 1e6), LossCourse::default());
        assert_eq!(LossCourse::new(&terms(Congestion::Cubic, 1e-4), f64::INFINITY), LossCourse::default());
        let rare = LossCourse::new(&terms(Congestion::Cubic, 1e-12), 1e9);
        assert_eq!(rare, LossCourse::default(), "a loss in 10^12 packets is not followed");
    }
}

//! Four times of each packet become round trips, delays and variation by direction.
//!
//! The near end's times are monotonic, the far end's are its real-time clock: what lies between the two clocks is one
//! unknown number as long as nobody sets the far clock. Variation does not see it; a far clock that is set shows as the way
//! there getting longer and the way back shorter at the same moment by the same amount ([`steps`]).

pub mod steps;

use hdrhistogram::Histogram;
use model::v1::probe::latency::{Bucket, Delay, Variation};

use steps::Windows;

/// When a packet left, came, was answered, and when the answer came back, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Left: the near monotonic clock.
    pub left_ns: i64,
    /// Came: the far real-time clock.
    pub came_ns: i64,
    /// Answered: the far real-time clock.
    pub answered_ns: i64,
    /// The answer is here: the near monotonic clock.
    pub back_ns: i64,
}

/// Longest time that is told apart: more than any packet is waited for.
const LONGEST_NS: u64 = 100_000_000_000;
/// Three digits: percentiles are within 0.1 %.
const DIGITS: u8 = 3;

/// Many times of one kind.
#[derive(Clone, Debug)]
pub struct Spread {
    times: Option<Histogram<u64>>,
    least_ns: u64,
    most_ns: u64,
    sum_ns: u128,
    count: u64,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Default for Spread {
    fn default() -> Spread {
        // The bounds are constants that the library takes; there is none only if that ever changes.
        let times = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok();
        Spread { times, least_ns: u64::MAX, most_ns: 0, sum_ns: 0, count: 0 }
    }
}

impl Spread {
    /// One more; less than nothing counts as nothing.
    pub fn note(&mut self, ns: i64) {
        let ns = u64::try_from(ns).unwrap_or(0);
        self.least_ns = self.least_ns.min(ns);
        self.most_ns = self.most_ns.max(ns);
        self.sum_ns += u128::from(ns);
        self.count += 1;
        if let Some(times) = &mut self.times {
            times.saturating_record(ns);
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least; none where there are none.
    pub fn least_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least_ns)
    }

    /// Not above the exact maximum, as the histogram's buckets may be.
    fn quantile_s(&self, quantile: f64) -> f64 {
        let ns = self.times.as_ref().map_or(0, |times| times.value_at_quantile(quantile));
        seconds(ns.clamp(self.least_ns.min(self.most_ns), self.most_ns))
    }

    /// Least, mean and most are exact, the others within 0.1 %.
    pub fn delay(&self) -> Option<Delay> {
        (self.count > 0).then(|| Delay {
            min_s: seconds(self.least_ns),
            median_s: self.quantile_s(0.5),
            mean_s: self.sum_ns as f64 / self.count as f64 / 1e9,
            p95_s: self.quantile_s(0.95),
            p99_s: self.quantile_s(0.99),
            max_s: seconds(self.most_ns),
        })
    }

    /// As differences between neighbours.
    pub fn variation(&self) -> Option<Variation> {
        let (p50_s, p95_s, p99_s) = (self.quantile_s(0.5), self.quantile_s(0.95), self.quantile_s(0.99));
        (self.count > 0).then_some(Variation { pairs: self.count, p50_s, p95_s, p99_s })
    }

    /// Ten buckets to a decade, from 1 ns; empty ones are left out. A bucket's edges are right within the histogram's
    /// 0.1 %.
    pub fn buckets(&self) -> Vec<Bucket> {
        let edge = |at: i32| 1e-9 * 10f64.powf(f64::from(at) / 10.0);
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for value in self.times.iter().flat_map(|times| times.iter_recorded()) {
            let ns = value.value_iterated_to().max(1) as f64;
            let at = (ns.log10() * 10.0).floor() as i32;
            match buckets.last_mut() {
                Some((last, count)) if *last == at => *count += value.count_at_value(),
                _ => buckets.push((at, value.count_at_value())),
            }
        }
        buckets.iter().map(|(at, count)| Bucket { from_s: edge(*at), to_s: edge(at + 1), count: *count }).collect()
    }
}

/// All delays of a test.
#[derive(Clone, Debug)]
pub struct Delays {
    /// Near real-time minus near monotonic, at the beginning: what makes the near times comparable with the far ones.
    offset_ns: i64,
    /// There and back, without the stay.
    pub round_trip: Spread,
    /// The stay at the far end.
    pub residence: Spread,
    /// There.
    pub forward: Spread,
    /// And back.
    pub reverse: Spread,
    /// Of neighbours.
    pub variation_forward: Spread,
    /// Of neighbours.
    pub variation_reverse: Spread,
    /// Packets that took less than no time on one way: the clocks do not agree.
    pub impossible: u64,
    /// Packets that were answered before they came, or stayed longer than they were away.
    pub nonsense: u64,
    before: Option<(u64, i64, i64)>,
    windows: Windows,
}

impl Delays {
    /// For a test of about `packets` at so many per second. `offset_ns` is the near real-time clock minus the near monotonic one.
    pub fn new(offset_ns: i64, packets: u64, rate_packets_s: f64) -> Delays {
        Delays {
            offset_ns,
            round_trip: Spread::default(),
            residence: Spread::default(),
            forward: Spread::default(),
            reverse: Spread::default(),
            variation_forward: Spread::default(),
            variation_reverse: Spread::default(),
            impossible: 0,
            nonsense: 0,
            before: None,
            windows: Windows::new(packets, rate_packets_s),
        }
    }

    /// A packet that was answered; in the order of their numbers.
    pub fn note(&mut self, sequence: u64, times: &Times) {
        let away = times.back_ns.saturating_sub(times.left_ns).max(0);
        let said = times.answered_ns.saturating_sub(times.came_ns);
        let stay = said.clamp(0, away);
        self.nonsense += u64::from(stay != said);
        self.round_trip.note(away - stay);
        self.residence.note(stay);
        let forward = times.came_ns.saturating_sub(times.left_ns.saturating_add(self.offset_ns));
        let reverse = times.back_ns.saturating_add(self.offset_ns).saturating_sub(times.answered_ns);
        self.impossible += u64::from(forward < 0 || reverse < 0);
        self.forward.note(forward);
        self.reverse.note(reverse);
        if let Some((_, there, back)) = self.before.filter(|(before, ..)| before + 1 == sequence) {
            self.variation_forward.note(forward.saturating_sub(there).saturating_abs());
            self.variation_reverse.note(reverse.saturating_sub(back).saturating_abs());
        }
        self.before = Some((sequence, forward, reverse));
        self.windows.note(sequence, forward, reverse);
    }

    /// By how much the far clock was set, if it was, nanoseconds.
    pub fn far_step_ns(&self) -> Option<i64> {
        self.windows.step_ns()
    }
}

#[cfg(test)]
mod tests;

//! Distributions of times: histograms of nanoseconds, and their form in results.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use model::v1::probe::udp::{UdpSpread, UdpTimeBin};

use super::seconds;

/// A longer time counts as this.
const NANOS_MAX: u64 = 100_000_000_000;

/// Times from 1 ns to 100 s, within 0.1 %.
#[derive(Clone, Debug)]
pub(super) struct TimeHistogram(Histogram<u64>);

impl Default for TimeHistogram {
    #[expect(clippy::expect_used, reason = "the bounds are constants that the library accepts")]
    fn default() -> TimeHistogram {
        TimeHistogram(Histogram::new_with_bounds(1, NANOS_MAX, 3).expect("bounds that make sense"))
    }
}

impl TimeHistogram {
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// The quantile `part` (0 to 1), nanoseconds; 0 where there are no times.
    pub fn quantile(&self, part: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(part) }
    }

    /// The mean, nanoseconds; 0 where there are no times.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The same times, each changed by `change`.
    fn map(&self, change: impl Fn(u64) -> u64) -> TimeHistogram {
        let mut changed = TimeHistogram::default();
        for step in self.0.iter_recorded() {
            // The middle of the bucket, so that repeated changes do not drift.
            let value = self.0.median_equivalent(step.value_iterated_to());
            changed.0.saturating_record_n(change(value), step.count_since_last_iteration());
        }
        changed
    }

    /// The form in results; none where there are no times.
    pub fn spread(&self) -> Option<UdpSpread> {
        let times = &self.0;
        if times.is_empty() {
            return None;
        }
        let at = |part| seconds(times.value_at_quantile(part));
        Some(UdpSpread {
            count: times.len(),
            min_s: seconds(times.min()),
            mean_s: times.mean() / 1e9,
            sigma_s: times.stdev() / 1e9,
            p25_s: at(0.25),
            p50_s: at(0.5),
            p75_s: at(0.75),
            p95_s: at(0.95),
            p99_s: at(0.99),
            p999_s: at(0.999),
            max_s: seconds(times.max()),
            bins: self.bins(),
        })
    }

    fn bins(&self) -> Vec<UdpTimeBin> {
        let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
        for step in self.0.iter_recorded() {
            let quarter = match step.value_iterated_to() {
                0 => -1,
                nanos => (4.0 * (nanos as f64).log2()).floor() as i32,
            };
            *counts.entry(quarter).or_default() += step.count_since_last_iteration();
        }
        let bound = |quarter: i32| if quarter < 0 { 0.0 } else { (f64::from(quarter) / 4.0).exp2() / 1e9 };
        let bin = |(quarter, count)| UdpTimeBin { from_s: bound(quarter), to_s: bound(quarter + 1), count };
        counts.into_iter().map(bin).collect()
    }
}

/// One-way times: arrival less sending time, by two clocks whose difference is unknown. In the end the least time is subtracted.
///
/// Times are stored relative to a reference a little below the least so far. A lower time moves the reference, by twice as much
/// as the last move, so that a drifting clock costs a few moves instead of one for each datagram. A move copies the
/// histogram, and the peer chooses the sending times: after [`MOVES_MAX`] moves a lower time counts as the reference.
#[derive(Clone, Debug)]
pub(super) struct OneWayTimes {
    times: TimeHistogram,
    least: i64,
    reference: i64,
    margin: i64,
    moves: u32,
}

/// A move places the reference this far below the least time: 10 µs at first, 10 s at most.
const MARGIN_NS: i64 = 10_000;
const MARGIN_NS_MAX: i64 = 10_000_000_000;
/// After 20 moves the margin is 10 s; a clock that is merely wrong needs few of these.
const MOVES_MAX: u32 = 40;

impl Default for OneWayTimes {
    fn default() -> OneWayTimes {
        OneWayTimes {
            times: TimeHistogram::default(),
            least: i64::MAX,
            reference: i64::MAX,
            margin: MARGIN_NS / 2,
            moves: 0,
        }
    }
}

impl OneWayTimes {
    /// Records a datagram; both times are nanoseconds since 1970, each by its own clock.
    pub fn record(&mut self, sent_ns: u64, arrived_ns: u64) {
        let clamp = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let took = clamp(arrived_ns) - clamp(sent_ns);
        if took < self.reference && self.moves < MOVES_MAX {
            self.moves += 1;
            self.margin = (self.margin * 2).min(MARGIN_NS_MAX);
            let reference = took.saturating_sub(self.margin);
            if !self.times.0.is_empty() {
                let longer = self.reference.abs_diff(reference);
                self.times = self.times.map(|nanos| nanos.saturating_add(longer));
            }
            self.reference = reference;
        }
        self.least = self.least.min(took);
        self.times.record(above(took, self.reference));
    }

    /// The times less the least one, which becomes exactly 0.
    pub fn variation(&self) -> TimeHistogram {
        let least = above(self.least, self.reference);
        let same = |nanos| self.times.0.equivalent(nanos, least);
        self.times.map(|nanos| if same(nanos) { 0 } else { nanos.saturating_sub(least) })
    }
}

/// By how much a time is longer than the reference; 0 where it is shorter.
fn above(took: i64, reference: i64) -> u64 {
    if took > reference { took.abs_diff(reference) } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_spread_summarises_the_times() {
        let mut times = TimeHistogram::default();
        assert_eq!(times.spread(), None);
        (1..=1_000).for_each(|us| times.record(us * 1_000));
        let spread = times.spread().unwrap();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 2e-3;
        assert_eq!(spread.count, 1_000);
        assert!(near(spread.min_s, 1e-6) && near(spread.p25_s, 250e-6) && near(spread.p50_s, 500e-6), "{spread:?}");
        assert!(near(spread.p75_s, 750e-6) && near(spread.p99_s, 990e-6) && near(spread.max_s, 1e-3), "{spread:?}");
        assert!(near(spread.mean_s, 500.5e-6) && near(spread.sigma_s, 288.7e-6), "{spread:?}");
        assert_eq!(spread.bins.iter().map(|bin| bin.count).sum::<u64>(), 1_000);
        assert!(spread.bins.windows(2).all(|two| two[0].to_s <= two[1].from_s), "{spread:?}");
        assert!(spread.bins.iter().all(|bin| near(bin.to_s / bin.from_s, 2f64.powf(0.25))), "{spread:?}");
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let mut one_way = OneWayTimes::default();
        // Half a millisecond in every second: each datagram is the fastest so far.
        for n in 0..20_000u64 {
            one_way.record(1_000_000 * n, 5_000_000_000 + 1_000_000 * n - 500 * n);
        }
        let spread = one_way.variation().spread().unwrap();
        assert_eq!((spread.count, spread.min_s), (20_000, 0.0));
        assert!((spread.max_s / (19_999.0 * 500e-9) - 1.0).abs() < 5e-3, "{spread:?}");
        assert!((spread.p50_s / (10_000.0 * 500e-9) - 1.0).abs() < 5e-3, "{spread:?}");
    }

    #[test]
    fn a_clock_that_leaps_with_each_datagram_is_given_up() {
        let mut one_way = OneWayTimes::default();
        for n in 0..10_000u64 {
            one_way.record(20_000_000_000 * n, 1_000_000_000_000);
        }
        assert_eq!(one_way.moves, MOVES_MAX);
        assert_eq!(one_way.variation().spread().map(|spread| spread.count), Some(10_000));
    }

    proptest! {
        #[test]
        fn variation_is_the_time_above_the_least(took in prop::collection::vec(0..50_000_000u64, 1..200), offset: u64) {
            // Two clocks that differ by up to a century, in either direction.
            let sent = 4_000_000_000_000_000_000u64;
            let offset = (offset >> 2) as i64 - (1 << 61);
            let mut one_way = OneWayTimes::default();
            took.iter().for_each(|took| one_way.record(sent, sent.saturating_add_signed(offset) + took));
            let least = took.iter().min().copied().unwrap_or(0);
            let mut expected: Vec<u64> = took.iter().map(|took| took - least).collect();
            expected.sort_unstable();
            let spread = one_way.variation();
            prop_assert_eq!(spread.0.len(), took.len() as u64);
            // Each of two histograms is within 0.1 % of the time since the reference, which is at most twice the span below the least.
            let margin = 10_000 + 2 * expected[expected.len() - 1];
            for (part, at) in [(0.0, 0), (1.0, expected.len() - 1)] {
                let off = spread.0.value_at_quantile(part).abs_diff(expected[at]);
                prop_assert!(off <= 2 + margin / 300, "{} of {:?}", off, expected);
            }
        }

        #[test]
        fn any_times_are_counted(times in prop::collection::vec((any::<u64>(), any::<u64>()), 1..50)) {
            let mut one_way = OneWayTimes::default();
            times.iter().for_each(|(sent, arrived)| one_way.record(*sent, *arrived));
            prop_assert_eq!(one_way.variation().spread().map(|spread| spread.count), Some(times.len() as u64));
        }
    }
}

//! Computes round trips, delays and variation by direction from the four times of each packet.
//!
//! The near end's times are monotonic, the far end's are those of its real-time clock. The offset between the two clocks is
//! one unknown number as long as the far clock is not set. Variation does not depend on it. If the far clock is set, the
//! forward delay grows and the reverse delay shrinks at the same moment by the same amount ([`steps`]).

pub mod steps;

use hdrhistogram::Histogram;
use model::v1::probe::latency::{Bucket, Delay, Variation};

use steps::Windows;

/// The four times of a packet and its answer, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The packet left (T1), by the near end's monotonic clock.
    pub sent_ns: i64,
    /// The packet arrived (T2), by the far end's real-time clock.
    pub received_ns: i64,
    /// The answer left (T3), by the far end's real-time clock.
    pub answered_ns: i64,
    /// The answer arrived (T4), by the near end's monotonic clock.
    pub returned_ns: i64,
}

/// A longer time counts as this, which exceeds the longest timeout of a packet.
const DELAY_NS_MAX: u64 = 100_000_000_000;
/// Three digits: percentiles are within 0.1 %.
const DIGITS: u8 = 3;

/// A distribution of delays.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    times: Option<Histogram<u64>>,
    least_ns: u64,
    most_ns: u64,
    sum_ns: u128,
    count: u64,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Default for DelayHistogram {
    fn default() -> DelayHistogram {
        // The bounds are constants that the library accepts.
        let times = Histogram::new_with_bounds(1, DELAY_NS_MAX, DIGITS).ok();
        DelayHistogram { times, least_ns: u64::MAX, most_ns: 0, sum_ns: 0, count: 0 }
    }
}

impl DelayHistogram {
    /// Adds a delay; a negative one counts as 0.
    pub fn record(&mut self, ns: i64) {
        let ns = u64::try_from(ns).unwrap_or(0);
        self.least_ns = self.least_ns.min(ns);
        self.most_ns = self.most_ns.max(ns);
        self.sum_ns += u128::from(ns);
        self.count += 1;
        if let Some(times) = &mut self.times {
            times.saturating_record(ns);
        }
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least delay; none where there are no delays.
    pub fn least_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least_ns)
    }

    /// The quantile, bounded by the exact minimum and maximum, which the histogram's buckets may exceed.
    fn quantile_s(&self, quantile: f64) -> f64 {
        let ns = self.times.as_ref().map_or(0, |times| times.value_at_quantile(quantile));
        seconds(ns.clamp(self.least_ns.min(self.most_ns), self.most_ns))
    }

    /// Summary of the delays: minimum, mean and maximum are exact, the others within 0.1 %. None where there are no delays.
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

    /// Summary of differences between neighbouring packets; none where there are no pairs.
    pub fn variation(&self) -> Option<Variation> {
        let p50_s = self.quantile_s(0.5);
        let p95_s = self.quantile_s(0.95);
        let p99_s = self.quantile_s(0.99);
        (self.count > 0).then_some(Variation { pairs: self.count, p50_s, p95_s, p99_s })
    }

    /// The buckets that are not empty: ten to a decade, from 1 ns. A bucket's edges are exact within the histogram's 0.1 %.
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
    /// The near end's real-time clock less its monotonic clock, at the beginning. It makes near times comparable with far ones.
    offset_ns: i64,
    /// Round trip, without the residence time.
    pub round_trip: DelayHistogram,
    /// Residence time at the far end.
    pub residence: DelayHistogram,
    /// Forward delay.
    pub forward: DelayHistogram,
    /// Reverse delay.
    pub reverse: DelayHistogram,
    /// Variation of the forward delay between neighbouring packets.
    pub variation_forward: DelayHistogram,
    /// Variation of the reverse delay between neighbouring packets.
    pub variation_reverse: DelayHistogram,
    /// Packets with a negative delay in one direction: the clocks do not agree.
    pub impossible: u64,
    /// Packets that were answered before they arrived, or whose residence time exceeds their round trip.
    pub nonsense: u64,
    /// Number, forward and reverse delay of the last packet, nanoseconds.
    previous: Option<(u64, i64, i64)>,
    windows: Windows,
}

impl Delays {
    /// For a test of about `packets`. `offset_ns` is the near end's real-time clock less its monotonic clock.
    pub fn new(offset_ns: i64, packets: u64, rate_packets_s: f64) -> Delays {
        Delays {
            offset_ns,
            round_trip: DelayHistogram::default(),
            residence: DelayHistogram::default(),
            forward: DelayHistogram::default(),
            reverse: DelayHistogram::default(),
            variation_forward: DelayHistogram::default(),
            variation_reverse: DelayHistogram::default(),
            impossible: 0,
            nonsense: 0,
            previous: None,
            windows: Windows::new(packets, rate_packets_s),
        }
    }

    /// Adds an answered packet. Packets are added in the order of their numbers.
    pub fn record(&mut self, sequence: u64, times: &Times) {
        let elapsed = times.returned_ns.saturating_sub(times.sent_ns).max(0);
        let reported = times.answered_ns.saturating_sub(times.received_ns);
        let residence = reported.clamp(0, elapsed);
        self.nonsense += u64::from(residence != reported);
        self.round_trip.record(elapsed - residence);
        self.residence.record(residence);
        let forward = times.received_ns.saturating_sub(times.sent_ns.saturating_add(self.offset_ns));
        let reverse = times.returned_ns.saturating_add(self.offset_ns).saturating_sub(times.answered_ns);
        self.impossible += u64::from(forward < 0 || reverse < 0);
        self.forward.record(forward);
        self.reverse.record(reverse);
        if let Some((_, previous_forward, previous_reverse)) =
            self.previous.filter(|(number, ..)| number + 1 == sequence)
        {
            self.variation_forward.record(forward.saturating_sub(previous_forward).saturating_abs());
            self.variation_reverse.record(reverse.saturating_sub(previous_reverse).saturating_abs());
        }
        self.previous = Some((sequence, forward, reverse));
        self.windows.record(sequence, forward, reverse);
    }

    /// By how much the far clock was set, nanoseconds; none if it was not.
    pub fn far_step_ns(&self) -> Option<i64> {
        self.windows.step_ns()
    }
}

#[cfg(test)]
mod tests;

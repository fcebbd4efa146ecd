//! The facts that are kept of one stream over all of its time.

use std::collections::BTreeMap;

use super::SentReceived;

/// The facts about one stream.
#[derive(Clone, Debug, Default)]
pub struct StreamFacts {
    /// The bytes that it moved.
    pub bytes: SentReceived,
    /// When it existed: from, to.
    seen: Option<(f64, f64)>,
    /// Its smoothed round trips.
    pub rtt: ValueSummary,
    /// The least round trip that the kernel saw.
    pub min_rtt_s: Option<f64>,
    /// Congestion windows, segments.
    pub cwnd: ValueSummary,
    /// The last segment size.
    pub mss_bytes: u64,
    /// The last limit on its rate, bit/s.
    pub pace_bit_s: Option<f64>,
    /// The kernel's estimates of the path's rate, bit/s.
    pub delivery_rate: ValueSummary,
    /// The last window of the other end.
    pub window_bytes: u64,
    /// Bytes sent, including those sent again.
    pub sent_bytes: f64,
    /// Bytes sent again.
    pub resent_bytes: f64,
    /// Time with data in flight or waiting.
    pub busy_s: f64,
    /// The part of it with the receive window full.
    pub receive_window_s: f64,
    /// The part of it with the send buffer full.
    pub send_buffer_s: f64,
    /// The last congestion control.
    pub congestion: String,
}

impl StreamFacts {
    pub(super) fn add_bytes(&mut self, bytes: SentReceived, from_s: f64, to_s: f64) {
        self.bytes = [self.bytes[0] + bytes[0], self.bytes[1] + bytes[1]];
        let (from, to) = self.seen.unwrap_or((from_s, to_s));
        self.seen = Some((from.min(from_s), to.max(to_s)));
    }

    /// When it existed: from, to.
    pub fn seen(&self) -> Option<(f64, f64)> {
        self.seen
    }
}

/// The least value, the median and the largest value of many. The median is right to three digits, and needs no more memory for a million
/// values than for a thousand.
#[derive(Clone, Debug, Default)]
pub struct ValueSummary {
    /// The least and the largest value.
    ends: Option<(f64, f64)>,
    count: u64,
    /// The number of values by zeros and digits: a value, in millionths, is rounded to at most three digits followed by
    /// zeros.
    counts: BTreeMap<(u32, u32), u64>,
}

impl ValueSummary {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        let (least, most) = self.ends.unwrap_or((value, value));
        self.ends = Some((least.min(value), most.max(value)));
        self.count += 1;
        let mut digits = value * 1e6;
        let mut zeros = 0;
        while digits >= 999.5 {
            digits /= 10.0;
            zeros += 1;
        }
        *self.counts.entry((zeros, digits.round() as u32)).or_default() += 1;
    }

    /// The least value; none before the first.
    pub fn least(&self) -> Option<f64> {
        self.ends.map(|(least, _)| least)
    }

    /// The largest value.
    pub fn most(&self) -> Option<f64> {
        self.ends.map(|(_, most)| most)
    }

    /// The median: half of the values are not above it.
    pub fn median(&self) -> Option<f64> {
        let (least, most) = self.ends?;
        let mut left = self.count.div_ceil(2);
        let middle = self.counts.iter().find(|(_, count)| {
            left = left.saturating_sub(**count);
            left == 0
        });
        let ((zeros, digits), _) = middle?;
        Some((f64::from(*digits) * 10f64.powi(*zeros as i32) / 1e6).clamp(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> (Option<f64>, Option<f64>, Option<f64>) {
        let mut summary = ValueSummary::default();
        values.iter().for_each(|value| summary.add(*value));
        (summary.least(), summary.median(), summary.most())
    }

    #[test]
    fn medians_have_three_digits() {
        assert_eq!(of(&[]), (None, None, None));
        assert_eq!(of(&[0.303]), (Some(0.303), Some(0.303), Some(0.303)));
        assert_eq!(of(&[0.0, 0.0, 7.0]), (Some(0.0), Some(0.0), Some(7.0)));
        assert_eq!(of(&[9.0, 0.101_234, 0.0001]), (Some(0.0001), Some(0.101), Some(9.0)));
        assert_eq!(of(&[1e18, 1.0, 1.0, 1e18, 5e12]).1, Some(5e12));
        let even: Vec<f64> = (300_000..=400_000).map(|n| f64::from(n) / 1e6).collect();
        assert_eq!(of(&even), (Some(0.3), Some(0.35), Some(0.4)));
    }
}

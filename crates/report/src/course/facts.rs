//! What is kept of one stream over all of its time.

use std::collections::BTreeMap;

use super::Ways;

/// One stream in numbers.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What it moved.
    pub bytes: Ways,
    /// From when to when it was there.
    seen: Option<(f64, f64)>,
    /// Its smoothed round trips.
    pub rtt: Spread,
    /// The least round trip that the kernel saw.
    pub min_rtt_s: Option<f64>,
    /// Congestion windows, segments.
    pub cwnd: Spread,
    /// Segment size, the last.
    pub mss_bytes: u64,
    /// What it was told to send at most, the last, bit/s.
    pub pace_bit_s: Option<f64>,
    /// What the kernel thought that the path delivers, bit/s.
    pub delivery_rate: Spread,
    /// What the other end offered last.
    pub window_bytes: u64,
    /// Sent, what was sent again included.
    pub sent_bytes: f64,
    /// Sent again.
    pub resent_bytes: f64,
    /// Time with something on its way or waiting.
    pub busy_s: f64,
    /// Of that, with the receive window full.
    pub receive_window_s: f64,
    /// Of that, with the send buffer full.
    pub send_buffer_s: f64,
    /// Congestion control, the last.
    pub congestion: String,
}

impl Facts {
    pub(super) fn carry(&mut self, bytes: Ways, from_s: f64, to_s: f64) {
        self.bytes = [self.bytes[0] + bytes[0], self.bytes[1] + bytes[1]];
        let (from, to) = self.seen.unwrap_or((from_s, to_s));
        self.seen = Some((from.min(from_s), to.max(to_s)));
    }

    /// From when to when it was there.
    pub fn seen(&self) -> Option<(f64, f64)> {
        self.seen
    }
}

/// The least, the median and the most of many values. The median is right to three digits, and takes no more room for a
/// million values than for a thousand.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    ends: Option<(f64, f64)>,
    many: u64,
    /// How many there are of each value to three digits: those in millionths.
    counts: BTreeMap<(u32, u32), u64>,
}

impl Spread {
    /// One more value.
    pub fn note(&mut self, value: f64) {
        let (least, most) = self.ends.unwrap_or((value, value));
        self.ends = Some((least.min(value), most.max(value)));
        self.many += 1;
        let (mut digits, mut zeros) = (value * 1e6, 0);
        while digits >= 999.5 {
            digits /= 10.0;
            zeros += 1;
        }
        *self.counts.entry((zeros, digits.round() as u32)).or_default() += 1;
    }

    /// The least; none where there is no value.
    pub fn least(&self) -> Option<f64> {
        self.ends.map(|(least, _)| least)
    }

    /// The most.
    pub fn most(&self) -> Option<f64> {
        self.ends.map(|(_, most)| most)
    }

    /// Half of the values are not above.
    pub fn median(&self) -> Option<f64> {
        let (least, most) = self.ends?;
        let mut left = self.many.div_ceil(2);
        let middle = self.counts.iter().find(|(_, many)| {
            left = left.saturating_sub(**many);
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
        let mut spread = Spread::default();
        values.iter().for_each(|value| spread.note(*value));
        (spread.least(), spread.median(), spread.most())
    }

    #[test]
    fn medians_have_three_digits() {
        assert_eq!(of(&[]), (None, None, None));
        assert_eq!(of(&[0.303]), (Some(0.303), Some(0.303), Some(0.303)));
        assert_eq!(of(&[0.0, 0.0, 7.0]), (Some(0.0), Some(0.0), Some(7.0)));
        assert_eq!(of(&[9.0, 0.101_234, 0.0001]), (Some(0.0001), Some(0.101), Some(9.0)));
        assert_eq!(of(&[1e18, 1.0, 1.0, 1e18, 5e12]).1, Some(5e12));
        let many: Vec<f64> = (300_000..=400_000).map(|n| f64::from(n) / 1e6).collect();
        assert_eq!(of(&many), (Some(0.3), Some(0.35), Some(0.4)));
    }
}

//! How often each length was seen: exactly up to 64, in powers of two above.

use model::v1::probe::udp::UdpBin;

/// Lengths with a bin of their own.
const SINGLE: usize = 64;
/// Bins for 65 to 128, 129 to 256, and so on up to 2^64.
const DOUBLING: usize = 64 - SINGLE.ilog2() as usize;

/// Counts of lengths, from 0.
#[derive(Clone, Debug)]
pub struct Lengths {
    count: u64,
    single: [u64; SINGLE + 1],
    doubling: [u64; DOUBLING],
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths { count: 0, single: [0; SINGLE + 1], doubling: [0; DOUBLING] }
    }
}

impl Lengths {
    /// Counts one more of this length.
    pub fn record(&mut self, length: u64) {
        self.count += 1;
        match length {
            0..=64 => self.single[length as usize] += 1,
            // The first of these bins is for 65 to 128: one less than any of them has the logarithm 6.
            _ => self.doubling[((length - 1).ilog2() - SINGLE.ilog2()) as usize] += 1,
        }
    }

    /// Number of lengths.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bins that are not empty, shortest first.
    pub fn bins(&self) -> Vec<UdpBin> {
        let single =
            (0u64..).zip(&self.single).map(|(length, count)| UdpBin { from: length, to: length, count: *count });
        let doubling = self.doubling.iter().enumerate().map(|(n, count)| {
            let half = (SINGLE as u64) << n;
            UdpBin { from: half + 1, to: half.saturating_mul(2), count: *count }
        });
        single.chain(doubling).filter(|bin| bin.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_one_bin() {
        for length in [0, 1, 63, 64, 65, 128, 129, 1 << 40, (1 << 40) + 1, 1 << 63, (1 << 63) + 1, u64::MAX] {
            let mut lengths = Lengths::default();
            lengths.record(length);
            let bins = lengths.bins();
            assert_eq!((bins.len(), bins[0].count, lengths.count()), (1, 1, 1));
            assert!(bins[0].from <= length && length <= bins[0].to, "{length}: {bins:?}");
            assert!(length > 64 || bins[0].from == bins[0].to, "{length}: {bins:?}");
        }
    }
}

//! Whether two small samples differ by more than chance: the exact rank-sum test of Mann and Whitney (Annals of Mathematical Statistics 18,
//! 1947), with middle ranks for ties. It assumes nothing about the distribution, since rates over a shared path are far from normal.

use serde::Serialize;

/// A difference that chance alone causes more often than this is called noise. One in a hundred, not one in twenty: dozens of settings may
/// be tried in one run. Five rounds reach it only if the two sides do not overlap at all (p = 2 / C(10,5) = 0.008).
pub const P_MAX: f64 = 0.01;
/// With fewer rounds no difference is significant.
pub const ROUNDS_MIN: u32 = 5;
/// More rounds are not worth their time; up to this number, the count of all rankings fits 64 bits.
pub const ROUNDS_MAX: u32 = 30;

/// The comparison of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The median without the change.
    pub before: f64,
    /// The median with the change.
    pub after: f64,
    /// The change as a share of the median before; 0.1 is a tenth more. 0 if the median before is 0.
    pub share: f64,
    /// The probability that chance alone makes them differ as much (two-sided).
    pub p: f64,
    /// Whether the difference may be chance.
    pub noise: bool,
}

impl Difference {
    /// Compares two sides, of the same length or not.
    pub fn of(before: &[f64], after: &[f64]) -> Difference {
        let p = rank_sum_p(before, after);
        let before = median(before);
        let after = median(after);
        let share = if before == 0.0 { 0.0 } else { after / before - 1.0 };
        Difference { before, after, share, p, noise: p > P_MAX }
    }
}

/// The middle value, or the mean of the middle two; 0 without values.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (odd, middle) if odd % 2 == 1 => values[middle],
        (_, middle) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Twice the rank of each value, so that middle ranks are whole numbers; those of `before` first.
fn doubled_ranks(before: &[f64], after: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = before.iter().chain(after).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|other| *other < value).count();
        let same = all.iter().filter(|other| *other == value).count();
        2 * below + same + 1
    };
    all.iter().map(rank).collect()
}

/// Of all assignments of the ranks to the two sides, the share whose rank sum is at least as far from its mean as that of the samples.
fn rank_sum_p(before: &[f64], after: &[f64]) -> f64 {
    let ranks = doubled_ranks(before, after);
    let total: usize = ranks.iter().sum();
    // ways[k][s]: how many choices of k ranks sum to s.
    let mut ways = vec![vec![0.0_f64; total + 1]; before.len() + 1];
    ways[0][0] = 1.0;
    for rank in &ranks {
        for k in (1..=before.len()).rev() {
            for sum in (*rank..=total).rev() {
                ways[k][sum] += ways[k - 1][sum - rank];
            }
        }
    }
    // The mean of a sum of n out of N doubled ranks is n/N of their total.
    let distance = |sum: usize| (sum * ranks.len()).abs_diff(before.len() * total);
    let found = distance(ranks.iter().take(before.len()).sum());
    let assignments = &ways[before.len()];
    let as_far: f64 =
        assignments.iter().enumerate().filter(|(sum, _)| distance(*sum) >= found).map(|(_, ways)| ways).sum();
    as_far / assignments.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the published tables for U (two-sided, no ties).
    #[test]
    fn probabilities_equal_those_of_published_tables() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        near(rank_sum_p(&low, &high), 2.0 / 252.0);
        near(rank_sum_p(&high, &low), 2.0 / 252.0);
        // U = 1: one pair the other way round.
        near(rank_sum_p(&[1.0, 2.0, 3.0, 4.0, 6.0], &[5.0, 7.0, 8.0, 9.0, 10.0]), 4.0 / 252.0);
        // U = 2 of 4 and 4: 8 assignments in 70 are as far.
        near(rank_sum_p(&[1.0, 2.0, 3.0, 6.0], &[4.0, 5.0, 7.0, 8.0]), 8.0 / 70.0);
        near(rank_sum_p(&[1.0; 5], &[1.0; 5]), 1.0);
    }

    #[test]
    fn ties_share_their_ranks() {
        assert_eq!(doubled_ranks(&[1.0, 2.0], &[2.0, 3.0]), [2, 5, 5, 8]);
        // Of {1,2,2,3} into two and two: sums of doubled ranks 7,7,10,10,13,13; both ends are as far: 4 of 6.
        assert!((rank_sum_p(&[1.0, 2.0], &[2.0, 3.0]) - 4.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn overlapping_samples_are_noise() {
        let apart = Difference::of(&[10.0, 11.0, 10.5, 10.2, 10.1], &[12.0, 12.5, 12.1, 13.0, 12.2]);
        assert!(!apart.noise && (apart.share - (12.2 / 10.2 - 1.0)).abs() < 1e-12, "{apart:?}");
        let mixed = Difference::of(&[10.0, 11.0, 10.5, 12.3, 10.1], &[12.0, 12.5, 12.1, 10.4, 12.2]);
        assert!(mixed.noise, "{mixed:?}");
        let none = Difference::of(&[0.0; 5], &[0.0; 5]);
        assert_eq!((none.share, none.noise), (0.0, true));
    }

    #[test]
    fn probabilities_are_exact_for_the_most_rounds() {
        let side = |from: u32| (from..from + ROUNDS_MAX).map(f64::from).collect::<Vec<_>>();
        let p = rank_sum_p(&side(0), &side(ROUNDS_MAX));
        // 2 / C(60,30) = 2 / 1.18e17.
        assert!((p * 1.182_645_815_648_614_2e17 / 2.0 - 1.0).abs() < 1e-9, "{p}");
    }
}

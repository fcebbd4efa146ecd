//! Evaluates series of rates: where they fall, and where they stop rising. Pure.

/// Least samples on each side of a fall: half a second before it, as caches can be small; a second and a tenth of the run
/// after it, as only a lasting rate counts as sustained.
const BEFORE_MIN: usize = 5;
const AFTER_MIN: usize = 10;
const AFTER_PART: usize = 10;
/// Fewer samples are not evaluated.
pub(super) const SAMPLES_MIN: usize = 20;
/// The largest share of the rate that remains after a fall: smaller falls are not reported.
const FALL: f64 = 0.8;
/// The threshold of the statistic. Its maximum over all places exceeds 13 by chance in one run of a hundred, when places from
/// 5 % to 95 % are tried (Andrews, Econometrica 61 (1993) 821); the margin is for noise that is not normal.
const F_MIN: f64 = 20.0;
/// Bound of the correlation between neighbouring samples.
const CORRELATION_MAX: f64 = 0.98;

/// A lasting fall of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fall {
    /// The first sample after the fall.
    pub at: usize,
    /// Means of both sides.
    pub before: f64,
    pub after: f64,
    /// The statistic of the two-segment fit.
    pub f: f64,
}

/// Finds where a series of equally spaced rates falls for good, if it does. Two means are fitted, at the place with the least
/// squares, and tested against one mean. Neighbouring samples are correlated (a stall lasts for several), which makes chance
/// look like a change; the statistic is reduced for that as for a first-order autoregression.
pub(super) fn fall(samples: &[f64]) -> Option<Fall> {
    let n = samples.len();
    if n < SAMPLES_MIN || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let after_min = AFTER_MIN.max(n / AFTER_PART);
    let total: f64 = samples.iter().sum();
    let mut sum = 0.0;
    let mut best = (0, 0.0);
    for (at, sample) in samples.iter().enumerate() {
        if (BEFORE_MIN..=n - after_min).contains(&at) {
            // The sum of squares that two means explain.
            let (left, right) = (at as f64, (n - at) as f64);
            let difference = sum / left - (total - sum) / right;
            let explained = left * right / n as f64 * difference * difference;
            if difference > 0.0 && explained > best.1 {
                best = (at, explained);
            }
        }
        sum += sample;
    }
    let (at, explained) = best;
    if at == 0 {
        return None;
    }
    let (before, after) = (mean(&samples[..at]), mean(&samples[at..]));
    let residuals: Vec<f64> =
        samples.iter().enumerate().map(|(n, s)| s - if n < at { before } else { after }).collect();
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let correlation = correlation(&residuals, squares);
    // The floor, noise of a millionth of the mean, keeps the division in bounds.
    let floor = (before * 1e-6).powi(2) * n as f64;
    let f = explained * (n - 2) as f64 / squares.max(floor) * (1.0 - correlation) / (1.0 + correlation);
    (f > F_MIN && after <= FALL * before).then_some(Fall { at, before, after, f })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The correlation of each value with the next one, from 0 to nearly 1. An estimate from n values is too low by (1 + 3 r) / n
/// (Kendall, Biometrika 41 (1954) 403), and by more where two means were subtracted.
fn correlation(residuals: &[f64], squares: f64) -> f64 {
    if squares <= 0.0 {
        return 0.0;
    }
    let raw = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
    let n = residuals.len() as f64;
    (raw + 2.0 * (1.0 + 3.0 * raw) / n).clamp(0.0, CORRELATION_MAX)
}

/// The knee of a sweep over workers: more workers are no faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KneeIndexes {
    /// Index of the fewest workers that are nearly as fast as the best.
    pub at: usize,
    /// Index of the best.
    pub best: usize,
    /// Only the largest number of workers is that fast: the knee may be beyond it.
    pub is_open: bool,
}

/// The fewest workers whose rate is within a twentieth of the best; none with fewer than two numbers of workers.
pub(super) fn knee(points: &[(u32, f64)]) -> Option<KneeIndexes> {
    let best = (0..points.len()).max_by(|a, b| points[*a].1.total_cmp(&points[*b].1))?;
    let enough = (0..points.len()).filter(|at| points[*at].1 >= 0.95 * points[best].1);
    let at = enough.min_by_key(|at| points[*at].0)?;
    let most = points.iter().map(|(workers, _)| *workers).max()?;
    let least = points.iter().map(|(workers, _)| *workers).min()?;
    (least < most).then_some(KneeIndexes { at, best, is_open: points[at].0 == most })
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    /// Normal, by the sum of twelve (variance 12 × 1/12).
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    /// Rates around a mean with one kind of the noise that disks have, by its name.
    fn noisy(kind: &str, means: impl Iterator<Item = f64>, rng: &mut Rng) -> Vec<f64> {
        let mut drift = 0.0;
        let mut stall = 0;
        let one = |(n, mean): (usize, f64)| match kind {
            "white" => mean * (1.0 + 0.15 * normal(rng)),
            // Neighbouring samples are correlated: half of a deviation remains in the next sample.
            "slow" => {
                drift = 0.5 * drift + 0.1 * normal(rng);
                mean * (1.0 + drift)
            }
            "slower" => {
                drift = 0.8 * drift + 0.06 * normal(rng);
                mean * (1.0 + drift)
            }
            // Occasionally the rate is 0 for nearly half a second.
            "stalls" => {
                if stall == 0 && rng.f64() < 0.02 {
                    stall = rng.u32(1..=5);
                }
                stall = u32::saturating_sub(stall, 1);
                if stall > 0 { 0.0 } else { mean * (1.0 + 0.05 * normal(rng)) }
            }
            "heavy" => mean * (0.5 * normal(rng)).exp(),
            // A journal's flush every five seconds takes half of one.
            "periodic" => mean * (1.0 + 0.03 * normal(rng)) * if n % 50 < 5 { 0.4 } else { 1.0 },
            _ => unreachable!("{kind}"),
        };
        means.enumerate().map(one).map(|rate| rate.max(0.0)).collect()
    }

    const KINDS: [&str; 6] = ["white", "slow", "slower", "stalls", "heavy", "periodic"];
    const SEEDS: u64 = 400;

    #[test]
    fn constant_rates_rarely_fall() {
        for kind in KINDS {
            for n in [20, 60, 100, 600] {
                let falls = (0..SEEDS).filter(|seed| {
                    let means = std::iter::repeat_n(5e9, n);
                    fall(&noisy(kind, means, &mut Rng::with_seed(*seed))).is_some()
                });
                let falls = falls.count() as u64;
                assert!(falls * 20 < SEEDS, "{kind}, {n} samples: {falls} of {SEEDS} fall");
            }
        }
    }

    /// A drive of table T11: 17 Gbit/s into a cache of some 16 GB, then 6.
    #[test]
    fn the_end_of_a_cache_is_found() {
        // 16 GB at 17 Gbit/s: 7.53 s.
        let true_at = 75;
        for kind in KINDS {
            let mut far = 0;
            for seed in 0..SEEDS {
                let means = (0..600).map(|n| if n < true_at { 17e9 } else { 6e9 });
                let samples = noisy(kind, means, &mut Rng::with_seed(seed));
                let Some(found) = fall(&samples) else {
                    far += 1;
                    continue;
                };
                let is_near = found.at.abs_diff(true_at) <= 10
                    && (found.before / mean(&samples[..true_at]) - 1.0).abs() < 0.1
                    && (found.after / mean(&samples[true_at..]) - 1.0).abs() < 0.1;
                far += u64::from(!is_near);
            }
            assert!(far * 20 < SEEDS, "{kind}: {far} of {SEEDS} missed or misplaced");
        }
    }

    #[test]
    fn exact_series_fall_where_their_mean_does() {
        let series = |before: usize, high: f64, after: usize, low: f64| {
            let mut samples = vec![high; before];
            samples.extend(vec![low; after]);
            fall(&samples)
        };
        let found = series(30, 8.0, 70, 2.0).unwrap();
        assert_eq!((found.at, found.before, found.after), (30, 8.0, 2.0));
        assert!(found.f > 1e6);
        assert_eq!(series(100, 8.0, 0, 0.0), None);
        assert_eq!(series(30, 2.0, 70, 8.0), None, "a rise is no fall");
        assert_eq!(series(30, 8.0, 70, 7.0), None, "an eighth less is no fall");
        assert_eq!(series(9, 8.0, 10, 2.0), None, "too few");
        assert!(series(30, 8.0, 70, 0.0).is_some(), "to nothing");
        assert!(fall(&[0.0; 50]).is_none());
        assert!(fall(&[f64::NAN; 50]).is_none());
        // At least a tenth of the samples must follow a fall: a dip at the end may have any cause.
        assert_eq!(series(595, 8.0, 5, 2.0), None);
    }

    #[test]
    fn the_knee_is_the_fewest_workers_near_the_best_rate() {
        let of =
            |points: &[(u32, f64)]| knee(points).map(|knee| (points[knee.at].0, points[knee.best].0, knee.is_open));
        assert_eq!(of(&[(1, 10.0), (2, 20.0), (4, 29.0), (8, 30.0)]), Some((4, 8, false)));
        assert_eq!(of(&[(1, 10.0), (2, 20.0), (4, 40.0)]), Some((4, 4, true)));
        assert_eq!(of(&[(4, 40.0), (1, 39.0), (2, 38.0)]), Some((1, 4, false)), "any order, and the fewest");
        assert_eq!(of(&[(1, 30.0), (2, 20.0)]), Some((1, 1, false)), "heads that seek");
        assert_eq!(of(&[(1, 10.0)]), None);
        assert_eq!(of(&[(2, 10.0), (2, 11.0)]), None);
        assert_eq!(of(&[]), None);
    }

    proptest! {
        #[test]
        fn any_series_is_evaluated(samples in prop::collection::vec(prop_oneof![0.0..1e12, any::<f64>()], 0..200)) {
            if let Some(found) = fall(&samples) {
                prop_assert!(found.at >= BEFORE_MIN && found.at + AFTER_MIN <= samples.len());
                prop_assert!(found.after <= FALL * found.before);
            }
        }

        #[test]
        fn a_knee_is_within_a_twentieth(points in prop::collection::vec((1..300u32, 0.0..1e12), 0..20)) {
            if let Some(knee) = knee(&points) {
                prop_assert!(points[knee.at].1 >= 0.95 * points[knee.best].1);
                prop_assert!(points.iter().all(|(n, rate)| *n >= points[knee.at].0 || *rate < 0.95 * points[knee.best].1));
            }
        }
    }
}

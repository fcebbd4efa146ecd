//! Detects downward shifts in a series of test results: a baseline that outliers do not move, and a CUSUM (Page 1954).

use std::collections::VecDeque;

/// Tests of the baseline.
const BASELINE_MAX: usize = 56;
/// The parameters of the CUSUM: deviations of up to half a standard deviation do not count (k), and a sum of eight is a shift (h). At h = 5 one series in
/// five would have a false alarm, where the baseline is estimated from 56 tests.
const SLACK: f64 = 0.5;
const LIMIT: f64 = 8.0;
/// The least deviation that is computed with, as a share of the median: smaller ones may be noise of the hosts.
const DEVIATION_MIN: f64 = 0.02;
/// The largest contribution of one test, deviations: a single outlier is not a shift.
const STEP_MAX: f64 = 4.0;
/// The least effect that is reported, and how many tests in a row must show it.
const EFFECT_MIN: f64 = 0.1;
const IN_A_ROW: usize = 2;
/// From the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Detects a downward shift of a number over tests.
#[derive(Clone, Debug)]
pub struct ShiftDetector {
    baseline: VecDeque<f64>,
    recent: VecDeque<f64>,
    /// The cumulative sum of deviations below the baseline.
    cusum: f64,
    /// Tests since `cusum` left zero: the shifted ones, if there is a shift.
    since: VecDeque<f64>,
    learn: usize,
    shifted: bool,
}

/// A downward shift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The number before.
    pub before: f64,
    /// The number now.
    pub now: f64,
}

impl Shift {
    /// The share that is missing.
    pub fn missing(&self) -> f64 {
        1.0 - self.now / self.before
    }
}

/// The median of some numbers; none without numbers.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => values.get(middle).copied(),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

impl ShiftDetector {
    /// A detector that reports nothing before `learn` tests.
    pub fn new(learn: usize) -> ShiftDetector {
        ShiftDetector {
            baseline: VecDeque::new(),
            recent: VecDeque::new(),
            cusum: 0.0,
            since: VecDeque::new(),
            learn,
            shifted: false,
        }
    }

    /// Adds the result of a test.
    pub fn add(&mut self, value: f64) {
        self.recent.push_back(value);
        if self.recent.len() > IN_A_ROW {
            self.recent.pop_front();
        }
        if let Some((middle, deviation)) = self.spread() {
            let below = ((middle - value) / deviation).clamp(-STEP_MAX, STEP_MAX);
            self.cusum = (self.cusum + below - SLACK).max(0.0);
        }
        self.since.push_back(value);
        if self.cusum <= 0.0 {
            self.since.clear();
        } else if self.since.len() > BASELINE_MAX {
            self.since.pop_front();
        }
        // Shifted results are not learnt: they would soon become the normal ones.
        if !self.is_suspicious() {
            self.baseline.push_back(value);
            if self.baseline.len() > BASELINE_MAX {
                self.baseline.pop_front();
            }
        }
        let is_new = self.cusum > LIMIT && self.is_below(EFFECT_MIN) && self.is_large_enough();
        self.shifted = is_new || self.shifted && self.is_below(EFFECT_MIN / 2.0);
        if !self.shifted && self.cusum > LIMIT && !self.is_below(EFFECT_MIN / 2.0) {
            // A drift below the least effect: the baseline follows it.
            self.cusum = 0.0;
        }
    }

    /// Median and deviation of the baseline; none before it is learnt.
    fn spread(&self) -> Option<(f64, f64)> {
        if self.baseline.len() < self.learn {
            return None;
        }
        let middle = median(self.baseline.iter().copied())?;
        let apart = median(self.baseline.iter().map(|value| (value - middle).abs()))?;
        Some((middle, (apart * MAD_TO_SIGMA).max(middle.abs() * DEVIATION_MIN).max(f64::MIN_POSITIVE)))
    }

    fn is_suspicious(&self) -> bool {
        self.baseline.len() >= self.learn && self.cusum > LIMIT / 2.0
    }

    /// Whether the last tests all lie below the baseline by a share.
    fn is_below(&self, effect: f64) -> bool {
        let Some((middle, _)) = self.spread() else { return false };
        self.recent.len() >= IN_A_ROW && self.recent.iter().all(|value| *value < middle * (1.0 - effect))
    }

    /// Whether half of all tests since the shift began show the least effect. The last tests alone overstate it: they took the sum over its
    /// limit.
    fn is_large_enough(&self) -> bool {
        let middles = self.normal().zip(median(self.since.iter().copied()));
        middles.is_some_and(|(normal, since)| since < normal * (1.0 - EFFECT_MIN))
    }

    /// Whether the last test alone is so low that it may be the first one of a shift.
    pub fn may_be_first_of_shift(&self) -> bool {
        let Some((middle, _)) = self.spread() else { return false };
        self.recent.back().is_some_and(|value| *value < middle * (1.0 - EFFECT_MIN))
    }

    /// The normal number; none before it is learnt.
    pub fn normal(&self) -> Option<f64> {
        self.spread().map(|(middle, _)| middle)
    }

    /// The last number.
    pub fn last(&self) -> Option<f64> {
        self.recent.back().copied()
    }

    /// The best of the last tests.
    pub fn recent_best(&self) -> Option<f64> {
        (self.recent.len() >= IN_A_ROW).then(|| self.recent.iter().copied().fold(0.0, f64::max))
    }

    /// The present shift, until the number comes back.
    pub fn shift(&self) -> Option<Shift> {
        let shift = Shift { before: self.normal()?, now: self.recent_best()? };
        self.shifted.then_some(shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roughly normal: the sum of twelve uniform numbers.
    fn noise(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// Adds `before` tests around 100 with a deviation of 4 %, then up to `after` tests around `then`; returns how many of these show the
    /// shift.
    fn found_after(seed: u64, before: usize, then: f64, after: usize) -> Option<usize> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut detector = ShiftDetector::new(10);
        for _ in 0..before {
            detector.add(100.0 * (1.0 + 0.04 * noise(&mut random)));
            assert_eq!(detector.shift(), None, "seed {seed}: a shift before there was one");
        }
        (1..=after).find(|_| {
            detector.add(then * (1.0 + 0.04 * noise(&mut random)));
            detector.shift().is_some()
        })
    }

    #[test]
    fn noise_of_two_years_is_no_shift() {
        // Four tests a day, of which two are slower by 3 %: 15 paths of two directions for two years.
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut detector = ShiftDetector::new(10);
            for test in 0..1_460 {
                let by_day = if test % 4 < 2 { 0.97 } else { 1.0 };
                detector.add(100.0 * by_day * (1.0 + 0.04 * noise(&mut random)));
                assert_eq!(detector.shift(), None, "seed {seed}, test {test}");
            }
        }
    }

    #[test]
    fn a_large_shift_is_found_at_once_and_a_small_one_soon() {
        for seed in 0..20 {
            let half = found_after(seed, 56, 50.0, 10).unwrap();
            assert!(half <= 3, "seed {seed}: {half}");
            let tenth = found_after(seed, 56, 85.0, 60).unwrap();
            assert!(tenth <= 12, "seed {seed}: {tenth}");
            assert_eq!(found_after(seed, 56, 97.0, 40), None, "three percent are too little");
        }
    }

    #[test]
    fn one_bad_test_is_no_shift_and_a_shift_ends() {
        let mut detector = ShiftDetector::new(10);
        (0..20).for_each(|_| detector.add(100.0));
        detector.add(1.0);
        assert_eq!(detector.shift(), None);
        (0..5).for_each(|_| detector.add(100.0));
        (0..6).for_each(|_| detector.add(60.0));
        let shift = detector.shift().unwrap();
        assert!((shift.before - 100.0).abs() < 1.0 && (shift.missing() - 0.4).abs() < 0.02, "{shift:?}");
        (0..100).for_each(|_| detector.add(60.0));
        assert!(detector.shift().is_some(), "it does not become normal because it lasts");
        (0..3).for_each(|_| detector.add(100.0));
        assert_eq!(detector.shift(), None);
    }

    #[test]
    fn the_median_ignores_what_is_not_a_number() {
        assert_eq!(median([3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!((median([1.0, 2.0]), median([])), (Some(1.5), None));
    }
}

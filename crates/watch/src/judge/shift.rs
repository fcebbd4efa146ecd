//! Detects downward shifts in a series of test results: a baseline that outliers do not move, and a CUSUM (Page 1954).

use std::collections::VecDeque;

/// Tests of the baseline.
const BASELINE_MAX: usize = 56;
/// A shift of half of a deviation is none (k), and eight deviations in all are one (h). At h = 5 one series in five alarms without a shift, where the
/// baseline is estimated from 56 tests.
const SLACK: f64 = 0.5;
const LIMIT: f64 = 8.0;
/// Deviations that the noise of hosts explains, of the median.
const DEVIATION_MIN: f64 = 0.02;
/// The most deviations that one test counts: a single outlier is no shift.
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
    low: f64,
    /// Tests since [`ShiftDetector::low`] left zero: the shifted ones, if there is a shift.
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
            low: 0.0,
            since: VecDeque::new(),
            learn,
            shifted: false,
        }
    }

    /// Adds the result of a test.
    pub fn note(&mut self, value: f64) {
        self.recent.push_back(value);
        if self.recent.len() > IN_A_ROW {
            self.recent.pop_front();
        }
        if let Some((middle, deviation)) = self.spread() {
            let below = ((middle - value) / deviation).clamp(-STEP_MAX, STEP_MAX);
            self.low = (self.low + below - SLACK).max(0.0);
        }
        self.since.push_back(value);
        if self.low <= 0.0 {
            self.since.clear();
        } else if self.since.len() > BASELINE_MAX {
            self.since.pop_front();
        }
        // Shifted results are not learnt, or they would soon be called normal.
        if !self.is_suspicious() {
            self.baseline.push_back(value);
            if self.baseline.len() > BASELINE_MAX {
                self.baseline.pop_front();
            }
        }
        let is_new = self.low > LIMIT && self.is_below(EFFECT_MIN) && self.is_worth_telling();
        self.shifted = is_new || self.shifted && self.is_below(EFFECT_MIN / 2.0);
        if !self.shifted && self.low > LIMIT && !self.is_below(EFFECT_MIN / 2.0) {
            // A drift below the least effect: the baseline follows it.
            self.low = 0.0;
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
        self.baseline.len() >= self.learn && self.low > LIMIT / 2.0
    }

    /// Whether the last tests all lie below the baseline by a share.
    fn is_below(&self, effect: f64) -> bool {
        let Some((middle, _)) = self.spread() else { return false };
        self.recent.len() >= IN_A_ROW && self.recent.iter().all(|value| *value < middle * (1.0 - effect))
    }

    /// Half of all tests since the shift began lack the least effect. The last ones alone are below what is there: it is they that took the sum over its limit.
    fn is_worth_telling(&self) -> bool {
        let middles = self.normal().zip(median(self.since.iter().copied()));
        middles.is_some_and(|(normal, since)| since < normal * (1.0 - EFFECT_MIN))
    }

    /// Whether the last test alone is so low that it may be the first of a shift.
    pub fn is_doubtful(&self) -> bool {
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

    /// The better of the last tests: what is given when it is given.
    pub fn lately(&self) -> Option<f64> {
        (self.recent.len() >= IN_A_ROW).then(|| self.recent.iter().copied().fold(0.0, f64::max))
    }

    /// Whether it has shifted down, for good or until it comes back.
    pub fn shift(&self) -> Option<Shift> {
        let (before, now) = (self.normal()?, self.lately()?);
        self.shifted.then_some(Shift { before, now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roughly normal: the sum of twelve uniform numbers.
    fn noise(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// Tests around 100 with a deviation of 4 %, then around `then`: after how many of these a shift is told.
    fn told_after(seed: u64, before: usize, then: f64, after: usize) -> Option<usize> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut course = ShiftDetector::new(10);
        for _ in 0..before {
            course.note(100.0 * (1.0 + 0.04 * noise(&mut random)));
            assert_eq!(course.shift(), None, "seed {seed}: a shift before there was one");
        }
        (1..=after).find(|_| {
            course.note(then * (1.0 + 0.04 * noise(&mut random)));
            course.shift().is_some()
        })
    }

    #[test]
    fn noise_is_no_shift_in_a_year() {
        // Four tests a day, of which two are slower by 3 %: 15 paths of two directions for two years.
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut course = ShiftDetector::new(10);
            for test in 0..1_460 {
                let by_day = if test % 4 < 2 { 0.97 } else { 1.0 };
                course.note(100.0 * by_day * (1.0 + 0.04 * noise(&mut random)));
                assert_eq!(course.shift(), None, "seed {seed}, test {test}");
            }
        }
    }

    #[test]
    fn what_is_large_is_told_at_once_and_what_is_small_soon() {
        for seed in 0..20 {
            let half = told_after(seed, 56, 50.0, 10).unwrap();
            assert!(half <= 3, "seed {seed}: {half}");
            let tenth = told_after(seed, 56, 85.0, 60).unwrap();
            assert!(tenth <= 12, "seed {seed}: {tenth}");
            assert_eq!(told_after(seed, 56, 97.0, 40), None, "three percent are worth nothing");
        }
    }

    #[test]
    fn one_bad_test_is_none_and_what_comes_back_is_over() {
        let mut course = ShiftDetector::new(10);
        (0..20).for_each(|_| course.note(100.0));
        course.note(1.0);
        assert_eq!(course.shift(), None);
        (0..5).for_each(|_| course.note(100.0));
        (0..6).for_each(|_| course.note(60.0));
        let shift = course.shift().unwrap();
        assert!((shift.before - 100.0).abs() < 1.0 && (shift.missing() - 0.4).abs() < 0.02, "{shift:?}");
        (0..100).for_each(|_| course.note(60.0));
        assert!(course.shift().is_some(), "it is not called normal because it lasts");
        (0..3).for_each(|_| course.note(100.0));
        assert_eq!(course.shift(), None);
    }

    #[test]
    fn the_middle_is_not_moved_by_nonsense() {
        assert_eq!(median([3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!((median([1.0, 2.0]), median([])), (Some(1.5), None));
    }
}

//! Averages over time, not over samples: a report that comes late weighs as much as the reports that it replaces.

use std::time::Duration;

/// An exponential average with a time constant.
#[derive(Clone, Copy, Debug)]
pub struct TimeAverage {
    constant: Duration,
    value: f64,
    at: Option<Duration>,
}

impl TimeAverage {
    /// An average with this time constant: that long after a step, it has followed 63 % of the step.
    pub fn new(constant: Duration) -> TimeAverage {
        TimeAverage { constant, value: 0.0, at: None }
    }

    /// Adds a value that has held since the last report, and returns the average. The first value is the average.
    pub fn report(&mut self, now: Duration, value: f64) -> f64 {
        self.value = match self.at {
            None => value,
            Some(at) => {
                let passed = now.saturating_sub(at).as_secs_f64();
                let weight = 1.0 - (-passed / self.constant.as_secs_f64()).exp();
                self.value + (value - self.value) * weight
            }
        };
        self.at = Some(now);
        self.value
    }

    /// The average; none before the first report.
    pub fn value(&self) -> Option<f64> {
        self.at.map(|_| self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_weigh_by_the_time_that_they_cover() {
        let of = |reports: &[u64]| {
            let mut average = TimeAverage::new(Duration::from_secs(60));
            average.report(Duration::ZERO, 100.0);
            reports.iter().for_each(|at| {
                average.report(Duration::from_secs(*at), 200.0);
            });
            average.value().unwrap()
        };
        let (seldom, often) = (of(&[60]), of(&(1..=60).collect::<Vec<_>>()));
        assert!((seldom - often).abs() < 1e-9, "{seldom} {often}");
        assert!((often - (200.0 - 100.0 * (-1.0f64).exp())).abs() < 1e-9);
        assert_eq!(TimeAverage::new(Duration::from_secs(1)).value(), None);
    }
}

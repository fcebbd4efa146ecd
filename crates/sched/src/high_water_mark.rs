//! High-water marks: how much of a link a collaboration may use, so that other traffic keeps its part.
//!
//! `usable = min(mark × capacity, capacity − others)`. The usable rate falls at once, since the capacity above the mark belongs to others,
//! and rises slowly, so that a measurement that comes and goes does not make rates swing.

use std::time::Duration;

/// The usable rate rises by at most this part of itself per [`RELAX_EVERY`].
const RELAX: f64 = 0.1;
/// The time that a rise by [`RELAX`] takes.
const RELAX_EVERY: Duration = Duration::from_secs(5);
/// A rise begins at least at this part of its target: a link that was down is back within a minute.
const RELAX_FROM: f64 = 0.05;

/// The mark of a link, in bytes per second.
#[derive(Clone, Debug)]
pub struct HighWaterMark {
    usable: f64,
    at: Duration,
}

impl HighWaterMark {
    /// The mark of a link of this capacity, of which the collaboration may use the part `mark` (0 to 1).
    pub fn new(now: Duration, capacity: f64, mark: f64) -> HighWaterMark {
        HighWaterMark { usable: below_mark(capacity, mark, 0.0), at: now }
    }

    /// Takes the link's capacity and the traffic of others on it, and returns the usable rate.
    pub fn step(&mut self, now: Duration, capacity: f64, mark: f64, others: f64) -> f64 {
        let target = below_mark(capacity, mark, others);
        let passed = now.saturating_sub(self.at).as_secs_f64() / RELAX_EVERY.as_secs_f64();
        let relaxed = self.usable.max(target * RELAX_FROM) * (1.0 + RELAX).powf(passed);
        self.usable = target.min(relaxed);
        self.at = now;
        self.usable
    }

    /// The usable rate.
    pub fn usable(&self) -> f64 {
        self.usable
    }
}

/// The usable rate in the long run: below the mark, and no more than others leave.
pub fn below_mark(capacity: f64, mark: f64, others: f64) -> f64 {
    (capacity * mark.clamp(0.0, 1.0)).min(capacity - others.max(0.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_usable_rate_falls_at_once_and_rises_slowly() {
        let mut mark = HighWaterMark::new(s(0), 1000.0, 0.8);
        assert_eq!(mark.usable(), 800.0);
        assert_eq!(mark.step(s(1), 1000.0, 0.8, 500.0), 500.0, "others use half");
        assert!(mark.step(s(2), 1000.0, 0.8, 0.0) < 512.0);
        let after: Vec<f64> = (3..40).map(|at| mark.step(s(at), 1000.0, 0.8, 0.0)).collect();
        assert!(after.windows(2).all(|pair| pair[1] >= pair[0] && pair[1] <= pair[0] * 1.1), "{after:?}");
        assert_eq!(after.last(), Some(&800.0));
    }

    #[test]
    fn a_capacity_that_halves_counts_at_once() {
        let mut mark = HighWaterMark::new(s(0), 1000.0, 0.8);
        assert_eq!(mark.step(s(1), 500.0, 0.8, 0.0), 400.0);
    }

    #[test]
    fn a_link_that_was_down_comes_back() {
        let mut mark = HighWaterMark::new(s(0), 0.0, 0.8);
        assert_eq!(mark.usable(), 0.0);
        assert!(mark.step(s(1), 1000.0, 0.8, 0.0) >= 40.0);
        assert_eq!(mark.step(s(600), 1000.0, 0.8, 0.0), 800.0);
    }
}

//! How many files move at once between two endpoints that take no rate limit, so that only the number of files can be set: third-party
//! copies between servers.
//!
//! The search goes by factors, not by steps of one: from 2 to 60 takes three minutes. Each number is tried for [`TRIAL`]. While a
//! quarter more files bring a gain of at least [`GAIN`], the number grows. Where the rate falls, or transfers fail, the number goes
//! back. Then it stays for [`HOLD`] before a larger number is tried again.

use std::time::Duration;

use crate::average::TimeAverage;

/// How long a number is tried before it is judged.
pub const TRIAL: Duration = Duration::from_secs(10);
/// How long a number is kept before a larger one is tried again.
pub const HOLD: Duration = Duration::from_secs(300);
/// A trial multiplies the number by this.
const GROW: f64 = 1.25;
/// Failures multiply the number by this.
const BACK_OFF: f64 = 0.7;
/// The factor by which a trial must be faster.
const GAIN: f64 = 1.05;
/// The part of a trial's transfers that may fail.
const FAILED_PART: f64 = 0.1;
/// Time constant of the rate within a trial.
const RATE_CONSTANT: Duration = Duration::from_secs(5);

/// The bounds of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least 1.
    pub least: u32,
    /// At least `least`.
    pub most: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// A number is on trial since `since`. It must be faster than the number before, whose rate is the second value of `before`.
    Trying { since: Duration, before: Option<(u32, f64)> },
    /// The number stays until then.
    Holding { until: Duration },
}

/// The number of concurrent transfers of a pair.
#[derive(Clone, Debug)]
pub struct Concurrency {
    bounds: Bounds,
    number: u32,
    phase: Phase,
    rate: TimeAverage,
    ended: u32,
    failed: u32,
}

impl Concurrency {
    /// Begins with a number that was good before, or with the least of the bounds.
    pub fn new(now: Duration, bounds: Bounds, last_good: Option<u32>) -> Concurrency {
        let number = last_good.unwrap_or(bounds.least).clamp(bounds.least, bounds.most);
        let phase = Phase::Trying { since: now, before: None };
        Concurrency { bounds, number, phase, rate: TimeAverage::new(RATE_CONSTANT), ended: 0, failed: 0 }
    }

    /// The number now.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Counts a transfer that has ended. Failures that have nothing to do with load (a missing file) must not be counted.
    pub fn ended(&mut self, failed: bool) {
        self.ended += 1;
        self.failed += u32::from(failed);
    }

    /// Takes the rate of the pair since the last call, in bytes per second, and whether as many files moved as the number allows: with
    /// fewer files queued than that, the rate says nothing about the number. Returns the number from now on.
    pub fn step(&mut self, now: Duration, rate: f64, is_full: bool) -> u32 {
        let rate = self.rate.report(now, rate);
        if self.failed >= 2 && f64::from(self.failed) > f64::from(self.ended) * FAILED_PART {
            self.set((f64::from(self.number) * BACK_OFF).floor());
            self.phase = Phase::Holding { until: now + HOLD };
        } else {
            match self.phase {
                Phase::Holding { until } if now >= until => self.try_more(now, rate),
                Phase::Holding { .. } => {}
                Phase::Trying { since, .. } if now.saturating_sub(since) < TRIAL || !is_full => {}
                Phase::Trying { before: Some((number, best)), .. } if rate < best * GAIN => {
                    if rate < best {
                        self.set(f64::from(number));
                    }
                    self.phase = Phase::Holding { until: now + HOLD };
                }
                Phase::Trying { .. } => self.try_more(now, rate),
            }
        }
        self.number
    }

    fn try_more(&mut self, now: Duration, rate: f64) {
        let before = self.number;
        self.set((f64::from(before) * GROW).ceil());
        self.phase = if self.number == before {
            Phase::Holding { until: now + HOLD }
        } else {
            Phase::Trying { since: now, before: Some((before, rate)) }
        };
    }

    fn set(&mut self, number: f64) {
        self.number = (number as u32).clamp(self.bounds.least, self.bounds.most);
        self.ended = 0;
        self.failed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least: 2, most: 100 };

    /// Runs for some seconds against a pair that gives each transfer 1 until `knee`, and then loses 1 % with each more.
    fn run(concurrency: &mut Concurrency, seconds: std::ops::Range<u64>, knee: u32) -> u32 {
        for second in seconds {
            let number = concurrency.number();
            let beyond = number.saturating_sub(knee);
            let rate = f64::from(number.min(knee)) * (1.0 - 0.01 * f64::from(beyond));
            concurrency.step(Duration::from_secs(second), rate, true);
        }
        concurrency.number()
    }

    #[test]
    fn the_search_finds_the_best_number_within_minutes() {
        let mut concurrency = Concurrency::new(Duration::ZERO, BOUNDS, None);
        let found = run(&mut concurrency, 0..200, 60);
        assert!((48..=75).contains(&found), "{found}");
    }

    #[test]
    fn the_number_stays_within_its_bounds() {
        let mut concurrency = Concurrency::new(Duration::ZERO, Bounds { least: 1, most: 10 }, Some(40));
        assert_eq!(concurrency.number(), 10);
        assert_eq!(run(&mut concurrency, 0..2000, 1000), 10);
    }

    #[test]
    fn failures_lower_the_number() {
        let mut concurrency = Concurrency::new(Duration::ZERO, BOUNDS, Some(50));
        (0..10).for_each(|at| concurrency.ended(at < 3));
        assert_eq!(concurrency.step(Duration::from_secs(1), 50.0, true), 35);
        assert_eq!(run(&mut concurrency, 2..250, 1000), 35, "it holds before it tries more");
        assert!(run(&mut concurrency, 302..400, 1000) > 35);
    }

    #[test]
    fn an_empty_queue_does_not_change_the_number() {
        let mut concurrency = Concurrency::new(Duration::ZERO, BOUNDS, Some(8));
        (0..100).for_each(|second| {
            concurrency.step(Duration::from_secs(second), 1.0, false);
        });
        assert_eq!(concurrency.number(), 8);
    }
}

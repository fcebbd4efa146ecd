//! Priorities and ageing: a priority is a weight, not a strict order, and grows while its files wait, so that no file starves.

use std::time::Duration;

/// A priority, 1 to 5; the default is 3. Each has twice the weight of the one below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

/// How long files wait to gain a level of priority.
pub const LEVEL_EVERY: Duration = Duration::from_secs(3600);

impl Default for Priority {
    fn default() -> Priority {
        Priority(3)
    }
}

impl Priority {
    /// The highest.
    pub const MOST: Priority = Priority(5);
    /// The lowest.
    pub const LEAST: Priority = Priority(1);

    /// The nearest priority to a number.
    pub fn nearest(number: i64) -> Priority {
        Priority(number.clamp(1, 5) as u8)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its weight, where its oldest file has waited for `waited`.
    pub fn weight(self, waited: Duration) -> f64 {
        let levels = f64::from(self.0 - 1) + waited.as_secs_f64() / LEVEL_EVERY.as_secs_f64();
        levels.min(f64::from(Priority::MOST.0 - 1)).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_double_and_waiting_counts() {
        let weights: Vec<f64> = (1..=5).map(|number| Priority::nearest(number).weight(Duration::ZERO)).collect();
        assert_eq!(weights, [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!((Priority::nearest(-7), Priority::nearest(99)), (Priority::LEAST, Priority::MOST));
        assert_eq!(Priority::LEAST.weight(4 * LEVEL_EVERY), Priority::MOST.weight(Duration::ZERO));
        assert_eq!(Priority::MOST.weight(100 * LEVEL_EVERY), 16.0, "nobody outgrows the highest");
    }
}

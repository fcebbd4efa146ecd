//! The end of a data set: a few stragglers must not delay it. A file that takes far longer than similar files may be read from another
//! source, within a budget of bytes that are moved twice.

use std::time::Duration;

/// The part of a data set's bytes that may be moved twice.
pub const HEDGED_PART: f64 = 0.02;
/// A file is a straggler when it takes this many times the median of files of its size...
const LATE: f64 = 3.0;
/// ...or when its rate is below this part of its pair's median for [`SLOW_FOR`].
const SLOW: f64 = 0.2;
/// How long it must be slow to be a straggler.
const SLOW_FOR: Duration = Duration::from_secs(30);

/// A file that is being transferred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MovingFile {
    /// How long its attempt has taken so far.
    pub elapsed: Duration,
    /// The median of files of its size on its pair; none where too few have ended.
    pub median: Option<Duration>,
    /// How long it has been slower than [`SLOW`] of the median rate of its pair.
    pub slow_for: Duration,
}

impl MovingFile {
    /// Whether it is a straggler.
    pub fn is_straggler(&self) -> bool {
        self.median.is_some_and(|median| self.elapsed > median.mul_f64(LATE)) || self.slow_for >= SLOW_FOR
    }
}

/// Whether a rate is that of a straggler, given the median rate of its pair.
pub fn is_slow(rate: f64, median: f64) -> bool {
    rate < SLOW * median
}

/// The bytes that a data set has moved twice, within its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HedgeBudget {
    spent: f64,
}

impl HedgeBudget {
    /// Takes the bytes of a file from the budget of a data set, if they fit; returns whether they did.
    pub fn take(&mut self, bytes: f64, data_set_bytes: f64) -> bool {
        let fits = self.spent + bytes <= data_set_bytes * HEDGED_PART;
        if fits {
            self.spent += bytes;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straggler_is_found_by_comparison_with_similar_files() {
        let median = Some(Duration::from_secs(10));
        let of = |elapsed, slow_for| MovingFile {
            elapsed: Duration::from_secs(elapsed),
            median,
            slow_for: Duration::from_secs(slow_for),
        };
        assert!(!of(29, 0).is_straggler() && of(31, 0).is_straggler() && of(1, 30).is_straggler());
        assert!(!MovingFile { median: None, ..of(1000, 0) }.is_straggler(), "nothing to compare with");
        assert!(is_slow(1.9, 10.0) && !is_slow(2.0, 10.0));
    }

    #[test]
    fn at_most_a_fiftieth_of_a_data_set_is_moved_twice() {
        let mut budget = HedgeBudget::default();
        let taken = (0..100).filter(|_| budget.take(1.0, 1000.0)).count();
        assert_eq!(taken, 20);
    }
}

//! The choice among several sources of a file: the one from which the file is expected to be complete first.

use std::time::Duration;

/// The facts about a source that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// The rate of its pair with the target, bytes per second; none where no file has moved yet.
    pub rate: Option<f64>,
    /// Bytes that are queued before this file on that pair.
    pub queued: f64,
    /// How long a file takes there before its first byte; hours, if it is on tape.
    pub startup: Duration,
    /// How many attempts of this file failed there.
    pub failed: u32,
}

/// The rate that is assumed of a pair on which no file has moved: enough that it is tried, and less than that of a good pair.
pub const UNKNOWN_RATE: f64 = 50e6;
/// Each failed attempt multiplies the expected time by this.
const FAILED_FACTOR: f64 = 4.0;

impl Source {
    /// The expected time until a file of `bytes` is complete.
    pub fn expected(&self, bytes: f64) -> Duration {
        let rate = self.rate.filter(|rate| *rate > 0.0).unwrap_or(UNKNOWN_RATE);
        let seconds = self.startup.as_secs_f64() + (self.queued + bytes) / rate;
        let penalty = FAILED_FACTOR.powi(self.failed.min(20) as i32);
        Duration::try_from_secs_f64(seconds * penalty).unwrap_or(Duration::MAX)
    }
}

/// The source with the earliest expected end; the first of equals.
pub fn best(sources: &[Source], bytes: f64) -> Option<usize> {
    (0..sources.len()).min_by_key(|at| sources[*at].expected(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Source = Source { rate: Some(100e6), queued: 0.0, startup: Duration::ZERO, failed: 0 };

    #[test]
    fn the_earliest_end_is_chosen() {
        let busy = Source { rate: Some(1e9), queued: 1e12, ..GOOD };
        let tape = Source { startup: Duration::from_secs(3600), ..GOOD };
        assert_eq!(best(&[busy, GOOD, tape], 1e9), Some(1));
        assert_eq!(best(&[tape, busy], 1e9), Some(1));
        assert_eq!(best(&[], 1e9), None);
    }

    #[test]
    fn a_source_that_failed_comes_after_one_that_is_slower() {
        let failed = Source { failed: 1, ..GOOD };
        let slower = Source { rate: Some(40e6), ..GOOD };
        assert_eq!(best(&[failed, slower], 1e9), Some(1));
        assert_eq!(best(&[failed, Source { failed: 3, ..GOOD }], 1e9), Some(0));
    }

    #[test]
    fn an_untried_pair_is_chosen_before_a_slow_one() {
        let unknown = Source { rate: None, ..GOOD };
        assert_eq!(best(&[Source { rate: Some(1e6), ..GOOD }, unknown], 1e9), Some(1));
    }
}

//! This host's clock over a test: its worst quality, and whether it was set.

use std::time::Duration;

use model::v1::probe::latency;

use crate::stamp::clock::{Clock, Reading};
use crate::stamp::packet::ErrorEstimate;

/// A smaller step may come from an interruption between reading the two clocks.
const STEP_MIN_NS: i64 = 100_000;
/// Time between queries of the clock's quality.
const QUALITY_EVERY_NS: i64 = 1_000_000_000;

/// The clock of the near end.
#[derive(Debug)]
pub struct NearClock {
    /// The reading since which the clock has not been set.
    reference: Reading,
    step_ns: i64,
    /// When the quality was queried last, monotonic.
    queried_ns: i64,
    /// Every query returned a quality.
    pub is_known: bool,
    synchronised: bool,
    error: Duration,
    estimate: ErrorEstimate,
}

impl NearClock {
    /// Reads the clock at the beginning of a test.
    pub fn new(clock: &dyn Clock) -> NearClock {
        let reference = clock.read();
        let estimate = ErrorEstimate::of(false, Duration::ZERO);
        let step_ns = 0;
        let queried_ns = reference.mono_ns;
        let error = Duration::ZERO;
        let mut near =
            NearClock { reference, step_ns, queried_ns, is_known: true, synchronised: true, error, estimate };
        near.query_quality(clock);
        near
    }

    fn query_quality(&mut self, clock: &dyn Clock) {
        let quality = clock.quality();
        self.is_known &= quality.is_some();
        let quality = quality.unwrap_or_default();
        self.synchronised &= quality.synchronised;
        self.error = self.error.max(quality.error);
        self.estimate = ErrorEstimate::of(quality.synchronised, quality.error);
    }

    /// Compares a reading with the earlier ones, and queries the quality again if that is due.
    pub fn update(&mut self, reading: &Reading, clock: &dyn Clock) {
        let moved_ns = reading.offset_ns().saturating_sub(self.reference.offset_ns());
        if moved_ns.saturating_abs() > STEP_MIN_NS + self.reference.apart_ns + reading.apart_ns {
            self.reference = *reading;
            if moved_ns.saturating_abs() > self.step_ns.saturating_abs() {
                self.step_ns = moved_ns;
            }
        }
        if reading.mono_ns.saturating_sub(self.queried_ns) >= QUALITY_EVERY_NS {
            self.queried_ns = reading.mono_ns;
            self.query_quality(clock);
        }
    }

    /// The largest step, nanoseconds; none if the clock was not set.
    pub fn step_ns(&self) -> Option<i64> {
        (self.step_ns != 0).then_some(self.step_ns)
    }

    /// The error estimate for packets that leave now.
    pub fn estimate(&self) -> ErrorEstimate {
        self.estimate
    }

    /// The worst quality so far.
    pub fn worst(&self) -> latency::Clock {
        latency::Clock { synchronised: self.synchronised, error_s: self.error.as_secs_f64(), ptp: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::clock_quality::ClockQuality;

    /// A clock of constant quality, or of unknown quality.
    struct FixedClock(Option<ClockQuality>);

    impl Clock for FixedClock {
        fn read(&self) -> Reading {
            Reading::default()
        }

        fn quality(&self) -> Option<ClockQuality> {
            self.0
        }
    }

    fn fixed(synchronised: bool, ms: u64) -> FixedClock {
        FixedClock(Some(ClockQuality { synchronised, error: Duration::from_millis(ms), ..ClockQuality::default() }))
    }

    fn at(mono_ms: i64, shift_ns: i64, apart_ns: i64) -> Reading {
        Reading { mono_ns: mono_ms * 1_000_000, real_ns: mono_ms * 1_000_000 + shift_ns, apart_ns }
    }

    #[test]
    fn a_clock_that_is_set_is_detected_and_the_largest_step_is_kept() {
        let clock = fixed(true, 1);
        let mut near = NearClock::new(&clock);
        near.update(&at(1, 90_000, 0), &clock);
        near.update(&at(2, 400_000, 350_000), &clock);
        assert_eq!(near.step_ns(), None, "the steps are small, or no larger than the time between two reads");
        near.update(&at(3, 5_000_000, 0), &clock);
        near.update(&at(4, 5_000_000, 0), &clock);
        near.update(&at(5, 4_000_000, 0), &clock);
        assert_eq!(near.step_ns(), Some(5_000_000));
    }

    #[test]
    fn many_small_steps_add_up_to_a_large_one() {
        let clock = fixed(true, 1);
        let mut near = NearClock::new(&clock);
        (1..=6).for_each(|n| near.update(&at(n, -n * 20_000, 0), &clock));
        assert_eq!(near.step_ns(), Some(-120_000));
    }

    #[test]
    fn the_worst_quality_of_the_test_counts() {
        let mut near = NearClock::new(&fixed(true, 3));
        near.update(&at(999, 0, 0), &fixed(false, 9));
        assert_eq!(near.worst(), latency::Clock { synchronised: true, error_s: 3e-3, ptp: false }, "not yet queried");
        near.update(&at(1_000, 0, 0), &fixed(false, 9));
        near.update(&at(2_000, 0, 0), &fixed(true, 1));
        assert_eq!(near.worst(), latency::Clock { synchronised: false, error_s: 9e-3, ptp: false });
        assert!(near.is_known && near.estimate().synchronised, "packets carry the current quality");
        near.update(&at(3_000, 0, 0), &FixedClock(None));
        assert!(!near.is_known && !near.estimate().synchronised);
    }
}

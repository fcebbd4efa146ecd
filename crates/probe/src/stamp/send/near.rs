//! This host's clock over a test: how good it was at its worst, and whether somebody set it.

use std::time::Duration;

use model::v1::probe::latency;

use crate::stamp::clock::{Clock, Reading};
use crate::stamp::packet::ErrorEstimate;

/// Smaller steps are not told from two reads that something came between.
const STEP_MIN_NS: i64 = 100_000;
/// How often the clock's keeper is asked.
const QUALITY_EVERY_NS: i64 = 1_000_000_000;

/// The clock of the end that asks.
#[derive(Debug)]
pub struct NearClock {
    /// The last reading before which nobody had set the clock.
    reference: Reading,
    step_ns: i64,
    asked_ns: i64,
    /// Somebody could say how good it is, every time.
    pub is_known: bool,
    synchronised: bool,
    error: Duration,
    estimate: ErrorEstimate,
}

impl NearClock {
    /// Looks for the first time.
    pub fn new(clock: &dyn Clock) -> NearClock {
        let reference = clock.read();
        let estimate = ErrorEstimate::of(false, Duration::ZERO);
        let (step_ns, asked_ns, error) = (0, reference.mono_ns, Duration::ZERO);
        let mut near =
            NearClock { reference, step_ns, asked_ns, is_known: true, synchronised: true, error, estimate };
        near.ask(clock);
        near
    }

    fn ask(&mut self, clock: &dyn Clock) {
        let quality = clock.quality();
        self.is_known &= quality.is_some();
        let quality = quality.unwrap_or_default();
        self.synchronised &= quality.synchronised;
        self.error = self.error.max(quality.error);
        self.estimate = ErrorEstimate::of(quality.synchronised, quality.error);
    }

    /// Compares with earlier readings, and asks the keeper again if it is time.
    pub fn look(&mut self, reading: &Reading, clock: &dyn Clock) {
        let moved_ns = reading.offset_ns().saturating_sub(self.reference.offset_ns());
        if moved_ns.saturating_abs() > STEP_MIN_NS + self.reference.apart_ns + reading.apart_ns {
            self.reference = *reading;
            if moved_ns.saturating_abs() > self.step_ns.saturating_abs() {
                self.step_ns = moved_ns;
            }
        }
        if reading.mono_ns.saturating_sub(self.asked_ns) >= QUALITY_EVERY_NS {
            self.asked_ns = reading.mono_ns;
            self.ask(clock);
        }
    }

    /// The largest step, if there was one.
    pub fn step_ns(&self) -> Option<i64> {
        (self.step_ns != 0).then_some(self.step_ns)
    }

    /// What packets say about it now.
    pub fn estimate(&self) -> ErrorEstimate {
        self.estimate
    }

    /// At its worst.
    pub fn worst(&self) -> latency::Clock {
        latency::Clock { synchronised: self.synchronised, error_s: self.error.as_secs_f64(), ptp: false }
    }
}

//! The clocks of a sender, as a trait: tests use one that stalls.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads time, and sleeps.
pub trait Clock {
    /// Nanoseconds of a clock that never steps.
    fn now(&mut self) -> u64;
    /// Nanoseconds since 1970, comparable with the clocks of other hosts.
    fn real(&mut self) -> u64;
    /// Sleeps for about `nanos`.
    fn nap(&mut self, nanos: u64);
}

/// The host's clocks.
#[derive(Clone, Copy, Debug)]
pub struct HostClock(Instant);

impl Default for HostClock {
    fn default() -> HostClock {
        HostClock(Instant::now())
    }
}

impl Clock for HostClock {
    fn now(&mut self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn real(&mut self) -> u64 {
        real()
    }

    fn nap(&mut self, nanos: u64) {
        sys::schedule::nap(Duration::from_nanos(nanos));
    }
}

/// Nanoseconds since 1970; 0 before that.
pub(super) fn real() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

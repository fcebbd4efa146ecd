//! The two clocks of a host, read together: the monotonic one for durations, the real-time one for times that other hosts
//! understand. They are a trait, so that a test can replace and set them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sys::clock_quality::ClockQuality;

/// Nanoseconds since 1970 on a real-time clock.
pub type RealNs = i64;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The monotonic clock, nanoseconds since an arbitrary moment.
    pub mono_ns: i64,
    /// The real-time clock.
    pub real_ns: RealNs,
    /// The most time between the two reads, nanoseconds.
    pub apart_ns: i64,
}

impl Reading {
    /// The monotonic time at the real time `real_ns`, if no clock was set in between.
    pub fn mono_at(&self, real_ns: RealNs) -> i64 {
        self.mono_ns.saturating_sub(self.real_ns.saturating_sub(real_ns))
    }

    /// Real-time minus monotonic: constant until the real-time clock is set, as both are sped up and slowed down alike.
    pub fn offset_ns(&self) -> i64 {
        self.real_ns.saturating_sub(self.mono_ns)
    }
}

/// The clocks of a host.
pub trait Clock: Sync {
    /// Both clocks, now.
    fn read(&self) -> Reading;

    /// The quality of the real-time clock; none where the host does not report it.
    fn quality(&self) -> Option<ClockQuality>;

    /// A kernel time stamp as a time of this clock; none where the two cannot be compared.
    fn of_kernel(&self, stamp: Duration) -> Option<RealNs> {
        i64::try_from(stamp.as_nanos()).ok()
    }
}

/// This host's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

fn nanos(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// If two reads of the monotonic clock are this close, nothing interrupted them.
const CLOSE_NS: i64 = 1_000;

impl Clock for HostClock {
    /// Reads the real-time clock between two reads of the monotonic one, and again if the reads were interrupted.
    fn read(&self) -> Reading {
        let mut best = Reading { apart_ns: i64::MAX, ..Reading::default() };
        for _ in 0..4 {
            let before = nanos(ClockId::Monotonic);
            let real_ns = nanos(ClockId::Realtime);
            let after = nanos(ClockId::Monotonic);
            let apart_ns = after - before;
            if apart_ns < best.apart_ns {
                best = Reading { mono_ns: before + apart_ns / 2, real_ns, apart_ns };
            }
            if apart_ns < CLOSE_NS {
                break;
            }
        }
        best
    }

    fn quality(&self) -> Option<ClockQuality> {
        sys::clock_quality::read().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_advance_together() {
        let first = HostClock.read();
        std::thread::sleep(Duration::from_millis(5));
        let second = HostClock.read();
        assert!(second.mono_ns - first.mono_ns >= 5_000_000);
        let moved = (second.offset_ns() - first.offset_ns()).abs();
        assert!(moved <= first.apart_ns + second.apart_ns, "{moved} ns between {first:?} and {second:?}");
        assert!(first.real_ns > 1_700_000_000 * 1_000_000_000, "after 2023: {first:?}");
    }

    #[test]
    fn a_real_time_becomes_a_monotonic_one() {
        let reading = Reading { mono_ns: 500, real_ns: 10_000, apart_ns: 0 };
        assert_eq!((reading.mono_at(9_900), reading.mono_at(10_100), reading.offset_ns()), (400, 600, 9_500));
    }
}

//! Through the page cache or past it: which of the two is faster for large files here and now, found out by writing.
//!
//! Past the cache a write costs a third of the processor time and pushes nobody's data out of memory, but it waits for
//! the device; through the cache it waits for memory, until the kernel holds dirty pages back. Which is faster depends on
//! device, memory and load, and changes while a job runs: so both are timed, the faster one is taken, and the other is
//! tried again now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Blocks that each way is tried with at first.
const FIRST: u64 = 4;
/// Of so many blocks one goes the other way, to see whether things have changed.
const TRY_EVERY: u64 = 64;
/// So much longer may a write past the cache take and still be preferred, for what it saves: a quarter.
const PREFERENCE: (u64, u64) = (5, 4);
/// A new time counts for one part in so many.
const WEIGHT: u64 = 8;

/// The two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the page cache.
    Cached,
    /// Past it.
    Direct,
}

/// What each way has taken lately, nanoseconds per MiB; 0 until it was tried. Shared by all files of a store.
#[derive(Debug, Default)]
pub(super) struct Ways {
    cached: AtomicU64,
    direct: AtomicU64,
    blocks: AtomicU64,
}

impl Ways {
    /// The way for the next block.
    pub(super) fn choose(&self) -> Way {
        let block = self.blocks.fetch_add(1, Ordering::Relaxed);
        if block < 2 * FIRST {
            return if block.is_multiple_of(2) { Way::Cached } else { Way::Direct };
        }
        let (cached, direct) = (self.cached.load(Ordering::Relaxed), self.direct.load(Ordering::Relaxed));
        let better = if direct * PREFERENCE.1 <= cached * PREFERENCE.0 { Way::Direct } else { Way::Cached };
        match block.is_multiple_of(TRY_EVERY) {
            true => better.other(),
            false => better,
        }
    }

    /// A block took so long.
    pub(super) fn took(&self, way: Way, bytes: usize, span: Duration) {
        let per_mib = (span.as_nanos() as u64).saturating_mul(1 << 20) / (bytes as u64).max(1);
        let kept = match way {
            Way::Cached => &self.cached,
            Way::Direct => &self.direct,
        };
        let before = kept.load(Ordering::Relaxed);
        let now = if before == 0 { per_mib } else { before - before / WEIGHT + per_mib / WEIGHT };
        kept.store(now.max(1), Ordering::Relaxed);
    }
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Cached => Way::Direct,
            Way::Direct => Way::Cached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ways: &Ways, blocks: u64, cached_us: u64, direct_us: u64) -> u64 {
        let mut direct = 0;
        for _ in 0..blocks {
            let way = ways.choose();
            direct += u64::from(way == Way::Direct);
            let us = if way == Way::Direct { direct_us } else { cached_us };
            ways.took(way, 1 << 20, Duration::from_micros(us));
        }
        direct
    }

    #[test]
    fn the_faster_way_is_taken_and_a_change_noticed() {
        let ways = Ways::default();
        assert!(run(&ways, 1000, 300, 900) < 40, "the cache is faster");
        // The kernel holds dirty pages back.
        run(&ways, 300, 5000, 900);
        assert!(run(&ways, 1000, 5000, 900) > 960);
        // Somebody else uses the device.
        run(&ways, 300, 400, 20_000);
        assert!(run(&ways, 1000, 400, 20_000) < 40);
    }

    #[test]
    fn a_tie_goes_past_the_cache() {
        assert!(run(&Ways::default(), 1000, 1000, 1100) > 950);
    }
}

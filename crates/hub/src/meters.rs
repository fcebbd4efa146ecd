//! Counters of a hub since its start, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the number.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The present number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a hub.
#[derive(Debug, Default)]
pub struct Meters {
    /// Jobs that were accepted.
    pub submitted_jobs: Count,
    /// Orders that were refused.
    pub refused_jobs: Count,
    /// Files that are at their target.
    pub done_files: Count,
    /// Bytes of the files that are at their target.
    pub done_bytes: Count,
    /// Files that failed for good.
    pub failed_files: Count,
    /// Failed attempts that another attempt follows.
    pub failed_attempts: Count,
    /// Rounds of the scheduler that failed.
    pub failed_rounds: Count,
    /// The duration of the scheduler's last round, microseconds.
    round_us: AtomicU64,
}

impl Meters {
    /// Records the duration of a round of the scheduler.
    pub fn record_round(&self, took: Duration) {
        self.round_us.store(took.as_micros().min(u128::from(u64::MAX)) as u64, Ordering::Relaxed);
    }

    /// The duration of the scheduler's last round.
    pub fn last_round(&self) -> Duration {
        Duration::from_micros(self.round_us.load(Ordering::Relaxed))
    }
}

//! A data stream in virtual time, with a latency and a rate.

use std::time::Duration;

/// One stream as the sender's end sees it.
pub struct Link {
    /// The stream's number.
    pub id: u32,
    /// The time when its last record has left.
    pub free_at: Duration,
    /// The stream is cut: bytes on it do not arrive.
    pub cut: bool,
}

impl Link {
    pub fn new(id: u32, now: Duration) -> Link {
        Link { id, free_at: now, cut: false }
    }

    /// Puts `bytes` bytes on the link. Returns when the last of them arrives at the other end.
    pub fn send(&mut self, now: Duration, bytes: usize, bytes_s: u64, latency: Duration) -> Duration {
        let took = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / bytes_s);
        self.free_at = self.free_at.max(now) + took;
        self.free_at + latency
    }
}

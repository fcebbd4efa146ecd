//! The paths that a node's transfers share, by the clock: see [`sched::path_shares`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use sched::path_shares::{PathShares as Shares, ShareId};

/// The paths that a node's transfers share. Clones are the same.
#[derive(Clone, Debug)]
pub struct PathShares {
    shares: Arc<Mutex<Shares>>,
    began: Instant,
}

/// A transfer's part in a path that others share, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: PathShares,
    id: ShareId,
}

impl Default for PathShares {
    fn default() -> PathShares {
        PathShares { shares: Arc::default(), began: Instant::now() }
    }
}

impl PathShares {
    /// A transfer begins over the path to `peer`.
    pub fn join(&self, peer: IpAddr) -> Share {
        let id = self.shares.lock().join(peer);
        Share { of: self.clone(), id }
    }
}

impl Share {
    /// The transfer's rate since the last report, and what its sender says the path gives (0 where it does not know), in bytes
    /// per second. Returns the most that it should use, where others share the path and it is full.
    pub fn report(&self, rate: f64, capacity: f64) -> Option<f64> {
        let now = self.of.began.elapsed();
        self.of.shares.lock().report(self.id, now, rate, capacity)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.shares.lock().leave(self.id);
    }
}

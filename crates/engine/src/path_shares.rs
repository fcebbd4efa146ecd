//! The shares of paths among a node's transfers, in real time: see [`sched::path_shares`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use sched::path_shares::{PathShares as Shares, ShareId};

/// The shares of paths among a node's transfers. Clones share their state.
#[derive(Clone, Debug)]
pub struct PathShares {
    inner: Arc<Mutex<Shares>>,
    began: Instant,
}

/// A transfer's share of a path, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: PathShares,
    id: ShareId,
}

impl Default for PathShares {
    fn default() -> PathShares {
        PathShares { inner: Arc::default(), began: Instant::now() }
    }
}

impl PathShares {
    /// Adds a transfer over the path to `peer`.
    pub fn join(&self, peer: IpAddr) -> Share {
        let id = self.inner.lock().join(peer);
        Share { shares: self.clone(), id }
    }
}

impl Share {
    /// Takes the transfer's rate since the last report, and the capacity of the path that its sender measured (0 for none), in bytes
    /// per second. Returns its share, if other transfers use the path and its capacity is known.
    pub fn report(&self, rate: f64, capacity: f64) -> Option<f64> {
        let now = self.shares.began.elapsed();
        self.shares.inner.lock().report(self.id, now, rate, capacity)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.inner.lock().leave(self.id);
    }
}

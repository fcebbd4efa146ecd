//! The movers of this node, and what its operator hears of them.

use std::sync::Arc;

use auth::AccessKey;
use engine::Timeouts;
use engine::movers::{Peers, Tiding};
use model::HostPort;

/// Movers there: node processes that share exports with this one. `keys` are theirs, one for each of these exports.
pub fn movers(at: Vec<HostPort>, keys: Arc<[AccessKey]>, timeouts: Timeouts) -> Arc<Peers> {
    let hear = |mover: &HostPort, tiding: Tiding<'_>| match tiding {
        Tiding::Joined => tracing::info!(%mover, "the mover takes streams of a job"),
        Tiding::Left(why, true) => {
            tracing::warn!(%mover, why, "the mover is left out of a job, and asked again in a while")
        }
        Tiding::Left(why, false) => tracing::warn!(%mover, why, "the mover is left out of a job"),
    };
    Arc::new(Peers::new(at, keys, timeouts, Box::new(hear)))
}

//! The movers of this node, and the log of what happens to them; and those that clients of XRootD's protocol are sent to.

use std::sync::Arc;

use auth::AccessKey;
use engine::Timeouts;
use engine::movers::{ConfiguredMovers, MoverEvent};
use model::HostPort;

/// The movers at these addresses: node processes with the same exports as this node. `keys` are their access keys, one for each of
/// these exports.
pub fn movers(at: Vec<HostPort>, keys: Arc<[AccessKey]>, timeouts: Timeouts) -> Arc<ConfiguredMovers> {
    let log = |mover: &HostPort, event: MoverEvent<'_>| match event {
        MoverEvent::Joined => tracing::info!(%mover, "the mover takes streams of a job"),
        MoverEvent::Left(why, true) => {
            tracing::warn!(%mover, why, "the mover is left out of a job, and asked again in a while")
        }
        MoverEvent::Left(why, false) => tracing::warn!(%mover, why, "the mover is left out of a job"),
    };
    Arc::new(ConfiguredMovers::new(at, keys, timeouts, Box::new(log)))
}

/// Movers that clients of XRootD's protocol are sent to.
#[derive(Clone, Debug)]
pub struct RootMovers {
    /// Their addresses, as clients know them.
    pub addresses: Vec<HostPort>,
    /// The keys that they issued, each for one export that they share with this node.
    pub keys: Arc<[AccessKey]>,
}

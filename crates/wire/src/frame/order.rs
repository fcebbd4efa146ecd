//! A job's order, from the client.

use model::locator::NodePlace;
use model::spec::{Options, Steer};

/// A job's id (a UUID).
pub type JobName = [u8; 16];

/// Which way a job's bytes go, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to node.
    Push,
    /// Node to client.
    Pull,
}

/// A job's order, from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The job's id.
    pub job: JobName,
    /// Which way.
    pub direction: Direction,
    /// Push: the one target. Pull: the sources.
    pub places: Vec<NodePlace>,
    /// How to treat what it meets.
    pub options: Options,
    /// Congestion control the client asks the node's sockets to use.
    pub congestion: Option<String>,
    /// The limit, streams and pause to begin with.
    pub steer: Steer,
    /// Not all of the source but what [`Frame::Files`](super::Frame::Files) names, which follow.
    pub listed: bool,
}

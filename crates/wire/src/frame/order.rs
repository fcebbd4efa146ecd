//! A job's order, from the client.

use model::locator::NodePlace;
use model::spec::{LiveSettings, Options};

/// A job's id (a UUID).
pub type JobName = [u8; 16];

/// The direction of a job's bytes, seen from the client.
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
    /// The direction of its bytes.
    pub direction: Direction,
    /// Push: the one target. Pull: the sources.
    pub places: Vec<NodePlace>,
    /// The job's options.
    pub options: Options,
    /// The congestion control that the client requests for the node's sockets.
    pub congestion: Option<String>,
    /// The limit, streams and pause to begin with.
    pub steer: LiveSettings,
    /// Only the files of the [`Frame::Files`](super::Frame::Files) that follow are sent, not the whole source.
    pub listed: bool,
}

//! The client whose question a node answers.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use auth::Access;

use crate::stream::Joined;

/// The client whose question is being answered, and its connection.
pub struct Requester<'a> {
    /// The client's rights.
    pub access: &'a Access,
    /// The client's address.
    pub peer: SocketAddr,
    /// The node's address that the client connected to.
    pub local: Option<SocketAddr>,
    /// Streams that join the session while the question is answered.
    pub joined: &'a mut Receiver<Joined>,
    /// Whether the client has gone: a long answer need not be finished.
    pub is_gone: &'a (dyn Fn() -> bool + Sync),
}

//! Who asks a node a question.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use auth::Access;

use crate::stream::Joined;

/// Who asks a question, and from where.
pub struct Asker<'a> {
    /// Its rights.
    pub access: &'a Access,
    /// Its address.
    pub peer: SocketAddr,
    /// The address that it came to.
    pub local: Option<SocketAddr>,
    /// Streams that join its session while it asks.
    pub joined: &'a mut Receiver<Joined>,
    /// Whether it has gone: an answer that takes its time need not be finished.
    pub is_gone: &'a (dyn Fn() -> bool + Sync),
}

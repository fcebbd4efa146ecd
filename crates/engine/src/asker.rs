//! Who asks a node a question.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Receiver;

use auth::Access;

/// Who asks a question, and from where.
pub struct Asker<'a> {
    /// Its rights.
    pub access: &'a Access,
    /// Its address.
    pub peer: SocketAddr,
    /// The address that it came to.
    pub local: Option<SocketAddr>,
    /// Streams that join its session while it asks.
    pub joined: &'a mut Receiver<(TcpStream, u32)>,
}

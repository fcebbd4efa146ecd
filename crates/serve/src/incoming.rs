//! A connection of another protocol than HTTP, as the server hands it to the service.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use crate::admission::Admitted;
use crate::connection_limits::ConnectionPermit;

/// A connection of another protocol, on a thread of its own.
#[derive(Debug)]
pub struct Incoming {
    /// The socket, in blocking mode. Nothing was read from it except by TLS.
    pub socket: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// The number of the connection, in the order in which they were accepted.
    pub number: u64,
    /// When the time for the first message ends.
    pub deadline: Instant,
    /// Its permit within the limit on connections, released when dropped.
    pub permit: ConnectionPermit,
    /// Its place among the connections that are served at once, released when dropped. Drop it as soon as the client is
    /// authenticated, so that only unknown clients count against the places.
    pub admitted: Admitted,
    /// The first bytes, which were peeked at. They are still in the socket.
    pub first: Vec<u8>,
    /// The TLS settings of the site, for a protocol that begins TLS itself.
    pub tls: Option<Arc<ServerConfig>>,
}

/// A connection of another protocol between two messages. It has no thread; its state, files and permits are its own.
pub trait Idle: AsFd + Send {
    /// The other end.
    fn peer(&self) -> SocketAddr;

    /// How long it is kept without a message.
    fn idle_for(&self) -> Duration;

    /// Whether bytes of the next message have been read already, so that the socket may not become readable.
    fn has_unread(&self) -> bool;

    /// Serves the next messages, on a thread of its own. Returns the connection when it is idle again, and none when it has ended.
    fn serve(self: Box<Self>) -> Option<Box<dyn Idle>>;
}

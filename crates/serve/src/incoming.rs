//! A connection that speaks another protocol than HTTP, as it is handed to whoever serves that.

use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::admission::Admitted;
use crate::connection_limits::ConnectionPermit;

/// A connection on a thread of its own.
#[derive(Debug)]
pub struct Incoming {
    /// The socket, blocking; nothing was taken from it but what TLS has read.
    pub socket: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// The number of the connection, in the order in which they were accepted.
    pub number: u64,
    /// By when the other end has to have said what the connection is for.
    pub deadline: Instant,
    /// Its place within the limit on connections, given back when dropped.
    pub permit: ConnectionPermit,
    /// Its place among the connections that are served at once, given back when dropped: as soon as it is known who it is, so that
    /// whoever has shown nothing yet holds such a place for a short time only.
    pub admitted: Admitted,
    /// Its first bytes, as far as they were looked at.
    pub first: Vec<u8>,
}

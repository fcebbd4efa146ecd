//! From a host's name to a connection.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use model::HostPort;

use crate::error::{Error, Result};
use crate::timeouts::Timeouts;

/// Connects to the first address of a host that answers, in the order of the resolver (RFC 6724).
pub fn dial(to: &HostPort, timeouts: &Timeouts) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (to.host.as_str(), to.port)
        .to_socket_addrs()
        .map_err(|source| Error::Resolve { host: to.host.clone(), source })?
        .collect();
    let mut last = std::io::Error::new(std::io::ErrorKind::AddrNotAvailable, "the name has no address");
    for address in addresses {
        match dial_address(address, timeouts) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(Error::Connect { to: to.to_string(), source: last })
}

/// Connects to one address, with the options that every connection of ours has.
pub fn dial_address(address: SocketAddr, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, timeouts.connect)?;
    sys::tcp::set_common(&socket, timeouts.pace.gone_after)?;
    Ok(socket)
}

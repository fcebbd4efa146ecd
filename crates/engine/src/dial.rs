//! From a host's name to a connection.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};

use model::{Fault, HostPort};
use wire::frame::Refusal;

use crate::error::{Error, Result};
use crate::timeouts::Timeouts;

/// Where a session's further connections come from.
pub trait Dial: Send + Sync {
    /// One more connection to the node.
    fn dial(&self, timeouts: &Timeouts) -> std::io::Result<TcpStream>;
}

impl Dial for SocketAddr {
    fn dial(&self, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
        dial_address(*self, timeouts)
    }
}

/// Looks at an address before it is dialled for somebody else: a sentence says why not.
pub type Guard = dyn Fn(IpAddr) -> std::result::Result<(), String> + Send + Sync;

/// Connects to the first address of a host that answers, in the order of the resolver (RFC 6724). On behalf of somebody
/// else all of them have to be where the guard lets us go, and those it saw are the ones that are dialled.
pub fn dial(to: &HostPort, timeouts: &Timeouts, guard: Option<&Guard>) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (to.host.as_str(), to.port)
        .to_socket_addrs()
        .map_err(|source| Error::Resolve { host: to.host.clone(), source })?
        .collect();
    let refused = guard.and_then(|guard| addresses.iter().find_map(|address| guard(address.ip()).err()));
    if let Some(why) = refused {
        let reason = format!("nothing is carried to {to} for others: {why}");
        return Err(Error::Refused { peer: "this node".into(), refusal: Refusal::new(Fault::Auth, reason) });
    }
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

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

/// Whether an address means this host, or its own link, whoever asks.
fn is_local(address: &SocketAddr) -> bool {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

/// Connects to the first address of a host that answers, in the order of the resolver (RFC 6724); on behalf of somebody
/// else (`stays_out`), to none that means this host.
pub fn dial(to: &HostPort, timeouts: &Timeouts, stays_out: bool) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (to.host.as_str(), to.port)
        .to_socket_addrs()
        .map_err(|source| Error::Resolve { host: to.host.clone(), source })?
        .collect();
    if stays_out && addresses.iter().any(is_local) {
        let reason = format!("{to} is a loopback or link-local address, to which this node carries nothing for others");
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

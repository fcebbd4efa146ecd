//! The route to a host: its hops, its parallel paths, its MTU, and changes between two traces.
//!
//! Probes are UDP datagrams of flows with fixed addresses and ports, so that routers that spread flows over several paths
//! treat all probes of a flow alike (Augustin et al., "Avoiding traceroute anomalies with Paris traceroute", 2006). Each probe
//! has a number in its payload, which routers quote in their ICMP errors; the kernel passes these to the sending socket
//! (`IP_RECVERR`), without privilege. A node at the far end answers by [`echo`]; any other host is reached when it reports a
//! closed port.
//!
//! The flow of data: tracer, volley, seeker (choose the next probe and evaluate answers: pure, in virtual time) -> drive
//! (sends and receives for several flows at once) -> flow (one socket). This module does not know who the far end is, how it was
//! asked to answer, or that it may probe in the other direction.

mod compare;
mod drive;
pub mod echo;
mod flow;
mod icmp;
pub mod mtu;
mod order;
#[cfg(test)]
mod simulated;
pub mod sweep;
pub mod trace;

use std::net::{IpAddr, SocketAddr, UdpSocket};

use model::v1::probe::route::{RouteOrder, Routes};

use crate::{Error, Result, Stop};

pub use compare::{asymmetries, compare};
pub use echo::Token;
pub use order::explore;

/// The first UDP port of traceroute's probes (RFC 1393 and every implementation since).
const TRACEROUTE_PORT: u16 = 33_434;

/// Explores the route to a host that is not a node, in forward direction only. `token` identifies this test's probes.
///
/// # Errors
/// Those of [`open`] and [`explore`].
pub fn one_way(to: IpAddr, order: &RouteOrder, token: &Token, stop: &Stop) -> Result<Routes> {
    let to = SocketAddr::new(to, TRACEROUTE_PORT);
    let from = SocketAddr::new(if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) }, 0);
    let sockets = (0..order.flows.max(1)).map(|_| open(from, to)).collect::<Result<Vec<_>>>()?;
    let forward = explore(&sockets, token, order, stop)?;
    Ok(Routes { forward, ..Routes::default() })
}

/// Opens a socket for one flow: bound to an address and port (unspecified, 0: the kernel chooses), and connected.
///
/// # Errors
/// [`Error::Host`]: the port is in use. [`Error::Connect`]: there is no route to `to`.
pub fn open(from: SocketAddr, to: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(from).map_err(|source| Error::Host { doing: "bind a socket for probes", source })?;
    socket.connect(to).map_err(|source| Error::Connect { to: to.to_string(), source })?;
    Ok(socket)
}

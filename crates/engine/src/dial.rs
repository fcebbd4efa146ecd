//! Connects to a host by its name or its addresses.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use model::{Fault, HostPort, Refusal};
use parking_lot::Mutex;
use wire::join::SessionId;

use crate::error::{Error, Result};
use crate::timeouts::Timeouts;

/// Makes the further connections of a session.
pub trait Dial: Send + Sync {
    /// Makes one more connection to the node.
    ///
    /// # Errors
    /// The node does not answer in time, or the connection is refused.
    fn dial(&self, timeouts: &Timeouts) -> std::io::Result<TcpStream>;
}

impl Dial for SocketAddr {
    fn dial(&self, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
        dial_address(*self, timeouts)
    }
}

/// A further address for streams of a session, beside that of its control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAddress {
    /// The address.
    pub at: SocketAddr,
    /// The delegated session that streams join at this address; none where they join the client's own.
    pub delegated_session: Option<SessionId>,
}

/// Checks an address before it is dialled on behalf of a client. The error is a sentence that says why it must not be dialled.
pub type Guard = dyn Fn(IpAddr) -> std::result::Result<(), String> + Send + Sync;

/// Further addresses that nodes have advertised. A client that connects again tries them too: the former path may be down. Clones
/// share the addresses.
#[derive(Clone, Debug, Default)]
pub struct AdvertisedAddresses(Arc<Mutex<HashMap<String, Vec<SocketAddr>>>>);

impl AdvertisedAddresses {
    /// Remembers the addresses that a node has advertised. An empty list changes nothing: the node may not have had time to advertise.
    pub fn note(&self, node: &str, at: &[SocketAddr]) {
        let mut known = self.0.lock();
        if !at.is_empty() && (known.len() < NODES_MAX || known.contains_key(node)) {
            known.insert(node.to_owned(), at.to_vec());
        }
    }

    /// Forgets the addresses of a node: another host answers at them.
    pub fn forget(&self, node: &str) {
        self.0.lock().remove(node);
    }

    fn of(&self, node: &str) -> Vec<SocketAddr> {
        self.0.lock().get(node).cloned().unwrap_or_default()
    }
}

/// Nodes whose addresses are remembered.
const NODES_MAX: usize = 1024;

/// Whether an address that a node advertises may be dialled, given the address at which the node was reached. A loopback or
/// link-local address is accepted only from a node that was reached at such an address itself.
pub(crate) fn may_dial_advertised(reached: IpAddr, advertised: IpAddr) -> bool {
    let link_local = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let reached = reached.to_canonical();
    let advertised = advertised.to_canonical();
    (!advertised.is_loopback() || reached.is_loopback()) && (!link_local(advertised) || link_local(reached))
}

/// How long an address is tried before the next one is tried in parallel (RFC 8305 says 250 ms; a handshake over the longest
/// path takes 300 ms).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(400);

/// Connects to a host by the first of its addresses that answers, in the order of the resolver (RFC 6724). Where the host has
/// advertised further addresses, all are tried in parallel. With a guard, every resolved address must pass it, and only addresses
/// that passed are dialled.
///
/// # Errors
/// The name does not resolve, the guard refuses an address, or no address answers.
pub fn dial(
    to: &HostPort,
    timeouts: &Timeouts,
    guard: Option<&Guard>,
    advertised_addresses: &AdvertisedAddresses,
) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (to.host.as_str(), to.port)
        .to_socket_addrs()
        .map_err(|source| Error::Resolve { host: to.host.clone(), source })?
        .collect();
    let refused = guard.and_then(|guard| addresses.iter().find_map(|address| guard(address.ip()).err()));
    if let Some(why) = refused {
        let reason = format!("this node makes no connection to {to} for a client: {why}");
        return Err(Error::Refused { peer: "this node".into(), refusal: Refusal::new(Fault::Auth, reason) });
    }
    let advertised = advertised_addresses.of(&to.to_string());
    let advertised: Vec<SocketAddr> = advertised
        .into_iter()
        .filter(|at| !addresses.contains(at) && addresses.iter().any(|own| may_dial_advertised(own.ip(), at.ip())))
        .filter(|at| guard.is_none_or(|guard| guard(at.ip()).is_ok()))
        .collect();
    if !advertised.is_empty() {
        let all = addresses.into_iter().chain(advertised).collect();
        return race(all, timeouts).map_err(|source| Error::Connect { to: to.to_string(), source });
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

/// Connects to the first address that answers. Each attempt begins [`NEXT_ADDRESS_AFTER`] after the one before; later answers are dropped.
fn race(addresses: Vec<SocketAddr>, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
    let (sender, answers) = channel();
    let is_connected = Arc::new(AtomicBool::new(false));
    for (at, address) in addresses.into_iter().enumerate() {
        let (sender, timeouts, is_connected) = (sender.clone(), *timeouts, Arc::clone(&is_connected));
        let run = move || {
            std::thread::sleep(NEXT_ADDRESS_AFTER * at as u32);
            if !is_connected.load(Ordering::Acquire) {
                let _ = sender.send(dial_address(address, &timeouts));
            }
        };
        // Without a thread this address is not tried.
        let _ = std::thread::Builder::new().name("dial".into()).spawn(run);
    }
    drop(sender);
    let mut last = std::io::ErrorKind::AddrNotAvailable.into();
    for answer in answers {
        match answer {
            Ok(socket) => {
                is_connected.store(true, Ordering::Release);
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to one address, and sets the socket options that all connections of Longhaul have.
///
/// # Errors
/// The address does not answer in time, or the socket options cannot be set.
pub fn dial_address(address: SocketAddr, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, timeouts.connect)?;
    sys::tcp::set_common(&socket, timeouts.pace.gone_after)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_link_local_addresses_are_accepted_only_from_near() {
        let near = |own: &str, named: &str| may_dial_advertised(own.parse().unwrap(), named.parse().unwrap());
        assert!(near("198.51.100.1", "192.0.2.7") && near("127.0.0.1", "127.0.0.2") && near("10.0.0.1", "2001:db8::7"));
        assert!(near("127.0.0.1", "192.0.2.7") && near("fe80::1", "fe80::2"));
        for named in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1"] {
            assert!(!near("198.51.100.1", named), "{named}");
        }
    }

    #[test]
    fn the_number_of_remembered_nodes_is_bounded() {
        let advertised_addresses = AdvertisedAddresses::default();
        let at = ["192.0.2.7:9".parse().unwrap()];
        (0..2 * NODES_MAX).for_each(|node| advertised_addresses.note(&node.to_string(), &at));
        assert_eq!((advertised_addresses.of("7"), advertised_addresses.of("2000")), (at.to_vec(), Vec::new()));
        advertised_addresses.note("7", &[]);
        assert_eq!(advertised_addresses.of("7"), at, "an empty list changes nothing");
        advertised_addresses.forget("7");
        assert_eq!(advertised_addresses.of("7"), Vec::new());
    }

    /// The first address does not answer, the advertised one does.
    #[test]
    fn the_first_address_that_answers_is_used() {
        let node = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let to = HostPort { host: "127.0.0.1".into(), port: gone.port() };
        let advertised_addresses = AdvertisedAddresses::default();
        let timeouts = Timeouts::default();
        assert!(dial(&to, &timeouts, None, &advertised_addresses).is_err());
        advertised_addresses.note(&to.to_string(), &[node.local_addr().unwrap()]);
        assert_eq!(
            dial(&to, &timeouts, None, &advertised_addresses).unwrap().peer_addr().unwrap(),
            node.local_addr().unwrap()
        );
        let no_loopback: Box<Guard> = Box::new(|ip| if ip.is_loopback() { Err("no".into()) } else { Ok(()) });
        assert!(matches!(dial(&to, &timeouts, Some(&*no_loopback), &advertised_addresses), Err(Error::Refused { .. })));
    }
}

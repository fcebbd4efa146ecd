//! From a host's name to a connection.

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

/// Where streams of a session may go besides the way of its control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The address.
    pub at: SocketAddr,
    /// A session of its own that they join there; none where it is the one they are of.
    pub lent: Option<SessionId>,
}

/// Looks at an address before it is dialled for somebody else: a sentence says why not.
pub type Guard = dyn Fn(IpAddr) -> std::result::Result<(), String> + Send + Sync;

/// Where nodes said that they can be reached as well, for who connects to them again: the path of before may be down. Clones
/// are the same.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere(Arc<Mutex<HashMap<String, Vec<SocketAddr>>>>);

impl Elsewhere {
    /// A node said so. One that said nothing may have had no time to.
    pub fn note(&self, node: &str, at: &[SocketAddr]) {
        let mut known = self.0.lock();
        if !at.is_empty() && (known.len() < NODES_MAX || known.contains_key(node)) {
            known.insert(node.to_owned(), at.to_vec());
        }
    }

    /// Somebody else is there.
    pub fn forget(&self, node: &str) {
        self.0.lock().remove(node);
    }

    fn of(&self, node: &str) -> Vec<SocketAddr> {
        self.0.lock().get(node).cloned().unwrap_or_default()
    }
}

/// Nodes whose addresses are remembered.
const NODES_MAX: usize = 1024;

/// Whether an address that a node names is of a kind with the one where it was reached: nobody is sent to this host itself, or to
/// what only the next wire knows, from farther away.
pub(crate) fn is_as_near(own: IpAddr, named: IpAddr) -> bool {
    let link_local = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let (own, named) = (own.to_canonical(), named.to_canonical());
    (!named.is_loopback() || own.is_loopback()) && (!link_local(named) || link_local(own))
}

/// How long an address is given before the next one is tried beside it (RFC 8305 says 250 ms; a handshake over the longest
/// path takes 300).
const BESIDE: Duration = Duration::from_millis(400);

/// Connects to the first address of a host that answers, in the order of the resolver (RFC 6724), and to those where it
/// said that it is as well, one beside the other. On behalf of somebody else all of them have to be where the guard lets us
/// go, and those it saw are the ones that are dialled.
pub fn dial(to: &HostPort, timeouts: &Timeouts, guard: Option<&Guard>, elsewhere: &Elsewhere) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (to.host.as_str(), to.port)
        .to_socket_addrs()
        .map_err(|source| Error::Resolve { host: to.host.clone(), source })?
        .collect();
    let refused = guard.and_then(|guard| addresses.iter().find_map(|address| guard(address.ip()).err()));
    if let Some(why) = refused {
        let reason = format!("nothing is carried to {to} for others: {why}");
        return Err(Error::Refused { peer: "this node".into(), refusal: Refusal::new(Fault::Auth, reason) });
    }
    let more = elsewhere.of(&to.to_string());
    let more: Vec<SocketAddr> = more
        .into_iter()
        .filter(|at| !addresses.contains(at) && addresses.iter().any(|own| is_as_near(own.ip(), at.ip())))
        .filter(|at| guard.is_none_or(|guard| guard(at.ip()).is_ok()))
        .collect();
    if !more.is_empty() {
        let all = addresses.into_iter().chain(more).collect();
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

/// The first of them that answers: each is begun a little later than the one before. What answers too late is dropped.
fn race(addresses: Vec<SocketAddr>, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
    let (sender, answers) = channel();
    let over = Arc::new(AtomicBool::new(false));
    for (at, address) in addresses.into_iter().enumerate() {
        let (sender, timeouts, over) = (sender.clone(), *timeouts, Arc::clone(&over));
        let run = move || {
            std::thread::sleep(BESIDE * at as u32);
            if !over.load(Ordering::Acquire) {
                let _ = sender.send(dial_address(address, &timeouts));
            }
        };
        // Without a thread for it this one is not tried.
        let _ = std::thread::Builder::new().name("dial".into()).spawn(run);
    }
    drop(sender);
    let mut last = std::io::ErrorKind::AddrNotAvailable.into();
    for answer in answers {
        match answer {
            Ok(socket) => {
                over.store(true, Ordering::Release);
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to one address, with the options that every connection of ours has.
pub fn dial_address(address: SocketAddr, timeouts: &Timeouts) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, timeouts.connect)?;
    sys::tcp::set_common(&socket, timeouts.pace.gone_after)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_himself() {
        let near = |own: &str, named: &str| is_as_near(own.parse().unwrap(), named.parse().unwrap());
        assert!(near("198.51.100.1", "192.0.2.7") && near("127.0.0.1", "127.0.0.2") && near("10.0.0.1", "2001:db8::7"));
        assert!(near("127.0.0.1", "192.0.2.7") && near("fe80::1", "fe80::2"));
        for named in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1"] {
            assert!(!near("198.51.100.1", named), "{named}");
        }
    }

    #[test]
    fn what_is_known_of_nodes_has_an_end() {
        let (elsewhere, at) = (Elsewhere::default(), ["192.0.2.7:9".parse().unwrap()]);
        (0..2 * NODES_MAX).for_each(|node| elsewhere.note(&node.to_string(), &at));
        assert_eq!((elsewhere.of("7"), elsewhere.of("2000")), (at.to_vec(), Vec::new()));
        elsewhere.note("7", &[]);
        assert_eq!(elsewhere.of("7"), at, "it may have had no time to say so");
        elsewhere.forget("7");
        assert_eq!(elsewhere.of("7"), Vec::new());
    }

    /// Where nobody answers at one address, the other one counts.
    #[test]
    fn the_first_that_answers_counts() {
        let node = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (to, elsewhere) = (HostPort { host: "127.0.0.1".into(), port: gone.port() }, Elsewhere::default());
        let timeouts = Timeouts::default();
        assert!(dial(&to, &timeouts, None, &elsewhere).is_err());
        elsewhere.note(&to.to_string(), &[node.local_addr().unwrap()]);
        assert_eq!(dial(&to, &timeouts, None, &elsewhere).unwrap().peer_addr().unwrap(), node.local_addr().unwrap());
        let nobody: Box<Guard> = Box::new(|ip| if ip.is_loopback() { Err("no".into()) } else { Ok(()) });
        assert!(matches!(dial(&to, &timeouts, Some(&*nobody), &elsewhere), Err(Error::Refused { .. })));
    }
}

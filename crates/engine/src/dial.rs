//! From a host's name to a connection.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// Where nodes said that they can be reached as well, for who connects to them again: the path of before may be down. Clones
/// are the same.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere(Arc<Mutex<HashMap<String, Vec<SocketAddr>>>>);

impl Elsewhere {
    /// A node said so.
    pub fn note(&self, node: &str, at: &[SocketAddr]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_empty() {
            known.remove(node);
        } else {
            known.insert(node.to_owned(), at.to_vec());
        }
    }

    fn of(&self, node: &str) -> Vec<SocketAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).cloned().unwrap_or_default()
    }
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
        .filter(|at| !addresses.contains(at) && guard.is_none_or(|guard| guard(at.ip()).is_ok()))
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
    for (at, address) in addresses.into_iter().enumerate() {
        let (sender, timeouts) = (sender.clone(), *timeouts);
        let run = move || {
            std::thread::sleep(BESIDE * at as u32);
            let _ = sender.send(dial_address(address, &timeouts));
        };
        std::thread::Builder::new().name("dial".into()).spawn(run)?;
    }
    drop(sender);
    let mut last = std::io::ErrorKind::AddrNotAvailable.into();
    for answer in answers {
        match answer {
            Ok(socket) => return Ok(socket),
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

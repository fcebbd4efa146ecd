//! The reflector's end: one control connection. The caller's reflector answers the packets of its sessions.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use super::message::{self, Accept, REQUEST, Request, SET_UP, SHORT, UNAUTHENTICATED};
use crate::stamp::packet::Timestamp;
use crate::stamp::{Clock, HostClock};
use crate::{Error, Result, Stop};

/// Bounds on the sessions of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most sessions of one connection.
    pub sessions: usize,
    /// A connection that is silent for this long is closed (`SERVWAIT`, RFC 5357, section 3.1).
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { sessions: 16, idle: Duration::from_secs(900) }
    }
}

/// A running session, whose packets are answered until this is dropped.
pub trait TestSession {}

/// The longest read before the stop is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Serves one control connection until it is closed; returns the number of sessions. `begin` is called with the address of each
/// sender whose packets are to be answered, and returns the running session; none if there is no room. Packets are answered at
/// `port`.
///
/// # Errors
/// [`Error::Broken`]: the connection broke. [`Error::Protocol`]: the tester violates the protocol.
pub fn serve(
    mut control: TcpStream,
    port: u16,
    bounds: Bounds,
    stop: &Stop,
    begin: &dyn Fn(SocketAddr) -> Option<Box<dyn TestSession>>,
) -> Result<u32> {
    let peer = control.peer_addr().map_err(|source| Error::Host { doing: "find out who connected", source })?;
    let broken = |source| Error::Broken { peer: peer.to_string(), source };
    let wrong = |what: &str| Error::Protocol { peer: peer.to_string(), protocol: "TWAMP", what: what.into() };
    control.set_read_timeout(Some(CHECK_INTERVAL)).map_err(broken)?;
    control.set_write_timeout(Some(Duration::from_secs(10))).map_err(broken)?;
    control.write_all(&message::greeting(UNAUTHENTICATED)).map_err(broken)?;
    let mut set_up = [0; SET_UP];
    if !read(&mut control, &mut set_up, &bounds, stop).map_err(broken)? {
        return Ok(0);
    }
    if message::mode(&set_up) != UNAUTHENTICATED {
        control.write_all(&message::server_start(Accept::NotSupported, 0)).map_err(broken)?;
        return Err(wrong("it chooses a mode that was not offered"));
    }
    let now = Timestamp::of(HostClock.read().real_ns);
    control.write_all(&message::server_start(Accept::Ok, now.0)).map_err(broken)?;
    let mut senders: Vec<SocketAddr> = Vec::new();
    let mut running: Vec<Box<dyn TestSession>> = Vec::new();
    let mut begun = 0;
    loop {
        let mut short = [0; SHORT];
        if !read(&mut control, &mut short, &bounds, stop).map_err(broken)? {
            return Ok(begun);
        }
        match short[0] {
            message::REQUEST_TW_SESSION => {
                let mut octets = [0; REQUEST];
                octets[..SHORT].copy_from_slice(&short);
                if !read(&mut control, &mut octets[SHORT..], &bounds, stop).map_err(broken)? {
                    return Ok(begun);
                }
                let answer = request(&octets, peer, senders.len() + running.len(), &bounds, &mut senders);
                let port = if answer == Accept::Ok { port } else { 0 };
                let sid = session_id(peer, now, port);
                control.write_all(&message::accept_session(answer, port, sid)).map_err(broken)?;
            }
            message::START_SESSIONS => {
                let started: Vec<_> = senders.drain(..).map(begin).collect();
                let is_full = started.iter().any(Option::is_none);
                begun += started.len() as u32;
                running.extend(started.into_iter().flatten());
                let answer = if is_full { Accept::TemporaryLimit } else { Accept::Ok };
                control.write_all(&message::short(answer as u8)).map_err(broken)?;
            }
            message::STOP_SESSIONS => running.clear(),
            _ => return Err(wrong("it sends a command that is not one of TWAMP's")),
        }
    }
}

/// Checks a request. Only packets of the requesting host are answered, so that a tester cannot have a third host flooded.
fn request(
    octets: &[u8; REQUEST],
    peer: SocketAddr,
    sessions: usize,
    bounds: &Bounds,
    senders: &mut Vec<SocketAddr>,
) -> Accept {
    let Some(request) = Request::read(octets) else { return Accept::NotSupported };
    let (address, port) = request.sender;
    if port == 0 || !address.is_unspecified() && !is_same(address, peer.ip()) {
        return Accept::Failure;
    }
    if sessions >= bounds.sessions {
        return Accept::TemporaryLimit;
    }
    senders.push(SocketAddr::new(peer.ip(), port));
    Accept::Ok
}

fn is_same(a: IpAddr, b: IpAddr) -> bool {
    a.to_canonical() == b.to_canonical()
}

/// A session id of port, time and random octets, in the way of RFC 4656, section 3.5.
fn session_id(peer: SocketAddr, now: Timestamp, port: u16) -> [u8; 16] {
    let mut sid = [0; 16];
    // Without random numbers, the time still makes the id unique.
    let _ = getrandom(&mut sid[12..], GetRandomFlags::empty());
    sid[..2].copy_from_slice(&port.to_be_bytes());
    sid[2..4].copy_from_slice(&peer.port().to_be_bytes());
    sid[4..12].copy_from_slice(&now.0.to_be_bytes());
    sid
}

/// Fills `octets`; returns `false` if the other end is gone or silent for too long, or at a stop.
fn read(control: &mut TcpStream, octets: &mut [u8], bounds: &Bounds, stop: &Stop) -> io::Result<bool> {
    let mut filled = 0;
    let since = Instant::now();
    while filled < octets.len() {
        match control.read(&mut octets[filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if stop.is_stopped() || since.elapsed() >= bounds.idle {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

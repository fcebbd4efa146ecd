//! The streams of a test: each is waited for, given the settings that were asked for, and set going.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::super::control::{Control, PATIENCE, State};
use super::super::datagrams::{self, HEADER_MAX, Pace, WELCOME, is_hello};
use super::super::message::Params;
use super::super::stream_id;
use super::running::Running;
use super::seats::{Seated, Seats};
use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::tcp::stream::{Flow, Manner, Team};

/// How long a test waits until those of its address before it have their datagrams.
const TURN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// Datagrams that a socket can have queued while it was not yet its peer's alone.
const QUEUED_MAX: usize = 16 << 10;

/// Asks the client for its streams, and sets them going.
pub(super) fn gather(control: &mut Control, params: &Params, seated: &Seated, stop: &Stop) -> Result<Running> {
    let running = match params.udp {
        true => gather_datagrams(control, params, seated, stop).map(Running::Datagrams),
        false => gather_streams(control, params, seated, stop).map(Running::Streams),
    };
    seated.has_gathered();
    running
}

/// A test's streams in the order in which the client opened them: its sending ones first.
fn roles(params: &Params) -> Vec<(u32, bool)> {
    let count = params.parallel * if params.both { 2 } else { 1 };
    let sends = |at: u32| if params.both { at >= params.parallel } else { params.reverse };
    (0..count).map(|at| (stream_id(at), sends(at))).collect()
}

/// Why a wait is over before its time, if it is.
fn given_up(control: &Control, stop: &Stop) -> Option<Error> {
    if stop.is_stopped() {
        return Some(Error::Interrupted);
    }
    let closed = || Error::Broken { peer: control.peer().to_owned(), source: std::io::ErrorKind::UnexpectedEof.into() };
    sys::tcp::is_closed_by_peer(control.socket()).then(closed)
}

fn wait<T>(arrivals: &Receiver<T>, deadline: Instant, stop: &Stop, control: &Control) -> Result<T> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match arrivals.recv_timeout(left.min(Duration::from_millis(100))) {
            Ok(arrival) => return Ok(arrival),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(error) = given_up(control, stop) {
            return Err(error);
        }
        if left.is_zero() {
            return Err(Error::Silent { peer: control.peer().to_owned(), seconds: PATIENCE.as_secs() });
        }
    }
}

fn gather_streams(control: &mut Control, params: &Params, seated: &Seated, stop: &Stop) -> Result<Team> {
    let roles = roles(params);
    let streams = seated.await_streams(roles.len());
    control.say(State::CreateStreams)?;
    let (mut sockets, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while sockets.len() < roles.len() {
        sockets.push(wait(&streams, deadline, stop, control)?);
    }
    // Numbers are given in the order of the client's connections, and first bytes may be read in any order.
    sockets.sort_by_key(|(accepted, _)| *accepted);
    let mut flows = Vec::new();
    for ((id, sends), (_, socket)) in roles.into_iter().zip(sockets) {
        settle_stream(&socket, params, sends);
        // No end even where bytes were agreed on: the client ends the test once it has them, and of what one stream
        // brings less of, or loses, another must send more.
        flows.push(Flow { id, up: !sends, sends, socket, quota: u64::MAX });
    }
    let block_bytes = if params.block_bytes == 0 { 128 << 10 } else { params.block_bytes as usize };
    Team::start(flows, Manner { block_bytes, cores: &[], lasts: crate::tcp::LASTS_MAX, shuts: false })
}

/// What a host does not take is left as it is: stock's clients ask for what their own host has.
fn settle_stream(socket: &TcpStream, params: &Params, sends: bool) {
    let reference = SockRef::from(socket);
    let _ = reference.set_tcp_nodelay(true);
    if let Ok(peer) = socket.peer_addr() {
        classify(&reference, peer.ip(), params.tos);
    }
    if params.window_bytes > 0 {
        let bytes = params.window_bytes as usize;
        let _ = reference.set_recv_buffer_size(bytes).and_then(|()| reference.set_send_buffer_size(bytes));
    }
    if let Some(name) = params.congestion.as_ref().filter(|_| sends) {
        let _ = sys::tcp::set_congestion(socket, name);
    }
    if sends {
        // The kernel paces a stream that has a target.
        let rate = [params.pacing_bit_s, params.rate_bit_s].into_iter().filter(|rate| *rate > 0).min();
        if let Some(rate) = rate {
            let _ = sys::tcp::set_pacing(socket, (rate / 8).max(1));
        }
    }
}

/// The type of service that the client wants, of all that is sent to it, acknowledgements among that, as stock does. A
/// peer of IPv4 may be known by an address of IPv6.
fn classify(socket: &SockRef<'_>, peer: IpAddr, tos: u32) {
    if tos > 0 {
        let _ = match peer.to_canonical().is_ipv4() {
            true => socket.set_tos_v4(tos),
            false => socket.set_tclass_v6(tos),
        };
    }
}

/// Waits until it is this test's turn among those of its address.
fn turn(control: &Control, count: usize, seated: &Seated, stop: &Stop) -> Result<Receiver<SocketAddr>> {
    let from = Instant::now();
    loop {
        if let Some(hellos) = seated.await_datagrams(count, from.elapsed() >= TURN) {
            return Ok(hellos);
        }
        if let Some(error) = given_up(control, stop) {
            return Err(error);
        }
        std::thread::sleep(LOOK);
    }
}

fn gather_datagrams(control: &mut Control, params: &Params, seated: &Seated, stop: &Stop) -> Result<datagrams::Team> {
    let host = |doing| move |source| Error::Host { doing, source };
    let local = control.socket().local_addr().map_err(host("read a socket's address"))?;
    let roles = roles(params);
    let hellos = turn(control, roles.len(), seated, stop)?;
    control.say(State::CreateStreams)?;
    let deadline = Instant::now() + PATIENCE;
    let mut streams: Vec<(SocketAddr, datagrams::Stream)> = Vec::new();
    for (id, sends) in roles {
        let from = loop {
            let from = wait(&hellos, deadline, stop, control)?;
            match streams.iter().find(|(known, _)| *known == from) {
                // Asked again: the answer was lost.
                Some((_, known)) => drop(known.socket.send(&WELCOME)),
                None => break from,
            }
        };
        let socket = crate::flow::beside(local, from).map_err(host("make a socket for datagrams"))?;
        drain(&socket, from, seated.seats()).map_err(host("set up a socket"))?;
        classify(&SockRef::from(&socket), from.ip(), params.tos);
        socket.send(&WELCOME).map_err(host("send a datagram"))?;
        streams.push((from, datagrams::Stream { id, sends, socket }));
    }
    let bytes = if params.block_bytes == 0 { 1460 } else { params.block_bytes as usize };
    let pace = Pace { bytes: bytes.max(HEADER_MAX), rate_bit_s: params.rate_bit_s, wide: params.wide_numbers };
    datagrams::Team::start(streams.into_iter().map(|(_, stream)| stream).collect(), pace)
}

/// Takes out what came between the moment when the socket had its port and that when it had its peer: it is of anybody.
/// The peer's own data cannot be there yet, for it waits to be welcome; somebody else's hello goes where it belongs.
fn drain(socket: &UdpSocket, peer: SocketAddr, seats: &Seats) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut datagram = [0; 64];
    for _ in 0..QUEUED_MAX {
        match socket.recv_from(&mut datagram) {
            Ok((got, from)) if from != peer && is_hello(&datagram[..got]) => drop(seats.hello(from)),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    socket.set_nonblocking(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_left_in_a_socket_is_not_the_peers() {
        let [socket, peer, stranger] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let at = socket.local_addr().unwrap();
        stranger.send_to(&[7; 1_000], at).unwrap();
        stranger.send_to(b"9876", at).unwrap();
        let from = peer.local_addr().unwrap();
        socket.connect(from).unwrap();
        let seats = Seats::default();
        let another = seats.sit(super::super::Cookie::random(), at.ip(), &super::super::Bounds::default()).unwrap();
        let hellos = another.await_datagrams(1, false).unwrap();
        drain(&socket, from, &seats).unwrap();
        assert_eq!(hellos.try_recv().unwrap(), stranger.local_addr().unwrap());
        peer.send_to(b"own", at).unwrap();
        assert_eq!(socket.recv(&mut [0; 2_000]).unwrap(), 3);
    }

    #[test]
    fn the_type_of_service_is_taken() {
        let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
        classify(&SockRef::from(&v4), "127.0.0.1".parse().unwrap(), 0xb8);
        assert_eq!(SockRef::from(&v4).tos_v4().unwrap(), 0xb8);
        // A host may be without IPv6.
        if let Ok(v6) = UdpSocket::bind("[::]:0") {
            classify(&SockRef::from(&v6), "::1".parse().unwrap(), 0x28);
            assert_eq!(SockRef::from(&v6).tclass_v6().unwrap(), 0x28);
            classify(&SockRef::from(&v6), "::ffff:192.0.2.1".parse().unwrap(), 0x48);
            assert_eq!(SockRef::from(&v6).tos_v4().unwrap(), 0x48);
        }
    }
}

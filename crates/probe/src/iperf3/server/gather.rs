//! Gathers the streams of a test, gives them the settings of its parameters, and starts them.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::super::control::{Control, MESSAGE_TIMEOUT, State};
use super::super::datagrams::{self, HEADER_MAX, Pace, WELCOME, is_hello};
use super::super::message::Params;
use super::super::stream_id;
use super::registry::{TestRegistry, TestSlot};
use super::running::Running;
use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::tcp::stream::{StreamPool, StreamSettings, TestStream};

/// The longest that a test waits for earlier tests of its address to gather their UDP streams.
const TURN_MAX: Duration = Duration::from_secs(3);
/// Time between checks whether it is a test's turn.
const TURN_INTERVAL: Duration = Duration::from_millis(5);
/// Datagrams that a socket can have queued before it was connected to its peer.
const QUEUED_MAX: usize = 16 << 10;

/// Asks the client for its streams, and starts them.
pub(super) fn gather(control: &mut Control, params: &Params, slot: &TestSlot, stop: &Stop) -> Result<Running> {
    let running = if params.udp {
        gather_datagrams(control, params, slot, stop).map(Running::Datagrams)
    } else {
        gather_streams(control, params, slot, stop).map(Running::Streams)
    };
    slot.stop_waiting();
    running
}

/// A test's streams in the order in which the client opened them: its sending ones first.
fn roles(params: &Params) -> Vec<(u32, bool)> {
    let count = params.parallel * if params.both { 2 } else { 1 };
    let sends = |at: u32| if params.both { at >= params.parallel } else { params.reverse };
    (0..count).map(|at| (stream_id(at), sends(at))).collect()
}

/// The reason to end a wait early, if there is one.
fn why_end_waiting(control: &Control, stop: &Stop) -> Option<Error> {
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
        if let Some(error) = why_end_waiting(control, stop) {
            return Err(error);
        }
        if left.is_zero() {
            return Err(Error::Silent { peer: control.peer().to_owned(), seconds: MESSAGE_TIMEOUT.as_secs() });
        }
    }
}

fn gather_streams(control: &mut Control, params: &Params, slot: &TestSlot, stop: &Stop) -> Result<StreamPool> {
    let roles = roles(params);
    let streams = slot.await_streams(roles.len());
    control.send_state(State::CreateStreams)?;
    let mut sockets = Vec::new();
    let deadline = Instant::now() + MESSAGE_TIMEOUT;
    while sockets.len() < roles.len() {
        sockets.push(wait(&streams, deadline, stop, control)?);
    }
    // Numbers are given in the order of the client's connections, and first bytes may be read in any order.
    sockets.sort_by_key(|(accepted, _)| *accepted);
    let mut flows = Vec::new();
    for ((id, sends), (_, socket)) in roles.into_iter().zip(sockets) {
        apply_settings(&socket, params, sends);
        // There is no quota even where the parameters give bytes: the client ends the test once it has them all, and a faster
        // stream must make up for a slower one.
        flows.push(TestStream { id, is_forward: !sends, sends, socket, quota: u64::MAX });
    }
    let block_bytes = if params.block_bytes == 0 { 128 << 10 } else { params.block_bytes as usize };
    StreamPool::start(flows, StreamSettings { block_bytes, cores: &[], lasts: crate::tcp::LASTS_MAX, shuts: false })
}

/// Applies the client's settings. A setting that this host refuses is skipped: a stock client sends the settings of its own host.
fn apply_settings(socket: &TcpStream, params: &Params, sends: bool) {
    let reference = SockRef::from(socket);
    let _ = reference.set_tcp_nodelay(true);
    if let Ok(peer) = socket.peer_addr() {
        set_service_type(&reference, peer.ip(), params.tos);
    }
    if params.window_bytes > 0 {
        let bytes = params.window_bytes as usize;
        let _ = reference.set_recv_buffer_size(bytes).and_then(|()| reference.set_send_buffer_size(bytes));
    }
    if let Some(name) = params.congestion.as_ref().filter(|_| sends) {
        let _ = sys::tcp::set_congestion(socket, name);
    }
    if sends {
        // The kernel's pacing keeps a target rate.
        let rate = [params.pacing_bit_s, params.rate_bit_s].into_iter().filter(|rate| *rate > 0).min();
        if let Some(rate) = rate {
            let _ = sys::tcp::set_pacing(socket, (rate / 8).max(1));
        }
    }
}

/// Sets the client's type of service for all packets to it, acknowledgements included, as stock does. An IPv4 peer may have an
/// IPv4-mapped address.
fn set_service_type(socket: &SockRef<'_>, peer: IpAddr, tos: u32) {
    if tos > 0 {
        let _ = if peer.to_canonical().is_ipv4() { socket.set_tos_v4(tos) } else { socket.set_tclass_v6(tos) };
    }
}

/// Waits until it is this test's turn among those of its address.
fn wait_for_turn(control: &Control, count: usize, slot: &TestSlot, stop: &Stop) -> Result<Receiver<SocketAddr>> {
    let from = Instant::now();
    loop {
        if let Some(hellos) = slot.await_datagrams(count, from.elapsed() >= TURN_MAX) {
            return Ok(hellos);
        }
        if let Some(error) = why_end_waiting(control, stop) {
            return Err(error);
        }
        std::thread::sleep(TURN_INTERVAL);
    }
}

fn gather_datagrams(
    control: &mut Control,
    params: &Params,
    slot: &TestSlot,
    stop: &Stop,
) -> Result<datagrams::DatagramPool> {
    let host = |doing| move |source| Error::Host { doing, source };
    let local = control.socket().local_addr().map_err(host("read a socket's address"))?;
    let roles = roles(params);
    let hellos = wait_for_turn(control, roles.len(), slot, stop)?;
    control.send_state(State::CreateStreams)?;
    let deadline = Instant::now() + MESSAGE_TIMEOUT;
    let mut streams: Vec<(SocketAddr, datagrams::Stream)> = Vec::new();
    for (id, sends) in roles {
        let from = loop {
            let from = wait(&hellos, deadline, stop, control)?;
            match streams.iter().find(|(known, _)| *known == from) {
                // A repeated hello: the answer was lost.
                Some((_, known)) => drop(known.socket.send(&WELCOME)),
                None => break from,
            }
        };
        let socket = crate::flow::flow_socket(local, from).map_err(host("make a socket for datagrams"))?;
        drain(&socket, from, slot.registry()).map_err(host("set up a socket"))?;
        set_service_type(&SockRef::from(&socket), from.ip(), params.tos);
        socket.send(&WELCOME).map_err(host("send a datagram"))?;
        streams.push((from, datagrams::Stream { id, sends, socket }));
    }
    let bytes = if params.block_bytes == 0 { 1460 } else { params.block_bytes as usize };
    let pace = Pace { bytes: bytes.max(HEADER_MAX), rate_bit_s: params.rate_bit_s, wide: params.wide_numbers };
    datagrams::DatagramPool::start(streams.into_iter().map(|(_, stream)| stream).collect(), pace)
}

/// Removes the datagrams that arrived after the socket was bound and before it was connected: they may be from any sender.
/// The peer's own data cannot be among them, as the peer waits for the answer to its hello. Hellos of other senders go to
/// their tests.
fn drain(socket: &UdpSocket, peer: SocketAddr, registry: &TestRegistry) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut datagram = [0; 64];
    for _ in 0..QUEUED_MAX {
        match socket.recv_from(&mut datagram) {
            Ok((got, from)) if from != peer && is_hello(&datagram[..got]) => drop(registry.assign_hello(from)),
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
    fn datagrams_of_other_senders_are_removed_from_a_new_socket() {
        let [socket, peer, stranger] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let at = socket.local_addr().unwrap();
        stranger.send_to(&[7; 1_000], at).unwrap();
        stranger.send_to(b"9876", at).unwrap();
        let from = peer.local_addr().unwrap();
        socket.connect(from).unwrap();
        let registry = TestRegistry::default();
        let cookie = super::super::Cookie::random();
        let another = registry.admit(cookie, at.ip(), &super::super::Bounds::default()).unwrap();
        let hellos = another.await_datagrams(1, false).unwrap();
        drain(&socket, from, &registry).unwrap();
        assert_eq!(hellos.try_recv().unwrap(), stranger.local_addr().unwrap());
        peer.send_to(b"own", at).unwrap();
        assert_eq!(socket.recv(&mut [0; 2_000]).unwrap(), 3);
    }

    #[test]
    fn the_type_of_service_is_set() {
        let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_service_type(&SockRef::from(&v4), "127.0.0.1".parse().unwrap(), 0xb8);
        assert_eq!(SockRef::from(&v4).tos_v4().unwrap(), 0xb8);
        // The host may have no IPv6.
        if let Ok(v6) = UdpSocket::bind("[::]:0") {
            set_service_type(&SockRef::from(&v6), "::1".parse().unwrap(), 0x28);
            assert_eq!(SockRef::from(&v6).tclass_v6().unwrap(), 0x28);
            set_service_type(&SockRef::from(&v6), "::ffff:192.0.2.1".parse().unwrap(), 0x48);
            assert_eq!(SockRef::from(&v6).tos_v4().unwrap(), 0x48);
        }
    }
}

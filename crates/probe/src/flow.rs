//! Flows of datagrams between a command and a node, over the node's one port: how they begin and end.
//!
//! A test has a token of 16 random bytes, which the node receives over a session. A flow begins with a hello of 29 bytes
//! from the near end. The node connects a new socket to the sender's address, and answers with the same 29 bytes: from then
//! on the kernel tells flows apart. A message of the same form from the near end ends the test.
//!
//! ```text
//! "LHF1"  token (16)  kind (1: hello, 2: over, 3: go)  number (8, big-endian: the flow's, or how many datagrams were sent)
//! ```
//!
//! The node answers no stranger: a hello counts only with the token of a test, and from the address of its session.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::stop::Stop;

/// Identifies a test.
pub type Token = [u8; 16];

const MAGIC: &[u8; 4] = b"LHF1";
const HELLO: u8 = 1;
const OVER: u8 = 2;
const GO: u8 = 3;
/// Length of a message.
pub const MESSAGE_BYTES: usize = 29;

/// Time between repeats of a hello, and the most hellos of a flow.
const HELLO_INTERVAL: Duration = Duration::from_millis(400);
const HELLOS_MAX: u32 = 12;
/// The longest that a node waits for the next flow of a test.
const GATHER_TIMEOUT: Duration = Duration::from_secs(10);
/// Most signals of a test that wait to be read. Further ones are dropped: they are repeats, or a flood.
const SIGNALS_MAX: usize = 512;
/// Flows of a test.
pub const FLOWS_MAX: u32 = 64;

/// A message of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    token: Token,
    kind: u8,
    number: u64,
}

impl Message {
    fn write(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..20].copy_from_slice(&self.token);
        bytes[20] = self.kind;
        bytes[21..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (token, rest) = rest.split_first_chunk::<16>()?;
        let (kind, number) = rest.split_first()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        (magic == MAGIC).then_some(Message { token: *token, kind: *kind, number })
    }
}

/// Whether a datagram is a message of a flow. Repeated messages may arrive late; they are not data of the test.
pub(crate) fn is_message(datagram: &[u8]) -> bool {
    Message::read(datagram).is_some()
}

fn host(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Host { doing, source }
}

/// Opens all flows at the near end: returns their sockets, connected and known to the node. All send their hellos at once,
/// so that many flows take no longer than one. `is_ready` returns whether the node has all flows, even if its answers were lost.
///
/// # Errors
/// [`Error::Connect`]: the node does not answer, most likely because a firewall drops UDP. [`Error::Interrupted`]: stopped.
/// [`Error::Host`]: a socket cannot be made.
pub fn open(
    to: SocketAddr,
    token: &Token,
    count: u32,
    stop: &Stop,
    is_ready: &dyn Fn() -> bool,
) -> Result<Vec<UdpSocket>> {
    let socket = || -> Result<UdpSocket> {
        let from: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(from).map_err(host("make a socket for datagrams"))?;
        socket.connect(to).map_err(|source| Error::Connect { to: to.to_string(), source })?;
        socket.set_nonblocking(true).map_err(host("set up a socket"))?;
        Ok(socket)
    };
    let sockets = (0..count).map(|_| socket()).collect::<Result<Vec<_>>>()?;
    let hello = |number: usize| Message { token: *token, kind: HELLO, number: number as u64 }.write();
    let mut open = vec![false; sockets.len()];
    for _ in 0..HELLOS_MAX {
        for (number, socket) in sockets.iter().enumerate().filter(|(number, _)| !open[*number]) {
            // This call may return the ICMP error of an earlier hello.
            let _ = socket.send(&hello(number));
        }
        let until = Instant::now() + HELLO_INTERVAL;
        while Instant::now() < until {
            if stop.is_stopped() {
                return Err(Error::Interrupted);
            }
            for (number, socket) in sockets.iter().enumerate() {
                let mut answer = [0; 1500];
                open[number] |= socket.recv(&mut answer).is_ok_and(|got| answer[..got] == hello(number));
            }
            if is_ready() || open.iter().all(|open| *open) {
                let blocking = sockets.iter().try_for_each(|socket| socket.set_nonblocking(false));
                return blocking.map(|()| sockets).map_err(host("set up a socket"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let why =
        "its UDP port does not answer: do firewalls permit UDP on the same port number as TCP, in both directions?";
    Err(Error::Connect { to: to.to_string(), source: io::Error::new(io::ErrorKind::TimedOut, why) })
}

/// Tells the node that the test is over, and how many datagrams were sent. The message is sent three times, as it is not answered.
pub fn close(to: SocketAddr, token: &Token, sent: u64) {
    let from: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let Ok(socket) = UdpSocket::bind(from) else { return };
    for _ in 0..3 {
        let _ = socket.send_to(&Message { token: *token, kind: OVER, number: sent }.write(), to);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Tells the other end of a flow that this one is ready to receive. The message is sent three times, as it is not answered.
pub fn announce_ready(flow: &UdpSocket, token: &Token) {
    for _ in 0..3 {
        let _ = flow.send(&Message { token: *token, kind: GO, number: 0 }.write());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the other end of a flow is ready to receive.
///
/// # Errors
/// [`Error::Silent`]: no message within 10 s. [`Error::Interrupted`]: stopped. [`Error::Host`]: the socket fails.
pub fn wait_until_ready(flow: &UdpSocket, token: &Token, stop: &Stop) -> Result<()> {
    let go = Message { token: *token, kind: GO, number: 0 }.write();
    flow.set_read_timeout(Some(Duration::from_millis(100))).map_err(host("set up a socket"))?;
    let deadline = Instant::now() + GATHER_TIMEOUT;
    let mut datagram = [0; 1500];
    while Instant::now() < deadline {
        if stop.is_stopped() {
            return Err(Error::Interrupted);
        }
        if flow.recv(&mut datagram).is_ok_and(|got| datagram[..got] == go) {
            return flow.set_read_timeout(None).map_err(host("set up a socket"));
        }
    }
    Err(Error::Silent { peer: "the near end".into(), seconds: GATHER_TIMEOUT.as_secs() })
}

/// A message to a test of a node.
enum FlowSignal {
    /// A flow begins: its number, and the address of its near end.
    Hello(u32, SocketAddr),
    /// The test is over: datagrams that were sent.
    Over(u64),
}

/// A test that takes messages.
struct WaitingTest {
    address: IpAddr,
    signals: SyncSender<FlowSignal>,
}

/// The tests of a node that wait for flows. Clones share one table.
#[derive(Clone, Default)]
pub struct Flows(Arc<Mutex<HashMap<Token, WaitingTest>>>);

impl std::fmt::Debug for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Flows").field(&self.waiting().len()).finish()
    }
}

/// A test of a node, registered under its token until it is dropped.
#[derive(Debug)]
pub struct Test {
    flows: Flows,
    token: Token,
    signals: Receiver<FlowSignal>,
    over: Option<u64>,
}

impl std::fmt::Debug for FlowSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FlowSignal::Hello(number, from) => write!(f, "Hello({number}, {from})"),
            FlowSignal::Over(sent) => write!(f, "Over({sent})"),
        }
    }
}

impl Flows {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Token, WaitingTest>> {
        self.0.lock()
    }

    /// Registers a test for a session from `address`; none if the token is in use.
    pub fn begin(&self, token: Token, address: IpAddr) -> Option<Test> {
        let (sender, signals) = sync_channel(SIGNALS_MAX);
        let mut waiting = self.waiting();
        if waiting.contains_key(&token) {
            return None;
        }
        waiting.insert(token, WaitingTest { address: address.to_canonical(), signals: sender });
        Some(Test { flows: self.clone(), token, signals, over: None })
    }

    /// Takes a datagram that belongs to no flow yet; returns whether it was a message of a flow.
    pub fn datagram(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        let Some(message) = Message::read(datagram) else { return false };
        let waiting = self.waiting();
        let test = waiting.get(&message.token).filter(|test| test.address == from.ip().to_canonical());
        if let Some(test) = test {
            let signal = match message.kind {
                HELLO => u32::try_from(message.number).ok().map(|number| FlowSignal::Hello(number, from)),
                OVER => Some(FlowSignal::Over(message.number)),
                _ => None,
            };
            // A full queue means a flood, or repeats: the message is dropped.
            let _ = signal.map(|signal| test.signals.try_send(signal));
        }
        true
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        self.flows.waiting().remove(&self.token);
    }
}

impl Test {
    /// Waits for `count` flows, and answers each hello once: a repeated hello arrives at the flow's own socket, which nobody reads
    /// yet. The caller tells the near end over the session that all flows exist. The sockets are bound to `local`, as the node's
    /// own socket is.
    ///
    /// # Errors
    /// [`Error::Silent`]: no further flow within 10 s. [`Error::Interrupted`]: stopped, or ended by the near end.
    /// [`Error::Host`]: a socket cannot be made.
    pub fn gather(&mut self, local: SocketAddr, count: u32, stop: &Stop) -> Result<Vec<UdpSocket>> {
        let mut deadline = Instant::now() + GATHER_TIMEOUT;
        let mut flows: Vec<(u32, SocketAddr, UdpSocket)> = Vec::new();
        while (flows.len() as u32) < count {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.signals.recv_timeout(left.min(Duration::from_millis(100))) {
                Ok(FlowSignal::Hello(number, from))
                    if number < count && flows.iter().all(|(known, ..)| *known != number) =>
                {
                    let hello = Message { token: self.token, kind: HELLO, number: number.into() }.write();
                    let socket = flow_socket(local, from).map_err(host("make a socket for datagrams"))?;
                    // The near end may be gone; then the answer fails.
                    let _ = socket.send(&hello);
                    flows.push((number, from, socket));
                    deadline = Instant::now() + GATHER_TIMEOUT;
                }
                Ok(FlowSignal::Hello(..)) => {}
                Ok(FlowSignal::Over(sent)) => self.over = Some(sent),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) if stop.is_stopped() || self.over.is_some() => {
                    return Err(Error::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Err(Error::Silent { peer: "the near end".into(), seconds: GATHER_TIMEOUT.as_secs() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        flows.sort_by_key(|(number, ..)| *number);
        Ok(flows.into_iter().map(|(.., socket)| socket).collect())
    }

    /// The number of datagrams that the near end sent, once it has ended the test.
    pub fn datagrams_sent(&mut self) -> Option<u64> {
        while let Ok(signal) = self.signals.try_recv() {
            if let FlowSignal::Over(sent) = signal {
                self.over = Some(sent);
            }
        }
        self.over
    }
}

/// A socket for one flow on the node's port: the kernel passes it the datagrams of its peer, and all others to the node's
/// own socket.
pub(crate) fn flow_socket(local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    // Holds the datagrams that arrive while the receiver is not scheduled.
    let _ = socket.set_recv_buffer_size(4 << 20);
    let socket = UdpSocket::from(socket);
    // Until it was connected, this socket received datagrams of any peer.
    socket.set_nonblocking(true)?;
    while socket.recv(&mut [0; 1]).is_ok() {}
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Makes the node's socket, whose port the sockets of flows can share.
///
/// # Errors
/// The port is in use, or the kernel makes no socket.
pub fn bind_shared_port(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    if at.is_ipv6() && at.ip().is_unspecified() {
        // Takes both families, as the standard library's listener does.
        socket.set_only_v6(false)?;
    }
    socket.bind(&at.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flow_belongs_to_the_test_of_its_token_and_address() {
        let node = bind_shared_port("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = node.local_addr().unwrap();
        let flows = Flows::default();
        let stop = Stop::default();
        let token = [7; 16];
        let mut test = flows.begin(token, at.ip()).unwrap();
        assert!(flows.begin(token, at.ip()).is_none(), "a token names one test");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                node.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let mut datagram = [0; 100];
                while !stop.is_stopped() {
                    if let Ok((got, from)) = node.recv_from(&mut datagram) {
                        flows.datagram(from, &datagram[..got]);
                    }
                }
            });
            let near = scope.spawn(|| open(at, &token, 3, &stop, &|| false).unwrap());
            let far = test.gather(at, 3, &stop).unwrap();
            let near = near.join().unwrap();
            for (number, (near, far)) in near.iter().zip(&far).enumerate() {
                near.send(&[number as u8; 100]).unwrap();
                let mut got = [0; 200];
                assert_eq!((far.recv(&mut got).unwrap(), got[0]), (100, number as u8), "each flow has its own socket");
                far.send(b"back").unwrap();
                assert_eq!(near.recv(&mut got).unwrap(), 4);
            }
            assert_eq!(test.datagrams_sent(), None);
            close(at, &token, 12_345);
            while test.datagrams_sent().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(test.datagrams_sent(), Some(12_345));
            // An unknown token gets no answer, nor does a known token from another address.
            let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
            stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            stranger.send_to(&Message { token: [8; 16], kind: HELLO, number: 0 }.write(), at).unwrap();
            assert!(stranger.recv(&mut [0; 100]).is_err());
            assert!(flows.datagram("192.0.2.1:9".parse().unwrap(), &Message { token, kind: OVER, number: 1 }.write()));
            assert_eq!(test.datagrams_sent(), Some(12_345));
            stop.stop();
        });
        drop(test);
        assert!(flows.begin(token, at.ip()).is_some(), "the token is free again");
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(token: Token, kind: u8, number: u64) {
            let message = Message { token, kind, number };
            prop_assert_eq!(Message::read(&message.write()), Some(message));
        }

        #[test]
        fn nothing_else_is_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(bytes.starts_with(MAGIC) || Message::read(&bytes).is_none());
        }
    }
}

//! Streams on sockets: one thread for all streams, which sleeps until a packet is due or an answer arrives.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use socket2::SockRef;
use sys::stamps;
use sys::waker::Waker;

use super::{Event, NearClockError, Outgoing, Reply, Settings, Stream, ping};
use crate::stamp::clock::{Clock, HostClock, Reading};
use crate::stamp::packet::{Answer, BASE, ErrorEstimate, Question, Timestamp};
use crate::stamp::reflect::set_ttl;
use crate::stamp::tlv;

/// Takes each event with its stream's key. Called on the streams' thread, so it must not block.
pub type EventSink = Box<dyn FnMut(u64, Event) + Send>;

/// The far end of a stream.
#[derive(Debug)]
pub enum StreamTarget {
    /// A reflector of STAMP or TWAMP-Light.
    Stamp(SocketAddr),
    /// A session that TWAMP-Control has begun, over its connected socket. The session lasts until `control` is dropped.
    Twamp {
        /// The test's socket.
        socket: UdpSocket,
        /// Ends the session when dropped.
        control: Box<dyn std::fmt::Debug + Send>,
    },
    /// A host that answers pings.
    Ping(IpAddr),
}

/// The longest sleep before new commands are read.
const NAP_NS: i64 = 500_000_000;
/// Time between queries of the clock's quality.
const QUALITY_EVERY_NS: i64 = 1_000_000_000;
/// Receive buffer of a socket.
const BUFFER_BYTES: usize = 256 << 10;
/// Most sockets that are read in one turn.
const READY: usize = 64;
/// Most answers taken from one socket in one turn.
const BATCH: usize = 32;
/// The longest packet of a stream.
const PACKET_BYTES: usize = 9_000;
/// The token of the waker among sockets.
const WAKER: u64 = u64::MAX;

enum Command {
    Add { key: u64, settings: Settings, target: StreamTarget, answer: Sender<io::Result<()>> },
    Remove(u64),
    Stop,
}

/// The handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Streams {
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Streams {
    /// Starts the thread.
    ///
    /// # Errors
    /// The host has no descriptors or threads left.
    pub fn start(sink: EventSink) -> io::Result<Streams> {
        let waker = Waker::new()?;
        let (commands, waiting) = channel();
        let driver = Driver::new(waiting, waker.clone(), sink)?;
        let thread = std::thread::Builder::new().name("streams".into()).spawn(move || driver.run())?;
        Ok(Streams { commands, waker, thread: Some(thread) })
    }

    /// Begins a stream, and ends the one with the same key.
    ///
    /// # Errors
    /// Its sockets cannot be made.
    pub fn add(&self, key: u64, settings: Settings, target: StreamTarget) -> io::Result<()> {
        let (answer, answered) = channel();
        let gone = |_| io::Error::other("the thread of the streams is gone");
        self.commands.send(Command::Add { key, settings, target, answer }).map_err(|_| gone(()))?;
        self.waker.wake();
        answered.recv().map_err(|_| gone(()))?
    }

    /// Ends a stream, if there is one.
    pub fn remove(&self, key: u64) {
        let _ = self.commands.send(Command::Remove(key));
        self.waker.wake();
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A stream and its sockets.
struct RunningStream {
    stream: Stream,
    far: FarKind,
    sockets: HashMap<u64, UdpSocket>,
    packet: Vec<u8>,
    /// Session number in the packets of this stream.
    session: u32,
}

enum FarKind {
    Stamp(SocketAddr),
    Twamp { socket: Option<UdpSocket>, _control: Box<dyn std::fmt::Debug + Send> },
    Ping(IpAddr),
}

struct Driver {
    commands: Receiver<Command>,
    waker: Waker,
    sink: EventSink,
    epoll: std::os::fd::OwnedFd,
    running: HashMap<u64, RunningStream>,
    due: BinaryHeap<Reverse<(i64, u64)>>,
    /// Stream and port of each socket, by its token.
    tokens: HashMap<u64, (u64, u64)>,
    next_token: u64,
    buffer: Vec<u8>,
    near: NearClockError,
    estimate: ErrorEstimate,
    /// When the clock's quality was queried last, monotonic.
    queried_ns: i64,
}

impl Driver {
    fn new(commands: Receiver<Command>, waker: Waker, sink: EventSink) -> io::Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        let mut driver = Driver {
            commands,
            waker,
            sink,
            epoll,
            running: HashMap::new(),
            due: BinaryHeap::new(),
            tokens: HashMap::new(),
            next_token: 0,
            buffer: vec![0; PACKET_BYTES + BASE],
            near: None,
            estimate: ErrorEstimate::of(false, Duration::ZERO),
            queried_ns: 0,
        };
        driver.query_quality(HostClock.read().mono_ns);
        Ok(driver)
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(READY);
        loop {
            let now_ns = HostClock.read().mono_ns;
            let due_ns = self.due.peek().map_or(i64::MAX, |Reverse((due, _))| *due);
            let wait_ns = due_ns.saturating_sub(now_ns).clamp(0, NAP_NS);
            let wait = Timespec { tv_sec: 0, tv_nsec: wait_ns };
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            // After an interruption the next turn waits for the rest of the time.
            let _ = epoll::wait(&self.epoll, buffer, Some(&wait));
            for event in &events {
                match event.data.u64() {
                    WAKER => self.waker.clear(),
                    token => self.receive_answers(token),
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                match command {
                    Command::Add { key, settings, target, answer } => {
                        drop(answer.send(self.add(key, settings, target)))
                    }
                    Command::Remove(key) => self.remove(key),
                    Command::Stop => return,
                }
            }
            self.send_due();
        }
    }

    fn query_quality(&mut self, now_ns: i64) {
        let quality = HostClock.quality().unwrap_or_default();
        self.near = quality.synchronised.then_some(quality.error);
        self.estimate = ErrorEstimate::of(quality.synchronised, quality.error);
        self.queried_ns = now_ns;
    }

    fn add(&mut self, key: u64, settings: Settings, target: StreamTarget) -> io::Result<()> {
        self.remove(key);
        let now = HostClock.read();
        let far = match target {
            StreamTarget::Stamp(to) => FarKind::Stamp(to),
            StreamTarget::Twamp { socket, control } => FarKind::Twamp { socket: Some(socket), _control: control },
            StreamTarget::Ping(to) => FarKind::Ping(to),
        };
        let packet = blank(settings.test().packet_bytes as usize);
        let stream = Stream::new(settings, &now, fastrand::u64(..));
        let session = fastrand::u32(..) | 1;
        self.running.insert(key, RunningStream { stream, far, sockets: HashMap::new(), packet, session });
        let opened = self.open_ports(key);
        match opened {
            Ok(()) => self.due.push(Reverse((now.mono_ns, key))),
            Err(_) => self.remove(key),
        }
        opened
    }

    fn remove(&mut self, key: u64) {
        // The kernel removes closed sockets from the epoll set.
        self.running.remove(&key);
        self.tokens.retain(|_, (stream, _)| *stream != key);
    }

    /// Makes sockets for ports that have none, and closes those of ports that are gone.
    fn open_ports(&mut self, key: u64) -> io::Result<()> {
        let Some(running) = self.running.get_mut(&key) else { return Ok(()) };
        let wanted: Vec<u64> = running.stream.ports().collect();
        if running.sockets.len() > wanted.len() || running.sockets.keys().any(|port| !wanted.contains(port)) {
            running.sockets.retain(|port, _| wanted.contains(port));
            self.tokens.retain(|_, (stream, port)| *stream != key || wanted.contains(port));
        }
        for port in wanted {
            if running.sockets.contains_key(&port) {
                continue;
            }
            let socket = running.open()?;
            running.stream.set_port_number(port, socket.local_addr().map_or(0, |address| address.port()));
            let data = epoll::EventData::new_u64(self.next_token);
            epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
            self.tokens.insert(self.next_token, (key, port));
            self.next_token += 1;
            running.sockets.insert(port, socket);
        }
        Ok(())
    }

    fn send_due(&mut self) {
        let now_ns = HostClock.read().mono_ns;
        if now_ns - self.queried_ns >= QUALITY_EVERY_NS {
            self.query_quality(now_ns);
        }
        while let Some(Reverse((due_ns, key))) = self.due.peek().copied() {
            if due_ns > now_ns {
                return;
            }
            self.due.pop();
            let Some(running) = self.running.get_mut(&key) else { continue };
            let outgoing = running.stream.poll(&HostClock.read());
            // The packet may be the first of a new port, whose socket is opened here. If that fails, the packet counts as not sent,
            // and the next turn tries again.
            if running.stream.ports().any(|port| !running.sockets.contains_key(&port)) {
                let _ = self.open_ports(key);
            }
            let Some(running) = self.running.get_mut(&key) else { continue };
            if let Some(outgoing) = outgoing {
                running.send(&outgoing, self.estimate);
            }
            self.due.push(Reverse((running.stream.due_ns(), key)));
            while let Some(event) = running.stream.event() {
                (self.sink)(key, event);
            }
        }
    }

    fn receive_answers(&mut self, token: u64) {
        let Some((key, port)) = self.tokens.get(&token).copied() else { return };
        let Some(running) = self.running.get_mut(&key) else { return };
        for _ in 0..BATCH {
            let Some(socket) = running.sockets.get(&port) else { return };
            match stamps::receive(socket, &mut self.buffer) {
                Ok(Some(arrival)) => {
                    let now = HostClock.read();
                    if let Some(reply) = running.read(&self.buffer[..arrival.bytes], arrival.ttl) {
                        let arrived = arrival_time(&now, arrival.at);
                        running.stream.handle(port, &reply, &arrived, self.near);
                    }
                }
                // An error here is the ICMP error of an earlier packet, which counts as lost.
                Ok(None) => break,
                Err(_) => {}
            }
        }
        while let Some(event) = running.stream.event() {
            (self.sink)(key, event);
        }
    }
}

/// When an answer arrived: the kernel's time stamp, if it is plausible.
fn arrival_time(now: &Reading, at: Option<Duration>) -> Reading {
    let stamp = at.and_then(|at| HostClock.of_kernel(at));
    match stamp {
        Some(real_ns) if (0..1_000_000_000).contains(&(now.real_ns - real_ns)) => {
            Reading { mono_ns: now.mono_at(real_ns), real_ns, apart_ns: now.apart_ns }
        }
        _ => *now,
    }
}

/// A question of this length. The octets after the 44 are one TLV of padding if its head fits, so that the answer is as long.
fn blank(length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    if let Some(tail) = packet.get_mut(BASE..).filter(|tail| tail.len() >= tlv::HEAD) {
        let value = tail.len() - tlv::HEAD;
        tail[0] = tlv::UNRECOGNISED;
        tail[1] = tlv::EXTRA_PADDING;
        tail[2..4].copy_from_slice(&(value as u16).to_be_bytes());
    }
    packet
}

impl RunningStream {
    /// Opens a socket for one port.
    fn open(&mut self) -> io::Result<UdpSocket> {
        let socket = match &mut self.far {
            FarKind::Stamp(to) => {
                let from: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
                let socket = UdpSocket::bind(from)?;
                socket.connect(*to)?;
                socket
            }
            FarKind::Ping(to) => ping::open(*to)?,
            FarKind::Twamp { socket, .. } => {
                socket.take().ok_or_else(|| io::Error::other("a session of TWAMP has one socket"))?
            }
        };
        socket.set_nonblocking(true)?;
        let _ = set_ttl(&socket);
        let reference = SockRef::from(&socket);
        let class = u32::from(self.stream.settings.test().dscp) << 2;
        let _ =
            if socket.local_addr()?.is_ipv6() { reference.set_tclass_v6(class) } else { reference.set_tos_v4(class) };
        let _ = reference.set_recv_buffer_size(BUFFER_BYTES);
        let _ = stamps::enable(&socket, false);
        let _ = stamps::enable_ttl(&socket);
        Ok(socket)
    }

    fn send(&mut self, outgoing: &Outgoing, error: ErrorEstimate) {
        let Some(socket) = self.sockets.get(&outgoing.port) else {
            self.stream.not_sent(outgoing);
            return;
        };
        match &self.far {
            FarKind::Ping(to) => ping::write(&mut self.packet, to.is_ipv6(), self.session, outgoing.sequence),
            FarKind::Stamp(_) | FarKind::Twamp { .. } => {
                let at = Timestamp::of(HostClock.read().real_ns);
                // TWAMP has padding where STAMP has its session.
                let ssid = if matches!(self.far, FarKind::Stamp(_)) { self.session as u16 } else { 0 };
                Question { sequence: outgoing.sequence, at, error, ssid }.write(&mut self.packet);
            }
        }
        // Twice, as the first call may return the ICMP error of an earlier packet.
        let is_sent = (0..2).any(|_| socket.send(&self.packet).is_ok());
        if !is_sent {
            self.stream.not_sent(outgoing);
        }
    }

    fn read(&self, packet: &[u8], ttl: Option<u8>) -> Option<Reply> {
        if let FarKind::Ping(to) = &self.far {
            let question_sequence = ping::read(packet, to.is_ipv6(), self.session)?;
            return Some(Reply { question_sequence, ttl_reverse: ttl, ..Reply::default() });
        }
        let answer = Answer::read(packet)?;
        if matches!(self.far, FarKind::Stamp(_)) && answer.ssid != self.session as u16 && answer.ssid != 0 {
            return None;
        }
        Some(Reply {
            question_sequence: answer.question_sequence,
            number: Some(answer.sequence),
            far_ns: Some((answer.error.read(answer.received), answer.error.read(answer.at))),
            error: Some(answer.error),
            ttl_forward: Some(answer.ttl),
            ttl_reverse: ttl,
        })
    }
}

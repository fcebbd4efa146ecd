//! The control connection: TLS over one non-blocking socket, owned by one thread, which any thread can wake.
//!
//! It turns bytes into frames and back, answers pings, and notices silence. It does not know what the frames mean.

use model::Refusal;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;
use sys::waker::Waker;
use wire::Frame;
use wire::frame::{self, FrameBuffer, Suite};
use wire::liveness::{Due, Liveness};
use wire::mover::DelegatedAddress;

use crate::dial::StreamAddress;
use crate::error::{Error, Result};
use crate::seal::{EXPORT_LABEL, Secret};
use crate::timeouts::Timeouts;

/// Bytes of messages that may wait for the socket before the machines are no longer asked for more.
const BACKLOG_BYTES_MAX: usize = 1 << 20;

/// A control connection.
pub struct Link {
    socket: TcpStream,
    tls: Connection,
    frames: FrameBuffer,
    waker: Waker,
    peer: String,
    timeouts: Timeouts,
    started: Instant,
    live: Liveness,
    /// Bytes given to TLS since its buffer was last empty.
    backlog: usize,
    /// When the socket last accepted bytes, or there were last none to write.
    write_progress: Instant,
    closed: bool,
    welcome: Option<Welcome>,
    /// How often the node has sent a welcome: at first, and for every new key.
    welcomes: u32,
    kept_for: Option<Duration>,
    /// Further addresses at which the node takes streams.
    addresses: Vec<SocketAddr>,
    /// The addresses at which its movers take streams.
    movers: Vec<DelegatedAddress>,
    /// An abort has been sent.
    aborted: bool,
}

/// The node's answer to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Its program and version.
    pub software: String,
    /// How records are sealed; none where they go in clear.
    pub suite: Option<Suite>,
}

impl Link {
    /// A link over a connected socket. `peer` is the other end's name in messages.
    ///
    /// # Errors
    /// The socket cannot be set up, or this host has no descriptor left.
    pub fn new(socket: TcpStream, mut tls: Connection, peer: String, timeouts: Timeouts) -> Result<Link> {
        let host = |doing| move |source| Error::Host { doing, source };
        socket.set_nonblocking(true).map_err(host("set up a socket"))?;
        tls.set_buffer_limit(None);
        let now = Instant::now();
        Ok(Link {
            socket,
            tls,
            frames: FrameBuffer::default(),
            waker: Waker::new().map_err(host("make a wake-up descriptor"))?,
            peer,
            timeouts,
            started: now,
            live: Liveness::new(timeouts.pace, Duration::ZERO),
            backlog: 0,
            write_progress: now,
            closed: false,
            welcome: None,
            welcomes: 0,
            kept_for: None,
            addresses: Vec::new(),
            movers: Vec::new(),
            aborted: false,
        })
    }

    /// The other end's name in messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The bounds on waiting.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Wakes the thread that waits in [`Link::exchange`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The TLS connection.
    pub fn tls(&self) -> &Connection {
        &self.tls
    }

    /// The socket, for its facts.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Runs the handshake to its end.
    ///
    /// # Errors
    /// The handshake fails or takes too long, or the connection breaks.
    pub fn handshake(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.timeouts.handshake;
        while self.tls.is_handshaking() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.broken(io::Error::new(io::ErrorKind::TimedOut, "no answer to the handshake")));
            }
            self.exchange(left)?;
            if self.closed && self.tls.is_handshaking() {
                return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    }

    /// The secret that both ends can export once the handshake is done.
    ///
    /// # Errors
    /// The handshake is not done.
    pub fn secret(&self) -> Result<Secret> {
        let exported = match &self.tls {
            Connection::Client(c) => c.export_keying_material([0; 32], EXPORT_LABEL, None),
            Connection::Server(s) => s.export_keying_material([0; 32], EXPORT_LABEL, None),
        };
        exported.map(|bytes| Secret::new(&bytes)).map_err(|e| self.broken(io::Error::other(e)))
    }

    /// Puts a message into the queue.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, frame: &Frame) -> Result<()> {
        let mut bytes = Vec::new();
        frame::encode(frame, &mut bytes);
        self.send_raw(&bytes)
    }

    /// Puts bytes into the queue.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        if self.backlog == 0 {
            self.write_progress = Instant::now();
        }
        self.backlog += bytes.len();
        let written = self.tls.writer().write_all(bytes);
        written.map_err(|e| self.broken(e))
    }

    /// The node's answer to the login, once it has arrived.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// How often the node has sent a welcome.
    pub fn welcomes(&self) -> u32 {
        self.welcomes
    }

    /// How long the node keeps the session between jobs; none before it has promised to.
    pub fn kept_for(&self) -> Option<Duration> {
        self.kept_for
    }

    /// Further addresses at which the node takes streams, once it has advertised them.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The further addresses for streams of this session: the node's others, and its movers'.
    pub fn stream_addresses(&self) -> impl Iterator<Item = StreamAddress> {
        let own = self.addresses.iter().map(|at| StreamAddress { at: *at, delegated_session: None });
        let of_movers =
            self.movers.iter().map(|mover| StreamAddress { at: mover.at, delegated_session: Some(mover.session) });
        own.chain(of_movers)
    }

    /// Forgets the movers of the last job: they need not take streams of the next one.
    pub fn forget_movers(&mut self) {
        self.movers.clear();
    }

    /// How long the peer has sent nothing.
    pub fn silence(&self) -> Duration {
        self.live.silence(self.started.elapsed())
    }

    /// Whether the queue can take more now.
    pub fn has_room(&self) -> bool {
        self.backlog < BACKLOG_BYTES_MAX
    }

    /// The next message, if one has arrived. Pings are answered here.
    ///
    /// # Errors
    /// The peer sent an abort or broke the protocol, or the connection is closed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            let frame = self.frames.next_frame();
            let frame = frame.map_err(|source| Error::Protocol { peer: self.peer.clone(), source })?;
            match frame {
                // A peer that asks and never reads gets no answer: it would only grow the queue.
                Some(Frame::Ping(nonce)) if self.has_room() => self.send(&Frame::Pong(nonce))?,
                Some(Frame::Ping(_)) => {}
                Some(Frame::Pong(_)) => {}
                // The welcome arrives with the answer to the first question, which did not wait for it.
                Some(Frame::Welcome { software, suite, plain }) => {
                    self.welcome = Some(Welcome { software, suite: (!plain).then_some(suite) });
                    self.welcomes = self.welcomes.saturating_add(1);
                }
                Some(Frame::Keep(seconds)) if matches!(self.tls, Connection::Client(_)) => {
                    self.kept_for = Some(Duration::from_secs(seconds));
                }
                // Only the first advertisement counts.
                Some(Frame::Addresses(at)) if matches!(self.tls, Connection::Client(_)) => {
                    if self.addresses.is_empty() {
                        self.addresses = at;
                    }
                }
                Some(Frame::Movers(at)) if matches!(self.tls, Connection::Client(_)) => {
                    self.movers = at;
                }
                Some(Frame::Abort(refusal)) => return Err(Error::Refused { peer: self.peer.clone(), refusal }),
                None if self.closed => {
                    return Err(self.broken(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")));
                }
                other => return Ok(other),
            }
        }
    }

    /// Sends queued bytes and reads what has arrived; else waits for the socket, a wake, or `timeout`.
    ///
    /// # Errors
    /// The connection breaks, or the peer has been silent for too long.
    pub fn exchange(&mut self, timeout: Duration) -> Result<()> {
        self.write()?;
        let wait = timeout.min(self.keep_alive()?);
        let wants = if self.tls.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        // An end of file stays readable; polling it would spin.
        let wants = if self.closed { wants & !PollFlags::IN } else { wants };
        let spec = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let (socket_ready, woken) = {
            let mut fds = [PollFd::new(&self.socket, wants), PollFd::new(&self.waker, PollFlags::IN)];
            match poll(&mut fds, Some(&spec)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::Host { doing: "wait for a socket", source: e.into() }),
            }
            (fds[0].revents(), !fds[1].revents().is_empty())
        };
        if woken {
            self.waker.clear();
        }
        if socket_ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.closed {
            self.read()?;
        }
        self.write()
    }

    /// Sends all queued bytes, for at most `timeout`: the last messages before the connection is closed.
    pub fn drain(&mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.write().is_err() || !self.tls.wants_write() || left.is_zero() || self.closed {
                return;
            }
            if self.exchange(left).is_err() {
                return;
            }
        }
    }

    /// Sends the peer the reason, if it still reads, and closes. Only the first reason is sent.
    pub fn abort(&mut self, refusal: Refusal) {
        if std::mem::replace(&mut self.aborted, true) {
            return;
        }
        let _ = self.send(&Frame::Abort(refusal));
        self.tls.send_close_notify();
        self.drain(Duration::from_secs(1));
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Sends the peer an error of this end. A refusal of the peer's own is not sent back, and nothing is sent to a peer that is gone.
    pub fn abort_for(&mut self, error: &Error) {
        if !matches!(error, Error::Refused { .. } | Error::Silent { .. } | Error::Broken { .. }) {
            self.abort(error.as_refusal());
        }
    }

    /// Closes the connection after a session without an error.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        self.drain(Duration::from_secs(1));
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Sends a ping where one is due; fails where the peer is gone. Returns the time until the next one is due.
    fn keep_alive(&mut self) -> Result<Duration> {
        if self.tls.is_handshaking() {
            return Ok(self.timeouts.handshake);
        }
        let now = self.started.elapsed();
        let silent = || Error::Silent { peer: self.peer.clone(), seconds: self.timeouts.pace.gone_after.as_secs() };
        if self.backlog > 0 && self.write_progress.elapsed() > self.timeouts.pace.gone_after {
            return Err(silent());
        }
        match self.live.due(now) {
            Due::Gone => Err(silent()),
            Due::Ping => {
                self.live.sent(now);
                self.send(&Frame::Ping(now.as_millis() as u64))?;
                self.write()?;
                Ok(self.timeouts.pace.ping_after)
            }
            Due::At(at) => Ok(at.saturating_sub(now)),
        }
    }

    fn write(&mut self) -> Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &self.socket) {
                Ok(0) => break,
                Ok(_) => {
                    self.write_progress = Instant::now();
                    self.live.sent(self.started.elapsed());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The peer's last messages may not have been read yet; they give the reason for the close.
                Err(_) if self.closed => return Ok(()),
                Err(e) => {
                    let _ = self.read();
                    if self.frames_waiting() {
                        self.closed = true;
                        return Ok(());
                    }
                    return Err(self.broken(e));
                }
            }
        }
        self.backlog = 0;
        Ok(())
    }

    fn frames_waiting(&self) -> bool {
        self.frames.has_frame()
    }

    fn read(&mut self) -> Result<()> {
        let mut plain = [0; 1 << 14];
        loop {
            match self.tls.read_tls(&mut &self.socket) {
                Ok(0) => {
                    self.closed = true;
                    return Ok(());
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // A reset that follows the peer's last messages must not hide them.
                Err(_) if self.frames_waiting() => {
                    self.closed = true;
                    return Ok(());
                }
                Err(e) => return Err(self.broken(e)),
            }
            self.live.received(self.started.elapsed());
            if let Err(e) = self.tls.process_new_packets() {
                // Sends the peer an alert that says what was wrong.
                let _ = self.tls.write_tls(&mut &self.socket);
                return Err(Error::Broken { peer: self.peer.clone(), source: io::Error::other(e) });
            }
            loop {
                match self.tls.reader().read(&mut plain) {
                    Ok(0) => {
                        self.closed = true;
                        return Ok(());
                    }
                    Ok(got) => self.frames.push(&plain[..got]),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => {
                        self.closed = true;
                        return Ok(());
                    }
                }
            }
            // The messages that have arrived are handled before more is read, so that a peer cannot fill memory.
            if self.frames_waiting() {
                return Ok(());
            }
        }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { peer: self.peer.clone(), source }
    }
}

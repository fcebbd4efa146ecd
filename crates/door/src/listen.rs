//! Listening: connections come in, are told apart, and run on threads of their own within bounds.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use auth::{Grants, Rights};
use engine::link::Link;
use engine::{Error, Timeouts, node};
use model::v1;
use rustix::event::{PollFd, PollFlags, poll};
use rustls::{Connection, ServerConfig, ServerConnection};
use sys::waker::Waker;
use wire::frame::{JobName, Refusal};
use wire::join::{JOIN_BYTES, Join};
use wire::version::Version;

use crate::exports::{Export, ExportError, Served};
use crate::host::Exports;
use crate::jobs::Jobs;
use crate::registry::Registry;
use crate::responders::{Desk, Responders};
use crate::sniff::{Speaks, sniff};
use crate::state::{StateDir, StateError};

/// Connections greeted or in session at once. Streams count towards it until they join; a session holds at most
/// `wire::limits::STREAMS_MAX` of them.
const CONNECTIONS_MAX: usize = 4096;

/// Looks at the host: a line that says whose audit it is, then one for each finding.
pub type Audit = fn(&model::v1::tune::Ask) -> Result<Vec<String>, Refusal>;

/// What a node is to offer.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Directories.
    pub exports: Vec<Export>,
    /// What whoever comes without a key may do, on every export.
    pub anonymous: Option<Rights>,
    /// Grants held in memory only, besides those of the state directory.
    pub grants: Grants,
    /// Whether payload may go in clear.
    pub plain: bool,
    /// Identity, grants, unfinished jobs.
    pub state: StateDir,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// Tests that are answered without a key.
    pub responders: Responders,
    /// How the host's settings stand, for those who have a key; none where nobody is told.
    pub audit: Option<Audit>,
    /// Its guests are its operator, and it lives for one copy: what it carries for them may go to any address, loopback as
    /// well, and is not gone on with by a later node.
    pub own_guests: bool,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address} (is another node running there? --listen HOST:0 takes a free port)")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// An export.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// TLS.
    #[error("the node's certificate and key cannot be used")]
    Tls(#[from] rustls::Error),
    /// The host.
    #[error("cannot wait for connections on this host")]
    Host(#[from] io::Error),
}

/// Ends a running node from another thread.
#[derive(Clone, Debug)]
pub struct Stop(Waker);

impl Stop {
    /// No more connections are accepted, and [`Node::run`] returns.
    pub fn stop(&self) {
        self.0.wake();
    }
}

/// The jobs of a node, for its operator.
#[derive(Clone)]
pub struct NodeJobs(Jobs);

impl NodeJobs {
    /// All of them, or those of one id.
    pub fn list(&self, job: Option<&JobName>) -> Vec<v1::Job> {
        self.0.list(job, None)
    }

    /// Changes a job.
    pub fn change(&self, job: &JobName, change: &v1::Change) -> Result<(), Refusal> {
        self.0.change(job, None, change)
    }
}

/// A node, listening.
pub struct Node {
    listener: TcpListener,
    inner: Arc<Inner>,
    stop: Waker,
}

struct Inner {
    tls: Arc<ServerConfig>,
    host: Arc<Exports>,
    registry: Registry,
    timeouts: Timeouts,
    connections: AtomicUsize,
    sessions: Sessions,
    desk: Desk,
}

/// The control sockets of all sessions, so that a node that stops can end them and let them clean up.
#[derive(Default)]
struct Sessions(Mutex<(u64, HashMap<u64, TcpStream>)>);

struct Held<'a>(&'a Sessions, u64);

impl Sessions {
    fn inner(&self) -> MutexGuard<'_, (u64, HashMap<u64, TcpStream>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, socket: &TcpStream) -> Held<'_> {
        let mut inner = self.inner();
        inner.0 += 1;
        let id = inner.0;
        if let Ok(socket) = socket.try_clone() {
            inner.1.insert(id, socket);
        }
        Held(self, id)
    }

    fn end_all(&self) {
        for socket in self.inner().1.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.inner().1.remove(&self.1);
    }
}

impl Node {
    /// Opens the exports and the port. Connections wait from here on; [`Node::run`] serves them.
    pub fn bind(config: NodeConfig) -> Result<Node, NodeError> {
        let identity = config.state.identity()?;
        let tls = engine::identity::server_config(&identity)?;
        let mut served: Vec<Served> = Vec::new();
        for export in config.exports.iter().cloned() {
            if served.iter().any(|s| s.export.name == export.name) {
                return Err(ExportError::Twice(export.name).into());
            }
            served.push(Served::open(export)?);
        }
        let swept = engine::leftovers::Leftovers::sweep(config.state.path());
        if swept > 0 {
            tracing::info!(files = swept, "removed what interrupted jobs left unfinished");
        }
        let listen = |source| NodeError::Listen { address: config.listen, source };
        let listener = bind(config.listen).map_err(listen)?;
        listener.set_nonblocking(true)?;
        let registry = Registry::default();
        let timeouts = config.timeouts;
        let responders = config.responders.clone();
        let datagrams = config.listen;
        let host = Arc::new_cyclic(|me| Exports::new(me.clone(), served, config, registry.clone()));
        let probes = &host.probes;
        let desk = Desk::open(responders, listener.local_addr()?, probes.flows.clone(), probes.stop.clone());
        let desk = desk.map_err(|source| {
            let source = io::Error::new(source.kind(), format!("for datagrams: {source}"));
            NodeError::Listen { address: datagrams, source }
        })?;
        let (connections, sessions) = (AtomicUsize::new(0), Sessions::default());
        let inner = Inner { tls, host, registry, timeouts, connections, sessions, desk };
        Ok(Node { listener, inner: Arc::new(inner), stop: Waker::new()? })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle to end it.
    pub fn stopper(&self) -> Stop {
        Stop(self.stop.clone())
    }

    /// The jobs that live here, all of them: for the node's operator.
    pub fn jobs(&self) -> NodeJobs {
        NodeJobs(self.inner.host.jobs.clone())
    }

    /// Takes over a connection that this end made: where a client cannot reach this host, but this host the client.
    pub fn adopt(&self, socket: TcpStream, peer: SocketAddr) {
        self.welcome(socket, peer);
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::Acquire)
    }

    /// Ends every session and waits, for at most `within`, until it has cleaned up behind itself.
    pub fn end_sessions(&self, within: Duration) {
        self.inner.host.stop();
        self.inner.desk.stop();
        self.inner.sessions.end_all();
        self.wait_idle(within);
    }

    /// Waits until every session has ended and cleaned up behind itself, for at most `within`.
    pub fn wait_idle(&self, within: Duration) {
        let deadline = Instant::now() + within;
        while self.inner.connections.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Serves until stopped.
    pub fn run(&self) -> Result<(), NodeError> {
        self.inner.host.errands.go_on();
        std::thread::scope(|scope| {
            // It hears the same wake-up, which stays set.
            scope.spawn(|| self.inner.desk.take_datagrams(&self.stop));
            let result = self.accept_all();
            self.stop.wake();
            result
        })
    }

    fn accept_all(&self) -> Result<(), NodeError> {
        loop {
            {
                let mut fds = [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
                match poll(&mut fds, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(NodeError::Host(e.into())),
                }
                if !fds[1].revents().is_empty() {
                    return Ok(());
                }
            }
            match self.listener.accept() {
                Ok((socket, peer)) => self.welcome(socket, peer),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    // Out of descriptors, mostly: what is running will free some.
                    tracing::warn!(error = %e, "cannot accept a connection");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn welcome(&self, socket: TcpStream, peer: SocketAddr) {
        if self.inner.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            self.inner.connections.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(%peer, limit = CONNECTIONS_MAX, "too many connections: refused");
            return;
        }
        let (inner, accepted) = (Arc::clone(&self.inner), self.inner.desk.count());
        let serve = move || {
            let guard = Counted(&inner.connections);
            if let Err(error) = inner.serve(socket, peer, accepted) {
                tracing::info!(target: "access", %peer, outcome = "failed", error = %chain(&error));
            }
            drop(guard);
        };
        if let Err(e) = std::thread::Builder::new().name("connection".into()).spawn(serve) {
            self.inner.connections.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(%peer, error = %e, "cannot start a thread for a connection");
        }
    }
}

/// Counts a connection down, also when its thread panics.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Listens. Of port 0 both numbers are wanted, that of UDP as well: another one is as good.
fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..16 {
        let listener = TcpListener::bind(at)?;
        if at.port() != 0 || UdpSocket::bind(listener.local_addr()?).is_ok() {
            return Ok(listener);
        }
    }
    TcpListener::bind(at)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// The answer to HTTP, which later releases will serve on this port.
fn not_http() -> String {
    let body = "This is a Longhaul node; it does not serve HTTP. Use: longhaul ls lh://HOST:PORT/\n";
    let head = "HTTP/1.1 501 Not Implemented\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ";
    format!("{head}{}\r\n\r\n{body}", body.len())
}

/// Bytes of a request that are read only to be polite.
const PARTING_BYTES_MAX: usize = 1 << 20;

/// Ends a connection after the last word: closing with bytes unread would send a reset, which overtakes that word.
fn part(socket: &TcpStream, within: Duration) {
    let deadline = Instant::now() + within;
    let _ = socket.set_nonblocking(false);
    let _ = socket.shutdown(Shutdown::Write);
    let mut read = 0;
    while read < PARTING_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match (&mut &*socket).read(&mut [0; 1 << 14]) {
            Ok(0) | Err(_) => return,
            Ok(got) => read += got,
        }
    }
}

impl Inner {
    fn serve(&self, socket: TcpStream, peer: SocketAddr, accepted: u64) -> engine::Result<()> {
        let broken = |source| Error::Broken { peer: peer.to_string(), source };
        socket.set_nonblocking(false).map_err(broken)?;
        sys::tcp::set_common(&socket, self.timeouts.pace.gone_after).map_err(broken)?;
        match sniff(&socket, self.timeouts.handshake).map_err(broken)? {
            Speaks::Tls => self.tls(socket, peer),
            Speaks::Stream => self.stream(socket, peer).map_err(broken),
            Speaks::Http => {
                tracing::info!(target: "access", %peer, outcome = "refused", error = "HTTP in clear is not served");
                let _ = socket.set_write_timeout(Some(self.timeouts.handshake));
                (&socket).write_all(not_http().as_bytes()).map_err(broken)?;
                part(&socket, self.timeouts.handshake);
                Ok(())
            }
            Speaks::Iperf3 if self.desk.answers_iperf3(peer) => {
                self.desk.iperf3(socket, peer, accepted, &self.host.probes);
                Ok(())
            }
            Speaks::Iperf3 => {
                let error = "iperf3 is not answered here (--responders iperf3)";
                tracing::info!(target: "access", %peer, outcome = "refused", error);
                Ok(())
            }
            Speaks::Garbage => {
                tracing::info!(target: "access", %peer, outcome = "refused", error = "not a protocol this node speaks");
                Ok(())
            }
        }
    }

    fn tls(&self, socket: TcpStream, peer: SocketAddr) -> engine::Result<()> {
        let _held = self.sessions.hold(&socket);
        let tls = ServerConnection::new(Arc::clone(&self.tls));
        let tls = tls.map_err(|e| Error::Broken { peer: peer.to_string(), source: io::Error::other(e) })?;
        let mut link = Link::new(socket, Connection::Server(tls), peer.to_string(), self.timeouts)?;
        link.handshake()?;
        if link.tls().alpn_protocol().and_then(Version::from_alpn).is_some() {
            return node::run(link, peer, &*self.host);
        }
        tracing::info!(target: "access", %peer, outcome = "refused", error = "HTTPS is not served");
        link.send_raw(not_http().as_bytes())?;
        link.close();
        part(link.socket(), self.timeouts.handshake);
        Ok(())
    }

    fn stream(&self, mut socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let mut bytes = [0; JOIN_BYTES];
        socket.set_read_timeout(Some(self.timeouts.handshake))?;
        socket.read_exact(&mut bytes)?;
        socket.set_read_timeout(None)?;
        let join = Join::decode(&bytes).map_err(io::Error::other)?;
        if let Err(why) = self.registry.join(&join, socket) {
            tracing::info!(target: "access", %peer, outcome = "refused", stream = join.stream, error = ?why, "join");
        }
        Ok(())
    }
}

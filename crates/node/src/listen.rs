//! Listening: connections come in, are told apart, and run on threads of their own within bounds.

mod attending;
mod error;
mod reload;

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::link::Link;
use engine::node::Host;
use engine::{Error, NodeIdentity, Timeouts, node};
use model::v1;
use rustix::event::{PollFd, PollFlags, poll};
use sys::waker::Waker;
use wire::frame::{JobName, Refusal};
use wire::join::{JOIN_BYTES, Join};

use self::attending::Attended;
pub use self::error::NodeError;
use crate::config::NodeConfig;
use crate::crowd::{Crowd, SESSION_TAKES, STREAM_TAKES, Seat, neighbourhood};
use crate::current::Current;
use crate::hall::Hall;
use crate::host::{Exports, Offer};
use crate::http::Web;
use crate::http::{h1, h2};
use crate::jobs::Jobs;
use crate::lounge::Lounge;
use crate::meters::{Rooms, Why};
use crate::registry::{JoinRefused, Registry};
use crate::responders::Desk;
use crate::sniff::{Speaks, sniff};
use crate::tls::{Faces, Guest, H2, client_name};

/// Sessions of the native protocol at once; each holds at most `wire::limits::STREAMS_MAX` streams.
const SESSIONS_MAX: usize = 4096;
/// A connection of HTTP between two requests is kept so long: longer than clients pause within a piece of work.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// To those who come in clear where that is not spoken.
pub(crate) const SEALED_ONLY: &str = "this node speaks HTTP over TLS only: https:// (its operator may allow --plain)";

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
    identity: NodeIdentity,
    faces: Current<Faces>,
    host: Arc<Exports>,
    registry: Registry,
    timeouts: Timeouts,
    crowd: Arc<Crowd>,
    hall: Hall<Resting>,
    lounge: Lounge<Resting>,
    sessions: Sessions,
    desk: Desk,
    web: Web,
    h2: h2::House,
}

/// A connection that has nothing to say for now.
enum Resting {
    /// It has not said anything yet.
    Fresh(Fresh),
    /// It speaks HTTP.
    Http(h1::Connection),
}

/// A connection as it came.
struct Fresh {
    socket: TcpStream,
    peer: SocketAddr,
    accepted: u64,
    seat: Seat,
}

impl Resting {
    fn peer(&self) -> SocketAddr {
        match self {
            Resting::Fresh(fresh) => fresh.peer,
            Resting::Http(connection) => connection.peer(),
        }
    }
}

impl AsFd for Resting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Resting::Fresh(fresh) => fresh.socket.as_fd(),
            Resting::Http(connection) => connection.as_fd(),
        }
    }
}

/// The control sockets of all sessions, so that a node that stops can end them and let them clean up.
#[derive(Default)]
struct Sessions(Mutex<Open>);

#[derive(Default)]
struct Open {
    last: u64,
    sockets: HashMap<u64, TcpStream>,
    /// The node stops: nobody comes in any more.
    closed: bool,
}

struct Held<'a>(&'a Sessions, u64);

impl Sessions {
    fn inner(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, socket: &TcpStream) -> io::Result<Held<'_>> {
        let mut inner = self.inner();
        if inner.closed {
            return Err(io::Error::other("the node is stopping"));
        }
        if inner.sockets.len() >= SESSIONS_MAX {
            return Err(io::Error::other(format!("{SESSIONS_MAX} sessions are open already")));
        }
        inner.last += 1;
        let id = inner.last;
        if let Ok(socket) = socket.try_clone() {
            inner.sockets.insert(id, socket);
        }
        Ok(Held(self, id))
    }

    fn end_all(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        for socket in inner.sockets.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.inner().sockets.remove(&self.1);
    }
}

impl Node {
    /// Opens the exports and the port. Connections wait from here on; [`Node::run`] serves them.
    pub fn bind(config: NodeConfig) -> Result<Node, NodeError> {
        let identity = config.state.identity()?;
        config.state.set_aside();
        let web = config.web.clone();
        let offer = Offer::open(&config)?;
        let faces = Faces::new(&identity, web.certificate.as_deref(), web.client_authorities.as_ref())?;
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
        let state = config.state.path().to_owned();
        // Port 0 was somebody's choice, and is nobody's address.
        let config = NodeConfig { listen: listener.local_addr()?, ..config };
        let host = Arc::new_cyclic(|me| Exports::new(me.clone(), offer, config, registry.clone()));
        let on_loopback = listener.local_addr()?.ip().is_loopback();
        let web = Web::new(Arc::clone(&host), &web, &state, on_loopback)?;
        let probes = &host.probes;
        let desk = Desk::open(responders, listener.local_addr()?, probes.flows.clone(), probes.stop.clone());
        let desk = desk.map_err(|source| {
            let source = io::Error::new(source.kind(), format!("for datagrams: {source}"));
            NodeError::Listen { address: datagrams, source }
        })?;
        let (crowd, hall, lounge) = (Crowd::new(), Hall::new(), Lounge::new()?);
        let sessions = Sessions::default();
        let h2 = h2::House::new();
        let faces = Current::new(faces);
        let meters = Arc::clone(&host.meters);
        let inner = Inner { identity, faces, host, registry, timeouts, crowd, hall, lounge, sessions, desk, web, h2 };
        let inner = Arc::new(inner);
        let rooms = Arc::downgrade(&inner);
        meters.look_into(move || rooms.upgrade().map(|inner| inner.rooms()).unwrap_or_default());
        Ok(Node { listener, inner, stop: Waker::new()? })
    }

    /// The settings were to be read again, and could not be.
    pub fn reload_failed(&self) {
        self.inner.host.meters.reloaded(false);
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
        self.inner.crowd.len()
    }

    /// Ends every session and waits, for at most `within`, until it has cleaned up behind itself.
    pub fn end_sessions(&self, within: Duration) {
        // Before their jobs are cancelled: a client that hears of that takes it for somebody's wish, and does not try
        // again. To one whose connection broke the node may come back.
        self.inner.sessions.end_all();
        self.inner.host.stop();
        self.inner.desk.stop();
        self.inner.lounge.close();
        self.inner.hall.close();
        self.inner.h2.close();
        self.wait_idle(within);
    }

    /// Waits until every session has ended and cleaned up behind itself, for at most `within`.
    pub fn wait_idle(&self, within: Duration) {
        let deadline = Instant::now() + within;
        while self.inner.crowd.len() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Serves until stopped.
    pub fn run(&self) -> Result<(), NodeError> {
        self.inner.host.transfers.go_on();
        std::thread::scope(|scope| {
            // It hears the same wake-up, which stays set.
            scope.spawn(|| self.inner.desk.take_datagrams(&self.stop));
            scope.spawn(|| {
                let attend = |guest| Inner::attend(&self.inner, guest);
                let watched = self.inner.lounge.watch(&self.stop, attend, || self.inner.look_round());
                if let Err(error) = watched {
                    tracing::error!(%error, "cannot wait for connections to speak: the node stops");
                    self.stop.wake();
                }
            });
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
        let seat = match self.inner.crowd.admit(peer.ip()) {
            Ok(seat) => seat,
            Err(why) => {
                self.inner.host.meters.refused(Why::Busy);
                tracing::warn!(%peer, ?why, "too many connections: refused");
                return;
            }
        };
        let fresh = Fresh { socket, peer, accepted: self.inner.desk.count(), seat };
        if let Err(error) = self.inner.lounge.rest(Resting::Fresh(fresh), self.inner.timeouts.handshake) {
            tracing::warn!(%peer, %error, "cannot watch a connection");
        }
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

impl Inner {
    /// Once a second.
    fn look_round(&self) {
        self.send_away_the_late();
        self.host.settle();
    }

    fn rooms(&self) -> Rooms {
        let (attended, waiting) = self.hall.count();
        Rooms { idle: self.lounge.len(), attended, waiting, sessions: self.sessions.inner().sockets.len() }
    }

    fn http(&self, connection: h1::Connection) {
        let Some(idle) = connection.serve(&self.web, &|| self.hall.has_line()) else { return };
        // What was read ahead no descriptor tells of.
        if idle.has_unread() {
            return self.hall.wait(neighbourhood(idle.peer().ip()), Resting::Http(idle));
        }
        if let Err(error) = self.lounge.rest(Resting::Http(idle), KEPT_FOR) {
            tracing::warn!(%error, "cannot watch a connection");
        }
    }

    fn serve(&self, fresh: Fresh, attended: Attended) -> engine::Result<()> {
        let Fresh { socket, peer, accepted, seat } = fresh;
        // For all that says what a connection is for, however slowly it comes.
        let deadline = Instant::now() + self.timeouts.handshake;
        let broken = |source| Error::Broken { peer: peer.to_string(), source };
        socket.set_nonblocking(false).map_err(broken)?;
        sys::tcp::set_common(&socket, self.timeouts.pace.gone_after).map_err(broken)?;
        match sniff(&socket, deadline).map_err(broken)? {
            Speaks::Tls => self.tls(socket, peer, seat, attended),
            Speaks::Stream => self.stream(socket, peer, seat, deadline).map_err(broken),
            Speaks::Http => {
                let conn = web::Conn::new(socket, None).map_err(broken)?;
                let connection = h1::Connection::new(conn, None, Some(seat));
                if self.host.allows_plain() {
                    self.http(connection);
                } else if self.host.is_monitored_from(peer.ip()) {
                    self.http(connection.for_metrics());
                } else {
                    self.host.meters.refused(Why::Protocol);
                    connection.turn_away(SEALED_ONLY);
                }
                Ok(())
            }
            Speaks::Http2 => {
                let conn = web::Conn::new(socket, None).map_err(broken)?;
                let answered = match self.host.allows_plain() {
                    true => h2::serve(conn, None, &self.h2, &self.web),
                    false => h2::turn_away_unsealed(conn),
                };
                drop(seat);
                answered.map_err(broken)
            }
            // It holds its place until it is over: whoever comes this way has shown nothing.
            Speaks::Iperf3 if self.desk.answers_iperf3(peer) => {
                self.desk.iperf3(socket, peer, accepted, &self.host.probes);
                drop(attended);
                Ok(())
            }
            Speaks::Iperf3 => {
                self.host.meters.refused(Why::Protocol);
                let error = "iperf3 is not answered here (--responders iperf3)";
                tracing::info!(target: "access", %peer, outcome = "refused", error);
                Ok(())
            }
            Speaks::Garbage => {
                self.host.meters.refused(Why::Protocol);
                tracing::info!(target: "access", %peer, outcome = "refused", error = "not a protocol this node speaks");
                Ok(())
            }
        }
    }

    fn tls(&self, socket: TcpStream, peer: SocketAddr, mut seat: Seat, attended: Attended) -> engine::Result<()> {
        let broken = |source| Error::Broken { peer: peer.to_string(), source };
        match self.faces.now().meet(&socket, self.timeouts.handshake, self.h2.has_room()).map_err(broken)? {
            Guest::Native(tls) => {
                let room = seat.take(SESSION_TAKES).map_err(|full| io::Error::other(format!("no room: {full:?}")));
                let held = room.and_then(|()| self.sessions.hold(&socket));
                let _held = held.inspect_err(|_| self.host.meters.refused(Why::Busy)).map_err(broken)?;
                let mut link = Link::new(socket, tls, peer.to_string(), self.timeouts)?;
                link.handshake()?;
                drop(attended);
                node::run(link, peer, &*self.host)
            }
            Guest::Http(tls, clients) => {
                let mut conn = web::Conn::new(socket, Some(tls)).map_err(broken)?;
                if let Err(error) = conn.handshake(Instant::now() + self.timeouts.handshake) {
                    let error = format!("no TLS: {error}");
                    tracing::info!(target: "access", %peer, outcome = "refused", error);
                    return Ok(());
                }
                let name = conn.tls().and_then(|tls| client_name(tls, clients.as_deref(), peer));
                if conn.tls().is_some_and(|tls| tls.alpn_protocol() == Some(H2)) {
                    let answered = h2::serve(conn, name, &self.h2, &self.web);
                    drop(seat);
                    return answered.map_err(broken);
                }
                self.http(h1::Connection::new(conn, name, Some(seat)));
                Ok(())
            }
        }
    }

    fn stream(&self, socket: TcpStream, peer: SocketAddr, mut seat: Seat, deadline: Instant) -> io::Result<()> {
        let mut bytes = [0; JOIN_BYTES];
        sys::tcp::read_exact_by(&socket, &mut bytes, deadline)?;
        let join = Join::decode(&bytes).map_err(io::Error::other)?;
        let room = seat.take(STREAM_TAKES).map_err(|_| JoinRefused::Full);
        if let Err(why) = room.and_then(|()| self.registry.join(&join, socket, Box::new(seat))) {
            tracing::info!(target: "access", %peer, outcome = "refused", stream = join.stream, error = ?why, "join");
        }
        Ok(())
    }
}

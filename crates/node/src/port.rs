//! The protocols on a node's port: HTTP, sessions and streams of the native protocol, XRootD's, iperf3.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use engine::link::Link;
use engine::{Timeouts, node};
use model::fault::with_causes;
use parking_lot::Mutex;
use probe::iperf3::Cookie;
use serve::{ClearText, Exchange, Idle, Incoming, Match, Protocols, Rejection, Service, looks_like_http};
use wire::join::{JOIN_BYTES, Join, MAGIC};

use crate::http::{HttpService, TLS_ONLY};
use crate::meters::RefusalReason;
use crate::responders::TestResponders;
use crate::root::RootService;
use crate::services::Services;
use crate::stream_rendezvous::JoinRefused;

/// Sessions of the native protocol at once; each holds at most `wire::limits::STREAMS_MAX` streams.
const SESSIONS_MAX: usize = 4096;
/// Descriptors of a session: its socket, two more handles of it, and its waker.
const SESSION_DESCRIPTORS: usize = 4;
/// Descriptors of a stream: its socket, a second handle of it, and the file that it reads or writes.
const STREAM_DESCRIPTORS: usize = 3;

/// The services behind the port of a node.
pub(crate) struct Port {
    pub services: Arc<Services>,
    pub http: HttpService,
    pub root: Arc<RootService>,
    pub responders: TestResponders,
    pub sessions: Sessions,
    pub timeouts: Timeouts,
}

/// The control sockets of all sessions, so that a node that stops can end them and let them clean up.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<OpenSessions>);

#[derive(Default)]
struct OpenSessions {
    last: u64,
    sockets: HashMap<u64, TcpStream>,
    /// The node stops: new sessions are refused.
    closed: bool,
}

/// A session's entry, removed when dropped.
struct SessionGuard<'a>(&'a Sessions, u64);

impl Sessions {
    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.0.lock().sockets.len()
    }

    /// Adds a session's socket.
    ///
    /// # Errors
    /// The node stops, or too many sessions are open.
    fn register(&self, socket: &TcpStream) -> io::Result<SessionGuard<'_>> {
        let mut open = self.0.lock();
        if open.closed {
            return Err(io::Error::other("the node is stopping"));
        }
        if open.sockets.len() >= SESSIONS_MAX {
            return Err(io::Error::other(format!("{SESSIONS_MAX} sessions are open already")));
        }
        open.last += 1;
        let id = open.last;
        if let Ok(socket) = socket.try_clone() {
            open.sockets.insert(id, socket);
        }
        Ok(SessionGuard(self, id))
    }

    /// Ends all sessions, and refuses new ones.
    pub fn end_all(&self) {
        let mut open = self.0.lock();
        open.closed = true;
        for socket in open.sockets.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for SessionGuard<'_> {
    fn drop(&mut self) {
        self.0.0.lock().sockets.remove(&self.1);
    }
}

impl Service for Port {
    fn answer(&self, exchange: &mut dyn Exchange) {
        self.http.answer(exchange);
    }

    fn refused(&self, refusal: &Rejection<'_>) {
        match *refusal {
            Rejection::Busy { peer, reason } => {
                self.services.meters.refused(RefusalReason::Busy);
                tracing::warn!(target: "access", %peer, outcome = "refused", error = reason);
            }
            Rejection::Request { peer, status, reason } => {
                self.services.meters.refused(RefusalReason::Protocol);
                tracing::info!(target: "access", %peer, outcome = "refused", status, error = reason, "not a request");
            }
            Rejection::Protocol { peer, reason } => {
                self.services.meters.refused(RefusalReason::Protocol);
                tracing::info!(target: "access", %peer, outcome = "refused", error = reason);
            }
            Rejection::Failed { peer, reason } => {
                tracing::info!(target: "access", %peer, outcome = "failed", error = reason);
            }
            _ => {}
        }
    }
}

impl Protocols for Port {
    fn clear_text(&self, peer: SocketAddr) -> ClearText {
        if self.services.access.allows_plain() {
            ClearText::Served
        } else if self.services.access.is_monitoring_address(peer.ip()) {
            ClearText::Restricted
        } else {
            ClearText::Refused(TLS_ONLY)
        }
    }

    fn recognises(&self, first: &[u8]) -> Match {
        if first.starts_with(&MAGIC) {
            return Match::Yes;
        }
        if MAGIC.starts_with(first) {
            return Match::Maybe;
        }
        match xroot::login::begins(first) {
            Some(true) => return Match::Yes,
            None => return Match::Maybe,
            Some(false) => {}
        }
        // A test of iperf3 begins with its cookie.
        if looks_like_http(first) {
            return Match::No;
        }
        match Cookie::begins(first) {
            Some(true) => Match::Yes,
            Some(false) => Match::No,
            None => Match::Maybe,
        }
    }

    fn serve(&self, connection: Incoming) -> Option<Box<dyn Idle>> {
        let peer = connection.peer;
        if xroot::login::begins(&connection.first) == Some(true) {
            return self.root.serve(connection);
        }
        if !connection.first.starts_with(&MAGIC) {
            self.test_by_iperf3(connection);
            return None;
        }
        if let Err(error) = self.join(connection) {
            self.refused(&Rejection::Failed { peer, reason: &error.to_string() });
        }
        None
    }

    fn serve_tls(&self, connection: Incoming, tls: rustls::Connection) {
        let peer = connection.peer;
        if let Err(error) = self.session(connection, tls) {
            self.refused(&Rejection::Failed { peer, reason: &with_causes(&error) });
        }
    }

    fn tick(&self) {
        self.root.tick();
        self.services.update_totals();
    }
}

impl Port {
    /// Serves a session of the native protocol until it ends.
    fn session(&self, connection: Incoming, tls: rustls::Connection) -> engine::Result<()> {
        let Incoming { socket, peer, mut permit, admitted, .. } = connection;
        let broken = |source| engine::Error::Broken { peer: peer.to_string(), source };
        let room = permit.take(SESSION_DESCRIPTORS).map_err(|full| io::Error::other(full.reason()));
        let session = room.and_then(|()| self.sessions.register(&socket));
        let _session = session.inspect_err(|_| self.services.meters.refused(RefusalReason::Busy)).map_err(broken)?;
        let mut link = Link::new(socket, tls, peer.to_string(), self.timeouts)?;
        link.handshake()?;
        drop(admitted);
        node::run(link, peer, &*self.services)
    }

    /// Hands a data stream over to its session.
    fn join(&self, connection: Incoming) -> io::Result<()> {
        let Incoming { socket, peer, mut permit, deadline, .. } = connection;
        let mut bytes = [0; JOIN_BYTES];
        sys::tcp::read_exact_by(&socket, &mut bytes, deadline)?;
        let join = Join::decode(&bytes).map_err(io::Error::other)?;
        let room = permit.take(STREAM_DESCRIPTORS).map_err(|_| JoinRefused::Full);
        if let Err(why) = room.and_then(|()| self.services.rendezvous.join(&join, socket, Box::new(permit))) {
            tracing::info!(target: "access", %peer, outcome = "refused", stream = join.stream, error = ?why, "join");
        }
        Ok(())
    }

    /// Serves a test of iperf3, whose client is anonymous. The test keeps its connection's permits until it ends.
    fn test_by_iperf3(&self, connection: Incoming) {
        let Incoming { socket, peer, number, admitted: _admitted, permit: _permit, .. } = connection;
        if !self.responders.answers_iperf3(peer) {
            let reason = "iperf3 is not answered here (--responders iperf3)";
            return self.refused(&Rejection::Protocol { peer, reason });
        }
        self.responders.iperf3(socket, peer, number, &self.services.tests);
    }
}

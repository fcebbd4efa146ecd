//! The server: a port, the threads that serve its connections, and the bounds on both.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use model::client_prefix;
use rustix::event::{PollFd, PollFlags, poll};
use sys::waker::Waker;

use crate::admission::{AdmissionObserver, AdmissionQueue, Admitted};
use crate::connection_limits::{ConnectionLimits, ConnectionPermit};
use crate::idle::IdleConnections;
use crate::service::{ClearText, Protocols, Rejection};
use crate::sniff::{FirstBytes, Protocol, peek_protocol, sniff};
use crate::tls::{Accepted, H2, TlsSettings};
use crate::{Idle, Incoming, h1, h2};

/// How long an HTTP connection is kept between two requests: longer than clients pause within a piece of work.
const IDLE_FOR: Duration = Duration::from_secs(300);

/// How long the server waits for its clients.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the first message of a connection, the TLS handshake included.
    pub handshake: Duration,
    /// Until a client whose kernel no longer answers counts as disconnected.
    pub gone_after: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { handshake: Duration::from_secs(20), gone_after: Duration::from_secs(60) }
    }
}

/// Ends a running server from another thread.
#[derive(Clone, Debug)]
pub struct Stop(Waker);

impl Stop {
    /// Stops accepting connections; [`Server::run`] returns.
    pub fn stop(&self) {
        self.0.wake();
    }

    /// A descriptor that becomes readable when the server is to stop.
    pub fn waker(&self) -> &Waker {
        &self.0
    }
}

/// How many connections there are, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In all states.
    pub open: usize,
    /// Watched, without a thread.
    pub idle: usize,
    /// Served by a thread.
    pub served: usize,
    /// Waiting for a thread.
    pub waiting: usize,
}

/// A listening server. Clones are handles of the same server.
pub struct Server<S> {
    inner: Arc<ServerState<S>>,
}

/// A handle that does not keep the server alive.
pub struct WeakServer<S>(Weak<ServerState<S>>);

impl<S> WeakServer<S> {
    /// The server, as long as another handle keeps it alive.
    pub fn upgrade(&self) -> Option<Server<S>> {
        self.0.upgrade().map(|inner| Server { inner })
    }
}

impl<S> Clone for Server<S> {
    fn clone(&self) -> Server<S> {
        Server { inner: Arc::clone(&self.inner) }
    }
}

struct ServerState<S> {
    me: Weak<ServerState<S>>,
    listener: TcpListener,
    service: Arc<S>,
    tls: Option<ArcSwap<TlsSettings>>,
    timeouts: Timeouts,
    limits: Arc<ConnectionLimits>,
    admission: AdmissionQueue<Waiting>,
    idle: IdleConnections<Waiting>,
    h2: h2::Connections,
    accepted: AtomicU64,
    stop: Waker,
}

/// A connection that is idle or waits for a thread.
enum Waiting {
    /// It has not sent anything yet.
    Fresh(Fresh),
    /// It speaks HTTP/1.1.
    Http(h1::Connection),
    /// It speaks a protocol of the service's own.
    Other(Box<dyn Idle>),
}

/// A connection that was accepted and from which nothing was read.
#[derive(Debug)]
struct Fresh {
    socket: TcpStream,
    peer: SocketAddr,
    number: u64,
    permit: ConnectionPermit,
}

impl Waiting {
    fn peer(&self) -> SocketAddr {
        match self {
            Waiting::Fresh(fresh) => fresh.peer,
            Waiting::Http(connection) => connection.peer(),
            Waiting::Other(connection) => connection.peer(),
        }
    }
}

impl AsFd for Waiting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Waiting::Fresh(fresh) => fresh.socket.as_fd(),
            Waiting::Http(connection) => connection.as_fd(),
            Waiting::Other(connection) => connection.as_fd(),
        }
    }
}

impl<S: Protocols> Server<S> {
    /// A server over a listener. From here on connections wait; [`Server::run`] serves them. Without TLS settings the server
    /// refuses connections that speak TLS.
    ///
    /// # Errors
    /// The host has no descriptors left.
    pub fn new(
        listener: TcpListener,
        service: Arc<S>,
        tls: Option<TlsSettings>,
        timeouts: Timeouts,
    ) -> io::Result<Server<S>> {
        listener.set_nonblocking(true)?;
        let idle = IdleConnections::new()?;
        let stop = Waker::new()?;
        let inner = Arc::new_cyclic(|me| ServerState {
            me: me.clone(),
            listener,
            service,
            tls: tls.map(ArcSwap::from_pointee),
            timeouts,
            limits: ConnectionLimits::new(),
            admission: AdmissionQueue::new(),
            idle,
            h2: h2::Connections::new(),
            accepted: AtomicU64::new(0),
            stop,
        });
        Ok(Server { inner })
    }

    /// The address that the server listens on.
    ///
    /// # Errors
    /// The system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inner.listener.local_addr()
    }

    /// A handle that stops the server from another thread.
    pub fn stopper(&self) -> Stop {
        Stop(self.inner.stop.clone())
    }

    /// A handle that does not keep the server alive.
    pub fn downgrade(&self) -> WeakServer<S> {
        WeakServer(Arc::downgrade(&self.inner))
    }

    /// The service that answers the requests.
    pub fn service(&self) -> &Arc<S> {
        &self.inner.service
    }

    /// Replaces the TLS settings; they hold for connections that are accepted from now on. Does nothing without TLS.
    pub fn replace_tls(&self, settings: TlsSettings) {
        if let Some(tls) = &self.inner.tls {
            tls.store(Arc::new(settings));
        }
    }

    /// Serves a connection that this end has opened, for a client that cannot reach this host.
    pub fn adopt(&self, socket: TcpStream, peer: SocketAddr) {
        self.inner.accept(socket, peer);
    }

    /// Serves the connections of a further listener as well, until [`Stop::stop`].
    ///
    /// # Errors
    /// The host cannot poll its descriptors.
    pub fn accept_from(&self, listener: &TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.inner.accept_all(listener)
    }

    /// How many connections there are.
    pub fn counts(&self) -> Counts {
        let (served, waiting) = self.inner.admission.count();
        Counts { open: self.inner.limits.len(), idle: self.inner.idle.len(), served, waiting }
    }

    /// Closes connections that are idle or wait, and lets HTTP/2 finish the requests that have begun. Other connections go on.
    pub fn close_idle(&self) {
        self.inner.idle.close();
        self.inner.admission.close();
        self.inner.h2.close();
    }

    /// Waits until every connection has ended and released its permit, for at most `within`.
    pub fn wait_until_closed(&self, within: Duration) {
        let deadline = Instant::now() + within;
        while self.inner.limits.len() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Serves connections until [`Stop::stop`].
    ///
    /// # Errors
    /// The host cannot poll its descriptors.
    pub fn run(&self) -> io::Result<()> {
        let inner = &self.inner;
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let watched = inner.idle.watch(&inner.stop, |readable| inner.admit(readable), || inner.tick());
                if watched.is_err() {
                    inner.stop.wake();
                }
                watched
            });
            let accepted = inner.accept_all(&inner.listener);
            inner.stop.wake();
            let watched = watcher.join().unwrap_or_else(|_| Err(io::Error::other("the watcher of connections ended")));
            accepted.and(watched)
        })
    }
}

impl<S: Protocols> AdmissionObserver for ServerState<S> {
    fn place_released(&self, from: IpAddr) {
        self.admission.leave(from);
        self.begin_next();
    }
}

impl<S: Protocols> ServerState<S> {
    fn accept_all(&self, listener: &TcpListener) -> io::Result<()> {
        loop {
            {
                let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
                match poll(&mut fds, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
                if !fds[1].revents().is_empty() {
                    return Ok(());
                }
            }
            match listener.accept() {
                Ok((socket, peer)) => self.accept(socket, peer),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    // Most likely there are no free descriptors: wait until connections close.
                    tracing::warn!(error = %e, "cannot accept a connection");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn accept(&self, socket: TcpStream, peer: SocketAddr) {
        let permit = match self.limits.admit(peer.ip()) {
            Ok(permit) => permit,
            Err(full) => {
                self.service.refused(&Rejection::Busy { peer, reason: full.reason() });
                return;
            }
        };
        let number = self.accepted.fetch_add(1, Ordering::AcqRel);
        let fresh = Fresh { socket, peer, number, permit };
        if let Err(error) = self.idle.keep(Waiting::Fresh(fresh), self.timeouts.handshake) {
            tracing::warn!(%peer, %error, "cannot watch a connection");
        }
    }

    /// Gives a readable connection a thread of its own as soon as one is free. It never blocks, since the thread that calls it
    /// watches all idle connections.
    fn admit(&self, connection: Waiting) {
        let from = client_prefix(connection.peer().ip());
        if let Some(connection) = self.admission.enter(from, connection)
            && !self.begin(from, connection)
        {
            self.begin_next();
        }
    }

    /// Starts threads for connections that wait, as far as places are free.
    fn begin_next(&self) {
        while let Some((from, connection)) = self.admission.next() {
            self.begin(from, connection);
        }
    }

    /// Starts the thread of a connection that has a place. Returns whether it has started.
    fn begin(&self, from: IpAddr, connection: Waiting) -> bool {
        let Some(server) = self.me.upgrade() else { return false };
        let serve = move || {
            // Created in the thread: if it were created before and the thread did not start, dropping the closure would begin the
            // next connection from within this call.
            let observer: Weak<dyn AdmissionObserver> = server.me.clone();
            let admitted = Admitted::new(observer, from);
            match connection {
                Waiting::Fresh(fresh) => {
                    let peer = fresh.peer;
                    if let Err(error) = server.serve(fresh, admitted) {
                        server.service.refused(&Rejection::Failed { peer, reason: &error.to_string() });
                    }
                }
                Waiting::Http(connection) => server.serve_http1(connection),
                Waiting::Other(connection) => {
                    let idle = connection.serve();
                    // The next message needs a place of its own.
                    drop(admitted);
                    server.keep_other(idle);
                }
            }
        };
        let begun = std::thread::Builder::new().name("connection".into()).spawn(serve);
        if let Err(error) = &begun {
            self.admission.leave(from);
            tracing::warn!(%error, "cannot start a thread for a connection");
        }
        begun.is_ok()
    }

    /// Does the periodic work, once a second.
    fn tick(&self) {
        self.refuse_late();
        self.service.tick();
    }

    /// Ends connections for which no thread was free in time, with an answer where one can be sent without blocking.
    fn refuse_late(&self) {
        for connection in self.admission.take_late(Instant::now()) {
            let peer = connection.peer();
            self.service.refused(&Rejection::Busy { peer, reason: "no thread was free for it in time" });
            match connection {
                Waiting::Http(connection) => connection.end_busy(),
                // Its client sees the end of the connection, and tries again.
                Waiting::Other(_) => {}
                Waiting::Fresh(fresh) => {
                    let is_served = self.service.clear_text(peer) == ClearText::Served;
                    if is_served
                        && peek_protocol(&fresh.socket, &*self.service) == Some(Protocol::Http)
                        && let Ok(conn) = web::Conn::new(fresh.socket, None)
                    {
                        h1::Connection::new(conn, None, Some(fresh.permit)).end_busy();
                    }
                }
            }
        }
    }

    fn serve_http1(&self, connection: h1::Connection) {
        let Some(idle) = connection.serve(&*self.service, &|| self.admission.has_waiting()) else { return };
        // epoll does not report bytes that were already read from the socket.
        if idle.has_unread() {
            return self.admission.wait(client_prefix(idle.peer().ip()), Waiting::Http(idle));
        }
        if let Err(error) = self.idle.keep(Waiting::Http(idle), IDLE_FOR) {
            tracing::warn!(%error, "cannot watch a connection");
        }
    }

    /// Watches a connection of another protocol until its next message, if it goes on.
    fn keep_other(&self, connection: Option<Box<dyn Idle>>) {
        let Some(connection) = connection else { return };
        // epoll does not report bytes that were already read from the socket.
        if connection.has_unread() {
            return self.admission.wait(client_prefix(connection.peer().ip()), Waiting::Other(connection));
        }
        let idle_for = connection.idle_for();
        if let Err(error) = self.idle.keep(Waiting::Other(connection), idle_for) {
            tracing::warn!(%error, "cannot watch a connection");
        }
    }

    fn serve(&self, fresh: Fresh, admitted: Admitted) -> io::Result<()> {
        let Fresh { socket, peer, number, permit } = fresh;
        // The deadline for the whole first message, however slowly its bytes arrive.
        let deadline = Instant::now() + self.timeouts.handshake;
        socket.set_nonblocking(false)?;
        sys::tcp::set_common(&socket, self.timeouts.gone_after)?;
        let FirstBytes { protocol, first } = sniff(&socket, &*self.service, deadline)?;
        let tls = self.tls.as_ref().map(|tls| tls.load().without_names());
        let incoming = Incoming { socket, peer, number, deadline, permit, admitted, first, tls };
        match protocol {
            Protocol::Tls => self.serve_tls(incoming),
            Protocol::Http => self.serve_clear(incoming),
            Protocol::Http2 => {
                let conn = web::Conn::new(incoming.socket, None)?;
                match self.service.clear_text(peer) {
                    ClearText::Served => h2::serve(conn, None, &self.h2, &*self.service),
                    _ => h2::refuse_clear_text(conn),
                }
            }
            Protocol::Other => {
                let idle = self.service.serve(incoming);
                self.keep_other(idle);
                Ok(())
            }
            Protocol::Unknown => {
                self.service.refused(&Rejection::Protocol { peer, reason: "not a protocol that is spoken here" });
                Ok(())
            }
        }
    }

    fn serve_clear(&self, incoming: Incoming) -> io::Result<()> {
        let Incoming { socket, peer, permit, admitted: _admitted, .. } = incoming;
        let connection = h1::Connection::new(web::Conn::new(socket, None)?, None, Some(permit));
        match self.service.clear_text(peer) {
            ClearText::Served => self.serve_http1(connection),
            ClearText::Restricted => self.serve_http1(connection.restricted()),
            ClearText::Refused(reason) => {
                self.service.refused(&Rejection::Protocol { peer, reason });
                connection.end_refused(reason);
            }
        }
        Ok(())
    }

    fn serve_tls(&self, mut incoming: Incoming) -> io::Result<()> {
        let peer = incoming.peer;
        let Some(tls) = &self.tls else {
            self.service.refused(&Rejection::Protocol { peer, reason: "TLS is not spoken here" });
            return Ok(());
        };
        match tls.load().accept(&incoming.socket, self.timeouts.handshake, self.h2.has_room())? {
            Accepted::Other(tls) => {
                // The handshake has its own deadline.
                incoming.deadline = Instant::now() + self.timeouts.handshake;
                self.service.serve_tls(incoming, tls);
                Ok(())
            }
            Accepted::Http(tls, clients) => {
                let Incoming { socket, permit, admitted: _admitted, .. } = incoming;
                let mut conn = web::Conn::new(socket, Some(tls))?;
                if let Err(error) = conn.handshake(Instant::now() + self.timeouts.handshake) {
                    let reason = format!("no TLS: {error}");
                    self.service.refused(&Rejection::Failed { peer, reason: &reason });
                    return Ok(());
                }
                let certificate = conn.tls().and_then(|tls| clients.as_ref()?.check_of(tls, peer));
                if conn.tls().is_some_and(|tls| tls.alpn_protocol() == Some(H2)) {
                    let answered = h2::serve(conn, certificate, &self.h2, &*self.service);
                    drop(permit);
                    return answered;
                }
                self.serve_http1(h1::Connection::new(conn, certificate, Some(permit)));
                Ok(())
            }
        }
    }
}

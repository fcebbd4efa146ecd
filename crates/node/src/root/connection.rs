//! A connection: it reads requests one after the other and answers each, until no request comes for a while or the connection ends.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::Access;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;
use serve::{Admitted, ConnectionPermit, Idle, Incoming};
use web::Conn;
use xroot::head::REQUEST_HEAD_BYTES;
use xroot::limits::{PAYLOAD_BYTES_MAX, WRITE_BYTES_MAX};
use xroot::login::{HELLO, HELLO_BYTES, LoginPhase, ServerLogin};
use xroot::place::FileOrPath;
use xroot::{ErrorCode, RequestCode, RequestHead, RootAnswer, RootRequest, StreamId};

use super::bound::BoundConnection;
use super::data::ReadKind;
use super::failure::{self, RootFailure, RootOutcome, refuse};
use super::files::RootFile;
use super::log::{self, LoggedAction, ShownRequest};
use super::session::{ClientName, RootSession};
use super::streams::BoundStream;
use super::{IDLE_FOR, LINGER, RootService, SILENCE};
use crate::audit::Decision;
use crate::clock::now;
use crate::meters::Protocol;

/// How often a connection looks for answers that other threads make.
const OUTBOX_EVERY: Duration = Duration::from_millis(20);

/// A connection of a client.
pub(super) struct RootConnection {
    pub service: Arc<RootService>,
    pub conn: Conn,
    pub peer: SocketAddr,
    pub login: ServerLogin,
    pub session: Option<Arc<RootSession>>,
    /// What the login says about the client, until it is authenticated.
    pub client: ClientName,
    tls: Option<Arc<ServerConfig>>,
    /// The handshake, and the first request, must come before.
    deadline: Instant,
    permit: Option<ConnectionPermit>,
    /// Given back as soon as the client is known.
    admitted: Option<Admitted>,
    has_begun: bool,
}

/// What a connection does after a request.
enum Next {
    Go,
    /// It carries data from now on.
    Bound(Box<BoundConnection>),
}

/// Why a connection stops serving.
enum Wait {
    Input,
    Idle,
}

impl RootConnection {
    /// A new connection, of which nothing has been read.
    ///
    /// # Errors
    /// The socket cannot be configured.
    pub fn begin(service: Arc<RootService>, incoming: Incoming) -> io::Result<RootConnection> {
        let Incoming { socket, peer, deadline, permit, admitted, tls, .. } = incoming;
        let mut conn = Conn::new(socket, None)?;
        conn.set_write_within(SILENCE)?;
        let requires_tls = !service.services.access.allows_plain();
        Ok(RootConnection {
            login: ServerLogin::new(tls.is_some(), requires_tls, false),
            service,
            conn,
            peer,
            session: None,
            client: ClientName::default(),
            tls,
            deadline,
            permit: Some(permit),
            admitted: Some(admitted),
            has_begun: false,
        })
    }

    /// The protocol, for metrics and logs.
    pub fn protocol(&self) -> Protocol {
        if self.login.is_tls() { Protocol::Roots } else { Protocol::Root }
    }

    /// The session.
    ///
    /// # Errors
    /// The client has not logged in.
    pub fn session(&self) -> RootOutcome<&Arc<RootSession>> {
        self.session.as_ref().ok_or_else(|| refuse(ErrorCode::InvalidRequest, "log in first"))
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, stream: StreamId, answer: &RootAnswer) -> io::Result<()> {
        self.conn.write_all(&answer.to_bytes(stream))
    }

    /// Reads the client's first bytes.
    fn hello(&mut self) -> io::Result<()> {
        let mut hello = [0; HELLO_BYTES];
        let left = self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if !self.conn.read_exact(&mut hello, left)? || hello != HELLO {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not XRootD's protocol"));
        }
        // The answer has no request: the version, and that this is a server with files.
        let body = [xroot::codes::VERSION.to_be_bytes(), 1_u32.to_be_bytes()].concat();
        self.send(StreamId::default(), &RootAnswer::Ok(body))
    }

    /// Waits for the next request, and sends answers that other threads make meanwhile.
    fn wait(&mut self) -> io::Result<Wait> {
        let until = Instant::now() + LINGER;
        loop {
            let awaits = self.session.as_ref().is_some_and(|session| session.awaits_answers());
            if let Some(session) = self.session.clone() {
                for (stream, answer) in session.take_answers() {
                    self.send(stream, &answer)?;
                }
            }
            if self.conn.has_unread() {
                return Ok(Wait::Input);
            }
            let left = if awaits { OUTBOX_EVERY } else { until.saturating_duration_since(Instant::now()) };
            if is_readable(self.conn.socket(), left)? {
                return Ok(Wait::Input);
            }
            if !awaits && Instant::now() >= until {
                return Ok(Wait::Idle);
            }
            if self.service.services.is_stopping() {
                return Err(io::Error::other("the node stops"));
            }
        }
    }

    /// Serves requests until none comes for a while. None if the connection has ended.
    fn run(mut self: Box<Self>) -> io::Result<Option<Box<dyn Idle>>> {
        if !self.has_begun {
            self.has_begun = true;
            self.hello()?;
        }
        loop {
            if matches!(self.wait()?, Wait::Idle) {
                self.conn.free_buffers();
                self.admitted = None;
                return Ok(Some(self));
            }
            let mut head = [0; REQUEST_HEAD_BYTES];
            if !self.conn.read_exact(&mut head, SILENCE)? {
                return Ok(None);
            }
            match self.request(&head)? {
                Next::Go => {}
                Next::Bound(bound) => return Ok(Some(bound)),
            }
        }
    }

    /// Reads the rest of a request and answers it.
    fn request(&mut self, head: &[u8; REQUEST_HEAD_BYTES]) -> io::Result<Next> {
        let head = RequestHead::parse(head).map_err(io::Error::other)?;
        let data = head.data_bytes();
        let most = if data > 0 { WRITE_BYTES_MAX } else { PAYLOAD_BYTES_MAX };
        if head.payload_bytes > most {
            let reason = format!("a payload of {} bytes is longer than {most}", head.payload_bytes);
            self.send(head.stream, &failure::answer(ErrorCode::ArgTooLong, &reason))?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let mut payload = vec![0; (head.payload_bytes - data) as usize];
        if !payload.is_empty() && !self.conn.read_exact(&mut payload, SILENCE)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let began = Instant::now();
        let request = match RootRequest::parse(&head, &payload) {
            Ok(request) => request,
            Err(error) => {
                self.drain(data)?;
                self.conclude(&head, &ShownRequest::default(), Err(error.into()), began)?;
                return Ok(Next::Go);
            }
        };
        if let Err((code, why)) = self.login.check(&request) {
            self.drain(data)?;
            self.conclude(&head, &ShownRequest::default(), Err(refuse(code, why)), began)?;
            return Ok(Next::Go);
        }
        if let RootRequest::Bind(id) = &request {
            return self.bind(head.stream, id);
        }
        let shown = ShownRequest::of(&request);
        let outcome = self.answer(head.stream, request);
        self.conclude(&head, &shown, outcome, began)?;
        Ok(Next::Go)
    }

    /// Binds the connection to a session.
    fn bind(&mut self, stream: StreamId, id: &xroot::head::SessionId) -> io::Result<Next> {
        let refused = |connection: &mut RootConnection, reason: &str| {
            connection.send(stream, &failure::answer(ErrorCode::NotFound, reason))?;
            Err(io::Error::new(io::ErrorKind::PermissionDenied, reason.to_owned()))
        };
        let Some(session) = self.service.sessions.get(id, self.peer.ip()) else {
            return refused(self, "there is no such session of this client");
        };
        let Some(permit) = self.permit.take() else { return refused(self, "the connection is bound already") };
        let socket = self.conn.socket().try_clone()?;
        let other = socket.try_clone()?;
        let empty = Conn::new(socket, None)?;
        let conn = std::mem::replace(&mut self.conn, empty);
        let Some((path_id, bound)) = session.bind(|path_id| Arc::new(BoundStream::new(path_id, conn, other))) else {
            return Err(io::Error::other("a session has as many connections as it may"));
        };
        bound.write(&RootAnswer::Ok(vec![path_id]).to_bytes(stream))?;
        self.login.bound();
        self.admitted = None;
        Ok(Next::Bound(Box::new(BoundConnection { stream: bound, session, peer: self.peer, _permit: permit })))
    }

    /// Starts TLS on the connection.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn start_tls(&mut self) -> io::Result<()> {
        let Some(config) = &self.tls else { return Err(io::Error::other("the node has no TLS settings")) };
        let tls = rustls::ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let socket = self.conn.socket().try_clone()?;
        if self.conn.has_unread() {
            // Whoever is on the path could have put these bytes there, to have them taken for the client's.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes in clear text came before TLS"));
        }
        self.conn = Conn::new(socket, Some(rustls::Connection::Server(tls)))?;
        self.conn.set_write_within(SILENCE)?;
        self.conn.handshake(Instant::now() + SILENCE)
    }

    /// Gives the place among the connections of unknown clients back: this client is known.
    pub fn give_place_back(&mut self) {
        self.admitted = None;
    }

    /// Reads and forgets data of a write that is refused.
    ///
    /// # Errors
    /// The connection broke.
    pub fn drain(&mut self, bytes: u32) -> io::Result<()> {
        let mut left = bytes as usize;
        let mut piece = vec![0; left.min(64 << 10)];
        while left > 0 {
            let more = left.min(piece.len());
            if !self.conn.read_exact(&mut piece[..more], SILENCE)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= more;
        }
        Ok(())
    }

    /// Answers a request that is in order. Data that were not read yet are read here.
    fn answer(&mut self, stream: StreamId, request: RootRequest) -> RootOutcome<Option<RootAnswer>> {
        match request {
            RootRequest::Protocol { flags, purpose, .. } => self.protocol_request(stream, flags, purpose),
            RootRequest::Login { process, user, about, .. } => self.log_in(process, &user, &about).map(Some),
            RootRequest::Authenticate { kind, credential } => self.authenticate(kind, &credential).map(Some),
            RootRequest::EndSession(id) => {
                if let Some(session) = self.service.sessions.get(&id, self.peer.ip()) {
                    self.end_session(&session);
                }
                Ok(Some(RootAnswer::Ok(Vec::new())))
            }
            RootRequest::Ping | RootRequest::Set => Ok(Some(RootAnswer::Ok(Vec::new()))),
            RootRequest::Open { place, mode, options } => self.open(&place, mode, options).map(Some),
            RootRequest::Close(file) => self.close(stream, file),
            RootRequest::Read(range) => self.read(ReadKind::Plain, stream, range),
            RootRequest::PageRead { range, .. } => self.read(ReadKind::Pages, stream, range),
            RootRequest::ReadVector { parts, path_id } => self.read_vector(stream, parts, path_id),
            RootRequest::Write(range) => self.write(range).map(Some),
            RootRequest::PageWrite { range, .. } => self.write_pages(stream, range),
            RootRequest::WriteVector { parts, is_synced } => self.write_vector(&parts, is_synced).map(Some),
            RootRequest::Sync(file) => self.sync(stream, file).map(Some),
            RootRequest::Truncate { of: FileOrPath::File(file), bytes } => self.truncate(file, bytes).map(Some),
            RootRequest::Truncate { of: FileOrPath::Path(place), bytes } => {
                self.truncate_place(&place, bytes).map(Some)
            }
            RootRequest::Stat { of, of_file_system } => self.stat(&of, of_file_system).map(Some),
            RootRequest::List { place, options } => self.list(stream, &place, options),
            RootRequest::MakeDirectory { place, with_parents } => self.make_directory(&place, with_parents).map(Some),
            RootRequest::Move { from, to } => self.rename(&from, &to).map(Some),
            RootRequest::Remove(place) => self.remove(&place, false).map(Some),
            RootRequest::RemoveDirectory(place) => self.remove(&place, true).map(Some),
            RootRequest::ChangeMode { place, mode } => self.change_mode(&place, mode).map(Some),
            RootRequest::Query { kind, file, text } => self.query(stream, kind, file, &text).map(Some),
            RootRequest::Locate(place) => self.locate(&place).map(Some),
            RootRequest::Prepare { options, more_options, lines } => {
                self.prepare(options, more_options, &lines).map(Some)
            }
            RootRequest::Attributes(attributes) => self.attributes(&attributes).map(Some),
            RootRequest::Other(code) => {
                Err(refuse(ErrorCode::Unsupported, format!("this node does not know the request {}", code.word())))
            }
            RootRequest::Bind(_) => Err(refuse(ErrorCode::InvalidRequest, "this connection has a session already")),
        }
    }

    /// Sends the answer of a request, counts it and writes it to the logs.
    fn conclude(
        &mut self,
        head: &RequestHead,
        shown: &ShownRequest,
        outcome: RootOutcome<Option<RootAnswer>>,
        began: Instant,
    ) -> io::Result<()> {
        let (status, reason) = match outcome {
            Ok(answer) => {
                if let Some(answer) = answer {
                    self.send(head.stream, &answer)?;
                }
                (200, None)
            }
            Err(RootFailure::Refused(code, reason)) => {
                self.send(head.stream, &failure::answer(code, &reason))?;
                (failure::status_of(code), Some(reason))
            }
            Err(RootFailure::Broken(error)) => return Err(error),
        };
        self.service.services.meters.answered(self.protocol(), status);
        // Reads and writes are logged when their file is closed.
        if reason.is_some() || log::is_logged(head.kind().ok()) {
            self.log(&LoggedAction {
                action: head.kind().map_or("unknown", RequestCode::word),
                target: &shown.target,
                other: shown.other.as_deref(),
                status,
                reason: reason.as_deref(),
                bytes: 0,
                began,
            });
        }
        Ok(())
    }

    /// Ends a session: this connection's own, or one that its client has lost. Files that were being written are kept for a while.
    fn end_session(&self, session: &RootSession) {
        self.service.sessions.remove(&session.id);
        session.end_streams();
        for file in session.files.take_all() {
            if let RootFile::Pulled(pulled) = &*file {
                let is_in_place = pulled.end();
                let reason = "the connection broke before the file was closed; the third-party copy has ended";
                let (status, reason) = if is_in_place { (200, None) } else { (0, Some(reason)) };
                let (written, source) = (pulled.file().lock(), pulled.source_shown());
                let entry = LoggedAction { status, reason, ..written.logged_action() };
                self.log(&LoggedAction { other: Some(&source), ..entry });
            }
            if let Ok(RootFile::Written(file)) = Arc::try_unwrap(file) {
                let file = file.into_inner();
                let reason = "the connection broke before the file was closed; it is kept for two minutes";
                self.log(&LoggedAction { status: 0, reason: Some(reason), ..file.logged_action() });
                self.service.parked.park(file);
            }
        }
    }

    /// Writes an action to the access log and to the audit log.
    pub fn log(&self, logged: &LoggedAction<'_>) {
        let LoggedAction { action, target, other, status, reason, bytes, began } = *logged;
        let access = self.session.as_ref().map(|session| session.access());
        let who = access.map_or_else(|| "nobody".to_owned(), Access::who);
        let is_anonymous = access.is_none_or(Access::is_anonymous);
        let by = if self.login.is_tls() { "roots" } else { "root" };
        let outcome = match status {
            200..=399 => "allowed",
            401 | 403 => "denied",
            _ => "failed",
        };
        let (peer, seconds) = (self.peer, began.elapsed().as_secs_f64());
        let client = self.session.as_ref().map_or(&self.client.shown, |session| &session.client);
        tracing::info!(
            target: "access", %peer, who, by, event = action, what = target, other, outcome, bytes, seconds, agent = client, error = reason,
        );
        self.service.services.audit_log.add(&Decision {
            time: web::date::rfc3339_us(now()),
            is_anonymous,
            peer,
            who: &who,
            by,
            action,
            target,
            other,
            outcome,
            status: (status > 0).then_some(status),
            reason,
            bytes,
            seconds,
        });
    }
}

/// Whether a socket has bytes to read, or has been closed, within a time.
fn is_readable(socket: &TcpStream, within: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    match poll(&mut fds, Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl AsFd for RootConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.socket().as_fd()
    }
}

impl Idle for RootConnection {
    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn idle_for(&self) -> Duration {
        IDLE_FOR
    }

    fn has_unread(&self) -> bool {
        self.conn.has_unread()
    }

    fn serve(self: Box<Self>) -> Option<Box<dyn Idle>> {
        let peer = self.peer;
        match self.run() {
            Ok(idle) => idle,
            Err(error) => {
                tracing::debug!(%peer, by = "root", %error, "the connection ended");
                None
            }
        }
    }
}

impl Drop for RootConnection {
    /// The session ends with its control connection. Files that were being written are kept for a while, for a client that comes back.
    fn drop(&mut self) {
        if self.login.phase() == LoginPhase::Bound {
            return;
        }
        if let Some(session) = self.session.clone() {
            self.end_session(&session);
        }
    }
}

//! Serves HTTP/1.1 on one connection and one thread: request after request, until the connection is idle or ends.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::x509::CertificateCheck;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use store::Source;
use web::conn::ReadError;
use web::{Body, Conn, Framing, Headers, Method, Request, Response, body};

use crate::connection_limits::ConnectionPermit;
use crate::exchange::{BodyPace, ClientPace, Exchange, KernelPiece, Length, STALLED_AFTER, became_shorter, copy_range};
use crate::kernel_tls::is_for_kernel;
use crate::service::{Rejection, Service};

/// How long the head of a request may take, from its first byte.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// How long a thread waits for the next request before the connection becomes idle: clients send a dozen requests in a row.
const NEXT_REQUEST_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Bytes of an unread request body that are skipped so that the connection can go on, and how long that may take.
const UNWANTED_BYTES_MAX: u64 = 1 << 20;
const UNWANTED_WITHIN: Duration = Duration::from_secs(5);
/// How long bytes of the client are skipped after the last answer. A reset would otherwise discard that answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// How often the kernel's counter of unacknowledged time is read.
const KERNEL_COUNTER_EVERY: Duration = Duration::from_secs(1);
/// Largest body of an answer that is sent together with its head.
const TOGETHER_BYTES_MAX: u64 = 64 << 10;

/// A connection that speaks HTTP/1.1.
pub(crate) struct Connection {
    conn: Conn,
    certificate: Option<Arc<CertificateCheck>>,
    permit: Option<ConnectionPermit>,
    /// See [`Exchange::is_restricted`].
    restricted: bool,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.socket().as_fd()
    }
}

impl Connection {
    /// A connection after the TLS handshake, if there is one.
    pub fn new(conn: Conn, certificate: Option<Arc<CertificateCheck>>, permit: Option<ConnectionPermit>) -> Connection {
        Connection { conn, certificate, permit, restricted: false }
    }

    /// Marks all requests with [`Exchange::is_restricted`].
    #[must_use]
    pub fn restricted(self) -> Connection {
        Connection { restricted: true, ..self }
    }

    /// The address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.conn.peer()
    }

    /// Whether bytes of the next request were read already.
    pub fn has_unread(&self) -> bool {
        self.conn.has_unread()
    }

    fn is_readable_within(&self, span: &Timespec) -> bool {
        let mut fds = [PollFd::new(self.conn.socket(), PollFlags::IN | PollFlags::RDHUP)];
        self.conn.has_unread() || poll(&mut fds, Some(span)).is_ok_and(|ready| ready > 0)
    }

    /// Answers requests. Returns the connection when it is idle, or when other connections wait for a thread; returns nothing when it
    /// has ended.
    pub fn serve(mut self, service: &dyn Service, others_wait: &dyn Fn() -> bool) -> Option<Connection> {
        loop {
            if !self.is_readable_within(&NEXT_REQUEST_WITHIN) {
                self.conn.free_buffers();
                return Some(self);
            }
            if !self.answer(service) {
                self.close_gracefully();
                return None;
            }
            if others_wait() {
                self.conn.free_buffers();
                return Some(self);
            }
        }
    }

    /// Ends the connection with 503. Does not wait: an answer that does not fit into the socket is lost.
    pub fn end_busy(mut self) {
        if self.conn.socket().set_nonblocking(true).is_err() {
            return;
        }
        self.send_refusal(503, "this server is busy; try again later");
        self.conn.close();
        // Unread bytes would turn the end into a reset, which overtakes the answer.
        let mut piece = [0; 1 << 14];
        for _ in 0..UNWANTED_BYTES_MAX >> 14 {
            if !matches!(io::Read::read(&mut self.conn.socket(), &mut piece), Ok(1..)) {
                break;
            }
        }
    }

    /// Answers with the reason for the refusal, and ends the connection.
    pub fn end_refused(mut self, reason: &str) {
        let within = Instant::now() + HEAD_WITHIN;
        // Reads the request first, so that a client that waits before it sends its body gets the answer.
        let _ = self.conn.read_request(within);
        self.send_refusal(403, reason);
        self.close_gracefully();
    }

    /// Answers one request. Returns whether the connection goes on.
    fn answer(&mut self, service: &dyn Service) -> bool {
        let request = match self.conn.read_request(Instant::now() + HEAD_WITHIN) {
            Ok(Some(request)) => request,
            Ok(None) => return false,
            Err(error) => return self.refuse_head(service, &error),
        };
        if self.conn.set_read_within(STALLED_AFTER).is_err() || self.conn.set_write_within(STALLED_AFTER).is_err() {
            return false;
        }
        match body::of_request(&request) {
            Ok(_) if request.has_unknown_expectation() => {
                self.refuse(service, 417, "the only expectation that this server knows is 100-continue")
            }
            Ok(framing) => {
                let mut exchange = H1::new(self, request, framing);
                service.answer(&mut exchange);
                exchange.finish()
            }
            Err(error) => self.refuse(service, error.status(), &error.to_string()),
        }
    }

    fn refuse_head(&mut self, service: &dyn Service, error: &ReadError) -> bool {
        match error {
            ReadError::Head(head) => self.refuse(service, head.status(), &head.to_string()),
            ReadError::Io(io) if io.kind() == io::ErrorKind::TimedOut => {
                self.refuse(service, 408, "the request did not come in time")
            }
            _ => false,
        }
    }

    /// Answers bytes that do not parse as a request; the connection ends after that.
    fn refuse(&mut self, service: &dyn Service, status: u16, reason: &str) -> bool {
        service.refused(&Rejection::Request { peer: self.conn.peer(), status, reason });
        self.send_refusal(status, reason);
        false
    }

    fn send_refusal(&mut self, status: u16, reason: &str) {
        let text = format!("{reason}\n");
        let mut head = Response::new(status)
            .with("Content-Type", "text/plain; charset=utf-8")
            .with("Content-Length", text.len().to_string())
            .with("Connection", "close");
        if status == 503 {
            head = head.with("Retry-After", "10");
        }
        let _ = self.conn.set_write_within(STALLED_AFTER);
        let _ = self.conn.write_all(&[head.to_bytes(), text.into_bytes()].concat());
    }

    /// Closes the connection and skips what the client still sends: closing with bytes unread sends a reset, which overtakes the
    /// answer.
    fn close_gracefully(&mut self) {
        self.conn.close();
        let deadline = Instant::now() + CLOSE_WITHIN;
        let mut piece = [0; 1 << 16];
        while Instant::now() < deadline {
            if self.conn.set_read_within(Duration::from_secs(1)).is_err() {
                return;
            }
            match io::Read::read(&mut self.conn.socket(), &mut piece) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let _ = self.conn.socket().shutdown(Shutdown::Both);
        drop(self.permit.take());
    }
}

/// The state of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The head was not sent yet.
    None,
    /// This number of bytes is still to be sent.
    Left(u64),
    /// Chunks follow.
    Chunks,
    /// Bytes follow until the end of the connection.
    Raw,
    /// The answer is complete.
    Done,
}

/// One request on a connection of HTTP/1.1.
pub(crate) struct H1<'a> {
    connection: &'a mut Connection,
    request: Request,
    body: Body,
    body_ended: bool,
    /// The client waits for `100 Continue` before it sends its body.
    waits_to_send: bool,
    answer: Answer,
    /// The head, held back to be sent with the first bytes of the body.
    held_head: Vec<u8>,
    keeps_alive: bool,
    /// The kernel is to seal the answer's body; the connection ends with it.
    kernel_seals: bool,
    broken: bool,
    /// Fields to add to the answer's head.
    extra_fields: Headers,
    body_pace: BodyPace,
    client_pace: ClientPace,
    /// When the kernel's counter of unacknowledged time was last read, and its value.
    kernel_counter: (Instant, Option<Duration>),
}

impl<'a> H1<'a> {
    fn new(connection: &'a mut Connection, request: Request, framing: Framing) -> H1<'a> {
        let is_empty = framing == Framing::Length(0);
        let body = Body::new(framing);
        H1 {
            connection,
            waits_to_send: request.waits_for_continue() && !is_empty,
            keeps_alive: request.keeps_connection(),
            request,
            body_pace: BodyPace::new(body.length()),
            body,
            body_ended: is_empty,
            answer: Answer::None,
            held_head: Vec::new(),
            kernel_seals: false,
            broken: false,
            extra_fields: Headers::new(),
            client_pace: ClientPace::default(),
            kernel_counter: (Instant::now(), None),
        }
    }

    fn is_head(&self) -> bool {
        self.request.method == Method::Head
    }

    /// Marks the connection as broken after an error.
    fn note_failure<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.broken |= result.is_err();
        result
    }

    /// Counts bytes that were sent, and the time that the server waited for the client. That time comes from the kernel, which
    /// counts it while bytes are unsent or unacknowledged; so a slow disk of the server does not count as a slow client.
    fn count_sent(&mut self, bytes: u64) -> io::Result<()> {
        let is_due = self.kernel_counter.0.elapsed() >= KERNEL_COUNTER_EVERY;
        let waited = if is_due { self.read_kernel_counter() } else { Duration::ZERO };
        self.client_pace.count_sent(bytes, waited)
    }

    /// The waiting time since the last call; zero at the first call.
    fn read_kernel_counter(&mut self) -> Duration {
        let busy = sys::tcp::info(self.connection.conn.socket()).map(|info| info.busy).ok();
        let before = std::mem::replace(&mut self.kernel_counter, (Instant::now(), busy)).1;
        before.zip(busy).map_or(Duration::ZERO, |(before, now)| now.saturating_sub(before))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = self.connection.conn.write_all(bytes).and_then(|()| self.count_sent(bytes.len() as u64));
        self.note_failure(sent)
    }

    fn flush_head(&mut self) -> io::Result<()> {
        if self.held_head.is_empty() {
            return Ok(());
        }
        let held_head = std::mem::take(&mut self.held_head);
        self.write_all(&held_head)
    }

    /// Whether the connection can go on: the answer is complete and the request's body was read or skipped.
    fn finish(mut self) -> bool {
        if self.answer == Answer::None || self.flush_head().is_err() || self.broken {
            return false;
        }
        if !matches!(self.answer, Answer::Done | Answer::Left(0)) || !self.keeps_alive {
            return false;
        }
        let mut piece = [0; 1 << 14];
        let deadline = Instant::now() + UNWANTED_WITHIN;
        while !self.body_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.connection.conn.set_read_within(left).is_err() {
                return false;
            }
            match self.connection.conn.read_body(&mut self.body, &mut piece) {
                Ok(0) => self.body_ended = true,
                Ok(_) if self.body.bytes_read() <= UNWANTED_BYTES_MAX => {}
                _ => return false,
            }
        }
        true
    }
}

impl Exchange for H1<'_> {
    fn request(&self) -> &Request {
        &self.request
    }

    fn peer(&self) -> SocketAddr {
        self.connection.conn.peer()
    }

    fn is_secure(&self) -> bool {
        self.connection.conn.is_secure()
    }

    fn certificate(&self) -> Option<&Arc<CertificateCheck>> {
        self.connection.certificate.as_ref()
    }

    fn body_length(&self) -> Option<u64> {
        self.body.length()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.body_ended {
            return Ok(0);
        }
        if std::mem::take(&mut self.waits_to_send) {
            let sent = self.connection.conn.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.note_failure(sent)?;
        }
        let within = self.body_pace.time_left().and_then(|within| self.connection.conn.set_read_within(within));
        self.note_failure(within)?;
        let got = self.connection.conn.read_body(&mut self.body, buffer);
        let got = self.note_failure(got)?;
        let paced = self.body_pace.count_received(got);
        self.note_failure(paced)?;
        self.body_ended |= got == 0 && !buffer.is_empty();
        Ok(got)
    }

    fn trailers(&mut self) -> Headers {
        self.body.trailers().clone()
    }

    fn expect_short_body(&mut self) {
        self.body_pace.expect_short_body();
    }

    fn add_to_answer(&mut self, fields: Headers) {
        self.extra_fields = fields;
    }

    fn begin(&mut self, mut response: Response, length: Length) -> io::Result<()> {
        // A client that still waits may or may not send its body now: the body would be ambiguous with the next request.
        self.keeps_alive &= !self.waits_to_send && !self.broken;
        // A connection does not go on either if more of the body is to come than is skipped.
        let to_come = self.body.length().unwrap_or(0).saturating_sub(self.body.bytes_read());
        self.keeps_alive &= to_come <= UNWANTED_BYTES_MAX;
        let bodiless = matches!(response.status, 204 | 304);
        self.answer = match length {
            _ if bodiless => Answer::Done,
            Length::Known(bytes) => {
                response.headers.set("Content-Length", bytes.to_string());
                self.kernel_seals = !self.is_head() && is_for_kernel(&self.connection.conn, bytes);
                self.keeps_alive &= !self.kernel_seals;
                if self.is_head() { Answer::Done } else { Answer::Left(bytes) }
            }
            Length::Open if self.request.minor == 0 => {
                self.keeps_alive = false;
                Answer::Raw
            }
            Length::Open => {
                response.headers.set("Transfer-Encoding", "chunked");
                if self.is_head() { Answer::Done } else { Answer::Chunks }
            }
        };
        crate::exchange::add_common_fields(&mut response, &self.extra_fields);
        if !self.keeps_alive {
            response.headers.set("Connection", "close");
        } else if self.request.minor == 0 {
            response.headers.set("Connection", "keep-alive");
        }
        self.held_head = response.to_bytes();
        // An answer of unknown length may grow slowly: its head is sent at once.
        match self.answer {
            Answer::Left(_) => Ok(()),
            _ => self.flush_head(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.answer {
            Answer::Left(left) if (bytes.len() as u64) <= left => {
                self.answer = Answer::Left(left - bytes.len() as u64);
                if self.held_head.is_empty() {
                    return self.write_all(bytes);
                }
                self.held_head.extend_from_slice(bytes);
                self.flush_head()
            }
            Answer::Chunks if !bytes.is_empty() => {
                let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
                self.write_all(&chunk)
            }
            Answer::Raw => self.write_all(bytes),
            // This answer has no body.
            _ => Ok(()),
        }
    }

    fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64, sent: &mut dyn FnMut(u64)) -> io::Result<()> {
        let hands_over = std::mem::take(&mut self.kernel_seals);
        let prepared = if hands_over { self.connection.conn.let_kernel_seal() } else { Ok(()) };
        self.note_failure(prepared)?;
        if bytes > TOGETHER_BYTES_MAX && self.kernel_counter.1.is_none() {
            self.read_kernel_counter();
        }
        let file = source.descriptor().filter(|_| self.connection.conn.sends_files() && bytes > TOGETHER_BYTES_MAX);
        let (Answer::Left(left), Some(file)) = (self.answer, file) else {
            return copy_range(source, offset, bytes, &mut |piece| {
                self.write(piece)?;
                sent(piece.len() as u64);
                Ok(())
            });
        };
        let head = std::mem::take(&mut self.held_head);
        let conn = &mut self.connection.conn;
        let prepared = conn.hold_short_segments(true).and_then(|()| conn.write_all(&head));
        self.note_failure(prepared)?;
        let mut at = 0;
        let mut piece = KernelPiece::default();
        while at < bytes {
            let begun = Instant::now();
            let result = match self.connection.conn.send_file(file, offset + at, piece.bytes().min(bytes - at)) {
                Ok(0) => Err(became_shorter()),
                Ok(taken) => self.count_sent(taken).map(|()| taken),
                other => other,
            };
            let taken = self.note_failure(result)?;
            sent(taken);
            at += taken;
            piece.took(begun.elapsed());
        }
        let ended = self.connection.conn.hold_short_segments(false);
        self.note_failure(ended)?;
        self.answer = Answer::Left(left - bytes);
        Ok(())
    }

    fn end(&mut self, trailers: &Headers) -> io::Result<()> {
        self.flush_head()?;
        match self.answer {
            Answer::Chunks => {
                let mut text = "0\r\n".to_owned();
                trailers.write(&mut text);
                text.push_str("\r\n");
                self.write_all(text.as_bytes())?;
                self.answer = Answer::Done;
            }
            Answer::Left(0) => self.answer = Answer::Done,
            Answer::Raw => self.keeps_alive = false,
            _ => {}
        }
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.answer != Answer::None
    }

    fn is_closed_by_peer(&self) -> bool {
        self.connection.conn.is_closed_by_peer()
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(self.connection.conn.socket())
    }

    fn is_restricted(&self) -> bool {
        self.connection.restricted
    }

    fn unread_bytes(&self) -> u64 {
        self.connection.conn.unread_bytes() as u64
    }
}

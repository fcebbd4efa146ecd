//! HTTP/1.1 on a connection of its own thread: request after request, until there is nothing more to read.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use store::Source;
use web::conn::ReadError;
use web::{Body, Conn, Framing, Headers, Method, Request, Response, body};

use super::Web;
use super::exchange::{Exchange, Length, Pace, pump, shorter};
use crate::crowd::Seat;

/// For a whole head, from its first byte.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// A thread stays with a connection that long after an answer: who asks twelve questions asks them at once.
const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Bytes of a body that nobody wanted which are read, so that the connection can go on, and how long they may take.
const UNWANTED_BYTES_MAX: u64 = 1 << 20;
const UNWANTED_WITHIN: Duration = Duration::from_secs(5);
/// How long a client that still sends is listened to after our last word, lest a reset take that from it.
const FAREWELL: Duration = Duration::from_secs(2);
/// Without a byte for that long a body has stalled, and an answer is not read any more.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
/// An answer's body up to here goes out with its head, in one piece.
const TOGETHER_BYTES_MAX: u64 = 64 << 10;

/// A connection that speaks HTTP/1.1.
pub(crate) struct Connection {
    conn: Conn,
    client_name: Option<String>,
    seat: Option<Seat>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.socket().as_fd()
    }
}

impl Connection {
    /// Over a line whose handshake is made.
    pub fn new(conn: Conn, client_name: Option<String>, seat: Option<Seat>) -> Connection {
        Connection { conn, client_name, seat }
    }

    fn speaks_within(&self, span: &Timespec) -> bool {
        let mut fds = [PollFd::new(self.conn.socket(), PollFlags::IN | PollFlags::RDHUP)];
        self.conn.has_unread() || poll(&mut fds, Some(span)).is_ok_and(|ready| ready > 0)
    }

    /// Answers what is asked; gives the connection back when it has nothing to say for a moment.
    pub fn serve(mut self, web: &Web) -> Option<Connection> {
        loop {
            if !self.speaks_within(&LINGER) {
                self.conn.rest();
                return Some(self);
            }
            if !self.answer(web) {
                self.farewell();
                return None;
            }
        }
    }

    /// Says why there is no answer here, and ends.
    pub fn turn_away(mut self, reason: &str) {
        let within = Instant::now() + HEAD_WITHIN;
        // Read first, so that a client that waits with its body hears the answer.
        let _ = self.conn.read_request(within);
        self.say_no(403, reason);
        self.farewell();
    }

    /// One request; whether the connection goes on.
    fn answer(&mut self, web: &Web) -> bool {
        let request = match self.conn.read_request(Instant::now() + HEAD_WITHIN) {
            Ok(Some(request)) => request,
            Ok(None) => return false,
            Err(error) => return self.refuse_head(web, &error),
        };
        if self.conn.set_read_within(SILENCE).is_err() || self.conn.set_write_within(SILENCE).is_err() {
            return false;
        }
        match body::of_request(&request) {
            Ok(_) if request.expects_too_much() => {
                self.refuse(web, 417, "of expectations, only 100-continue is known here")
            }
            Ok(framing) => {
                let mut exchange = H1::new(self, request, framing);
                web.answer(&mut exchange);
                exchange.finish()
            }
            Err(error) => self.refuse(web, error.status(), &error.to_string()),
        }
    }

    fn refuse_head(&mut self, web: &Web, error: &ReadError) -> bool {
        match error {
            ReadError::Head(head) => self.refuse(web, head.status(), &head.to_string()),
            ReadError::Io(io) if io.kind() == io::ErrorKind::TimedOut => {
                self.refuse(web, 408, "the request did not come in time")
            }
            _ => false,
        }
    }

    /// An answer to what is no request; the connection ends with it.
    fn refuse(&mut self, web: &Web, status: u16, reason: &str) -> bool {
        web.note_garbage(self.conn.peer(), status, reason);
        self.say_no(status, reason);
        false
    }

    fn say_no(&mut self, status: u16, reason: &str) {
        let text = format!("{reason}\n");
        let head = Response::new(status)
            .with("Content-Type", "text/plain; charset=utf-8")
            .with("Content-Length", text.len().to_string())
            .with("Connection", "close");
        let _ = self.conn.set_write_within(SILENCE);
        let _ = self.conn.write_all(&[head.to_bytes(), text.into_bytes()].concat());
    }

    /// Closing with bytes unread would send a reset, which overtakes the last word.
    fn farewell(&mut self) {
        self.conn.close();
        let deadline = Instant::now() + FAREWELL;
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
        drop(self.seat.take());
    }
}

/// What the answer's body still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// No head yet.
    None,
    /// So many bytes.
    Left(u64),
    /// Chunks, or until the end of the connection.
    Chunks,
    Raw,
    /// All is said.
    Done,
}

/// One request on such a connection.
pub(crate) struct H1<'a> {
    line: &'a mut Connection,
    request: Request,
    body: Body,
    body_over: bool,
    /// The client waits for a word before it sends its body.
    waits: bool,
    answer: Answer,
    /// The head, until the body's first bytes are there to go with it.
    held: Vec<u8>,
    keeps: bool,
    broken: bool,
    pace: Pace,
}

impl<'a> H1<'a> {
    fn new(line: &'a mut Connection, request: Request, framing: Framing) -> H1<'a> {
        let (waits, keeps) = (request.waits() && framing != Framing::Length(0), request.keeps());
        let body_over = framing == Framing::Length(0);
        let (answer, held, pace) = (Answer::None, Vec::new(), Pace::new());
        H1 { line, request, body: Body::new(framing), body_over, waits, answer, held, keeps, broken: false, pace }
    }

    fn is_head(&self) -> bool {
        self.request.method == Method::Head
    }

    fn guarded<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.broken |= result.is_err();
        result
    }

    fn flush_head(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        let sent = self.line.conn.write_all(&held);
        self.guarded(sent)
    }

    /// Whether the connection can go on: the body that nobody read is out of the way, and all was answered.
    fn finish(mut self) -> bool {
        if self.answer == Answer::None || self.flush_head().is_err() || self.broken {
            return false;
        }
        if !matches!(self.answer, Answer::Done | Answer::Left(0)) || !self.keeps {
            return false;
        }
        let mut piece = [0; 1 << 14];
        let deadline = Instant::now() + UNWANTED_WITHIN;
        while !self.body_over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.line.conn.set_read_within(left).is_err() {
                return false;
            }
            match self.line.conn.read_body(&mut self.body, &mut piece) {
                Ok(0) => self.body_over = true,
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
        self.line.conn.peer()
    }

    fn is_secure(&self) -> bool {
        self.line.conn.tls().is_some()
    }

    fn client_name(&self) -> Option<&str> {
        self.line.client_name.as_deref()
    }

    fn body_length(&self) -> Option<u64> {
        self.body.length()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.body_over {
            return Ok(0);
        }
        if std::mem::take(&mut self.waits) {
            let sent = self.line.conn.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.guarded(sent)?;
        }
        let got = self.line.conn.read_body(&mut self.body, buffer);
        let got = self.guarded(got)?;
        let paced = self.pace.took(got);
        self.guarded(paced)?;
        self.body_over |= got == 0 && !buffer.is_empty();
        Ok(got)
    }

    fn begin(&mut self, mut response: Response, length: Length) -> io::Result<()> {
        // A client that still waits may or may not send its body now: nobody could tell it from the next request.
        self.keeps &= !self.waits && !self.broken;
        // Nor does one go on that has more of a body to come than is read past.
        let to_come = self.body.length().unwrap_or(0).saturating_sub(self.body.bytes_read());
        self.keeps &= to_come <= UNWANTED_BYTES_MAX;
        let bodiless = matches!(response.status, 204 | 304);
        self.answer = match length {
            _ if bodiless => Answer::Done,
            Length::Known(bytes) => {
                response.headers.set("Content-Length", bytes.to_string());
                if self.is_head() { Answer::Done } else { Answer::Left(bytes) }
            }
            Length::Open if self.request.minor == 0 => {
                self.keeps = false;
                Answer::Raw
            }
            Length::Open => {
                response.headers.set("Transfer-Encoding", "chunked");
                if self.is_head() { Answer::Done } else { Answer::Chunks }
            }
        };
        super::dress(&mut response);
        if !self.keeps {
            response.headers.set("Connection", "close");
        } else if self.request.minor == 0 {
            response.headers.set("Connection", "keep-alive");
        }
        self.held = response.to_bytes();
        // What comes bit by bit is wanted at once.
        match self.answer {
            Answer::Left(_) => Ok(()),
            _ => self.flush_head(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.answer {
            Answer::Left(left) if (bytes.len() as u64) <= left => {
                self.answer = Answer::Left(left - bytes.len() as u64);
                let sent = if self.held.is_empty() {
                    self.line.conn.write_all(bytes)
                } else {
                    self.held.extend_from_slice(bytes);
                    let held = std::mem::take(&mut self.held);
                    self.line.conn.write_all(&held)
                };
                self.guarded(sent)
            }
            Answer::Chunks if !bytes.is_empty() => {
                let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
                let sent = self.line.conn.write_all(&chunk);
                self.guarded(sent)
            }
            Answer::Raw => {
                let sent = self.line.conn.write_all(bytes);
                self.guarded(sent)
            }
            // Nobody waits for a body.
            _ => Ok(()),
        }
    }

    fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64) -> io::Result<()> {
        let by_kernel = source.descriptor().filter(|_| self.line.conn.sends_files());
        let (Answer::Left(left), Some(file)) = (self.answer, by_kernel) else {
            return pump(source, offset, bytes, &mut |piece| self.write(piece));
        };
        if bytes <= TOGETHER_BYTES_MAX {
            return pump(source, offset, bytes, &mut |piece| self.write(piece));
        }
        let head = std::mem::take(&mut self.held);
        let sent = self.line.conn.write_before_body(&head);
        self.guarded(sent)?;
        let mut at = 0;
        while at < bytes {
            let sent = match self.line.conn.send_file(file, offset + at, bytes - at) {
                Ok(0) => Err(shorter()),
                other => other,
            };
            at += self.guarded(sent)?;
        }
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
                let sent = self.line.conn.write_all(text.as_bytes());
                self.guarded(sent)?;
                self.answer = Answer::Done;
            }
            Answer::Left(0) => self.answer = Answer::Done,
            Answer::Raw => self.keeps = false,
            _ => {}
        }
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.answer != Answer::None
    }

    fn is_gone(&self) -> bool {
        self.line.conn.is_gone()
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(self.line.conn.socket())
    }

    fn unread_bytes(&self) -> u64 {
        self.line.conn.unread_bytes() as u64
    }
}

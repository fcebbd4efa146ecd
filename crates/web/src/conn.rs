//! One blocking connection, of either role, over TCP or TLS: heads and bodies come in, anything goes out, files by `sendfile`
//! where the line is clear. Every wait has a bound.

mod files;
mod sealed;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;

use crate::body::{Chunks, Framing, Next};
use crate::head::{HeadError, Request, Response, parse_request, parse_response};
use crate::headers::Headers;

/// Bytes asked for at once while heads are read.
const SIP_BYTES: usize = 8 << 10;
/// Bytes of ciphertext asked for at once while a body is read.
const GULP_BYTES: usize = 256 << 10;
/// Bytes of plaintext that TLS takes before it wants to write.
const TLS_PENDING_BYTES: usize = 512 << 10;

/// A connection.
pub struct Conn {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    peer: SocketAddr,
    /// Bytes of the peer that nobody has taken yet, decrypted.
    inbox: Vec<u8>,
    taken: usize,
    /// Ciphertext that TLS has not taken yet.
    cipher: Vec<u8>,
    cipher_taken: usize,
    /// Bytes that TLS has decrypted and that are still with it.
    decrypted: usize,
    /// The peer has said in TLS that nothing more comes; a line that is cut says no such thing.
    farewell: bool,
    /// What the socket's own timeouts are set to, so that they are set only where they change.
    read_within: Option<Duration>,
    write_within: Option<Duration>,
    /// When what is being read has to be there, however many reads of the socket it takes.
    until: Option<Instant>,
}

/// What a connection is made of. What was read ahead comes before what the socket still has.
pub struct Parts {
    /// The socket, which blocks.
    pub socket: TcpStream,
    /// TLS, if it is spoken; it may hold plaintext of the peer.
    pub tls: Option<Connection>,
    /// Bytes of the peer that nobody has taken, decrypted; TLS's own come after these.
    pub inbox: Vec<u8>,
    /// Ciphertext that TLS has not taken.
    pub cipher: Vec<u8>,
}

/// Why no head came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are none.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The line broke, or time ran out.
    #[error("the connection broke")]
    Io(#[from] io::Error),
}

/// Where a body stands.
#[derive(Clone, Debug)]
pub struct Body {
    framing: Framing,
    chunks: Chunks,
    read: u64,
}

impl Body {
    /// A body that begins now.
    pub fn new(framing: Framing) -> Body {
        Body { framing, chunks: Chunks::default(), read: 0 }
    }

    /// How many bytes it has, where that was said.
    pub fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether only the end of the connection ends it.
    pub fn ends_with_line(&self) -> bool {
        self.framing == Framing::UntilClose
    }

    /// The fields behind it; complete once a read has found its end.
    pub fn trailers(&self) -> &Headers {
        self.chunks.trailers()
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// What the system calls a wait that ran out.
fn plainly(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { timed_out() } else { error }
}

impl Conn {
    /// Over a connected socket; with TLS where a session of it is given, whose handshake is still to come.
    pub fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Conn> {
        let peer = socket.peer_addr()?;
        socket.set_nonblocking(false)?;
        let mut tls = tls.map(Box::new);
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(Some(TLS_PENDING_BYTES));
        }
        let (inbox, cipher) = (Vec::new(), Vec::new());
        let (read_within, write_within) = (socket.read_timeout()?, socket.write_timeout()?);
        Ok(Conn {
            socket,
            tls,
            peer,
            inbox,
            taken: 0,
            cipher,
            cipher_taken: 0,
            decrypted: 0,
            farewell: false,
            read_within,
            write_within,
            until: None,
        })
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The socket, to wait on or to ask for facts.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// TLS, if it is spoken.
    pub fn tls(&self) -> Option<&Connection> {
        self.tls.as_deref()
    }

    /// What it is made of, for another protocol.
    pub fn into_parts(mut self) -> Parts {
        let inbox = self.inbox.split_off(self.taken.min(self.inbox.len()));
        let cipher = self.cipher.split_off(self.cipher_taken.min(self.cipher.len()));
        Parts { socket: self.socket, tls: self.tls.map(|tls| *tls), inbox, cipher }
    }

    /// How long a read may wait for a byte.
    pub fn set_read_within(&mut self, within: Duration) -> io::Result<()> {
        if self.read_within != Some(within) {
            self.socket.set_read_timeout(Some(within))?;
            self.read_within = Some(within);
        }
        Ok(())
    }

    /// How long a write may wait for room.
    pub fn set_write_within(&mut self, within: Duration) -> io::Result<()> {
        if self.write_within != Some(within) {
            self.socket.set_write_timeout(Some(within))?;
            self.write_within = Some(within);
        }
        Ok(())
    }

    fn read_before(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timed_out());
        }
        self.until = Some(deadline);
        self.set_read_within(left)
    }

    /// Before one more read of the socket for the same thing: a peer that sends a byte now and then, of a record of TLS or of
    /// the line that begins a chunk, must not begin the wait anew with each.
    fn read_on(&mut self) -> io::Result<()> {
        self.until.map_or(Ok(()), |until| self.read_before(until))
    }

    /// Whether bytes of the peer are here that nobody has taken.
    pub fn has_unread(&self) -> bool {
        self.unread_bytes() > 0
    }

    /// How many they are, as far as TLS tells: with ciphertext it is about as many.
    pub fn unread_bytes(&self) -> usize {
        self.inbox.len() - self.taken + self.cipher.len() - self.cipher_taken + self.decrypted
    }

    /// Gives back the memory that an idle connection has no use for.
    pub fn rest(&mut self) {
        if !self.has_unread() {
            (self.inbox, self.cipher) = (Vec::new(), Vec::new());
            (self.taken, self.cipher_taken) = (0, 0);
        }
    }

    /// Whether the peer has hung up, looked at, not waited for. What it sends meanwhile stays unread.
    pub fn is_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let hung_up = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) && fds[0].revents().intersects(hung_up)
    }

    /// A request; none where the peer closed between two of them. The deadline holds for all of the head.
    pub fn read_request(&mut self, deadline: Instant) -> Result<Option<Request>, ReadError> {
        loop {
            // Empty lines before a request are forgiven (RFC 9112, section 2.2).
            while self.inbox[self.taken..].starts_with(b"\r\n") {
                self.taken += 2;
            }
            if self.taken < self.inbox.len()
                && let Some((request, taken)) = parse_request(&self.inbox[self.taken..])?
            {
                self.taken += taken;
                return Ok(Some(request));
            }
            self.read_before(deadline)?;
            if self.sip()? == 0 {
                let between = self.taken == self.inbox.len();
                return if between { Ok(None) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) };
            }
        }
    }

    /// An answer, interim ones included. The deadline holds for all of the head.
    pub fn read_response(&mut self, deadline: Instant) -> Result<Response, ReadError> {
        loop {
            if self.taken < self.inbox.len()
                && let Some((response, taken)) = parse_response(&self.inbox[self.taken..])?
            {
                self.taken += taken;
                return Ok(response);
            }
            self.read_before(deadline)?;
            if self.sip()? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Takes a little more into the inbox; 0 at the end.
    fn sip(&mut self) -> io::Result<usize> {
        if self.taken > 0 {
            self.inbox.drain(..self.taken);
            self.taken = 0;
        }
        let before = self.inbox.len();
        self.inbox.resize(before + SIP_BYTES, 0);
        let mut inbox = std::mem::take(&mut self.inbox);
        let got = self.read_raw(&mut inbox[before..], SIP_BYTES);
        inbox.truncate(before + *got.as_ref().unwrap_or(&0));
        self.inbox = inbox;
        got
    }

    /// Reads past the inbox.
    fn read_raw(&mut self, buffer: &mut [u8], ahead: usize) -> io::Result<usize> {
        if self.tls.is_some() {
            return self.read_sealed(buffer, ahead);
        }
        loop {
            match (&self.socket).read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(plainly),
            }
        }
    }

    /// Some bytes of a body; 0 at its end. A line that closes before is an error; so is, for a body that ends with its line,
    /// a line in TLS that is cut without a farewell (RFC 9112, section 9.8).
    pub fn read_body(&mut self, body: &mut Body, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let within = self.read_within;
        self.until = within.map(|within| Instant::now() + within);
        let got = self.read_piece(body, buffer);
        if let Some(within) = within {
            self.set_read_within(within)?;
        }
        got
    }

    fn read_piece(&mut self, body: &mut Body, buffer: &mut [u8]) -> io::Result<usize> {
        let got = match body.framing {
            Framing::Length(bytes) => {
                let left = (bytes - body.read).min(buffer.len() as u64) as usize;
                if left == 0 {
                    return Ok(0);
                }
                self.read_some(&mut buffer[..left])?
            }
            Framing::UntilClose => self.read_some(buffer)?,
            Framing::Chunked => self.read_chunk(body, buffer)?,
        };
        let is_whole = match body.framing {
            Framing::Length(_) => false,
            // In clear nobody can tell; in TLS whoever cuts the line cannot take leave in the peer's name.
            Framing::UntilClose => self.tls.is_none() || self.farewell,
            Framing::Chunked => true,
        };
        if got == 0 && !is_whole {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        body.read += got as u64;
        Ok(got)
    }

    fn read_chunk(&mut self, body: &mut Body, buffer: &mut [u8]) -> io::Result<usize> {
        let mut again = false;
        loop {
            let next = body.chunks.next(&self.inbox[self.taken..]);
            match next.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))? {
                Next::End => return Ok(0),
                Next::Frame(taken) => self.taken += taken,
                Next::Data(left) => {
                    let most = left.min(buffer.len() as u64) as usize;
                    let got = self.read_some(&mut buffer[..most])?;
                    if got == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    body.chunks.took(got as u64);
                    return Ok(got);
                }
                Next::More => {
                    if std::mem::replace(&mut again, true) {
                        self.read_on()?;
                    }
                    if self.sip()? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    /// From the inbox, else from the line.
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let waiting = &self.inbox[self.taken..];
        if waiting.is_empty() {
            return self.read_raw(buffer, GULP_BYTES);
        }
        let got = waiting.len().min(buffer.len());
        buffer[..got].copy_from_slice(&waiting[..got]);
        self.taken += got;
        Ok(got)
    }

    /// Reads a whole body that is not longer than `most` bytes.
    pub fn read_all(&mut self, body: &mut Body, most: usize) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut piece = vec![0; most.min(16 << 10)];
        loop {
            match self.read_body(body, &mut piece)? {
                0 => return Ok(all),
                got if all.len() + got > most => {
                    let error = format!("the body is longer than {most} bytes");
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
                }
                got => all.extend_from_slice(&piece[..got]),
            }
        }
    }

    /// Sends all of the bytes.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_none() {
            return (&self.socket).write_all(bytes).map_err(plainly);
        }
        let mut at = 0;
        while at < bytes.len() {
            let Some(tls) = &mut self.tls else { break };
            at += tls.writer().write(&bytes[at..])?;
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what TLS holds back.
    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut &self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(plainly(e)),
            }
        }
        Ok(())
    }

    /// Ends what we send; the peer may still say something.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.flush();
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

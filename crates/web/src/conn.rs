//! One blocking connection of a client or a server, over TCP or TLS. It reads heads and bodies and writes bytes; files go by `sendfile`
//! where the connection is in clear text, or the kernel seals it. Every wait has a bound.

mod files;
mod kernel_tls;
mod tls;

pub use kernel_tls::KERNEL_SEALED_BYTES_MAX;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;

use crate::body::{ChunkEvent, Chunks, Framing};
use crate::head::{HeadError, Request, Response, parse_request, parse_response};
use crate::headers::Headers;

/// Bytes of one read while a head is read.
const HEAD_READ_BYTES: usize = 8 << 10;
/// Bytes of ciphertext of one read while a body is read.
const BODY_READ_BYTES: usize = 256 << 10;
/// The most bytes of plaintext that TLS buffers before they are written.
const TLS_PENDING_BYTES: usize = 512 << 10;

/// A connection.
pub struct Conn {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    /// The kernel seals what is sent, in place of `tls`.
    kernel_seals: bool,
    peer: SocketAddr,
    /// Decrypted bytes of the peer; those up to `taken` have been used.
    inbox: Vec<u8>,
    taken: usize,
    /// Ciphertext; TLS has taken the bytes up to `cipher_taken`.
    cipher: Vec<u8>,
    cipher_taken: usize,
    /// Bytes that TLS has decrypted and still holds.
    decrypted: usize,
    /// The peer has sent the `close_notify` of TLS. It is missing where the connection was cut.
    close_notified: bool,
    /// The present timeouts of the socket, so that they are set only when they change.
    read_within: Option<Duration>,
    write_within: Option<Duration>,
    /// The deadline of the present read, which may need several reads of the socket.
    read_deadline: Option<Instant>,
}

/// The parts of a connection. The bytes that were read ahead come before those that the socket still holds.
pub struct Parts {
    /// The socket, in blocking mode.
    pub socket: TcpStream,
    /// The TLS session, if any; it may hold plaintext of the peer.
    pub tls: Option<Connection>,
    /// Unused decrypted bytes of the peer; those in the TLS session come after these.
    pub inbox: Vec<u8>,
    /// Ciphertext that TLS has not taken.
    pub cipher: Vec<u8>,
}

/// Why no head was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are not a head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The connection broke, or the deadline has passed.
    #[error("the connection broke")]
    Io(#[from] io::Error),
}

/// A body that is being read.
#[derive(Clone, Debug)]
pub struct Body {
    framing: Framing,
    chunks: Chunks,
    read: u64,
}

impl Body {
    /// A body of which nothing has been read.
    pub fn new(framing: Framing) -> Body {
        Body { framing, chunks: Chunks::default(), read: 0 }
    }

    /// Its length in bytes, where the head gives it.
    pub fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether the end of the connection is the end of the body.
    pub fn ends_with_connection(&self) -> bool {
        self.framing == Framing::UntilClose
    }

    /// Its trailer fields; complete once a read has found the end.
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

/// Reports a timeout of the socket as [`io::ErrorKind::TimedOut`].
fn as_timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { timed_out() } else { error }
}

impl Conn {
    /// A connection over a connected socket; with `tls`, the handshake is still to be made.
    ///
    /// # Errors
    /// The socket is not connected, or cannot be configured.
    pub fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Conn> {
        let peer = socket.peer_addr()?;
        socket.set_nonblocking(false)?;
        let mut tls = tls.map(Box::new);
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(Some(TLS_PENDING_BYTES));
        }
        let read_within = socket.read_timeout()?;
        let write_within = socket.write_timeout()?;
        Ok(Conn {
            socket,
            tls,
            kernel_seals: false,
            peer,
            inbox: Vec::new(),
            taken: 0,
            cipher: Vec::new(),
            cipher_taken: 0,
            decrypted: 0,
            close_notified: false,
            read_within,
            write_within,
            read_deadline: None,
        })
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The socket, to poll or to query.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The TLS session, if any.
    pub fn tls(&self) -> Option<&Connection> {
        self.tls.as_deref()
    }

    /// Takes the connection apart, for another protocol.
    pub fn into_parts(mut self) -> Parts {
        let inbox = self.inbox.split_off(self.taken.min(self.inbox.len()));
        let cipher = self.cipher.split_off(self.cipher_taken.min(self.cipher.len()));
        Parts { socket: self.socket, tls: self.tls.map(|tls| *tls), inbox, cipher }
    }

    /// Sets the longest wait of a read for a byte.
    ///
    /// # Errors
    /// The socket refuses the timeout.
    pub fn set_read_within(&mut self, within: Duration) -> io::Result<()> {
        if self.read_within != Some(within) {
            self.socket.set_read_timeout(Some(within))?;
            self.read_within = Some(within);
        }
        Ok(())
    }

    /// Sets the longest wait of a write for space in the socket's buffer.
    ///
    /// # Errors
    /// The socket refuses the timeout.
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
        self.read_deadline = Some(deadline);
        self.set_read_within(left)
    }

    /// Applies the deadline of the present read before another read of the socket. A peer that sends a TLS record, or the first line
    /// of a chunk, byte by byte must not restart the timeout with each byte.
    fn apply_deadline(&mut self) -> io::Result<()> {
        self.read_deadline.map_or(Ok(()), |deadline| self.read_before(deadline))
    }

    /// Whether unused bytes of the peer have been read.
    pub fn has_unread(&self) -> bool {
        self.unread_bytes() > 0
    }

    /// The number of unused bytes that have been read; approximate where some of them are ciphertext.
    pub fn unread_bytes(&self) -> usize {
        self.inbox.len() - self.taken + self.cipher.len() - self.cipher_taken + self.decrypted
    }

    /// Frees the buffers of an idle connection.
    pub fn free_buffers(&mut self) {
        if !self.has_unread() {
            (self.inbox, self.cipher) = (Vec::new(), Vec::new());
            (self.taken, self.cipher_taken) = (0, 0);
        }
    }

    /// Whether the peer has closed the connection. Does not wait, and reads nothing.
    pub fn is_closed_by_peer(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let hung_up = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) && fds[0].revents().intersects(hung_up)
    }

    /// Reads the head of a request before the deadline; `None` where the peer closed the connection between two requests.
    ///
    /// # Errors
    /// The bytes are not a head, the connection broke, or the deadline has passed.
    pub fn read_request(&mut self, deadline: Instant) -> Result<Option<Request>, ReadError> {
        loop {
            // Empty lines before a request are skipped (RFC 9112, section 2.2).
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
            if self.read_more()? == 0 {
                let between = self.taken == self.inbox.len();
                return if between { Ok(None) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) };
            }
        }
    }

    /// Reads the head of a response before the deadline, interim ones included.
    ///
    /// # Errors
    /// The bytes are not a head, the connection broke or was closed, or the deadline has passed.
    pub fn read_response(&mut self, deadline: Instant) -> Result<Response, ReadError> {
        loop {
            if self.taken < self.inbox.len()
                && let Some((response, taken)) = parse_response(&self.inbox[self.taken..])?
            {
                self.taken += taken;
                return Ok(response);
            }
            self.read_before(deadline)?;
            if self.read_more()? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Reads a few more bytes into the inbox; returns 0 at the end.
    fn read_more(&mut self) -> io::Result<usize> {
        if self.taken > 0 {
            self.inbox.drain(..self.taken);
            self.taken = 0;
        }
        let before = self.inbox.len();
        self.inbox.resize(before + HEAD_READ_BYTES, 0);
        let mut inbox = std::mem::take(&mut self.inbox);
        let got = self.read_raw(&mut inbox[before..], HEAD_READ_BYTES);
        inbox.truncate(before + *got.as_ref().unwrap_or(&0));
        self.inbox = inbox;
        got
    }

    /// Reads from the socket or from TLS, not from the inbox. TLS reads at most `cipher_bytes` of ciphertext at a time.
    fn read_raw(&mut self, buffer: &mut [u8], cipher_bytes: usize) -> io::Result<usize> {
        if self.tls.is_some() || self.kernel_seals {
            return self.read_tls(buffer, cipher_bytes);
        }
        loop {
            match (&self.socket).read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(as_timed_out),
            }
        }
    }

    /// Reads bytes of a body; returns 0 at its end.
    ///
    /// # Errors
    /// The connection broke, or ended before the body; the body is malformed; or the body ends with its connection, and TLS was cut
    /// without `close_notify` (RFC 9112, section 9.8).
    pub fn read_body(&mut self, body: &mut Body, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let within = self.read_within;
        self.read_deadline = within.map(|within| Instant::now() + within);
        let got = self.read_framed(body, buffer);
        if let Some(within) = within {
            self.set_read_within(within)?;
        }
        got
    }

    fn read_framed(&mut self, body: &mut Body, buffer: &mut [u8]) -> io::Result<usize> {
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
            // In clear text a cut cannot be detected. In TLS an attacker who cuts the connection cannot forge `close_notify`.
            Framing::UntilClose => self.tls.is_none() || self.close_notified,
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
                ChunkEvent::End => return Ok(0),
                ChunkEvent::Frame(taken) => self.taken += taken,
                ChunkEvent::Data(left) => {
                    let most = left.min(buffer.len() as u64) as usize;
                    let got = self.read_some(&mut buffer[..most])?;
                    if got == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    body.chunks.note_read(got as u64);
                    return Ok(got);
                }
                ChunkEvent::More => {
                    if std::mem::replace(&mut again, true) {
                        self.apply_deadline()?;
                    }
                    if self.read_more()? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    /// Reads from the inbox, or from the connection where that is empty.
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let unread = &self.inbox[self.taken..];
        if unread.is_empty() {
            return self.read_raw(buffer, BODY_READ_BYTES);
        }
        let got = unread.len().min(buffer.len());
        buffer[..got].copy_from_slice(&unread[..got]);
        self.taken += got;
        Ok(got)
    }

    /// Fills the buffer with the next bytes of the peer, for a protocol without bodies. Returns `false` if the connection ends before the
    /// first of them. A short buffer is filled from the inbox, into which what follows it is read too: a head and a short payload cost one
    /// call of the kernel.
    ///
    /// # Errors
    /// The connection broke, or ended within them; or no byte came for `within`.
    pub fn read_exact(&mut self, buffer: &mut [u8], within: Duration) -> io::Result<bool> {
        self.set_read_within(within)?;
        self.read_deadline = None;
        let mut filled = 0;
        while filled < buffer.len() {
            if self.taken == self.inbox.len() && buffer.len() - filled < HEAD_READ_BYTES {
                self.read_more()?;
            }
            match self.read_some(&mut buffer[filled..])? {
                0 if filled == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => filled += got,
            }
        }
        Ok(true)
    }

    /// Reads a whole body of at most `most` bytes.
    ///
    /// # Errors
    /// As [`Conn::read_body`]; [`io::ErrorKind::FileTooLarge`] where the body is longer.
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
    ///
    /// # Errors
    /// The connection broke, or the peer took no bytes for too long.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_none() {
            return (&self.socket).write_all(bytes).map_err(as_timed_out);
        }
        let mut at = 0;
        while at < bytes.len() {
            let Some(tls) = &mut self.tls else { break };
            at += tls.writer().write(&bytes[at..])?;
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the bytes that TLS has buffered.
    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut &self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(as_timed_out(e)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_head_and_its_payload_are_read_at_once_and_a_long_buffer_takes_the_rest() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut conn = Conn::new(listener.accept().unwrap().0, None).unwrap();
        let within = Duration::from_secs(20);
        peer.write_all(b"headpayload").unwrap();
        let mut head = [0; 4];
        assert!(conn.read_exact(&mut head, within).unwrap());
        assert_eq!((&head, conn.unread_bytes()), (b"head", 7));
        let long = vec![7; 3 * HEAD_READ_BYTES];
        peer.write_all(&long).unwrap();
        drop(peer);
        let mut rest = vec![0; 7 + long.len()];
        assert!(conn.read_exact(&mut rest, within).unwrap());
        assert!(rest.starts_with(b"payload") && rest[7..] == long);
        assert!(!conn.read_exact(&mut head, within).unwrap(), "the connection ended before a head");
    }
}

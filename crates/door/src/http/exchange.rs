//! One request being answered, whatever carried it: HTTP/1.1 over a socket, or a stream of HTTP/2.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use store::Source;
use web::{Headers, Request, Response};

/// Bytes of a file that pass through this process at once: they stay in the second-level cache.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// A body brings at least so many bytes in a window of [`PACE_WINDOW`]: 10 kB/s, as other servers ask for.
const PACE_BYTES: u64 = 1_200_000;
const PACE_WINDOW: Duration = Duration::from_secs(120);

/// How a body's length is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// So many bytes.
    Known(u64),
    /// It ends when it ends.
    Open,
}

/// A request, its body as it comes, and the way of its answer. One head is sent, then the body it promised.
pub(crate) trait Exchange {
    /// What was asked.
    fn request(&self) -> &Request;
    /// Who asks.
    fn peer(&self) -> SocketAddr;
    /// Whether nobody on the way reads along.
    fn is_secure(&self) -> bool;
    /// The name in the certificate that the client has shown and proved.
    fn client_name(&self) -> Option<&str>;
    /// How long the request's body is, where it says so.
    fn body_length(&self) -> Option<u64>;
    /// Some bytes of it; 0 at its end. The first call lets a client go on that waits for that.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// The answer's head.
    fn begin(&mut self, response: Response, length: Length) -> io::Result<()>;
    /// Bytes of the answer's body.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Bytes of a file as the answer's body. A file that ends before is an error.
    fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64) -> io::Result<()>;
    /// The end of the body, with what is to be said after it.
    fn end(&mut self, trailers: &Headers) -> io::Result<()>;
    /// Whether an answer has begun.
    fn has_begun(&self) -> bool;
    /// Whether the client has hung up.
    fn is_gone(&self) -> bool;
    /// The connection, where it is this exchange's alone: what the kernel counts of it is then of this exchange.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
    /// Bytes that were taken from that connection and not read yet.
    fn unread_bytes(&self) -> u64 {
        0
    }
}

/// How fast a body comes. A sender of drops holds a thread; so drops are not enough.
pub(crate) struct Pace(Instant, u64);

impl Pace {
    /// From now on.
    pub fn new() -> Pace {
        Pace(Instant::now(), 0)
    }

    /// So many bytes have come.
    pub fn took(&mut self, bytes: usize) -> io::Result<()> {
        self.1 += bytes as u64;
        if self.0.elapsed() > PACE_WINDOW {
            if self.1 < PACE_BYTES {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the body comes at less than 10 kB/s"));
            }
            *self = Pace::new();
        }
        Ok(())
    }
}

/// A file that became shorter while it was sent.
pub(crate) fn shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was sent")
}

/// Sends a piece of a file through this process.
pub(crate) fn pump(
    source: &dyn Source,
    offset: u64,
    bytes: u64,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    super::buffer::with(|buffer| {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let piece = (end - at).min(PIECE_BYTES as u64) as usize;
            let got = source.read_at(&mut buffer[..piece], at).map_err(io::Error::other)?;
            if got == 0 {
                return Err(shorter());
            }
            write(&buffer[..got])?;
            at += got as u64;
        }
        Ok(())
    })
}

//! One request and its answer, over HTTP/1.1 or a stream of HTTP/2.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use store::Source;
use web::{Headers, Request, Response, date};

/// Bytes of a file that are copied through this process at once; they fit into the second-level cache.
pub const PIECE_BYTES: usize = 256 << 10;
/// Bytes that a body must bring, and a client must take, in each [`PACE_WINDOW`]: 10 kB/s, the least that other servers ask for.
const PACE_BYTES: u64 = 1_200_000;
const PACE_WINDOW: Duration = Duration::from_secs(120);
/// Largest short body. It fits into a few packets, and must arrive within 20 s, before any window of time ends.
pub const LITTLE_BYTES: usize = 64 << 10;
const LITTLE_WITHIN: Duration = Duration::from_secs(20);

/// After so long without a byte a body counts as stalled, and an answer as not read any more.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// The length of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many bytes follow.
    Known(u64),
    /// Unknown: chunks, or until the connection ends.
    Open,
}

/// A request, its body, and its answer. The answer is [`begin`](Exchange::begin) once, then [`write`](Exchange::write) or
/// [`send`](Exchange::send) until the promised length is reached, then [`end`](Exchange::end).
pub trait Exchange {
    /// The head of the request.
    fn request(&self) -> &Request;
    /// The address of the client.
    fn peer(&self) -> SocketAddr;
    /// Whether the connection is encrypted.
    fn is_secure(&self) -> bool;
    /// The name in the client's certificate, if it has shown one, holds its key and an authority vouches for it.
    fn client_name(&self) -> Option<&str>;
    /// The length of the request's body, if its head tells it.
    fn body_length(&self) -> Option<u64>;
    /// Reads bytes of the request's body; 0 at its end. The first call sends `100 Continue` to a client that waits for it.
    ///
    /// # Errors
    /// The connection breaks, the framing is wrong, or the body comes too slowly.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// The trailer fields of the request, once [`read`](Exchange::read) has returned 0.
    fn trailers(&mut self) -> Headers;
    /// Treats the request's body as a short one, whatever length it tells: all of it must come within 20 s.
    fn expect_little(&mut self);
    /// Adds fields to those of the answer's head.
    fn add_to_answer(&mut self, fields: Headers);
    /// Sends the answer's head.
    ///
    /// # Errors
    /// The connection breaks.
    fn begin(&mut self, response: Response, length: Length) -> io::Result<()>;
    /// Sends bytes of the answer's body.
    ///
    /// # Errors
    /// The connection breaks, or the client takes bytes too slowly.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Sends `bytes` bytes of a file from `offset` as the answer's body.
    ///
    /// # Errors
    /// As for [`write`](Exchange::write); or the file cannot be read, or ends earlier.
    fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64) -> io::Result<()>;
    /// Ends the body, with these trailer fields.
    ///
    /// # Errors
    /// The connection breaks.
    fn end(&mut self, trailers: &Headers) -> io::Result<()>;
    /// Whether the answer's head was sent.
    fn has_begun(&self) -> bool;
    /// Whether the client has hung up.
    fn is_gone(&self) -> bool;
    /// Asks a client of HTTP/2 to come again over HTTP/1.1, which is cheaper for many bytes. Only before the answer has begun, and
    /// only to clients that are known to do it. If true, the service must not answer here.
    fn leave_to_http1(&mut self) -> bool {
        false
    }
    /// The socket, if this exchange has the connection to itself: then the kernel's counters of it are those of this exchange.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
    /// Whether the request came in clear text from an address for which that is restricted: see [`crate::ClearText::Restricted`].
    fn is_restricted(&self) -> bool {
        false
    }
    /// Whether other requests share the connection (HTTP/2).
    fn is_multiplexed(&self) -> bool {
        false
    }
    /// Bytes that were taken from the socket and not read by the service yet.
    fn unread_bytes(&self) -> u64 {
        0
    }
}

/// Adds the fields that every answer has (RFC 9110, section 6.6.1), and those that the service asked for.
pub(crate) fn dress(response: &mut Response, besides: &Headers) {
    besides.iter().for_each(|(name, value)| response.headers.add(name, value));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
    response.headers.add("Date", date::http(now));
}

/// Judges how fast a request's body comes. A client that sends a byte now and then holds a thread, so it is given up.
pub(crate) struct Pace {
    since: Instant,
    bytes: u64,
    is_little: bool,
    /// When a short body must be complete, counted from the first read.
    due: Option<Instant>,
}

impl Pace {
    /// Judges a body of this length, from now on.
    pub fn new(length: Option<u64>) -> Pace {
        let is_little = length.is_some_and(|bytes| bytes <= LITTLE_BYTES as u64);
        Pace { since: Instant::now(), bytes: 0, is_little, due: None }
    }

    /// Treats the body as a short one, whatever length it tells.
    pub fn expect_little(&mut self) {
        self.is_little = true;
    }

    /// How long to wait for the next bytes.
    ///
    /// # Errors
    /// The time for a short body is over.
    pub fn patience(&mut self) -> io::Result<Duration> {
        self.patience_at(Instant::now())
    }

    fn patience_at(&mut self, now: Instant) -> io::Result<Duration> {
        if !self.is_little {
            return Ok(SILENCE);
        }
        let due = *self.due.get_or_insert(now + LITTLE_WITHIN);
        match due.saturating_duration_since(now) {
            Duration::ZERO => {
                let seconds = LITTLE_WITHIN.as_secs();
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("a short body has {seconds} s")))
            }
            left => Ok(left),
        }
    }

    /// Counts bytes that have come.
    ///
    /// # Errors
    /// They come too slowly.
    pub fn took(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes += bytes as u64;
        if self.since.elapsed() > PACE_WINDOW {
            if self.bytes < PACE_BYTES {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the body comes at less than 10 kB/s"));
            }
            (self.since, self.bytes) = (Instant::now(), 0);
        }
        Ok(())
    }
}

/// Judges how fast a client takes its answer, by the time that the server waited for it, and no other time.
#[derive(Debug, Default)]
pub(crate) struct Uptake {
    bytes: u64,
    waited: Duration,
}

impl Uptake {
    /// Counts bytes that were sent, and the time waited for room.
    ///
    /// # Errors
    /// The client takes them too slowly.
    pub fn gave(&mut self, bytes: u64, waited: Duration) -> io::Result<()> {
        self.bytes += bytes;
        self.waited += waited;
        if self.waited > PACE_WINDOW {
            if self.bytes < PACE_BYTES {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes less than 10 kB/s"));
            }
            *self = Uptake::default();
        }
        Ok(())
    }
}

/// The error for a file that became shorter while it was sent.
pub(crate) fn shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was sent")
}

/// Copies a range of a file to `write`, through the thread's buffer.
pub(crate) fn pump(
    source: &dyn Source,
    offset: u64,
    bytes: u64,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    crate::buffer::with(|buffer| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_body_has_one_deadline() {
        let now = Instant::now();
        let mut long = Pace::new(Some(LITTLE_BYTES as u64 + 1));
        assert_eq!(long.patience_at(now).unwrap(), SILENCE);
        assert_eq!(long.patience_at(now + LITTLE_WITHIN * 2).unwrap(), SILENCE);
        let mut open = Pace::new(None);
        assert_eq!(open.patience_at(now).unwrap(), SILENCE);
        open.expect_little();
        for mut little in [Pace::new(Some(10)), open] {
            // Drops do not make it longer.
            assert_eq!(little.patience_at(now).unwrap(), LITTLE_WITHIN);
            little.took(1).unwrap();
            assert_eq!(little.patience_at(now + LITTLE_WITHIN / 2).unwrap(), LITTLE_WITHIN / 2);
            assert_eq!(little.patience_at(now + LITTLE_WITHIN).unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }

    #[test]
    fn who_takes_drops_is_given_up_and_who_waits_for_us_is_not() {
        let second = Duration::from_secs(1);
        let gives = |bytes: u64, waited: Duration, times: u32| {
            let mut uptake = Uptake::default();
            (0..times).take_while(|_| uptake.gave(bytes, waited).is_ok()).count()
        };
        assert_eq!(gives(9_000, second, 1000), 120, "9 kB/s");
        assert_eq!(gives(11_000, second, 1000), 1000, "11 kB/s");
        // A disk of ours that brings a byte a minute is not the client's fault.
        assert_eq!(gives(1, Duration::ZERO, 1000), 1000);
        // Bytes that were taken early do not count for ever.
        assert!(gives(0, second, 1000) < 200);
        let mut uptake = Uptake::default();
        uptake.gave(1 << 30, Duration::ZERO).unwrap();
        assert!((0..250).any(|_| uptake.gave(1, second).is_err()));
    }
}

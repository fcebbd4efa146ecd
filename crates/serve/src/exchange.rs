//! One request and its answer, over HTTP/1.1 or a stream of HTTP/2.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auth::x509::CertificateCheck;
use model::Timestamp;
use store::Source;
use web::{Headers, Request, Response, date};

/// Bytes of a file that are copied through this process at once; they fit into the second-level cache.
pub const PIECE_BYTES: usize = 256 << 10;
/// Bytes of the first piece of an answer: the client works on it while the next ones, each twice as large, are read and encrypted.
const FIRST_PIECE_BYTES: usize = 64 << 10;
/// The least bytes of a body that must arrive, or that a client must accept, in each [`PACE_WINDOW`]: 10 kB/s, the lowest bound
/// that other servers set.
const PACE_BYTES: u64 = 1_200_000;
const PACE_WINDOW: Duration = Duration::from_secs(120);
/// Largest short body. It fits into a few packets, and must arrive within 20 s, before any window of time ends.
pub const SHORT_BODY_BYTES_MAX: usize = 64 << 10;
const SHORT_BODY_WITHIN: Duration = Duration::from_secs(20);

/// Bytes that the kernel sends by one call: at first, to a slow client, and at most.
const KERNEL_PIECE_BYTES: u64 = 1 << 20;
const KERNEL_PIECE_BYTES_SLOW: u64 = 256 << 10;
const KERNEL_PIECE_BYTES_MAX: u64 = 4 << 20;
/// A call that takes less is followed by a larger one.
const QUICK_PIECE: Duration = Duration::from_millis(20);

/// After this time without a byte a request's body counts as stalled, and an answer as no longer read.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The length of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This number of bytes follows.
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
    /// The verified or rejected certificates of the client, if it has shown some and holds their key.
    fn certificate(&self) -> Option<&Arc<CertificateCheck>>;
    /// The length of the request's body, if the head of the request states it.
    fn body_length(&self) -> Option<u64>;
    /// Reads bytes of the request's body; 0 at its end. The first call sends `100 Continue` to a client that waits for it.
    ///
    /// # Errors
    /// The connection breaks, the framing is wrong, or the body comes too slowly.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// The trailer fields of the request, once [`read`](Exchange::read) has returned 0.
    fn trailers(&mut self) -> Headers;
    /// Treats the request's body as a short one, whatever length its head states: all of it must arrive within 20 s.
    fn expect_short_body(&mut self);
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
    /// Sends `bytes` bytes of a file from `offset` as the answer's body. `sent` is called with the bytes of each piece.
    ///
    /// # Errors
    /// As for [`write`](Exchange::write); or the file cannot be read, or ends earlier.
    fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64, sent: &mut dyn FnMut(u64)) -> io::Result<()>;
    /// Ends the body, with these trailer fields.
    ///
    /// # Errors
    /// The connection breaks.
    fn end(&mut self, trailers: &Headers) -> io::Result<()>;
    /// Whether the answer's head was sent.
    fn has_begun(&self) -> bool;
    /// Whether the client has hung up.
    fn is_closed_by_peer(&self) -> bool;
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
    /// Bytes of bodies that the connection has sent, where requests share it (HTTP/2); else 0.
    fn bytes_sent_by_connection(&self) -> u64 {
        0
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

/// Adds the fields that every answer has (RFC 9110, section 6.6.1), and those that the service has set.
pub(crate) fn add_common_fields(response: &mut Response, extra_fields: &Headers) {
    extra_fields.iter().for_each(|(name, value)| response.headers.add(name, value));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
    response.headers.add("Date", date::http(now));
}

/// Judges how fast a request's body arrives. A client that sends a byte now and then would hold a thread, so its request fails.
pub(crate) struct BodyPace {
    since: Instant,
    bytes: u64,
    is_short: bool,
    /// When a short body must be complete, counted from the first read.
    due: Option<Instant>,
}

impl BodyPace {
    /// Judges a body of this length, from now on.
    pub fn new(length: Option<u64>) -> BodyPace {
        let is_short = length.is_some_and(|bytes| bytes <= SHORT_BODY_BYTES_MAX as u64);
        BodyPace { since: Instant::now(), bytes: 0, is_short, due: None }
    }

    /// Treats the body as a short one, whatever length its head states.
    pub fn expect_short_body(&mut self) {
        self.is_short = true;
    }

    /// How long to wait for the next bytes.
    ///
    /// # Errors
    /// The time for a short body has passed.
    pub fn time_left(&mut self) -> io::Result<Duration> {
        self.time_left_at(Instant::now())
    }

    fn time_left_at(&mut self, now: Instant) -> io::Result<Duration> {
        if !self.is_short {
            return Ok(STALLED_AFTER);
        }
        let due = *self.due.get_or_insert(now + SHORT_BODY_WITHIN);
        match due.saturating_duration_since(now) {
            Duration::ZERO => {
                let seconds = SHORT_BODY_WITHIN.as_secs();
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("a short body must arrive within {seconds} s")))
            }
            left => Ok(left),
        }
    }

    /// Counts bytes that have arrived.
    ///
    /// # Errors
    /// They arrive too slowly.
    pub fn count_received(&mut self, bytes: usize) -> io::Result<()> {
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

/// Judges how fast a client accepts its answer. Only the time that the server waited for the client counts.
#[derive(Debug, Default)]
pub(crate) struct ClientPace {
    bytes: u64,
    waited: Duration,
}

impl ClientPace {
    /// Counts bytes that were sent, and the time waited for room.
    ///
    /// # Errors
    /// The client accepts them too slowly.
    pub fn count_sent(&mut self, bytes: u64, waited: Duration) -> io::Result<()> {
        self.bytes += bytes;
        self.waited += waited;
        if self.waited > PACE_WINDOW {
            if self.bytes < PACE_BYTES {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes less than 10 kB/s"));
            }
            *self = ClientPace::default();
        }
        Ok(())
    }
}

/// How many bytes of a file the kernel sends by one call. A call ends with a short segment, so few and large ones cost both ends less; but
/// the client's pace is judged only between two of them, so a slow client gets small ones.
pub(crate) struct KernelPiece(u64);

impl KernelPiece {
    /// Bytes of the next call.
    pub fn bytes(&self) -> u64 {
        self.0
    }

    /// Notes how long the last call took.
    pub fn took(&mut self, time: Duration) {
        self.0 = if time < QUICK_PIECE { (2 * self.0).min(KERNEL_PIECE_BYTES_MAX) } else { KERNEL_PIECE_BYTES_SLOW };
    }
}

impl Default for KernelPiece {
    fn default() -> KernelPiece {
        KernelPiece(KERNEL_PIECE_BYTES)
    }
}

/// The error for a file that became shorter while it was sent.
pub(crate) fn became_shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was sent")
}

/// Copies a range of a file to `write`, through the thread's buffer.
pub(crate) fn copy_range(
    source: &dyn Source,
    offset: u64,
    bytes: u64,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    crate::buffer::with(|buffer| {
        let mut at = offset;
        let end = offset + bytes;
        let mut most = FIRST_PIECE_BYTES;
        while at < end {
            let piece = (end - at).min(most as u64) as usize;
            most = (2 * most).min(PIECE_BYTES);
            let got = source.read_at(&mut buffer[..piece], at).map_err(io::Error::other)?;
            if got == 0 {
                return Err(became_shorter());
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
        let mut long = BodyPace::new(Some(SHORT_BODY_BYTES_MAX as u64 + 1));
        assert_eq!(long.time_left_at(now).unwrap(), STALLED_AFTER);
        assert_eq!(long.time_left_at(now + SHORT_BODY_WITHIN * 2).unwrap(), STALLED_AFTER);
        let mut open = BodyPace::new(None);
        assert_eq!(open.time_left_at(now).unwrap(), STALLED_AFTER);
        open.expect_short_body();
        for mut short in [BodyPace::new(Some(10)), open] {
            // Single bytes do not extend it.
            assert_eq!(short.time_left_at(now).unwrap(), SHORT_BODY_WITHIN);
            short.count_received(1).unwrap();
            assert_eq!(short.time_left_at(now + SHORT_BODY_WITHIN / 2).unwrap(), SHORT_BODY_WITHIN / 2);
            assert_eq!(short.time_left_at(now + SHORT_BODY_WITHIN).unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }

    #[test]
    fn the_kernel_sends_larger_pieces_to_a_quick_client_only() {
        let mut piece = KernelPiece::default();
        for _ in 0..10 {
            piece.took(Duration::from_millis(1));
        }
        assert_eq!(piece.bytes(), KERNEL_PIECE_BYTES_MAX);
        piece.took(QUICK_PIECE);
        assert_eq!(piece.bytes(), KERNEL_PIECE_BYTES_SLOW);
        piece.took(Duration::ZERO);
        assert_eq!(piece.bytes(), 2 * KERNEL_PIECE_BYTES_SLOW);
    }

    #[test]
    fn a_client_that_reads_too_slowly_fails_and_a_slow_disk_does_not_count() {
        let second = Duration::from_secs(1);
        let accepted_writes = |bytes: u64, waited: Duration, times: u32| {
            let mut client_pace = ClientPace::default();
            (0..times).take_while(|_| client_pace.count_sent(bytes, waited).is_ok()).count()
        };
        assert_eq!(accepted_writes(9_000, second, 1000), 120, "9 kB/s");
        assert_eq!(accepted_writes(11_000, second, 1000), 1000, "11 kB/s");
        // A slow disk of the server is not the client's fault.
        assert_eq!(accepted_writes(1, Duration::ZERO, 1000), 1000);
        // Bytes that were taken early do not count for ever.
        assert!(accepted_writes(0, second, 1000) < 200);
        let mut client_pace = ClientPace::default();
        client_pace.count_sent(1 << 30, Duration::ZERO).unwrap();
        assert!((0..250).any(|_| client_pace.count_sent(1, second).is_err()));
    }
}

//! One request being answered, whatever carried it: HTTP/1.1 over a socket, or a stream of HTTP/2.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use store::Source;
use web::{Headers, Request, Response, date};

/// Bytes of a file that pass through this process at once: they stay in the second-level cache.
pub const PIECE_BYTES: usize = 256 << 10;
/// A body brings, and a client takes, at least so many bytes in a window of [`PACE_WINDOW`]: 10 kB/s, as other servers ask for.
const PACE_BYTES: u64 = 1_200_000;
const PACE_WINDOW: Duration = Duration::from_secs(120);
/// A body up to here fits into one packet or some, and has so long in all: over before any window is.
pub const LITTLE_BYTES: usize = 64 << 10;
const LITTLE_WITHIN: Duration = Duration::from_secs(20);

/// Without a byte for that long a body has stalled, and an answer is not read any more.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// How a body's length is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many bytes.
    Known(u64),
    /// It ends when it ends.
    Open,
}

/// A request, its body as it comes, and the way of its answer. One head is sent, then the body it promised.
pub trait Exchange {
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
    /// What the client has said behind the body, once a read has found its end.
    fn trailers(&mut self) -> Headers;
    /// The body is to be a short one, whatever it says of itself: all of it comes within [`LITTLE_WITHIN`].
    fn expect_little(&mut self);
    /// Fields that the answer is to have besides its own.
    fn add_to_answer(&mut self, fields: Headers);
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
    /// Sends the client on to HTTP/1.1, before an answer has begun, if that is better for many bytes and the client is known to
    /// take it well. Then nothing is to be answered here.
    fn leave_to_http1(&mut self) -> bool {
        false
    }
    /// The connection, where it is this exchange's alone: what the kernel counts of it is then of this exchange.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
    /// It came in clear where the service serves some requests only that way: see [`crate::ClearText::Restricted`].
    fn is_restricted(&self) -> bool {
        false
    }
    /// Whether other requests share the connection (HTTP/2).
    fn is_multiplexed(&self) -> bool {
        false
    }
    /// Bytes that were taken from that connection and not read yet.
    fn unread_bytes(&self) -> u64 {
        0
    }
}

/// The fields that every answer has (RFC 9110, section 6.6.1), and what this one has besides.
pub(crate) fn dress(response: &mut Response, besides: &Headers) {
    besides.iter().for_each(|(name, value)| response.headers.add(name, value));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
    response.headers.add("Date", date::http(now));
}

/// How fast a body comes. A sender of drops holds a thread; so drops are not enough.
pub(crate) struct Pace {
    since: Instant,
    bytes: u64,
    is_little: bool,
    /// When a short body has to be here, from when it was first asked for.
    due: Option<Instant>,
}

impl Pace {
    /// Of a body of this length, from now on.
    pub fn new(length: Option<u64>) -> Pace {
        let is_little = length.is_some_and(|bytes| bytes <= LITTLE_BYTES as u64);
        Pace { since: Instant::now(), bytes: 0, is_little, due: None }
    }

    /// It is a short one, whatever it says.
    pub fn expect_little(&mut self) {
        self.is_little = true;
    }

    /// How long the next bytes may be waited for.
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

    /// So many bytes have come.
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

/// How fast a client takes its answer: by the time that it lets us wait alone.
#[derive(Debug, Default)]
pub(crate) struct Uptake {
    bytes: u64,
    waited: Duration,
}

impl Uptake {
    /// So many bytes were given, and so long we waited for room.
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
        // Nor is much at first credit for ever.
        assert!(gives(0, second, 1000) < 200);
        let mut uptake = Uptake::default();
        uptake.gave(1 << 30, Duration::ZERO).unwrap();
        assert!((0..250).any(|_| uptake.gave(1, second).is_err()));
    }
}

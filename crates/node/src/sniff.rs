//! The first bytes of a connection tell what it speaks. They are looked at, not taken, so that whoever is right reads
//! them again.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use probe::iperf3::Cookie;
use wire::join::MAGIC;

use crate::http::h2;

/// Bytes that are looked at: the longest method, whatever its letters, the blank after it, and an empty line before it.
const FIRST_BYTES: usize = 16;
/// Between two looks at a connection that has said too little: at first, and in the end.
const NAP: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(200);

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// TLS: the native protocol's control connection, or HTTPS.
    Tls,
    /// A data stream of the native protocol.
    Stream,
    /// A test of iperf3: its cookie.
    Iperf3,
    /// HTTP in clear.
    Http,
    /// HTTP/2 in clear, by a client that knows that it is spoken here.
    Http2,
    /// Nothing we know.
    Garbage,
}

/// A verdict on the first bytes, or none while more are needed.
fn judge(first: &[u8]) -> Option<Speaks> {
    // Some clients end the request before with an empty line too many (RFC 9112, section 2.2).
    let first = first.strip_prefix(b"\r\n").unwrap_or(first);
    match first {
        [] | [b'\r'] => None,
        // A TLS handshake record (RFC 8446, section 5.1), and its major version.
        [0x16] => None,
        [0x16, 3, ..] => Some(Speaks::Tls),
        _ if MAGIC.starts_with(first) => {
            if first.len() == MAGIC.len() {
                Some(Speaks::Stream)
            } else {
                None
            }
        }
        _ if first.starts_with(&MAGIC) => Some(Speaks::Stream),
        // HTTP/2 begins with a request that HTTP/1 cannot mean (RFC 9113, section 3.4).
        _ if first.starts_with(h2::PREFACE) => Some(Speaks::Http2),
        _ if h2::PREFACE.starts_with(first) => None,
        // Every method that HTTP knows starts with capital letters (RFC 9110, section 9).
        _ if first.iter().take(3).all(u8::is_ascii_uppercase) => {
            if first.len() >= 3 {
                Some(Speaks::Http)
            } else {
                None
            }
        }
        _ if is_word_and_blank(first) => Some(Speaks::Http),
        _ => match Cookie::begins(first) {
            Some(true) => Some(Speaks::Iperf3),
            Some(false) => Some(Speaks::Garbage),
            None => None,
        },
    }
}

/// Whether a line begins as a request does, with a method that nobody knows: it is answered, not cut off.
fn is_word_and_blank(first: &[u8]) -> bool {
    let letters = first.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    letters >= 3 && first.get(letters) == Some(&b' ')
}

/// Whether what has come so far is HTTP in clear. Does not wait: the socket does not block any more afterwards.
pub(crate) fn seems_http(socket: &TcpStream) -> bool {
    let mut first = [0; FIRST_BYTES];
    let got = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut first)).unwrap_or(0);
    judge(&first[..got]) == Some(Speaks::Http)
}

/// Looks at the first bytes until they tell, or the time is up.
pub(crate) fn sniff(socket: &TcpStream, deadline: Instant) -> io::Result<Speaks> {
    let mut first = [0; FIRST_BYTES];
    let (mut seen, mut nap) = (0, NAP);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let got = socket.peek(&mut first)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(speaks) = judge(&first[..got]) {
            socket.set_read_timeout(None)?;
            return Ok(speaks);
        }
        // Peeking cannot wait for more than there is. Who lets us wait is looked at less and less: a thousand who say one byte
        // must not keep a processor busy.
        nap = if got == seen { (nap * 2).min(NAP_MAX) } else { NAP };
        std::thread::sleep(nap.min(left));
        seen = got;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell() {
        assert_eq!(judge(&[0x16, 3, 1, 2]), Some(Speaks::Tls));
        assert_eq!(judge(b"LHS1...."), Some(Speaks::Stream));
        assert_eq!(judge(b"LHS"), None);
        assert_eq!(judge(b"GET / HT"), Some(Speaks::Http));
        assert_eq!(judge(b"LOCK /x "), Some(Speaks::Http));
        assert_eq!(judge(b"PRI * HT"), Some(Speaks::Http2));
        assert_eq!((judge(b"PRI"), judge(b"PRINT / ")), (None, Some(Speaks::Http)));
        assert_eq!(judge(b"GE"), None);
        assert_eq!(judge(&[0x16, 9]), Some(Speaks::Garbage));
        assert_eq!(judge(b"SSH-2.0-"), Some(Speaks::Http)); // told apart from HTTP by its answer only
        assert_eq!(judge(b"\0\0\0\0"), Some(Speaks::Garbage));
        assert_eq!(judge(b"hello, w"), Some(Speaks::Garbage));
        assert_eq!((judge(b"hello"), judge(b"abcdefg2")), (None, Some(Speaks::Iperf3)));
        assert_eq!((judge(b"ge"), judge(b"get / HTTP/1.1")), (None, Some(Speaks::Http)));
        assert_eq!(judge(b"proppatch / HTT"), Some(Speaks::Http));
        assert_eq!((judge(b"\r"), judge(b"\r\n"), judge(b"\r\nGE")), (None, None, None));
        assert_eq!(judge(b"\r\nGET / HTTP/1"), Some(Speaks::Http));
    }
}

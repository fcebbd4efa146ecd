//! Recognises the protocol of a connection by its first bytes. They are peeked at and stay in the socket, so that the protocol's
//! code reads them from the start.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::h2;
use crate::service::Protocols;

/// Bytes that are peeked at: room for an empty line, the longest method, and the space after it.
const FIRST_BYTES: usize = 16;
/// The first and the longest pause between two peeks at a connection that has sent too few bytes.
const POLL_PAUSE: Duration = Duration::from_millis(1);
const POLL_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Whether the first bytes of a connection are those of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Yes; more bytes cannot change that.
    Yes,
    /// Perhaps; more bytes are needed.
    Maybe,
    /// No.
    No,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// TLS.
    Tls,
    /// HTTP/1 in clear.
    Http,
    /// HTTP/2 in clear text with prior knowledge.
    Http2,
    /// A protocol that the service recognised.
    Other,
    /// None of these.
    Unknown,
}

/// The protocol of a connection, and the bytes that were peeked at.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    pub protocol: Protocol,
    pub first: Vec<u8>,
}

/// A verdict on the first bytes, or none while more are needed.
fn judge(first: &[u8], others: &impl Protocols) -> Option<Protocol> {
    // Some clients send an empty line before a request (RFC 9112, section 2.2).
    let first = first.strip_prefix(b"\r\n").unwrap_or(first);
    match first {
        [] | [b'\r'] => return None,
        // A TLS handshake record (RFC 8446, section 5.1), and its major version.
        [0x16] => return None,
        [0x16, 3, ..] => return Some(Protocol::Tls),
        _ => {}
    }
    match others.recognises(first) {
        Match::Yes => return Some(Protocol::Other),
        Match::Maybe => return None,
        Match::No => {}
    }
    // HTTP/2 begins with a request that HTTP/1 cannot mean (RFC 9113, section 3.4).
    if first.starts_with(h2::PREFACE) {
        return Some(Protocol::Http2);
    }
    let is_more_needed =
        h2::PREFACE.starts_with(first) || (first.len() < 3 && first.iter().all(u8::is_ascii_uppercase));
    if is_more_needed {
        return None;
    }
    if looks_like_http(first) {
        return Some(Protocol::Http);
    }
    // A method in small letters that has not ended yet.
    let may_be_method = first.len() < FIRST_BYTES && first.iter().all(u8::is_ascii_alphabetic);
    if may_be_method { None } else { Some(Protocol::Unknown) }
}

/// Whether the first bytes of a connection begin a request of HTTP/1. All registered methods are in capital letters (RFC 9110,
/// section 9). A word in small letters and a space are an unknown method: the client gets an answer instead of a closed connection.
pub fn looks_like_http(first: &[u8]) -> bool {
    let capitals = first.iter().take(3).filter(|byte| byte.is_ascii_uppercase()).count();
    capitals == 3 || is_word_and_blank(first)
}

fn is_word_and_blank(first: &[u8]) -> bool {
    let letters = first.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    letters >= 3 && first.get(letters) == Some(&b' ')
}

/// The protocol by the bytes that have arrived so far. Does not block; leaves the socket in non-blocking mode.
pub(crate) fn peek_protocol(socket: &TcpStream, others: &impl Protocols) -> Option<Protocol> {
    let mut first = [0; FIRST_BYTES];
    let got = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut first)).unwrap_or(0);
    judge(&first[..got], others)
}

/// Peeks at the first bytes until they tell the protocol or the deadline passes.
///
/// # Errors
/// The connection breaks or ends, or the deadline passes.
pub(crate) fn sniff(socket: &TcpStream, others: &impl Protocols, deadline: Instant) -> io::Result<FirstBytes> {
    let mut first = [0; FIRST_BYTES];
    let mut peeked_before = 0;
    let mut pause = POLL_PAUSE;
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
        if let Some(protocol) = judge(&first[..got], others) {
            socket.set_read_timeout(None)?;
            return Ok(FirstBytes { protocol, first: first[..got].to_vec() });
        }
        // A peek returns at once while any byte is there. The pauses become longer, so that a thousand clients that send one byte
        // do not keep a processor busy.
        pause = if got == peeked_before { (pause * 2).min(POLL_PAUSE_MAX) } else { POLL_PAUSE };
        std::thread::sleep(pause.min(left));
        peeked_before = got;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exchange, Rejection, Service};

    /// Speaks a protocol that begins with `LHS1`, and one of eight small letters.
    struct Others;

    impl Service for Others {
        fn answer(&self, _: &mut dyn Exchange) {}

        fn refused(&self, _: &Rejection<'_>) {}
    }

    impl Protocols for Others {
        fn recognises(&self, first: &[u8]) -> Match {
            if b"LHS1".starts_with(&first[..first.len().min(4)]) {
                return if first.len() >= 4 { Match::Yes } else { Match::Maybe };
            }
            if looks_like_http(first) || !first.iter().take(8).all(u8::is_ascii_lowercase) {
                return Match::No;
            }
            if first.len() >= 8 { Match::Yes } else { Match::Maybe }
        }
    }

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let judge = |first: &[u8]| judge(first, &Others);
        assert_eq!(judge(&[0x16, 3, 1, 2]), Some(Protocol::Tls));
        assert_eq!((judge(b"LHS1...."), judge(b"LHS")), (Some(Protocol::Other), None));
        assert_eq!(judge(b"GET / HT"), Some(Protocol::Http));
        assert_eq!(judge(b"LOCK /x "), Some(Protocol::Http));
        assert_eq!(judge(b"PRI * HT"), Some(Protocol::Http2));
        assert_eq!((judge(b"PRI"), judge(b"PRINT / ")), (None, Some(Protocol::Http)));
        assert_eq!(judge(b"GE"), None);
        assert_eq!(judge(&[0x16, 9]), Some(Protocol::Unknown));
        assert_eq!(judge(b"SSH-2.0-"), Some(Protocol::Http)); // told apart from HTTP by its answer only
        assert_eq!(judge(b"\0\0\0\0"), Some(Protocol::Unknown));
        assert_eq!(judge(b"hello, w"), Some(Protocol::Unknown));
        assert_eq!((judge(b"hello"), judge(b"abcdefgh")), (None, Some(Protocol::Other)));
        assert_eq!((judge(b"ge"), judge(b"get / HTTP/1.1")), (None, Some(Protocol::Http)));
        assert_eq!(judge(b"proppatch / HTT"), Some(Protocol::Http));
        assert_eq!((judge(b"\r"), judge(b"\r\n"), judge(b"\r\nGE")), (None, None, None));
        assert_eq!(judge(b"\r\nGET / HTTP/1"), Some(Protocol::Http));
    }
}

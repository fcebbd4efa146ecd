//! The first bytes of a connection tell what it speaks. They are looked at, not taken, so that whoever serves the connection reads
//! them again.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::h2;
use crate::service::Protocols;

/// Bytes that are looked at: the longest method, whatever its letters, the blank after it, and an empty line before it.
const FIRST_BYTES: usize = 16;
/// Between two looks at a connection that has said too little: at first, and in the end.
const NAP: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(200);

/// Whether the first bytes of a connection are those of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// They are, and more bytes cannot change that.
    Yes,
    /// They may be: more bytes will tell.
    Maybe,
    /// They are not.
    No,
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// TLS.
    Tls,
    /// HTTP/1 in clear.
    Http,
    /// HTTP/2 in clear, by a client that knows that it is spoken here.
    Http2,
    /// A protocol of the service's own.
    Other,
    /// None of these.
    Unknown,
}

/// What a connection speaks, and the bytes that told.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    pub spoken: Spoken,
    pub first: Vec<u8>,
}

/// A verdict on the first bytes, or none while more are needed.
fn judge(first: &[u8], others: &impl Protocols) -> Option<Spoken> {
    // Some clients end the request before with an empty line too many (RFC 9112, section 2.2).
    let first = first.strip_prefix(b"\r\n").unwrap_or(first);
    match first {
        [] | [b'\r'] => return None,
        // A TLS handshake record (RFC 8446, section 5.1), and its major version.
        [0x16] => return None,
        [0x16, 3, ..] => return Some(Spoken::Tls),
        _ => {}
    }
    match others.recognises(first) {
        Match::Yes => return Some(Spoken::Other),
        Match::Maybe => return None,
        Match::No => {}
    }
    // HTTP/2 begins with a request that HTTP/1 cannot mean (RFC 9113, section 3.4).
    if first.starts_with(h2::PREFACE) {
        return Some(Spoken::Http2);
    }
    let is_more_needed =
        h2::PREFACE.starts_with(first) || (first.len() < 3 && first.iter().all(u8::is_ascii_uppercase));
    match looks_like_http(first) {
        _ if is_more_needed => None,
        true => Some(Spoken::Http),
        // A method in small letters that has not ended yet.
        false if first.len() < FIRST_BYTES && first.iter().all(u8::is_ascii_alphabetic) => None,
        false => Some(Spoken::Unknown),
    }
}

/// Whether the first bytes of a connection begin a request of HTTP/1: every method that HTTP knows is of capital letters (RFC 9110,
/// section 9), and a word in small ones that a blank follows is a method that nobody knows, to be answered and not cut off.
pub fn looks_like_http(first: &[u8]) -> bool {
    let capitals = first.iter().take(3).filter(|byte| byte.is_ascii_uppercase()).count();
    capitals == 3 || is_word_and_blank(first)
}

fn is_word_and_blank(first: &[u8]) -> bool {
    let letters = first.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    letters >= 3 && first.get(letters) == Some(&b' ')
}

/// What a connection speaks by what has come so far. Does not wait: the socket does not block any more afterwards.
pub(crate) fn peek_spoken(socket: &TcpStream, others: &impl Protocols) -> Option<Spoken> {
    let mut first = [0; FIRST_BYTES];
    let got = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut first)).unwrap_or(0);
    judge(&first[..got], others)
}

/// Looks at the first bytes until they tell, or the time is up.
pub(crate) fn sniff(socket: &TcpStream, others: &impl Protocols, deadline: Instant) -> io::Result<FirstBytes> {
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
        if let Some(spoken) = judge(&first[..got], others) {
            socket.set_read_timeout(None)?;
            return Ok(FirstBytes { spoken, first: first[..got].to_vec() });
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
            match looks_like_http(first) || !first.iter().take(8).all(u8::is_ascii_lowercase) {
                true => Match::No,
                false if first.len() >= 8 => Match::Yes,
                false => Match::Maybe,
            }
        }
    }

    #[test]
    fn first_bytes_tell() {
        let judge = |first: &[u8]| judge(first, &Others);
        assert_eq!(judge(&[0x16, 3, 1, 2]), Some(Spoken::Tls));
        assert_eq!((judge(b"LHS1...."), judge(b"LHS")), (Some(Spoken::Other), None));
        assert_eq!(judge(b"GET / HT"), Some(Spoken::Http));
        assert_eq!(judge(b"LOCK /x "), Some(Spoken::Http));
        assert_eq!(judge(b"PRI * HT"), Some(Spoken::Http2));
        assert_eq!((judge(b"PRI"), judge(b"PRINT / ")), (None, Some(Spoken::Http)));
        assert_eq!(judge(b"GE"), None);
        assert_eq!(judge(&[0x16, 9]), Some(Spoken::Unknown));
        assert_eq!(judge(b"SSH-2.0-"), Some(Spoken::Http)); // told apart from HTTP by its answer only
        assert_eq!(judge(b"\0\0\0\0"), Some(Spoken::Unknown));
        assert_eq!(judge(b"hello, w"), Some(Spoken::Unknown));
        assert_eq!((judge(b"hello"), judge(b"abcdefgh")), (None, Some(Spoken::Other)));
        assert_eq!((judge(b"ge"), judge(b"get / HTTP/1.1")), (None, Some(Spoken::Http)));
        assert_eq!(judge(b"proppatch / HTT"), Some(Spoken::Http));
        assert_eq!((judge(b"\r"), judge(b"\r\n"), judge(b"\r\nGE")), (None, None, None));
        assert_eq!(judge(b"\r\nGET / HTTP/1"), Some(Spoken::Http));
    }
}

//! The framing of bodies (RFC 9112, section 6): how a body ends, and chunks. Framing that two servers could read differently is
//! refused: an attacker could smuggle a request past one of them.

use crate::head::{Request, Response};
use crate::headers::{Headers, is_token, ows};
use crate::method::Method;

/// The most bytes of a line that begins a chunk, its extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;
/// The most bytes of trailers.
const TRAILER_BYTES_MAX: usize = 16 << 10;

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// This number of bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Until the connection closes: responses only.
    UntilClose,
}

/// Why the end of a body cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// Two lengths, or a length and chunks.
    #[error("the message gives the length of its body in two ways that contradict each other")]
    Ambiguous,
    /// A malformed length.
    #[error("Content-Length is not a number of bytes")]
    Length,
    /// Another transfer coding than chunks.
    #[error("the only supported transfer coding is chunked")]
    Coding,
    /// A malformed chunk.
    #[error("a chunk or a trailer of the body is malformed")]
    Chunk,
}

impl FramingError {
    /// The status to answer with.
    pub fn status(self) -> u16 {
        if self == FramingError::Coding { 501 } else { 400 }
    }
}

fn length(headers: &Headers) -> Result<Option<u64>, FramingError> {
    let mut found = None;
    for value in headers.all("content-length").flat_map(|value| value.split(',')) {
        let value = ows(value);
        if value.is_empty() || !value.bytes().all(|b| b.is_ascii_digit()) {
            return Err(FramingError::Length);
        }
        let bytes = value.parse::<u64>().map_err(|_| FramingError::Length)?;
        if found.is_some_and(|earlier| earlier != bytes) {
            return Err(FramingError::Ambiguous);
        }
        found = Some(bytes);
    }
    Ok(found)
}

fn coding(headers: &Headers, minor: u8) -> Result<Option<Framing>, FramingError> {
    let length = length(headers)?;
    let mut codings = headers.all("transfer-encoding").flat_map(|value| value.split(',')).map(ows);
    let Some(first) = codings.next() else { return Ok(length.map(Framing::Length)) };
    if length.is_some() || minor == 0 {
        return Err(FramingError::Ambiguous);
    }
    if !first.eq_ignore_ascii_case("chunked") || codings.next().is_some() {
        return Err(FramingError::Coding);
    }
    Ok(Some(Framing::Chunked))
}

/// How a request's body is delimited.
///
/// # Errors
/// [`FramingError`]: the head is ambiguous, malformed, or names another transfer coding.
pub fn of_request(request: &Request) -> Result<Framing, FramingError> {
    Ok(coding(&request.headers, request.minor)?.unwrap_or(Framing::Length(0)))
}

/// How the body of the response to a request of this method is delimited.
///
/// # Errors
/// As [`of_request`].
pub fn of_response(response: &Response, method: &Method) -> Result<Framing, FramingError> {
    if *method == Method::Head || matches!(response.status, 100..=199 | 204 | 304) {
        return Ok(Framing::Length(0));
    }
    Ok(coding(&response.headers, response.minor)?.unwrap_or(Framing::UntilClose))
}

/// The part of a chunked body that the parser expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    End,
}

/// A parser of chunked bodies.
#[derive(Clone, Debug)]
pub struct Chunks {
    state: ChunkState,
    trailer_bytes: usize,
    trailers: Headers,
}

/// The meaning of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkEvent {
    /// This number of bytes of framing, to be skipped.
    Frame(usize),
    /// Bytes of the body, at most this number.
    Data(u64),
    /// More bytes are needed.
    More,
    /// The body has ended.
    End,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks { state: ChunkState::Size, trailer_bytes: 0, trailers: Headers::new() }
    }
}

/// A line without its line end, and the number of bytes that it takes with the line end.
fn line(bytes: &[u8], max: usize) -> Result<Option<(&[u8], usize)>, FramingError> {
    match bytes.iter().take(max).position(|b| *b == b'\n') {
        Some(at) => match bytes[..at].strip_suffix(b"\r") {
            // Another reader could take a control character for the end of the line.
            Some(line) if !line.iter().any(|b| b.is_ascii_control() && *b != b'\t') => Ok(Some((line, at + 1))),
            _ => Err(FramingError::Chunk),
        },
        None if bytes.len() >= max => Err(FramingError::Chunk),
        None => Ok(None),
    }
}

fn size(line: &[u8]) -> Result<u64, FramingError> {
    let digits = line.split(|b| *b == b';').next().unwrap_or_default();
    // White space is permitted only after the size (RFC 9112, section 7.1.1).
    let text = std::str::from_utf8(digits).map_err(|_| FramingError::Chunk)?.trim_end_matches([' ', '\t']);
    if text.is_empty() || text.len() > 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(FramingError::Chunk);
    }
    u64::from_str_radix(text, 16).map_err(|_| FramingError::Chunk)
}

/// Parses a line as a field: a token, a colon directly after it, and a value (RFC 9112, section 5).
fn field(line: &[u8]) -> Option<(String, String)> {
    let colon = line.iter().position(|b| *b == b':')?;
    let (name, value) = (&line[..colon], String::from_utf8_lossy(&line[colon + 1..]));
    is_token(name).then(|| (String::from_utf8_lossy(name).into_owned(), ows(&value).to_owned()))
}

impl Chunks {
    /// Parses the next bytes of the connection.
    ///
    /// # Errors
    /// [`FramingError::Chunk`]: the bytes are neither a chunk nor a trailer.
    pub fn next(&mut self, bytes: &[u8]) -> Result<ChunkEvent, FramingError> {
        match self.state {
            ChunkState::End => Ok(ChunkEvent::End),
            ChunkState::Data(0) => {
                self.state = ChunkState::DataEnd;
                self.next(bytes)
            }
            ChunkState::Data(left) => Ok(ChunkEvent::Data(left)),
            ChunkState::DataEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = ChunkState::Size;
                    Ok(ChunkEvent::Frame(2))
                }
                [] | [b'\r'] => Ok(ChunkEvent::More),
                _ => Err(FramingError::Chunk),
            },
            ChunkState::Size => {
                let Some((text, taken)) = line(bytes, CHUNK_LINE_BYTES_MAX)? else { return Ok(ChunkEvent::More) };
                self.state = match size(text)? {
                    0 => ChunkState::Trailers,
                    bytes => ChunkState::Data(bytes),
                };
                Ok(ChunkEvent::Frame(taken))
            }
            ChunkState::Trailers => {
                let max = TRAILER_BYTES_MAX - self.trailer_bytes;
                let Some((text, taken)) = line(bytes, max)? else { return Ok(ChunkEvent::More) };
                self.trailer_bytes += taken;
                if text.is_empty() {
                    self.state = ChunkState::End;
                } else {
                    // The next server on the path could read a malformed field as the beginning of a message.
                    let (name, value) = field(text).ok_or(FramingError::Chunk)?;
                    self.trailers.add(name, value);
                }
                Ok(ChunkEvent::Frame(taken))
            }
        }
    }

    /// The trailer fields that have been read so far.
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    /// Counts bytes of the body that were read.
    pub fn note_read(&mut self, bytes: u64) {
        if let ChunkState::Data(left) = &mut self.state {
            *left = left.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framing(fields: &[(&str, &str)]) -> Result<Framing, FramingError> {
        of_request(&Request::new(Method::Put, "/", fields.iter().copied().collect()))
    }

    #[test]
    fn framing_that_is_ambiguous_is_refused() {
        assert_eq!(framing(&[]), Ok(Framing::Length(0)));
        assert_eq!(framing(&[("Content-Length", "7")]), Ok(Framing::Length(7)));
        assert_eq!(framing(&[("Content-Length", "7"), ("content-length", "7")]), Ok(Framing::Length(7)));
        assert_eq!(framing(&[("Transfer-Encoding", "Chunked")]), Ok(Framing::Chunked));
        assert_eq!(framing(&[("Content-Length", "7"), ("Content-Length", "8")]), Err(FramingError::Ambiguous));
        let both = [("Content-Length", "7"), ("Transfer-Encoding", "chunked")];
        assert_eq!(framing(&both), Err(FramingError::Ambiguous));
        for bad in ["+7", "7 8", "-1", "", "18446744073709551616", "0x7", "\u{a0}7", "\u{2003}7", "7\u{85}", "\x0c7"] {
            assert_eq!(framing(&[("Content-Length", bad)]), Err(FramingError::Length), "{bad}");
        }
        for bad in ["gzip, chunked", "chunked, chunked", "identity", "", "chunked\u{a0}", "\u{2003}chunked"] {
            assert_eq!(framing(&[("Transfer-Encoding", bad)]), Err(FramingError::Coding), "{bad}");
        }
        let mut answer = Response::new(200);
        assert_eq!(of_response(&answer, &Method::Get), Ok(Framing::UntilClose));
        answer.headers.add("Content-Length", "5");
        assert_eq!(of_response(&answer, &Method::Head), Ok(Framing::Length(0)));
    }

    /// Decodes a chunked body that arrives in pieces of this size.
    fn unchunk(bytes: &[u8], piece: usize) -> Result<Option<Vec<u8>>, FramingError> {
        let (mut chunks, mut out, mut at) = (Chunks::default(), Vec::new(), 0);
        let mut seen = piece.min(bytes.len());
        loop {
            match chunks.next(&bytes[at..seen])? {
                ChunkEvent::End => return Ok(Some(out)),
                ChunkEvent::Frame(taken) => at += taken,
                ChunkEvent::Data(left) if at < seen => {
                    let take = left.min((seen - at) as u64);
                    out.extend_from_slice(&bytes[at..at + take as usize]);
                    chunks.note_read(take);
                    at += take as usize;
                }
                ChunkEvent::Data(_) | ChunkEvent::More if seen == bytes.len() => return Ok(None),
                ChunkEvent::Data(_) | ChunkEvent::More => seen = (seen + piece).min(bytes.len()),
            }
        }
    }

    #[test]
    fn chunks_are_decoded_and_malformed_ones_refused() {
        let body = b"4;ext=1\r\nWiki\r\n5\r\npedia\r\n0\r\nX-T: 1\r\n\r\n";
        for piece in 1..body.len() {
            assert_eq!(unchunk(body, piece), Ok(Some(b"Wikipedia".to_vec())), "{piece}");
        }
        assert_eq!(unchunk(b"4\r\nWi", 99), Ok(None));
        for bad in [
            "4\nWiki\r\n0\r\n\r\n",
            "-4\r\nWiki",
            "4\r\nWikix\r\n",
            "ffffffffffffffffff\r\n",
            " \r\n",
            "g\r\n",
            "4\x0b\r\n",
            "\x0b4\r\n",
            " 4\r\n",
            "4\r;x\r\n",
            "4;\rx\r\n",
            "4\u{a0}\r\n",
            "4;a=\0\r\n",
            "0\r\na: \rb\r\n\r\n",
            "0\r\nA\r\n\r\n",
            "0\r\nA : b\r\n\r\n",
            "0\r\n b\r\n\r\n",
            "0\r\n:b\r\n\r\n",
        ] {
            assert_eq!(unchunk(bad.as_bytes(), 99), Err(FramingError::Chunk), "{bad:?}");
        }
        let endless = format!("0\r\n{}", "a: b\r\n".repeat(TRAILER_BYTES_MAX));
        assert_eq!(unchunk(endless.as_bytes(), 4096), Err(FramingError::Chunk));
    }

    proptest! {
        #[test]
        fn a_body_encoded_in_chunks_is_decoded_unchanged(pieces: Vec<Vec<u8>>, step in 1usize..50) {
            let mut coded = Vec::new();
            for piece in pieces.iter().filter(|p| !p.is_empty()) {
                coded.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                coded.extend_from_slice(piece);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(unchunk(&coded, step), Ok(Some(pieces.concat())));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, step in 1usize..50) {
            let _ = unchunk(&bytes, step);
        }
    }
}

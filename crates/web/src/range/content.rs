//! `Content-Range`, and the frame of `multipart/byteranges`. The length of the whole body is known before the file is read, so that
//! the kernel can send the pieces of the file between the heads of the parts.

use std::fmt;

use super::Span;

/// The value of `Content-Range` (RFC 9110, section 14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes a-b/size`; the size is `*` where the sender does not know it.
    Part(Span, Option<u64>),
    /// `bytes */size`, in a 416.
    Unsatisfied(u64),
}

impl ContentRange {
    /// Parses a value; `None` where it is malformed, of another unit, or ends after the end of the whole.
    pub fn parse(value: &str) -> Option<ContentRange> {
        let (unit, rest) = value.trim().split_once(' ')?;
        let (range, size) = rest.trim().split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        if range == "*" {
            return Some(ContentRange::Unsatisfied(exact(size)?));
        }
        let (first, last) = range.split_once('-')?;
        let (first, last) = (exact(first)?, exact(last)?);
        let len = last.checked_sub(first)?.checked_add(1)?;
        let size = if size == "*" { None } else { Some(exact(size)?) };
        let within = first.checked_add(len)? <= size.unwrap_or(u64::MAX);
        within.then_some(ContentRange::Part(Span { start: first, len }, size))
    }
}

/// Parses a number. Unlike in a request, one that is too large for 64 bits is an error: it is the offset of the body's bytes.
fn exact(digits: &str) -> Option<u64> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentRange::Part(span, Some(size)) => write!(f, "bytes {}-{}/{size}", span.start, span.last()),
            ContentRange::Part(span, None) => write!(f, "bytes {}-{}/*", span.start, span.last()),
            ContentRange::Unsatisfied(size) => write!(f, "bytes */{size}"),
        }
    }
}

/// The frame of a `multipart/byteranges` body (RFC 9110, section 14.6). The body is, for each span, [`Multipart::head`]
/// and the span's bytes, then [`Multipart::tail`].
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    content_type: String,
    size: u64,
}

impl Multipart {
    /// A frame for parts of a representation of `size` bytes. The boundary (RFC 2046, section 5.1.1: at most 70 letters, digits and
    /// hyphens) must be random: it must not occur in the bytes, which are not searched. Other characters are left out of it.
    pub fn new(boundary: &str, content_type: &str, size: u64) -> Multipart {
        let boundary = boundary.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(70).collect();
        let content_type = content_type.chars().filter(|c| !c.is_control()).collect();
        Multipart { boundary, content_type, size }
    }

    /// The value of the answer's `Content-Type`.
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The text before the bytes of a part. `Content-Range` comes last: davix takes a field after it for an error.
    pub fn head(&self, span: Span) -> String {
        let Multipart { boundary, content_type, size } = self;
        let range = ContentRange::Part(span, Some(*size));
        format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n")
    }

    /// The text after the bytes of the last part.
    pub fn tail(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }

    /// The `Content-Length` of the response; `None` where it does not fit into 64 bits.
    pub fn len(&self, spans: &[Span]) -> Option<u64> {
        let framed = |span: &Span| span.len.checked_add(self.head(*span).len() as u64);
        let heads = spans.iter().try_fold(0u64, |sum, span| sum.checked_add(framed(span)?))?;
        heads.checked_add(self.tail().len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn content_range_is_written_and_parsed() {
        let part = |start, len, size| ContentRange::Part(Span { start, len }, size);
        for (text, value) in [
            ("bytes 0-9/100", part(0, 10, Some(100))),
            ("bytes 42-1233/*", part(42, 1192, None)),
            ("bytes */1234", ContentRange::Unsatisfied(1234)),
        ] {
            assert_eq!(ContentRange::parse(text), Some(value));
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        for text in ["", "bytes", "bytes 0-9", "bytes 9-0/100", "bytes 0-100/100", "bytes 35--1/40", "items 0-1/2"] {
            assert_eq!(ContentRange::parse(text), None, "{text}");
        }
        for text in ["bytes */*", "bytes 0-18446744073709551615/*", "bytes 0-99999999999999999999/*", "bytes -/1"] {
            assert_eq!(ContentRange::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_body_of_two_parts_is_framed() {
        let multipart = Multipart::new("THIS\r\n_STRING", "application/octet-stream", 10);
        assert_eq!(multipart.content_type(), "multipart/byteranges; boundary=THISSTRING");
        let (text, spans) = (b"0123456789", [Span { start: 0, len: 2 }, Span { start: 7, len: 3 }]);
        let mut body = Vec::new();
        for span in spans {
            body.extend_from_slice(multipart.head(span).as_bytes());
            body.extend_from_slice(&text[span.start as usize..span.end() as usize]);
        }
        body.extend_from_slice(multipart.tail().as_bytes());
        let expected = "\r\n--THISSTRING\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
                        \r\n--THISSTRING\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 7-9/10\r\n\r\n789\
                        \r\n--THISSTRING--\r\n";
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        assert_eq!(multipart.len(&spans), Some(expected.len() as u64));
    }

    #[test]
    fn a_length_beyond_64_bits_is_none() {
        let multipart = Multipart::new("b", "t", u64::MAX);
        assert_eq!(multipart.len(&[Span { start: 0, len: u64::MAX }; 2]), None);
    }

    proptest! {
        #[test]
        fn a_written_content_range_is_parsed_unchanged(start in 0..u64::MAX / 3, len in 1..u64::MAX / 3, more in 0..u64::MAX / 3) {
            let range = ContentRange::Part(Span { start, len }, Some(start + len + more));
            prop_assert_eq!(ContentRange::parse(&range.to_string()), Some(range));
        }
    }
}

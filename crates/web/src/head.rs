//! Heads of messages (RFC 9112, sections 2 to 5): parsed within bounds, and written.

use std::fmt::Write;

use crate::headers::{Headers, ows};
use crate::method::Method;

/// The most bytes of a head, its first line and fields together.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most fields of a head.
pub const FIELDS_MAX: usize = 128;
/// The most bytes of a request's target.
pub const TARGET_BYTES_MAX: usize = 8 << 10;

/// A request, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The target, as it was sent.
    pub target: String,
    /// The minor version: 0 or 1.
    pub minor: u8,
    /// Its fields.
    pub headers: Headers,
}

/// A response, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub headers: Headers,
    /// The minor version: 0 or 1.
    pub minor: u8,
}

/// Why bytes are not a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// More than [`HEAD_BYTES_MAX`] bytes, or more than [`FIELDS_MAX`] fields.
    #[error("the head is longer than {HEAD_BYTES_MAX} bytes or has more than {FIELDS_MAX} fields")]
    TooLarge,
    /// A target of more than [`TARGET_BYTES_MAX`] bytes.
    #[error("the request's target is longer than {TARGET_BYTES_MAX} bytes")]
    TargetTooLong,
    /// Not HTTP.
    #[error("this is not a head of HTTP/1.1: {0}")]
    Malformed(&'static str),
    /// HTTP of another major version.
    #[error("only HTTP/1.0, HTTP/1.1 and HTTP/2 are supported")]
    Version,
}

impl HeadError {
    /// The status to answer with.
    pub fn status(self) -> u16 {
        match self {
            HeadError::TooLarge => 431,
            HeadError::TargetTooLong => 414,
            HeadError::Malformed(_) => 400,
            HeadError::Version => 505,
        }
    }
}

fn malformed(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooLarge,
        httparse::Error::Version => HeadError::Version,
        httparse::Error::HeaderName => HeadError::Malformed("a field's name is not a token"),
        httparse::Error::HeaderValue => HeadError::Malformed("a field's value contains a control character"),
        httparse::Error::NewLine => HeadError::Malformed("a line does not end with CR LF"),
        httparse::Error::Status => HeadError::Malformed("the status is not a number of three digits"),
        _ => HeadError::Malformed("the first line is not a request or status line of HTTP"),
    }
}

fn fields(parsed: &[httparse::Header<'_>]) -> Headers {
    // Values are bytes (RFC 9110, section 5.5); all values that are used here are text.
    parsed.iter().map(|h| (h.name, ows(&String::from_utf8_lossy(h.value)).to_owned())).collect()
}

/// The result for an incomplete head: an error if it is already too long.
fn unfinished<T>(bytes: &[u8]) -> Result<Option<T>, HeadError> {
    if bytes.len() >= HEAD_BYTES_MAX { Err(HeadError::TooLarge) } else { Ok(None) }
}

/// The offset of the digit of the minor version, where the first line names a later one than HTTP/1.1.
fn later_minor(bytes: &[u8]) -> Option<usize> {
    let begins = bytes.iter().position(|byte| !b"\r\n".contains(byte))?;
    let ends = begins + bytes[begins..].iter().position(|byte| *byte == b'\r')?;
    let digit = ends.checked_sub(1)?;
    let version = bytes[begins..digit].ends_with(b" HTTP/1.");
    (version && matches!(bytes[digit], b'2'..=b'9')).then_some(digit)
}

/// Parses a request at the start of bytes. Returns it with its length in bytes; `None` while it is incomplete. A later minor version is
/// read as HTTP/1.1 (RFC 9110, section 2.5), and an empty line before the request is skipped (RFC 9112, section 2.2).
///
/// # Errors
/// [`HeadError`]: the bytes are not a request, or exceed the bounds.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, HeadError> {
    match later_minor(bytes) {
        Some(digit) => {
            let mut as_known = bytes.to_vec();
            as_known[digit] = b'1';
            parse_known(&as_known)
        }
        None => parse_known(bytes),
    }
}

fn parse_known(bytes: &[u8]) -> Result<Option<(Request, usize)>, HeadError> {
    let mut storage = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut storage);
    let status = parsed.parse(bytes).map_err(malformed)?;
    if parsed.path.is_some_and(|target| target.len() > TARGET_BYTES_MAX) {
        return Err(HeadError::TargetTooLong);
    }
    let httparse::Status::Complete(taken) = status else { return unfinished(bytes) };
    if taken > HEAD_BYTES_MAX {
        return Err(HeadError::TooLarge);
    }
    // A server that accepts only CR LF would see the head end elsewhere. RFC 9112, section 2.2, permits a lone LF and does not require
    // it.
    if bytes[..taken].windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r') {
        return Err(HeadError::Malformed("a line does not end with CR LF"));
    }
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(HeadError::Malformed("the first line is not a request or status line of HTTP"));
    };
    let (method, target) = (Method::parse(method), target.to_owned());
    let headers = fields(parsed.headers);
    // Exactly one host: with two, servers on the path could choose different ones (RFC 9112, section 3.2).
    if headers.all("host").count() > 1 || (minor == 1 && headers.get("host").is_none()) {
        return Err(HeadError::Malformed("a request of HTTP/1.1 has exactly one field Host"));
    }
    if headers.get("host").is_some_and(|host| !is_authority(host)) {
        return Err(HeadError::Malformed("Host must be a name or an address, with an optional port"));
    }
    Ok(Some((Request { method, target, minor, headers }, taken)))
}

/// Whether a text has only the characters of `uri-host [":" port]` (RFC 9110, section 7.2), which may be empty.
fn is_authority(host: &str) -> bool {
    host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&b))
}

/// Parses a response at the start of bytes. Returns it with its length in bytes; `None` while it is incomplete.
///
/// # Errors
/// [`HeadError`]: the bytes are not a response, or exceed the bounds.
pub fn parse_response(bytes: &[u8]) -> Result<Option<(Response, usize)>, HeadError> {
    let mut storage = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut storage);
    let httparse::Status::Complete(taken) = parsed.parse(bytes).map_err(malformed)? else {
        return unfinished(bytes);
    };
    if taken > HEAD_BYTES_MAX {
        return Err(HeadError::TooLarge);
    }
    let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
        return Err(HeadError::Malformed("the first line is not a request or status line of HTTP"));
    };
    // These statuses have no meaning; code that compares with 400 would treat them as success.
    if status < 100 {
        return Err(HeadError::Malformed("the status is below 100"));
    }
    Ok(Some((Response { status, headers: fields(parsed.headers), minor }, taken)))
}

impl Request {
    /// A request in HTTP/1.1.
    pub fn new(method: Method, target: impl Into<String>, headers: Headers) -> Request {
        Request { method, target: target.into(), minor: 1, headers }
    }

    /// Its bytes on the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.{}\r\n", self.method, self.target, self.minor);
        self.headers.write(&mut text);
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// Whether the client keeps the connection open after the response.
    pub fn keeps_connection(&self) -> bool {
        match self.minor {
            0 => self.headers.lists("connection", "keep-alive"),
            _ => !self.headers.lists("connection", "close"),
        }
    }

    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
    pub fn waits_for_continue(&self) -> bool {
        self.minor > 0 && self.headers.lists("expect", "100-continue")
    }

    /// Whether it has an expectation that is not supported: 417 (RFC 9110, section 10.1.1).
    pub fn has_unknown_expectation(&self) -> bool {
        let mut all = self.headers.all("expect").flat_map(|value| value.split(',')).map(ows);
        self.minor > 0 && all.any(|one| !one.is_empty() && !one.eq_ignore_ascii_case("100-continue"))
    }
}

impl Response {
    /// A response without fields.
    pub fn new(status: u16) -> Response {
        Response { status, headers: Headers::new(), minor: 1 }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Response {
        self.headers.add(name, value);
        self
    }

    /// Its bytes on the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::with_capacity(512);
        let _ = write!(text, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        self.headers.write(&mut text);
        text.push_str("\r\n");
        text.into_bytes()
    }
}

/// The reason phrase of a status (the registry of RFC 9110, section 16.2, as far as it is used here).
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(text: &str) -> Result<Option<(Request, usize)>, HeadError> {
        parse_request(text.as_bytes())
    }

    #[test]
    fn a_request_ends_before_its_body() {
        let text = "GET /d/f?x=1 HTTP/1.1\r\nHost: h\r\nRange:  bytes=0-1 \r\n\r\nbody";
        let (parsed, taken) = request(text).unwrap().unwrap();
        assert_eq!((&parsed.method, parsed.target.as_str(), taken), (&Method::Get, "/d/f?x=1", text.len() - 4));
        assert_eq!(parsed.headers.get("RANGE"), Some("bytes=0-1"));
        assert!(parsed.keeps_connection());
        assert_eq!(request("GET / HTTP/1.1\r\nHo").unwrap(), None);
    }

    #[test]
    fn unknown_methods_and_later_minor_versions_are_read() {
        let text = "\r\nget / HTTP/1.2\r\nHost: h\r\n\r\nGET";
        let (parsed, taken) = request(text).unwrap().unwrap();
        assert_eq!((parsed.method, parsed.minor, taken), (Method::Other("get".into()), 1, text.len() - 3));
        // Only the version in the first line counts.
        assert_eq!(request("GET / HTTP/2.2\r\nA: HTTP/1.2\r\nHost: h\r\n\r\n"), Err(HeadError::Version));
    }

    #[test]
    fn requests_that_are_too_long_or_malformed_are_refused() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(TARGET_BYTES_MAX));
        assert_eq!(request(&long), Err(HeadError::TargetTooLong));
        let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX));
        assert_eq!(request(&many), Err(HeadError::TooLarge));
        let endless = format!("GET / HTTP/1.1\r\nHost: h\r\na: {}", "b".repeat(HEAD_BYTES_MAX));
        assert_eq!(request(&endless), Err(HeadError::TooLarge));
        assert_eq!(request("GET / HTTP/3.0\r\nHost: h\r\n\r\n"), Err(HeadError::Version));
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "\x01\x02 / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nB: c\r\n\r\n",
        ] {
            assert!(matches!(request(bad), Err(HeadError::Malformed(_))), "{bad:?}");
        }
    }

    #[test]
    fn responses_that_are_too_long_or_malformed_are_refused() {
        for status in ["000", "006", "099"] {
            let answer = format!("HTTP/1.1 {status} x\r\n\r\n");
            assert_eq!(parse_response(answer.as_bytes()), Err(HeadError::Malformed("the status is below 100")));
        }
        let head = |length: usize| format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(length - 24));
        let longest = head(HEAD_BYTES_MAX);
        assert_eq!(parse_response(longest.as_bytes()).map(|found| found.map(|f| f.1)), Ok(Some(HEAD_BYTES_MAX)));
        assert_eq!(parse_response(head(HEAD_BYTES_MAX + 1).as_bytes()), Err(HeadError::TooLarge));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            let _ = parse_request(&bytes);
            let _ = parse_response(&bytes);
        }

        #[test]
        fn a_written_response_is_parsed_unchanged(status in 100u16..600, name in "[A-Za-z-]{1,20}", value in "[!-~]{0,40}") {
            let written = Response::new(status).with(&name, value);
            let bytes = written.to_bytes();
            prop_assert_eq!(parse_response(&bytes), Ok(Some((written, bytes.len()))));
        }
    }
}

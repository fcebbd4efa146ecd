//! Messages of HTTP/1.1 and their parts: heads, chunks, addresses, dates, marks of flows.

use super::text;
use crate::body::{self, ChunkEvent, Chunks, FramingError};
use crate::client::follow;
use crate::head::{self, HEAD_BYTES_MAX, HeadError, Request, Response, TARGET_BYTES_MAX};
use crate::method::Method;
use crate::scitag::SciTag;
use crate::url::HttpUrl;
use crate::{Headers, date};

/// Parses the head of a request, then the same bytes as the head of a response, and determines the framing of their bodies.
pub fn head(bytes: &[u8]) {
    if let Ok(Some((request, taken))) = head::parse_request(bytes) {
        ends_once(bytes, taken, |part| head::parse_request(part).map(|found| found.is_some()));
        let is_forbidden = |c: char| c.is_ascii_control() || c == ' ';
        assert!(request.target.len() <= TARGET_BYTES_MAX && !request.target.contains(is_forbidden));
        let _ = (
            body::of_request(&request),
            request.keeps_connection(),
            request.waits_for_continue(),
            request.has_unknown_expectation(),
        );
        request_reads_back(&request);
    }
    if let Ok(Some((response, taken))) = head::parse_response(bytes) {
        ends_once(bytes, taken, |part| head::parse_response(part).map(|found| found.is_some()));
        let _ = [Method::Get, Method::Head].map(|method| body::of_response(&response, &method));
        response_reads_back(&response);
    }
}

/// Asserts that a head is complete at exactly `taken` bytes, whatever follows it, and is not longer than the bound.
fn ends_once(bytes: &[u8], taken: usize, is_whole: impl Fn(&[u8]) -> Result<bool, HeadError>) {
    assert!(taken <= HEAD_BYTES_MAX, "a head of {taken} bytes");
    assert_eq!(is_whole(&bytes[..taken]), Ok(true), "the head is complete without the bytes after it");
    assert_eq!(is_whole(&bytes[..taken - 1]), Ok(false), "the head is incomplete without its last byte");
}

/// Asserts that a written request is parsed unchanged. Bytes that are not text were replaced by longer ones, so it may be too long.
fn request_reads_back(request: &Request) {
    let written = request.to_bytes();
    match head::parse_request(&written) {
        Ok(again) => assert_eq!(again, Some((request.clone(), written.len())), "a request is parsed differently"),
        Err(error) => assert!(error == HeadError::TooLarge && written.len() > HEAD_BYTES_MAX, "{error}"),
    }
}

/// As [`request_reads_back`]. Written responses have the minor version 1.
fn response_reads_back(response: &Response) {
    let written = response.to_bytes();
    let expected = Response { minor: 1, ..response.clone() };
    match head::parse_response(&written) {
        Ok(again) => assert_eq!(again, Some((expected, written.len())), "an answer is parsed differently"),
        Err(error) => assert!(error == HeadError::TooLarge && written.len() > HEAD_BYTES_MAX, "{error}"),
    }
}

/// Decodes a body in chunks. The first byte gives the size of the pieces in which the others arrive.
pub fn chunks(bytes: &[u8]) {
    let Some((piece, rest)) = bytes.split_first() else { return };
    let at_once = unchunk(rest, rest.len().max(1));
    assert_eq!(unchunk(rest, usize::from(*piece) + 1), at_once, "the size of the pieces does not matter");
    if let Ok((body, _)) = at_once {
        assert!(body.len() <= rest.len(), "a body of {} bytes in {}", body.len(), rest.len());
    }
}

/// Decodes a body. Returns the decoded bytes, and whether the end was reached.
fn unchunk(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, bool), FramingError> {
    let (mut chunks, mut body) = (Chunks::default(), Vec::new());
    let (mut at, mut seen) = (0, piece.min(bytes.len()));
    loop {
        match chunks.next(&bytes[at..seen])? {
            ChunkEvent::End => return Ok((body, true)),
            ChunkEvent::Frame(taken) => at += taken,
            ChunkEvent::Data(left) if at < seen => {
                let take = left.min((seen - at) as u64);
                body.extend_from_slice(&bytes[at..at + take as usize]);
                chunks.note_read(take);
                at += take as usize;
            }
            _ if seen == bytes.len() => return Ok((body, false)),
            _ => seen = (seen + piece).min(bytes.len()),
        }
    }
}

/// Parses an address, and follows a redirect to the `Location` in the second line.
pub fn url(bytes: &[u8]) {
    let lines = text(bytes);
    let (address, location) = lines.split_once('\n').unwrap_or((&lines, ""));
    let Ok(url) = HttpUrl::parse(address) else { return };
    check_address(&url);
    let answer = Response::new(302).with("Location", location);
    let mut headers = Headers::new().with("Authorization", "Bearer secret").with("Accept", "*/*");
    if let Ok(Some(to)) = follow(&answer, &url, &mut headers) {
        check_address(&to);
        assert!(to.is_secure() || !url.is_secure(), "from TLS to clear text");
        assert!(url.is_same_origin(&to) || headers.get("authorization").is_none(), "a secret for another server");
    }
}

fn check_address(url: &HttpUrl) {
    assert_eq!(HttpUrl::parse(url.as_str()).as_ref(), Ok(url), "an address is parsed differently");
    assert!(!url.host().is_empty() && !url.authority().contains(['@', '/', '\\', ' ']), "{url}");
    let line = [url.path_and_query(), url.authority(), &url.redacted()].concat();
    assert!(!line.contains(char::is_control), "one line stays one line");
    assert!(url.path_and_query().starts_with('/'), "{url}");
    url.is_presigned();
}

/// Parses a date of HTTP, and one of RFC 3339.
pub fn dates(bytes: &[u8]) {
    let value = text(bytes);
    if let Some(at) = date::parse_http(&value) {
        assert_eq!(date::parse_http(&date::http(at)), Some(at), "a date is parsed differently");
    }
    if let Some(at) = date::parse_rfc3339(&value) {
        assert!(at.nanos < 1_000_000_000);
        let again = date::parse_rfc3339(&date::rfc3339_us(at));
        assert_eq!(again.map(|at| at.seconds), Some(at.seconds), "a date is parsed differently");
        assert_eq!(again.map(|at| at.nanos / 1_000), Some(at.nanos / 1_000), "a date is parsed differently");
        assert!(date::parse_http(&date::http(at)).is_some() && date::parse_rfc3339(&date::rfc3339(at)).is_some());
    }
}

/// Parses the value of `SciTag`. The first four bytes are the entropy of the flow label.
pub fn scitag(bytes: &[u8]) {
    let Some((entropy, value)) = bytes.split_first_chunk::<4>() else { return };
    let tag = SciTag::parse(&text(value));
    assert_eq!(SciTag::parse(&tag.to_string()), tag, "a mark is parsed differently");
    if tag.is_marked() {
        assert_eq!(SciTag::new(tag.experiment(), tag.activity()), Some(tag));
    }
    let label = tag.flow_label(u32::from_le_bytes(*entropy));
    assert!(label.is_none_or(|label| label < 1 << 20), "a flow label has 20 bits");
    assert_eq!(label.is_some(), tag.is_marked() && tag.experiment() < 512);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..300)) {
            super::head(&bytes);
            super::chunks(&bytes);
            super::url(&bytes);
            super::dates(&bytes);
            super::scitag(&bytes);
        }

        #[test]
        fn likely_heads_are_parsed_or_refused(
            first in "[A-Z]{1,5} [!-~é]{1,20} HTTP/1.[012]",
            fields in vec("[A-Za-z-]{0,12}:[ -~é\t]{0,20}", 0..6),
            end in "\r\n(\r\n)?|\n|\r",
        ) {
            let lines = fields.iter().map(|field| format!("\r\n{field}")).collect::<String>();
            super::head(format!("{first}\r\nHost: h{lines}\r\n{end}").as_bytes());
            super::head(format!("HTTP/1.1 207 x{lines}\r\n{end}").as_bytes());
        }

        #[test]
        fn likely_chunks_are_decoded_or_refused(piece: u8, parts in vec("[0-9a-f]{0,2}(;x=[\"a]{0,3})?\r\n[a-z]{0,20}\r\n", 0..6)) {
            super::chunks(&[&[piece][..], parts.concat().as_bytes(), b"0\r\nTrailer: x\r\n\r\n"].concat());
        }

        #[test]
        fn likely_addresses_are_parsed_or_refused(scheme in "https?|davs?|s3", host in "[a-z0-9.:@\\[\\]%-]{0,15}", path in "[ -~é]{0,20}",
                                location in "(//|https?://)?[ -~é]{0,20}") {
            super::url(format!("{scheme}://{host}/{path}\n{location}").as_bytes());
        }

        #[test]
        fn likely_dates_and_marks_are_parsed_or_refused(
            text in "[0-9]{2,4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-][0-9:]{2,6})",
            tag in "[0-9]{0,6}",
        ) {
            super::dates(text.as_bytes());
            super::scitag(format!("....{tag}").as_bytes());
        }
    }
}

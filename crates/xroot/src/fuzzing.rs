//! Functions that parse the bytes of strangers. The property tests call them in every `make test`; `make fuzz` calls them for any length
//! of time.
//!
//! Each takes any bytes and must return: without a panic or an overflow, within the bounds of [`crate::limits`], and what it parsed is
//! written as it was parsed.

use crate::answer::{AnswerHead, CheckedAnswer, LoginAnswer, OpenAnswer, ProtocolAnswer, RootAnswer};
use crate::entry::{EntryFacts, parse_listing};
use crate::head::{RequestHead, StreamId};
use crate::limits::{ATTRIBUTES_MAX, VECTOR_PARTS_MAX};
use crate::request::RootRequest;
use crate::third_party::CopyRole;
use crate::{RootPath, RootUrl, credentials, pages};

/// Bytes as a request of a client.
pub fn request(bytes: &[u8]) {
    let Some((head, payload)) = bytes.split_first_chunk() else { return };
    let Ok(head) = RequestHead::parse(head) else { return };
    let payload = if head.data_bytes() > 0 { &[] } else { payload };
    let Ok(request) = RootRequest::parse(&head, payload) else { return };
    match &request {
        RootRequest::ReadVector { parts, .. } | RootRequest::WriteVector { parts, .. } => {
            assert!(parts.len() <= VECTOR_PARTS_MAX)
        }
        RootRequest::Attributes(attributes) => assert!(format!("{attributes:?}").len() < ATTRIBUTES_MAX << 20),
        RootRequest::Open { place, .. } => {
            let _ = CopyRole::of(place);
        }
        RootRequest::Authenticate { credential, .. } => {
            let _ = credentials::parse_token(credential);
        }
        _ => {}
    }
    let again = request.to_bytes(StreamId([1, 2]));
    let Some((head, payload)) = again.split_first_chunk() else { unreachable!("a request has a head") };
    let again = RequestHead::parse(head).and_then(|head| RootRequest::parse(&head, payload));
    // A text that is not UTF-8 is written with replacement characters, which may be longer than the field.
    if !matches!(request, RootRequest::Login { .. } | RootRequest::Move { .. } | RootRequest::Other(_)) {
        assert_eq!(again, Ok(request), "a request is parsed differently");
    }
}

/// Bytes as an answer of a server.
pub fn answer(bytes: &[u8]) {
    let Some((head, body)) = bytes.split_first_chunk() else { return };
    let Ok(head) = AnswerHead::parse(head) else { return };
    let _ = CheckedAnswer::parse(body);
    let _ = (ProtocolAnswer::parse(body), LoginAnswer::parse(body), OpenAnswer::parse(body));
    let Ok(answer) = RootAnswer::parse(&head, body) else { return };
    let written = answer.to_bytes(head.stream);
    let Some((head, body)) = written.split_first_chunk() else { unreachable!("an answer has a head") };
    let again = AnswerHead::parse(head).and_then(|head| RootAnswer::parse(&head, body));
    assert_eq!(again, Ok(answer), "an answer is parsed differently");
}

/// Bytes as a listing, as facts of an entry, and as an address.
pub fn text(bytes: &[u8]) {
    for asked in [false, true] {
        let _ = parse_listing(bytes, asked);
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(facts) = EntryFacts::parse(&text) {
        assert_eq!(EntryFacts::parse(&facts.to_string()), Ok(facts));
    }
    if let Ok(url) = RootUrl::parse(&text) {
        assert!(!url.redacted().contains('?'));
    }
    if let Ok(place) = RootPath::parse(bytes) {
        assert!(!place.path.as_bytes().split(|byte| *byte == b'/').any(|name| name == b".."));
        assert_eq!(RootPath::parse(&place.to_bytes()), Ok(place));
    }
}

/// Bytes as pages at an offset, which the first eight bytes give.
pub fn pages(bytes: &[u8]) {
    let Some((offset, rest)) = bytes.split_first_chunk() else { return };
    let offset = u64::from_be_bytes(*offset) >> 1;
    let mut encoded = rest.to_vec();
    let Ok(decoded) = pages::decode(offset, &mut encoded) else { return };
    assert!(decoded.damaged.len() <= pages::count(offset, decoded.bytes));
    if decoded.damaged.is_empty() {
        let mut again = Vec::new();
        pages::encode(offset, &encoded[..decoded.bytes], &mut again);
        assert_eq!(again, rest, "pages have one form");
    }
}

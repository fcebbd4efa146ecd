//! Functions that parse untrusted bytes, for tests. The property tests call them in every `make test`; `make fuzz` (`fuzz/` at the root of
//! the workspace) calls them for any length of time.
//!
//! Each function takes arbitrary bytes and uses the real code as a server or client would. It asserts that there is no panic and no
//! overflow, that results keep the bounds, and that written values are parsed unchanged.

mod message;

use std::borrow::Cow;

use model::Algorithm;

use crate::conditions::{Conditions, Current, ETag};
use crate::copy::marker::{MarkerEvent, Markers};
use crate::copy::{self, CopyRequest};
use crate::dav::condition::{If, State};
use crate::dav::proppatch::Change;
use crate::dav::{self, PropfindRequest, Resource, listing, multistatus};
use crate::digest::{self, repr};
use crate::range::{self, ContentRange, Multipart, ResolvedRanges};
use crate::target;
use crate::url::HttpUrl;

pub use message::{chunks, dates, head, scitag, url};

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Parses a size (8 bytes, little-endian) and the value of `Range`, and the same value as `Content-Range`.
pub fn range(bytes: &[u8]) {
    let Some((size, value)) = bytes.split_first_chunk::<8>() else { return };
    let (size, value) = (u64::from_le_bytes(*size), text(value));
    if let Some(found) = ContentRange::parse(&value) {
        assert_eq!(ContentRange::parse(&found.to_string()), Some(found), "a range is parsed differently");
    }
    let Some(specs) = range::parse(&value) else { return };
    assert!(!specs.is_empty() && specs.len() <= range::RANGES_MAX + 1);
    let ResolvedRanges::Parts(parts) = range::resolve(&specs, size) else { return };
    assert!(!parts.is_empty() && parts.len() <= specs.len());
    for part in &parts {
        let end = part.start.checked_add(part.len);
        assert!(part.len > 0 && end.is_some_and(|end| end <= size), "{part:?} of {size}");
        let line = ContentRange::Part(*part, Some(size));
        assert_eq!(ContentRange::parse(&line.to_string()), Some(line), "a part is parsed differently");
    }
    let frame = Multipart::new("b", "text/plain", size);
    let framed = parts.iter().map(|part| u128::from(part.len) + frame.head(*part).len() as u128).sum::<u128>();
    let whole = framed + frame.tail().len() as u128;
    assert_eq!(frame.len(&parts), u64::try_from(whole).ok(), "the length known in advance");
}

/// Evaluates conditions whose values are entity tags or dates.
pub fn conditions(bytes: &[u8]) {
    let value = text(bytes);
    let tag = ETag::parse(&value);
    if let Some(tag) = &tag {
        assert_eq!(ETag::parse(&tag.to_string()).as_ref(), Some(tag), "a tag is parsed differently");
    }
    let value = Some(&*value);
    let all =
        Conditions { if_match: value, if_none_match: value, if_modified_since: value, if_unmodified_since: value };
    let dates = Conditions { if_match: None, if_none_match: None, ..all };
    let current = Current { etag: tag, modified: Some(model::Timestamp::default()) };
    for reading in [false, true] {
        all.evaluate(reading, Some(&current));
        dates.evaluate(reading, Some(&current));
        all.evaluate(reading, None);
    }
}

/// Parses a value of each of the headers with digests.
pub fn digest(bytes: &[u8]) {
    let value = text(bytes);
    let offered = [Algorithm::Adler32, Algorithm::Md5];
    for wanted in [digest::wanted([&*value], &offered), repr::wanted([&*value], &offered)].into_iter().flatten() {
        assert!(offered.contains(&wanted), "{wanted} was not offered");
    }
    for found in digest::parse([&*value]).into_iter().chain(digest::parse_oc(&value)).chain(repr::parse([&*value])) {
        assert_eq!(digest::parse([&*digest::format(&found)]), [found], "a digest is parsed differently");
        assert_eq!(digest::parse_oc(&digest::format_oc(&found)), [found], "a digest is parsed differently");
        assert_eq!(repr::parse([&*repr::format(&found)]), [found], "a digest is parsed differently");
    }
    digest::parse_content_md5(&value);
}

/// Parses a request target.
pub fn target(bytes: &[u8]) {
    let value = text(bytes);
    let shown = target::redacted(&value);
    assert!(!shown.contains(char::is_control), "one line stays one line");
    let Ok(found) = target::parse(&value) else { return };
    assert!(!found.path.as_bytes().split(|b| *b == b'/').any(|name| name == b".." || name == b"."), "upwards");
    let again = target::parse(&target::href(&found.path, found.is_dir));
    // Escaping may make three bytes of one. So a written path may be too long, but must not be refused for another reason.
    match again {
        Ok(again) => {
            assert_eq!((again.path, again.is_dir), (found.path.clone(), found.is_dir), "a path is parsed differently")
        }
        Err(error) => assert!(matches!(error, target::TargetError::Long(_)), "{error}"),
    }
    if let Some((export, below)) = found.export() {
        assert_eq!(
            model::RelPath::root().join(&export).join_path(&below),
            found.path,
            "export and path make the whole path"
        );
    }
    found.authz();
}

/// Parses the body of a PROPFIND, and writes and parses the response.
pub fn propfind(bytes: &[u8]) {
    let Ok(query) = dav::propfind::parse(bytes) else { return };
    if let PropfindRequest::Only(props) | PropfindRequest::All { include: props } = &query {
        assert!(props.len() <= dav::PROPS_MAX);
    }
    let resource = Resource { href: "/a".to_owned(), size: Some(1), ..Resource::default() };
    let document =
        [multistatus::open(), multistatus::response(&resource, &query), multistatus::close().to_owned()].concat();
    let read = listing::parse(document.as_bytes()).map(|all| all.into_iter().map(|one| one.href).collect::<Vec<_>>());
    assert_eq!(read, Ok(vec!["/a".to_owned()]), "the response to any request is well-formed");
}

/// Parses the body of a PROPPATCH, and writes and parses a listing with its properties.
pub fn proppatch(bytes: &[u8]) {
    let Ok(changes) = dav::proppatch::parse(bytes) else { return };
    assert!(!changes.is_empty() && changes.len() <= dav::PROPS_MAX);
    let dead = changes.into_iter().filter_map(|change| match change {
        Change::Set(dead) => Some(dead),
        Change::Remove(_) => None,
    });
    let resource = Resource { href: "/a".to_owned(), dead: dead.collect(), ..Resource::default() };
    let response = multistatus::response(&resource, &PropfindRequest::default());
    let document = [multistatus::open(), response, multistatus::close().to_owned()].concat();
    let read = listing::parse(document.as_bytes()).map(|all| all.len());
    assert_eq!(read, Ok(1), "a listing with any property of a client is well-formed");
}

/// Parses the body of a LOCK, and writes and parses a listing with the lock.
pub fn lock(bytes: &[u8]) {
    let Ok(Some(wanted)) = dav::lock::parse(bytes) else { return };
    let active = dav::lock::ActiveLock {
        scope: wanted.scope,
        is_deep: false,
        owner: wanted.owner,
        left: std::time::Duration::ZERO,
        token: "urn:a".to_owned(),
        root: "/a".to_owned(),
    };
    let resource = Resource { href: "/a".to_owned(), locks: vec![active], ..Resource::default() };
    let response = multistatus::response(&resource, &PropfindRequest::default());
    let document = [multistatus::open(), response, multistatus::close().to_owned()].concat();
    assert_eq!(
        listing::parse(document.as_bytes()).map(|all| all.len()),
        Ok(1),
        "a listing with any owner is well-formed"
    );
}

/// Parses the fields `If`, `Lock-Token` and `Timeout`.
pub fn condition(bytes: &[u8]) {
    let value = text(bytes);
    dav::condition::lock_token(&value);
    dav::lock::timeout(Some(&value));
    let Some(found) = If::parse(&value) else { return };
    let tokens: Vec<String> = found.tokens().map(str::to_owned).collect();
    assert!(tokens.len() <= dav::condition::CONDITIONS_MAX);
    found.holds(|_| State { etag: None, tokens: tokens.clone() });
}

/// Parses a multistatus document.
pub fn multistatus(bytes: &[u8]) {
    let Ok(resources) = listing::parse(bytes) else { return };
    for resource in resources {
        assert!(!resource.href.is_empty());
        resource.name();
        multistatus::response(&resource, &PropfindRequest::default());
    }
}

/// Parses the headers of a COPY request: lines of `name: value`.
pub fn copy(bytes: &[u8]) {
    let lines = text(bytes);
    let headers = lines.split('\n').filter_map(|line| line.split_once(": "));
    for (_, value) in headers.clone() {
        copy::is_local(value, "a:1");
    }
    let order = match CopyRequest::from_headers(headers) {
        Ok(order) => order,
        Err(bad) => return assert!((400..500).contains(&bad.status) && !bad.reason.is_empty()),
    };
    let remote = order.direction.remote();
    assert_eq!(HttpUrl::parse(remote.as_str()).as_ref(), Ok(remote), "an address is parsed differently");
    assert!(order.transfer_headers.len() <= copy::TRANSFER_HEADERS_MAX);
    for (name, value) in &order.transfer_headers {
        assert!(!name.is_empty() && !name.contains([' ', ':']), "{name:?}");
        assert!(!value.contains(['\r', '\n', '\0']), "a header within a header: {value:?}");
    }
    assert!(order.streams.is_none_or(|streams| (1..=copy::STREAMS_MAX).contains(&streams)));
}

/// Parses a stream of markers. The first byte gives the size of the pieces in which the others are parsed.
pub fn markers(bytes: &[u8]) {
    let Some((piece, rest)) = bytes.split_first() else { return };
    let mut markers = Markers::default();
    let mut events = Vec::new();
    for chunk in rest.chunks(usize::from(*piece) + 1) {
        events.extend(markers.push(chunk));
    }
    events.extend(markers.finish());
    let mut whole = Markers::default();
    let at_once: Vec<MarkerEvent> = whole.push(rest).into_iter().chain(whole.finish()).collect();
    assert_eq!(events, at_once, "the size of the pieces does not matter");
    for one in events {
        let mut line = String::new();
        match &one {
            MarkerEvent::Marker(marker) => {
                marker.write(&mut line);
                let again = Markers::default().push(line.as_bytes());
                assert!(matches!(again.as_slice(), [MarkerEvent::Marker(m)] if m.bytes == marker.bytes), "{line}");
            }
            MarkerEvent::Outcome(last) => {
                let again = Markers::default().push(last.line().as_bytes());
                assert!(matches!(again.as_slice(), [MarkerEvent::Outcome(_)]), "{}", last.line());
            }
        }
    }
}

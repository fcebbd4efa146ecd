//! Locks in documents (RFC 4918, sections 9.10, 14 and 15): the request of LOCK, and the locks on a resource.

use std::fmt::Write;
use std::time::Duration;

use super::xml::{self, Document, XmlEvent, escape};
use super::{BODY_BYTES_MAX, DAV, DavError, Prop};

/// Whether other locks may exist beside a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// No other lock.
    #[default]
    Exclusive,
    /// Other shared locks.
    Shared,
}

impl Scope {
    fn element(self) -> &'static str {
        match self {
            Scope::Exclusive => "<D:exclusive/>",
            Scope::Shared => "<D:shared/>",
        }
    }
}

/// The request of a LOCK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockRequest {
    /// Shared or exclusive.
    pub scope: Scope,
    /// The owner as the client names it, as XML.
    pub owner: String,
}

/// A lock on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveLock {
    /// Shared or exclusive.
    pub scope: Scope,
    /// The lock covers everything below the resource too.
    pub is_deep: bool,
    /// The owner as the client named it, as XML.
    pub owner: String,
    /// The time until it expires.
    pub left: Duration,
    /// Its token.
    pub token: String,
    /// The address that was locked, escaped.
    pub root: String,
}

/// The content of the property `supportedlock`.
pub(super) const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
    <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// Parses the body of a LOCK; `None` where it is empty, which refreshes a lock.
///
/// # Errors
/// The body is not a `lockinfo`, or asks for another lock than a write lock.
pub fn parse(body: &[u8]) -> Result<Option<LockRequest>, DavError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(DavError::Bounds { what: "bytes", limit: BODY_BYTES_MAX });
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let body = xml::in_utf8(body)?;
    let mut document = Document::new(&body);
    let mut request = LockRequest::default();
    let mut scope = None;
    let mut is_for_writing = false;
    let mut within = Vec::new();
    while let Some(event) = document.next()? {
        match event {
            XmlEvent::Open(element) => {
                if within.is_empty() && element != Prop::dav("lockinfo") {
                    return Err(DavError::Root { found: element.name, wanted: "lockinfo" });
                }
                let is_dav = element.namespace == DAV;
                if within.len() == 1 && is_dav && element.name == "owner" {
                    request.owner = document.fragment()?;
                    continue;
                }
                within.push(if is_dav { element.name } else { String::new() });
            }
            XmlEvent::Text(_) => {}
            XmlEvent::Close => {
                match within.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    [_, "lockscope", "exclusive"] => scope = Some(Scope::Exclusive),
                    [_, "lockscope", "shared"] => scope = Some(Scope::Shared),
                    [_, "locktype", "write"] => is_for_writing = true,
                    _ => {}
                }
                within.pop();
            }
        }
    }
    match scope {
        Some(scope) if is_for_writing => Ok(Some(LockRequest { scope, ..request })),
        _ => Err(DavError::Lock),
    }
}

/// The requested lifetime of a lock (`Timeout`, RFC 4918, section 10.7): the first known value of the list; `None` for as long as
/// possible.
pub fn timeout(value: Option<&str>) -> Option<Duration> {
    let words = value.unwrap_or_default().split(',').map(str::trim);
    let mut known = words.filter_map(|word| {
        let seconds = word.get(..7).filter(|start| start.eq_ignore_ascii_case("second-")).map(|_| &word[7..]);
        match seconds {
            Some(seconds) => seconds.parse::<u32>().ok().map(|seconds| Some(Duration::from_secs(seconds.into()))),
            None => word.eq_ignore_ascii_case("infinite").then_some(None),
        }
    });
    known.next().flatten()
}

/// The content of the property `lockdiscovery`.
pub(super) fn discovery(locks: &[ActiveLock]) -> String {
    let mut out = String::new();
    for lock in locks {
        let depth = if lock.is_deep { "infinity" } else { "0" };
        let _ = write!(
            out,
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope>{}</D:lockscope><D:depth>{depth}</D:depth>",
            lock.scope.element()
        );
        if !lock.owner.is_empty() {
            let _ = write!(out, "<D:owner>{}</D:owner>", lock.owner);
        }
        let _ = write!(
            out,
            "<D:timeout>Second-{}</D:timeout><D:locktoken><D:href>{}</D:href></D:locktoken>\
             <D:lockroot><D:href>{}</D:href></D:lockroot></D:activelock>",
            lock.left.as_secs(),
            escape(&lock.token),
            escape(&lock.root)
        );
    }
    out
}

/// The body of the response to a LOCK.
pub fn answer(locks: &[ActiveLock]) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{}</D:lockdiscovery></D:prop>\n",
        discovery(locks)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dav::damaged::damaged;
    use proptest::prelude::*;

    const LITMUS: &str = "<?xml version='1.0' encoding='utf-8'?>\n<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope>\
        <locktype><write/></locktype><owner>litmus <b>suite</b></owner></lockinfo>";

    #[test]
    fn the_request_of_litmus_is_parsed() {
        let request = parse(LITMUS.as_bytes()).unwrap().unwrap();
        let owner = "litmus <b xmlns=\"DAV:\">suite</b>".to_owned();
        assert_eq!(request, LockRequest { scope: Scope::Shared, owner });
        assert_eq!(parse(b" \n"), Ok(None));
        let exclusive = LITMUS.replace("shared", "exclusive");
        assert_eq!(parse(exclusive.as_bytes()).unwrap().unwrap().scope, Scope::Exclusive);
        for bad in [LITMUS.replace("<write/>", ""), LITMUS.replace("shared", "open"), LITMUS.replace("lockinfo", "a")] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err().status(), 400, "{bad}");
        }
    }

    #[test]
    fn timeouts_are_parsed() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(timeout(Some("Second-180")), seconds(180));
        assert_eq!(timeout(Some("Infinite, Second-4100000000")), None);
        assert_eq!(timeout(Some("Extend, second-7")), seconds(7));
        assert_eq!(timeout(Some("Second-99999999999")), None);
        assert_eq!((timeout(None), timeout(Some("Sec\u{f6}nd-1"))), (None, None));
    }

    #[test]
    fn the_response_to_a_lock_is_well_formed() {
        let lock = ActiveLock {
            scope: Scope::Exclusive,
            is_deep: true,
            owner: "<a xmlns=\"urn:a\">me</a>".into(),
            left: Duration::from_millis(59_900),
            token: "urn:uuid:1".into(),
            root: "/d/a&b".into(),
        };
        let text = answer(&[lock]);
        let mut document = Document::new(text.as_bytes());
        while document.next().unwrap().is_some() {}
        assert!(
            text.contains("<D:timeout>Second-59</D:timeout>") && text.contains("<D:href>/d/a&amp;b</D:href>"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn damaged_bodies_are_parsed_or_refused(bytes in damaged(LITMUS)) {
            crate::fuzzing::lock(&bytes);
        }
    }
}

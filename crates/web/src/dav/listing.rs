//! Parses a multistatus document: the listing of a directory, or the properties of one file, from any server.
//!
//! Servers differ in prefixes, in the order of `status` and `prop`, in the namespaces of properties beyond WebDAV, and in whether
//! addresses are paths or URLs. Unusable elements are left out; only a document that is not XML, not a multistatus, or beyond the
//! bounds, is an error.

use super::xml::{Document, XmlEvent};
use super::{DavError, LISTING_BYTES_MAX, Prop, Quota, Resource};
use crate::{date, digest};

/// The longest text of one property that is kept, bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Parses a document.
///
/// # Errors
/// [`DavError`]: the document is not XML, not a multistatus, or beyond the bounds.
pub fn parse(body: &[u8]) -> Result<Vec<Resource>, DavError> {
    if body.len() > LISTING_BYTES_MAX {
        return Err(DavError::Bounds { what: "bytes", limit: LISTING_BYTES_MAX });
    }
    let mut document = Document::new(body);
    let mut parser = ListingParser::default();
    while let Some(event) = document.next()? {
        match event {
            XmlEvent::Open(element) => parser.open(element)?,
            XmlEvent::Text(text) => parser.text(&text),
            XmlEvent::Close => parser.close(),
        }
    }
    if !parser.has_root {
        return Err(DavError::Xml("it has no element at all".to_owned()));
    }
    Ok(parser.resources)
}

/// The position in the document, and the resources that have been read.
#[derive(Default)]
struct ListingParser {
    has_root: bool,
    /// Names of the open elements, outermost first.
    within: Vec<String>,
    text: String,
    resources: Vec<Resource>,
    /// The response being read.
    current: Resource,
    /// The response has a status of its own that is no success, and so no properties.
    failed: bool,
    /// The properties of the propstat being read. They are used only if its status is a success, which may come before or after them.
    found: Vec<(String, String)>,
    status: String,
}

impl ListingParser {
    fn open(&mut self, element: Prop) -> Result<(), DavError> {
        if !self.has_root {
            self.has_root = true;
            if element.name != "multistatus" {
                return Err(DavError::Root { found: element.name, wanted: "multistatus" });
            }
        }
        self.text.clear();
        self.within.push(element.name);
        match names(&self.within).as_slice() {
            [_, "response"] => {
                self.current = Resource::default();
                self.failed = false;
            }
            [_, "response", "propstat"] => {
                self.found.clear();
                self.status.clear();
            }
            [_, "response", "propstat", "prop", "resourcetype", "collection"] => {
                self.found.push(("collection".to_owned(), String::new()));
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.push_str(text);
        }
    }

    fn close(&mut self) {
        let text = self.text.trim().to_owned();
        match names(&self.within).as_slice() {
            [_, "response"] if !self.failed && !self.current.href.is_empty() => {
                self.resources.push(std::mem::take(&mut self.current));
            }
            // Only the first address is used: a response with several reports a status, not properties.
            [_, "response", "href"] if self.current.href.is_empty() => self.current.href = text,
            [_, "response", "status"] => self.failed = !is_success(&text),
            [_, "response", "propstat", "status"] => self.status = text,
            [_, "response", "propstat"] if self.status.is_empty() || is_success(&self.status) => {
                for (name, value) in std::mem::take(&mut self.found) {
                    set_property(&mut self.current, &name, &value);
                }
            }
            [_, "response", "propstat", "prop", name] => {
                let found = ((*name).to_owned(), text);
                self.found.push(found);
            }
            [_, "response", "propstat", "prop", "checksums", "checksum"] => {
                self.found.push(("checksums".to_owned(), text));
            }
            _ => {}
        }
        self.within.pop();
        self.text.clear();
    }
}

fn names(within: &[String]) -> Vec<&str> {
    within.iter().map(String::as_str).collect()
}

/// Whether a status line (`HTTP/1.1 200 OK`) is of the kind 2xx.
fn is_success(line: &str) -> bool {
    line.split_whitespace().nth(1).is_some_and(|code| code.len() == 3 && code.starts_with('2'))
}

/// Sets a property. An empty value is ignored: some servers list properties that they do not know.
fn set_property(resource: &mut Resource, name: &str, value: &str) {
    let is_true = || value == "1" || value.eq_ignore_ascii_case("t") || value.eq_ignore_ascii_case("true");
    match name {
        "collection" => resource.is_dir = true,
        _ if value.is_empty() => {}
        "iscollection" => resource.is_dir |= is_true(),
        "getcontentlength" => resource.size = value.parse().ok(),
        "getlastmodified" => resource.modified = date::parse_http(value),
        "creationdate" => resource.created = date::parse_rfc3339(value),
        "getetag" => resource.etag = Some(value.to_owned()),
        "executable" => resource.executable = Some(is_true()),
        "quota-available-bytes" | "quota-used-bytes" => {
            let Ok(bytes) = value.parse() else { return };
            let quota = resource.quota.get_or_insert(Quota { available: 0, used: None });
            match name {
                "quota-used-bytes" => quota.used = Some(bytes),
                _ => quota.available = bytes,
            }
        }
        "checksums" => resource.digests.extend(digest::parse_oc(value)),
        "Checksums" => resource.digests.extend(digest::parse([value])),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dav::damaged::damaged;
    use model::{Digest, Timestamp};
    use proptest::prelude::*;

    const XROOTD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" \
        xmlns:ns1=\"http://apache.org/dav/props/\" xmlns:ns0=\"DAV:\">\n<D:response xmlns:lp1=\"DAV:\" \
        xmlns:lp2=\"http://apache.org/dav/props/\" xmlns:lp3=\"LCGDM:\">\n<D:href>/data/</D:href>\n<D:propstat>\n<D:prop>\n\
        <lp1:getcontentlength>4096</lp1:getcontentlength>\n<lp1:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT\
        </lp1:getlastmodified>\n<lp1:resourcetype><D:collection/></lp1:resourcetype>\n<lp1:iscollection>1\
        </lp1:iscollection>\n<lp1:executable>T</lp1:executable>\n</D:prop>\n<D:status>HTTP/1.1 200 OK</D:status>\n\
        </D:propstat>\n</D:response>\n</D:multistatus>";

    const APACHE: &str = "<multistatus xmlns='DAV:'><response><href>http://h/dav/a%20b.txt</href>\
        <propstat><status>HTTP/1.1 404 Not Found</status><prop><getetag>x</getetag></prop></propstat>\
        <propstat><status>HTTP/1.1 200 OK</status><prop><resourcetype/><getcontentlength>12</getcontentlength>\
        <creationdate>1997-12-02T17:57:46Z</creationdate><getetag>&quot;a-1&quot;</getetag>\
        <d:Checksums xmlns:d='http://www.dcache.org/2013/webdav'>crc32c=35f690d4</d:Checksums>\
        <quota-used-bytes>5</quota-used-bytes></prop></propstat></response>\
        <response><href>/dav/gone</href><status>HTTP/1.1 404 Not Found</status></response></multistatus>";

    #[test]
    fn the_documents_of_xrootd_and_apache_are_parsed() {
        let read = parse(XROOTD.as_bytes()).unwrap();
        let expected = Resource {
            href: "/data/".into(),
            is_dir: true,
            size: Some(4096),
            modified: Some(Timestamp { seconds: 784_111_777, nanos: 0 }),
            executable: Some(true),
            ..Resource::default()
        };
        assert_eq!(read, [expected]);
        let read = parse(APACHE.as_bytes()).unwrap();
        let expected = Resource {
            href: "http://h/dav/a%20b.txt".into(),
            size: Some(12),
            created: Some(Timestamp { seconds: 881_085_466, nanos: 0 }),
            etag: Some("\"a-1\"".into()),
            digests: vec![Digest::crc32c(0x35f6_90d4)],
            quota: Some(Quota { available: 0, used: Some(5) }),
            ..Resource::default()
        };
        assert_eq!(read, [expected]);
        assert_eq!(read[0].name(), b"a b.txt");
    }

    #[test]
    fn other_documents_are_refused() {
        assert!(matches!(parse(b"<html></html>"), Err(DavError::Root { .. })));
        for bad in [&b""[..], b"hello", b"<multistatus>", b"<!DOCTYPE html><html/>", b"\xff\xfe<"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse(b"<multistatus xmlns='DAV:'/>"), Ok(Vec::new()));
        assert_eq!(parse(b"<multistatus><response><x/></response></multistatus>"), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn damaged_documents_are_parsed_or_refused(bytes in prop_oneof![damaged(XROOTD), damaged(APACHE)]) {
            crate::fuzzing::multistatus(&bytes);
        }
    }
}

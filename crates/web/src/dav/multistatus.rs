//! Writes a multistatus document (RFC 4918, section 13), one response at a time, so that the text of a directory with a million files
//! is never in memory as a whole.

use std::fmt::Write;

use model::Digest;

use super::xml::escape;
use super::{APACHE, DAV, DCACHE, DeadProperty, OWNCLOUD, Prop, PropfindRequest, Resource, lock};
use crate::{date, digest};

/// The `Content-Type` of the document.
pub const CONTENT_TYPE: &str = "application/xml; charset=utf-8";

/// The properties that are returned without being named. Quotas are not among them (RFC 4331, section 3), nor costly properties.
const USUAL: [(&str, &str); 11] = [
    (DAV, "resourcetype"),
    (DAV, "displayname"),
    (DAV, "getcontentlength"),
    (DAV, "getcontenttype"),
    (DAV, "getlastmodified"),
    (DAV, "creationdate"),
    (DAV, "getetag"),
    (DAV, "iscollection"),
    (DAV, "supportedlock"),
    (DAV, "lockdiscovery"),
    (APACHE, "executable"),
];

/// The properties that are returned only when the request names them.
const ON_REQUEST: [(&str, &str); 4] =
    [(DAV, "quota-available-bytes"), (DAV, "quota-used-bytes"), (OWNCLOUD, "checksums"), (DCACHE, "Checksums")];

/// The prefixes that [`open`] declares.
const PREFIXES: [(&str, &str); 4] = [(DAV, "D"), (APACHE, "A"), (OWNCLOUD, "O"), (DCACHE, "C")];

/// The beginning of the document.
pub fn open() -> String {
    let declared = PREFIXES.iter().map(|(namespace, prefix)| format!(" xmlns:{prefix}=\"{namespace}\""));
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus{}>\n", declared.collect::<String>())
}

/// The end of the document.
pub fn close() -> &'static str {
    "</D:multistatus>\n"
}

/// The response of one file or directory: requested properties that exist, under 200; those requested by name that do not exist, under
/// 404.
pub fn response(resource: &Resource, query: &PropfindRequest) -> String {
    let (mut found, mut missing) = (String::new(), String::new());
    let usual = USUAL.iter().filter_map(|(namespace, name)| Some((namespace, name, value(resource, namespace, name)?)));
    match query {
        PropfindRequest::Names => {
            let on_request = ON_REQUEST.iter().filter(|(namespace, name)| value(resource, namespace, name).is_some());
            for (namespace, name) in
                usual.map(|(namespace, name, _)| (namespace, name)).chain(on_request.map(|(a, b)| (a, b)))
            {
                element(&mut found, namespace, name, "");
            }
            for dead in resource.dead.iter().filter(|dead| !is_usual(&dead.prop)) {
                element(&mut found, &dead.prop.namespace, &dead.prop.name, "");
            }
        }
        PropfindRequest::All { include } => {
            for (namespace, name, value) in usual {
                element(&mut found, namespace, name, &value);
            }
            for dead in resource.dead.iter().filter(|dead| !is_usual(&dead.prop)) {
                dead_element(&mut found, dead);
            }
            let is_additional = |prop: &&Prop| !is_usual(prop) && resource.dead.iter().all(|dead| dead.prop != **prop);
            named_elements(resource, include.iter().filter(is_additional), &mut found, &mut missing);
        }
        PropfindRequest::Only(props) => named_elements(resource, props.iter(), &mut found, &mut missing),
    }
    let mut out = format!("<D:response><D:href>{}</D:href>", escape(&resource.href));
    // A response has at least one propstat, even if the request named no property.
    if !found.is_empty() || missing.is_empty() {
        propstat(&mut out, &found, "200 OK");
    }
    if !missing.is_empty() {
        propstat(&mut out, &missing, "404 Not Found");
    }
    out.push_str("</D:response>\n");
    out
}

/// The response of one file or directory with a status, for example one that a DELETE could not remove.
pub fn status(href: &str, status: u16, reason: &str) -> String {
    let (href, reason) = (escape(href), escape(reason));
    format!("<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 {status} {reason}</D:status></D:response>\n")
}

/// Writes the elements of properties that the request names.
fn named_elements<'a>(
    resource: &Resource,
    props: impl Iterator<Item = &'a Prop>,
    found: &mut String,
    missing: &mut String,
) {
    for prop @ Prop { namespace, name } in props {
        match (value(resource, namespace, name), resource.dead.iter().find(|dead| dead.prop == *prop)) {
            (Some(value), _) => element(found, namespace, name, &value),
            (None, Some(dead)) => dead_element(found, dead),
            (None, None) => element(missing, namespace, name, ""),
        }
    }
}

/// Whether a request may ask for dead properties: the server looks them up only then.
pub fn may_be_dead(query: &PropfindRequest) -> bool {
    match query {
        PropfindRequest::All { .. } | PropfindRequest::Names => true,
        PropfindRequest::Only(props) => props.iter().any(|prop| {
            let name = (prop.namespace.as_str(), prop.name.as_str());
            name == (DAV, "displayname") || !(USUAL.contains(&name) || ON_REQUEST.contains(&name))
        }),
    }
}

fn is_usual(prop: &Prop) -> bool {
    USUAL.contains(&(prop.namespace.as_str(), prop.name.as_str()))
}

/// Writes the element of a dead property.
fn dead_element(out: &mut String, dead: &DeadProperty) {
    let language = dead.language.as_deref().map(|language| format!(" xml:lang=\"{}\"", escape(language)));
    let (tag, declared) = tag(&dead.prop.namespace, &dead.prop.name);
    let _ = write!(out, "<{tag}{declared}{}>{}</{tag}>", language.unwrap_or_default(), dead.xml);
}

pub(super) fn propstat(out: &mut String, props: &str, status: &str) {
    // Writing into a String cannot fail.
    let _ = write!(out, "<D:propstat><D:prop>{props}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>");
}

/// Writes an element; `value` is XML already. Names come from requests that parsed as XML names.
pub(super) fn element(out: &mut String, namespace: &str, name: &str, value: &str) {
    let (tag, declared) = tag(namespace, name);
    let _ = match value {
        "" => write!(out, "<{tag}{declared}/>"),
        _ => write!(out, "<{tag}{declared}>{value}</{tag}>"),
    };
}

/// An element's name with its prefix, and the declaration of the prefix where the document does not declare it.
fn tag(namespace: &str, name: &str) -> (String, String) {
    match PREFIXES.iter().find(|(known, _)| *known == namespace) {
        Some((_, prefix)) => (format!("{prefix}:{name}"), String::new()),
        None if namespace.is_empty() => (name.to_owned(), String::new()),
        None => (format!("x:{name}"), format!(" xmlns:x=\"{}\"", escape(namespace))),
    }
}

/// A property's value as XML; `None` where it is not known, or not defined for such a resource.
fn value(resource: &Resource, namespace: &str, name: &str) -> Option<String> {
    // Only for directories: davix requests the quota with every listing, and would show that of a file as its size.
    let quota = resource.quota.filter(|_| resource.is_dir);
    let flag = |yes: bool| if yes { "1" } else { "0" }.to_owned();
    match (namespace, name) {
        (DAV, "resourcetype") => Some(if resource.is_dir { "<D:collection/>" } else { "" }.to_owned()),
        // A client may have set another one.
        (DAV, "displayname") => Some(match resource.dead.iter().find(|dead| dead.prop == Prop::dav("displayname")) {
            Some(dead) => dead.xml.clone(),
            None => escape(&String::from_utf8_lossy(&resource.name())),
        }),
        (DAV, "getcontenttype") => resource.content_type.as_deref().filter(|_| !resource.is_dir).map(escape),
        (DAV, "getcontentlength") => resource.size.filter(|_| !resource.is_dir).map(|size| size.to_string()),
        (DAV, "getlastmodified") => resource.modified.map(date::http),
        (DAV, "creationdate") => resource.created.map(date::rfc3339),
        (DAV, "getetag") => resource.etag.as_deref().map(escape),
        (DAV, "iscollection") => Some(flag(resource.is_dir)),
        (DAV, "supportedlock") => Some(lock::SUPPORTED.to_owned()),
        (DAV, "lockdiscovery") => Some(lock::discovery(&resource.locks)),
        (DAV, "quota-available-bytes") => quota.map(|quota| quota.available.to_string()),
        (DAV, "quota-used-bytes") => quota.and_then(|quota| quota.used).map(|used| used.to_string()),
        (APACHE, "executable") => resource.executable.map(|yes| if yes { "T" } else { "F" }.to_owned()),
        (OWNCLOUD, "checksums") => {
            let list = joined(&resource.digests, " ", digest::format_oc)?;
            Some(format!("<O:checksum>{}</O:checksum>", escape(&list)))
        }
        (DCACHE, "Checksums") => joined(&resource.digests, ",", digest::format).map(|list| escape(&list)),
        _ => None,
    }
}

fn joined(digests: &[Digest], by: &str, form: fn(&Digest) -> String) -> Option<String> {
    let all: Vec<String> = digests.iter().map(form).collect();
    (!all.is_empty()).then(|| all.join(by))
}

#[cfg(test)]
mod tests {
    use super::super::{Quota, listing, propfind};
    use super::*;
    use model::{RelPath, Timestamp};
    use proptest::prelude::*;

    fn file(path: &[u8]) -> Resource {
        Resource {
            href: crate::target::href(&RelPath::parse(path).unwrap(), false),
            size: Some(40),
            modified: Some(Timestamp { seconds: 784_111_777, nanos: 0 }),
            created: Some(Timestamp { seconds: 881_085_466, nanos: 0 }),
            etag: Some("\"a&b\"".to_owned()),
            executable: Some(false),
            digests: vec![Digest::crc32c(0x35f6_90d4)],
            ..Resource::default()
        }
    }

    fn only(inner: &str) -> PropfindRequest {
        propfind::parse(format!("<propfind xmlns='DAV:'><prop>{inner}</prop></propfind>").as_bytes()).unwrap()
    }

    #[test]
    fn the_usual_properties_are_returned_without_being_named() {
        let expected = "<D:response><D:href>/data/a%26b</D:href><D:propstat><D:prop><D:resourcetype/>\
            <D:displayname>a&amp;b</D:displayname><D:getcontentlength>40</D:getcontentlength>\
            <D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>\
            <D:creationdate>1997-12-02T17:57:46Z</D:creationdate><D:getetag>&quot;a&amp;b&quot;</D:getetag>\
            <D:iscollection>0</D:iscollection><D:supportedlock></D:supportedlock><D:lockdiscovery/><A:executable>F</A:executable>\
            </D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n";
        let text = response(&file(b"data/a&b"), &PropfindRequest::default()).replace(lock::SUPPORTED, "");
        assert_eq!(text, expected);
        let names = response(&file(b"data/f"), &PropfindRequest::Names);
        assert!(names.contains("<D:getetag/>") && names.contains("<O:checksums/>") && !names.contains("1994"));
        assert!(!names.contains("quota"));
    }

    #[test]
    fn named_properties_that_do_not_exist_are_listed_under_404() {
        let query = only("<getcontentlength/><x xmlns='urn:&lt;y>'/><z xmlns=''/>");
        let expected = "<D:response><D:href>/f</D:href><D:propstat><D:prop><D:getcontentlength>40</D:getcontentlength>\
            </D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat><D:prop>\
            <x:x xmlns:x=\"urn:&lt;y&gt;\"/><z/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>\
            </D:response>\n";
        assert_eq!(response(&file(b"f"), &query), expected);
        assert!(!response(&file(b"f"), &only("<quota-used-bytes/>")).contains("200 OK"));
        assert!(response(&file(b"f"), &only("")).contains("<D:prop></D:prop><D:status>HTTP/1.1 200 OK"));
    }

    #[test]
    fn quotas_are_of_directories_and_checksums_of_files() {
        let dir = Resource { is_dir: true, quota: Some(Quota { available: 7, used: Some(8) }), ..file(b"d") };
        let text = response(&dir, &only("<resourcetype/><getcontentlength/><quota-used-bytes/>"));
        assert!(text.contains("<D:resourcetype><D:collection/></D:resourcetype><D:quota-used-bytes>8<"), "{text}");
        assert!(text.contains("<D:prop><D:getcontentlength/></D:prop><D:status>HTTP/1.1 404"), "{text}");
        let file_with_quota = Resource { is_dir: false, ..dir };
        assert!(response(&file_with_quota, &only("<quota-used-bytes/>")).contains("404"), "not of a file");
        let query = only(&format!("<checksums xmlns='{OWNCLOUD}'/><Checksums xmlns='{DCACHE}'/>"));
        let text = response(&file(b"f"), &query);
        assert!(text.contains("<O:checksums><O:checksum>CRC32C:35f690d4</O:checksum></O:checksums>"), "{text}");
        assert!(text.contains("<C:Checksums>crc32c=35f690d4</C:Checksums>"), "{text}");
        assert_eq!(status("/f", 423, "Locked"), {
            "<D:response><D:href>/f</D:href><D:status>HTTP/1.1 423 Locked</D:status></D:response>\n"
        });
    }

    #[test]
    fn dead_properties_are_returned_once() {
        let prop = |name: &str| Prop { namespace: "urn:z".into(), name: name.into() };
        let dead = DeadProperty { prop: prop("a"), language: Some("de".into()), xml: "<b xmlns=\"\">1</b>".into() };
        let display_name = DeadProperty { prop: Prop::dav("displayname"), language: None, xml: "other".into() };
        let content_type = Some("text/plain".to_owned());
        let resource = Resource { dead: vec![dead, display_name], content_type, ..file(b"f") };
        let value = "<x:a xmlns:x=\"urn:z\" xml:lang=\"de\"><b xmlns=\"\">1</b></x:a>";
        for query in
            [only("<a xmlns='urn:z'/>"), PropfindRequest::default(), PropfindRequest::All { include: vec![prop("a")] }]
        {
            assert_eq!(response(&resource, &query).matches(value).count(), 1, "{query:?}");
        }
        let all = response(&resource, &PropfindRequest::default());
        assert!(all.contains("<D:displayname>other</D:displayname><D:getcontentlength>40"), "{all}");
        assert_eq!(all.matches("displayname>").count(), 2, "once");
        assert!(all.contains("<D:getcontenttype>text/plain</D:getcontenttype>"), "{all}");
        assert!(response(&resource, &PropfindRequest::Names).contains("<x:a xmlns:x=\"urn:z\"/>"));
    }

    proptest! {
        #[test]
        fn any_name_is_parsed_unchanged_from_a_written_document(bytes in proptest::collection::vec(any::<u8>(), 1..50)) {
            let Ok(path) = RelPath::parse(&bytes) else { return Ok(()) };
            let resource = file(path.as_bytes());
            let query = PropfindRequest::All { include: vec![Prop { namespace: OWNCLOUD.into(), name: "checksums".into() }] };
            let text = [open(), response(&resource, &query), close().to_owned()].concat();
            let read = listing::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&read, &[resource]);
            prop_assert_eq!(read[0].name(), path.name().map(|n| n.as_bytes().to_vec()).unwrap_or_default());
        }
    }
}

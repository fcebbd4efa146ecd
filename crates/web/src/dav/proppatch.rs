//! The changes of a PROPPATCH (RFC 4918, section 9.2), in order, and the response to it.

use super::multistatus::{element, propstat};
use super::xml::{self, Document, XmlEvent, escape};
use super::{BODY_BYTES_MAX, DAV, DavError, DeadProperty, PROPS_MAX, Prop};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Set the property to this value.
    Set(DeadProperty),
    /// Remove the property.
    Remove(Prop),
}

impl Change {
    /// The property that changes.
    pub fn prop(&self) -> &Prop {
        match self {
            Change::Set(DeadProperty { prop, .. }) | Change::Remove(prop) => prop,
        }
    }
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeResult {
    /// The change was made.
    Made,
    /// The property is the server's own (RFC 4918, section 16, `cannot-modify-protected-property`).
    Protected,
    /// The property cannot have this value.
    Unusable,
    /// There is no space for the property.
    NoRoom,
    /// The change was not made because another one failed.
    AnotherFailed,
}

impl ChangeResult {
    fn status(self) -> &'static str {
        match self {
            ChangeResult::Made => "200 OK",
            ChangeResult::Protected => "403 Forbidden",
            ChangeResult::Unusable => "409 Conflict",
            ChangeResult::NoRoom => "507 Insufficient Storage",
            ChangeResult::AnotherFailed => "424 Failed Dependency",
        }
    }
}

/// Parses the body of a PROPPATCH.
///
/// # Errors
/// The body is not a `propertyupdate`, changes nothing, or is beyond the bounds.
pub fn parse(body: &[u8]) -> Result<Vec<Change>, DavError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(DavError::Bounds { what: "bytes", limit: BODY_BYTES_MAX });
    }
    let body = xml::in_utf8(body)?;
    let mut document = Document::new(&body);
    let mut within = Vec::<Prop>::new();
    let mut changes = Vec::new();
    while let Some(event) = document.next()? {
        match event {
            XmlEvent::Open(element) if within.is_empty() && element != Prop::dav("propertyupdate") => {
                return Err(DavError::Root { found: element.name, wanted: "propertyupdate" });
            }
            XmlEvent::Open(element) => match sets_property(&within) {
                None => within.push(element),
                Some(_) if changes.len() == PROPS_MAX => {
                    return Err(DavError::Bounds { what: "properties", limit: PROPS_MAX });
                }
                Some(is_set) => {
                    let language = document.language().map(str::to_owned);
                    let xml = document.fragment()?;
                    changes.push(if is_set {
                        Change::Set(DeadProperty { prop: element, language, xml })
                    } else {
                        Change::Remove(element)
                    });
                }
            },
            XmlEvent::Text(_) => {}
            XmlEvent::Close => drop(within.pop()),
        }
    }
    if changes.is_empty() { Err(DavError::Xml("it changes no property".to_owned())) } else { Ok(changes) }
}

/// Whether an element at this place is a property to set (`true`) or to remove (`false`); `None` where it is not a property.
fn sets_property(within: &[Prop]) -> Option<bool> {
    match within {
        [_, how, prop] if how.namespace == DAV && *prop == Prop::dav("prop") => match how.name.as_str() {
            "set" => Some(true),
            "remove" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The response: each property under the status of its change.
pub fn response(href: &str, changes: &[(&Prop, ChangeResult)]) -> String {
    let mut out = format!("<D:response><D:href>{}</D:href>", escape(href));
    for result in [
        ChangeResult::Made,
        ChangeResult::Protected,
        ChangeResult::Unusable,
        ChangeResult::NoRoom,
        ChangeResult::AnotherFailed,
    ] {
        let mut props = String::new();
        for (prop, _) in changes.iter().filter(|(_, given)| *given == result) {
            element(&mut props, &prop.namespace, &prop.name, "");
        }
        if !props.is_empty() {
            propstat(&mut out, &props, result.status());
        }
    }
    out.push_str("</D:response>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dav::damaged::damaged;
    use proptest::prelude::*;

    const UPDATE: &str = "<D:propertyupdate xmlns:D='DAV:' xmlns:Z='urn:z' xml:lang='en'><D:set><D:prop><Z:authors>\
        <Z:a>Jim</Z:a></Z:authors><b xmlns='' xml:lang='de'>x</b></D:prop></D:set><D:remove><D:prop><Z:old/></D:prop>\
        </D:remove></D:propertyupdate>";

    #[test]
    fn changes_are_parsed_in_their_order() {
        let changes = parse(UPDATE.as_bytes()).unwrap();
        let prop = |namespace: &str, name: &str| Prop { namespace: namespace.into(), name: name.into() };
        let set = |prop, language: &str, xml: &str| {
            Change::Set(DeadProperty { prop, language: Some(language.to_owned()), xml: xml.to_owned() })
        };
        let expected = [
            set(prop("urn:z", "authors"), "en", "<Z:a xmlns:Z=\"urn:z\">Jim</Z:a>"),
            set(prop("", "b"), "de", "x"),
            Change::Remove(prop("urn:z", "old")),
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn malformed_and_oversized_bodies_are_refused() {
        for bad in ["", "<a/>", "<propertyupdate xmlns='DAV:'/>", "<propertyupdate xmlns='DAV:'><set><prop/></set>"] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err().status(), 400, "{bad}");
        }
        let props: String = (0..=PROPS_MAX).map(|i| format!("<p{i}/>")).collect();
        let many = format!("<propertyupdate xmlns='DAV:'><set><prop>{props}</prop></set></propertyupdate>");
        assert_eq!(parse(many.as_bytes()).unwrap_err().status(), 413);
    }

    #[test]
    fn the_response_lists_each_property_under_its_status() {
        let (a, b) = (Prop::dav("getetag"), Prop { namespace: "urn:z".into(), name: "b".into() });
        let text = response("/f", &[(&a, ChangeResult::Protected), (&b, ChangeResult::AnotherFailed)]);
        let expected = "<D:response><D:href>/f</D:href><D:propstat><D:prop><D:getetag/></D:prop><D:status>HTTP/1.1 403 Forbidden\
            </D:status></D:propstat><D:propstat><D:prop><x:b xmlns:x=\"urn:z\"/></D:prop><D:status>HTTP/1.1 424 Failed Dependency\
            </D:status></D:propstat></D:response>\n";
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn damaged_bodies_are_parsed_or_refused(bytes in damaged(UPDATE)) {
            crate::fuzzing::proppatch(&bytes);
        }
    }
}

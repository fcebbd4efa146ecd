//! What a PROPPATCH changes (RFC 4918, section 9.2), in its order, and the answer to it.

use super::multistatus::{element, propstat};
use super::xml::{self, Document, Piece, escape};
use super::{BODY_BYTES_MAX, DAV, DavError, Dead, PROPS_MAX, Prop};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The property gets this value.
    Set(Dead),
    /// It goes.
    Remove(Prop),
}

impl Change {
    /// Which property it is about.
    pub fn prop(&self) -> &Prop {
        match self {
            Change::Set(Dead { prop, .. }) | Change::Remove(prop) => prop,
        }
    }
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was made.
    Made,
    /// The property is the server's own (RFC 4918, section 16, `cannot-modify-protected-property`).
    Protected,
    /// Its value is none that this property can have.
    Unusable,
    /// There is no room for it.
    NoRoom,
    /// It was not made because another one could not be.
    WithOthers,
}

impl Done {
    fn status(self) -> &'static str {
        match self {
            Done::Made => "200 OK",
            Done::Protected => "403 Forbidden",
            Done::Unusable => "409 Conflict",
            Done::NoRoom => "507 Insufficient Storage",
            Done::WithOthers => "424 Failed Dependency",
        }
    }
}

/// Reads the body of a PROPPATCH.
///
/// # Errors
/// What is no `propertyupdate`, changes nothing, or is beyond the bounds.
pub fn parse(body: &[u8]) -> Result<Vec<Change>, DavError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(DavError::Bounds { what: "bytes", limit: BODY_BYTES_MAX });
    }
    let body = xml::in_utf8(body)?;
    let mut document = Document::new(&body);
    let (mut within, mut changes) = (Vec::<Prop>::new(), Vec::new());
    while let Some(piece) = document.next()? {
        match piece {
            Piece::Open(element) if within.is_empty() && element != Prop::dav("propertyupdate") => {
                return Err(DavError::Root { found: element.name, wanted: "propertyupdate" });
            }
            Piece::Open(element) => match change(&within) {
                None => within.push(element),
                Some(_) if changes.len() == PROPS_MAX => {
                    return Err(DavError::Bounds { what: "properties", limit: PROPS_MAX });
                }
                Some(is_set) => {
                    let language = document.language().map(str::to_owned);
                    let xml = document.fragment()?;
                    changes.push(match is_set {
                        true => Change::Set(Dead { prop: element, language, xml }),
                        false => Change::Remove(element),
                    });
                }
            },
            Piece::Text(_) => {}
            Piece::Close => drop(within.pop()),
        }
    }
    if changes.is_empty() { Err(DavError::Xml("it changes no property".to_owned())) } else { Ok(changes) }
}

/// Whether the next element is a property: to be set, or to be removed.
fn change(within: &[Prop]) -> Option<bool> {
    match within {
        [_, how, prop] if how.namespace == DAV && *prop == Prop::dav("prop") => match how.name.as_str() {
            "set" => Some(true),
            "remove" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The answer: what became of each property, under its status.
pub fn response(href: &str, changes: &[(&Prop, Done)]) -> String {
    let mut out = format!("<D:response><D:href>{}</D:href>", escape(href));
    for done in [Done::Made, Done::Protected, Done::Unusable, Done::NoRoom, Done::WithOthers] {
        let mut props = String::new();
        for (prop, _) in changes.iter().filter(|(_, became)| *became == done) {
            element(&mut props, &prop.namespace, &prop.name, "");
        }
        if !props.is_empty() {
            propstat(&mut out, &props, done.status());
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
    fn changes_in_their_order() {
        let changes = parse(UPDATE.as_bytes()).unwrap();
        let prop = |namespace: &str, name: &str| Prop { namespace: namespace.into(), name: name.into() };
        let set = |prop, language: &str, xml: &str| {
            Change::Set(Dead { prop, language: Some(language.to_owned()), xml: xml.to_owned() })
        };
        let expected = [
            set(prop("urn:z", "authors"), "en", "<Z:a xmlns:Z=\"urn:z\">Jim</Z:a>"),
            set(prop("", "b"), "de", "x"),
            Change::Remove(prop("urn:z", "old")),
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn refused() {
        for bad in ["", "<a/>", "<propertyupdate xmlns='DAV:'/>", "<propertyupdate xmlns='DAV:'><set><prop/></set>"] {
            assert_eq!(parse(bad.as_bytes()).unwrap_err().status(), 400, "{bad}");
        }
        let props: String = (0..=PROPS_MAX).map(|i| format!("<p{i}/>")).collect();
        let many = format!("<propertyupdate xmlns='DAV:'><set><prop>{props}</prop></set></propertyupdate>");
        assert_eq!(parse(many.as_bytes()).unwrap_err().status(), 413);
    }

    #[test]
    fn each_is_told_of() {
        let (a, b) = (Prop::dav("getetag"), Prop { namespace: "urn:z".into(), name: "b".into() });
        let text = response("/f", &[(&a, Done::Protected), (&b, Done::WithOthers)]);
        let expected = "<D:response><D:href>/f</D:href><D:propstat><D:prop><D:getetag/></D:prop><D:status>HTTP/1.1 403 Forbidden\
            </D:status></D:propstat><D:propstat><D:prop><x:b xmlns:x=\"urn:z\"/></D:prop><D:status>HTTP/1.1 424 Failed Dependency\
            </D:status></D:propstat></D:response>\n";
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn strangers_bytes(bytes in damaged(UPDATE)) {
            crate::fuzzing::proppatch(&bytes);
        }
    }
}

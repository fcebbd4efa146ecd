//! The request of PROPFIND (RFC 4918, section 9.1): its body, and its `Depth`.

use super::xml::{self, Document, XmlEvent};
use super::{BODY_BYTES_MAX, DAV, DavError, PROPS_MAX, Prop};

/// The properties that a PROPFIND asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropfindRequest {
    /// The usual properties, and some more; an empty body means the usual ones.
    All {
        /// The additional properties, from `DAV:include`.
        include: Vec<Prop>,
    },
    /// The names of all properties.
    Names,
    /// These properties alone.
    Only(Vec<Prop>),
}

impl Default for PropfindRequest {
    fn default() -> PropfindRequest {
        PropfindRequest::All { include: Vec::new() }
    }
}

impl PropfindRequest {
    /// Whether the request names a property. Properties that are costly to determine are determined only then.
    pub fn names(&self, namespace: &str, name: &str) -> bool {
        let (PropfindRequest::All { include: props } | PropfindRequest::Only(props)) = self else { return false };
        props.iter().any(|prop| prop.namespace == namespace && prop.name == name)
    }
}

/// The depth of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The resource itself.
    Zero,
    /// The resource and its direct members.
    One,
    /// The resource and everything below it: the default of PROPFIND, COPY, MOVE and DELETE.
    Infinity,
}

impl Depth {
    /// Parses the value of `Depth`.
    ///
    /// # Errors
    /// [`DavError::Depth`]: the value is not 0, 1 or infinity.
    pub fn parse(value: Option<&str>) -> Result<Depth, DavError> {
        match value.map(str::trim) {
            None => Ok(Depth::Infinity),
            Some("0") => Ok(Depth::Zero),
            Some("1") => Ok(Depth::One),
            Some(word) if word.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
            Some(other) => Err(DavError::Depth(other.chars().take(40).collect())),
        }
    }
}

/// Parses the body of a PROPFIND. Unknown elements are skipped (RFC 4918, section 17), and so is the content of properties: davix
/// asks for `<resourcetype><collection/></resourcetype>`.
///
/// # Errors
/// [`DavError`]: the body is not XML, not a `propfind`, or beyond the bounds.
pub fn parse(body: &[u8]) -> Result<PropfindRequest, DavError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(DavError::Bounds { what: "bytes", limit: BODY_BYTES_MAX });
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(PropfindRequest::default());
    }
    let body = xml::in_utf8(body)?;
    let mut document = Document::new(&body);
    let mut request = PropfindBody::default();
    let mut has_root = false;
    while let Some(event) = document.next()? {
        match (document.depth(), event) {
            (1, XmlEvent::Open(root)) if !has_root => {
                has_root = true;
                if root != Prop::dav("propfind") {
                    return Err(DavError::Root { found: root.name, wanted: "propfind" });
                }
            }
            (2, XmlEvent::Open(kind)) => request.kind(&kind),
            (3, XmlEvent::Open(prop)) => request.prop(prop)?,
            _ => {}
        }
    }
    if !has_root {
        return Err(DavError::Xml("it has no element at all".to_owned()));
    }
    Ok(request.into_request())
}

/// The part of the body that has been read.
#[derive(Default)]
struct PropfindBody {
    within: Section,
    names: bool,
    only: Option<Vec<Prop>>,
    include: Vec<Prop>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Section {
    #[default]
    Other,
    Prop,
    Include,
}

impl PropfindBody {
    fn kind(&mut self, kind: &Prop) {
        self.within = Section::Other;
        if kind.namespace != DAV {
            return;
        }
        match kind.name.as_str() {
            "propname" => self.names = true,
            "include" => self.within = Section::Include,
            "prop" => {
                self.within = Section::Prop;
                self.only.get_or_insert_default();
            }
            _ => {}
        }
    }

    fn prop(&mut self, prop: Prop) -> Result<(), DavError> {
        let list = match self.within {
            Section::Other => return Ok(()),
            Section::Prop => self.only.get_or_insert_default(),
            Section::Include => &mut self.include,
        };
        // A property that is named twice is returned once.
        if list.contains(&prop) {
            return Ok(());
        }
        if list.len() == PROPS_MAX {
            return Err(DavError::Bounds { what: "properties", limit: PROPS_MAX });
        }
        list.push(prop);
        Ok(())
    }

    fn into_request(self) -> PropfindRequest {
        match self.only {
            Some(props) => PropfindRequest::Only(props),
            None if self.names => PropfindRequest::Names,
            None => PropfindRequest::All { include: self.include },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dav::damaged::damaged;
    use proptest::prelude::*;

    const DAVIX: &str = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:propfind xmlns:D=\"DAV:\" xmlns:L=\"LCGDM:\"><D:prop>\
        <D:displayname/><D:getlastmodified/><D:creationdate/><D:getcontentlength/><D:quota-used-bytes/><D:resourcetype>\
        <D:collection/></D:resourcetype><L:mode/><D:owner></D:owner><D:group></D:group></D:prop></D:propfind>";

    #[test]
    fn the_request_of_davix_is_parsed() {
        let Ok(PropfindRequest::Only(props)) = parse(DAVIX.as_bytes()) else { panic!("a list of properties") };
        let names: Vec<&str> = props.iter().map(|prop| prop.name.as_str()).collect();
        let dav = ["displayname", "getlastmodified", "creationdate", "getcontentlength", "quota-used-bytes"];
        assert_eq!(names, [&dav[..], &["resourcetype", "mode", "owner", "group"]].concat());
        assert_eq!(props[6].namespace, "LCGDM:");
        assert!(PropfindRequest::Only(props).names("DAV:", "owner"));
    }

    #[test]
    fn each_kind_of_request_is_parsed() {
        let body = |inner: &str| parse(format!("<propfind xmlns='DAV:'>{inner}</propfind>").as_bytes());
        assert_eq!(parse(b""), Ok(PropfindRequest::default()));
        assert_eq!(parse(b" \r\n"), Ok(PropfindRequest::default()));
        assert_eq!(body("<allprop/>"), Ok(PropfindRequest::default()));
        assert_eq!(body(""), Ok(PropfindRequest::default()));
        assert_eq!(body("<propname/>"), Ok(PropfindRequest::Names));
        assert_eq!(body("<prop/>"), Ok(PropfindRequest::Only(Vec::new())));
        assert_eq!(body("<x><allprop/></x><prop><a xmlns=''/></prop>"), {
            Ok(PropfindRequest::Only(vec![Prop { namespace: String::new(), name: "a".into() }]))
        });
        let quota = Prop::dav("quota-used-bytes");
        assert_eq!(
            body("<allprop/><include><quota-used-bytes/></include>"),
            Ok(PropfindRequest::All { include: vec![quota] })
        );
    }

    #[test]
    fn malformed_and_oversized_bodies_are_refused() {
        assert_eq!(parse(b"<propfind/>").unwrap_err().status(), 400);
        assert_eq!(parse(b"<a xmlns='DAV:'/>").unwrap_err().to_string(), {
            "the body has the root element \"a\" instead of \"propfind\" of the namespace DAV:"
        });
        assert_eq!(parse(b"hello").unwrap_err().status(), 400);
        assert_eq!(parse(&vec![b' '; BODY_BYTES_MAX + 1]).unwrap_err().status(), 413);
        let props: String = (0..=PROPS_MAX).map(|i| format!("<p{i}/>")).collect();
        let body = format!("<propfind xmlns='DAV:'><prop>{props}</prop></propfind>");
        assert_eq!(parse(body.as_bytes()).unwrap_err().status(), 413);
    }

    #[test]
    fn depths_are_parsed() {
        assert_eq!(Depth::parse(Some(" 0")), Ok(Depth::Zero));
        assert_eq!(Depth::parse(Some("1")), Ok(Depth::One));
        assert_eq!(Depth::parse(Some("Infinity")), Ok(Depth::Infinity));
        assert_eq!(Depth::parse(None), Ok(Depth::Infinity));
        assert!(Depth::parse(Some("1,noroot")).is_err());
    }

    proptest! {
        #[test]
        fn damaged_bodies_are_parsed_or_refused(bytes in damaged(DAVIX)) {
            crate::fuzzing::propfind(&bytes);
        }
    }
}

//! XML within bounds: a reader that hands out elements with their namespaces and text, and the escaping of what is
//! written. Names, not prefixes, count; comments and processing instructions are passed over.

use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

use super::{ATTRIBUTES_MAX, DEPTH_MAX, DavError, Prop};

/// Namespaces that no other prefix may be bound to (Namespaces in XML, section 3), so that nobody could answer in them.
const RESERVED: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"];

/// What the reader comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// An element begins.
    Open(Prop),
    /// Text within it, unescaped; it may come in several pieces.
    Text(String),
    /// The innermost element ends.
    Close,
}

/// Reads a document, piece by piece.
pub struct Document<'a> {
    reader: NsReader<&'a [u8]>,
    depth: usize,
}

fn broken(error: impl std::fmt::Display) -> DavError {
    DavError::Xml(error.to_string())
}

impl<'a> Document<'a> {
    /// A document from its bytes, UTF-8 with or without a mark of it.
    pub fn new(bytes: &'a [u8]) -> Document<'a> {
        let mut reader = NsReader::from_reader(bytes);
        reader.config_mut().expand_empty_elements = true;
        Document { reader, depth: 0 }
    }

    /// How many elements are open.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The next piece; none at the end of a whole document.
    pub fn next(&mut self) -> Result<Option<Piece>, DavError> {
        loop {
            let (space, event) = self.reader.read_resolved_event().map_err(broken)?;
            let piece = match event {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > DEPTH_MAX {
                        return Err(DavError::Bounds { what: "levels of elements", limit: DEPTH_MAX });
                    }
                    Piece::Open(element(&space, &start)?)
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    Piece::Close
                }
                Event::Text(text) => Piece::Text(text.decode().map_err(broken)?.into_owned()),
                Event::CData(text) => Piece::Text(text.decode().map_err(broken)?.into_owned()),
                Event::GeneralRef(reference) => Piece::Text(character(&reference)?.to_string()),
                Event::DocType(_) => return Err(DavError::Entities),
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
                Event::Eof if self.depth == 0 => return Ok(None),
                Event::Eof => return Err(DavError::Xml("it ends within an element".to_owned())),
            };
            return Ok(Some(piece));
        }
    }
}

fn element(space: &ResolveResult<'_>, start: &BytesStart<'_>) -> Result<Prop, DavError> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(broken);
    let mut attributes = 0;
    // Duplicates are somebody else's worry: looking for them costs the square of their number.
    for attribute in start.attributes().with_checks(false) {
        attribute.map_err(broken)?;
        attributes += 1;
        if attributes > ATTRIBUTES_MAX {
            return Err(DavError::Bounds { what: "attributes of one element", limit: ATTRIBUTES_MAX });
        }
    }
    let namespace = match space {
        // Bound to what stood in the attribute, escapes and all.
        ResolveResult::Bound(raw) => unescape(&text(raw.as_ref())?).map_err(|_| DavError::Entities)?.into_owned(),
        ResolveResult::Unbound => String::new(),
        ResolveResult::Unknown(prefix) => {
            let prefix = String::from_utf8_lossy(prefix);
            return Err(DavError::Xml(format!("the prefix {prefix:?} is bound to no namespace")));
        }
    };
    if RESERVED.contains(&namespace.as_str()) {
        return Err(DavError::Xml(format!("no element is of the reserved namespace {namespace}")));
    }
    let name = text(start.local_name().as_ref())?;
    if !is_name(&name) {
        return Err(DavError::Xml(format!("{name:?} is no name for an element")));
    }
    Ok(Prop { namespace, name })
}

/// Whether this is a name without a prefix (Namespaces in XML, section 3; XML 1.0, section 2.3). The library does not
/// look, and the names of a request go into its answer, where the client's library does look.
fn is_name(name: &str) -> bool {
    let letter = |c: char| {
        matches!(c, 'A'..='Z' | 'a'..='z' | '_' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
            | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}' | '\u{200d}' | '\u{2070}'..='\u{218f}'
            | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
            | '\u{10000}'..='\u{effff}')
    };
    let more =
        |c: char| matches!(c, '0'..='9' | '-' | '.' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}' | '\u{2040}');
    name.starts_with(letter) && name.chars().all(|c| letter(c) || more(c))
}

fn character(reference: &BytesRef<'_>) -> Result<char, DavError> {
    if let Some(c) = reference.resolve_char_ref().map_err(broken)? {
        return Ok(c);
    }
    match reference.decode().map_err(broken)?.as_ref() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(DavError::Entities),
    }
}

/// Text as it may stand in an element or an attribute. What XML 1.0 has no form for at all (most control characters,
/// U+FFFE and U+FFFF) becomes U+FFFD; carriage returns are spelled, since a reader would turn them into line feeds.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' | '\n' | '\r' => out.push_str(&format!("&#{};", c as u32)),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<Piece>, DavError> {
        let mut document = Document::new(text.as_bytes());
        let mut pieces = Vec::new();
        while let Some(piece) = document.next()? {
            pieces.push(piece);
        }
        Ok(pieces)
    }

    #[test]
    fn pieces() {
        let text = "<?xml version='1.0'?><!-- c --><D:a xmlns:D='DAV:'><b x='1'/>1 &lt;&#50;<![CDATA[<3]]></D:a>";
        let open = |namespace: &str, name: &str| Piece::Open(Prop { namespace: namespace.into(), name: name.into() });
        let said = |text: &str| Piece::Text(text.into());
        let expected = [
            open("DAV:", "a"),
            open("", "b"),
            Piece::Close,
            said("1 "),
            said("<"),
            said("2"),
            said("<3"),
            Piece::Close,
        ];
        assert_eq!(all(text).unwrap(), expected);
    }

    #[test]
    fn bombs() {
        let bomb = "<!DOCTYPE a [<!ENTITY b 'bb'>]><a>&b;</a>";
        assert_eq!(all(bomb), Err(DavError::Entities));
        assert_eq!(all("<a>&b;</a>"), Err(DavError::Entities));
        assert!(matches!(all(&"<a>".repeat(33)), Err(DavError::Bounds { .. })));
        let wide: String = (0..65).map(|i| format!(" a{i}='x'")).collect();
        assert!(matches!(all(&format!("<a{wide}/>")), Err(DavError::Bounds { .. })));
        for bad in [
            "<a>",
            "<a></b>",
            "<x:a/>",
            "<a",
            "<a>&#xD800;</a>",
            "</a>",
            "<a b=/>",
            "<a b='\u{0}",
            "<a&b/>",
            "<1/>",
            "<xml:a/>",
        ] {
            assert!(all(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn escaping() {
        assert_eq!(escape("a<b>&\"'\u{1}\r\u{ffff}ü"), "a&lt;b&gt;&amp;&quot;&apos;\u{fffd}&#13;\u{fffd}ü");
    }
}

//! XML within bounds: a reader of elements, their namespaces and text, and escaping for writers. The reader resolves prefixes to
//! namespaces, and skips comments and processing instructions.

use std::borrow::Cow;
use std::fmt::Write;

use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

use super::{ATTRIBUTES_MAX, DEPTH_MAX, DavError, FRAGMENT_BYTES_MAX, Prop};

/// Namespaces of the prefixes `xml` and `xmlns`; no other prefix may be bound to them (Namespaces in XML, section 3), so no response
/// could declare them.
const RESERVED: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"];

/// The most characters of the name of a language; real names have about ten.
const LANGUAGE_CHARS_MAX: usize = 64;

/// An event of the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XmlEvent {
    /// An element begins.
    Open(Prop),
    /// Text within the innermost element, unescaped; it may come in several pieces.
    Text(String),
    /// The innermost element ends.
    Close,
}

/// Reads a document, event by event.
pub struct Document<'a> {
    reader: NsReader<&'a [u8]>,
    depth: usize,
    /// The language that each open element names, outermost first.
    languages: Vec<Option<String>>,
}

fn broken(error: impl std::fmt::Display) -> DavError {
    DavError::Xml(error.to_string())
}

impl<'a> Document<'a> {
    /// A document from its bytes: UTF-8, with or without a byte order mark.
    pub fn new(bytes: &'a [u8]) -> Document<'a> {
        let mut reader = NsReader::from_reader(bytes);
        reader.config_mut().expand_empty_elements = true;
        Document { reader, depth: 0, languages: Vec::new() }
    }

    /// The language of the text at this place: the `xml:lang` of the innermost element that has one.
    pub fn language(&self) -> Option<&str> {
        let innermost = self.languages.iter().rev().flatten().next();
        innermost.map(String::as_str).filter(|language| !language.is_empty())
    }

    /// The number of open elements.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The next event; `None` at the end of a complete document.
    ///
    /// # Errors
    /// [`DavError`]: the document is not well-formed, has a document type or entities, or is beyond the bounds.
    pub fn next(&mut self) -> Result<Option<XmlEvent>, DavError> {
        loop {
            let (space, event) = self.reader.read_resolved_event().map_err(broken)?;
            let event = match event {
                Event::Start(start) => {
                    descend(&mut self.depth)?;
                    let element = element(&space, &start)?;
                    self.languages.push(language(&start)?);
                    XmlEvent::Open(element)
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.languages.pop();
                    XmlEvent::Close
                }
                Event::Text(text) => XmlEvent::Text(text.decode().map_err(broken)?.into_owned()),
                Event::CData(text) => XmlEvent::Text(text.decode().map_err(broken)?.into_owned()),
                Event::GeneralRef(reference) => XmlEvent::Text(character(&reference)?.to_string()),
                Event::DocType(_) => return Err(DavError::Entities),
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
                Event::Eof if self.depth == 0 => return Ok(None),
                Event::Eof => return Err(DavError::Xml("it ends within an element".to_owned())),
            };
            return Ok(Some(event));
        }
    }
}

impl Document<'_> {
    /// Reads the content of the innermost open element, up to its end. Returns it as XML that means the same in any document: every
    /// element in it declares its prefix (RFC 4918, section 4.3).
    ///
    /// # Errors
    /// As [`Document::next`].
    pub fn fragment(&mut self) -> Result<String, DavError> {
        let outside = self.depth;
        let mut out = String::new();
        loop {
            let (space, event) = self.reader.read_resolved_event().map_err(broken)?;
            match event {
                Event::Start(start) => {
                    let Prop { namespace, .. } = element(&space, &start)?;
                    descend(&mut self.depth)?;
                    self.write_start(&mut out, &namespace, &start)?;
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth < outside {
                        self.languages.pop();
                        return Ok(out);
                    }
                    let _ = write!(out, "</{}>", utf8(end.name().as_ref())?);
                }
                Event::Text(text) => out.push_str(&escape(&text.decode().map_err(broken)?)),
                Event::CData(text) => out.push_str(&escape(&text.decode().map_err(broken)?)),
                Event::GeneralRef(reference) => out.push_str(&escape(&character(&reference)?.to_string())),
                Event::DocType(_) => return Err(DavError::Entities),
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => return Err(DavError::Xml("it ends within an element".to_owned())),
            }
            if out.len() > FRAGMENT_BYTES_MAX {
                return Err(DavError::Bounds { what: "bytes in one property", limit: FRAGMENT_BYTES_MAX });
            }
        }
    }

    /// Writes the opening tag of an element, and declares its prefix and those of its attributes.
    fn write_start(&self, out: &mut String, namespace: &str, start: &BytesStart<'_>) -> Result<(), DavError> {
        let prefix = start.name().prefix().map(|prefix| utf8(prefix.into_inner())).transpose()?;
        if prefix.as_deref().is_some_and(|prefix| !is_name(prefix)) {
            return Err(DavError::Xml("a prefix is not a valid name".to_owned()));
        }
        let mut declared = vec![prefix.clone()];
        let _ = write!(out, "<{}", utf8(start.name().as_ref())?);
        declare(out, prefix.as_deref(), namespace);
        let mut named: Vec<(String, String)> = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(broken)?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let name = utf8(attribute.key.as_ref())?;
            let (space, local) = self.reader.resolver().resolve_attribute(attribute.key);
            let full = (bound(&space)?, utf8(local.as_ref())?);
            if named.contains(&full) {
                return Err(DavError::Xml(format!("an element has the attribute {name:?} twice")));
            }
            named.push(full);
            if name.split(':').count() > 2 || !name.split(':').all(is_name) {
                return Err(DavError::Xml(format!("{name:?} is not a valid name of an attribute")));
            }
            let prefix = attribute.key.prefix().map(|prefix| utf8(prefix.into_inner())).transpose()?;
            // The prefix `xml` needs no declaration.
            if prefix.as_deref().is_some_and(|prefix| prefix != "xml") && !declared.contains(&prefix) {
                let (space, _) = self.reader.resolver().resolve_attribute(attribute.key);
                declare(out, prefix.as_deref(), &bound(&space)?);
                declared.push(prefix);
            }
            let value = unescape(&utf8(&attribute.value)?).map_err(|_| DavError::Entities)?.into_owned();
            let _ = write!(out, " {name}=\"{}\"", escape(&value));
        }
        out.push('>');
        Ok(())
    }
}

/// Whether text is well-formed XML for the content of an element.
pub(super) fn is_fragment(xml: &str) -> bool {
    let text = format!("<a>{xml}</a>");
    let mut document = Document::new(text.as_bytes());
    document.next().is_ok() && document.fragment().is_ok() && document.next() == Ok(None)
}

fn declare(out: &mut String, prefix: Option<&str>, namespace: &str) {
    let _ = match prefix {
        Some(prefix) => write!(out, " xmlns:{prefix}=\"{}\"", escape(namespace)),
        None => write!(out, " xmlns=\"{}\"", escape(namespace)),
    };
}

fn descend(depth: &mut usize) -> Result<(), DavError> {
    *depth += 1;
    match *depth {
        0..=DEPTH_MAX => Ok(()),
        _ => Err(DavError::Bounds { what: "levels of elements", limit: DEPTH_MAX }),
    }
}

fn utf8(bytes: &[u8]) -> Result<String, DavError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(broken)
}

/// The `xml:lang` of an element.
fn language(start: &BytesStart<'_>) -> Result<Option<String>, DavError> {
    let found = start.attributes().with_checks(false).filter_map(Result::ok).find(|a| a.key.as_ref() == b"xml:lang");
    let found = found.map(|found| unescape(&utf8(&found.value)?).map(Cow::into_owned).map_err(|_| DavError::Entities));
    Ok(found.transpose()?.map(|language| language.chars().take(LANGUAGE_CHARS_MAX).collect()))
}

/// Returns a document in UTF-8: unchanged, or decoded from UTF-16, which every reader of XML must support (XML 1.0, section 4.3.3).
///
/// # Errors
/// [`DavError::Xml`]: the document begins like UTF-16, but is not valid UTF-16.
pub fn in_utf8(bytes: &[u8]) -> Result<Cow<'_, [u8]>, DavError> {
    let units = |read: fn([u8; 2]) -> u16, bytes: &[u8]| -> Result<Cow<'static, [u8]>, DavError> {
        let pairs = bytes.chunks_exact(2);
        let text =
            char::decode_utf16(pairs.clone().map(|pair| read([pair[0], pair[1]]))).collect::<Result<String, _>>();
        match text {
            Ok(text) if pairs.remainder().is_empty() => Ok(Cow::Owned(text.into_bytes())),
            _ => Err(DavError::Xml("it begins like UTF-16, but is not valid UTF-16".to_owned())),
        }
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => units(u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => units(u16::from_be_bytes, rest),
        // Without a byte order mark the encoding shows in the first character, which is always `<`.
        [b'<', 0, ..] => units(u16::from_le_bytes, bytes),
        [0, b'<', ..] => units(u16::from_be_bytes, bytes),
        _ => Ok(Cow::Borrowed(bytes)),
    }
}

/// The namespace that a prefix is bound to.
fn bound(space: &ResolveResult<'_>) -> Result<String, DavError> {
    match space {
        // The raw value of the attribute, with its escapes.
        ResolveResult::Bound(raw) => Ok(unescape(&utf8(raw.as_ref())?).map_err(|_| DavError::Entities)?.into_owned()),
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Unknown(prefix) => {
            let prefix = String::from_utf8_lossy(prefix);
            Err(DavError::Xml(format!("the prefix {prefix:?} is not bound to a namespace")))
        }
    }
}

fn element(space: &ResolveResult<'_>, start: &BytesStart<'_>) -> Result<Prop, DavError> {
    let mut attributes = 0;
    // Duplicates are not checked: the cost would grow with the square of the number of attributes.
    for attribute in start.attributes().with_checks(false) {
        attribute.map_err(broken)?;
        attributes += 1;
        if attributes > ATTRIBUTES_MAX {
            return Err(DavError::Bounds { what: "attributes of one element", limit: ATTRIBUTES_MAX });
        }
    }
    let namespace = bound(space)?;
    if RESERVED.contains(&namespace.as_str()) {
        return Err(DavError::Xml(format!("no element may be of the reserved namespace {namespace}")));
    }
    let name = utf8(start.local_name().as_ref())?;
    if !is_name(&name) {
        return Err(DavError::Xml(format!("{name:?} is not a valid name of an element")));
    }
    Ok(Prop { namespace, name })
}

/// Whether this is a name without a prefix (Namespaces in XML, section 3; XML 1.0, section 2.3). The library used here does not check
/// it. The names of a request go into the response, where the client's library may refuse an invalid one.
pub(super) fn is_name(name: &str) -> bool {
    let letter = |c: char| {
        matches!(c, 'A'..='Z' | 'a'..='z' | '_' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
            | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}' | '\u{200d}' | '\u{2070}'..='\u{218f}'
            | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
            | '\u{10000}'..='\u{effff}')
    };
    let other =
        |c: char| matches!(c, '0'..='9' | '-' | '.' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}' | '\u{2040}');
    name.starts_with(letter) && name.chars().all(|c| letter(c) || other(c))
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

/// Escapes text for an element or an attribute. Characters that XML 1.0 cannot express (most control characters, U+FFFE and
/// U+FFFF) become U+FFFD. Tabs and line ends become references, since a reader would change them.
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

    fn all(text: &str) -> Result<Vec<XmlEvent>, DavError> {
        let mut document = Document::new(text.as_bytes());
        let mut events = Vec::new();
        while let Some(event) = document.next()? {
            events.push(event);
        }
        Ok(events)
    }

    #[test]
    fn elements_text_and_references_become_events() {
        let text = "<?xml version='1.0'?><!-- c --><D:a xmlns:D='DAV:'><b x='1'/>1 &lt;&#50;<![CDATA[<3]]></D:a>";
        let open =
            |namespace: &str, name: &str| XmlEvent::Open(Prop { namespace: namespace.into(), name: name.into() });
        let text_event = |text: &str| XmlEvent::Text(text.into());
        let expected = [
            open("DAV:", "a"),
            open("", "b"),
            XmlEvent::Close,
            text_event("1 "),
            text_event("<"),
            text_event("2"),
            text_event("<3"),
            XmlEvent::Close,
        ];
        assert_eq!(all(text).unwrap(), expected);
    }

    fn fragment(text: &str) -> Result<(String, Option<String>), DavError> {
        let mut document = Document::new(text.as_bytes());
        document.next()?;
        let language = document.language().map(str::to_owned);
        let fragment = document.fragment()?;
        assert_eq!(document.next()?, None, "the element is over");
        Ok((fragment, language))
    }

    #[test]
    fn a_fragment_means_the_same_elsewhere() {
        let text = "<D:p xmlns:D='DAV:' xmlns:t='urn:t' xml:lang='de'>a &lt; b<t:x t:y='1' xml:lang='en' z='&quot;'>\
                    <D:q/><![CDATA[<>]]></t:x></D:p>";
        let (inner, language) = fragment(text).unwrap();
        assert_eq!(language.as_deref(), Some("de"));
        let expected = "a &lt; b<t:x xmlns:t=\"urn:t\" t:y=\"1\" xml:lang=\"en\" z=\"&quot;\">\
                        <D:q xmlns:D=\"DAV:\"></D:q>&lt;&gt;</t:x>";
        assert_eq!(inner, expected);
        // Stored and read again, it is unchanged.
        assert_eq!(fragment(&format!("<a>{inner}</a>")).unwrap().0, inner);
        assert_eq!(fragment("<a xmlns='urn:a'><b xmlns=''/></a>").unwrap().0, "<b xmlns=\"\"></b>");
        assert!(matches!(
            fragment(&format!("<a>{}</a>", "x".repeat(FRAGMENT_BYTES_MAX + 1))),
            Err(DavError::Bounds { .. })
        ));
        for bad in [
            "<a><b>",
            "<a><t:b/></a>",
            "<a>&b;</a>",
            "<a><b c:d='1'/></a>",
            "<a><b c='1' c='2'/></a>",
            "<a xmlns:x='u' xmlns:y='u'><b x:c='1' y:c='2'/></a>",
            "<a xmlns:x='u'><b x:c:d='1'/></a>",
        ] {
            assert!(fragment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn utf_16_is_read() {
        let text = "<?xml version='1.0' encoding='UTF-16'?><a>\u{1F600}</a>";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [[&[0xff, 0xfe], &little[..]].concat(), [&[0xfe, 0xff], &big[..]].concat(), little.clone(), big] {
            assert_eq!(in_utf8(&bytes).unwrap(), text.as_bytes());
        }
        assert_eq!(in_utf8(text.as_bytes()).unwrap(), text.as_bytes());
        assert!(in_utf8(&little[..little.len() - 1]).is_err());
        assert!(in_utf8(&[0xff, 0xfe, 0, 0xd8]).is_err(), "half a pair");
    }

    #[test]
    fn entities_deep_nesting_and_malformed_xml_are_refused() {
        let entity = "<!DOCTYPE a [<!ENTITY b 'bb'>]><a>&b;</a>";
        assert_eq!(all(entity), Err(DavError::Entities));
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
    fn text_is_escaped_for_xml() {
        assert_eq!(escape("a<b>&\"'\u{1}\r\u{ffff}ü"), "a&lt;b&gt;&amp;&quot;&apos;\u{fffd}&#13;\u{fffd}ü");
    }
}

//! Distinguished names of certificates, in both forms that operators meet, compared component by component.
//!
//! `CN=Alice,O=Example,C=CH` (RFC 2253 and 4514, the last component first) and `/C=CH/O=Example/CN=Alice` (the form of OpenSSL and
//! the grid). Values are compared byte by byte: letters that look alike differ. A certificate's own name is given
//! in the RFC form, because only there a slash in a value differs from the start of a component.

use std::fmt;

use model::fault::{Blame, Fault};

use crate::limits::NAME_BYTES;

/// A distinguished name, from the root down.
#[derive(Clone, PartialEq, Eq)]
pub struct DistinguishedName(Vec<(String, String)>);

/// Why text is not a distinguished name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DnError {
    /// Too long.
    #[error("a distinguished name of {bytes} bytes is longer than the {NAME_BYTES} that are read")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not of either form.
    #[error("{0:?} is not a distinguished name; write it like /C=CH/O=Example/CN=Alice or CN=Alice,O=Example,C=CH")]
    Malformed(String),
    /// Several attributes in one component.
    #[error("{0:?} has a component of several attributes (+), which is not supported")]
    SeveralAttributes(String),
}

impl Blame for DnError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

/// The canonical name of an attribute type that has several names.
fn attribute(name: &str) -> String {
    let upper = name.trim().to_ascii_uppercase();
    let upper = upper.strip_prefix("OID.").unwrap_or(&upper);
    match upper {
        "2.5.4.3" | "COMMONNAME" => "CN",
        "2.5.4.6" | "COUNTRYNAME" => "C",
        "2.5.4.7" | "LOCALITYNAME" => "L",
        "2.5.4.8" | "S" | "STATEORPROVINCENAME" => "ST",
        "2.5.4.10" | "ORGANIZATIONNAME" => "O",
        "2.5.4.11" | "ORGANIZATIONALUNITNAME" => "OU",
        "0.9.2342.19200300.100.1.25" | "DOMAINCOMPONENT" => "DC",
        "0.9.2342.19200300.100.1.1" | "USERID" => "UID",
        "1.2.840.113549.1.9.1" | "E" | "EMAIL" => "EMAILADDRESS",
        other => other,
    }
    .to_owned()
}

/// A value with the escapes of RFC 4514.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        let at_end = at == 0 || at + 1 == value.len();
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' | '#' => out.extend(['\\', c]),
            ' ' if at_end => out.push_str("\\20"),
            '\0' => out.push_str("\\00"),
            _ => out.push(c),
        }
    }
    out
}

/// Whether text is a `type=value` of the slash form, rather than the rest of a value with a slash: a type is a word or numbers with dots.
fn starts_component(text: &str) -> bool {
    let name = text.split_once('=').map_or("", |(name, _)| name);
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
}

impl DistinguishedName {
    /// The name of a certificate from its attributes, the first one first, each a type (a short name or numbers with
    /// dots) and a value. A certificate with several attributes in one component has no such name.
    pub fn from_root<'a>(parts: impl IntoIterator<Item = (&'a str, &'a str)>) -> DistinguishedName {
        DistinguishedName(parts.into_iter().map(|(name, value)| (attribute(name), value.to_owned())).collect())
    }

    /// The form of RFC 4514, which reads back exactly.
    pub fn rfc4514(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().rev().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        parts.join(",")
    }

    /// Parses either form.
    ///
    /// # Errors
    /// [`DnError`]: the text is too long, of neither form, or has a component of several attributes.
    pub fn parse(text: &str) -> Result<DistinguishedName, DnError> {
        if text.len() > NAME_BYTES {
            return Err(DnError::TooLong { bytes: text.len() });
        }
        let parts = match text.trim_start().strip_prefix('/') {
            Some(slashes) => by_slashes(slashes),
            None => match by_commas(text.trim_start()) {
                Err(true) => return Err(DnError::SeveralAttributes(text.to_owned())),
                parts => parts.ok(),
            },
        };
        match parts {
            Some(parts) if !parts.is_empty() => Ok(DistinguishedName(parts)),
            _ => Err(DnError::Malformed(text.to_owned())),
        }
    }
}

/// Parses the OpenSSL form. A slash that no `type=` follows belongs to the value: `/CN=host/node.example.org`.
fn by_slashes(text: &str) -> Option<Vec<(String, String)>> {
    let mut parts: Vec<(String, String)> = Vec::new();
    for piece in text.split('/') {
        match piece.split_once('=').filter(|_| starts_component(piece)) {
            Some((name, value)) => parts.push((attribute(name), value.to_owned())),
            None => {
                let (_, value) = parts.last_mut()?;
                value.push('/');
                value.push_str(piece);
            }
        }
    }
    Some(parts)
}

/// Parses the RFC form, and reverses its components: the root comes first. The error says whether several attributes in one component
/// are the reason.
fn by_commas(text: &str) -> Result<Vec<(String, String)>, bool> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once('=').ok_or(false)?;
        if !starts_component(&format!("{}=", name.trim())) {
            return Err(false);
        }
        let (value, after) = value(after.trim_start_matches(' ')).ok_or(false)?;
        parts.push((attribute(name), value));
        let mut left = after.chars();
        match left.next() {
            None => break,
            Some(',' | ';') => rest = left.as_str(),
            Some(separator) => return Err(separator == '+'),
        }
    }
    parts.reverse();
    Ok(parts)
}

/// Parses a value up to its separator. Returns it without its escapes, and the text that follows.
fn value(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    // Spaces at the end are dropped unless they were escaped.
    let mut kept = 0;
    let mut quoted = false;
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        let Some(c) = chars.next() else { break };
        match c {
            '"' => quoted = !quoted,
            '\\' => {
                let escaped = chars.as_str();
                let byte = escaped.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
                if let Some(byte) = byte.and_then(|two| u8::from_str_radix(two, 16).ok()) {
                    bytes.push(byte);
                    chars = escaped[2..].chars();
                } else {
                    push(&mut bytes, chars.next()?);
                }
                kept = bytes.len();
            }
            ',' | ';' | '+' if !quoted => break,
            _ => {
                push(&mut bytes, c);
                if c != ' ' || quoted {
                    kept = bytes.len();
                }
            }
        }
        rest = chars.as_str();
    }
    bytes.truncate(kept);
    if quoted {
        return None;
    }
    Some((String::from_utf8(bytes).ok()?, rest))
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

impl fmt::Display for DistinguishedName {
    /// The slash form, in which grid software writes the names of users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| write!(f, "/{name}={value}"))
    }
}

impl fmt::Debug for DistinguishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dn(text: &str) -> DistinguishedName {
        DistinguishedName::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn both_forms_give_the_same_name() {
        for (slashes, commas) in [
            ("/C=CH/O=Example/CN=Alice", "CN=Alice,O=Example,C=CH"),
            ("/C=CH/O=Example/CN=Alice", "cn=Alice, O = Example ,C=CH"),
            ("/DC=ch/DC=cern/CN=Smith, Bob", r"CN=Smith\, Bob,DC=cern,DC=ch"),
            ("/DC=ch/DC=cern/CN=Smith, Bob", r#"CN="Smith, Bob",DC=cern,DC=ch"#),
            ("/DC=org/CN=host/node.example.org", "CN=host/node.example.org,DC=org"),
            ("/CN=Jürgen", r"CN=J\C3\BCrgen"),
            ("/O=x/emailAddress=a@b", "E=a@b,O=x"),
            ("/O=x/emailAddress=a@b", "1.2.840.113549.1.9.1=a@b,O=x"),
            ("/O=a=b", r"O=a\=b"),
            ("/O=a ", r"O=a\ "),
        ] {
            assert_eq!(dn(slashes), dn(commas), "{slashes} {commas}");
        }
    }

    #[test]
    fn names_that_differ_in_a_component_are_not_equal() {
        for (one, other) in [
            ("/O=Example/CN=Alice", "/O=Example/CN=alice"),
            ("/O=Example/CN=Alice", "/O=Example"),
            ("/O=Example/CN=Alice", "/O=Example/CN=Alice/CN=proxy"),
            ("/O=Example/CN=Alice", "O=Example,CN=Alice"),
            // A certificate with a slash in its CN does not become one with two CNs.
            ("/O=Example/CN=a/CN=b", "CN=a/CN\\=b,O=Example"),
            ("/O=Example/CN=a/CN=b", "CN=a/CN=b,O=Example"),
        ] {
            assert_ne!(dn(one), dn(other), "{one} {other}");
        }
    }

    #[test]
    fn text_that_is_not_a_name_is_refused() {
        for bad in ["", "/", "Alice", "/Alice", "CN=Alice,", "CN=Alice,,O=x", "=x", "CN=\"x", "CN=x\\", "CN=\\ff"] {
            assert!(DistinguishedName::parse(bad).is_err(), "{bad}");
        }
        assert!(matches!(DistinguishedName::parse("CN=a+UID=b,O=x"), Err(DnError::SeveralAttributes(_))));
    }

    proptest! {
        #[test]
        fn a_certificates_name_reads_back(values in proptest::collection::vec("[ a,+=\"\\\\#/\0\u{e9}]{0,8}", 1..4)) {
            let name = DistinguishedName::from_root(values.iter().map(|value| ("2.5.4.3", value.as_str())));
            prop_assert_eq!(DistinguishedName::parse(&name.rfc4514()), Ok(name));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[CN=,/+\\\\\" a\u{e9}]{0,30}") {
            let _ = DistinguishedName::parse(&text);
        }
    }
}

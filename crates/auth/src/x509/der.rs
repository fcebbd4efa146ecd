//! A cursor over values in DER, which are taken by their identifier octets. The library reads lengths, and refuses those that DER
//! forbids.

use x509_parser::asn1_rs::{Any, FromDer};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// The constructed context tag 0.
pub(super) const CONTEXT_0: u8 = 0xa0;
/// Among the forms of a GeneralName (RFC 5280, section 4.2.1.6): a directory name, and a URI.
pub(super) const DIRECTORY_NAME: u8 = 0xa4;
pub(super) const URI: u8 = 0x86;

/// The bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(pub &'a [u8]);

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    /// Its identifier octet.
    pub tag: u8,
    /// Its content.
    pub content: &'a [u8],
    /// The whole value, with tag and length.
    pub whole: &'a [u8],
}

impl<'a> Der<'a> {
    /// The next value, whatever it is.
    pub fn any(&mut self) -> Option<Value<'a>> {
        let before = self.0;
        let (rest, any) = Any::from_der(before).ok()?;
        self.0 = rest;
        Some(Value { tag: *before.first()?, content: any.data, whole: &before[..before.len() - rest.len()] })
    }

    /// The next value, if it has this tag; otherwise nothing is taken.
    pub fn optional(&mut self, tag: u8) -> Option<Value<'a>> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.any()
    }

    /// The content of the next value, which must have this tag.
    pub fn take(&mut self, tag: u8) -> Option<Der<'a>> {
        self.optional(tag).map(|value| Der(value.content))
    }

    /// The bytes of a BIT STRING of whole bytes.
    pub fn bits(&mut self) -> Option<&'a [u8]> {
        match self.take(BIT_STRING)?.0 {
            [0, bytes @ ..] => Some(bytes),
            _ => None,
        }
    }

    /// Reads the optional flag of an extension that says whether it is critical.
    pub fn critical(&mut self) -> bool {
        self.take(BOOLEAN).is_some_and(|flag| flag.0 != [0])
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

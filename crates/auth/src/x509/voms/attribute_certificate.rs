//! An attribute certificate (RFC 5755, section 4) as VOMS servers make it, parsed and not verified.

use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::limits::{CHAIN_CERTIFICATES, FQAN_BYTES, FQANS};
use crate::x509::certificate::{Certificate, Signed};
use crate::x509::der::{BIT_STRING, CONTEXT_0, DIRECTORY_NAME, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, URI};

/// 1.3.6.1.4.1.8005.100.100.4: the attribute that holds FQANs.
const FQAN: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 4];
/// 1.3.6.1.4.1.8005.100.100.10: the server's certificates.
const CERTIFICATES: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 10];
/// 1.3.6.1.4.1.8005.100.100.11: attributes beside FQANs, which are ignored.
const TAGS: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 11];
/// The hosts that the attributes are for (RFC 5755, section 4.3.2).
const TARGETS: &[u8] = &[0x55, 0x1d, 55];
/// Extensions that may be critical: besides those above, that there is no revocation (2.5.29.56), and the signer's key (2.5.29.35).
const UNDERSTOOD: [&[u8]; 4] = [CERTIFICATES, TAGS, &[0x55, 0x1d, 56], &[0x55, 0x1d, 35]];

/// The attestation of a server.
pub(super) struct AttributeCertificate<'a> {
    pub signed: Signed<'a>,
    /// Names of the issuer of the holder's certificate; old servers write the holder's own.
    holders: Vec<&'a [u8]>,
    holder_serial: &'a [u8],
    /// Names of the server.
    pub issuers: Vec<&'a [u8]>,
    pub begins: i64,
    pub ends: i64,
    pub vo: String,
    pub fqans: Vec<String>,
    /// The server's certificate, then those of its signers.
    pub certificates: Vec<&'a [u8]>,
    pub has_targets: bool,
    pub unknown_critical: Option<String>,
}

/// The attribute certificates in the extension: `SEQUENCE { SEQUENCE OF AttributeCertificate }`.
pub(super) fn split(value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut outer = Der(value);
    let mut wrapped = outer.take(SEQUENCE)?;
    let mut list = wrapped.take(SEQUENCE)?;
    let mut all = Vec::new();
    while !list.is_empty() {
        all.push(list.optional(SEQUENCE)?.whole);
    }
    (outer.is_empty() && wrapped.is_empty()).then_some(all)
}

impl<'a> AttributeCertificate<'a> {
    pub fn parse(der: &'a [u8]) -> Option<AttributeCertificate<'a>> {
        let signed = Signed::parse(der)?;
        let mut info = Der(signed.content);
        // Version 2 is written as 1.
        if info.take(INTEGER)?.0 != [1] {
            return None;
        }
        let (holders, holder_serial) = holder(info.take(SEQUENCE)?)?;
        let issuers = issuer(&mut info)?;
        // The algorithm is in the signed part too, and must be the same.
        if info.take(SEQUENCE)?.0 != signed.algorithm {
            return None;
        }
        info.take(INTEGER)?;
        let mut validity = info.take(SEQUENCE)?;
        let (begins, ends) = (time(&mut validity)?, time(&mut validity)?);
        let (vo, fqans) = fqans(info.take(SEQUENCE)?)?;
        info.optional(BIT_STRING);
        let read = AttributeCertificate {
            signed,
            holders,
            holder_serial,
            issuers,
            begins,
            ends,
            vo,
            fqans,
            certificates: Vec::new(),
            has_targets: false,
            unknown_critical: None,
        };
        match info.take(SEQUENCE) {
            Some(extensions) if info.is_empty() => read.with_extensions(extensions),
            _ => info.is_empty().then_some(read),
        }
    }

    fn with_extensions(mut self, mut extensions: Der<'a>) -> Option<AttributeCertificate<'a>> {
        while !extensions.is_empty() {
            let mut extension = extensions.take(SEQUENCE)?;
            let oid = extension.take(OID)?.0;
            let is_critical = extension.critical();
            let value = extension.take(OCTET_STRING)?.0;
            match oid {
                // A second list would be ambiguous.
                CERTIFICATES if !self.certificates.is_empty() => return None,
                CERTIFICATES => self.certificates = certificates(value)?,
                TARGETS => self.has_targets = true,
                _ if is_critical && !UNDERSTOOD.contains(&oid) => self.unknown_critical = Some(dotted(oid)),
                _ => {}
            }
        }
        Some(self)
    }

    /// Whether the holder is the owner of a certificate: its number, and the name of its issuer or (by old servers) its own.
    pub fn is_about(&self, end_entity: &Certificate<'_>) -> bool {
        let names = [end_entity.parsed.issuer().as_raw(), end_entity.parsed.subject().as_raw()];
        self.holder_serial == end_entity.parsed.raw_serial() && self.holders.iter().any(|holder| names.contains(holder))
    }
}

/// `Holder`, by the number of a certificate: `SEQUENCE { [0] SEQUENCE { issuer GeneralNames, serial INTEGER } … }`.
fn holder(mut holder: Der<'_>) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut base = holder.take(CONTEXT_0)?;
    let names = directory_names(base.take(SEQUENCE)?)?;
    Some((names, base.take(INTEGER)?.0))
}

/// `AttCertIssuer`: `[0] SEQUENCE { issuerName GeneralNames … }`, or, of version 1, the names alone.
fn issuer<'a>(info: &mut Der<'a>) -> Option<Vec<&'a [u8]>> {
    if let Some(names) = info.take(SEQUENCE) {
        return directory_names(names);
    }
    directory_names(info.take(CONTEXT_0)?.take(SEQUENCE)?)
}

fn directory_names(mut names: Der<'_>) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !names.is_empty() {
        let name = names.any()?;
        if name.tag == DIRECTORY_NAME {
            found.push(name.content);
        }
    }
    Some(found)
}

fn time(validity: &mut Der<'_>) -> Option<i64> {
    let value = validity.any()?;
    ASN1Time::from_der(value.whole).ok().map(|(_, time)| time.timestamp())
}

/// The organisation and its FQANs: `SEQUENCE OF Attribute`, of which one is `{ FQAN, SET { IetfAttrSyntax } }`.
fn fqans(mut attributes: Der<'_>) -> Option<(String, Vec<String>)> {
    let mut found = None;
    while !attributes.is_empty() {
        let mut attribute = attributes.take(SEQUENCE)?;
        if attribute.take(OID)?.0 != FQAN {
            continue;
        }
        let mut values = attribute.take(SET)?;
        let syntax = values.take(SEQUENCE)?;
        // A second list of FQANs would be ambiguous.
        if found.is_some() || !values.is_empty() {
            return None;
        }
        found = Some(ietf_attributes(syntax)?);
    }
    found
}

/// `IetfAttrSyntax ::= SEQUENCE { policyAuthority [0] GeneralNames, values SEQUENCE OF OCTET STRING }`; the authority is
/// `VO://HOST:PORT`.
fn ietf_attributes(mut syntax: Der<'_>) -> Option<(String, Vec<String>)> {
    let mut authority = syntax.take(CONTEXT_0)?;
    // Some servers wrap the names in another SEQUENCE.
    if let Some(wrapped) = authority.take(SEQUENCE) {
        authority = wrapped;
    }
    let uri = std::str::from_utf8(authority.take(URI)?.0).ok()?;
    let vo =
        uri.split_once("://").map(|(vo, _)| vo.to_owned()).filter(|vo| is_plain(vo.as_bytes()) && !vo.contains('/'))?;
    let mut values = syntax.take(SEQUENCE)?;
    let mut fqans = Vec::new();
    while !values.is_empty() {
        let fqan = values.take(OCTET_STRING)?.0;
        if fqan.len() > FQAN_BYTES || fqans.len() >= FQANS || !is_plain(fqan) {
            return None;
        }
        fqans.push(String::from_utf8(fqan.to_vec()).ok()?);
    }
    (!fqans.is_empty()).then_some((vo, fqans))
}

/// Whether text is printable ASCII and not empty: it is written to headers and logs, and compared.
fn is_plain(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// `SEQUENCE { SEQUENCE OF Certificate }`.
fn certificates(value: &[u8]) -> Option<Vec<&[u8]>> {
    let all = split(value)?;
    (all.len() <= CHAIN_CERTIFICATES && !all.is_empty()).then_some(all)
}

/// Numbers with dots.
fn dotted(oid: &[u8]) -> String {
    x509_parser::asn1_rs::Oid::new(oid.into()).to_id_string()
}

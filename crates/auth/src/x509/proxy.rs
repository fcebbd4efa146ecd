//! The proxies at the beginning of a chain (RFC 3820): each is signed by the certificate after it, and adds one CN to its name.

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::ParsedExtension;

use super::certificate::Certificate;
use super::der::{Der, INTEGER, OID, SEQUENCE};
use super::error::{ChainError, at};
use super::voms::ATTRIBUTES;
use crate::limits::{PROXIES, SKEW_SECONDS};

/// ProxyCertInfo (RFC 3820, section 3.8), and its form in the draft that Globus 3 implements.
const PROXY_CERT_INFO: &str = "1.3.6.1.5.5.7.1.14";
const DRAFT_PROXY_CERT_INFO: &str = "1.3.6.1.4.1.3536.1.222";
/// The policy languages: 1.3.6.1.5.5.7.21.1, all rights are inherited; 1.3.6.1.4.1.3536.1.1.1.9, Globus's limited proxy.
const INHERIT_ALL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
const LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// Extensions that are understood in a proxy, whether critical or not: key identifiers, key usage, constraints, extended key usage.
const UNDERSTOOD: [&str; 7] =
    [PROXY_CERT_INFO, ATTRIBUTES, "2.5.29.14", "2.5.29.35", "2.5.29.15", "2.5.29.19", "2.5.29.37"];
/// A proxy has no other name (RFC 3820, sections 3.5 and 3.6).
const OTHER_NAMES: [&str; 2] = ["2.5.29.17", "2.5.29.18"];

/// The parts of a chain. Its proxies are verified; its end-entity is not.
pub(super) struct Proxies<'a> {
    /// The proxies, each followed by its signer.
    pub proxies: Vec<Certificate<'a>>,
    pub end_entity: Certificate<'a>,
    /// The certificates between the end-entity and an authority.
    pub above: &'a [CertificateDer<'a>],
    pub is_limited: bool,
    /// When the first proxy expires, seconds since 1970.
    pub expires: i64,
}

impl<'a> Proxies<'a> {
    pub fn split(chain: &'a [CertificateDer<'a>], now: i64) -> Result<Proxies<'a>, ChainError> {
        // Counted before any signature is verified, because verifying is costly.
        let is_proxy = |der: &&CertificateDer<'_>| {
            Certificate::parse(der).is_ok_and(|one| !matches!(one.extension(PROXY_CERT_INFO), Ok(None)))
        };
        if chain.iter().filter(is_proxy).count() > PROXIES {
            return Err(ChainError::Proxies);
        }
        let mut proxies: Vec<Certificate<'a>> = Vec::new();
        let (mut is_limited, mut expires) = (false, i64::MAX);
        for (place, der) in chain.iter().enumerate() {
            let certificate = Certificate::parse(der)?;
            // The signer of a proxy may be an end-entity or another proxy.
            if let Some(below) = proxies.last() {
                verify_signed(below, &certificate)?;
            }
            let Some(info) = ProxyInfo::of(&certificate)? else {
                let above = &chain[place + 1..];
                return Ok(Proxies { proxies, end_entity: certificate, above, is_limited, expires });
            };
            verify_alone(&certificate, now)?;
            if info.depth_below.is_some_and(|allowed| proxies.len() > allowed) {
                return Err(ChainError::Depth(certificate.shown_name()));
            }
            is_limited |= info.is_limited;
            expires = expires.min(certificate.ends());
            proxies.push(certificate);
        }
        Err(ChainError::Incomplete(proxies.last().map(Certificate::shown_name).unwrap_or_default()))
    }
}

/// The ProxyCertInfo of a proxy.
struct ProxyInfo {
    is_limited: bool,
    /// Proxies that may follow below it.
    depth_below: Option<usize>,
}

impl ProxyInfo {
    /// Reads the ProxyCertInfo of a certificate; `None` where the certificate is no proxy.
    fn of(certificate: &Certificate<'_>) -> Result<Option<ProxyInfo>, ChainError> {
        if certificate.extension(DRAFT_PROXY_CERT_INFO)?.is_some() {
            return Err(ChainError::Draft(certificate.shown_name()));
        }
        let Some(extension) = certificate.extension(PROXY_CERT_INFO)? else {
            return if is_legacy(certificate) { Err(ChainError::Legacy(certificate.shown_name())) } else { Ok(None) };
        };
        if !extension.critical {
            return Err(broken(certificate, "ProxyCertInfo is not critical"));
        }
        let unread = || broken(certificate, "ProxyCertInfo does not parse");
        let (language, policy, depth_below) = read(extension.value).ok_or_else(unread)?;
        let is_limited = language == LIMITED;
        if !is_limited && language != INHERIT_ALL {
            return Err(ChainError::Language(certificate.shown_name()));
        }
        if policy {
            return Err(broken(certificate, "a policy stands beside a language that has none"));
        }
        Ok(Some(ProxyInfo { is_limited, depth_below }))
    }
}

/// `ProxyCertInfo ::= SEQUENCE { pCPathLenConstraint INTEGER OPTIONAL, proxyPolicy SEQUENCE { language OID, policy OCTET STRING OPTIONAL } }`:
/// the language, whether there is a policy, the depth.
fn read(value: &[u8]) -> Option<(&[u8], bool, Option<usize>)> {
    let mut outer = Der(value);
    let mut info = outer.take(SEQUENCE)?;
    // Older software wraps the depth in another tag, which the RFC does not allow.
    let depth = match info.take(INTEGER) {
        None => None,
        Some(number) => Some(small(number.0)?),
    };
    let mut policy = info.take(SEQUENCE)?;
    let language = policy.take(OID)?.0;
    let has_policy = !policy.is_empty();
    (outer.is_empty() && info.is_empty()).then_some((language, has_policy, depth))
}

/// An integer that is not negative. One that is larger than any chain counts as no limit.
fn small(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [] => None,
        [first, ..] if *first >= 0x80 => None,
        [one] => Some(usize::from(*one)),
        _ => Some(usize::MAX),
    }
}

/// Proxies of Globus 2 have no extension: their name is that of their issuer with `CN=proxy` or `CN=limited proxy`.
fn is_legacy(certificate: &Certificate<'_>) -> bool {
    let (subject, issuer) = (certificate.parsed.subject(), certificate.parsed.issuer());
    let last = subject.iter_common_name().last().and_then(|name| name.as_str().ok());
    matches!(last, Some("proxy" | "limited proxy")) && adds_one_name(subject.as_raw(), issuer.as_raw()).is_some()
}

fn broken(certificate: &Certificate<'_>, why: &'static str) -> ChainError {
    ChainError::Proxy { name: certificate.shown_name(), why }
}

/// Checks the requirements on a proxy that do not depend on its signer.
fn verify_alone(certificate: &Certificate<'_>, now: i64) -> Result<(), ChainError> {
    let validity = certificate.parsed.validity();
    let (begins, ends) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let (kind, name) = ("proxy certificate", || certificate.shown_name());
    // It is valid in its last second too (RFC 5280, section 4.1.2.5).
    if ends < now {
        return Err(ChainError::Expired { kind, name: name(), at: at(ends) });
    }
    // Proxies are often only seconds old, and made on machines whose clocks may be ahead.
    if begins > now.saturating_add(SKEW_SECONDS) {
        return Err(ChainError::NotYet { kind, name: name(), at: at(begins) });
    }
    for extension in certificate.parsed.extensions() {
        let oid = extension.oid.to_id_string();
        if OTHER_NAMES.contains(&oid.as_str()) {
            return Err(broken(certificate, "it has an alternative name"));
        }
        if extension.critical && !UNDERSTOOD.contains(&oid.as_str()) {
            return Err(broken(certificate, "it has a critical extension that is not known"));
        }
        certificate.extension(&oid)?;
        match extension.parsed_extension() {
            ParsedExtension::BasicConstraints(constraints) if constraints.ca => {
                return Err(broken(certificate, "it says that it is an authority's"));
            }
            ParsedExtension::KeyUsage(usage) if usage.key_cert_sign() => {
                return Err(broken(certificate, "its key may sign certificates"));
            }
            ParsedExtension::ExtendedKeyUsage(usage) if !usage.client_auth && !usage.any => {
                return Err(broken(certificate, "it is not for clients"));
            }
            ParsedExtension::ParseError { .. } => return Err(ChainError::Malformed),
            _ => {}
        }
    }
    if !certificate.may_sign() {
        return Err(broken(certificate, "its key may not sign"));
    }
    Ok(())
}

/// Verifies a proxy against its signer: names, usage, the signature.
fn verify_signed(proxy: &Certificate<'_>, signer: &Certificate<'_>) -> Result<(), ChainError> {
    let (subject, issuer) = (proxy.parsed.subject().as_raw(), proxy.parsed.issuer().as_raw());
    if issuer != signer.parsed.subject().as_raw() {
        return Err(ChainError::Incomplete(proxy.shown_name()));
    }
    let added = adds_one_name(subject, issuer).filter(|added| is_common_name(*added));
    if added.is_none() {
        return Err(broken(proxy, "its name is not that of its issuer and one CN"));
    }
    if signer.parsed.is_ca() {
        return Err(broken(proxy, "an authority signed it, and not the owner of a certificate"));
    }
    if !signer.may_sign() {
        return Err(broken(proxy, "the key above it may not sign"));
    }
    proxy.verify_signature(signer)
}

/// The part that a name has beyond the parts of another, if it is exactly one.
fn adds_one_name<'a>(longer: &'a [u8], shorter: &[u8]) -> Option<Der<'a>> {
    let longer = Der(longer).take(SEQUENCE)?.0;
    let shorter = Der(shorter).take(SEQUENCE)?.0;
    let mut rest = Der(longer.strip_prefix(shorter)?);
    let part = rest.take(super::der::SET)?;
    rest.is_empty().then_some(part)
}

/// A part that is one CN.
fn is_common_name(mut part: Der<'_>) -> bool {
    let Some(mut attribute) = part.take(SEQUENCE) else { return false };
    let oid = attribute.optional(OID).map(|oid| oid.content);
    part.is_empty() && oid == Some(COMMON_NAME)
}

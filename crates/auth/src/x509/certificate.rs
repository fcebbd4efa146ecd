//! One certificate, parsed, and signatures by its key.

use rustls::pki_types::{AlgorithmIdentifier, CertificateDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{RelativeDistinguishedName, X509Name};

use super::der::{Der, SEQUENCE};
use super::error::ChainError;
use crate::policy::DistinguishedName;
use crate::trust::provider;

/// A certificate.
pub(super) struct Certificate<'a> {
    pub der: &'a CertificateDer<'a>,
    pub parsed: X509Certificate<'a>,
}

/// The kind and size of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// RSA, with this number of bits.
    Rsa(usize),
    /// Another kind.
    Other,
}

impl<'a> Certificate<'a> {
    pub fn parse(der: &'a CertificateDer<'a>) -> Result<Certificate<'a>, ChainError> {
        match X509Certificate::from_der(der) {
            Ok(([], parsed)) => Ok(Certificate { der, parsed }),
            _ => Err(ChainError::Malformed),
        }
    }

    /// Its subject's name; none where it has several attributes in one part, or a value that is not text.
    pub fn name(&self) -> Option<DistinguishedName> {
        name(self.parsed.subject())
    }

    /// Its issuer's name.
    pub fn issuer(&self) -> Option<DistinguishedName> {
        name(self.parsed.issuer())
    }

    /// Its name, for messages.
    pub fn shown_name(&self) -> String {
        self.name().map_or_else(|| "without a name".to_owned(), |name| crate::token::shown(&name.to_string()))
    }

    /// When it ends, seconds since 1970.
    pub fn ends(&self) -> i64 {
        self.parsed.validity().not_after.timestamp()
    }

    /// An extension by its object identifier.
    ///
    /// # Errors
    /// [`ChainError::Malformed`]: the extension is there twice.
    pub fn extension(&self, oid: &str) -> Result<Option<&x509_parser::extensions::X509Extension<'a>>, ChainError> {
        let mut found = self.parsed.extensions().iter().filter(|one| one.oid.to_id_string() == oid);
        match (found.next(), found.next()) {
            (first, None) => Ok(first),
            _ => Err(ChainError::Malformed),
        }
    }

    /// Whether its key may sign: it has no key usage, or one with digital signatures.
    pub fn may_sign(&self) -> bool {
        let mut usages = self.parsed.extensions().iter().filter_map(|one| match one.parsed_extension() {
            ParsedExtension::KeyUsage(usage) => Some(usage.digital_signature()),
            _ => None,
        });
        usages.all(|may| may)
    }

    /// Verifies that the key of `signer` signed this certificate.
    ///
    /// # Errors
    /// [`ChainError`]: the certificate is malformed, the signature is wrong, or its algorithm is not accepted.
    pub fn verify_signature(&self, signer: &Certificate<'_>) -> Result<(), ChainError> {
        let signed = Signed::parse(self.der).ok_or(ChainError::Malformed)?;
        // The algorithm is in the signed part too, and must be the same (RFC 5280, section 4.1.1.2).
        if self.parsed.tbs_certificate.signature != self.parsed.signature_algorithm {
            return Err(ChainError::Malformed);
        }
        signed.verify(signer).map_err(|problem| match problem {
            SignatureProblem::Wrong => ChainError::Signature(self.shown_name()),
            SignatureProblem::Algorithm => ChainError::Algorithm(self.shown_name()),
        })
    }
}

/// A signed object: `SEQUENCE { content, AlgorithmIdentifier, BIT STRING }`.
pub(super) struct Signed<'a> {
    pub content: &'a [u8],
    pub message: &'a [u8],
    pub algorithm: &'a [u8],
    pub signature: &'a [u8],
}

/// Why a signature is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SignatureProblem {
    /// It is wrong: over other bytes, or by another key.
    Wrong,
    /// Its algorithm or its key is too weak: SHA-1, or RSA below 2048 bits.
    Algorithm,
}

impl<'a> Signed<'a> {
    pub fn parse(der: &'a [u8]) -> Option<Signed<'a>> {
        let mut outer = Der(der);
        let mut all = outer.take(SEQUENCE)?;
        let signed = all.optional(SEQUENCE)?;
        let algorithm = all.take(SEQUENCE)?.0;
        let signature = all.bits()?;
        let is_whole = outer.is_empty() && all.is_empty();
        is_whole.then_some(Signed { content: signed.content, message: signed.whole, algorithm, signature })
    }

    /// Verifies the signature by the key of a certificate, with the algorithms that TLS accepts too.
    ///
    /// # Errors
    /// [`SignatureProblem`]: the signature is wrong, or its algorithm or key is not accepted.
    pub fn verify(&self, signer: &Certificate<'_>) -> Result<(), SignatureProblem> {
        let mut outer = Der(signer.parsed.public_key().raw);
        let parts = outer.take(SEQUENCE).and_then(|mut key| Some((key.take(SEQUENCE)?.0, key.bits()?)));
        let (key_algorithm, key) = parts.ok_or(SignatureProblem::Algorithm)?;
        let fitting =
            provider().signature_verification_algorithms.all.iter().filter(|one| {
                is(&one.signature_alg_id(), self.algorithm) && is(&one.public_key_alg_id(), key_algorithm)
            });
        let mut result = Err(SignatureProblem::Algorithm);
        for algorithm in fitting {
            match algorithm.verify_signature(key, self.message, self.signature) {
                Ok(()) => return Ok(()),
                Err(_) => result = Err(SignatureProblem::Wrong),
            }
        }
        result
    }
}

fn is(known: &AlgorithmIdentifier, found: &[u8]) -> bool {
    known.as_ref() == found
}

/// A name from its attributes; none with several in one part, with a value that is not text, or without any part.
pub(super) fn name(name: &X509Name<'_>) -> Option<DistinguishedName> {
    let parts: Option<Vec<(String, String)>> = name.iter().map(relative).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    Some(DistinguishedName::from_root(parts.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}

/// The one attribute of a part: a short name or numbers with dots, and its value.
fn relative(part: &RelativeDistinguishedName<'_>) -> Option<(String, String)> {
    let mut attributes = part.iter();
    let (attribute, None) = (attributes.next()?, attributes.next()) else { return None };
    let oid = attribute.attr_type();
    let known = x509_parser::objects::oid2abbrev(oid, x509_parser::objects::oid_registry()).map(str::to_owned);
    Some((known.unwrap_or_else(|_| oid.to_id_string()), attribute.as_str().ok()?.to_owned()))
}

/// The name in a certificate; none where it has several attributes in one part, a value that is not text, or no part at all: no rule
/// could match such a name.
pub fn subject(certificate: &[u8]) -> Option<DistinguishedName> {
    name(x509_parser::parse_x509_certificate(certificate).ok()?.1.subject())
}

/// When a certificate ends, seconds since 1970; none if it is not one.
pub fn valid_until(certificate: &CertificateDer<'_>) -> Option<i64> {
    Some(Certificate::parse(certificate).ok()?.ends())
}

/// The public key in a certificate: its SubjectPublicKeyInfo, and its kind.
pub fn public_key(certificate: &[u8]) -> Option<(Vec<u8>, PublicKey)> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let kind = match parsed.public_key().parsed() {
        Ok(x509_parser::public_key::PublicKey::RSA(key)) => PublicKey::Rsa(key.key_size()),
        _ => PublicKey::Other,
    };
    Some((parsed.public_key().raw.to_vec(), kind))
}

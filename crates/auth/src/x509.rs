//! Certificates of clients: a chain with proxies (RFC 3820), and the VOMS attributes in it.
//!
//! A proxy is a short-lived certificate that the owner of a certificate signs with its key; each adds one CN to the name of its
//! signer. webpki verifies the certificate of the owner, the end-entity, to an authority; the proxies below it are verified here,
//! because webpki accepts none. The holder of a proxy counts as the owner: [`Identity::name`] is the end-entity's.
//!
//! Nothing is verified against revocation lists. The time is an argument.

mod certificate;
mod der;
mod error;
mod handshake;
mod proxy;
#[cfg(test)]
mod tests;
mod voms;

use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use self::certificate::Certificate;
use self::proxy::Proxies;
use crate::limits::{CERTIFICATE_BYTES, CHAIN_CERTIFICATES};
use crate::token::shown;
use crate::trust::provider;

pub use self::certificate::{PublicKey, public_key, subject};
pub use self::error::ChainError;
pub use self::handshake::ClientVerifier;
pub use self::voms::{LscError, VomsAttributes, VomsServers};

/// The holder of a verified chain of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the end-entity in the form of RFC 4514, without the parts that proxies add.
    pub name: String,
    /// The same name in the slash form of the grid. There a slash in a value may look like another part: compare `name`.
    pub grid_name: String,
    /// Proxies below the end-entity; 0 for a certificate of its own.
    pub proxies: usize,
    /// One of the proxies is limited: its holder may move files, and may not start programs.
    pub is_limited: bool,
    /// When the first certificate among the proxies and the end-entity expires, seconds since 1970.
    pub expires: i64,
    /// Verified attributes of VOMS servers.
    pub attributes: Vec<VomsAttributes>,
    /// For each refused attribute certificate, a sentence with the reason.
    pub refused_attributes: Vec<String>,
}

impl Identity {
    /// The attributes of all virtual organisations (FQANs), in their order.
    pub fn fqans(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().flat_map(|one| one.fqans.iter().map(String::as_str))
    }
}

/// The trusted authorities: for names of people, and for membership in virtual organisations.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// Authorities for end-entities and for VOMS servers.
    pub roots: std::sync::Arc<RootCertStore>,
    /// The trusted VOMS servers.
    pub voms: VomsServers,
}

/// Verifies the chain that a client presents: its own certificate first, each followed by its signer's. `now` is in seconds since 1970.
///
/// Attributes that cannot be verified are left out, with the reason; the identity is valid without them.
///
/// # Errors
/// [`ChainError`]: the chain proves no identity; one sentence.
pub fn verify(chain: &[CertificateDer<'_>], authorities: &Authorities, now: i64) -> Result<Identity, ChainError> {
    if chain.is_empty() {
        return Err(ChainError::Empty);
    }
    if chain.len() > CHAIN_CERTIFICATES || chain.iter().any(|one| one.len() > CERTIFICATE_BYTES) {
        return Err(ChainError::TooLong);
    }
    let Proxies { proxies, end_entity, above, is_limited, expires } = Proxies::split(chain, now)?;
    let name = end_entity.name().ok_or(ChainError::Nameless)?;
    verify_end_entity(&end_entity, above, &authorities.roots, now)?;
    let (attributes, refused_attributes) = voms::attributes(&proxies, &end_entity, authorities, now);
    Ok(Identity {
        name: name.rfc4514(),
        grid_name: name.to_string(),
        proxies: proxies.len(),
        is_limited,
        expires: expires.min(end_entity.ends()),
        attributes,
        refused_attributes,
    })
}

/// Reads bytes as the attributes in a proxy, for [`crate::fuzzing`].
pub(crate) fn fuzz_attributes(bytes: &[u8]) {
    voms::read_all(bytes);
}

/// Verifies an end-entity as a client to an authority: signatures, validity, constraints and usage, by webpki.
fn verify_end_entity(
    end_entity: &Certificate<'_>,
    above: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: i64,
) -> Result<(), ChainError> {
    let failed = |error: webpki::Error| chain_error(&error, end_entity, now);
    let parsed = EndEntityCert::try_from(end_entity.der).map_err(failed)?;
    let algorithms = provider().signature_verification_algorithms;
    let usage = KeyUsage::client_auth();
    parsed.verify_for_usage(algorithms.all, &roots.roots, above, unix_time(now), usage, None, None).map_err(failed)?;
    Ok(())
}

/// The error of webpki about an end-entity, as a sentence for its holder.
fn chain_error(error: &webpki::Error, end_entity: &Certificate<'_>, now: i64) -> ChainError {
    let (kind, name) = ("certificate", end_entity.shown_name());
    let validity = end_entity.parsed.validity();
    let (begins, ends) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    match error {
        webpki::Error::CertExpired { .. } if ends < now => ChainError::Expired { kind, name, at: error::at(ends) },
        webpki::Error::CertNotValidYet { .. } if begins > now => {
            ChainError::NotYet { kind, name, at: error::at(begins) }
        }
        // A wrong signature means that the certificate names a trusted authority that did not sign it.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            let issuer = end_entity.issuer().map_or_else(|| "nobody".to_owned(), |name| shown(&name.to_string()));
            ChainError::UnknownIssuer { name, issuer }
        }
        webpki::Error::CaUsedAsEndEntity => ChainError::EndEntity { name, why: "it is an authority's".to_owned() },
        other => ChainError::EndEntity { name, why: format!("{other:?}") },
    }
}

fn unix_time(now: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)))
}

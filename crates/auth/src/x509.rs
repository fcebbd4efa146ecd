//! Certificates of clients: a chain with proxies (RFC 3820), and the VOMS attributes in it.
//!
//! A proxy is a short-lived certificate that the owner of a certificate signs with its key; each adds one CN to the name of its
//! signer. webpki verifies the certificate of the owner, the end-entity, to an authority; the proxies below it are verified here,
//! because webpki accepts none. The holder of a proxy counts as the owner: [`Identity::name`] is the end-entity's.
//!
//! The authorities may bring lists of revoked certificates, and policies that say which names they may sign. The time is an argument.

mod certificate;
mod check;
mod der;
mod directory;
mod error;
mod handshake;
mod path;
mod proxy;
mod revocation;
mod signing_policy;
mod source;
#[cfg(test)]
mod tests;
mod voms;

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use webpki::KeyUsage;

use self::certificate::Certificate;
use self::path::PathError;
use self::proxy::Proxies;
use crate::limits::{CERTIFICATE_BYTES, CHAIN_CERTIFICATES};
use crate::token::shown;

pub use self::certificate::{PublicKey, public_key, subject, valid_until};
pub use self::check::CertificateCheck;
pub use self::directory::{AuthorityDirectory, AuthorityFileError};
pub use self::error::ChainError;
pub use self::handshake::ClientVerifier;
pub use self::revocation::{RevocationListError, RevocationLists};
pub use self::signing_policy::{SigningPolicies, SigningPolicyError};
pub use self::source::AuthoritySource;
pub use self::voms::{LscError, VomsServers};
pub use crate::voms_attributes::{VomsAttributes, plain_fqan};

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

    /// The identity without the attributes that have expired since the connection began, which are then among the refused ones.
    #[must_use]
    pub fn without_expired_attributes(&self, now: i64) -> Identity {
        let mut identity = self.clone();
        identity.attributes.retain(|one| one.expires >= now);
        if identity.attributes.len() < self.attributes.len() {
            let reason = "VOMS attributes of this connection have expired: make a new proxy";
            identity.refused_attributes.push(reason.to_owned());
        }
        identity
    }
}

/// The trusted authorities: for names of people, and for membership in virtual organisations.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// Authorities for end-entities and for VOMS servers.
    pub roots: Arc<RootCertStore>,
    /// The names that authorities may sign.
    pub signing_policies: SigningPolicies,
    /// The certificates that authorities have revoked.
    pub revocation_lists: RevocationLists,
    /// The trusted VOMS servers.
    pub voms: VomsServers,
}

impl Authorities {
    /// Authorities that may sign every name and have revoked nothing; without VOMS servers.
    pub fn new(roots: Arc<RootCertStore>) -> Authorities {
        Authorities {
            roots,
            signing_policies: SigningPolicies::default(),
            revocation_lists: RevocationLists::default(),
            voms: VomsServers::default(),
        }
    }
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
    path::verify(&end_entity, above, authorities, now, KeyUsage::client_auth())
        .map_err(|error| chain_error(&error, &end_entity, now))?;
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

/// The error about the path of an end-entity, as a sentence for its holder.
fn chain_error(error: &PathError, end_entity: &Certificate<'_>, now: i64) -> ChainError {
    let (kind, name) = ("certificate", end_entity.shown_name());
    let issuer = || end_entity.issuer().map_or_else(|| "nobody".to_owned(), |name| shown(&name.to_string()));
    let validity = end_entity.parsed.validity();
    let (begins, ends) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let error = match error {
        PathError::Name(unpermitted) => {
            return ChainError::SigningPolicy {
                authority: shown(&unpermitted.authority),
                name: shown(&unpermitted.name),
            };
        }
        PathError::Webpki(error) => error,
    };
    match error {
        webpki::Error::CertExpired { .. } if ends < now => ChainError::Expired { kind, name, at: error::at(ends) },
        webpki::Error::CertNotValidYet { .. } if begins > now => {
            ChainError::NotYet { kind, name, at: error::at(begins) }
        }
        // A wrong signature means that the certificate names a trusted authority that did not sign it.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            ChainError::UnknownIssuer { name, issuer: issuer() }
        }
        webpki::Error::CertRevoked => ChainError::Revoked { name, issuer: issuer() },
        webpki::Error::CrlExpired { .. } => ChainError::OldRevocationList { name },
        webpki::Error::CaUsedAsEndEntity => ChainError::EndEntity { name, why: "it is an authority's".to_owned() },
        other => ChainError::EndEntity { name, why: format!("{other:?}") },
    }
}

//! The result of verifying the certificates of a connection.

use rustls::pki_types::CertificateDer;

use super::{Authorities, Identity, verify};

/// The result of verifying the certificates of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateCheck {
    /// Their holder.
    Verified(Identity),
    /// The reason why they are rejected: one sentence.
    Rejected(String),
}

impl CertificateCheck {
    /// Verifies a chain; see [`verify`].
    pub fn of(chain: &[CertificateDer<'_>], authorities: &Authorities, now: i64) -> CertificateCheck {
        match verify(chain, authorities, now) {
            Ok(identity) => CertificateCheck::Verified(identity),
            Err(error) => CertificateCheck::Rejected(error.to_string()),
        }
    }

    /// The holder, where the certificates are accepted.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            CertificateCheck::Verified(identity) => Some(identity),
            CertificateCheck::Rejected(_) => None,
        }
    }
}

//! Lists of revoked certificates (CRLs, RFC 5280, section 5).
//!
//! The list of an authority applies to all certificates that it signed. An authority without a list has revoked nothing. A list that
//! is past its next update is not trusted any more, and neither are the certificates of its authority: a revocation may be missing.

use std::sync::Arc;

use model::fault::{Blame, Fault};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use webpki::{
    CertRevocationList, ExpirationPolicy, OwnedCertRevocationList, RevocationCheckDepth, RevocationOptions,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

use crate::limits::{REVOCATION_LIST_BYTES, REVOCATION_LISTS};

/// Lists of revoked certificates, of any number of authorities.
#[derive(Clone, Debug, Default)]
pub struct RevocationLists(Vec<Arc<CertRevocationList<'static>>>);

/// Why a file is not a usable list of revoked certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RevocationListError {
    /// It is too long, or there are too many.
    #[error("more than {REVOCATION_LIST_BYTES} bytes in a revocation list, or more than {REVOCATION_LISTS} lists")]
    TooLong,
    /// It is damaged, or of a kind that is not supported.
    #[error("it is not a revocation list that can be used (version 2, complete, by the authority itself): {0}")]
    Malformed(String),
}

impl Blame for RevocationListError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

impl RevocationLists {
    /// Adds the lists in a file, which is PEM or DER.
    ///
    /// # Errors
    /// [`RevocationListError`]: the file is too long, or a list in it cannot be used. The lists before that one are added.
    pub fn add(&mut self, file: &[u8]) -> Result<(), RevocationListError> {
        if file.len() > REVOCATION_LIST_BYTES {
            return Err(RevocationListError::TooLong);
        }
        let malformed = |error: &dyn std::fmt::Debug| RevocationListError::Malformed(format!("{error:?}"));
        let in_pem: Vec<_> = CertificateRevocationListDer::pem_slice_iter(file).collect();
        if in_pem.is_empty() {
            return self.add_der(file);
        }
        in_pem.into_iter().try_for_each(|list| self.add_der(&list.map_err(|error| malformed(&error))?))
    }

    fn add_der(&mut self, der: &[u8]) -> Result<(), RevocationListError> {
        if self.0.len() >= REVOCATION_LISTS {
            return Err(RevocationListError::TooLong);
        }
        let list = OwnedCertRevocationList::from_der(der)
            .map_err(|error| RevocationListError::Malformed(format!("{error:?}")))?;
        self.0.push(Arc::new(CertRevocationList::Owned(list)));
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls a function with the options of webpki for these lists; with none where there are none.
    pub(super) fn with_options<R>(&self, call: impl FnOnce(Option<RevocationOptions<'_>>) -> R) -> R {
        let lists: Vec<&CertRevocationList<'_>> = self.0.iter().map(Arc::as_ref).collect();
        let options = RevocationOptionsBuilder::new(&lists).ok().map(|builder| {
            builder
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        call(options)
    }
}

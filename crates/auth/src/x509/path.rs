//! The path from a certificate to an authority. webpki verifies signatures, validity, constraints, usage and revocation; afterwards
//! each name on the path is compared with the signing policy of the authority above it.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator};

use super::Authorities;
use super::certificate::Certificate;
use super::signing_policy::UnpermittedName;
use crate::trust::provider;

/// Why a path is refused.
#[derive(Debug)]
pub(super) enum PathError {
    /// By webpki.
    Webpki(webpki::Error),
    /// By a signing policy.
    Name(UnpermittedName),
}

impl From<UnpermittedName> for PathError {
    fn from(error: UnpermittedName) -> PathError {
        PathError::Name(error)
    }
}

impl From<webpki::Error> for PathError {
    fn from(error: webpki::Error) -> PathError {
        PathError::Webpki(error)
    }
}

/// Verifies a certificate for a usage. `above` are certificates of its issuers, in any order.
///
/// # Errors
/// [`PathError`]: no path to an authority is valid, or a name on it is not permitted.
pub(super) fn verify(
    certificate: &Certificate<'_>,
    above: &[CertificateDer<'_>],
    authorities: &Authorities,
    now: i64,
    usage: impl ExtendedKeyUsageValidator,
) -> Result<(), PathError> {
    let parsed = EndEntityCert::try_from(certificate.der)?;
    let algorithms = provider().signature_verification_algorithms.all;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
    let roots = &authorities.roots.roots;
    authorities.revocation_lists.with_options(|revocation| {
        let path = parsed.verify_for_usage(algorithms, roots, above, time, usage, revocation, None)?;
        authorities.signing_policies.permit(certificate)?;
        for intermediate in path.intermediate_certificates() {
            let der = intermediate.der();
            let intermediate = Certificate::parse(&der).map_err(|_| webpki::Error::BadDer)?;
            authorities.signing_policies.permit(&intermediate)?;
        }
        Ok(())
    })
}

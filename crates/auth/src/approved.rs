//! Restricts the connections of this process to ciphers that FIPS 140-3 approves. The program decides that once, before its first
//! connection: a restriction that had to be handed through every layer could be forgotten in one of them.

use std::sync::atomic::{AtomicBool, Ordering};

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, NamedGroup};

static IS_RESTRICTED: AtomicBool = AtomicBool::new(false);

/// The cipher suites of TLS that NIST SP 800-52 (revision 2, section 3.3.1) approves, among those of the provider.
const SUITES: [CipherSuite; 6] = [
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];
/// The curves of NIST SP 800-56A (revision 3, appendix D), among those of the provider.
const GROUPS: [NamedGroup; 2] = [NamedGroup::secp256r1, NamedGroup::secp384r1];

/// Restricts all further connections of this process.
pub fn restrict() {
    IS_RESTRICTED.store(true, Ordering::Relaxed);
}

/// Whether connections use approved ciphers alone.
pub fn is_restricted() -> bool {
    IS_RESTRICTED.load(Ordering::Relaxed)
}

/// The provider with its approved cipher suites and key exchanges alone.
pub(crate) fn of(mut provider: CryptoProvider) -> CryptoProvider {
    provider.cipher_suites.retain(|suite| SUITES.contains(&suite.suite()));
    provider.kx_groups.retain(|group| GROUPS.contains(&group.name()));
    provider
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_approved_suites_and_curves_stay() {
        let all = rustls::crypto::aws_lc_rs::default_provider();
        let approved = of(all.clone());
        assert_eq!(approved.cipher_suites.len(), SUITES.len());
        assert_eq!(approved.kx_groups.len(), GROUPS.len());
        assert!(
            all.cipher_suites.len() > SUITES.len() && all.kx_groups.len() > GROUPS.len(),
            "there is something to leave out"
        );
    }
}

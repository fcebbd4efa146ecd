//! The TLS settings of the hub: its own identity for clients that know it by its key, a site's certificate for all others.

use std::sync::Arc;

use auth::trust::{HTTP_BY_KEY_ALPN, provider};
use auth::x509::ClientVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore, ServerConfig};

/// A certificate chain with its private key.
#[derive(Debug)]
pub struct Certificate {
    /// The chain: the server's certificate first, then its issuers.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

/// Chooses the certificate that is sent to a client.
#[derive(Debug)]
struct ByAlpn {
    own: Arc<CertifiedKey>,
    site: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByAlpn {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by_key = hello.alpn().is_some_and(|mut names| names.any(|name| name == HTTP_BY_KEY_ALPN));
        Some(Arc::clone(if by_key { &self.own } else { &self.site }))
    }
}

/// The settings: with the hub's own identity, a site's certificate if there is one, and the authorities whose client certificates are
/// accepted. Such certificates are requested, but verified only after the handshake.
///
/// # Errors
/// A certificate and its key do not match.
pub fn settings(
    own: &Certificate,
    site: Option<&Certificate>,
    clients: Option<&RootCertStore>,
) -> Result<ServerConfig, Error> {
    let provider = provider();
    let certified = |certificate: &Certificate| {
        CertifiedKey::from_der(certificate.chain.clone(), certificate.key.clone_key(), &provider).map(Arc::new)
    };
    let own = certified(own)?;
    let site = site.map_or(Ok(Arc::clone(&own)), certified)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(roots) => builder.with_client_cert_verifier(Arc::new(ClientVerifier::new(roots, provider))),
        None => builder.with_no_client_auth(),
    };
    let mut settings = builder.with_cert_resolver(Arc::new(ByAlpn { own, site }));
    settings.alpn_protocols = vec![HTTP_BY_KEY_ALPN.to_vec(), b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(settings)
}

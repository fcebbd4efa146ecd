//! The certificate of a client, which may be a grid proxy.

use std::fmt;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::trust::provider;

/// A certificate chain and its private key.
#[derive(Clone)]
pub struct ClientCertificate(Arc<CertifiedKey>);

impl fmt::Debug for ClientCertificate {
    /// Without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientCertificate").field(&self.0.cert.len()).finish()
    }
}

/// The text is not a certificate with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not a certificate with its key; write PEM: the client's own certificate first, then those of its issuers, and an unencrypted key"
)]
pub struct NoCertificate;

impl ClientCertificate {
    /// Reads a PEM file in the form of grid proxies: certificates from the client's own upwards, and its key anywhere among them.
    ///
    /// # Errors
    /// The text has no certificate or no usable key.
    pub fn from_pem(text: &str) -> Result<ClientCertificate, NoCertificate> {
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| NoCertificate)?;
        let key = provider().key_provider.load_private_key(key).map_err(|_| NoCertificate)?;
        // The library's own constructor parses certificates and refuses proxies.
        Ok(ClientCertificate(Arc::new(CertifiedKey::new(chain, key))))
    }
}

/// Presents the certificate to every server that asks for one, whichever authorities the server names: the issuer of a proxy is its
/// owner, not an authority.
#[derive(Debug)]
struct SingleCertificate(ClientCertificate);

impl ResolvesClientCert for SingleCertificate {
    fn resolve(&self, _hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let SingleCertificate(ClientCertificate(own)) = self;
        own.key.choose_scheme(schemes).map(|_| Arc::clone(own))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// TLS for HTTP/1.1 to servers with certificates of these authorities; the client shows its certificate, if it has one.
///
/// # Errors
/// The cryptography provider supports no version of TLS.
pub fn http_client_config(
    roots: Arc<RootCertStore>,
    certificate: Option<ClientCertificate>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => builder.with_client_cert_resolver(Arc::new(SingleCertificate(certificate))),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pem_text_may_have_certificates_and_key_in_any_order() {
        let made = rcgen::generate_simple_self_signed(["ann".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        for text in [format!("{certificate}{key}"), format!("{key}{certificate}")] {
            let read = ClientCertificate::from_pem(&text).unwrap();
            assert_eq!(format!("{read:?}"), "ClientCertificate(1)");
            assert!(http_client_config(Arc::new(RootCertStore::empty()), Some(read)).is_ok());
        }
        for text in ["", "x", &certificate, &key] {
            assert!(ClientCertificate::from_pem(text).is_err());
        }
    }
}

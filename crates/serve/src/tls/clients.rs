//! Verifies client certificates. A certificate counts if an authority vouches for it. With any other, a grid proxy (RFC 3820)
//! included, the client stays unauthenticated and the handshake goes on (RFC 8446, section 4.4.2.4): another credential may be good.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{Connection, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::ClientAuthorities;

/// The extension that makes a certificate a proxy (RFC 3820, section 3.8).
const PROXY: &str = "1.3.6.1.5.5.7.1.14";

/// Judges certificates of clients.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    vouching: Arc<dyn ClientCertVerifier>,
    name: fn(&[u8]) -> Option<String>,
}

impl ClientVerifier {
    /// A verifier for certificates of these authorities.
    ///
    /// # Errors
    /// There is no valid authority.
    pub fn new(authorities: &ClientAuthorities, provider: &Arc<CryptoProvider>) -> Result<ClientVerifier, Error> {
        let roots = Arc::clone(&authorities.roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let vouching = verifier.allow_unauthenticated().build().map_err(|e| Error::General(e.to_string()))?;
        Ok(ClientVerifier { vouching, name: authorities.name })
    }

    /// The name in the certificate that a client has shown, proved and had vouched for, as RFC 4514 writes names.
    pub fn name(&self, tls: &Connection, peer: SocketAddr) -> Option<String> {
        let shown = tls.peer_certificates()?;
        let (own, above) = shown.split_first()?;
        match self.vouching.verify_client_cert(own, above, UnixTime::now()) {
            Ok(_) => (self.name)(own),
            Err(error) => {
                let (kind, name) = (kind(own), (self.name)(own));
                tracing::info!(target: "access", %peer, name, error = %error, "{kind} does not count: the client goes on without");
                None
            }
        }
    }
}

fn kind(certificate: &[u8]) -> &'static str {
    let is_proxy = x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, parsed)| parsed.extensions().iter().any(|extension| extension.oid.to_id_string() == PROXY));
    if is_proxy { "a proxy certificate" } else { "a certificate" }
}

impl ClientVerifier {
    /// A client must hold the key of its certificate. Only a certificate that does not parse is passed over: its client stays
    /// unauthenticated anyway.
    fn proved(
        certificate: &CertificateDer<'_>,
        verified: Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        match ParsedCertificate::try_from(certificate) {
            Ok(_) => verified,
            Err(_) => Ok(HandshakeSignatureValid::assertion()),
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.vouching.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _above: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // It is judged when the name in it is asked for.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientVerifier::proved(certificate, self.vouching.verify_tls12_signature(message, certificate, signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientVerifier::proved(certificate, self.vouching.verify_tls13_signature(message, certificate, signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.vouching.supported_verify_schemes()
    }
}

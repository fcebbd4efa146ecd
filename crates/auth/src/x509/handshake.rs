//! The server's side of TLS with client certificates. The handshake proves that the client holds the key of its certificate;
//! [`super::verify`] verifies the chain afterwards.
//!
//! An invalid chain does not end the handshake: the response to a request can say in a sentence what is wrong, which a TLS alert
//! cannot. The server must verify the chain before it processes requests.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, RootCertStore, SignatureScheme};

use super::certificate::public_key;

/// Accepts every chain whose key the client proves to hold.
#[derive(Debug)]
pub struct ClientVerifier {
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientVerifier {
    /// A verifier that sends clients the names of these authorities, so that they know which certificate to show.
    pub fn new(authorities: &RootCertStore, provider: Arc<CryptoProvider>) -> ClientVerifier {
        ClientVerifier { hints: authorities.subjects(), provider }
    }

    /// The key of a certificate, which webpki does not return for proxies. A certificate without a key fails verification afterwards.
    fn key(certificate: &CertificateDer<'_>) -> Option<SubjectPublicKeyInfoDer<'static>> {
        public_key(certificate).map(|(key, _)| SubjectPublicKeyInfoDer::from(key))
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _above: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(key) = ClientVerifier::key(certificate) else { return Ok(HandshakeSignatureValid::assertion()) };
        let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| bad_signature())?;
        let mapping = self.provider.signature_verification_algorithms.mapping;
        let known = mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = known.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let is_good = algorithms.iter().any(|one| key.verify_signature(*one, message, signed.signature()).is_ok());
        if is_good { Ok(HandshakeSignatureValid::assertion()) } else { Err(bad_signature()) }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(key) = ClientVerifier::key(certificate) else { return Ok(HandshakeSignatureValid::assertion()) };
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn bad_signature() -> Error {
    rustls::CertificateError::BadSignature.into()
}

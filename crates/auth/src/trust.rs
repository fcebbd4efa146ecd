//! How a client verifies a server that it knows by its key: a node, or a hub.
//!
//! An identity is a key pair; the fingerprint is the hash of its public half, so a renewed certificate over the same key is the same
//! server. Possession of the key is always proved: the signature of the handshake is verified in every mode.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::{Fingerprint, approved};

/// The ALPN name of HTTP for clients that verify the node by its key: they get the node's own certificate, whichever other clients get.
pub const HTTP_BY_KEY_ALPN: &[u8] = b"lh-http/1.1";

/// The only crypto provider of Longhaul; [`approved::restrict`] leaves out a part of it.
pub fn provider() -> Arc<CryptoProvider> {
    let all = rustls::crypto::aws_lc_rs::default_provider();
    Arc::new(if approved::is_restricted() { approved::of(all) } else { all })
}

/// How a client verifies a node.
#[derive(Clone)]
pub enum Trust {
    /// Accept any of these fingerprints; if there are none, accept any certificate and report its fingerprint.
    Fingerprints(Vec<Fingerprint>),
    /// Accept certificates of these authorities for the host's name.
    Authorities(Arc<RootCertStore>),
}

/// The fingerprint of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> Option<Fingerprint> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let public = parsed.subject_public_key_info();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public.as_ref());
    Some(Fingerprint(digest.as_ref().try_into().ok()?))
}

/// The client's TLS configuration, and the place where its verifier stores the server's fingerprint.
/// It speaks TLS 1.3 only, and offers these protocols (ALPN).
///
/// # Errors
/// The authorities cannot be used.
pub fn client_config(trust: &Trust, alpn: Vec<Vec<u8>>) -> Result<(Arc<ClientConfig>, SeenFingerprint), rustls::Error> {
    let provider = provider();
    let seen = SeenFingerprint::default();
    let authority = match trust {
        Trust::Fingerprints(_) => None,
        Trust::Authorities(roots) => {
            let built = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(&provider)).build();
            Some(built.map_err(|e| rustls::Error::General(e.to_string()))?)
        }
    };
    let accepted = match trust {
        Trust::Fingerprints(list) => list.clone(),
        Trust::Authorities(_) => Vec::new(),
    };
    let verifier = Verifier { authority, accepted, seen: seen.clone(), provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = alpn;
    config.resumption = rustls::client::Resumption::disabled();
    Ok((Arc::new(config), seen))
}

/// The fingerprint of the server's certificate, also where the certificate was refused.
#[derive(Clone, Debug, Default)]
pub struct SeenFingerprint(Arc<Mutex<Option<Fingerprint>>>);

impl SeenFingerprint {
    /// The fingerprint, once the certificate has been shown.
    pub fn get(&self) -> Option<Fingerprint> {
        *self.0.lock()
    }
}

struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    accepted: Vec<Fingerprint>,
    seen: SeenFingerprint,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("accepted", &self.accepted).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let bad = rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding);
        let shown = fingerprint(end_entity).ok_or(bad)?;
        *self.seen.0.lock() = Some(shown);
        match &self.authority {
            Some(authority) => authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None if self.accepted.is_empty() || self.accepted.contains(&shown) => Ok(ServerCertVerified::assertion()),
            None => Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

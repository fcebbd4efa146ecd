//! Who the node is: its certificate, and how a client makes sure of it.
//!
//! A node's identity is its key pair; the fingerprint is the hash of the public half, so a renewed certificate over
//! the same key is the same node. A client accepts the node that its access key names, or the one pinned for that host
//! and port, or one that a given authority vouches for. Possession of the key is always proven: the handshake's
//! signature is verified in every mode.

use std::sync::Arc;
use std::{fmt, io};

use auth::Fingerprint;
use model::HostPort;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{AlertDescription, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use wire::version::{SPOKEN, Version};

use crate::error::Error;

/// A node's certificate chain and key.
pub struct NodeIdentity {
    /// End-entity certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// How a client makes sure of a node.
#[derive(Clone)]
pub enum Trust {
    /// Accept any of these fingerprints; if there are none, accept what is shown and report it.
    Fingerprints(Vec<Fingerprint>),
    /// Accept what these authorities vouch for under the host's name.
    Authorities(Arc<RootCertStore>),
}

/// What the handshake found out about the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCheck {
    /// The fingerprint it showed and proved.
    pub fingerprint: Fingerprint,
}

/// The fingerprint of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> Option<Fingerprint> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let public = parsed.subject_public_key_info();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public.as_ref());
    Some(Fingerprint(digest.as_ref().try_into().ok()?))
}

/// Random bytes for session names, keys and ids.
pub fn random<const N: usize>() -> Result<[u8; N], rustls::Error> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

/// A tag for the unfinished files of one attempt.
pub fn random_tag() -> Result<String, rustls::Error> {
    Ok(random::<6>()?.iter().map(|b| format!("{b:02x}")).collect())
}

/// The one crypto provider of the house.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// What a node offers to HTTP clients, so that they get an answer instead of an alert.
pub const HTTP_ALPN: &[u8] = b"http/1.1";

/// HTTP for those who know the node by its key: whatever certificate others are shown, they are shown the node's own.
pub const HTTP_BY_KEY_ALPN: &[u8] = b"lh-http/1.1";

/// The node's side of TLS: version 1.3 only, our protocol by ALPN.
pub fn server_config(identity: &NodeIdentity) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = SPOKEN.iter().map(|v| v.alpn()).chain([HTTP_ALPN.to_vec()]).collect();
    // One handshake per session: tickets would be work for nobody.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The client's side of TLS, and where the verifier leaves what it saw.
pub fn client_config(trust: &Trust, offered: &[Version]) -> Result<(Arc<ClientConfig>, Seen), rustls::Error> {
    let provider = provider();
    let seen = Seen::default();
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
    config.alpn_protocols = offered.iter().map(|v| v.alpn()).collect();
    config.resumption = rustls::client::Resumption::disabled();
    Ok((Arc::new(config), seen))
}

/// What the verifier saw, also when it refused.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Option<Fingerprint>>>);

impl Seen {
    /// The fingerprint, once the certificate has been shown.
    pub fn get(&self) -> Option<Fingerprint> {
        *self.0.lock()
    }
}

struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    accepted: Vec<Fingerprint>,
    seen: Seen,
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

/// What a failed handshake means.
pub(crate) fn handshake_error(error: Error, to: &HostPort, trust: &Trust, seen: &Seen) -> Error {
    let to = to.to_string();
    let Error::Broken { source, .. } = &error else { return error };
    let tls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (tls, seen.get(), trust) {
        (Some(rustls::Error::InvalidCertificate(why)), _, Trust::Authorities(_)) => {
            Error::Certificate { to, why: model::fault::in_words(why.to_string()) }
        }
        (Some(rustls::Error::InvalidCertificate(_)), Some(shown), Trust::Fingerprints(expected)) => {
            let expected: Vec<String> = expected.iter().map(Fingerprint::to_string).collect();
            Error::Identity { to, shown, expected: expected.join(" or "), remedy: String::new() }
        }
        (Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)), _, _) => {
            Error::Version { to, ours: wire::version::list(SPOKEN) }
        }
        (Some(other), _, _) => Error::NotANode { to, why: other.to_string() },
        (None, _, _) if source.kind() == io::ErrorKind::TimedOut => {
            Error::NotANode { to, why: "it accepts connections and says nothing".into() }
        }
        (None, _, _) => Error::NotANode { to, why: "it closed the connection during the handshake".into() },
    }
}

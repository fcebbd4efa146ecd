//! The identity of a node: its certificate, and how a client verifies it.
//!
//! A node's identity is its key pair; the fingerprint is the hash of the public half, so a renewed certificate over
//! the same key is the same node. A client accepts the node that its access key names, or the one pinned for that host
//! and port, or one that a given authority vouches for. Possession of the key is always proven: the handshake's
//! signature is verified in every mode.

use std::io;
use std::sync::Arc;

use auth::Fingerprint;
use auth::trust;
pub use auth::trust::{HTTP_BY_KEY_ALPN, SeenFingerprint, Trust, fingerprint, provider};
use model::HostPort;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, ClientConfig, ServerConfig};
use wire::version::{SPOKEN, Version};

use crate::error::Error;

/// A node's certificate chain and key.
pub struct NodeIdentity {
    /// End-entity certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// Random bytes for session names, keys and ids.
///
/// # Errors
/// The system gives no random numbers.
pub fn random<const N: usize>() -> Result<[u8; N], rustls::Error> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

/// A tag for the unfinished files of one attempt.
///
/// # Errors
/// The system gives no random numbers.
pub fn random_tag() -> Result<String, rustls::Error> {
    Ok(random::<6>()?.iter().map(|b| format!("{b:02x}")).collect())
}

/// The ALPN name that a node offers to HTTP clients, so that they get an answer instead of an alert.
pub const HTTP_ALPN: &[u8] = b"http/1.1";

/// The node's TLS configuration: version 1.3 only, the native protocol by ALPN.
///
/// # Errors
/// The key does not fit the certificate.
pub fn server_config(identity: &NodeIdentity) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = SPOKEN.iter().map(|v| v.alpn()).chain([HTTP_ALPN.to_vec()]).collect();
    // A session has one handshake: no ticket would be used.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The client's TLS configuration, and the slot in which its verifier stores the fingerprint that it has seen.
///
/// # Errors
/// The configuration cannot be made of the trusted authorities.
pub fn client_config(
    trust: &Trust,
    offered: &[Version],
) -> Result<(Arc<ClientConfig>, SeenFingerprint), rustls::Error> {
    trust::client_config(trust, offered.iter().map(|v| v.alpn()).collect())
}

/// The error that a failed handshake stands for.
pub(crate) fn handshake_error(error: Error, to: &HostPort, trust: &Trust, seen: &SeenFingerprint) -> Error {
    let to = to.to_string();
    let Error::Broken { source, .. } = &error else { return error };
    let tls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (tls, seen.get(), trust) {
        (Some(rustls::Error::InvalidCertificate(why)), _, Trust::Authorities(_)) => {
            Error::Certificate { to, why: model::fault::explain_library_message(why.to_string()) }
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

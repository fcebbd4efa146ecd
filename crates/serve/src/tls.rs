//! TLS: selects certificate and protocol for a client by its ClientHello.

mod bracketed;
mod clients;

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::x509::CertificateCheck;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::{Connection, ServerConfig};

/// The ALPN names of HTTP (RFC 7301), in order of preference.
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Largest unencrypted record (RFC 8446, section 5.1), bytes.
const RECORD_BYTES_MAX: usize = 1 << 14;

/// A certificate chain with its private key.
#[derive(Debug)]
pub struct Certificate {
    /// The chain: the server's certificate first, then its issuers.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

/// Verifies a certificate chain, the client's own certificate first.
pub type CheckOfChain = Arc<dyn Fn(&[CertificateDer<'_>]) -> CertificateCheck + Send + Sync>;

/// Verification of client certificates.
#[derive(Clone)]
pub struct ClientAuthorities {
    /// Requests certificates, and has the client prove that it holds the key. It refuses no certificate for its issuer.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// Verifies the chain that a client has shown.
    pub check: CheckOfChain,
}

/// A protocol other than HTTP that clients select by ALPN.
pub struct OtherProtocol {
    /// Whether an ALPN name is this protocol's.
    pub is_named: fn(&[u8]) -> bool,
    /// The TLS settings for its clients.
    pub settings: Arc<ServerConfig>,
}

/// TLS settings, by the protocol that a client asks for.
pub struct TlsSettings {
    http: Arc<ServerConfig>,
    /// The same without HTTP/2, for the time when no more connections of HTTP/2 are accepted.
    http_1: Arc<ServerConfig>,
    /// The same for clients that ask for no protocol by name.
    unnamed: Arc<ServerConfig>,
    /// The same for clients that name the server by an address in brackets.
    http_bracketed: Arc<ServerConfig>,
    /// The verification of client certificates, if any are requested.
    clients: Option<Arc<ClientAuthorities>>,
    /// HTTP/1.1 with another certificate, for clients that ask for this ALPN name.
    http_by_name: Option<(&'static [u8], Arc<ServerConfig>)>,
    other: Option<OtherProtocol>,
}

/// The protocol that a client has asked for.
pub(crate) enum Accepted {
    /// HTTP; the handshake selects the version.
    Http(Connection, Option<Arc<ClientAuthorities>>),
    /// The other protocol.
    Other(Connection),
}

fn settings(
    certificate: &Certificate,
    clients: Option<&Arc<ClientAuthorities>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, rustls::Error> {
    // TLS 1.2 as well: the clients of some sites support nothing newer.
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificate.chain.clone(), certificate.key.clone_key())?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    // The kernel may seal long answers (kernel_tls.rs).
    config.enable_secret_extraction = true;
    // Many clients open a connection for every file.
    config.send_tls13_tickets = 1;
    Ok(config)
}

impl TlsSettings {
    /// Settings for HTTP with this certificate. Client certificates are requested if authorities are given.
    ///
    /// # Errors
    /// The certificate and the key do not match.
    pub fn new(
        provider: &Arc<CryptoProvider>,
        certificate: &Certificate,
        authorities: Option<&ClientAuthorities>,
    ) -> Result<TlsSettings, rustls::Error> {
        let clients = authorities.cloned().map(Arc::new);
        let http = Arc::new(settings(certificate, clients.as_ref(), Arc::clone(provider))?);
        let mut http_1 = ServerConfig::clone(&http);
        http_1.alpn_protocols = vec![HTTP_1_1.to_vec()];
        let mut unnamed = ServerConfig::clone(&http);
        unnamed.alpn_protocols.clear();
        let mut http_bracketed = settings(certificate, clients.as_ref(), bracketed::provider(provider))?;
        http_bracketed.alpn_protocols = vec![HTTP_1_1.to_vec()];
        // A resumed session would be bound to a hash of a truncated ClientHello, which is not rewritten.
        http_bracketed.send_tls13_tickets = 0;
        http_bracketed.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(TlsSettings {
            http,
            http_1: Arc::new(http_1),
            unnamed: Arc::new(unnamed),
            http_bracketed: Arc::new(http_bracketed),
            clients,
            http_by_name: None,
            other: None,
        })
    }

    /// Adds HTTP/1.1 with another certificate, for clients that ask for it by this ALPN name.
    ///
    /// # Errors
    /// The certificate and the key do not match.
    pub fn with_http_by_name(
        mut self,
        provider: &Arc<CryptoProvider>,
        name: &'static [u8],
        certificate: &Certificate,
    ) -> Result<TlsSettings, rustls::Error> {
        let mut config = settings(certificate, None, Arc::clone(provider))?;
        config.alpn_protocols = vec![name.to_vec()];
        self.http_by_name = Some((name, Arc::new(config)));
        Ok(self)
    }

    /// Adds another protocol, for clients that ask for it.
    #[must_use]
    pub fn with_other_protocol(self, other: OtherProtocol) -> TlsSettings {
        TlsSettings { other: Some(other), ..self }
    }

    /// The settings of HTTP without its names, for a protocol that begins TLS itself.
    pub(crate) fn without_names(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.unnamed)
    }

    /// Reads the ClientHello; the caller finishes the handshake. Without room for HTTP/2 it is not offered, and a client that speaks
    /// nothing else gets an alert.
    ///
    /// # Errors
    /// The connection breaks, the time is up, or the ClientHello is refused.
    pub(crate) fn accept(&self, socket: &TcpStream, within: Duration, h2: bool) -> io::Result<Accepted> {
        let deadline = Instant::now() + within;
        let mut acceptor = Acceptor::default();
        let refused = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let mut record = read_record(socket, deadline)?;
            let is_bracketed = bracketed::rewrite_name(&mut record);
            let mut unread = &record[..];
            while !unread.is_empty() {
                acceptor.read_tls(&mut unread)?;
            }
            let accepted = acceptor.accept().map_err(|(error, mut alert)| {
                let _ = alert.write(&mut &*socket);
                refused(error)
            })?;
            let Some(accepted) = accepted else { continue };
            let offers = |wanted: &dyn Fn(&[u8]) -> bool| {
                accepted.client_hello().alpn().is_some_and(|mut offered| offered.any(wanted))
            };
            let other = self.other.as_ref().filter(|other| offers(&other.is_named));
            let by_name = self.http_by_name.as_ref().filter(|(wanted, _)| offers(&|name| name == *wanted));
            let config = match (other, by_name) {
                (Some(other), _) => &other.settings,
                _ if is_bracketed => &self.http_bracketed,
                (_, Some((_, config))) => config,
                _ if h2 => &self.http,
                _ => &self.http_1,
            };
            let is_other = other.is_some();
            let tls = accepted.into_connection(Arc::clone(config)).map_err(|(error, mut alert)| {
                let _ = alert.write(&mut &*socket);
                refused(error)
            })?;
            socket.set_read_timeout(None)?;
            let tls = Connection::Server(tls);
            return Ok(if is_other { Accepted::Other(tls) } else { Accepted::Http(tls, self.clients.clone()) });
        }
    }
}

/// Reads a TLS record. Of bytes that are not TLS it reads no more than a record's head.
fn read_record(socket: &TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut record = vec![0; bracketed::RECORD_HEAD_BYTES];
    sys::tcp::read_exact_by(socket, &mut record, deadline)?;
    let payload = usize::from(u16::from_be_bytes([record[3], record[4]]));
    if payload <= RECORD_BYTES_MAX {
        record.resize(bracketed::RECORD_HEAD_BYTES + payload, 0);
        sys::tcp::read_exact_by(socket, &mut record[bracketed::RECORD_HEAD_BYTES..], deadline)?;
    }
    Ok(record)
}

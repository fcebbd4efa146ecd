//! TLS: which certificate a client is shown, and which protocol it came for, by its first words.

mod bracketed;
mod clients;

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::{Connection, RootCertStore, ServerConfig};

pub(crate) use self::clients::ClientVerifier;

/// HTTP's names in TLS (RFC 7301), what we would rather speak first.
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Bytes of a record that is not encrypted (RFC 8446, section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;

/// A certificate with the key to it.
#[derive(Debug)]
pub struct Certificate {
    /// The server's own first, then those that vouch for it.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// Who vouches for certificates of clients, and how the name in one is written; none where no rule could be about it.
#[derive(Clone, Debug)]
pub struct ClientAuthorities {
    /// The authorities.
    pub roots: Arc<RootCertStore>,
    /// From a certificate in DER to its subject's name.
    pub name: fn(&[u8]) -> Option<String>,
}

/// A protocol that clients ask for by a name in TLS (ALPN) other than HTTP's.
pub struct OtherProtocol {
    /// Whether a name is this protocol's.
    pub is_named: fn(&[u8]) -> bool,
    /// What its clients are shown.
    pub settings: Arc<ServerConfig>,
}

/// What clients are shown, by what they came for.
pub struct TlsSettings {
    http: Arc<ServerConfig>,
    /// The same while no more connections of HTTP/2 are wanted.
    http_1: Arc<ServerConfig>,
    /// The same for clients that name the server by an address in brackets.
    http_bracketed: Arc<ServerConfig>,
    /// Who judges certificates of clients, where any are asked for.
    clients: Option<Arc<ClientVerifier>>,
    /// HTTP/1.1 under another certificate, for those who ask for it by this name.
    http_by_name: Option<(&'static [u8], Arc<ServerConfig>)>,
    other: Option<OtherProtocol>,
}

/// What a client turned out to speak.
pub(crate) enum Accepted {
    /// HTTP, of a version that its TLS will say.
    Http(Connection, Option<Arc<ClientVerifier>>),
    /// The other protocol.
    Other(Connection),
}

fn settings(
    certificate: &Certificate,
    clients: Option<&Arc<ClientVerifier>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, rustls::Error> {
    // TLS 1.2 as well: there are sites whose clients know nothing newer.
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients) as Arc<dyn ClientCertVerifier>),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(certificate.chain.clone(), certificate.key.clone_key())?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    // Many clients open a connection for every file.
    config.send_tls13_tickets = 1;
    Ok(config)
}

impl TlsSettings {
    /// HTTP under this certificate; certificates of clients are asked for where authorities are given.
    ///
    /// # Errors
    /// The certificate and the key do not fit, or the authorities are none.
    pub fn new(
        provider: &Arc<CryptoProvider>,
        certificate: &Certificate,
        authorities: Option<&ClientAuthorities>,
    ) -> Result<TlsSettings, rustls::Error> {
        let clients = authorities.map(|known| ClientVerifier::new(known, provider)).transpose()?.map(Arc::new);
        let http = Arc::new(settings(certificate, clients.as_ref(), Arc::clone(provider))?);
        let mut http_1 = ServerConfig::clone(&http);
        http_1.alpn_protocols = vec![HTTP_1_1.to_vec()];
        let mut http_bracketed = settings(certificate, clients.as_ref(), bracketed::provider(provider))?;
        http_bracketed.alpn_protocols = vec![HTTP_1_1.to_vec()];
        // A session that goes on would be bound to a hash of the beginning of another ClientHello.
        http_bracketed.send_tls13_tickets = 0;
        http_bracketed.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(TlsSettings {
            http,
            http_1: Arc::new(http_1),
            http_bracketed: Arc::new(http_bracketed),
            clients,
            http_by_name: None,
            other: None,
        })
    }

    /// The same, and HTTP/1.1 under another certificate for clients that ask for it by this name.
    ///
    /// # Errors
    /// The certificate and the key do not fit.
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

    /// The same, and another protocol for clients that ask for it.
    #[must_use]
    pub fn with_other_protocol(self, other: OtherProtocol) -> TlsSettings {
        TlsSettings { other: Some(other), ..self }
    }

    /// Reads a client's first words; the rest of the handshake is the caller's. HTTP/2 may be what it is not to speak now;
    /// a client that speaks nothing else gets an alert.
    pub(crate) fn accept(&self, socket: &TcpStream, within: Duration, h2: bool) -> io::Result<Accepted> {
        let deadline = Instant::now() + within;
        let mut acceptor = Acceptor::default();
        let refused = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let mut record = read_record(socket, deadline)?;
            let is_bracketed = bracketed::spell(&mut record);
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

/// A record of TLS, or as much of what is none as shows that it is none.
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

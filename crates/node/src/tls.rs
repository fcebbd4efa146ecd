//! TLS at the door: the client's first words say whether it is one of ours, who know the node by its key, or one of HTTP,
//! who know it by the certificate of its site.

mod bracketed;
mod clients;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::policy::DistinguishedName;
use engine::NodeIdentity;
use engine::identity::HTTP_BY_KEY_ALPN;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::{Connection, RootCertStore, ServerConfig};
use wire::version::Version;

use self::clients::Clients;

/// HTTP's names in TLS (RFC 7301), what we would rather speak first.
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Bytes of a record that is not encrypted (RFC 8446, section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;

/// A site's certificate, for those who know the node by a name.
#[derive(Debug)]
pub struct SiteCertificate {
    /// The node's own first, then those that vouch for it.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// The two faces of a node.
pub(crate) struct Faces {
    native: Arc<ServerConfig>,
    site: Arc<ServerConfig>,
    /// The same while no more connections of HTTP/2 are wanted.
    site_http_1: Arc<ServerConfig>,
    /// The same for clients that name the node by an address in brackets.
    site_bracketed: Arc<ServerConfig>,
    /// Who judges certificates of clients, where any are asked for.
    clients: Option<Arc<Clients>>,
    /// HTTP under the node's own key.
    by_key: Arc<ServerConfig>,
}

/// What a client turned out to speak.
pub(crate) enum Guest {
    /// The native protocol.
    Native(Connection),
    /// HTTP, of a version that its TLS will say.
    Http(Connection, Option<Arc<Clients>>),
}

fn site(
    identity: &NodeIdentity,
    certificate: Option<&SiteCertificate>,
    clients: Option<&Arc<Clients>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, rustls::Error> {
    // TLS 1.2 as well: there are sites whose clients know nothing newer.
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients) as Arc<dyn ClientCertVerifier>),
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = certificate
        .map_or_else(|| (&identity.chain, &identity.key), |certificate| (&certificate.chain, &certificate.key));
    let mut config = builder.with_single_cert(chain.clone(), key.clone_key())?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    // Many clients open a connection for every file.
    config.send_tls13_tickets = 1;
    Ok(config)
}

impl Faces {
    /// By the node's identity; for HTTP by the site's certificate where there is one, and asking for certificates that
    /// these authorities vouch for.
    pub fn new(
        identity: &NodeIdentity,
        certificate: Option<&SiteCertificate>,
        clients: Option<&Arc<RootCertStore>>,
    ) -> Result<Faces, rustls::Error> {
        let provider = engine::identity::provider();
        let clients = clients.map(Clients::of).transpose()?.map(Arc::new);
        let site = Arc::new(site(identity, certificate, clients.as_ref(), Arc::clone(&provider))?);
        let mut site_http_1 = ServerConfig::clone(&site);
        site_http_1.alpn_protocols = vec![HTTP_1_1.to_vec()];
        let site_http_1 = Arc::new(site_http_1);
        let mut site_bracketed = self::site(identity, certificate, clients.as_ref(), bracketed::provider(&provider))?;
        site_bracketed.alpn_protocols = vec![HTTP_1_1.to_vec()];
        // A session that goes on would be bound to a hash of the beginning of another ClientHello.
        site_bracketed.send_tls13_tickets = 0;
        site_bracketed.session_storage = Arc::new(NoServerSessionStorage {});
        let site_bracketed = Arc::new(site_bracketed);
        let mut by_key = self::site(identity, None, None, provider)?;
        by_key.alpn_protocols = vec![HTTP_BY_KEY_ALPN.to_vec()];
        let native = engine::identity::server_config(identity)?;
        Ok(Faces { native, site, site_http_1, site_bracketed, clients, by_key: Arc::new(by_key) })
    }

    /// Reads a client's first words; the rest of the handshake is the caller's. HTTP/2 may be what it is not to speak now;
    /// a client that speaks nothing else gets an alert.
    pub fn meet(&self, socket: &TcpStream, within: Duration, h2: bool) -> io::Result<Guest> {
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
            let native = offers(&|name| Version::from_alpn(name).is_some());
            let config = match (native, h2) {
                (true, _) => &self.native,
                _ if is_bracketed => &self.site_bracketed,
                _ if offers(&|name| name == HTTP_BY_KEY_ALPN) => &self.by_key,
                (false, true) => &self.site,
                (false, false) => &self.site_http_1,
            };
            let tls = accepted.into_connection(Arc::clone(config)).map_err(|(error, mut alert)| {
                let _ = alert.write(&mut &*socket);
                refused(error)
            })?;
            socket.set_read_timeout(None)?;
            let tls = Connection::Server(tls);
            return Ok(if native { Guest::Native(tls) } else { Guest::Http(tls, self.clients.clone()) });
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

/// The name that a client's certificate gives it, as far as it counts.
pub(crate) fn client_name(tls: &Connection, clients: Option<&Clients>, peer: SocketAddr) -> Option<String> {
    clients?.name(tls, peer)
}

/// A certificate's name. One with several attributes in one part, with a value that is not text, or with no part at all has
/// none that a rule could be about.
fn name_of(certificate: &[u8]) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let parts: Option<Vec<(String, String)>> = parsed.subject().iter().map(relative).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    let name = DistinguishedName::from_root(parts.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Some(name.rfc4514())
}

/// The one attribute of a part: a short name or numbers with dots, and its value.
fn relative(part: &x509_parser::x509::RelativeDistinguishedName<'_>) -> Option<(String, String)> {
    let mut attributes = part.iter();
    let (attribute, None) = (attributes.next()?, attributes.next()) else { return None };
    let oid = attribute.attr_type();
    let known = x509_parser::objects::oid2abbrev(oid, x509_parser::objects::oid_registry()).map(str::to_owned);
    Some((known.unwrap_or_else(|_| oid.to_id_string()), attribute.as_str().ok()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName as Names, DnType, KeyPair};

    #[test]
    fn a_name_is_what_the_policy_reads() {
        let mut params = CertificateParams::default();
        params.distinguished_name = Names::new();
        params.distinguished_name.push(DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]), "org");
        params.distinguished_name.push(DnType::OrganizationName, "A, B+C");
        params.distinguished_name.push(DnType::CommonName, "Robot/CN=x");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let name = name_of(certificate.der()).unwrap();
        assert_eq!(name, "CN=Robot/CN\\=x,O=A\\, B\\+C,DC=org");
        assert_eq!(DistinguishedName::parse(&name).unwrap().rfc4514(), name);
        let mut nameless = CertificateParams::default();
        nameless.distinguished_name = Names::new();
        assert_eq!(name_of(nameless.self_signed(&KeyPair::generate().unwrap()).unwrap().der()), None);
    }
}

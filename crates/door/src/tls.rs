//! TLS at the door: the client's first words say whether it is one of ours, who know the node by its key, or one of HTTP,
//! who know it by the certificate of its site.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::NodeIdentity;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{Acceptor, WebPkiClientVerifier};
use rustls::{Connection, RootCertStore, ServerConfig};
use wire::version::Version;

/// HTTP's names in TLS (RFC 7301), what we would rather speak first.
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

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
}

/// What a client turned out to speak.
pub(crate) enum Guest {
    /// The native protocol.
    Native(Connection),
    /// HTTP, of a version that its TLS will say.
    Http(Connection),
}

fn site(
    identity: &NodeIdentity,
    certificate: Option<&SiteCertificate>,
    clients: Option<&Arc<RootCertStore>>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = engine::identity::provider();
    // TLS 1.2 as well: there are sites whose clients know nothing newer.
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider);
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|e| rustls::Error::General(e.to_string()))?)
        }
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
        let site = Arc::new(site(identity, certificate, clients)?);
        let mut site_http_1 = ServerConfig::clone(&site);
        site_http_1.alpn_protocols = vec![HTTP_1_1.to_vec()];
        let site_http_1 = Arc::new(site_http_1);
        Ok(Faces { native: engine::identity::server_config(identity)?, site, site_http_1 })
    }

    /// Reads a client's first words; the rest of the handshake is the caller's. HTTP/2 may be what it is not to speak now;
    /// a client that speaks nothing else gets an alert.
    pub fn meet(&self, socket: &TcpStream, within: Duration, h2: bool) -> io::Result<Guest> {
        let deadline = Instant::now() + within;
        let mut acceptor = Acceptor::default();
        let refused = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            if acceptor.read_tls(&mut &*socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
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
                (false, true) => &self.site,
                (false, false) => &self.site_http_1,
            };
            let tls = accepted.into_connection(Arc::clone(config)).map_err(|(error, mut alert)| {
                let _ = alert.write(&mut &*socket);
                refused(error)
            })?;
            socket.set_read_timeout(None)?;
            let tls = Connection::Server(tls);
            return Ok(if native { Guest::Native(tls) } else { Guest::Http(tls) });
        }
    }
}

/// The name in the certificate that a client has shown, proved and had vouched for, as RFC 4514 writes names.
pub(crate) fn client_name(tls: &Connection) -> Option<String> {
    let certificate = tls.peer_certificates()?.first()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names: Option<Vec<String>> = parsed.subject().iter().map(relative).collect();
    let mut names = names?;
    // The last one first (RFC 4514, section 2.1).
    names.reverse();
    Some(names.join(","))
}

/// One part of a name. A part with an attribute that is not text has no such form, and so no rights.
fn relative(part: &x509_parser::x509::RelativeDistinguishedName<'_>) -> Option<String> {
    let registry = x509_parser::objects::oid_registry();
    let each = part.iter().map(|attribute| {
        let oid = attribute.attr_type();
        let known = x509_parser::objects::oid2abbrev(oid, registry).map(str::to_owned);
        let name = known.unwrap_or_else(|_| oid.to_id_string());
        Some(format!("{name}={}", escaped(attribute.as_str().ok()?)))
    });
    let each: Option<Vec<String>> = each.collect();
    Some(each?.join("+"))
}

/// A value as RFC 4514, section 2.4, has it.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        let edge = (at == 0 && matches!(c, ' ' | '#')) || (c == ' ' && at + 1 == value.len());
        if edge || matches!(c, '"' | '+' | ',' | ';' | '<' | '>' | '\\') {
            out.push('\\');
        }
        if c == '\0' { out.push_str("\\00") } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_pretend_to_be_more_than_one_part() {
        assert_eq!(escaped("a,CN=b"), "a\\,CN=b");
        assert_eq!(escaped(" #x "), "\\ #x\\ ");
        assert_eq!(escaped("#x"), "\\#x");
        assert_eq!(escaped("é+\\"), "é\\+\\\\");
    }
}

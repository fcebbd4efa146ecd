//! Requests to the servers of described endpoints, over HTTP and with the hub's own keys: for files of the catalogue, folders in the
//! portal, and tape.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use auth::client_certificate::http_client_config;
use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config};
use auth::{AccessKey, Fingerprint};
use model::RelPath;
use model::v1::hub::{Endpoint, EndpointKind};
use remote::{Dav, Redirects, ServerSettings};
use rustls::{ClientConfig, RootCertStore};
use web::client::Guard;
use web::{Dialer, HttpUrl};

use crate::tape::TapeServer;
use crate::topology::Topology;

/// How long it may take to connect.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may be silent.
pub const SILENCE: Duration = Duration::from_secs(30);
/// For how long a request is retried.
const PATIENCE: Duration = Duration::from_secs(20);

/// The TLS settings for servers and nodes.
pub struct Servers {
    authorities: Arc<RootCertStore>,
    /// The settings for servers that are not nodes.
    tls: Arc<ClientConfig>,
}

impl Servers {
    /// Verifies servers by these authorities, and also nodes whose keys the hub does not know.
    ///
    /// # Errors
    /// The authorities cannot be used for TLS.
    pub fn new(authorities: Arc<RootCertStore>) -> Result<Servers, rustls::Error> {
        let tls = http_client_config(Arc::clone(&authorities), None)?;
        Ok(Servers { authorities, tls })
    }

    /// The TLS settings for servers that are not nodes.
    pub fn tls(&self) -> &Arc<ClientConfig> {
        &self.tls
    }

    /// The same settings with a client certificate.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn tls_with(
        &self,
        certificate: auth::client_certificate::ClientCertificate,
    ) -> Result<Arc<ClientConfig>, String> {
        http_client_config(Arc::clone(&self.authorities), Some(certificate)).map_err(|error| error.to_string())
    }

    /// A dialer for servers that an operator has named.
    pub fn dialer(&self) -> Dialer {
        dialer(Arc::clone(&self.tls))
    }

    /// The TLS settings for a node: it is verified by its key, if that is described.
    ///
    /// # Errors
    /// Its key cannot be read.
    pub fn trust(&self, endpoint: &Endpoint) -> Result<Arc<ClientConfig>, String> {
        let trust = match fingerprint(endpoint)? {
            Some(node) => Trust::Fingerprints(vec![node]),
            None => Trust::Authorities(Arc::clone(&self.authorities)),
        };
        let alpn = match trust {
            Trust::Fingerprints(_) => HTTP_BY_KEY_ALPN.to_vec(),
            Trust::Authorities(_) => b"http/1.1".to_vec(),
        };
        Ok(client_config(&trust, vec![alpn]).map_err(|error| error.to_string())?.0)
    }

    /// The server of a file of a described endpoint, and the path of the file there.
    ///
    /// # Errors
    /// The description lacks something, or the hub does not support this kind of server.
    pub fn file(&self, topology: &Topology, endpoint: &str, url: &str) -> Result<(Dav, RelPath), String> {
        let HttpAccess { address, dialer, key } = self.http_access(topology, endpoint, url)?;
        let target = web::target::parse(address.path()).map_err(|error| error.to_string())?;
        let settings = ServerSettings {
            dialer,
            token: Arc::new(move || Ok(key.clone())),
            redirects: Redirects::SameKind,
            patience: PATIENCE,
        };
        Ok((Dav::new(settings, &address, RelPath::root()), target.path))
    }

    /// A signed link to a file of a described endpoint: its server makes a macaroon for one activity with this file, which expires after a
    /// time.
    ///
    /// # Errors
    /// The server cannot be reached, or does not sign links.
    pub fn signed_link(
        &self,
        topology: &Topology,
        endpoint: &str,
        url: &str,
        activity: &str,
        expires_in: Duration,
    ) -> Result<String, String> {
        let HttpAccess { address, dialer, key } = self.http_access(topology, endpoint, url)?;
        let macaroon = web::post::for_macaroon(&dialer, address.as_str(), key.as_deref(), activity, expires_in);
        let macaroon = macaroon.map_err(|error| {
            format!("its server signs no link to it: {error}; a node does where its access.toml has [macaroons]")
        })?;
        let web = topology.described_endpoint(endpoint).and_then(|described| described.web.as_deref());
        let at = match web {
            Some(web) => format!("{}{}", web.trim_end_matches('/'), address.path_and_query()),
            None => address.as_str().to_owned(),
        };
        let join = if at.contains('?') { '&' } else { '?' };
        Ok(format!("{at}{join}authz={}", web::target::encode(macaroon.as_bytes())))
    }

    /// The API of a node that is described as an endpoint.
    ///
    /// # Errors
    /// The endpoint is not a node, or its description does not say where its API is.
    pub fn node(&self, topology: &Topology, endpoint: &str) -> Result<nodeapi::Api, String> {
        let described = topology.described_endpoint(endpoint).ok_or_else(|| format!("{endpoint} is not described"))?;
        if described.kind != EndpointKind::Node {
            return Err(format!("{endpoint} is not a node"));
        }
        let url = described.urls.first().map(String::as_str).unwrap_or_default();
        let at = described.api.clone().or_else(|| origin(url));
        let at = at.ok_or_else(|| format!("{endpoint} has no URL of a node: lh://HOST[:PORT]/"))?;
        let at = HttpUrl::parse(&at).map_err(|error| format!("the API of {endpoint}: {error}"))?;
        let bearer = described.key.as_ref().map(|key| format!("Bearer {key}"));
        Ok(nodeapi::Api::new(dialer(self.trust(described)?), at, bearer.as_deref()))
    }

    /// The tape API of a described endpoint.
    ///
    /// # Errors
    /// The description lacks something, or the hub does not support this kind of server.
    pub fn tape_server(&self, topology: &Topology, endpoint: &str) -> Result<TapeServer, String> {
        let described = topology.described_endpoint(endpoint);
        let url = described.and_then(|it| it.urls.first()).ok_or_else(|| format!("{endpoint} is not described"))?;
        let HttpAccess { address, dialer, key } = self.http_access(topology, endpoint, url)?;
        Ok(TapeServer::new(dialer, address, key.as_deref()))
    }

    /// The HTTP URL, the TLS settings and the key for a URL of a described endpoint.
    fn http_access(&self, topology: &Topology, endpoint: &str, url: &str) -> Result<HttpAccess, String> {
        let described = topology.described_endpoint(endpoint).ok_or_else(|| format!("{endpoint} is not described"))?;
        let (address, tls) = match described.kind {
            EndpointKind::S3 => return Err("the hub does not speak to S3 servers by itself".to_owned()),
            EndpointKind::Webdav => (url.replacen("davs://", "https://", 1), Arc::clone(&self.tls)),
            EndpointKind::Node => {
                let server = origin(url).ok_or_else(|| format!("{url} is no URL of a node: lh://HOST[:PORT]/"))?;
                let path = url.strip_prefix("lh://").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
                (format!("{server}{}", path.unwrap_or("/")), self.trust(described)?)
            }
        };
        let address = HttpUrl::parse(&address).map_err(|error| error.to_string())?;
        Ok(HttpAccess { address, dialer: dialer(tls), key: described.key.clone() })
    }
}

/// How a URL is requested over HTTP.
struct HttpAccess {
    address: HttpUrl,
    dialer: Dialer,
    /// The key that is sent to the server.
    key: Option<String>,
}

/// A dialer without a check of addresses: whoever may describe an endpoint may have the hub connect anywhere.
fn dialer(tls: Arc<ClientConfig>) -> Dialer {
    let guard: Arc<Guard> = Arc::new(|_| Ok(()));
    Dialer { tls, guard, prepare: None, connect: CONNECT, silence: SILENCE }
}

/// The fingerprint of a node: as described, or from its key.
///
/// # Errors
/// The described fingerprint cannot be read.
pub fn fingerprint(endpoint: &Endpoint) -> Result<Option<Fingerprint>, String> {
    if let Some(fingerprint) = &endpoint.node {
        return fingerprint.parse().map(Some).map_err(|error: auth::key::KeyError| error.to_string());
    }
    let Some(key) = &endpoint.key else { return Ok(None) };
    Ok(key.parse::<AccessKey>().ok().map(|key| key.node))
}

/// `https://HOST:PORT` of `lh://HOST[:PORT]/…`.
pub fn origin(url: &str) -> Option<String> {
    let rest = url.strip_prefix("lh://")?;
    let authority = rest.split('/').next().filter(|authority| !authority.is_empty())?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.ends_with(']'));
    Some(if has_port { format!("https://{authority}") } else { format!("https://{authority}:{}", model::DEFAULT_PORT) })
}

/// The origins of all described servers to which browsers can connect.
pub fn origins(topology: &Topology) -> BTreeSet<String> {
    let all = topology.described.endpoints.values();
    let urls = all.flat_map(|endpoint| endpoint.web.as_ref().map_or(endpoint.urls.as_slice(), std::slice::from_ref));
    let origin_of = |url: &String| {
        let schemes = [("https://", "https"), ("davs://", "https"), ("http://", "http")];
        let (scheme, rest) = schemes.iter().find_map(|(start, scheme)| Some((scheme, url.strip_prefix(start)?)))?;
        let authority = rest.split('/').next().filter(|authority| !authority.contains('@'))?;
        Some(format!("{scheme}://{authority}"))
    };
    let origin_of = |url: &String| origin(url).or_else(|| origin_of(url));
    // The origins go into a header: anything other than a scheme, a host and a port is left out.
    let is_plain = |origin: &String| origin.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:/[]".contains(&b));
    urls.filter_map(origin_of).filter(is_plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_node_has_a_port() {
        assert_eq!(origin("lh://h/").as_deref(), Some("https://h:7411"));
        assert_eq!(origin("lh://h:99/e").as_deref(), Some("https://h:99"));
        assert_eq!(origin("lh://[::1]:99").as_deref(), Some("https://[::1]:99"));
        assert_eq!(origin("lh://[::1]").as_deref(), Some("https://[::1]:7411"));
        assert_eq!(origin("https://h"), None);
    }
}

//! How this node reaches other servers on behalf of its guests: whom it trusts there, and where it does not go.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use web::client::Guard;

/// The means of reaching other servers.
pub(crate) struct Dialling {
    pub tls: Arc<ClientConfig>,
    pub guard: Arc<Guard>,
}

/// Whether an address means this host, or its own link, whoever asks.
fn is_local(address: &SocketAddr) -> bool {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

impl Dialling {
    /// With these authorities; to this host itself only where the node listens there and nowhere else.
    pub fn new(authorities: Option<Arc<RootCertStore>>, on_loopback: bool) -> Result<Dialling, rustls::Error> {
        let roots = authorities.unwrap_or_else(|| Arc::new(RootCertStore::empty()));
        let builder = ClientConfig::builder_with_provider(engine::identity::provider());
        let mut tls =
            builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let guard = move |address: &SocketAddr| match is_local(address) && !on_loopback {
            true => {
                Err("it is a loopback or link-local address, to which this node copies nothing for others".to_owned())
            }
            false => Ok(()),
        };
        Ok(Dialling { tls: Arc::new(tls), guard: Arc::new(guard) })
    }
}

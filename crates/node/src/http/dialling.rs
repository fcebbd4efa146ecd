//! How this node reaches other servers on behalf of its guests: whom it trusts there, and where it does not go.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use web::client::Guard;

use crate::host::Exports;

/// The means of reaching other servers.
pub(crate) struct Dialling {
    pub tls: Arc<ClientConfig>,
    pub guard: Arc<Guard>,
}

impl Dialling {
    /// With these authorities; where the policy lets it go, and to this host's loopback addresses where the node listens there
    /// alone.
    pub fn new(
        host: &Arc<Exports>,
        authorities: Option<Arc<RootCertStore>>,
        on_loopback: bool,
    ) -> Result<Dialling, rustls::Error> {
        let roots = authorities.unwrap_or_else(|| Arc::new(RootCertStore::empty()));
        let builder = ClientConfig::builder_with_provider(engine::identity::provider());
        let mut tls =
            builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let host = Arc::clone(host);
        let guard = move |address: &SocketAddr| host.may_dial(address.ip(), on_loopback);
        Ok(Dialling { tls: Arc::new(tls), guard: Arc::new(guard) })
    }
}

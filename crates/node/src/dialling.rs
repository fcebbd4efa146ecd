//! How this node reaches other servers on behalf of its guests: whom it trusts there, and where it does not go.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use web::client::Guard;

use crate::access::AccessControl;

/// The means of reaching other servers.
pub(crate) struct Dialling {
    pub tls: Arc<ClientConfig>,
    pub guard: Arc<Guard>,
}

impl Dialling {
    /// With these authorities; where the policy lets it go, and to this host's loopback addresses where the node listens there
    /// alone.
    pub fn new(
        access: &Arc<AccessControl>,
        authorities: Option<Arc<RootCertStore>>,
        on_loopback: bool,
    ) -> Result<Dialling, rustls::Error> {
        let roots = authorities.unwrap_or_else(|| Arc::new(RootCertStore::empty()));
        let tls = client::remote_store::tls(roots)?;
        let access = Arc::clone(access);
        let guard = move |address: &SocketAddr| access.may_dial(address.ip(), on_loopback);
        Ok(Dialling { tls, guard: Arc::new(guard) })
    }
}

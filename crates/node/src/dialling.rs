//! How this node reaches other servers on behalf of its guests: whom it trusts there, and where it does not go.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::client_certificate::{ClientCertificate, http_client_config};
use rustls::{ClientConfig, RootCertStore};
use web::client::Guard;

use crate::access::AccessControl;

/// The means of reaching other servers.
pub(crate) struct Dialling {
    pub tls: Arc<ClientConfig>,
    pub guard: Arc<Guard>,
    authorities: Arc<RootCertStore>,
}

impl Dialling {
    /// With these authorities; where the policy lets it go, and to this host's loopback addresses where the node listens there
    /// alone.
    pub fn new(
        access: &Arc<AccessControl>,
        authorities: Option<Arc<RootCertStore>>,
        on_loopback: bool,
    ) -> Result<Dialling, rustls::Error> {
        let authorities = authorities.unwrap_or_else(|| Arc::new(RootCertStore::empty()));
        let tls = http_client_config(Arc::clone(&authorities), None)?;
        let access = Arc::clone(access);
        let guard = move |address: &SocketAddr| access.may_dial(address.ip(), on_loopback);
        Ok(Dialling { tls, guard: Arc::new(guard), authorities })
    }

    /// TLS in the name of a guest who gave a certificate; the node's own, which shows none, where there is none.
    pub fn tls_with(&self, certificate: Option<ClientCertificate>) -> Result<Arc<ClientConfig>, rustls::Error> {
        match certificate {
            None => Ok(Arc::clone(&self.tls)),
            certificate => http_client_config(Arc::clone(&self.authorities), certificate),
        }
    }
}

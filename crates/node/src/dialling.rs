//! Connections to other servers on behalf of clients: the authorities that are trusted, and the addresses that are not dialled.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::client_certificate::{ClientCertificate, http_client_config};
use rustls::{ClientConfig, RootCertStore};
use web::client::Guard;

use crate::access::AccessControl;

/// TLS settings and address check for connections to other servers.
pub(crate) struct Dialling {
    pub tls: Arc<ClientConfig>,
    pub guard: Arc<Guard>,
    authorities: Arc<RootCertStore>,
}

impl Dialling {
    /// Trusts these authorities, and dials the addresses that the policy allows. `on_loopback` allows this host's loopback
    /// addresses, for a node that listens only there.
    ///
    /// # Errors
    /// The TLS settings are not valid.
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

    /// TLS settings with a client's certificate; without one the node's own settings, which present no certificate.
    ///
    /// # Errors
    /// The certificate or its key cannot be used.
    pub fn tls_with(&self, certificate: Option<ClientCertificate>) -> Result<Arc<ClientConfig>, rustls::Error> {
        match certificate {
            None => Ok(Arc::clone(&self.tls)),
            certificate => http_client_config(Arc::clone(&self.authorities), certificate),
        }
    }
}

//! Client certificates. The owner of the server provides their verification ([`ClientAuthorities`]). The handshake goes on with a
//! client whose certificate is not accepted (RFC 8446, section 4.4.2.4): the client may have another credential, and an answer can say
//! what is wrong with this one.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::x509::CertificateCheck;
use rustls::Connection;

use super::ClientAuthorities;

impl ClientAuthorities {
    /// The result of verifying the certificates of a client, if it has shown any.
    pub(crate) fn check_of(&self, tls: &Connection, peer: SocketAddr) -> Option<Arc<CertificateCheck>> {
        let shown = tls.peer_certificates().filter(|shown| !shown.is_empty())?;
        let check = (self.check)(shown);
        match &check {
            CertificateCheck::Rejected(why) => {
                tracing::info!(target: "access", %peer, why, "the client's certificate is not accepted");
            }
            CertificateCheck::Verified(identity) => {
                for why in &identity.refused_attributes {
                    tracing::info!(target: "access", %peer, name = identity.grid_name, why, "VOMS attributes are ignored");
                }
            }
        }
        Some(Arc::new(check))
    }
}

//! Client certificates. The owner of the server provides their verification ([`ClientAuthorities`]). A client whose certificate is not
//! accepted stays unauthenticated and the handshake goes on (RFC 8446, section 4.4.2.4): the client may have another credential.

use std::net::SocketAddr;

use rustls::Connection;

use super::ClientAuthorities;

impl ClientAuthorities {
    /// The name of the holder of a client's certificate chain, if the chain is accepted.
    pub(crate) fn name_of(&self, tls: &Connection, peer: SocketAddr) -> Option<String> {
        let shown = tls.peer_certificates().filter(|shown| !shown.is_empty())?;
        match (self.name)(shown) {
            Ok(name) => Some(name),
            Err(why) => {
                tracing::info!(target: "access", %peer, why, "the client's certificate is not accepted; the client stays unauthenticated");
                None
            }
        }
    }
}

//! Certificates of clients. Whoever starts the server says what proves that a client holds the key of one, and what it is worth. With one that
//! is worth nothing the client stays unauthenticated and the handshake goes on (RFC 8446, section 4.4.2.4): another credential may be good.

use std::net::SocketAddr;

use rustls::Connection;

use super::ClientAuthorities;

impl ClientAuthorities {
    /// The name of the holder of the certificates that a client has shown and proved, if they count.
    pub(crate) fn name_of(&self, tls: &Connection, peer: SocketAddr) -> Option<String> {
        let shown = tls.peer_certificates().filter(|shown| !shown.is_empty())?;
        match (self.name)(shown) {
            Ok(name) => Some(name),
            Err(why) => {
                tracing::info!(target: "access", %peer, why, "a certificate does not count: the client goes on without");
                None
            }
        }
    }
}

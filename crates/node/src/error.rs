//! Why a node cannot start.

use std::io;
use std::net::SocketAddr;

use client::StateError;

use crate::exports::ExportError;
use crate::policy_file::PolicyFileError;

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The address is taken, or is not one of this host.
    #[error("cannot listen on {address} ({})", remedy(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// An export cannot be offered.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The policy cannot be used.
    #[error(transparent)]
    Access(#[from] PolicyFileError),
    /// The certificate, the key and the TLS settings do not fit together.
    #[error("the node's certificate and key cannot be used")]
    Tls(#[from] rustls::Error),
    /// New settings of a running node need its UDP port, which the node could not bind when it started.
    #[error("no test with datagrams can be answered: this node could not bind the UDP port when it started")]
    Datagrams(#[source] io::Error),
    /// The host cannot wait for connections.
    #[error("cannot wait for connections on this host")]
    Host(#[from] io::Error),
}

/// The remedy for an address that cannot be bound.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege: use a higher port, or give the service CAP_NET_BIND_SERVICE \
             (AmbientCapabilities= in its unit)"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this host does not have the address: 0.0.0.0 or [::] means all of its addresses"
        }
        _ => "is another node running there? --listen HOST:0 takes a free port",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_the_error() {
        let message = |kind: io::ErrorKind| {
            let address = SocketAddr::from(([192, 0, 2, 1], 443));
            NodeError::Listen { address, source: kind.into() }.to_string()
        };
        assert!(message(io::ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE"));
        assert!(message(io::ErrorKind::AddrNotAvailable).contains("does not have the address"));
        assert!(message(io::ErrorKind::AddrInUse).contains("is another node running there?"));
        assert!(message(io::ErrorKind::AddrInUse).contains("192.0.2.1:443"));
    }
}

//! What a node is to offer, as whoever starts it says.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use auth::{Grants, Rights};
use client::StateDir;
use engine::Timeouts;
use engine::movers::Peers;
use rustls::RootCertStore;
use serve::tls::Certificate;

use crate::exports::Export;
use crate::networks::Networks;
use crate::origins::Origins;
use crate::responders::Responders;
use crate::test_service::Audit;

/// What a node is to offer.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where streams are taken besides, each a path of its own; port 0 means that of `listen`.
    pub advertise: Vec<SocketAddr>,
    /// Node processes of the same exports that carry streams of this one's jobs.
    pub movers: Option<Arc<Peers>>,
    /// Directories.
    pub exports: Vec<Export>,
    /// What whoever comes without a key may do, on every export.
    pub anonymous: Option<Rights>,
    /// Grants held in memory only, besides those of the state directory.
    pub grants: Grants,
    /// Whether payload may go in clear.
    pub plain: bool,
    /// Identity, grants, unfinished jobs.
    pub state: StateDir,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// Tests that are answered without a key.
    pub responders: Responders,
    /// Where TWAMP-Control is answered.
    pub twamp_listen: Option<SocketAddr>,
    /// Who may read `/metrics` without a key, also in clear.
    pub metrics: Networks,
    /// How the host's settings stand, for those who have a key; none where nobody is told.
    pub audit: Option<Audit>,
    /// What HTTP needs besides.
    pub web: WebConfig,
    /// Its guests are its operator, and it lives for one copy: what it carries for them may go to any address, loopback as
    /// well, and is not gone on with by a later node.
    pub own_guests: bool,
}

impl NodeConfig {
    /// A node that offers nothing yet and lets in nobody without a key: payload sealed, no tests without a key, nobody told of its
    /// host.
    pub fn new(listen: SocketAddr, state: StateDir) -> NodeConfig {
        NodeConfig {
            listen,
            advertise: Vec::new(),
            movers: None,
            exports: Vec::new(),
            anonymous: None,
            grants: Grants::default(),
            plain: false,
            state,
            timeouts: Timeouts::default(),
            responders: Responders::default(),
            twamp_listen: None,
            metrics: Networks::default(),
            audit: None,
            web: WebConfig::default(),
            own_guests: false,
        }
    }
}

/// What HTTP needs besides the rest.
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    /// The site's certificate; without one the node shows its own, which no browser trusts.
    pub certificate: Option<Arc<Certificate>>,
    /// Who vouches for certificates of clients; without any, none is asked for.
    pub client_authorities: Option<Arc<RootCertStore>>,
    /// Who vouches for the servers that third-party copies go to, and for issuers of tokens.
    pub authorities: Option<Arc<RootCertStore>>,
    /// The file that says who may do what; else `access.toml` in the state directory, where there is one.
    pub access: Option<PathBuf>,
    /// Pages of other sites that may have a browser ask this node.
    pub origins: Origins,
    /// Where fireflies go that say which experiment a flow is for.
    pub fireflies: Vec<SocketAddr>,
}

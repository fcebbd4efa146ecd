//! The configuration of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use auth::x509::AuthoritySource;
use auth::{Grants, Rights};
use client::StateDir;
use engine::Timeouts;
use engine::movers::ConfiguredMovers;
use rustls::RootCertStore;
use serve::tls::Certificate;

use crate::exports::Export;
use crate::movers::RootMovers;
use crate::networks::Networks;
use crate::origins::Origins;
use crate::responders::Responders;
use crate::test_service::Audit;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Further addresses that accept streams, each a path of its own; port 0 means that of `listen`.
    pub advertise: Vec<SocketAddr>,
    /// Movers: node processes with the same exports that take streams of this node's transfers.
    pub movers: Option<Arc<ConfiguredMovers>>,
    /// Movers that clients of XRootD's protocol are sent to.
    pub root_movers: Option<Arc<RootMovers>>,
    /// The exports.
    pub exports: Vec<Export>,
    /// The rights of anonymous clients on every export; none where they have no right.
    pub anonymous: Option<Rights>,
    /// Grants held in memory only, besides those of the state directory.
    pub grants: Grants,
    /// Whether payload may be sent unencrypted.
    pub plain: bool,
    /// The state directory: identity, grants, unfinished transfers.
    pub state: StateDir,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// The test protocols that are answered without a key.
    pub responders: Responders,
    /// The address of the port for TWAMP-Control; none where it is not answered.
    pub twamp_listen: Option<SocketAddr>,
    /// A further address at which it listens: clients of XRootD look for port 1094.
    pub root_listen: Option<SocketAddr>,
    /// The networks that may read `/metrics` without a key, also in clear.
    pub metrics: Networks,
    /// The audit of the host's settings, for principals with a key; none where the node offers none.
    pub audit: Option<Audit>,
    /// Further configuration of HTTP.
    pub web: WebConfig,
    /// Scratch places for exercises; none where the node offers none.
    pub exercise: Option<ExerciseConfig>,
    /// The node exists for one copy, and its only client is its operator: transfers may go to any address, loopback as well, and
    /// a later node does not continue them.
    pub serves_one_copy: bool,
}

impl NodeConfig {
    /// A node without exports and without rights for anonymous clients: payload is encrypted, no test is answered without a key,
    /// and there is no audit of the host.
    pub fn new(listen: SocketAddr, state: StateDir) -> NodeConfig {
        NodeConfig {
            listen,
            advertise: Vec::new(),
            movers: None,
            root_movers: None,
            exports: Vec::new(),
            anonymous: None,
            grants: Grants::default(),
            plain: false,
            state,
            timeouts: Timeouts::default(),
            responders: Responders::default(),
            twamp_listen: None,
            root_listen: None,
            metrics: Networks::default(),
            audit: None,
            web: WebConfig::default(),
            exercise: None,
            serves_one_copy: false,
        }
    }
}

/// The directory in which others may order scratch places for exercises. The node owns it: at its start it removes everything there
/// whose name is a UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExerciseConfig {
    /// The directory.
    pub dir: PathBuf,
    /// The most bytes of all places together; none for half of the space that is free when the node starts.
    pub quota_bytes: Option<u64>,
}

/// The configuration of HTTP besides [`NodeConfig`].
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    /// The site's certificate; without one the node presents its own, which no browser trusts.
    pub certificate: Option<Arc<Certificate>>,
    /// The authorities for certificates of clients and their VOMS attributes; without any, no client certificate is requested.
    pub client_authorities: Option<Arc<AuthoritySource>>,
    /// The authorities for the servers of third-party copies, and for issuers of tokens.
    pub authorities: Option<Arc<RootCertStore>>,
    /// The policy's file; else `access.toml` in the state directory, if that exists.
    pub access: Option<PathBuf>,
    /// Other sites whose pages may send requests to this node from a browser.
    pub origins: Origins,
    /// The collectors of fireflies, which report the experiment of a flow.
    pub fireflies: Vec<SocketAddr>,
}

//! A node: opened from a configuration, run until it is stopped, its settings replaced while it runs.

mod reload;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use auth::x509::{AuthoritySource, CertificateCheck, ClientVerifier};
use engine::NodeIdentity;
use engine::identity::{self, HTTP_BY_KEY_ALPN};
use model::{Refusal, v1};
use rustls::pki_types::CertificateDer;
use serve::tls::{Certificate, ClientAuthorities, OtherProtocol, TlsSettings};
use serve::{Server, Timeouts};
use wire::frame::JobName;
use wire::version::Version;

pub use serve::Stop;

use crate::access::{AccessControl, LiveConfiguration};
use crate::clock::unix_seconds;
use crate::config::{NodeConfig, WebConfig};
use crate::error::NodeError;
use crate::http::HttpService;
use crate::jobs::Jobs;
use crate::meters::ConnectionCounts;
use crate::port::{Port, Sessions};
use crate::responders::TestResponders;
use crate::root::RootService;
use crate::scratch::{ScratchPlaces, expiry};
use crate::services::Services;

/// How many ports are tried if port 0 is configured.
const PORTS_TRIED: usize = 16;

/// The jobs of a node, for its operator.
#[derive(Clone)]
pub struct NodeJobs(Jobs);

impl NodeJobs {
    /// All jobs, or the parts of one.
    pub fn list(&self, job: Option<&JobName>) -> Vec<v1::Transfer> {
        self.0.list(job, None)
    }

    /// Changes a job.
    ///
    /// # Errors
    /// There is no such job that is running.
    pub fn change(&self, job: &JobName, change: &v1::Change) -> Result<(), Refusal> {
        self.0.change(job, None, change)
    }
}

/// Binds a listener and the UDP socket of the same port; the inner error says why the UDP socket cannot be bound. With port 0, ports
/// are tried until both can be bound: a port that was only found free could be taken before it is bound.
fn ports(at: SocketAddr) -> io::Result<(TcpListener, io::Result<UdpSocket>)> {
    for _ in 0..PORTS_TRIED {
        let listener = TcpListener::bind(at)?;
        let datagrams = probe::flow::bind_shared_port(listener.local_addr()?);
        if at.port() != 0 || datagrams.is_ok() {
            return Ok((listener, datagrams));
        }
    }
    let listener = TcpListener::bind(at)?;
    let datagrams = probe::flow::bind_shared_port(listener.local_addr()?);
    Ok((listener, datagrams))
}

/// A node, listening.
pub struct Node {
    server: Server<Port>,
    identity: NodeIdentity,
    /// The port where clients of XRootD look for a server.
    root_listener: Option<TcpListener>,
}

impl Node {
    /// Opens the exports and the port. Connections wait from here on; [`Node::run`] serves them.
    ///
    /// # Errors
    /// The address is taken, an export cannot be opened, or the state directory, the policy or the certificate cannot be used.
    pub fn bind(config: NodeConfig) -> Result<Node, NodeError> {
        let identity = config.state.identity()?;
        config.state.reserve_room();
        let scratch = scratch_places(&config)?;
        let live = LiveConfiguration::open(&config, scratch.as_deref())?;
        let tls = tls_settings(&identity, &config.web)?;
        let swept = engine::leftovers::UnfinishedFileLog::sweep(config.state.path());
        if swept > 0 {
            tracing::info!(files = swept, "removed unfinished files of interrupted jobs");
        }
        let listen = |source| NodeError::Listen { address: config.listen, source };
        let (listener, datagrams) = ports(config.listen).map_err(listen)?;
        let address = listener.local_addr()?;
        let root_listener = config.root_listen.map(root_listener).transpose()?;
        let configured = config.listen;
        let web = config.web.clone();
        let state = config.state.path().to_owned();
        let timeouts = config.timeouts;
        let responders = config.responders.clone();
        let twamp = config.twamp_listen;
        // The configured port may be 0; from here on the address holds the port that is bound.
        let config = NodeConfig { listen: address, ..config };
        let access = Arc::new(AccessControl::new(live, &config, scratch));
        let services = Arc::new(Services::new(access, &config));
        let web = HttpService::new(Arc::clone(&services), &web, &state, address.ip().is_loopback())?;
        let root = RootService::new(Arc::clone(&services), web.shared_fireflies(), web.shared_dialling());
        let responders = TestResponders::open(
            responders,
            datagrams,
            twamp,
            services.tests.flows.clone(),
            services.tests.stop.clone(),
            Arc::clone(&services.participant),
        );
        let responders = responders.map_err(|source| {
            let source = io::Error::new(source.kind(), format!("for tests without a key: {source}"));
            NodeError::Listen { address: configured, source }
        })?;
        let port = Port { services, http: web, root, responders, sessions: Sessions::default(), timeouts };
        let server_timeouts = Timeouts { handshake: timeouts.handshake, gone_after: timeouts.pace.gone_after };
        let server = Server::new(listener, Arc::new(port), Some(tls), server_timeouts)?;
        let handle = server.downgrade();
        let count = move || handle.upgrade().map(|server| connection_counts(&server)).unwrap_or_default();
        server.service().services.meters.count_connections_by(count);
        Ok(Node { server, identity, root_listener })
    }

    /// Counts a reload that failed before [`Node::reload`], because the settings could not be read.
    pub fn reload_failed(&self) {
        self.port().services.meters.reloaded(false);
    }

    /// The address that the node listens on.
    ///
    /// # Errors
    /// The system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.server.address()
    }

    /// The address of the further port for clients of XRootD, if there is one.
    ///
    /// # Errors
    /// The system call fails.
    pub fn root_address(&self) -> io::Result<Option<SocketAddr>> {
        self.root_listener.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// A handle that stops the node.
    pub fn stopper(&self) -> Stop {
        self.server.stopper()
    }

    /// All jobs on this node, for its operator.
    pub fn jobs(&self) -> NodeJobs {
        NodeJobs(self.port().services.jobs.clone())
    }

    /// Serves a connection that this host has opened, for a client that this host can reach but not the other way round.
    pub fn adopt(&self, socket: TcpStream, peer: SocketAddr) {
        self.server.adopt(socket, peer);
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.server.counts().open
    }

    /// Ends every session and waits, for at most `within`, until all have cleaned up.
    pub fn end_sessions(&self, within: Duration) {
        // Sessions end before their jobs are cancelled: a client that gets a cancellation does not try again, but a client whose
        // connection breaks tries until the node is back.
        self.port().sessions.end_all();
        self.port().services.stop();
        self.port().responders.stop();
        self.server.close_idle();
        self.wait_idle(within);
    }

    /// Waits until every session has ended and cleaned up, for at most `within`.
    pub fn wait_idle(&self, within: Duration) {
        self.server.wait_until_closed(within);
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// This host cannot wait for connections.
    pub fn run(&self) -> Result<(), NodeError> {
        self.port().services.transfers.resume();
        let stop = self.server.stopper();
        std::thread::scope(|scope| {
            // These threads end with the same wake-up, which stays set.
            scope.spawn(|| self.port().responders.serve_datagrams(stop.waker()));
            scope.spawn(|| self.port().responders.serve_twamp(stop.waker()));
            scope.spawn(|| self.serve_root_port());
            scope.spawn(|| self.port().services.schedules.run());
            scope.spawn(|| expiry::run(&self.port().services));
            let served = self.server.run();
            // Schedules and scratch places end with the server, even if nothing else has begun the shutdown.
            self.port().services.shutdown().begin();
            served
        })?;
        Ok(())
    }

    /// Serves the connections of the further port: in all protocols, as on the first one.
    fn serve_root_port(&self) {
        if let Some(listener) = &self.root_listener
            && let Err(error) = self.server.accept_from(listener)
        {
            tracing::warn!(%error, "the further port for clients of XRootD is not served any more");
        }
    }

    fn port(&self) -> &Port {
        self.server.service()
    }
}

fn root_listener(address: SocketAddr) -> Result<TcpListener, NodeError> {
    TcpListener::bind(address).map_err(|source| {
        let source = io::Error::new(source.kind(), format!("for clients of XRootD (--root-listen): {source}"));
        NodeError::Listen { address, source }
    })
}

/// The scratch places of a node with this configuration, if it offers any.
fn scratch_places(config: &NodeConfig) -> Result<Option<Arc<ScratchPlaces>>, NodeError> {
    let Some(exercise) = &config.exercise else { return Ok(None) };
    Ok(Some(Arc::new(ScratchPlaces::open(exercise, config.state.fingerprint()?)?)))
}

fn connection_counts(server: &Server<Port>) -> ConnectionCounts {
    let counts = server.counts();
    ConnectionCounts {
        idle: counts.idle,
        served: counts.served,
        waiting: counts.waiting,
        sessions: server.service().sessions.len(),
    }
}

/// Verifies certificates and proxies of clients against these authorities.
fn client_authorities(source: Arc<AuthoritySource>) -> ClientAuthorities {
    let roots = Arc::clone(&source.current(unix_seconds()).roots);
    let verifier = Arc::new(ClientVerifier::new(&roots, identity::provider()));
    let check = move |chain: &[CertificateDer<'_>]| {
        let now = unix_seconds();
        CertificateCheck::of(chain, &source.current(now), now)
    };
    ClientAuthorities { verifier, check: Arc::new(check) }
}

/// The TLS settings: clients of HTTP get the site's certificate, other clients the node's own.
fn tls_settings(identity: &NodeIdentity, web: &WebConfig) -> Result<TlsSettings, rustls::Error> {
    let provider = identity::provider();
    let own = Certificate { chain: identity.chain.clone(), key: identity.key.clone_key() };
    let authorities = web.client_authorities.clone().map(client_authorities);
    let site = web.certificate.as_deref().unwrap_or(&own);
    let is_named = |name: &[u8]| Version::from_alpn(name).is_some();
    TlsSettings::new(&provider, site, authorities.as_ref())?.with_http_by_name(&provider, HTTP_BY_KEY_ALPN, &own).map(
        |settings| {
            let native = identity::server_config(identity)?;
            Ok(settings.with_other_protocol(OtherProtocol { is_named, settings: native }))
        },
    )?
}

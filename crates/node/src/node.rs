//! A node: opened from what whoever starts it says, run until it is stopped, its settings replaced while it runs.

mod reload;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use auth::x509::{Authorities, ClientVerifier, VomsServers};
use engine::NodeIdentity;
use engine::identity::{self, HTTP_BY_KEY_ALPN};
use model::{Refusal, v1};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use serve::tls::{Certificate, ClientAuthorities, OtherProtocol, TlsSettings};
use serve::{Server, Waits};
use wire::frame::JobName;
use wire::version::Version;

pub use serve::Stop;

use crate::access::{AccessControl, LiveConfiguration};
use crate::clock::unix_seconds;
use crate::config::{NodeConfig, WebConfig};
use crate::error::NodeError;
use crate::http::Web;
use crate::jobs::Jobs;
use crate::meters::Rooms;
use crate::port::{Port, Sessions};
use crate::responders::TestResponders;
use crate::services::Services;

/// How often another number is asked for where port 0 was.
const PORTS_TRIED: usize = 16;

/// The jobs of a node, for its operator.
#[derive(Clone)]
pub struct NodeJobs(Jobs);

impl NodeJobs {
    /// All of them, or those of one id.
    pub fn list(&self, job: Option<&JobName>) -> Vec<v1::Transfer> {
        self.0.list(job, None)
    }

    /// Changes a job.
    ///
    /// # Errors
    /// There is no such job.
    pub fn change(&self, job: &JobName, change: &v1::Change) -> Result<(), Refusal> {
        self.0.change(job, None, change)
    }
}

/// A listener, and the socket for datagrams to the same number, or why there is none. With port 0 numbers are taken until both are free: to look for
/// a number first and to bind it later gave others the time to have it.
fn ports(at: SocketAddr) -> io::Result<(TcpListener, io::Result<UdpSocket>)> {
    for _ in 0..PORTS_TRIED {
        let listener = TcpListener::bind(at)?;
        let datagrams = probe::flow::shared(listener.local_addr()?);
        if at.port() != 0 || datagrams.is_ok() {
            return Ok((listener, datagrams));
        }
    }
    let listener = TcpListener::bind(at)?;
    let datagrams = probe::flow::shared(listener.local_addr()?);
    Ok((listener, datagrams))
}

/// A node, listening.
pub struct Node {
    server: Server<Port>,
    identity: NodeIdentity,
}

impl Node {
    /// Opens the exports and the port. Connections wait from here on; [`Node::run`] serves them.
    ///
    /// # Errors
    /// The address is taken, an export cannot be opened, or the state directory, the policy or the certificate cannot be used.
    pub fn bind(config: NodeConfig) -> Result<Node, NodeError> {
        let identity = config.state.identity()?;
        config.state.set_aside();
        let live = LiveConfiguration::open(&config)?;
        let tls = tls_settings(&identity, &config.web)?;
        let swept = engine::leftovers::Leftovers::sweep(config.state.path());
        if swept > 0 {
            tracing::info!(files = swept, "removed what interrupted jobs left unfinished");
        }
        let listen = |source| NodeError::Listen { address: config.listen, source };
        let (listener, datagrams) = ports(config.listen).map_err(listen)?;
        let address = listener.local_addr()?;
        let asked_for = config.listen;
        let (web, state) = (config.web.clone(), config.state.path().to_owned());
        let (timeouts, responders, twamp) = (config.timeouts, config.responders.clone(), config.twamp_listen);
        // Port 0 was somebody's choice, and is nobody's address.
        let config = NodeConfig { listen: address, ..config };
        let access = Arc::new(AccessControl::new(live, &config));
        let services = Arc::new(Services::new(access, &config));
        let web = Web::new(Arc::clone(&services), &web, &state, address.ip().is_loopback())?;
        let responders = TestResponders::open(
            responders,
            datagrams,
            twamp,
            (services.tests.flows.clone(), services.tests.stop.clone()),
            Arc::clone(&services.participant),
        );
        let responders = responders.map_err(|source| {
            let source = io::Error::new(source.kind(), format!("for tests without a key: {source}"));
            NodeError::Listen { address: asked_for, source }
        })?;
        let port = Port { services, web, responders, sessions: Sessions::default(), timeouts };
        let waits = Waits { handshake: timeouts.handshake, gone_after: timeouts.pace.gone_after };
        let server = Server::new(listener, Arc::new(port), Some(tls), waits)?;
        let counted = server.downgrade();
        server
            .service()
            .services
            .meters
            .look_into(move || counted.upgrade().map(|server| rooms(&server)).unwrap_or_default());
        Ok(Node { server, identity })
    }

    /// The settings were to be read again, and could not be.
    pub fn reload_failed(&self) {
        self.port().services.meters.reloaded(false);
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The host does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.server.address()
    }

    /// A handle to end it.
    pub fn stopper(&self) -> Stop {
        self.server.stopper()
    }

    /// The jobs that live here, all of them: for the node's operator.
    pub fn jobs(&self) -> NodeJobs {
        NodeJobs(self.port().services.jobs.clone())
    }

    /// Takes over a connection that this end made: where a client cannot reach this host, but this host the client.
    pub fn adopt(&self, socket: TcpStream, peer: SocketAddr) {
        self.server.adopt(socket, peer);
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.server.counts().open
    }

    /// Ends every session and waits, for at most `within`, until it has cleaned up behind itself.
    pub fn end_sessions(&self, within: Duration) {
        // Before their jobs are cancelled: a client that hears of that takes it for somebody's wish, and does not try
        // again. To one whose connection broke the node may come back.
        self.port().sessions.end_all();
        self.port().services.stop();
        self.port().responders.stop();
        self.server.close_idle();
        self.wait_idle(within);
    }

    /// Waits until every session has ended and cleaned up behind itself, for at most `within`.
    pub fn wait_idle(&self, within: Duration) {
        self.server.wait_until_closed(within);
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// This host cannot wait for connections.
    pub fn run(&self) -> Result<(), NodeError> {
        self.port().services.transfers.go_on();
        let stop = self.server.stopper();
        std::thread::scope(|scope| {
            // It hears the same wake-up, which stays set.
            scope.spawn(|| self.port().responders.take_datagrams(stop.waker()));
            scope.spawn(|| self.port().responders.serve_twamp(stop.waker()));
            scope.spawn(|| self.port().services.schedules.run());
            let served = self.server.run();
            // What repeats itself ends with whoever serves, also where nobody else has said so yet.
            self.port().services.shutdown().begin();
            served
        })?;
        Ok(())
    }

    fn port(&self) -> &Port {
        self.server.service()
    }
}

fn rooms(server: &Server<Port>) -> Rooms {
    let counts = server.counts();
    Rooms {
        idle: counts.idle,
        attended: counts.served,
        waiting: counts.waiting,
        sessions: server.service().sessions.len(),
    }
}

/// Certificates and proxies of clients, verified to these authorities. Attributes of VOMS are nobody's here: rules are for names.
fn client_authorities(roots: Arc<RootCertStore>) -> ClientAuthorities {
    let verifier = Arc::new(ClientVerifier::new(&roots, identity::provider()));
    let authorities = Authorities { roots, voms: VomsServers::default() };
    let name = move |shown: &[CertificateDer<'_>]| {
        let identity = auth::x509::verify(shown, &authorities, unix_seconds());
        identity.map(|identity| identity.name).map_err(|error| error.to_string())
    };
    ClientAuthorities { verifier, name: Arc::new(name) }
}

/// What clients are shown: the certificate of the site to those who speak HTTP, the node's own to everybody else.
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

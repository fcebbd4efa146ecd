//! A running agent with a directory of its own, and clients of its API.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config, fingerprint};
use auth::{AccessKey, Fingerprint};
use exercise::agent::{Agent, AgentApi, AgentConfig, Certificate};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use web::{Dialer, HttpUrl};

/// An agent that serves until it is dropped.
pub struct AgentFixture {
    pub api: AgentApi,
    pub address: SocketAddr,
    directory: TempDir,
    agent: Agent,
    thread: Option<JoinHandle<()>>,
    /// The fingerprint of its certificate; none without TLS.
    identity: Option<Fingerprint>,
}

/// A certificate and its fingerprint.
pub fn identity() -> (Certificate, Fingerprint) {
    let made = rcgen::generate_simple_self_signed(vec!["agent".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let fingerprint = fingerprint(&certificate).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    (Certificate { chain: vec![certificate], key }, fingerprint)
}

impl AgentFixture {
    /// An agent over HTTP in clear text that may run every tool, eight clients at once.
    pub fn start() -> AgentFixture {
        AgentFixture::with(|_| {})
    }

    /// An agent with other settings.
    pub fn with(change: impl FnOnce(&mut AgentConfig)) -> AgentFixture {
        let directory = tempfile::tempdir().unwrap();
        let mut config = AgentConfig {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            identity: None,
            key: AccessKey::new([1; 8], [2; 32], Fingerprint([3; 32])),
            tools: None,
            directory: directory.path().to_owned(),
            clients_max: 8,
            longhaul: None,
            state: None,
            authorities: None,
        };
        change(&mut config);
        let identity = config.identity.as_ref().and_then(|identity| fingerprint(&identity.chain[0]));
        let bearer = format!("Bearer {}", config.key.expose_text());
        let agent = Agent::new(config).unwrap();
        let address = agent.address().unwrap();
        let served = agent.clone();
        let thread = Some(std::thread::spawn(move || served.run().unwrap()));
        let api = api(address, identity, Some(&bearer));
        AgentFixture { api, address, directory, agent, thread, identity }
    }

    /// A client that shows this instead of the key.
    pub fn api_with(&self, authorization: Option<&str>) -> AgentApi {
        api(self.address, self.identity, authorization)
    }

    /// A path below the agent's directory.
    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    /// Stops the agent, and returns when it has stopped.
    pub fn stop(&mut self) {
        self.agent.stopper().stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for AgentFixture {
    fn drop(&mut self) {
        self.agent.stopper().stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn api(address: SocketAddr, identity: Option<Fingerprint>, authorization: Option<&str>) -> AgentApi {
    let trust = Trust::Fingerprints(identity.into_iter().collect());
    let (tls, _) = client_config(&trust, vec![HTTP_BY_KEY_ALPN.to_vec()]).unwrap();
    let (connect, silence) = (Duration::from_secs(20), Duration::from_secs(60));
    let dialer = Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect, silence };
    let scheme = if identity.is_some() { "https" } else { "http" };
    AgentApi::new(dialer, HttpUrl::parse(&format!("{scheme}://{address}/")).unwrap(), authorization)
}

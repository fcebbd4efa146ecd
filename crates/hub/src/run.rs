//! Runs a hub from its configuration until it stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::Policy;
use auth::x509::AuthoritySource;
use authn::{Authenticator, Issuers};
use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use model::Refusal;
use model::v1::hub::{Collaboration, Role};
use rustls::RootCertStore;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service;

use crate::api::ApiPart;
use crate::database::{Database, DatabaseError};
use crate::measurements::Measurements;
use crate::messages::{self, Messages};
use crate::portal::providers::SignIn;
use crate::roles::HubCredentials;
use crate::server::{Transport, serve};
use crate::servers::{self, Servers};
use crate::state::HubState;
use crate::tls::{Certificate, settings};
use crate::{api, audit_trail, carriers, catalogue, fts, limits, portal, rucio, scheduler, stager, time};

/// The configuration that a hub is started with.
pub struct HubConfig {
    /// The name of this host. Together with the port it is the name of this hub for other hubs on the same database.
    pub host_name: String,
    /// The address on which it listens.
    pub listen: SocketAddr,
    /// A second address, on which the FTS API is at the root.
    pub fts_listen: Option<SocketAddr>,
    /// The database: `sqlite:FILE` or `postgres://…`.
    pub database: String,
    /// Its own identity.
    pub identity: Certificate,
    /// The certificate for clients that do not know the hub by its key.
    pub certificate: Option<Certificate>,
    /// The authorities whose client certificates and VOMS attributes are accepted.
    pub client_authorities: Option<Arc<AuthoritySource>>,
    /// The authorities for the certificates of servers, except nodes that the hub knows by their keys.
    pub authorities: Arc<RootCertStore>,
    /// Whether clear text is permitted.
    pub plain: bool,
    /// The role of anonymous clients, if they have one.
    pub anonymous: Option<Role>,
    /// The trusted token issuers, the client addresses that are served, and the addresses to which the hub may connect.
    pub policy: Policy,
    /// Fetches the keys of token issuers.
    pub issuers: Issuers,
    /// The providers with which members sign in.
    pub sign_ins: Vec<SignIn>,
    /// The message brokers to which changes of files are sent, if there are any.
    pub messages: Option<Messages>,
    /// A description that replaces the stored one.
    pub collaboration: Option<Collaboration>,
    /// Parts of the API that other crates answer.
    pub parts: Vec<ApiPart>,
    /// Answers with what is measured between sites; `None` if no watch runs in this process.
    pub measurements: Option<Measurements>,
}

/// Why a hub does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The database cannot be opened or used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The hub cannot listen on an address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// This host failed, for example to start a thread.
    #[error("this host: {0}")]
    Host(#[from] io::Error),
    /// The certificates cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// One of its tasks ended, though the hub was not stopped.
    #[error("{0} ended unexpectedly; the log above says why. The hub ends, so that it can be started again")]
    TaskEnded(&'static str),
    /// The description is not consistent.
    #[error("{0}")]
    InvalidDescription(String),
}

impl From<Refusal> for HubError {
    fn from(refusal: Refusal) -> HubError {
        HubError::InvalidDescription(refusal.reason)
    }
}

impl StopReceiver {
    /// A receiver of the stop signal, for services that run in the same process.
    pub fn receiver(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }
}

/// The sending end of the stop signal.
#[derive(Clone, Debug)]
pub struct StopSender(watch::Sender<bool>);

/// The receiving end of the stop signal.
#[derive(Clone, Debug)]
pub struct StopReceiver(watch::Receiver<bool>);

/// Makes the two ends of the stop signal of a hub.
pub fn stop_channel() -> (StopSender, StopReceiver) {
    let (sender, receiver) = watch::channel(false);
    (StopSender(sender), StopReceiver(receiver))
}

impl StopSender {
    /// Stops the hub. Running requests are still answered; transfers at nodes go on.
    pub fn stop(&self) {
        let _ = self.0.send(true);
    }
}

/// A running hub.
pub struct Running {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The second address, of the FTS API, if it has one.
    pub fts_address: Option<SocketAddr>,
    hub: Arc<HubState>,
    runtime: tokio::runtime::Handle,
}

impl Running {
    /// Replaces the whole description.
    ///
    /// # Errors
    /// The description is not consistent; then nothing is changed.
    pub fn describe(&self, collaboration: Collaboration) -> Result<(), Refusal> {
        self.runtime.block_on(self.hub.describe(|all| {
            *all = collaboration;
            Ok(())
        }))
    }
}

/// Runs a hub until it is stopped; `ready` gets the hub as soon as it listens.
///
/// # Errors
/// It cannot be started.
pub fn run(config: HubConfig, stopped: StopReceiver, ready: impl FnOnce(Running)) -> Result<(), HubError> {
    let runtime = runtime()?;
    run_on(&runtime, config, stopped, ready)?;
    // Requests to nodes that do not answer are given up after this time.
    runtime.shutdown_timeout(limits::SHUTDOWN_MAX);
    Ok(())
}

/// Makes the runtime of a hub and of the services in the same process.
///
/// # Errors
/// This host starts no threads.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("hub").build()
}

/// Runs a hub on a runtime that other services share, until it is stopped; `ready` gets the hub as soon as it listens.
///
/// # Errors
/// It cannot be started.
pub fn run_on(
    runtime: &tokio::runtime::Runtime,
    config: HubConfig,
    stopped: StopReceiver,
    ready: impl FnOnce(Running),
) -> Result<(), HubError> {
    runtime.block_on(run_async(config, stopped.0, ready))
}

async fn run_async(
    config: HubConfig,
    stopped: watch::Receiver<bool>,
    ready: impl FnOnce(Running),
) -> Result<(), HubError> {
    let clients = config.client_authorities;
    let roots = clients.as_ref().map(|source| Arc::clone(&source.current(time::now() / 1000).roots));
    let tls = settings(&config.identity, config.certificate.as_ref(), roots.as_deref())?;
    let (database, mut writer_end) = Database::open(&config.database).await?;
    let listener = listen(config.listen).await?;
    let address = listener.local_addr()?;
    // Hubs that replace each other may have the same identity: only their addresses differ.
    let name = format!("{}:{}", config.host_name, address.port());
    let credentials = HubCredentials::new(database.clone(), Arc::new(config.policy), config.anonymous);
    let credentials = Arc::new(credentials.with_authorities(clients.clone()));
    let authenticator = Arc::new(Authenticator::new(Arc::clone(&credentials) as Arc<_>, config.issuers));
    let servers = Servers::new(Arc::clone(&config.authorities))?;
    let (audit_trail, actions) = audit_trail::channel();
    let mut hub =
        HubState::new(name, database, authenticator, credentials, servers, config.sign_ins, audit_trail).await?;
    hub.measurements = config.measurements;
    let hub = Arc::new(hub);
    if let Some(collaboration) = config.collaboration {
        let replace = |all: &mut Collaboration| {
            *all = collaboration;
            Ok(())
        };
        hub.describe(replace).await?;
    }
    let fts_listener = match config.fts_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let fts_address = fts_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    // This is set before the first job comes, so that messages on its files are sent.
    hub.database.record_changes(config.messages.is_some()).await?;
    let messages = config.messages.map(|to| (to, config.authorities));
    let carriers = Arc::new(carriers::Carriers::new(Arc::clone(&hub)));
    let mut tasks = background_tasks(&hub, &stopped);
    tasks.spawn(audit_trail::run(hub.database.clone(), actions, stopped.clone()));
    if let Some((to, authorities)) = messages {
        tasks.spawn(messages::run(Arc::clone(&hub), to, authorities, stopped.clone()));
    }
    let mut scheduling = tokio::spawn(scheduler::run(Arc::clone(&hub), carriers, stopped.clone()));
    let transport = Arc::new(Transport { tls: Arc::new(ArcSwap::from_pointee(tls)), clients, plain: config.plain });
    if let Some(listener) = fts_listener {
        tasks.spawn(serve(listener, Arc::clone(&transport), fts::router(&hub), stopped.clone()));
    }
    ready(Running { address, fts_address, hub: Arc::clone(&hub), runtime: tokio::runtime::Handle::current() });
    // The hub ends with its scheduler: a hub that accepts jobs and does not run them is worse than one that is restarted.
    let serving = serve(listener, transport, router(&hub, config.parts), stopped.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = writer_end.wait() => return Err(HubError::TaskEnded("the thread that writes to the database")),
        _ = &mut scheduling => {
            if !*stopped.borrow() {
                return Err(HubError::TaskEnded("the scheduler"));
            }
            serving.await;
        }
    }
    if !scheduling.is_finished() {
        let _ = scheduling.await;
    }
    while tasks.join_next().await.is_some() {}
    drop(hub);
    writer_end.wait().await;
    Ok(())
}

/// Starts the background tasks of the catalogue, the portal and the queue; each runs until the hub stops.
fn background_tasks(hub: &Arc<HubState>, stopped: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(catalogue::rule_worker::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(catalogue::remover::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(catalogue::audits::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(catalogue::webhooks::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(portal::notices::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(portal::repeats::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(portal::site_catalogue::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(portal::files::run(Arc::clone(hub), stopped.clone()));
    tasks.spawn(stager::run(Arc::clone(hub), stopped.clone()));
    tasks
}

async fn listen(address: SocketAddr) -> Result<TcpListener, HubError> {
    TcpListener::bind(address).await.map_err(|source| HubError::Listen { address, source })
}

/// The router of the hub: its own API, the parts of other crates, the FTS and Rucio APIs, and the portal.
fn router(hub: &Arc<HubState>, parts: Vec<ApiPart>) -> Router {
    let state = Arc::clone(hub);
    let others = [(fts::PREFIX, fts::router(hub)), (rucio::PREFIX, rucio::router(hub))];
    // `nest` would treat `//` as a different path.
    let dispatch = move |request: Request, next: Next| {
        let path = request.uri().path();
        let state = Arc::clone(&state);
        let other = others.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, router)| router.clone());
        async move {
            let Some(mut other) = other else {
                let (head, body) = request.into_parts();
                if let Some(page) = portal::assets::answer(&head, || servers::origins(&state.topology.load())) {
                    return page;
                }
                let is_from_script = portal::is_from_script(&head);
                let response = next.run(Request::from_parts(head, body)).await;
                return if is_from_script { portal::without_prompt(response) } else { response };
            };
            match Service::call(&mut other, request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    };
    api::router(hub, parts).layer(axum::middleware::from_fn(dispatch))
}

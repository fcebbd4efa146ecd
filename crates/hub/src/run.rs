//! A hub from its configuration to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::Policy;
use auth::x509::Authorities;
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

use crate::api::Part;
use crate::database::{Database, DatabaseError};
use crate::messages::{self, Messages};
use crate::portal::providers::SignIn;
use crate::roles::HubCredentials;
use crate::server::{Transport, serve};
use crate::servers::{self, Servers};
use crate::state::HubState;
use crate::tls::{Certificate, settings};
use crate::{api, carriers, catalogue, fts, limits, portal, rucio, scheduler, stager, trail};

/// What a hub is started with.
pub struct HubConfig {
    /// What this host is called: by it and the port other hubs on the same database know this one.
    pub host_name: String,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where FTS's words are spoken at the root of a port of their own, beside the port above.
    pub fts_listen: Option<SocketAddr>,
    /// `sqlite:FILE` or `postgres://…`.
    pub database: String,
    /// Its own identity.
    pub identity: Certificate,
    /// What clients are shown who do not know it by its key.
    pub certificate: Option<Certificate>,
    /// Whose client certificates count, and whose VOMS attributes.
    pub client_authorities: Option<Authorities>,
    /// Whose certificates count of servers that it speaks to, but for nodes that it knows by their keys.
    pub authorities: Arc<RootCertStore>,
    /// Clear text is permitted.
    pub plain: bool,
    /// What those may who show no key.
    pub anonymous: Option<Role>,
    /// Whose tokens count, which addresses are served, and where the hub may go.
    pub policy: Policy,
    /// Fetches the keys of token issuers.
    pub issuers: Issuers,
    /// Where members sign in, beside showing keys.
    pub sign_ins: Vec<SignIn>,
    /// The brokers that hear of each file.
    pub messages: Option<Messages>,
    /// Replaces what is described, if there is a file for it.
    pub collaboration: Option<Collaboration>,
    /// Other parts that it is to answer for.
    pub parts: Vec<Part>,
}

/// Why a hub does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// It cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Something of this host.
    #[error("this host: {0}")]
    Host(#[from] io::Error),
    /// The certificates.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A task of it ended by itself.
    #[error("{0} broke off: what the log says before this is why; the hub ends, so that it can be started again")]
    BrokeOff(&'static str),
    /// What is described is not consistent.
    #[error("{0}")]
    Described(String),
}

impl From<Refusal> for HubError {
    fn from(refusal: Refusal) -> HubError {
        HubError::Described(refusal.reason)
    }
}

impl Stopped {
    /// Whether it is to stop, for what runs beside it.
    pub fn receiver(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }
}

/// Stops a hub.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

/// What a hub waits for.
#[derive(Clone, Debug)]
pub struct Stopped(watch::Receiver<bool>);

/// A way to stop a hub.
pub fn stopper() -> (Stopper, Stopped) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stopped(receiver))
}

impl Stopper {
    /// Stops it: requests that run are answered, what runs at nodes goes on.
    pub fn stop(&self) {
        let _ = self.0.send(true);
    }
}

/// A hub that runs.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where FTS's words have a port of their own.
    pub fts_address: Option<SocketAddr>,
    hub: Arc<HubState>,
    runtime: tokio::runtime::Handle,
}

impl Running {
    /// Replaces everything that is described.
    ///
    /// # Errors
    /// It is not consistent: nothing has changed.
    pub fn describe(&self, collaboration: Collaboration) -> Result<(), Refusal> {
        self.runtime.block_on(self.hub.describe(|all| {
            *all = collaboration;
            Ok(())
        }))
    }
}

/// Runs a hub until it is stopped; `ready` is given it as soon as it listens.
///
/// # Errors
/// It cannot be started.
pub fn run(config: HubConfig, stopped: Stopped, ready: impl FnOnce(Running)) -> Result<(), HubError> {
    let runtime = runtime()?;
    run_on(&runtime, config, stopped, ready)?;
    // Questions to nodes that do not answer are not waited for.
    runtime.shutdown_timeout(limits::SHUTDOWN_MAX);
    Ok(())
}

/// A runtime for a hub and what runs beside it.
///
/// # Errors
/// The host gives no threads.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("hub").build()
}

/// Runs a hub on a runtime that other parts share, until it is stopped; `ready` is given it as soon as it listens.
///
/// # Errors
/// It cannot be started.
pub fn run_on(
    runtime: &tokio::runtime::Runtime,
    config: HubConfig,
    stopped: Stopped,
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
    let tls = settings(&config.identity, config.certificate.as_ref(), clients.as_ref().map(|known| &*known.roots))?;
    let (database, mut writer_end) = Database::open(&config.database).await?;
    let listener = listen(config.listen).await?;
    let address = listener.local_addr()?;
    // Hubs that stand for one another may have the same identity: what tells them apart is where they are.
    let name = format!("{}:{}", config.host_name, address.port());
    let credentials = HubCredentials::new(database.clone(), Arc::new(config.policy), config.anonymous);
    let credentials = Arc::new(credentials.with_authorities(clients.clone()));
    let authenticator = Arc::new(Authenticator::new(Arc::clone(&credentials) as Arc<_>, config.issuers));
    let servers = Servers::new(Arc::clone(&config.authorities))?;
    let (trail, noted) = trail::trail();
    let hub = HubState::new(name, database, authenticator, credentials, servers, config.sign_ins, trail).await?;
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
    // Before the first job comes, so that its files are told of.
    hub.database.write_changes_down(config.messages.is_some()).await?;
    let messages = config.messages.map(|to| (to, config.authorities));
    let carriers = Arc::new(carriers::Carriers::new(Arc::clone(&hub)));
    let mut beside = work_beside(&hub, &stopped);
    beside.spawn(trail::run(hub.database.clone(), noted, stopped.clone()));
    if let Some((to, authorities)) = messages {
        beside.spawn(messages::run(Arc::clone(&hub), to, authorities, stopped.clone()));
    }
    let mut scheduling = tokio::spawn(scheduler::run(Arc::clone(&hub), carriers, stopped.clone()));
    let transport = Arc::new(Transport { tls: Arc::new(ArcSwap::from_pointee(tls)), clients, plain: config.plain });
    if let Some(listener) = fts_listener {
        beside.spawn(serve(listener, Arc::clone(&transport), fts::router(&hub), stopped.clone()));
    }
    ready(Running { address, fts_address, hub: Arc::clone(&hub), runtime: tokio::runtime::Handle::current() });
    // A hub that accepts jobs and does nothing with them is worse than one that ends, and is started again.
    let serving = serve(listener, transport, router(&hub, config.parts), stopped.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = writer_end.wait() => return Err(HubError::BrokeOff("the thread that writes to the database")),
        _ = &mut scheduling => {
            if !*stopped.borrow() {
                return Err(HubError::BrokeOff("the scheduler"));
            }
            serving.await;
        }
    }
    if !scheduling.is_finished() {
        let _ = scheduling.await;
    }
    while beside.join_next().await.is_some() {}
    drop(hub);
    writer_end.wait().await;
    Ok(())
}

/// What the catalogue and the queue do by themselves, each until it is told to stop.
fn work_beside(hub: &Arc<HubState>, stopped: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut beside = JoinSet::new();
    beside.spawn(catalogue::keeper::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(catalogue::remover::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(catalogue::audits::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(catalogue::webhooks::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(portal::notices::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(portal::repeats::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(portal::files::run(Arc::clone(hub), stopped.clone()));
    beside.spawn(stager::run(Arc::clone(hub), stopped.clone()));
    beside
}

async fn listen(address: SocketAddr) -> Result<TcpListener, HubError> {
    TcpListener::bind(address).await.map_err(|source| HubError::Listen { address, source })
}

/// The hub's own API, its other parts, FTS's and Rucio's words, and the portal.
fn router(hub: &Arc<HubState>, parts: Vec<Part>) -> Router {
    let state = Arc::clone(hub);
    let others = [(fts::PREFIX, fts::router(hub)), (rucio::PREFIX, rucio::router(hub))];
    // `nest` would take `//` for another path.
    let below = move |request: Request, next: Next| {
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
    api::router(hub, parts).layer(axum::middleware::from_fn(below))
}

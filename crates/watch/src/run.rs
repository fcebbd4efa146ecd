//! Runs a watch, from its configuration to its end.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch as signal};
use web::Dialer;

use crate::alarms::Change;
use crate::archive::store::{Archive, ArchiveError};
use crate::collector::{self, StopSignal};
use crate::config::{Config, ConfigError};
use crate::counters::reader;
use crate::diagnosis::orders::Diagnoser;
use crate::directory::{DirectoryError, DirectoryKey};
use crate::lookup::register;
use crate::notify::{Notifier, dialer, minute_of_day};
use crate::outgoing::Outgoing;
use crate::state::{Watch, WatchPlan};
use crate::time;

/// How often all paths are judged.
const JUDGE_EVERY: Duration = Duration::from_secs(10);
/// Rows are packed when their hour has been over for this time, milliseconds: late measurements have arrived by then.
const PACK_AFTER_MS: i64 = 15 * 60_000;
const HOUR_MS: i64 = 3_600_000;
/// How often rows are packed.
const PACK_EVERY: Duration = Duration::from_secs(120);

/// Why a watch cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The archive cannot be opened or used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A failure of this host.
    #[error("this host: {0}")]
    Host(#[from] std::io::Error),
    /// The key of the directory cannot be read or made.
    #[error("the key of the directory: {0}")]
    Directory(#[from] DirectoryError),
    /// TLS to the recipients cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A watch that is open, but does not run yet.
pub struct OpenWatch {
    watch: Arc<Watch>,
    changes: mpsc::UnboundedReceiver<Change>,
    authorities: Arc<RootCertStore>,
}

/// Opens the files of a watch in the hub's state directory: the key of its directory, and its archive unless the configuration names another one.
///
/// # Errors
/// The configuration has too many tests, or the key or the archive cannot be opened.
pub async fn open(config: Config, state: &Path, authorities: Arc<RootCertStore>) -> Result<OpenWatch, WatchError> {
    let key = DirectoryKey::open(&state.join("watch-directory.key"))?;
    let archive = format!("sqlite:{}", state.join("watch.db").display());
    let archive = Archive::open(config.archive.as_deref().unwrap_or(&archive)).await?;
    let watched = WatchPlan::of(config)?;
    watched.mesh.remarks.iter().for_each(|remark| tracing::warn!(remark, "heavy tests run less often than configured"));
    let (watch, changes) = Watch::new(watched, archive).await?;
    watch.sign_with(key);
    Ok(OpenWatch { watch: Arc::new(watch), changes, authorities })
}

impl OpenWatch {
    /// The shared state of the watch.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// TLS to the recipients of alarms cannot be set up, or the host cannot start a thread.
    pub async fn run(self, mut stop: signal::Receiver<bool>) -> Result<(), WatchError> {
        let OpenWatch { watch, mut changes, authorities } = self;
        let tls = auth::client_certificate::http_client_config(authorities, None)?;
        let dialer = dialer(tls);
        let mut watched = watch.watched.load_full();
        let mut notifier = Notifier::new(&watched.config, dialer.clone());
        watch.set_outgoing(Outgoing::start(&watched.config, &dialer)?);
        let mut nodes = Threads::default();
        let mut interfaces = Threads::default();
        let mut lookups = Threads::default();
        let mut diagnoser = Diagnoser::default();
        let threads_stop = StopSignal::default();
        let mut judge_interval = tokio::time::interval(JUDGE_EVERY);
        let mut pack_interval = tokio::time::interval(PACK_EVERY);
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                _ = judge_interval.tick() => {
                    let replaced = watch.watched.load_full();
                    if !Arc::ptr_eq(&watched, &replaced) {
                        notifier.replace(&replaced.config);
                        replace_outgoing(&watch, &watched.config, &replaced.config, &dialer);
                        watched = replaced;
                    }
                    nodes.start_missing(watched.config.nodes().map(|(name, _)| name.clone()), |name| {
                        collector::start(Arc::clone(&watch), name, threads_stop.clone(), Handle::current())
                    });
                    interfaces.start_missing(watched.config.interfaces.iter().map(|it| it.name.clone()), |name| {
                        reader::start(Arc::clone(&watch), name, dialer.clone(), threads_stop.clone(), Handle::current())
                    });
                    lookups.start_missing(watched.config.registers.iter().map(|it| it.url.clone()), |url| {
                        register::start(Arc::clone(&watch), url, dialer.clone(), threads_stop.clone())
                    });
                    let judging = Arc::clone(&watch);
                    // Judging thousands of paths must not delay requests.
                    let judged = tokio::task::spawn_blocking(move || judging.judge_all_paths(time::now())).await;
                    judged.inspect_err(|error| tracing::error!(%error, "judging all paths panicked")).ok();
                    notifier = send_alarms(notifier, &watch).await;
                }
                _ = pack_interval.tick() => {
                    let packing = Arc::clone(&watch);
                    tokio::spawn(async move { pack(&packing).await });
                }
                Some(change) = changes.recv() => {
                    if let Some(change) = store(&watch, change).await {
                        diagnoser.consider(&watch, &change, &threads_stop, &Handle::current());
                        notifier.push(&change, minute_of_day(time::now()));
                    }
                }
            }
        }
        threads_stop.set();
        Ok(())
    }
}

/// Replaces the receivers of measurements if those of a new configuration differ.
fn replace_outgoing(watch: &Watch, before: &Config, config: &Config, dialer: &Dialer) {
    if Outgoing::is_same(before, config) {
        return;
    }
    match Outgoing::start(config, dialer) {
        Ok(outgoing) => watch.set_outgoing(outgoing),
        Err(error) => {
            tracing::error!(%error, "no thread for the new receivers of measurements: the former ones are kept")
        }
    }
}

/// Threads of nodes, interfaces or lookup services, by name. A thread ends by itself when the configuration no longer has its name; one that ended although
/// its name is configured (because it panicked, or because the name was missing for a moment) is started again.
#[derive(Default)]
struct Threads(HashMap<String, JoinHandle<()>>);

impl Threads {
    fn start_missing(
        &mut self,
        names: impl Iterator<Item = String>,
        start: impl Fn(String) -> std::io::Result<JoinHandle<()>>,
    ) {
        self.0.retain(|_, thread| !thread.is_finished());
        for name in names {
            if self.0.contains_key(&name) {
                continue;
            }
            match start(name.clone()) {
                Ok(thread) => drop(self.0.insert(name, thread)),
                Err(error) => tracing::error!(name, %error, "the host cannot start a thread; the next attempt follows"),
            }
        }
    }
}

/// Stores an alarm, so that it has its number before it is sent.
async fn store(watch: &Watch, mut change: Change) -> Option<Change> {
    if change.alarm().id == 0
        && let Some(known) = watch.alarms().into_iter().find(|known| is_same(known, change.alarm()))
    {
        change.alarm_mut().id = known.id;
    }
    match watch.archive.write_alarm(change.alarm_mut()).await {
        Ok(()) => {
            watch.set_alarm_id(change.alarm());
            Some(change)
        }
        Err(error) => {
            tracing::error!(%error, "an alarm cannot be stored");
            None
        }
    }
}

fn is_same(a: &model::v1::watch::Alarm, b: &model::v1::watch::Alarm) -> bool {
    (&a.from, &a.to, a.kind, a.direction, &a.since) == (&b.from, &b.to, b.kind, b.direction, &b.since)
}

async fn send_alarms(mut notifier: Notifier, watch: &Arc<Watch>) -> Notifier {
    let lasting = watch.alarms();
    let sent = tokio::task::spawn_blocking(move || {
        notifier.send(&lasting);
        notifier
    });
    match sent.await {
        Ok(notifier) => notifier,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn pack(watch: &Watch) {
    let now = time::now() - PACK_AFTER_MS;
    let before = now - now.rem_euclid(HOUR_MS);
    match watch.archive.pack(before).await {
        Ok(0) => {}
        Ok(rows) => tracing::debug!(rows, "rows packed"),
        Err(error) => tracing::error!(%error, "rows cannot be packed; the next attempt follows"),
    }
    let keep = watch.watched.load().config.keep;
    if let Err(error) = watch.archive.forget(now, &keep).await {
        tracing::error!(%error, "old rows cannot be removed");
    }
}

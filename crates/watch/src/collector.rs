//! One thread for each node: it sets the schedules of the watch at the node, and fetches their measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use auth::AccessKey;
use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config};
use model::v1::node::{ProbeKey, Schedule, ScheduledTest};
use nodeapi::{Api, Error};
use tokio::runtime::Handle;
use web::{Dialer, HttpUrl};

use crate::config::{PlaceKind, WatchedPlace};
use crate::mesh::Test;
use crate::state::{Watch, WatchPlan};

/// How long connecting may take, and how long a node may be silent.
const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(90);
/// The longest time that a node keeps a request open while it has no new measurement, seconds.
const WAIT_S: u32 = 60;
/// Measurements of one answer.
const PAGE_MAX: usize = 2_000;
/// The pause after a failure of a node; it doubles with each further failure.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often the schedules of the watch are synchronised with those of the node.
const SYNC_EVERY: Duration = Duration::from_secs(300);
/// The stack of a thread, which mostly waits.
const STACK_BYTES: usize = 512 << 10;

/// A signal that ends the threads of a watch.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Sets the signal: the threads end when they next check it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the signal is set.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sleeps, but returns early when the signal is set or `is_wanted` is false, which is checked every second.
    pub(crate) fn sleep_while(&self, span: Duration, is_wanted: impl Fn() -> bool) {
        const STEP: Duration = Duration::from_secs(1);
        let mut left = span;
        while !left.is_zero() && !self.is_set() && is_wanted() {
            let step = left.min(STEP);
            self.sleep(step);
            left -= step;
        }
    }

    /// Sleeps, but returns early when the signal is set.
    pub(crate) fn sleep(&self, span: Duration) {
        let until = Instant::now() + span;
        while !self.is_set() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200).min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// How often the largest flows of a node are fetched, and how many.
const FLOWS_EVERY: Duration = Duration::from_secs(60);
const FLOWS_TOP: usize = 50;

/// Starts the thread of a node. It ends when the signal is set, or the configuration does not have the node any more.
///
/// # Errors
/// The host cannot start a thread.
pub fn start(watch: Arc<Watch>, node: String, stop: StopSignal, runtime: Handle) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(format!("watch {node}")).stack_size(STACK_BYTES);
    thread.spawn(move || Collector { watch, node, stop, runtime }.run())
}

struct Collector {
    watch: Arc<Watch>,
    node: String,
    stop: StopSignal,
    runtime: Handle,
}

impl Collector {
    fn run(&self) {
        let mut pause = RETRY_PAUSE;
        while !self.stop.is_set() && self.place().is_some() {
            match self.session() {
                Ok(()) => pause = RETRY_PAUSE,
                Err(why) => {
                    tracing::warn!(node = self.node, why, "no measurements from a node");
                    self.watch.update_status(&self.node, |status| status.error = Some(why));
                    self.stop.sleep(pause);
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
            }
        }
    }

    fn place(&self) -> Option<WatchedPlace> {
        self.watch.watched.load().config.places.get(&self.node).cloned()
    }

    /// Synchronises the schedules, then fetches measurements until the next synchronisation is due.
    fn session(&self) -> Result<(), String> {
        let place = self.place().ok_or("the configuration has no such node any more")?;
        let api = node_api(&place)?;
        let watched = self.watch.watched.load_full();
        self.sync_schedules(&api, &watched)?;
        let synchronised = Instant::now();
        let mut flows_fetched = None;
        while !self.stop.is_set() && synchronised.elapsed() < SYNC_EVERY {
            if !Arc::ptr_eq(&watched, &self.watch.watched.load()) {
                return Ok(());
            }
            self.fetch(&api)?;
            if flows_fetched.is_none_or(|at: Instant| at.elapsed() >= FLOWS_EVERY) {
                flows_fetched = Some(Instant::now());
                self.watch.take_flows(&self.node, api.flows(FLOWS_TOP).map_err(with_causes)?);
            }
        }
        Ok(())
    }

    fn fetch(&self, api: &Api) -> Result<(), String> {
        let after = self.runtime.block_on(self.watch.archive.cursor(&self.node)).map_err(|error| error.to_string())?;
        let page = api.measurements(after, PAGE_MAX, WAIT_S).map_err(with_causes)?;
        self.watch.update_status(&self.node, |status| {
            status.error = None;
            status.dropped += page.dropped;
        });
        if page.measurements.is_empty() && page.next == after {
            return Ok(());
        }
        let taken = self.runtime.block_on(self.watch.take(&self.node, page.measurements, page.next));
        taken.map_err(|error| error.to_string())
    }

    /// Creates the missing schedules at the node, and removes those of the watch that are not wanted any more.
    fn sync_schedules(&self, api: &Api, watched: &WatchPlan) -> Result<(), String> {
        let existing = api.schedules().map_err(with_causes)?.schedules;
        let wanted: Vec<(model::id::Uuid, &Test)> = watched.tests_of(&self.node).collect();
        for status in &existing {
            let is_wanted = wanted.iter().any(|(id, test)| {
                *id == status.schedule.id
                    && test.order == status.schedule.test
                    && url(watched, &test.to) == status.schedule.target
            });
            if !is_wanted {
                api.remove_schedule(status.schedule.id).map_err(with_causes)?;
            }
        }
        let mut refused = Vec::new();
        for (id, test) in &wanted {
            let schedule = self.schedule(watched, *id, test)?;
            match api.create_schedule(&schedule) {
                Ok(_) => {}
                Err(Error::Refused { problem, .. }) => {
                    refused.push(format!("{} to {}: {}", test.word(), test.to, problem.reason))
                }
                Err(error) => return Err(with_causes(error)),
            }
        }
        self.watch.update_status(&self.node, |status| {
            status.tests = wanted.len() - refused.len();
            status.refused = refused;
        });
        Ok(())
    }

    fn schedule(&self, watched: &WatchPlan, id: model::id::Uuid, test: &Test) -> Result<Schedule, String> {
        let target = watched.config.places.get(&test.to).ok_or("the configuration has no such target")?;
        // Streams need no key: a STAMP responder has its own access rules.
        let needs_key = matches!(test.order, ScheduledTest::Repeat(_));
        let key = if needs_key { own_key(target)? } else { None };
        Ok(Schedule {
            id,
            target: url(watched, &test.to),
            test: test.order.clone(),
            node: None,
            credentials: key.map(|key| ProbeKey { key: Some(key.expose_text()) }),
        })
    }
}

/// The URL at which a node reaches a place.
pub(crate) fn url(watched: &WatchPlan, name: &str) -> String {
    match watched.config.places.get(name).map(|place| &place.kind) {
        Some(PlaceKind::Node { address, .. }) => format!("lh://{address}"),
        Some(PlaceKind::Target { url }) => url.clone(),
        None => name.to_owned(),
    }
}

/// The access key that the watch has for a node.
pub(crate) fn own_key(place: &WatchedPlace) -> Result<Option<AccessKey>, String> {
    let PlaceKind::Node { key_file: Some(file), .. } = &place.kind else { return Ok(None) };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    text.trim().parse().map(Some).map_err(|error: auth::key::KeyError| format!("{}: {error}", file.display()))
}

/// The API of a node, with the key of the watch.
pub(crate) fn node_api(place: &WatchedPlace) -> Result<Api, String> {
    let PlaceKind::Node { address, .. } = &place.kind else { return Err("it is not a node".into()) };
    let key = own_key(place)?.ok_or("there is no key for it: key-file names a file with an access key of the node")?;
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| !port.ends_with(']') && (!host.contains(':') || host.ends_with(']')));
    let port = if has_port { String::new() } else { format!(":{}", model::DEFAULT_PORT) };
    let origin = HttpUrl::parse(&format!("https://{address}{port}/")).map_err(|error| error.to_string())?;
    let trust = Trust::Fingerprints(vec![key.node]);
    let (tls, _) = client_config(&trust, vec![HTTP_BY_KEY_ALPN.to_vec()]).map_err(|error| error.to_string())?;
    let dialer = Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: CONNECT, silence: SILENCE };
    Ok(Api::new(dialer, origin, Some(&format!("Bearer {}", key.expose_text()))))
}

fn with_causes(error: Error) -> String {
    model::fault::with_causes(&error)
}

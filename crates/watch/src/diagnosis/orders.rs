//! Orders the tests of a diagnosis at a node, and waits for their report.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::v1::node::{PathProbe, Probe, ProbeKey, ProbeOrder, ProbeStage, ProbeTest, Repeat, ScheduledTest};
use model::v1::watch::Alarm;
use tokio::runtime::Handle;

use super::{DiagnosisBudget, is_diagnosed};
use crate::alarms::Change;
use crate::collector::{StopSignal, node_api, own_key, url};
use crate::config::PlaceKind;
use crate::mesh::TestKind;
use crate::state::{Watch, WatchPlan};
use crate::time;

/// Diagnoses that run at once, each with a thread that mostly waits.
const RUNNING_MAX: usize = 16;
const STACK_BYTES: usize = 512 << 10;
/// How often a node is asked whether a test has ended.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// A test that has not ended after this time is cancelled: a heavy test may hold the node before it.
const LASTS_MAX: Duration = Duration::from_secs(1_200);
/// A path whose own schedule has a test with as many ports at least this often, seconds, needs no other one.
const SCHEDULED_S: f64 = 3_600.0;

/// The part of a node's API that a diagnosis needs.
pub trait ProbeApi {
    /// Orders a test.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    fn order(&self, order: &ProbeOrder) -> Result<Probe, String>;
    /// A test, with its report once it is done.
    ///
    /// # Errors
    /// The node cannot be reached, or does not know the test.
    fn test(&self, id: Uuid) -> Result<Probe, String>;
    /// Cancels a test.
    fn cancel(&self, id: Uuid);
}

impl ProbeApi for nodeapi::Api {
    fn order(&self, order: &ProbeOrder) -> Result<Probe, String> {
        let (probe, _) = self.create_probe(order).map_err(|error| model::fault::with_causes(&error))?;
        Ok(probe)
    }

    fn test(&self, id: Uuid) -> Result<Probe, String> {
        self.probe(id).map_err(|error| model::fault::with_causes(&error))
    }

    fn cancel(&self, id: Uuid) {
        let _ = self.cancel_probe(id).inspect_err(|error| tracing::debug!(%error, "a test cannot be cancelled"));
    }
}

/// Orders tests for alarms as they are raised.
#[derive(Default)]
pub struct Diagnoser {
    budget: DiagnosisBudget,
    running: Vec<JoinHandle<()>>,
}

impl Diagnoser {
    /// Orders the tests that a change of an alarm asks for, if any.
    pub fn consider(&mut self, watch: &Arc<Watch>, change: &Change, stop: &StopSignal, runtime: &Handle) {
        let Change::Raised(alarm) = change else { return };
        let Some(order) = self.wanted(&watch.watched.load(), alarm, time::now()) else { return };
        self.running.retain(|thread| !thread.is_finished());
        if self.running.len() >= RUNNING_MAX {
            tracing::info!(alarm.from, alarm.to, "an alarm is not diagnosed: too many diagnoses run");
            return;
        }
        let path = (alarm.from.clone(), alarm.to.clone());
        let (watch, stop, runtime) = (Arc::clone(watch), stop.clone(), runtime.clone());
        let thread = std::thread::Builder::new().name(format!("diagnosis {}", path.0)).stack_size(STACK_BYTES);
        let work = move || {
            let place = watch.watched.load().config.places.get(&path.0).cloned();
            let api = place.ok_or_else(|| format!("there is no node {}", path.0)).and_then(|place| node_api(&place));
            let outcome = api.and_then(|api| result_of(&api, &order, POLL_EVERY, &stop));
            if let Err(why) = runtime.block_on(watch.take_diagnosis((&path.0, &path.1), outcome)) {
                tracing::warn!(from = path.0, to = path.1, why, "a diagnosis cannot be stored");
            }
        };
        match thread.spawn(work) {
            Ok(thread) => self.running.push(thread),
            Err(error) => tracing::error!(%error, "the host has no thread for a diagnosis"),
        }
    }

    /// The order for a raised alarm; none where there is nothing to find out, or too much was ordered in the last hour.
    fn wanted(&mut self, watched: &WatchPlan, alarm: &Alarm, now: i64) -> Option<ProbeOrder> {
        let settings = watched.config.diagnosis.filter(|_| is_diagnosed(alarm.kind))?;
        let (from, to) = (alarm.from.as_str(), alarm.to.as_str());
        let place = watched.config.places.get(to)?;
        let is_node = match &place.kind {
            PlaceKind::Node { .. } => true,
            PlaceKind::Target { url } => url.starts_with("lh://"),
        };
        if !is_node || is_scheduled(watched, from, to, settings.ports) {
            return None;
        }
        let key = own_key(place).inspect_err(|why| tracing::warn!(to, why, "no key for a diagnosis")).ok()?;
        if !self.budget.admit((from, to), settings.per_hour, now) {
            return None;
        }
        let test = ProbeTest::Path(PathProbe { flows: settings.ports, ..PathProbe::default() });
        let credentials = key.map(|key| ProbeKey { key: Some(key.expose_text()) });
        Some(ProbeOrder { test, credentials, ..ProbeOrder::new(Uuid::now_v7(), url(watched, to)) })
    }
}

/// Whether the schedule of a path contains the sweep anyway.
fn is_scheduled(watched: &WatchPlan, from: &str, to: &str, ports: u16) -> bool {
    let sweeps = |order: &ScheduledTest| match order {
        ScheduledTest::Repeat(Repeat { test: ProbeTest::Path(path), .. }) => path.flows >= ports,
        _ => false,
    };
    let mut tests = watched.mesh.tests.iter().filter(|test| test.kind == TestKind::Path);
    tests.any(|test| test.from == from && test.to == to && sweeps(&test.order) && test.every_s <= SCHEDULED_S)
}

/// Orders a test, and waits for it.
///
/// # Errors
/// Why there is no report.
pub fn result_of(api: &dyn ProbeApi, order: &ProbeOrder, every: Duration, stop: &StopSignal) -> Result<Probe, String> {
    let begun = Instant::now();
    let mut probe = api.order(order)?;
    while !probe.state.is_last() {
        if stop.is_set() || begun.elapsed() > LASTS_MAX {
            api.cancel(order.id);
            return Err("it did not end in time".to_owned());
        }
        stop.sleep(every);
        probe = api.test(order.id)?;
    }
    match (probe.state, &probe.report) {
        (ProbeStage::Done, Some(_)) => Ok(probe),
        _ => Err(probe.error.unwrap_or_else(|| format!("it was {}", probe.state.word()))),
    }
}

#[cfg(test)]
mod tests;

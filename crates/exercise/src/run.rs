//! Runs an exercise: leases scratch places, makes files, runs the phases, samples, breaks what is to be broken, and cleans up.
//!
//! Does not know: files of exercises on disk, keys, labs. The caller connects the sites and injects faults.

mod by_agent;
mod by_hub;
mod control;
mod flow;
mod lease;
mod native;
mod phase;
mod prepare;
mod round;
mod sampler;
mod trials;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::v1::exercise::{ExerciseFlowState, ExerciseProgress};
use web::{Dialer, HttpUrl};

use self::lease::Leases;
use crate::agent::AgentApi;
use crate::file::{Exercise, FaultKind};
use crate::record::{FlowRecord, PhaseRecord, RunRecord, RunSiteRecord, SCHEMA};

/// A site as the controller reaches it.
pub struct RunSite {
    /// Its name in the file.
    pub name: String,
    /// How the controller connects to its node.
    pub dialer: Dialer,
    /// The address of the node for the controller.
    pub origin: HttpUrl,
    /// The text of the key to its export `exercise`.
    pub key: String,
    /// The address of the node for other nodes and for tools, `HOST:PORT`.
    pub peer: String,
    /// The scheme that tools use to reach it: `https`, or `http` in a lab.
    pub scheme: &'static str,
    /// The agent on a client host of the site.
    pub agent: Option<AgentApi>,
    /// Servers of other tools, by the names of these: URLs of the directory of all scratch places of the node.
    pub servers: BTreeMap<String, String>,
}

impl RunSite {
    /// Checks that its node answers.
    ///
    /// # Errors
    /// Why it does not.
    pub fn health(&self) -> Result<(), String> {
        let health = self.api(&self.key).health().map_err(|error| error.to_string())?;
        if health.status == "ok" { Ok(()) } else { Err(format!("its node is {}", health.status)) }
    }

    /// The node's API for the holder of a key.
    pub(crate) fn api(&self, key: &str) -> nodeapi::Api {
        nodeapi::Api::new(self.dialer.clone(), self.origin.clone(), Some(&format!("Bearer {key}")))
    }
}

/// The lab that a run is in: it can be broken, and its processes are on this host.
pub trait RunLab: Sync {
    /// Begins a fault. With a time, settings of paths are what they were when it is over.
    ///
    /// # Errors
    /// Why it could not be injected.
    fn begin(&self, fault: &FaultKind, lasts: Option<Duration>) -> Result<(), String>;
    /// Ends a fault that does not end by itself.
    ///
    /// # Errors
    /// Why it could not be mended.
    fn end(&self, fault: &FaultKind) -> Result<(), String>;
    /// What the process of a site's node has now; none while it does not run.
    fn node_process(&self, site: &str) -> Option<NodeProcess>;
}

/// What the process of a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeProcess {
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// What the caller gives to a run.
pub struct RunInputs<'a> {
    /// The exercise.
    pub exercise: &'a Exercise,
    /// Its sites, as far as they are connected.
    pub sites: Vec<RunSite>,
    /// Sites that could not be connected, and why.
    pub left_out: Vec<(String, String)>,
    /// The hub, if flows use its queue.
    pub hub: Option<hubapi::Api>,
    /// The lab, if there is one.
    pub lab: Option<&'a dyn RunLab>,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
    /// Gets the state of the run about once a second.
    pub observe: &'a (dyn Fn(ExerciseProgress) + Sync),
    /// The facts of the record that the caller knows: machine, software, what is emulated, the time of the beginning.
    pub facts: RunRecord,
}

/// Why a run does not begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No two sites are left.
    #[error("no flow can run: {0}")]
    NoSites(String),
    /// A node does not take part.
    #[error(
        "the node of {site} does not take part: {why}; its operator starts it with `longhaul serve --exercise DIR`, and grants a key with \
         `longhaul grant --export exercise --write`"
    )]
    NotAgreed {
        /// The site.
        site: String,
        /// What the node said.
        why: String,
    },
    /// Files cannot be made, or there is no room for them.
    #[error("the node of {site} has no place for the files of the exercise: {why}")]
    Files {
        /// The site.
        site: String,
        /// What the node said.
        why: String,
    },
    /// The run was stopped before its first phase.
    #[error("stopped before the first phase")]
    Stopped,
}

/// A run under way.
struct Runner<'a> {
    inputs: &'a RunInputs<'a>,
    sites: BTreeMap<&'a str, &'a RunSite>,
    leases: Arc<Leases>,
    began: Instant,
}

/// Runs an exercise to its end, or until it is stopped. The scratch places are removed in every case.
///
/// # Errors
/// Nothing could begin. Whatever fails later is in the record.
pub fn run(inputs: &RunInputs<'_>) -> Result<RunRecord, RunError> {
    let sites: BTreeMap<&str, &RunSite> = inputs.sites.iter().map(|site| (site.name.as_str(), site)).collect();
    let has_both = |from: &str, to: &str| sites.contains_key(from) && sites.contains_key(to);
    let searched = inputs.exercise.search.as_ref().is_some_and(|search| has_both(&search.flow.from, &search.flow.to));
    if !searched && !inputs.exercise.flows().any(|(_, flow)| has_both(&flow.from, &flow.to)) {
        let why: Vec<String> = inputs.left_out.iter().map(|(site, why)| format!("{site}: {why}")).collect();
        return Err(RunError::NoSites(why.join("; ")));
    }
    let leases = Arc::new(Leases::take(inputs)?);
    let runner = Runner { inputs, sites, leases, began: Instant::now() };
    runner.run()
}

impl Runner<'_> {
    fn run(&self) -> Result<RunRecord, RunError> {
        let mut record = RunRecord {
            schema: SCHEMA,
            title: self.inputs.exercise.title.clone(),
            scale: self.inputs.exercise.scale,
            sites: self.site_records(),
            ..self.inputs.facts.clone()
        };
        record.missing.extend(self.inputs.left_out.iter().map(left_out_remark));
        std::thread::scope(|scope| {
            let renewal = self.leases.renew_in(scope);
            let outcome = self.run_phases(&mut record);
            renewal.end();
            self.leases.release();
            outcome
        })?;
        record.missing.extend(record.phases.iter().flat_map(|phase| &phase.flows).filter_map(FlowRecord::gap_remark));
        record.missing.extend(self.leases.lost());
        for site in &mut record.sites {
            site.clock_ahead_s = self.leases.clock_ahead_s(&site.name);
        }
        record.missing.extend(record.sites.iter().filter_map(clock_remark));
        Ok(record)
    }

    fn run_phases(&self, record: &mut RunRecord) -> Result<(), RunError> {
        self.observe("preparing", Vec::new());
        prepare::make_files(self)?;
        if let Some(search) = &self.inputs.exercise.search {
            record.trials = trials::run(self, search, &mut record.phases);
        }
        for phase in &self.inputs.exercise.phases {
            if self.is_stopped() {
                break;
            }
            let done: PhaseRecord = phase::run(self, phase);
            record.phases.push(done);
        }
        if self.is_stopped() {
            record.stopped = Some("stopped by a signal".to_owned());
        }
        Ok(())
    }

    fn site_records(&self) -> Vec<RunSiteRecord> {
        let connected = self.inputs.sites.iter().map(|site| RunSiteRecord {
            name: site.name.clone(),
            node: site.peer.clone(),
            software: self.leases.software(&site.name),
            ..RunSiteRecord::default()
        });
        let left_out = self.inputs.left_out.iter().map(|(name, why)| RunSiteRecord {
            name: name.clone(),
            left_out: Some(why.clone()),
            ..RunSiteRecord::default()
        });
        connected.chain(left_out).collect()
    }

    fn is_stopped(&self) -> bool {
        self.inputs.stop.load(Ordering::Relaxed)
    }

    fn observe(&self, doing: &str, flows: Vec<ExerciseFlowState>) {
        (self.inputs.observe)(ExerciseProgress {
            title: self.inputs.exercise.title.clone(),
            began: self.inputs.facts.began.clone(),
            doing: doing.to_owned(),
            seconds: self.began.elapsed().as_secs_f64(),
            flows,
            missing: self.inputs.left_out.iter().map(left_out_remark).collect(),
            result: None,
        });
    }

    /// Sleeps, or until the run is stopped.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_stopped() && Instant::now() < until {
            std::thread::sleep(PAUSE_STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// How often a pause looks whether the run is stopped.
const PAUSE_STEP: Duration = Duration::from_millis(50);
/// How far a clock may be off before the report says so, seconds.
const CLOCK_AHEAD_MAX_S: f64 = 2.0;

/// A site that was left out, and why, as a sentence.
fn left_out_remark((site, why): &(String, String)) -> String {
    format!("{site} was left out, with all flows to and from it: {why}")
}

fn clock_remark(site: &RunSiteRecord) -> Option<String> {
    let ahead_s = site.clock_ahead_s.filter(|ahead_s| ahead_s.abs() > CLOCK_AHEAD_MAX_S)?;
    let direction = if ahead_s > 0.0 { "ahead of" } else { "behind" };
    Some(format!(
        "the clock of {} is {:.0} s {direction} that of the controller: its own times are not used; let chrony set it",
        site.name,
        ahead_s.abs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_named_with_its_direction() {
        let site = |clock_ahead_s| RunSiteRecord { name: "perth".into(), clock_ahead_s, ..RunSiteRecord::default() };
        assert_eq!(clock_remark(&site(None)), None);
        assert_eq!(clock_remark(&site(Some(-1.5))), None);
        let remark = clock_remark(&site(Some(86_400.0))).unwrap();
        assert!(remark.starts_with("the clock of perth is 86400 s ahead of that of the controller"), "{remark}");
        assert!(clock_remark(&site(Some(-7.2))).unwrap().contains("7 s behind"));
    }
}

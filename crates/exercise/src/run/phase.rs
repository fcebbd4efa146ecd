//! A phase: its flows, its faults and its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::control::PhaseControl;
use super::round::RoundDriver;
use super::sampler::NodeSampler;
use super::{Runner, by_agent, by_hub, flow, native, prepare};
use crate::caps::Caps;
use crate::file::{ExerciseFlow, ExercisePhase, FlowTool, PhaseFault, SiteGoal};
use crate::record::{FaultRecord, FlowRecord, PhaseRecord, SiteGoalRecord};

/// How often the state is shown.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);

/// The samplers of all sites, by their names.
type Samplers = BTreeMap<String, Arc<NodeSampler>>;

/// Runs a phase. Flows to or from sites that were left out do not begin.
pub(crate) fn run(runner: &Runner<'_>, phase: &ExercisePhase) -> PhaseRecord {
    let flows: Vec<&ExerciseFlow> = phase.flows.iter().filter(|flow| runner.has_sites_of(flow)).collect();
    let owned: Vec<ExerciseFlow> = flows.iter().map(|flow| (*flow).clone()).collect();
    let caps = Caps::new(runner.inputs.exercise, &owned);
    let control = PhaseControl::new(runner.inputs.stop, phase.lasts, caps, &owned);
    let at_s = runner.began.elapsed().as_secs_f64();
    let samplers = runner.samplers();
    let site_goal =
        |goal: &SiteGoal| SiteGoalRecord { site: goal.site.clone(), sends: goal.sends, goal_bit_s: goal.goal_bit_s };
    let site_goals = phase.site_goals.iter().map(site_goal).collect();
    let mut record = PhaseRecord { name: phase.name.clone(), at_s, site_goals, ..PhaseRecord::default() };
    std::thread::scope(|scope| {
        for sampler in samplers.values() {
            scope.spawn(|| sampler.run(control.began(), control.done(), runner.inputs.lab));
        }
        let faults = scope.spawn(|| break_things(runner, phase, &control));
        let threads: Vec<_> = owned
            .iter()
            .enumerate()
            .map(|(number, flow)| {
                let (control, samplers) = (&control, &samplers);
                scope.spawn(move || run_flow(runner, control, number, flow, samplers))
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            runner.observe(&phase.name, control.states());
            std::thread::sleep(OBSERVE_EVERY);
        }
        record.flows = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        control.end();
        record.faults = faults.join().unwrap_or_default();
    });
    record.seconds = control.seconds();
    record.nodes = samplers.values().flat_map(|sampler| sampler.take_loads()).collect();
    record
}

fn run_flow(
    runner: &Runner<'_>,
    control: &PhaseControl<'_>,
    number: usize,
    flow: &ExerciseFlow,
    samplers: &Samplers,
) -> FlowRecord {
    match driver(runner, number, flow, samplers) {
        Ok(mut driver) => flow::run(control, number, flow, driver.as_mut()),
        Err(why) => {
            control.note(number, None, &why);
            FlowRecord::of(flow).failed(why)
        }
    }
}

/// What moves a flow.
fn driver(
    runner: &Runner<'_>,
    number: usize,
    flow: &ExerciseFlow,
    samplers: &Samplers,
) -> Result<Box<dyn RoundDriver>, String> {
    match &flow.class.tool {
        FlowTool::Longhaul => {
            let sampler = samplers.get(&flow.from).ok_or_else(|| format!("{} is not connected", flow.from))?;
            let round = prepare::native_round(runner, number, flow);
            let leases = Arc::clone(&runner.leases);
            Ok(Box::new(native::NativeDriver::new(round, flow, leases, Arc::clone(sampler))))
        }
        FlowTool::Hub => by_hub::driver(runner, number, flow),
        FlowTool::Client(tool) => by_agent::driver(runner, number, flow, tool),
    }
}

/// Injects the faults of a phase at their times, and ends them.
fn break_things(runner: &Runner<'_>, phase: &ExercisePhase, control: &PhaseControl<'_>) -> Vec<FaultRecord> {
    let Some(lab) = runner.inputs.lab else {
        let not_here = |fault: &PhaseFault| FaultRecord {
            at_s: fault.at.as_secs_f64(),
            what: fault.what.to_string(),
            error: Some("there is no lab".into()),
            ..FaultRecord::default()
        };
        return phase.faults.iter().map(not_here).collect();
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = phase
            .faults
            .iter()
            .map(|fault| {
                scope.spawn(move || {
                    let mut record = FaultRecord { what: fault.what.to_string(), ..FaultRecord::default() };
                    if !control.goes_on_until(fault.at) {
                        record.at_s = fault.at.as_secs_f64();
                        record.error = Some("the phase was over before".into());
                        return record;
                    }
                    record.at_s = control.seconds();
                    // A fault ends with its phase: the next one begins whole.
                    let left = phase.lasts.map(|lasts| lasts.saturating_sub(control.began().elapsed()));
                    let lasts = fault.lasts.map(|lasts| left.map_or(lasts, |left| left.min(lasts)));
                    record.error = lab.begin(&fault.what, lasts).err();
                    if let Some(lasts) = lasts {
                        control.goes_on_until(fault.at + lasts);
                        record.error = record.error.take().or(lab.end(&fault.what).err());
                        record.until_s = Some(control.seconds());
                    }
                    record
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

impl Runner<'_> {
    /// Whether both sites of a flow are connected.
    fn has_sites_of(&self, flow: &ExerciseFlow) -> bool {
        self.sites.contains_key(flow.from.as_str()) && self.sites.contains_key(flow.to.as_str())
    }

    /// A sampler for each site.
    fn samplers(&self) -> Samplers {
        let sampler = |name: &&str| ((*name).to_owned(), Arc::new(NodeSampler::new(name, Arc::clone(&self.leases))));
        self.sites.keys().filter(|name| self.leases.id(name).is_some()).map(sampler).collect()
    }
}

impl FlowRecord {
    /// The record of a flow that has not begun.
    pub(super) fn of(flow: &ExerciseFlow) -> FlowRecord {
        FlowRecord {
            name: flow.name.clone(),
            from: flow.from.clone(),
            to: flow.to.clone(),
            class: flow.class.name.clone(),
            tool: flow.class.tool.name().to_owned(),
            goal_bit_s: flow.goal_bit_s,
            at_s: flow.at.as_secs_f64(),
            ..FlowRecord::default()
        }
    }

    /// The same with one round that could not begin.
    fn failed(mut self, why: String) -> FlowRecord {
        let round = crate::record::RoundRecord {
            at_s: self.at_s,
            state: "failed".into(),
            error: Some(why),
            ..crate::record::RoundRecord::default()
        };
        self.rounds.push(round);
        self
    }
}

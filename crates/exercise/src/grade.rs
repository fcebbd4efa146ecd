//! Whether a run reached its goals, and what held it back.

use std::collections::BTreeMap;

use crate::record::{Attained, FlowRecord, PhaseRecord, RunRecord, SiteGoalRecord, attained, sum};

/// The layers that can hold a flow back, as they stand on one time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The path: its rate, loss, round trips, an outage.
    Network,
    /// Files and disks at either end.
    Disk,
    /// The processors of either end.
    Processors,
    /// A cap, a mark, or the scheduler's share.
    Scheduler,
    /// It waited for its turn at a node or hub.
    Queue,
}

impl Layer {
    /// All layers.
    pub const ALL: [Layer; 5] = [Layer::Network, Layer::Disk, Layer::Processors, Layer::Scheduler, Layer::Queue];

    /// Its name on a page.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Network => "network",
            Layer::Disk => "disks",
            Layer::Processors => "processors",
            Layer::Scheduler => "caps and shares",
            Layer::Queue => "queue",
        }
    }

    /// The layer of the verdict of a receipt, `PART: EVIDENCE`; none if the part is unknown.
    pub fn of_verdict(verdict: &str) -> Option<Layer> {
        match verdict.split(':').next().unwrap_or_default() {
            "network" | "latency" | "outage" => Some(Layer::Network),
            "source" | "target" | "space" => Some(Layer::Disk),
            "sender_cpu" | "receiver_cpu" | "lock" => Some(Layer::Processors),
            "cap" => Some(Layer::Scheduler),
            _ => None,
        }
    }
}

/// The grade of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowGrade {
    /// What its rates show; none without a sample.
    pub attained: Option<Attained>,
    /// Whether it sustained its goal; none without a goal or without samples.
    pub reaches_goal: Option<bool>,
    /// Files that arrived, over all rounds.
    pub files: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Files that did not arrive, and rounds that failed.
    pub failed: u64,
    /// The layer that held most of its rounds back, by their time.
    pub layer: Option<Layer>,
    /// Why it is behind: the error or the verdict of the round that took longest.
    pub why: String,
}

impl FlowGrade {
    /// The grade of a flow.
    pub fn of(flow: &FlowRecord) -> FlowGrade {
        let rounds = &flow.rounds;
        let mut by_layer: BTreeMap<Layer, f64> = BTreeMap::new();
        for round in rounds {
            if let Some(layer) = Layer::of_verdict(&round.verdict) {
                *by_layer.entry(layer).or_default() += round.seconds;
            }
        }
        let layer = by_layer.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(layer, _)| layer);
        let said = |text: &&crate::record::RoundRecord| text.error.is_some() || !text.verdict.is_empty();
        let longest = rounds.iter().filter(said).max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        FlowGrade {
            attained: attained(&flow.rates_bit_s),
            reaches_goal: flow.reaches_goal(),
            files: rounds.iter().map(|round| round.files).sum(),
            bytes: rounds.iter().map(|round| round.bytes).sum(),
            failed: rounds.iter().map(|round| round.failed + u64::from(round.error.is_some())).sum(),
            layer,
            why: longest.map_or_else(String::new, |round| round.error.clone().unwrap_or_else(|| round.verdict.clone())),
        }
    }
}

/// The grade of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseGrade {
    /// What all flows had together.
    pub attained: Option<Attained>,
    /// Goals of flows and of sites.
    pub goals: usize,
    /// Goals that were sustained.
    pub met: usize,
    /// Goals that cannot be judged, because nothing was sampled.
    pub unknown: usize,
    /// Bytes that arrived.
    pub bytes: u64,
}

impl PhaseGrade {
    /// The grade of a phase.
    pub fn of(phase: &PhaseRecord) -> PhaseGrade {
        let of_flows = phase.flows.iter().filter(|flow| flow.goal_bit_s.is_some()).map(FlowRecord::reaches_goal);
        let of_sites = phase.site_goals.iter().map(|goal| site_reaches_goal(phase, goal));
        let reached: Vec<Option<bool>> = of_flows.chain(of_sites).collect();
        let count = |wanted| reached.iter().filter(|reached| **reached == wanted).count();
        PhaseGrade {
            attained: attained(&sum(phase.flows.iter())),
            goals: reached.len(),
            met: count(Some(true)),
            unknown: count(None),
            bytes: phase.flows.iter().flat_map(|flow| &flow.rounds).map(|round| round.bytes).sum(),
        }
    }
}

/// Whether a site sustained its goal; none if its flows were not sampled.
pub fn site_reaches_goal(phase: &PhaseRecord, goal: &SiteGoalRecord) -> Option<bool> {
    phase.attained_by_site(goal).map(|attained| attained.sustained >= goal.goal_bit_s)
}

/// The grade of a run in a sentence.
pub fn verdict(run: &RunRecord) -> String {
    let grades: Vec<PhaseGrade> = run.phases.iter().map(PhaseGrade::of).collect();
    let total = |of: fn(&PhaseGrade) -> usize| grades.iter().map(of).sum::<usize>();
    let (goals, met, unknown) = (total(|g| g.goals), total(|g| g.met), total(|g| g.unknown));
    let mut text = if goals == 0 { "no goals were set".to_owned() } else { format!("{met} of {goals} goals met") };
    if unknown > 0 {
        text += &format!(", {unknown} not known");
    }
    if let Some(why) = &run.stopped {
        text += &format!("; {why}");
    }
    if !run.missing.is_empty() {
        text += &format!("; {} remarks on what is missing", run.missing.len());
    }
    text
}

/// Whether all goals were met, and nothing is missing.
pub fn is_complete(run: &RunRecord) -> bool {
    let all_met = run.phases.iter().map(PhaseGrade::of).all(|grade| grade.met == grade.goals);
    all_met && run.stopped.is_none() && run.missing.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RoundRecord;

    fn flow(goal: Option<f64>, rate: Option<f64>, rounds: Vec<RoundRecord>) -> FlowRecord {
        FlowRecord { goal_bit_s: goal, rates_bit_s: vec![rate; 30], rounds, ..FlowRecord::default() }
    }

    fn round(seconds: f64, verdict: &str, error: Option<&str>) -> RoundRecord {
        RoundRecord {
            seconds,
            verdict: verdict.into(),
            error: error.map(Into::into),
            bytes: 10,
            files: 1,
            ..RoundRecord::default()
        }
    }

    #[test]
    fn the_layer_is_that_of_most_of_the_time() {
        let rounds = vec![
            round(5.0, "network: 3 % lost", None),
            round(4.0, "target: slow", None),
            round(4.0, "space: full", None),
        ];
        let grade = FlowGrade::of(&flow(None, Some(1.0), rounds));
        assert_eq!((grade.layer, grade.why.as_str()), (Some(Layer::Disk), "network: 3 % lost"));
        assert_eq!((grade.files, grade.bytes, grade.failed), (3, 30, 0));
    }

    #[test]
    fn what_was_not_sampled_is_not_known_and_not_met() {
        let phase = PhaseRecord {
            flows: vec![
                flow(Some(1.0), None, vec![]),
                flow(Some(1.0), Some(2.0), vec![]),
                flow(Some(3.0), Some(2.0), vec![]),
            ],
            ..PhaseRecord::default()
        };
        let grade = PhaseGrade::of(&phase);
        assert_eq!((grade.goals, grade.met, grade.unknown), (3, 1, 1));
        assert_eq!(grade.attained, None, "a second in which a flow was not sampled has no sum");
        let goal = |sends, goal_bit_s| SiteGoalRecord { site: String::new(), sends, goal_bit_s };
        let sites = PhaseRecord { site_goals: vec![goal(true, 1.0), goal(false, 9e9)], ..phase.clone() };
        assert_eq!(PhaseGrade::of(&sites).unknown, 3, "a site is not known where one of its flows is not");
        let run = RunRecord { phases: vec![phase], missing: vec!["x".into()], ..RunRecord::default() };
        assert_eq!(verdict(&run), "1 of 3 goals met, 1 not known; 1 remarks on what is missing");
        assert!(!is_complete(&run));
    }

    #[test]
    fn a_round_that_failed_counts() {
        let grade = FlowGrade::of(&flow(None, Some(1.0), vec![round(1.0, "", Some("the node is gone"))]));
        assert_eq!((grade.failed, grade.layer, grade.why.as_str()), (1, None, "the node is gone"));
    }
}

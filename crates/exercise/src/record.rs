//! What an exercise did: the record that pages and comparisons are made from. Kept as JSON in the directory of the run.
//!
//! A second without a sample is a gap (`null`), and never counts as a rate of 0 or as the rate of its neighbours.

use serde::{Deserialize, Serialize};

/// The record of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The version of this format.
    pub schema: u32,
    /// The title of the exercise.
    pub title: String,
    /// When it began (RFC 3339, by the clock of the controller).
    pub began: String,
    /// The host of the controller, its processors and kernel.
    pub machine: String,
    /// The version of Longhaul at the controller.
    pub software: String,
    /// The command of the run, without paths.
    #[serde(default)]
    pub command: String,
    /// What was emulated; none if nothing was.
    pub emulated: Option<String>,
    /// The scale.
    pub scale: f64,
    /// The sites.
    pub sites: Vec<RunSiteRecord>,
    /// The phases that began.
    pub phases: Vec<PhaseRecord>,
    /// The trials of a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<TrialRecord>,
    /// What is missing, and why: sites that were left out, samples that were lost, clocks that were off.
    pub missing: Vec<String>,
    /// Why it was stopped before its end, if it was.
    pub stopped: Option<String>,
}

/// The present version of the format.
pub const SCHEMA: u32 = 1;

/// A site of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSiteRecord {
    /// Its name.
    pub name: String,
    /// The address of its node.
    pub node: String,
    /// The software of its node, and its processors.
    pub software: String,
    /// Why it was left out, if it was.
    pub left_out: Option<String>,
    /// How far its clock is ahead of the controller's, seconds, where an order showed it.
    pub clock_ahead_s: Option<f64>,
}

/// A phase of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Its name.
    pub name: String,
    /// When it began, seconds after the run.
    pub at_s: f64,
    /// How long it took.
    pub seconds: f64,
    /// Its flows.
    pub flows: Vec<FlowRecord>,
    /// The nodes over time: one row each ten seconds.
    pub nodes: Vec<NodeSample>,
    /// What was broken.
    pub faults: Vec<FaultRecord>,
    /// What its sites should sustain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub site_goals: Vec<SiteGoalRecord>,
}

/// What a site should sustain, all of its flows in a direction together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteGoalRecord {
    /// The site.
    pub site: String,
    /// Whether it sends; else it receives.
    pub sends: bool,
    /// The rate, bit/s.
    pub goal_bit_s: f64,
}

impl PhaseRecord {
    /// What the flows of a site showed together in the direction of a goal.
    pub fn attained_by_site(&self, goal: &SiteGoalRecord) -> Option<Attained> {
        let is_of_site = |flow: &&FlowRecord| *(if goal.sends { &flow.from } else { &flow.to }) == goal.site;
        attained(&sum(self.flows.iter().filter(is_of_site)))
    }
}

/// A flow of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Its name.
    pub name: String,
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
    /// The class.
    pub class: String,
    /// What moved it: `longhaul`, `hub`, `curl`, …
    pub tool: String,
    /// The rate to sustain, bit/s.
    pub goal_bit_s: Option<f64>,
    /// When it began, seconds after the phase.
    pub at_s: f64,
    /// Its rate in each second since then, bit/s; none where no sample came.
    pub rates_bit_s: Vec<Option<f64>>,
    /// Why samples did not come, as far as that is known: the last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_error: Option<String>,
    /// Its rounds.
    pub rounds: Vec<RoundRecord>,
}

/// A round of a flow: its files once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// When it began, seconds after the phase.
    pub at_s: f64,
    /// How long it took.
    pub seconds: f64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Files that arrived.
    pub files: u64,
    /// Files that did not.
    pub failed: u64,
    /// How it ended: `done`, `cancelled` at the end of its phase, `failed`, …
    pub state: String,
    /// What limited it, as its receipt says; empty if it says nothing.
    pub verdict: String,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// Processor time of the agent's clients, seconds.
    pub cpu_s: Option<f64>,
}

/// A node at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSample {
    /// The site.
    pub site: String,
    /// Seconds after the phase.
    pub at_s: f64,
    /// Transfers that run there.
    pub running: u64,
    /// Transfers that wait there.
    pub queued: u64,
    /// Processes that run or wait for a processor, for each processor.
    pub load: f64,
    /// Resident memory of its process, bytes, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Descriptors that its process has open, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
}

/// A fault of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// When it began, seconds after the phase.
    pub at_s: f64,
    /// When it ended; none if it lasted.
    pub until_s: Option<f64>,
    /// What was broken.
    pub what: String,
    /// Why it could not be injected, if so.
    pub error: Option<String>,
}

/// A trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// The values of the parameters, by their names.
    pub setting: Vec<(String, u64)>,
    /// The mean rate, bit/s.
    pub rate_bit_s: f64,
    /// Its standard error, bit/s.
    pub error_bit_s: f64,
    /// Whether the trial failed.
    pub failed: bool,
}

/// Seconds without a sample that a report names as missing; a sample that comes late is no news.
const GAPS_WORTH_A_REMARK: usize = 5;
/// The seconds that one mean takes.
const MEAN_S: usize = 10;
/// The part of a flow's time that is its ramp, and the longest ramp.
const RAMP_PART: f64 = 0.1;
const RAMP_MAX_S: usize = 60;
/// The part of the means that may be below the sustained rate.
const BELOW_SUSTAINED: f64 = 0.1;

/// What a series of rates shows, bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attained {
    /// The highest mean of ten seconds.
    pub max: f64,
    /// The lowest, after the ramp.
    pub min: f64,
    /// The rate that nine of ten means reach, after the ramp.
    pub sustained: f64,
    /// The mean of all seconds that were sampled.
    pub mean: f64,
    /// Seconds without a sample.
    pub gaps: usize,
}

/// What a series of rates of seconds shows; none where nothing was sampled after the ramp.
pub fn attained(rates_bit_s: &[Option<f64>]) -> Option<Attained> {
    let sampled: Vec<f64> = rates_bit_s.iter().copied().flatten().collect();
    if sampled.is_empty() {
        return None;
    }
    let ramp = ((rates_bit_s.len() as f64 * RAMP_PART) as usize).min(RAMP_MAX_S);
    let means = |rates: &[Option<f64>]| -> Vec<f64> {
        let width = MEAN_S.min(rates.len().max(1));
        // A part of ten seconds at the end says little; it counts only if there is nothing else.
        rates.chunks(width).filter(|chunk| chunk.len() == width).filter_map(mean).collect()
    };
    let all = means(rates_bit_s);
    let mut after_ramp = means(&rates_bit_s[ramp..]);
    after_ramp.sort_by(f64::total_cmp);
    let sustained = after_ramp.get((after_ramp.len() as f64 * BELOW_SUSTAINED) as usize).copied()?;
    Some(Attained {
        max: all.iter().chain(&after_ramp).copied().fold(0.0, f64::max),
        min: after_ramp.first().copied()?,
        sustained,
        mean: sampled.iter().sum::<f64>() / sampled.len() as f64,
        gaps: rates_bit_s.len() - sampled.len(),
    })
}

/// The mean of the seconds that were sampled; none if more than half of them were not.
fn mean(rates: &[Option<f64>]) -> Option<f64> {
    let sampled: Vec<f64> = rates.iter().copied().flatten().collect();
    (sampled.len() * 2 >= rates.len()).then(|| sampled.iter().sum::<f64>() / sampled.len() as f64)
}

/// The sum of several series that began at different times; a second is a gap if any flow that had begun has one.
pub fn sum<'a>(flows: impl Iterator<Item = &'a FlowRecord> + Clone) -> Vec<Option<f64>> {
    let end = |flow: &FlowRecord| flow.at_s as usize + flow.rates_bit_s.len();
    let seconds = flows.clone().map(end).max().unwrap_or(0);
    let at = |second: usize| -> Option<f64> {
        let mut sum = 0.0;
        for flow in flows.clone() {
            let Some(since) = second.checked_sub(flow.at_s as usize) else { continue };
            match flow.rates_bit_s.get(since) {
                Some(Some(rate)) => sum += rate,
                Some(None) => return None,
                None => {}
            }
        }
        Some(sum)
    };
    (0..seconds).map(at).collect()
}

impl FlowRecord {
    /// What is missing of the flow, if it was not sampled for a while: as a sentence.
    pub fn gap_remark(&self) -> Option<String> {
        let gaps = self.rates_bit_s.iter().filter(|rate| rate.is_none()).count();
        let why = self.sample_error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        (gaps >= GAPS_WORTH_A_REMARK).then(|| {
            format!("{} was not sampled in {gaps} of {} s, which count nowhere{why}", self.name, self.rates_bit_s.len())
        })
    }

    /// Whether the flow sustained its goal; none without a goal or without samples.
    pub fn reaches_goal(&self) -> Option<bool> {
        Some(attained(&self.rates_bit_s)?.sustained >= self.goal_bit_s?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(parts: &[(usize, Option<f64>)]) -> Vec<Option<f64>> {
        parts.iter().flat_map(|(seconds, rate)| vec![*rate; *seconds]).collect()
    }

    #[test]
    fn the_ramp_is_not_the_minimum() {
        let found = attained(&rates(&[(10, Some(1.0)), (90, Some(8.0))])).unwrap();
        assert_eq!((found.min, found.sustained, found.max, found.gaps), (8.0, 8.0, 8.0, 0));
        assert!((found.mean - 7.3).abs() < 1e-9);
    }

    #[test]
    fn sustained_is_what_nine_of_ten_means_reach() {
        let found = attained(&rates(&[(100, Some(8.0)), (10, Some(2.0)), (190, Some(8.0))])).unwrap();
        assert_eq!((found.min, found.sustained), (2.0, 8.0));
        let found = attained(&rates(&[(100, Some(8.0)), (60, Some(2.0)), (140, Some(8.0))])).unwrap();
        assert_eq!((found.min, found.sustained), (2.0, 2.0));
    }

    #[test]
    fn a_gap_is_counted_and_changes_no_rate() {
        let found = attained(&rates(&[(40, Some(8.0)), (20, None), (40, Some(8.0))])).unwrap();
        assert_eq!((found.min, found.mean, found.gaps), (8.0, 8.0, 20));
        assert_eq!(attained(&rates(&[(5, None)])), None);
        assert_eq!(attained(&rates(&[(30, Some(8.0)), (270, None)])), None, "the ramp alone says nothing");
    }

    #[test]
    fn a_long_gap_is_named_with_its_reason() {
        let flow = |seconds: usize| FlowRecord {
            name: "f".into(),
            rates_bit_s: rates(&[(20, Some(8.0)), (seconds, None)]),
            sample_error: Some("the agent is gone".into()),
            ..FlowRecord::default()
        };
        assert_eq!(flow(2).gap_remark(), None);
        let remark = flow(7).gap_remark().unwrap();
        assert_eq!(remark, "f was not sampled in 7 of 27 s, which count nowhere: the agent is gone");
    }

    #[test]
    fn a_short_flow_is_judged_by_what_there_is() {
        assert_eq!(attained(&rates(&[(3, Some(6.0))])).unwrap().sustained, 6.0);
    }

    #[test]
    fn sums_begin_when_their_flows_do_and_keep_gaps() {
        let flow = |at_s: f64, parts: &[(usize, Option<f64>)]| FlowRecord {
            at_s,
            rates_bit_s: rates(parts),
            ..FlowRecord::default()
        };
        let flows = [flow(0.0, &[(3, Some(1.0))]), flow(1.0, &[(1, Some(2.0)), (1, None)])];
        assert_eq!(sum(flows.iter()), [Some(1.0), Some(3.0), None]);
    }

    #[test]
    fn a_site_attains_what_its_flows_of_a_direction_have_together() {
        let flow = |from: &str, to: &str| FlowRecord {
            from: from.into(),
            to: to.into(),
            rates_bit_s: rates(&[(30, Some(5.0))]),
            ..FlowRecord::default()
        };
        let phase =
            PhaseRecord { flows: vec![flow("a", "b"), flow("a", "c"), flow("c", "a")], ..PhaseRecord::default() };
        let of = |site: &str, sends| {
            let goal = SiteGoalRecord { site: site.into(), sends, goal_bit_s: 1.0 };
            phase.attained_by_site(&goal).map(|attained| attained.sustained)
        };
        assert_eq!((of("a", true), of("a", false), of("d", true)), (Some(10.0), Some(5.0), None));
    }

    #[test]
    fn a_goal_is_met_if_it_is_sustained() {
        let flow = |goal: f64| FlowRecord {
            goal_bit_s: Some(goal),
            rates_bit_s: rates(&[(30, Some(5.0))]),
            ..FlowRecord::default()
        };
        assert_eq!((flow(5.0).reaches_goal(), flow(5.1).reaches_goal()), (Some(true), Some(false)));
        assert_eq!(FlowRecord { goal_bit_s: Some(1.0), ..FlowRecord::default() }.reaches_goal(), None);
    }
}

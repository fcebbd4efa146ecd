//! The charts of a phase: rates, traffic of each site, and the layers on one time line.

use std::collections::BTreeMap;

use report::html::{ChartLane, Plot, Scale, Step, lanes};

use crate::grade::Layer;
use crate::record::{FlowRecord, PhaseRecord, sum};

/// Points of a line: a page stays small however long a phase was.
const POINTS_MAX: usize = 600;
/// Sites with a line of their own.
const SITES_MAX: usize = 8;
/// The time that a sample of a node stands for, seconds.
const NODE_SAMPLE_S: f64 = 10.0;

/// The rate of all flows together, and the sum of their goals.
pub(super) fn rates(phase: &PhaseRecord, number: usize) -> String {
    let all = sum(phase.flows.iter());
    let goal: f64 = phase.flows.iter().filter_map(|flow| flow.goal_bit_s).sum();
    let most = all.iter().copied().flatten().fold(goal, f64::max);
    let id = format!("rates-{number}");
    let about = "Where the line is broken, a flow was not sampled";
    let mut plot = Plot::new(&id, "Rate of all flows", about, Scale::seconds(phase.seconds), Scale::rate(most));
    plot.line(0, &steps(&all));
    plot.key_line(0, "all flows");
    if goal > 0.0 {
        plot.curve(1, &[(0.0, goal), (phase.seconds, goal)]);
        plot.key_line(1, "sum of the goals");
    }
    plot.figure("")
}

/// What each site sends and receives.
pub(super) fn sites(phase: &PhaseRecord, number: usize) -> String {
    let mut by_site: BTreeMap<String, Vec<&FlowRecord>> = BTreeMap::new();
    for flow in &phase.flows {
        by_site.entry(format!("{}, sending", flow.from)).or_default().push(flow);
        by_site.entry(format!("{}, receiving", flow.to)).or_default().push(flow);
    }
    let mut series: Vec<(String, Vec<Option<f64>>)> =
        by_site.into_iter().map(|(name, flows)| (name, sum(flows.into_iter()))).collect();
    let total = |rates: &[Option<f64>]| rates.iter().copied().flatten().sum::<f64>();
    series.sort_by(|(_, a), (_, b)| total(b).total_cmp(&total(a)));
    let left_out = series.len().saturating_sub(SITES_MAX);
    series.truncate(SITES_MAX);
    let most = series.iter().flat_map(|(_, rates)| rates).copied().flatten().fold(0.0, f64::max);
    let id = format!("sites-{number}");
    let about =
        if left_out > 0 { format!("The {SITES_MAX} busiest; {left_out} more are not drawn") } else { String::new() };
    let mut plot = Plot::new(&id, "Rate of each site", &about, Scale::seconds(phase.seconds), Scale::rate(most));
    for (style, (name, rates)) in series.iter().enumerate() {
        plot.line(style, &steps(rates));
        plot.key_line(style, name);
    }
    plot.figure("")
}

/// When which layer held a flow back, when transfers waited, and when something was broken.
pub(super) fn layers(phase: &PhaseRecord, number: usize) -> String {
    let classes = ["f0", "f1", "f2", "f3", "f4"];
    let mut all: Vec<ChartLane> = Layer::ALL
        .iter()
        .zip(classes)
        .map(|(layer, class)| ChartLane { name: layer.name().into(), class, blocks: merged(blocks(phase, *layer)) })
        .collect();
    let faults = phase.faults.iter().filter(|fault| fault.error.is_none());
    let faults = faults.map(|fault| (fault.at_s, fault.until_s.unwrap_or(phase.seconds))).collect();
    all.push(ChartLane { name: "injected faults".into(), class: "f7", blocks: merged(faults) });
    let about = "A layer is marked while a round ran that it held back, as the receipt of the round says; the queue, while a node had transfers waiting";
    lanes(&format!("layers-{number}"), "What held flows back", about, &Scale::seconds(phase.seconds), &all, "")
}

fn blocks(phase: &PhaseRecord, layer: Layer) -> Vec<(f64, f64)> {
    if layer == Layer::Queue {
        let waiting = phase.nodes.iter().filter(|sample| sample.queued > 0);
        return waiting.map(|sample| (sample.at_s, (sample.at_s + NODE_SAMPLE_S).min(phase.seconds))).collect();
    }
    let rounds = phase.flows.iter().flat_map(|flow| &flow.rounds);
    let held = rounds.filter(|round| Layer::of_verdict(&round.verdict) == Some(layer));
    held.map(|round| (round.at_s, round.at_s + round.seconds)).collect()
}

/// Blocks in order, those that overlap as one.
fn merged(mut blocks: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    blocks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (from, to) in blocks {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The steps of a line: means of as many seconds as keep it below [`POINTS_MAX`] points. A mean with a gap in it is a gap.
fn steps(rates: &[Option<f64>]) -> Vec<Step> {
    let width = rates.len().div_ceil(POINTS_MAX).max(1);
    let step = |(at, part): (usize, &[Option<f64>])| {
        let all = part.iter().copied().collect::<Option<Vec<f64>>>()?;
        let from = (at * width) as f64;
        let high = all.iter().sum::<f64>() / all.len() as f64;
        Some(Step { from, to: from + all.len() as f64, low: 0.0, high })
    };
    rates.chunks(width).enumerate().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_blocks_are_one() {
        assert_eq!(merged(vec![(5.0, 6.0), (0.0, 2.0), (1.0, 3.0)]), [(0.0, 3.0), (5.0, 6.0)]);
    }

    #[test]
    fn a_gap_stays_a_gap_in_a_long_line() {
        let mut rates = vec![Some(1.0); 1200];
        rates[3] = None;
        let steps = steps(&rates);
        assert_eq!(steps.len(), 599);
        assert_eq!((steps[0].to, steps[1].from), (2.0, 4.0));
    }

    #[test]
    fn layers_are_drawn_where_rounds_were_held_back() {
        let run = crate::page::tests::run();
        assert_eq!(blocks(&run.phases[0], Layer::Network), [(0.0, 44.0), (0.0, 44.0)]);
        assert_eq!(blocks(&run.phases[0], Layer::Queue), [(0.0, 10.0)]);
        assert_eq!(blocks(&run.phases[0], Layer::Disk), []);
    }
}

//! Longhaul's targets, and whether they were met. Arithmetic on medians.

use super::cell::{Cell, LONGEST_US, Set};
use super::course::{Outcome, Results, ToolRuns, Verdict};
use super::ideal::Bottleneck;
use super::tool::Kind;
use crate::contestant::Role;

/// The least share of the bottleneck on a path without loss.
const CLEAN: f64 = 0.95;
/// The least share of a peer's rate.
const BESIDE: f64 = 0.98;
/// Longhaul must be faster than a peer below this share of the bottleneck.
const BEHIND: f64 = 0.90;
/// The least share of the rate of many processes.
const MANY: f64 = 0.95;
/// The most that many files may take, as a multiple of one file of the same bytes.
const FILES: f64 = 1.1;

/// One target and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedTarget {
    /// The cell.
    pub cell: Cell,
    /// The target.
    pub target: String,
    /// The figure that was reached.
    pub figure: String,
    /// Whether the target was met.
    pub met: bool,
}

/// Judges all targets for which there are numbers, cell by cell.
pub fn judge(results: &Results, line: Bottleneck) -> Vec<JudgedTarget> {
    let mut all = Vec::new();
    for outcome in &results.outcomes {
        let Some(ours) = outcome.lane(Kind::Longhaul) else { continue };
        if outcome.cell.set == Set::Split {
            all.extend(outcome.lanes.iter().filter_map(|lane| many(outcome, ours, lane)));
            continue;
        }
        all.extend(share(outcome, ours, line));
        all.extend(outcome.lanes.iter().filter_map(|lane| beside(outcome, ours, lane, line)));
        all.extend(files(outcome, ours, results));
    }
    all
}

/// The least share of the bottleneck.
fn least(cell: Cell) -> Option<f64> {
    match (cell.set, cell.loss_ppm) {
        (Set::Whole | Set::Split, _) => None,
        (_, 0) => Some(CLEAN),
        (_, 46) if cell.is_longest() => Some(0.90),
        (_, 3_000) if cell.is_longest() => Some(0.80),
        _ => None,
    }
}

fn share(outcome: &Outcome, ours: &ToolRuns, line: Bottleneck) -> Option<JudgedTarget> {
    let least = least(outcome.cell)?;
    let target = format!("at least {:.0} % of the bottleneck, net", least * 100.0);
    let reached = ours.wall_s().map(|wall_s| line.net_share(outcome.bytes, outcome.cell.rtt_s(), wall_s));
    let figure = reached.map_or_else(|| ended(ours), |share| format!("{:.1} %", share * 100.0));
    Some(JudgedTarget { cell: outcome.cell, target, figure, met: reached.is_some_and(|share| share >= least) })
}

/// Judges Longhaul beside a peer: never behind, and ahead where the peer leaves the path idle.
fn beside(outcome: &Outcome, ours: &ToolRuns, peer: &ToolRuns, line: Bottleneck) -> Option<JudgedTarget> {
    if peer.tool.kind.role() != Role::Peer {
        return None;
    }
    let name = peer.tool.title();
    let cell = outcome.cell;
    let theirs = match peer.verdict()? {
        Verdict::Done(spread) => spread.median,
        Verdict::Capped(_) => {
            let (target, met) = (format!("ahead of {name} (capped)"), ours.wall_s().is_some());
            let figure = ours.wall_s().map_or_else(|| ended(ours), |wall_s| format!("{wall_s:.2} s"));
            return Some(JudgedTarget { cell, target, figure, met });
        }
        // There is nothing to compare with; the table reports the failure.
        Verdict::Failed(_) => return None,
    };
    let is_idle = line.net_share(outcome.bytes, cell.rtt_s(), theirs) < BEHIND;
    let target = if is_idle { format!("ahead of {name}") } else { format!("at least {BESIDE} × {name}") };
    let ratio = ours.wall_s().map(|wall_s| theirs / wall_s);
    let met = ratio.is_some_and(|ratio| if is_idle { ratio > 1.0 } else { ratio >= BESIDE });
    let figure = ratio.map_or_else(|| ended(ours), |ratio| format!("{ratio:.3} ×"));
    Some(JudgedTarget { cell, target, figure, met })
}

/// Judges one job against many processes with the same bytes.
fn many(outcome: &Outcome, ours: &ToolRuns, peer: &ToolRuns) -> Option<JudgedTarget> {
    if peer.tool.kind.role() != Role::Peer {
        return None;
    }
    let (name, cell) = (peer.tool.title(), outcome.cell);
    let theirs = match peer.verdict()? {
        Verdict::Done(spread) => Some(spread.median),
        Verdict::Capped(_) => None,
        Verdict::Failed(_) => return None,
    };
    let target = format!("one job at least {MANY} × {name}");
    let (met, figure) = match (ours.wall_s(), theirs) {
        (Some(ours_s), Some(theirs_s)) => (theirs_s / ours_s >= MANY, format!("{:.3} ×", theirs_s / ours_s)),
        (Some(ours_s), None) => (true, format!("{ours_s:.2} s, {name} capped")),
        (None, _) => (false, ended(ours)),
    };
    Some(JudgedTarget { cell, target, figure, met })
}

/// Judges many files against one file of the same bytes, over the longest path.
fn files(outcome: &Outcome, ours: &ToolRuns, results: &Results) -> Option<JudgedTarget> {
    let cell = outcome.cell;
    let same = match cell.set {
        Set::Medium | Set::Small => Set::Large,
        Set::Mixed => Set::Whole,
        _ => return None,
    };
    if !cell.is_longest() {
        return None;
    }
    let one = Cell::new(same, LONGEST_US, cell.loss_ppm);
    let one = results.outcomes.iter().find(|outcome| outcome.cell == one)?.lane(Kind::Longhaul)?.wall_s()?;
    let ratio = ours.wall_s().map(|wall_s| wall_s / one);
    Some(JudgedTarget {
        cell,
        target: format!("at most {FILES} × the time of one file of the same bytes"),
        figure: ratio.map_or_else(|| ended(ours), |ratio| format!("{ratio:.3} ×")),
        met: ratio.is_some_and(|ratio| ratio <= FILES),
    })
}

fn ended(lane: &ToolRuns) -> String {
    match lane.verdict() {
        Some(Verdict::Capped(Some(share))) => format!("capped, {:.1} % had arrived", share * 100.0),
        Some(Verdict::Capped(None)) => "capped".into(),
        Some(Verdict::Failed(said)) => format!("failed: {said}"),
        Some(Verdict::Done(_)) | None => "not run".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bed::RunEnd;
    use super::super::course::tests::{lane_of, run_of, samples};
    use super::*;

    const LINE: Bottleneck = Bottleneck { rate_bit_s: 1e9, mtu: 9000 };

    fn outcome(set: Set, loss_ppm: u32, lanes: Vec<ToolRuns>) -> Outcome {
        Outcome { cell: Cell::new(set, LONGEST_US, loss_ppm), bytes: set.bytes(1), lanes }
    }

    fn judged(outcomes: Vec<Outcome>) -> Vec<(String, String, bool)> {
        let all = judge(&Results { outcomes, left: Vec::new() }, LINE);
        all.into_iter().map(|judged| (judged.target, judged.figure, judged.met)).collect()
    }

    #[test]
    fn shares_and_peers_are_judged() {
        // The ideal is 10.69 s.
        let lanes = vec![lane_of(Kind::Longhaul, 11.0), lane_of(Kind::Xrdcp, 10.9), lane_of(Kind::Gridftp, 12.0)];
        let all = judged(vec![outcome(Set::Large, 0, lanes)]);
        assert_eq!(all[0], ("at least 95 % of the bottleneck, net".into(), "97.2 %".into(), true));
        assert_eq!(all[1], ("at least 0.98 × xrdcp".into(), "0.991 ×".into(), true));
        assert_eq!(all[2], ("ahead of globus-url-copy".into(), "1.091 ×".into(), true));
        let lanes = vec![lane_of(Kind::Longhaul, 15.0), lane_of(Kind::Xrdcp, 14.9), lane_of(Kind::Iperf3, 1.0)];
        let all = judged(vec![outcome(Set::Large, 3_000, lanes)]);
        assert_eq!(all.len(), 2, "references are no peers");
        assert!(!all[0].2, "{all:?}");
        assert_eq!(all[1], ("ahead of xrdcp".into(), "0.993 ×".into(), false));
    }

    #[test]
    fn caps_and_failures_are_judged() {
        let capped = ToolRuns { runs: vec![run_of(RunEnd::Capped(Some(0.5)), 60.0)], ..lane_of(Kind::Xrdcp, 1.0) };
        let failed = ToolRuns { runs: vec![run_of(RunEnd::Failed("no".into()), 1.0)], ..lane_of(Kind::Rclone, 1.0) };
        let all = judged(vec![outcome(Set::Small, 0, vec![lane_of(Kind::Longhaul, 11.0), capped.clone(), failed])]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], ("ahead of xrdcp (capped)".into(), "11.00 s".into(), true));
        let ours = ToolRuns { runs: capped.runs, ..lane_of(Kind::Longhaul, 1.0) };
        let all = judged(vec![outcome(Set::Small, 46, vec![ours, lane_of(Kind::Xrdcp, 50.0)])]);
        assert!(all.iter().all(|(_, figure, met)| !met && figure == "capped, 50.0 % had arrived"), "{all:?}");
    }

    #[test]
    fn many_files_and_processes_are_judged() {
        let ours = |wall_s| vec![lane_of(Kind::Longhaul, wall_s)];
        let mut all = vec![outcome(Set::Large, 0, ours(11.0)), outcome(Set::Small, 0, ours(13.0))];
        all.extend([outcome(Set::Whole, 0, ours(14.0)), outcome(Set::Mixed, 0, ours(15.0))]);
        all.push(outcome(Set::Split, 46, vec![lane_of(Kind::Longhaul, 10.0), lane_of(Kind::XrdcpMany, 9.4)]));
        let all = judged(all);
        let of = |words: &str| -> Vec<(String, bool)> {
            let meant = all.iter().filter(|(target, ..)| target.contains(words));
            meant.map(|(_, figure, met)| (figure.clone(), *met)).collect()
        };
        assert_eq!(of("one file of the same"), [("1.182 ×".to_owned(), false), ("1.071 ×".to_owned(), true)]);
        assert_eq!(of("one job"), [("0.940 ×".to_owned(), false)]);
    }

    #[test]
    fn a_good_matrix_meets_everything() {
        let all = judge(&samples(), LINE);
        assert!(all.iter().all(|judged| judged.met), "{:?}", all.iter().find(|judged| !judged.met));
        assert_eq!(all.iter().filter(|judged| judged.target.contains("bottleneck")).count(), 4 * 5 + 4 * 2);
    }
}

//! Longhaul's targets, and whether they were met: arithmetic on medians.

use super::cell::{Cell, LONGEST_US, Set};
use super::ideal::Bottleneck;
use super::rounds::{Outcome, Results, ToolRuns, Verdict};
use super::tool::Kind;
use crate::contestant::Role;

/// The least share of the bottleneck on a path without loss.
const SHARE_WITHOUT_LOSS_MIN: f64 = 0.95;
/// The least rate, as a multiple of a peer's.
const PEER_RATIO_MIN: f64 = 0.98;
/// Longhaul must be faster than a peer that reaches less than this share of the bottleneck.
const IDLE_PATH_SHARE: f64 = 0.90;
/// The least rate of one job, as a multiple of that of many processes.
const MANY_PROCESSES_RATIO_MIN: f64 = 0.95;
/// The longest time of many files, as a multiple of that of one file with the same bytes.
const MANY_FILES_TIME_MAX: f64 = 1.1;

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

/// Judges all targets that have numbers, cell by cell.
pub fn judge(results: &Results, bottleneck: Bottleneck) -> Vec<JudgedTarget> {
    let mut all = Vec::new();
    for outcome in &results.outcomes {
        let Some(ours) = outcome.runs_of(Kind::Longhaul) else { continue };
        if outcome.cell.set == Set::Split {
            all.extend(
                outcome.tool_runs.iter().filter_map(|tool_runs| against_many_processes(outcome, ours, tool_runs)),
            );
            continue;
        }
        all.extend(share(outcome, ours, bottleneck));
        all.extend(outcome.tool_runs.iter().filter_map(|tool_runs| against_peer(outcome, ours, tool_runs, bottleneck)));
        all.extend(many_files(outcome, ours, results));
    }
    all
}

/// The target of a cell for the share of the bottleneck; none if the cell has no such target.
fn share_min(cell: Cell) -> Option<f64> {
    match (cell.set, cell.loss_ppm) {
        (Set::Whole | Set::Split, _) => None,
        (_, 0) => Some(SHARE_WITHOUT_LOSS_MIN),
        (_, 46) if cell.is_longest() => Some(0.90),
        (_, 3_000) if cell.is_longest() => Some(0.80),
        _ => None,
    }
}

fn share(outcome: &Outcome, ours: &ToolRuns, bottleneck: Bottleneck) -> Option<JudgedTarget> {
    let share_min = share_min(outcome.cell)?;
    let target = format!("at least {:.0} % of the bottleneck, net", share_min * 100.0);
    let reached = ours.wall_s().map(|wall_s| bottleneck.net_share(outcome.bytes, outcome.cell.rtt_s(), wall_s));
    let figure = reached.map_or_else(|| end_text(ours), |share| format!("{:.1} %", share * 100.0));
    Some(JudgedTarget { cell: outcome.cell, target, figure, met: reached.is_some_and(|share| share >= share_min) })
}

/// Judges Longhaul against a peer: Longhaul must not be slower, and must be faster if the peer leaves the path idle.
fn against_peer(outcome: &Outcome, ours: &ToolRuns, peer: &ToolRuns, bottleneck: Bottleneck) -> Option<JudgedTarget> {
    if peer.tool.kind.role() != Role::Peer {
        return None;
    }
    let name = peer.tool.title();
    let cell = outcome.cell;
    let theirs = match peer.verdict()? {
        Verdict::Done(spread) => spread.median,
        Verdict::Capped(_) => {
            let target = format!("ahead of {name} (capped)");
            let met = ours.wall_s().is_some();
            let figure = ours.wall_s().map_or_else(|| end_text(ours), |wall_s| format!("{wall_s:.2} s"));
            return Some(JudgedTarget { cell, target, figure, met });
        }
        // There is nothing to compare with; the table reports the failure.
        Verdict::Failed(_) => return None,
    };
    let is_idle = bottleneck.net_share(outcome.bytes, cell.rtt_s(), theirs) < IDLE_PATH_SHARE;
    let target = if is_idle { format!("ahead of {name}") } else { format!("at least {PEER_RATIO_MIN} × {name}") };
    let ratio = ours.wall_s().map(|wall_s| theirs / wall_s);
    let met = ratio.is_some_and(|ratio| if is_idle { ratio > 1.0 } else { ratio >= PEER_RATIO_MIN });
    let figure = ratio.map_or_else(|| end_text(ours), |ratio| format!("{ratio:.3} ×"));
    Some(JudgedTarget { cell, target, figure, met })
}

/// Judges one job against many processes with the same bytes.
fn against_many_processes(outcome: &Outcome, ours: &ToolRuns, peer: &ToolRuns) -> Option<JudgedTarget> {
    if peer.tool.kind.role() != Role::Peer {
        return None;
    }
    let name = peer.tool.title();
    let cell = outcome.cell;
    let theirs = match peer.verdict()? {
        Verdict::Done(spread) => Some(spread.median),
        Verdict::Capped(_) => None,
        Verdict::Failed(_) => return None,
    };
    let target = format!("one job at least {MANY_PROCESSES_RATIO_MIN} × {name}");
    let (met, figure) = match (ours.wall_s(), theirs) {
        (Some(ours_s), Some(theirs_s)) => {
            (theirs_s / ours_s >= MANY_PROCESSES_RATIO_MIN, format!("{:.3} ×", theirs_s / ours_s))
        }
        (Some(ours_s), None) => (true, format!("{ours_s:.2} s, {name} capped")),
        (None, _) => (false, end_text(ours)),
    };
    Some(JudgedTarget { cell, target, figure, met })
}

/// Judges many files against one file of the same bytes, over the longest path.
fn many_files(outcome: &Outcome, ours: &ToolRuns, results: &Results) -> Option<JudgedTarget> {
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
    let one = results.outcomes.iter().find(|outcome| outcome.cell == one)?.runs_of(Kind::Longhaul)?.wall_s()?;
    let ratio = ours.wall_s().map(|wall_s| wall_s / one);
    Some(JudgedTarget {
        cell,
        target: format!("at most {MANY_FILES_TIME_MAX} × the time of one file of the same bytes"),
        figure: ratio.map_or_else(|| end_text(ours), |ratio| format!("{ratio:.3} ×")),
        met: ratio.is_some_and(|ratio| ratio <= MANY_FILES_TIME_MAX),
    })
}

/// The text in place of a figure, for a tool that did not deliver.
fn end_text(tool_runs: &ToolRuns) -> String {
    match tool_runs.verdict() {
        Some(Verdict::Capped(Some(share))) => format!("capped, {:.1} % had arrived", share * 100.0),
        Some(Verdict::Capped(None)) => "capped".into(),
        Some(Verdict::Failed(reason)) => format!("failed: {reason}"),
        Some(Verdict::Done(_)) | None => "not run".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bed::RunEnd;
    use super::super::rounds::tests::{run_of, samples, tool_runs_of};
    use super::*;

    const BOTTLENECK: Bottleneck = Bottleneck { rate_bit_s: 1e9, mtu: 9000 };

    fn outcome(set: Set, loss_ppm: u32, tool_runs: Vec<ToolRuns>) -> Outcome {
        Outcome { cell: Cell::new(set, LONGEST_US, loss_ppm), bytes: set.bytes(1), tool_runs }
    }

    fn judged(outcomes: Vec<Outcome>) -> Vec<(String, String, bool)> {
        let all = judge(&Results { outcomes, left_out: Vec::new() }, BOTTLENECK);
        all.into_iter().map(|judged| (judged.target, judged.figure, judged.met)).collect()
    }

    #[test]
    fn shares_and_peers_are_judged() {
        // The ideal is 10.69 s.
        let tool_runs = vec![
            tool_runs_of(Kind::Longhaul, 11.0),
            tool_runs_of(Kind::Xrdcp, 10.9),
            tool_runs_of(Kind::Gridftp, 12.0),
        ];
        let all = judged(vec![outcome(Set::Large, 0, tool_runs)]);
        assert_eq!(all[0], ("at least 95 % of the bottleneck, net".into(), "97.2 %".into(), true));
        assert_eq!(all[1], ("at least 0.98 × xrdcp".into(), "0.991 ×".into(), true));
        assert_eq!(all[2], ("ahead of globus-url-copy".into(), "1.091 ×".into(), true));
        let tool_runs =
            vec![tool_runs_of(Kind::Longhaul, 15.0), tool_runs_of(Kind::Xrdcp, 14.9), tool_runs_of(Kind::Iperf3, 1.0)];
        let all = judged(vec![outcome(Set::Large, 3_000, tool_runs)]);
        assert_eq!(all.len(), 2, "a reference is not a peer");
        assert!(!all[0].2, "{all:?}");
        assert_eq!(all[1], ("ahead of xrdcp".into(), "0.993 ×".into(), false));
    }

    #[test]
    fn caps_and_failures_are_judged() {
        let capped = ToolRuns { runs: vec![run_of(RunEnd::Capped(Some(0.5)), 60.0)], ..tool_runs_of(Kind::Xrdcp, 1.0) };
        let failed =
            ToolRuns { runs: vec![run_of(RunEnd::Failed("no".into()), 1.0)], ..tool_runs_of(Kind::Rclone, 1.0) };
        let all =
            judged(vec![outcome(Set::Small, 0, vec![tool_runs_of(Kind::Longhaul, 11.0), capped.clone(), failed])]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], ("ahead of xrdcp (capped)".into(), "11.00 s".into(), true));
        let ours = ToolRuns { runs: capped.runs, ..tool_runs_of(Kind::Longhaul, 1.0) };
        let all = judged(vec![outcome(Set::Small, 46, vec![ours, tool_runs_of(Kind::Xrdcp, 50.0)])]);
        assert!(all.iter().all(|(_, figure, met)| !met && figure == "capped, 50.0 % had arrived"), "{all:?}");
    }

    #[test]
    fn many_files_and_processes_are_judged() {
        let ours = |wall_s| vec![tool_runs_of(Kind::Longhaul, wall_s)];
        let mut all = vec![outcome(Set::Large, 0, ours(11.0)), outcome(Set::Small, 0, ours(13.0))];
        all.extend([outcome(Set::Whole, 0, ours(14.0)), outcome(Set::Mixed, 0, ours(15.0))]);
        all.push(outcome(Set::Split, 46, vec![tool_runs_of(Kind::Longhaul, 10.0), tool_runs_of(Kind::XrdcpMany, 9.4)]));
        let all = judged(all);
        let figures_of = |words: &str| -> Vec<(String, bool)> {
            let meant = all.iter().filter(|(target, ..)| target.contains(words));
            meant.map(|(_, figure, met)| (figure.clone(), *met)).collect()
        };
        assert_eq!(figures_of("one file of the same"), [("1.182 ×".to_owned(), false), ("1.071 ×".to_owned(), true)]);
        assert_eq!(figures_of("one job"), [("0.940 ×".to_owned(), false)]);
    }

    #[test]
    fn longhaul_close_to_the_ideal_meets_all_targets() {
        let all = judge(&samples(), BOTTLENECK);
        assert!(all.iter().all(|judged| judged.met), "{:?}", all.iter().find(|judged| !judged.met));
        assert_eq!(all.iter().filter(|judged| judged.target.contains("bottleneck")).count(), 4 * 5 + 4 * 2);
    }
}

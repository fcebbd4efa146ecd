//! Locates the faults behind alarms, from the verdicts on all paths.

use std::collections::BTreeMap;

use model::v1::probe::Direction;
use model::v1::watch::AlarmKind;

use super::places::{FaultLocation, segments, test_for};
use super::{Watch, WatchedPath};
use crate::alarms::Change;
use crate::config::Config;
use crate::judge::Finding;
use crate::judge::ports::LossByPort;
use crate::loss_rates::{self, PathLoss};
use crate::segments::{JudgedPath, NETWORK, PathVerdict, blame};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// A direction of a path, and the segments that it crosses.
struct DirectedPath<'a> {
    key: &'a (String, String),
    path: &'a WatchedPath,
    direction: Direction,
    segments: Vec<String>,
}

impl DirectedPath<'_> {
    fn losses(&self) -> PathLoss<'_> {
        PathLoss { segments: self.segments.clone(), loss: self.path.judge.losses(self.direction) }
    }
}

impl Watch {
    /// Locates all alarms of a kind: sets the segment, or the host, that is blamed.
    pub(super) fn locate(
        &self,
        kind: AlarmKind,
        location: FaultLocation,
        paths: &mut BTreeMap<(String, String), WatchedPath>,
        config: &Config,
    ) -> Vec<Change> {
        let directed: Vec<DirectedPath<'_>> =
            paths.iter().flat_map(|(key, path)| both(key, path, location, config)).collect();
        let judged =
            |one: &DirectedPath<'_>| JudgedPath { segments: one.segments.clone(), verdict: verdict(one, kind) };
        let mut segments = blame(&directed.iter().map(judged).collect::<Vec<_>>());
        if kind == AlarmKind::Loss {
            let by_counts = locate_losses(&directed).into_iter();
            segments.iter_mut().zip(by_counts).for_each(|(segment, found)| *segment = found.or(segment.take()));
        }
        let blamed_path = |(one, segment): (&DirectedPath<'_>, Option<String>)| {
            Some(BlamedPath { path: one.key.clone(), direction: one.direction, segment: segment? })
        };
        let blamed: Vec<BlamedPath> = directed.iter().zip(segments).filter_map(blamed_path).collect();
        if kind == AlarmKind::Loss {
            blame_members(&blamed, paths);
        }
        let mut alarms = self.alarms.lock();
        let mut changes = Vec::new();
        for BlamedPath { path: (from, to), direction, segment } in &blamed {
            for direction in [Some(*direction), None] {
                changes.extend(alarms.set_segment(from, to, kind, direction, segment).map(Change::Changed));
            }
        }
        changes
    }
}

/// A bad path with the segment that is blamed.
struct BlamedPath {
    path: (String, String),
    direction: Direction,
    segment: String,
}

/// Adds up the losses of all paths over a blamed segment: each path may have lost too few packets to show that always the same source ports lose.
fn blame_members(blamed: &[BlamedPath], paths: &mut BTreeMap<(String, String), WatchedPath>) {
    let mut by_segment: BTreeMap<&str, Vec<&BlamedPath>> = BTreeMap::new();
    for bad in blamed.iter().filter(|bad| bad.segment != NETWORK) {
        by_segment.entry(&bad.segment).or_default().push(bad);
    }
    for of_segment in by_segment.values() {
        let spreads = |bad: &&&BlamedPath| paths.get(&bad.path)?.judge.spreads(bad.direction);
        let sum = |all: [LossByPort; 2], one: [LossByPort; 2]| [all[0].plus(one[0]), all[1].plus(one[1])];
        let all = of_segment.iter().filter_map(|bad| spreads(&bad)).reduce(sum);
        if all.is_some_and(|all| all.iter().any(|spread| spread.is_significant())) {
            for bad in of_segment {
                if let Some(path) = paths.get_mut(&bad.path) {
                    path.judge.blame_member(bad.direction);
                }
            }
        }
    }
}

/// Drops the losses of paths over the segment of each loss that has ended, so that they are not counted for a later fault.
pub(super) fn forget_losses(ended: &[Change], paths: &mut BTreeMap<(String, String), WatchedPath>, config: &Config) {
    for change in ended {
        let Change::Ended(alarm) = change else { continue };
        let Some(direction) = alarm.direction.filter(|_| alarm.kind == AlarmKind::Loss) else { continue };
        for ((from, to), path) in paths.iter_mut() {
            for own_direction in BOTH {
                let passes = segments(config, from, to, own_direction).contains(&alarm.segment);
                let is_own = (from, to) == (&alarm.from, &alarm.to) && own_direction == direction;
                if passes || is_own {
                    path.judge.forget_loss(own_direction);
                }
            }
        }
    }
}

/// Both directions of a path.
fn both<'a>(
    key: &'a (String, String),
    path: &'a WatchedPath,
    location: FaultLocation,
    config: &Config,
) -> [DirectedPath<'a>; 2] {
    let (from, to) = key;
    BOTH.map(|direction| {
        let segments = match location {
            FaultLocation::Segments => segments(config, from, to, direction),
            FaultLocation::Hosts => vec![from.clone(), to.clone()],
        };
        DirectedPath { key, path, direction, segments }
    })
}

/// The verdict on a path, as a finding of a kind or its absence tells.
fn verdict(one: &DirectedPath<'_>, kind: AlarmKind) -> PathVerdict {
    let DirectedPath { path, direction, .. } = one;
    if is_found(&path.findings, kind, *direction) {
        return PathVerdict::Bad;
    }
    let may_be_first = match kind {
        // A rare loss is found on one path hours before it is found on others: no finding means nothing.
        AlarmKind::Loss => return PathVerdict::Unknown,
        AlarmKind::Throughput => path.judge.may_be_first_of_shift(*direction),
        AlarmKind::Queue => path.judge.may_be_first_long_queue(*direction),
        _ => false,
    };
    match (path.judge.is_known(test_for(kind)), may_be_first) {
        (false, _) => PathVerdict::Unknown,
        (true, true) => PathVerdict::Doubtful,
        (true, false) => PathVerdict::Good,
    }
}

/// The segments to blame for the losses that were found, by the counts of all paths.
fn locate_losses(directed: &[DirectedPath<'_>]) -> Vec<Option<String>> {
    loss_rates::locate(&directed.iter().map(DirectedPath::losses).collect::<Vec<_>>())
}

/// Whether a path has a finding of a kind in a direction. A change of route implies one of delay, even before that is found.
fn is_found(findings: &[Finding], kind: AlarmKind, direction: Direction) -> bool {
    let is_it = |found: AlarmKind| found == kind || kind == AlarmKind::Delay && found == AlarmKind::Route;
    let is_of = |known: Option<Direction>| known.is_none_or(|known| known == direction);
    findings.iter().any(|finding| is_it(finding.kind) && is_of(finding.direction))
}

#[cfg(test)]
mod tests {
    use model::v1::watch::{CauseKind, Health};

    use super::*;

    #[test]
    fn a_change_of_route_implies_a_change_of_delay() {
        let finding = |kind: AlarmKind, direction: Option<Direction>| Finding {
            kind,
            direction,
            severity: Health::Warning,
            evidence: String::new(),
            cause: CauseKind::RouteChange,
        };
        let routed = [finding(AlarmKind::Route, Some(Direction::Forward))];
        assert!(is_found(&routed, AlarmKind::Delay, Direction::Forward));
        assert!(!is_found(&routed, AlarmKind::Delay, Direction::Reverse));
        assert!(!is_found(&routed, AlarmKind::Loss, Direction::Forward));
        let slower = [finding(AlarmKind::Delay, None)];
        assert!(is_found(&slower, AlarmKind::Delay, Direction::Reverse));
        assert!(!is_found(&slower, AlarmKind::Route, Direction::Forward), "routers may be the same");
    }
}

//! Locates the trouble of alarms, from the verdicts on all paths.

use std::collections::BTreeMap;

use model::v1::probe::Direction;
use model::v1::watch::AlarmKind;

use super::places::{FaultLocation, finder, segments};
use super::{Path, Watch};
use crate::alarms::Change;
use crate::config::Config;
use crate::judge::Finding;
use crate::judge::loss::upper_bound;
use crate::judge::ports::LossByPort;
use crate::segments::{Crossing, Evidence, NETWORK, PathVerdict, blame};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// What paths over a segment are held against that are not bad: the losses that are found on others over it.
#[derive(Clone, Copy, Debug)]
struct ExpectedLoss {
    /// That of the loss that is hardest to see.
    rate: f64,
    /// Since when the youngest of them is there: what was lost before is of another trouble, and what was not speaks for nobody.
    since: i64,
    /// Packets that these paths lost, and the same times what their bins differ more than by chance.
    lost: f64,
    clumped: f64,
}

/// So many packets lost one by one are taken for granted before bursts are believed.
const ONE_BY_ONE: f64 = 10.0;

impl ExpectedLoss {
    /// Packets of a burst, about; 1 where they are lost one by one.
    fn burst(&self) -> f64 {
        (1.0 + self.clumped / (self.lost + ONE_BY_ONE)).max(1.0)
    }
}

/// A direction of a path, and the segments that it crosses.
struct DirectedPath<'a> {
    key: &'a (String, String),
    path: &'a Path,
    direction: Direction,
    segments: Vec<String>,
}

impl Watch {
    /// Names the segment, or the host, of all alarms of a kind.
    pub(super) fn place(
        &self,
        kind: AlarmKind,
        location: FaultLocation,
        paths: &mut BTreeMap<(String, String), Path>,
        config: &Config,
    ) -> Vec<Change> {
        let directed: Vec<DirectedPath<'_>> =
            paths.iter().flat_map(|(key, path)| both(key, path, location, config)).collect();
        let expected = if kind == AlarmKind::Loss { expected(&directed) } else { BTreeMap::new() };
        let crossing =
            |one: &DirectedPath<'_>| Crossing { segments: one.segments.clone(), fares: fares(one, kind, &expected) };
        let crossings: Vec<Crossing> = directed.iter().map(crossing).collect();
        let placed = |(one, segment): (&DirectedPath<'_>, Option<String>)| {
            Some(BlamedPath { path: one.key.clone(), direction: one.direction, segment: segment? })
        };
        let blamed: Vec<BlamedPath> = directed.iter().zip(blame(&crossings)).filter_map(placed).collect();
        if kind == AlarmKind::Loss {
            blame_members(&blamed, paths);
        }
        let mut alarms = self.alarms.lock();
        let mut changes = Vec::new();
        for BlamedPath { path: (from, to), direction, segment } in &blamed {
            for direction in [Some(*direction), None] {
                changes.extend(alarms.place(from, to, kind, direction, segment).map(Change::Changed));
            }
        }
        changes
    }
}

/// A bad path, and the segment that is blamed.
struct BlamedPath {
    path: (String, String),
    direction: Direction,
    segment: String,
}

/// Paths that lose on one segment are looked at together: each may have lost too little to tell that it is always the same source ports.
fn blame_members(blamed: &[BlamedPath], paths: &mut BTreeMap<(String, String), Path>) {
    let mut by_segment: BTreeMap<&str, Vec<&BlamedPath>> = BTreeMap::new();
    for placed in blamed.iter().filter(|placed| placed.segment != NETWORK) {
        by_segment.entry(&placed.segment).or_default().push(placed);
    }
    for together in by_segment.values() {
        let spreads = |placed: &&&BlamedPath| paths.get(&placed.path)?.judge.spreads(placed.direction);
        let together_with = |all: [LossByPort; 2], one: [LossByPort; 2]| [all[0].and(one[0]), all[1].and(one[1])];
        let all = together.iter().filter_map(|placed| spreads(&placed)).reduce(together_with);
        if all.is_some_and(|all| all.iter().any(|spread| spread.is_no_chance())) {
            for placed in together {
                if let Some(path) = paths.get_mut(&placed.path) {
                    path.judge.blame_member(placed.direction);
                }
            }
        }
    }
}

/// The loss of a segment is over: what paths over it lost meanwhile, and was found at others of them only, is not held against what comes.
pub(super) fn forget_losses(ended: &[Change], paths: &mut BTreeMap<(String, String), Path>, config: &Config) {
    for change in ended {
        let Change::Ended(alarm) = change else { continue };
        let Some(direction) = alarm.direction.filter(|_| alarm.kind == AlarmKind::Loss) else { continue };
        for ((from, to), path) in paths.iter_mut() {
            for own in BOTH {
                let passes = segments(config, from, to, own).contains(&alarm.segment);
                let is_itself = (from, to) == (&alarm.from, &alarm.to) && own == direction;
                if passes || is_itself {
                    path.judge.forget_loss(own);
                }
            }
        }
    }
}

/// Both directions of a path.
fn both<'a>(
    key: &'a (String, String),
    path: &'a Path,
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

/// What is expected of the other paths over each segment on which a path is found to lose.
fn expected(directed: &[DirectedPath<'_>]) -> BTreeMap<String, ExpectedLoss> {
    let mut expected: BTreeMap<String, ExpectedLoss> = BTreeMap::new();
    for one in directed {
        let Some(found) = one.path.judge.loss(one.direction) else { continue };
        let since = found.since;
        let (lost, _) = one.path.judge.counts(one.direction, since);
        let clumped = lost as f64 * (one.path.judge.clumping(one.direction, since) - 1.0);
        for segment in &one.segments {
            let new = ExpectedLoss { rate: found.rate(), since, lost: lost as f64, clumped };
            expected
                .entry(segment.clone())
                .and_modify(|known| {
                    known.rate = known.rate.min(new.rate);
                    known.since = known.since.max(new.since);
                    known.lost += new.lost;
                    known.clumped += new.clumped;
                })
                .or_insert(new);
        }
    }
    expected
}

/// What a path that is not found to lose says of a segment on which others are.
fn evidence(one: &DirectedPath<'_>, expected: &ExpectedLoss) -> Evidence {
    let (lost, sent) = one.path.judge.counts(one.direction, expected.since);
    let bursts = lost as f64 / expected.burst();
    let expected = expected.rate * sent as f64 / expected.burst();
    Evidence { hits: bursts, expected, clears: upper_bound(bursts.ceil() as u64) < expected }
}

fn fares(one: &DirectedPath<'_>, kind: AlarmKind, expected: &BTreeMap<String, ExpectedLoss>) -> PathVerdict {
    let DirectedPath { path, direction, segments, .. } = one;
    let all = |evidence: Evidence| PathVerdict::Unproven(vec![evidence; segments.len()]);
    let doubtful = Evidence { hits: 1.0, expected: 1.0, clears: false };
    if is_found(&path.findings, kind, *direction) {
        return PathVerdict::Bad;
    }
    if !path.judge.is_known(finder(kind)) {
        return all(Evidence::default());
    }
    match kind {
        AlarmKind::Throughput if path.judge.is_doubtful(*direction) => all(doubtful),
        AlarmKind::Queue if path.judge.is_queue_doubtful(*direction) => all(doubtful),
        AlarmKind::Loss => {
            // A segment on which nobody is found to lose is no suspect.
            let of = |segment: &String| expected.get(segment).map_or(Evidence::default(), |it| evidence(one, it));
            PathVerdict::Unproven(segments.iter().map(of).collect())
        }
        _ => PathVerdict::Good,
    }
}

/// Whether a path is found to have a kind of trouble in a direction. One whose routers are others has another delay, even where that is not found yet.
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
    fn other_routers_are_another_delay() {
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

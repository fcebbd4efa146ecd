//! Where the trouble of alarms is, from how all paths fare.

use std::collections::BTreeMap;

use model::v1::probe::Direction;
use model::v1::watch::AlarmKind;

use super::places::{Where, finder, segments};
use super::{Path, Watch};
use crate::alarms::Change;
use crate::config::Config;
use crate::judge::Finding;
use crate::judge::loss::upper_bound;
use crate::judge::ports::Spread;
use crate::segments::{Crossing, Fares, NETWORK, blame};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// What a path is held against that is not bad, for a loss that is found elsewhere.
#[derive(Clone, Copy, Debug)]
struct Weakest {
    rate: f64,
    /// Since when the youngest of them is there: what was lost before is of another trouble, and what was not speaks for nobody.
    since: i64,
}

impl Watch {
    /// Names the segment, or the host, of all alarms of a kind.
    pub(super) fn place(
        &self,
        (kind, is_of): (AlarmKind, Where),
        paths: &mut BTreeMap<(String, String), Path>,
        config: &Config,
    ) -> Vec<Change> {
        let weakest = (kind == AlarmKind::Loss).then(|| weakest(paths)).flatten();
        let mut names = Vec::new();
        let mut crossings = Vec::new();
        for ((from, to), path) in paths.iter() {
            for direction in BOTH {
                let segments = match is_of {
                    Where::Segments => segments(config, from, to, direction),
                    Where::Hosts => vec![from.clone(), to.clone()],
                };
                names.push((from.clone(), to.clone(), direction));
                crossings.push(Crossing { segments, fares: fares(path, kind, direction, weakest) });
            }
        }
        let blamed: Vec<Placed> = names
            .into_iter()
            .zip(blame(&crossings))
            .filter_map(|((from, to, direction), segment)| {
                Some(Placed { path: (from, to), direction, segment: segment? })
            })
            .collect();
        if kind == AlarmKind::Loss {
            blame_members(&blamed, paths);
        }
        let mut alarms = self.alarms.lock();
        let mut changes = Vec::new();
        for Placed { path: (from, to), direction, segment } in &blamed {
            for direction in [Some(*direction), None] {
                changes.extend(alarms.place(from, to, kind, direction, segment).map(Change::Changed));
            }
        }
        changes
    }
}

/// A bad path, and where its trouble is.
struct Placed {
    path: (String, String),
    direction: Direction,
    segment: String,
}

/// Paths that lose on one segment are looked at together: each may have lost too little to tell that it is always the same source ports.
fn blame_members(blamed: &[Placed], paths: &mut BTreeMap<(String, String), Path>) {
    let mut by_segment: BTreeMap<&str, Vec<&Placed>> = BTreeMap::new();
    for placed in blamed.iter().filter(|placed| placed.segment != NETWORK) {
        by_segment.entry(&placed.segment).or_default().push(placed);
    }
    for together in by_segment.values() {
        let spread = |placed: &&&Placed| paths.get(&placed.path)?.judge.spread(placed.direction);
        let all = together.iter().filter_map(|placed| spread(&placed)).reduce(Spread::and);
        if all.is_some_and(|all| all.is_no_chance_together()) {
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

/// The loss that is hardest to see, of all that are found.
fn weakest(paths: &BTreeMap<(String, String), Path>) -> Option<Weakest> {
    let found = paths.values().flat_map(|path| BOTH.map(|direction| path.judge.loss(direction))).flatten();
    let one = found.map(|found| Weakest { rate: found.rate(), since: found.since });
    one.reduce(|a, b| Weakest { rate: a.rate.min(b.rate), since: a.since.max(b.since) })
}

fn fares(path: &Path, kind: AlarmKind, direction: Direction, weakest: Option<Weakest>) -> Fares {
    if is_found(&path.findings, kind, direction) {
        return Fares::Bad;
    }
    if !path.judge.is_known(finder(kind)) {
        return Fares::Unproven { hits: 0, expected: 0.0 };
    }
    match (kind, weakest) {
        (AlarmKind::Throughput, _) if path.judge.is_doubtful(direction) => Fares::Unproven { hits: 1, expected: 1.0 },
        (AlarmKind::Queue, _) if path.judge.is_queue_doubtful(direction) => Fares::Unproven { hits: 1, expected: 1.0 },
        (AlarmKind::Loss, Some(weakest)) => {
            let (lost, sent) = path.judge.counts(direction, weakest.since);
            let expected = weakest.rate * sent as f64;
            match upper_bound(lost) < expected {
                true => Fares::Good,
                false => Fares::Unproven { hits: lost, expected },
            }
        }
        _ => Fares::Good,
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

//! The routers of one direction, and its MTU.

use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind, Health};

use crate::judge::{Finding, in_direction};
use crate::observation::DirectionFacts;

/// A route becomes the normal one when it was seen this often in a row.
const NORMAL_AFTER: u32 = 3;
/// Another route replaces the normal one when it was seen this often in a row.
const ADOPTED_AFTER: u32 = 18;

/// Judges the routers and the MTU of one direction.
#[derive(Clone, Debug, Default)]
pub struct RouteJudge {
    expected: Vec<String>,
    normal: Vec<String>,
    last: DirectionFacts,
    /// How often `last` was seen in a row.
    seen: u32,
    mtu_normal: Option<u32>,
    /// Tests in a row with a smaller MTU than the normal one.
    mtu_low: u32,
}

/// Whether two routes may be the same: a router that did not answer may be any router.
fn is_same(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_empty() || b.is_empty() || a == b)
}

impl RouteJudge {
    pub fn new(expected: &[String]) -> RouteJudge {
        RouteJudge { expected: expected.to_vec(), ..RouteJudge::default() }
    }

    /// Sets the routers that the path should pass.
    pub fn expect_hops(&mut self, expected: &[String]) {
        self.expected = expected.to_vec();
    }

    /// Adds the result of a test.
    pub fn add(&mut self, facts: &DirectionFacts) {
        // A trace that ended early does not show a change of route.
        let is_same_as_last = is_same(&facts.hops, &self.last.hops);
        if facts.is_whole || self.last.hops.is_empty() {
            self.seen = if is_same_as_last { self.seen + 1 } else { 1 };
        }
        if let Some(mtu) = facts.mtu_bytes {
            let is_low = self.mtu_normal.is_some_and(|normal| mtu < normal);
            self.mtu_low = if is_low { self.mtu_low + 1 } else { 0 };
            if !is_low || self.mtu_low >= ADOPTED_AFTER {
                self.mtu_normal = Some(mtu);
                self.mtu_low = 0;
            }
        }
        if facts.is_whole {
            self.last.hops.clone_from(&facts.hops);
        }
        self.last = DirectionFacts { hops: std::mem::take(&mut self.last.hops), ..facts.clone() };
        let is_normal = self.normal.is_empty() && self.seen >= NORMAL_AFTER || self.seen >= ADOPTED_AFTER;
        if is_normal {
            self.normal.clone_from(&self.last.hops);
        }
    }

    /// Routers, nearest first.
    pub fn hops(&self) -> &[String] {
        &self.last.hops
    }

    pub fn mtu_bytes(&self) -> Option<u32> {
        self.last.mtu_bytes
    }

    pub fn lossy_member(&self) -> Option<&str> {
        self.last.lossy_member.as_deref()
    }

    pub fn find(&self, direction: Direction, findings: &mut Vec<Finding>) {
        let mut push = |kind, severity, evidence, cause| {
            findings.push(Finding { kind, direction: Some(direction), severity, evidence, cause });
        };
        let direction_text = in_direction(Some(direction));
        if let Some(missing) = self.missing() {
            let evidence = format!(
                "{direction_text}, packets do not pass {missing}, which they should: they pass {}",
                hop_list(&self.last.hops)
            );
            push(AlarmKind::Route, Health::Critical, evidence, CauseKind::RouteChange);
        } else if !self.normal.is_empty() && !self.last.hops.is_empty() && !is_same(&self.normal, &self.last.hops) {
            let evidence = format!(
                "{direction_text}, the routers are {}; they were {}",
                hop_list(&self.last.hops),
                hop_list(&self.normal)
            );
            push(AlarmKind::Route, Health::Warning, evidence, CauseKind::RouteChange);
        }
        let mtu = self.last.mtu_bytes;
        if self.last.black_hole {
            let evidence = format!(
                "{direction_text}, packets of more than {} bytes vanish without an ICMP message",
                mtu.unwrap_or(0)
            );
            push(AlarmKind::Mtu, Health::Critical, evidence, CauseKind::MtuHole);
        } else if let (Some(now), Some(normal), true) = (mtu, self.mtu_normal, self.mtu_low >= 2) {
            let evidence = format!("{direction_text}, packets of up to {now} bytes pass; before, {normal} bytes did");
            push(AlarmKind::Mtu, Health::Warning, evidence, CauseKind::MtuHole);
        }
    }

    /// The first router that the path should pass, and does not.
    fn missing(&self) -> Option<&str> {
        if self.last.hops.is_empty() {
            return None;
        }
        let mut left = self.last.hops.iter();
        self.expected.iter().find(|wanted| !left.any(|hop| hop == *wanted)).map(String::as_str)
    }
}

fn hop_list(hops: &[String]) -> String {
    let names: Vec<&str> = hops.iter().map(|hop| if hop.is_empty() { "*" } else { hop }).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(hops: &[&str], mtu: u32) -> DirectionFacts {
        let hops = hops.iter().map(|hop| (*hop).to_owned()).collect();
        DirectionFacts { hops, is_whole: true, mtu_bytes: Some(mtu), ..DirectionFacts::default() }
    }

    fn found(judge: &RouteJudge) -> Vec<(AlarmKind, Health)> {
        let mut findings = Vec::new();
        judge.find(Direction::Forward, &mut findings);
        findings.into_iter().map(|finding| (finding.kind, finding.severity)).collect()
    }

    #[test]
    fn another_route_is_a_finding_until_it_is_normal() {
        let mut judge = RouteJudge::new(&[]);
        (0..3).for_each(|_| judge.add(&facts(&["a", "b", "c"], 9_000)));
        judge.add(&facts(&["a", "", "c"], 9_000));
        judge.add(&DirectionFacts { is_whole: false, ..facts(&["a"], 9_000) });
        assert!(found(&judge).is_empty(), "a silent router, or a trace that broke off, is no other route");
        judge.add(&facts(&["a", "x", "c"], 9_000));
        assert_eq!(found(&judge), [(AlarmKind::Route, Health::Warning)]);
        (0..20).for_each(|_| judge.add(&facts(&["a", "x", "c"], 9_000)));
        assert!(found(&judge).is_empty());
    }

    #[test]
    fn a_route_that_is_not_the_expected_one_stays_wrong() {
        let mut judge = RouteJudge::new(&["a".to_owned(), "c".to_owned()]);
        (0..30).for_each(|_| judge.add(&facts(&["a", "b", "c"], 9_000)));
        assert!(found(&judge).is_empty());
        (0..30).for_each(|_| judge.add(&facts(&["a", "b", "d"], 9_000)));
        assert_eq!(found(&judge), [(AlarmKind::Route, Health::Critical)]);
    }

    #[test]
    fn a_smaller_mtu_and_a_black_hole_are_findings() {
        let mut judge = RouteJudge::new(&[]);
        (0..3).for_each(|_| judge.add(&facts(&["a"], 9_000)));
        judge.add(&facts(&["a"], 1_500));
        assert!(found(&judge).is_empty(), "once may be chance");
        judge.add(&facts(&["a"], 1_500));
        assert_eq!(found(&judge), [(AlarmKind::Mtu, Health::Warning)]);
        judge.add(&DirectionFacts { black_hole: true, ..facts(&["a"], 1_400) });
        assert_eq!(found(&judge), [(AlarmKind::Mtu, Health::Critical)]);
    }
}

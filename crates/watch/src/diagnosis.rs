//! Diagnosis at an alarm: tests that the schedule does not contain, ordered once, so that causes that look alike are told apart.
//!
//! An alarm of loss or throughput asks which of the path's members loses, whether large packets pass, and which routers packets pass. One test of a path with
//! many source ports answers all three ([`orders`]). Its result explains findings like counters of interfaces do, and raises none.

pub mod orders;

use std::collections::{HashMap, VecDeque};

use model::v1::probe::Direction;
use model::v1::probe::route::{Route, Routes, Suspect, SuspectBy};
use model::v1::watch::{AlarmKind, CauseKind};

use crate::judge::Finding;
use crate::time;

const HOUR_MS: i64 = 3_600_000;
/// A path is diagnosed again after this time at the earliest, milliseconds: an alarm may come and go.
const PATH_EVERY_MS: i64 = HOUR_MS;
/// A diagnosis this old no longer explains an alarm, milliseconds.
const LASTS_MS: i64 = 24 * HOUR_MS;
/// Routers that evidence names.
const ROUTERS_SHOWN: usize = 16;

/// Whether an alarm of this kind is diagnosed.
pub fn is_diagnosed(kind: AlarmKind) -> bool {
    matches!(kind, AlarmKind::Loss | AlarmKind::Throughput)
}

/// The orders of the last hour.
#[derive(Debug, Default)]
pub struct DiagnosisBudget {
    ordered: VecDeque<i64>,
    by_path: HashMap<(String, String), i64>,
}

impl DiagnosisBudget {
    /// Whether a path may be diagnosed now; if so, that is counted.
    pub fn admit(&mut self, path: (&str, &str), per_hour: u32, now: i64) -> bool {
        self.by_path.retain(|_, at| now - *at < PATH_EVERY_MS);
        while self.ordered.pop_front_if(|at| now - *at >= HOUR_MS).is_some() {}
        let key = (path.0.to_owned(), path.1.to_owned());
        if self.ordered.len() >= per_hour as usize || self.by_path.contains_key(&key) {
            return false;
        }
        self.ordered.push_back(now);
        self.by_path.insert(key, now);
        true
    }
}

/// What the tests of a path showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// When they began, milliseconds since 1970.
    at: i64,
    /// Forward and reverse; or why the tests failed.
    outcome: Result<[Option<Diagnosed>; 2], String>,
}

/// What the tests showed of one direction.
#[derive(Clone, Debug, PartialEq)]
struct Diagnosed {
    text: String,
    has_lossy_member: bool,
    black_hole: bool,
}

impl Diagnosis {
    /// The diagnosis from the report of a test of a path.
    pub fn of(routes: &Routes, at: i64) -> Diagnosis {
        let both = [Some(diagnosed(&routes.forward)), routes.reverse.as_ref().map(diagnosed)];
        Diagnosis { at, outcome: Ok(both) }
    }

    /// A diagnosis that could not be made.
    pub fn failed(why: String, at: i64) -> Diagnosis {
        Diagnosis { at, outcome: Err(why) }
    }

    /// Whether it may still explain findings: it is young, or a finding that it may explain lasts.
    pub fn is_of_use(&self, findings: &[Finding], now: i64) -> bool {
        let age = now - self.at;
        age < PATH_EVERY_MS || age < LASTS_MS && findings.iter().any(|finding| is_diagnosed(finding.kind))
    }

    /// Adds what the tests showed to the evidence of a finding, and the cause where only they tell it.
    pub fn explain(&self, finding: &mut Finding) {
        if !is_diagnosed(finding.kind) {
            return;
        }
        let at = time::show(self.at);
        let both = match &self.outcome {
            Err(why) => {
                finding.evidence.push_str(&format!("; the tests that were ordered at {at} failed: {why}"));
                return;
            }
            Ok(both) => both,
        };
        let directions = finding.direction.map_or(vec![Direction::Forward, Direction::Reverse], |known| vec![known]);
        for direction in directions {
            let Some(found) = &both[usize::from(direction == Direction::Reverse)] else { continue };
            finding.evidence.push_str(&format!("; tests ordered at {at}, {}: {}", direction.word(), found.text));
            let is_open = matches!(finding.cause, CauseKind::RandomLoss | CauseKind::Unknown);
            if is_open && found.has_lossy_member {
                finding.cause = CauseKind::LossyMember;
            } else if finding.cause == CauseKind::Unknown && found.black_hole {
                finding.cause = CauseKind::MtuHole;
            }
        }
    }
}

fn diagnosed(route: &Route) -> Diagnosed {
    let mut parts = Vec::new();
    let mut has_lossy_member = false;
    if let Some(sweep) = &route.sweep {
        let (sent, answered) = sweep.flows.iter().fold((0u64, 0u64), |(sent, answered), flow| {
            (sent + u64::from(flow.sent), answered + u64::from(flow.answered))
        });
        let lost = sent.saturating_sub(answered);
        let (ports, paths) = (sweep.flows.len(), sweep.paths.len());
        parts.push(format!("{lost} of {sent} probes from {ports} source ports were lost there or on their way back, over {paths} path(s)"));
        // The answers come back by other members: what they lost belongs to the other direction.
        let is_forward = |suspect: &&Suspect| suspect.by == SuspectBy::Loss && 2 * suspect.lost_forward >= suspect.lost;
        if let Some(suspect) = sweep.suspects.iter().filter(|_| sweep.judged).find(is_forward) {
            has_lossy_member = true;
            parts.push(suspect.text.clone());
        }
    }
    let mtu = route.mtu.as_ref();
    parts.extend(mtu.map(|mtu| {
        let vanish = if mtu.black_hole { ", larger ones vanish without an ICMP message" } else { "" };
        format!("packets of up to {} bytes pass{vanish}", mtu.mtu_bytes)
    }));
    let routers = route.path.hops.iter().map(|hop| hop.routers.first().map_or("*", |router| router.address.as_str()));
    let mut routers: Vec<&str> = routers.collect();
    if routers.len() > ROUTERS_SHOWN {
        routers.truncate(ROUTERS_SHOWN);
        routers.push("…");
    }
    if !routers.is_empty() {
        parts.push(format!("routers {}", routers.join(" ")));
    }
    if parts.is_empty() {
        parts.push("nothing answered".to_owned());
    }
    Diagnosed { text: parts.join(", "), has_lossy_member, black_hole: mtu.is_some_and(|mtu| mtu.black_hole) }
}

#[cfg(test)]
mod tests;

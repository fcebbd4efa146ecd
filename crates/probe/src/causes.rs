//! Derives causes from all tests of a path: with direction, place, evidence and remedy, the most important first. Pure.
//!
//! Each rule finds one kind of cause, and distinguishes it from similar ones: loss at any rate (random), loss above a rate
//! (policer), loss of bursts (short queue), loss on one of several paths. Where a specific cause explains the findings, a
//! general one is not raised.

mod bottleneck;
mod bursts;
mod datagrams;
mod hosts;
mod routes;
mod tcp_summary;

use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Findings, Kind, Segment};

/// The causes that follow from the findings.
pub fn causes(found: &Findings) -> Vec<Cause> {
    let mut causes = routes::causes(found);
    causes.extend(datagrams::causes(found, &causes));
    causes.extend(bottleneck::causes(found, &causes));
    causes.extend(hosts::causes(found, &causes));
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    causes
}

fn cause(kind: Kind, direction: Option<Direction>, weight: f64, evidence: String, remedy: impl Into<String>) -> Cause {
    Cause { kind, direction, segment: Segment::Network, weight, evidence, remedy: remedy.into() }
}

/// Whether a cause of this kind is known in this direction, or in both.
fn known(causes: &[Cause], kind: Kind, direction: Direction) -> bool {
    causes.iter().any(|cause| cause.kind == kind && cause.direction.is_none_or(|known| known == direction))
}

fn in_direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "in the forward direction",
        Direction::Reverse => "in the reverse direction",
    }
}

fn percent(share: f64) -> String {
    let digits = if share >= 0.01 || share == 0.0 { 1 } else { 4 };
    format!("{:.digits$} %", share * 100.0)
}

fn ms(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

#[cfg(test)]
mod tests;

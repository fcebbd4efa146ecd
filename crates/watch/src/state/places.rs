//! The segments that a path crosses, and its configured facts, by the places of its ends.

use model::v1::probe::Direction;
use model::v1::watch::AlarmKind;

use crate::config::Config;
use crate::judge::path::PathKnowledge;
use crate::mesh::TestKind;

/// Where a kind of fault is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultLocation {
    /// On a segment that packets pass.
    Segments,
    /// At one of the two ends.
    Hosts,
}

/// The test that finds faults of a kind.
pub(super) fn test_for(kind: AlarmKind) -> TestKind {
    use AlarmKind::{
        Asymmetry, Clock, Delay, Exercise, Host, Loss, Mtu, Queue, Reordering, Route, Silent, Stale, Throughput,
    };
    match kind {
        Silent | Loss | Queue | Reordering | Delay | Clock | Host | Stale => TestKind::Latency,
        Throughput | Asymmetry | Exercise => TestKind::Throughput,
        Route | Mtu => TestKind::Path,
    }
}

/// Where a kind of fault is located; none for a kind without a location.
pub(super) fn fault_location(kind: AlarmKind) -> Option<FaultLocation> {
    use AlarmKind::{
        Asymmetry, Clock, Delay, Exercise, Host, Loss, Mtu, Queue, Reordering, Route, Silent, Stale, Throughput,
    };
    match kind {
        Loss | Throughput | Queue | Silent | Reordering | Mtu | Route | Delay | Asymmetry => {
            Some(FaultLocation::Segments)
        }
        Clock | Host => Some(FaultLocation::Hosts),
        Stale | Exercise => None,
    }
}

/// The site of a place.
pub(super) fn site_of<'a>(config: &'a Config, name: &'a str) -> &'a str {
    config.places.get(name).map_or(name, |place| place.site.as_str())
}

/// The segments that packets pass in a direction: the exit of a site, known segments between, the entry of the other site.
pub(super) fn segments(config: &Config, from: &str, to: &str, direction: Direction) -> Vec<String> {
    let site = |name| site_of(config, name).to_owned();
    let known = config.paths.iter().find(|path| path.from == from && path.to == to);
    let near = site(from);
    let far = site(to);
    let mut between = known.map_or_else(Vec::new, |path| path.segments.clone());
    if between.is_empty() {
        between.push(format!("{near} to {far}"));
    }
    let (out, into) = match direction {
        Direction::Forward => (near, far),
        Direction::Reverse => {
            between = if known.is_some_and(|path| !path.segments.is_empty()) {
                between.into_iter().rev().map(|segment| format!("{segment} (back)")).collect()
            } else {
                vec![format!("{far} to {near}")]
            };
            (far, near)
        }
    };
    let mut segments = vec![format!("{out} out")];
    segments.extend(between);
    segments.push(format!("{into} in"));
    segments
}

/// The configured facts of a path.
pub(super) fn knowledge(config: &Config, from: &str, to: &str) -> PathKnowledge {
    let link = |name: &str| config.places.get(name).and_then(|place| place.link).map(|rate| rate.0 as f64);
    let known = config.paths.iter().find(|path| path.from == from && path.to == to);
    let configured = known.and_then(|path| path.rate).map(|rate| rate.0 as f64);
    let links = [link(from), link(to), configured].into_iter().flatten().reduce(f64::min);
    PathKnowledge { link_bit_s: links, hops: known.map(|path| path.hops.clone()).unwrap_or_default(), every: [None; 3] }
}

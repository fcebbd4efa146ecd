//! The events of a scenario as the simulator sees them: times at which links and uplinks get another capacity, and times at which routes follow.
//!
//! Does not know: events that change no capacity (loss, delay, order): they change nothing here, and the report says so.

use std::collections::BTreeSet;

use scenario::{Change, Event, Scenario, Target, Word};

use super::resources::{Resources, SharedResource};
use crate::network::Network;

/// A change at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbance {
    /// When, seconds.
    pub at_s: f64,
    /// What changes.
    pub effect: Effect,
}

/// What a disturbance changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A resource has another capacity, as a fraction of what it has while nothing is broken.
    Capacity {
        /// The number of the resource.
        resource: u32,
        /// The fraction, from 0.
        fraction: f64,
    },
    /// The traffic of others leaves this part of a link.
    Background {
        /// The number of the resource.
        resource: u32,
        /// The fraction, from 0.01.
        fraction: f64,
    },
    /// Routes avoid these links, and no others.
    Routes(BTreeSet<usize>),
}

/// The disturbances of a scenario, in the order of their times, and the names of events that change nothing here.
pub fn disturbances(scenario: &Scenario, network: &Network, resources: &Resources) -> (Vec<Disturbance>, Vec<String>) {
    let mut all = Vec::new();
    let mut ignored = Vec::new();
    let mut closures: Vec<Closure> = Vec::new();
    let reroute_s = scenario.simulation.reroute.as_secs_f64();
    for event in &scenario.events {
        let links = links(network, &event.change);
        let from_s = event.at.as_secs_f64();
        let until_s = end_s(event);
        // An operator who withdraws a path moves its traffic before anything is lost.
        if event.change.words.contains(&Word::Withdrawn(true)) {
            closures.push(Closure { from_s, until_s, follow_s: 0.0, links });
            continue;
        }
        match fraction(scenario, &event.change) {
            Some(fraction) => {
                for resource in touched(&links, &event.change).filter_map(|resource| resources.number(resource)) {
                    all.extend(capacity_changes(event, resource, fraction));
                }
                if fraction == 0.0 {
                    closures.push(Closure { from_s, until_s, follow_s: reroute_s, links });
                }
            }
            None => ignored.push(format!("event at {} s", event.at.as_secs_f64())),
        }
    }
    all.extend(route_changes(&closures));
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    (all, ignored)
}

/// Links that are closed for a time.
struct Closure {
    from_s: f64,
    until_s: f64,
    /// After how long routes follow.
    follow_s: f64,
    links: Vec<usize>,
}

fn end_s(event: &Event) -> f64 {
    event.lasts.map_or(f64::INFINITY, |lasts| (event.at + lasts).as_secs_f64())
}

fn capacity_changes(event: &Event, resource: u32, fraction: f64) -> impl Iterator<Item = Disturbance> {
    let change = |at_s: f64, fraction: f64| Disturbance { at_s, effect: Effect::Capacity { resource, fraction } };
    let back = Some(end_s(event)).filter(|end| end.is_finite()).map(move |end| change(end, 1.0));
    std::iter::once(change(event.at.as_secs_f64(), fraction)).chain(back)
}

/// After each closure and each opening, routes follow with its delay.
fn route_changes(closures: &[Closure]) -> Vec<Disturbance> {
    let times = closures.iter().flat_map(|it| [(it.from_s, it.follow_s), (it.until_s, it.follow_s)]);
    times
        .filter(|(at, _)| at.is_finite())
        .map(|(at, follow_s)| {
            let closed = closures.iter().filter(|closure| closure.from_s <= at && at < closure.until_s);
            let links = closed.flat_map(|closure| closure.links.iter().copied()).collect();
            Disturbance { at_s: at + follow_s, effect: Effect::Routes(links) }
        })
        .collect()
}

/// The capacity that a change leaves, as a fraction; none if it changes no capacity.
fn fraction(scenario: &Scenario, change: &Change) -> Option<f64> {
    let stated = match change.target {
        Target::Path { path, direction, .. } => scenario.paths[path].directions[direction.unwrap_or(0)].members[0].rate,
        Target::Uplink { site } => scenario.sites[site].uplink.as_ref().and_then(|uplink| uplink.rate),
    };
    change.words.iter().find_map(|word| match (word, stated) {
        (Word::Down(true), _) => Some(0.0),
        (Word::Rate(Some(rate)), Some(stated)) => Some(rate.0 as f64 / stated.0 as f64),
        _ => None,
    })
}

fn links(network: &Network, change: &Change) -> Vec<usize> {
    let Target::Path { path, direction, .. } = change.target else { return Vec::new() };
    let is_meant = |link: &usize| direction.is_none_or(|direction| direction == network.links[*link].direction);
    network.links_of_path(path).filter(is_meant).collect()
}

fn touched(links: &[usize], change: &Change) -> impl Iterator<Item = SharedResource> {
    let uplink = match change.target {
        Target::Uplink { site } => vec![SharedResource::UplinkOut(site), SharedResource::UplinkIn(site)],
        Target::Path { .. } => Vec::new(),
    };
    links.iter().map(|link| SharedResource::Link(*link)).collect::<Vec<_>>().into_iter().chain(uplink)
}

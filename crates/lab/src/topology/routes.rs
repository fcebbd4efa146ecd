//! Finds routes: over the path that joins two interfaces, else over the chain of paths with the least RTT.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::{Owner, Port, Topology, router_addresses};
use crate::scenario::Scenario;

/// A part of a route: one link, or several links that share flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Indices into the topology's links; at least one.
    pub members: Vec<usize>,
}

/// A router on a route, which counts TTLs down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// The index of the leg that it is on.
    pub leg: usize,
    /// Its position along that leg, from 0 to 1.
    pub along: f64,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

/// The route from one port to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Where it begins.
    pub from: Port,
    /// Where it ends.
    pub to: Port,
    /// In the order of travel.
    pub legs: Vec<Leg>,
    /// In the order of travel.
    pub routers: Vec<Router>,
    /// The largest packet that arrives, in bytes.
    pub mtu: u16,
}

/// A path in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouteStep {
    path: usize,
    direction: usize,
}

/// Finds routes, and each chain of paths between two sites only once.
pub struct Finder<'a> {
    scenario: &'a Scenario,
    chains: HashMap<(usize, usize), Option<Vec<RouteStep>>>,
}

impl<'a> Finder<'a> {
    pub fn new(scenario: &'a Scenario) -> Finder<'a> {
        Finder { scenario, chains: HashMap::new() }
    }

    pub fn find(&mut self, topology: &Topology, from: Port, to: Port) -> Option<Route> {
        let scenario = self.scenario;
        let (a, b) = (topology.ports[from], topology.ports[to]);
        if a.site == b.site {
            return None;
        }
        let direct = scenario.paths.iter().enumerate().find_map(|(path, scenario_path)| {
            let direction = [[a, b], [b, a]].iter().position(|ends| *ends == scenario_path.ends)?;
            (!scenario_path.directions[direction].is_withdrawn()).then_some(RouteStep { path, direction })
        });
        let steps = match direct {
            Some(step) => {
                let via = &scenario.paths[step.path].directions[step.direction].via;
                if via.is_empty() { vec![step] } else { self.steps_via(a.site, via, b.site)? }
            }
            None => self.chain(a.site, b.site)?,
        };
        Some(route(scenario, topology, from, to, &steps))
    }

    /// The steps over these sites in their order.
    fn steps_via(&mut self, from: usize, via: &[usize], to: usize) -> Option<Vec<RouteStep>> {
        let mut steps = Vec::new();
        let mut at = from;
        for next in via.iter().copied().chain([to]) {
            steps.extend(self.chain(at, next)?);
            at = next;
        }
        Some(steps)
    }

    fn chain(&mut self, from: usize, to: usize) -> Option<Vec<RouteStep>> {
        self.chains.entry((from, to)).or_insert_with(|| shortest(self.scenario, from, to)).clone()
    }
}

/// All steps out of a site, with the site that they lead to. A direction over other sites is no step itself.
fn steps_from(scenario: &Scenario, site: usize) -> impl Iterator<Item = (RouteStep, usize, Duration)> + '_ {
    scenario.paths.iter().enumerate().flat_map(move |(path, scenario_path)| {
        [0, 1].into_iter().filter_map(move |direction| {
            let (near, far) = (scenario_path.ends[direction], scenario_path.ends[1 - direction]);
            let path_direction = &scenario_path.directions[direction];
            let is_step = path_direction.via.is_empty() && !path_direction.is_withdrawn();
            (near.site == site && is_step).then_some((RouteStep { path, direction }, far.site, scenario_path.rtt()))
        })
    })
}

/// Dijkstra's algorithm, by RTT, then by the number of paths; equal ones by their order in the file.
fn shortest(scenario: &Scenario, from: usize, to: usize) -> Option<Vec<RouteStep>> {
    const FAR: (Duration, usize) = (Duration::MAX, usize::MAX);
    let mut best = vec![FAR; scenario.sites.len()];
    let mut previous: Vec<Option<(RouteStep, usize)>> = vec![None; scenario.sites.len()];
    let mut open: Vec<usize> = (0..scenario.sites.len()).collect();
    best[from] = (Duration::ZERO, 0);
    while let Some(nearest) = open.iter().copied().min_by_key(|site| best[*site]) {
        open.retain(|site| *site != nearest);
        if best[nearest] == FAR || nearest == to {
            break;
        }
        for (step, next, rtt) in steps_from(scenario, nearest) {
            let length = (best[nearest].0 + rtt, best[nearest].1 + 1);
            if length < best[next] {
                best[next] = length;
                previous[next] = Some((step, nearest));
            }
        }
    }
    let mut steps = Vec::new();
    let mut at = to;
    while at != from {
        let (step, before) = previous[at]?;
        steps.push(step);
        at = before;
    }
    steps.reverse();
    Some(steps)
}

fn route(scenario: &Scenario, topology: &Topology, from: Port, to: Port, steps: &[RouteStep]) -> Route {
    let (a, b) = (topology.ports[from], topology.ports[to]);
    let uplink = |site, direction| {
        let link = topology.link(Owner::Uplink { site, direction });
        link.map(|link| Leg { members: vec![link] })
    };
    let mut legs: Vec<Leg> = uplink(a.site, 0).into_iter().collect();
    let mut routers = Vec::new();
    let mut mtu = scenario.sites[b.site].interfaces[b.interface].mtu;
    for RouteStep { path, direction } in steps.iter().copied() {
        let scenario_path = &scenario.paths[path];
        mtu = mtu.min(scenario_path.mtu.unwrap_or(u16::MAX));
        let hops = 1..=scenario_path.hops;
        routers.extend(hops.map(|hop| {
            let along = f64::from(hop) / f64::from(scenario_path.hops + 1);
            // Routers are numbered from the path's first end, in both directions of travel.
            let number = if direction == 0 { hop } else { scenario_path.hops + 1 - hop };
            let (v4, v6) = router_addresses(path, number);
            Router { leg: legs.len(), along, v4, v6 }
        }));
        let members =
            scenario_path.directions[direction].members.iter().enumerate().filter(|(_, settings)| !settings.withdrawn);
        let members =
            members.filter_map(|(member, _)| topology.link(Owner::Path { path, direction, member })).collect();
        legs.push(Leg { members });
    }
    legs.extend(uplink(b.site, 1));
    Route { from, to, legs, routers, mtu }
}

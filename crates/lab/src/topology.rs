//! The topology of a scenario: ports, links, and the route from each port to each other one.
//!
//! Pure. Does not know: packets.

mod routes;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::scenario::{Change, End, LinkSettings, Scenario, Target};

pub use routes::{Route, Router};

/// The number of an interface, counted over all sites.
pub type Port = usize;

/// The owner of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// One direction of one member of a path.
    Path {
        /// Index into the scenario's paths.
        path: usize,
        /// 0 for `ab`.
        direction: usize,
        /// From 0.
        member: usize,
    },
    /// A site's uplink.
    Uplink {
        /// Index into the scenario's sites.
        site: usize,
        /// 0 for out of the site, 1 for into it.
        direction: usize,
    },
}

/// A link before it carries packets.
#[derive(Clone, Debug)]
pub struct PlannedLink {
    /// Its owner.
    pub owner: Owner,
    /// Its settings.
    pub settings: LinkSettings,
    /// The RTT of its path, or of the longest path of its site.
    pub rtt: Duration,
}

/// A scenario's network.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The site and interface of each port.
    pub ports: Vec<End>,
    /// All links.
    pub links: Vec<PlannedLink>,
    /// All routes.
    pub routes: Vec<Route>,
    by_address: HashMap<IpAddr, Port>,
    by_owner: HashMap<Owner, usize>,
    /// The route in force from one port to another.
    current: HashMap<(Port, Port), usize>,
    /// All routes that were ever found between two ports.
    ever_found: HashMap<(Port, Port), Vec<usize>>,
}

/// The address of a path's router: `hop` from 1, counted from the path's first end.
pub fn router_addresses(path: usize, hop: u8) -> (Ipv4Addr, Ipv6Addr) {
    let v4 = Ipv4Addr::new(10, 78, path as u8 + 1, hop);
    let v6 = Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6701, path as u16 + 1, 0, 0, 0, u16::from(hop));
    (v4, v6)
}

/// The address that answers for the network at a site's uplink.
pub fn gateway_addresses(site: usize) -> (Ipv4Addr, Ipv6Addr) {
    let v4 = Ipv4Addr::new(10, 79, site as u8 + 1, 1);
    let v6 = Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6702, site as u16 + 1, 0, 0, 0, 1);
    (v4, v6)
}

impl Topology {
    /// The topology of a scenario.
    pub fn of(scenario: &Scenario) -> Topology {
        let mut ports = Vec::new();
        let mut by_address = HashMap::new();
        for (site, scenario_site) in scenario.sites.iter().enumerate() {
            for (interface, scenario_interface) in scenario_site.interfaces.iter().enumerate() {
                let v4 = scenario_interface.v4.map(|(address, _)| IpAddr::from(address));
                let v6 = scenario_interface.v6.map(|(address, _)| IpAddr::from(address));
                by_address.extend([v4, v6].into_iter().flatten().map(|address| (address, ports.len())));
                ports.push(End { site, interface });
            }
        }
        let links = links(scenario);
        let by_owner = links.iter().enumerate().map(|(number, link)| (link.owner, number)).collect();
        let mut topology = Topology {
            ports,
            links,
            routes: Vec::new(),
            by_address,
            by_owner,
            current: HashMap::new(),
            ever_found: HashMap::new(),
        };
        topology.find_routes(scenario);
        topology
    }

    /// Finds all routes again, by the present scenario. Earlier routes stay in the list, for packets in transit.
    pub fn find_routes(&mut self, scenario: &Scenario) {
        let mut finder = routes::Finder::new(scenario);
        for from in 0..self.ports.len() {
            for to in 0..self.ports.len() {
                let Some(route) = finder.find(self, from, to) else {
                    self.current.remove(&(from, to));
                    continue;
                };
                let known = self.ever_found.entry((from, to)).or_default();
                let number = known.iter().copied().find(|known| self.routes[*known] == route).unwrap_or_else(|| {
                    known.push(self.routes.len());
                    self.routes.push(route);
                    self.routes.len() - 1
                });
                self.current.insert((from, to), number);
            }
        }
    }

    /// The route from a port to an address.
    pub fn route(&self, from: Port, to: IpAddr) -> Option<usize> {
        let to = self.by_address.get(&to)?;
        self.current.get(&(from, *to)).copied()
    }

    /// The links that a target names.
    pub fn targets(&self, target: Target) -> impl Iterator<Item = usize> + '_ {
        let is_target = move |owner: Owner| match (target, owner) {
            (
                Target::Path { path, direction, member },
                Owner::Path { path: of, direction: link_direction, member: link_member },
            ) => path == of && direction.is_none_or(|d| d == link_direction) && member.is_none_or(|m| m == link_member),
            (Target::Uplink { site }, Owner::Uplink { site: of, .. }) => site == of,
            _ => false,
        };
        self.links.iter().enumerate().filter(move |(_, link)| is_target(link.owner)).map(|(number, _)| number)
    }

    /// The links that a change applies to.
    pub fn changed(&self, change: &Change) -> Vec<usize> {
        self.targets(change.target).collect()
    }

    /// The link of an owner, if there is one.
    pub fn link(&self, owner: Owner) -> Option<usize> {
        self.by_owner.get(&owner).copied()
    }
}

fn links(scenario: &Scenario) -> Vec<PlannedLink> {
    let mut links = Vec::new();
    for (path, scenario_path) in scenario.paths.iter().enumerate() {
        for (direction, path_direction) in scenario_path.directions.iter().enumerate() {
            // A direction that goes over other sites has no link of its own.
            if !path_direction.via.is_empty() {
                continue;
            }
            for (member, settings) in path_direction.members.iter().enumerate() {
                let owner = Owner::Path { path, direction, member };
                links.push(PlannedLink { owner, settings: settings.clone(), rtt: scenario_path.rtt() });
            }
        }
    }
    for (site, scenario_site) in scenario.sites.iter().enumerate() {
        let Some(settings) = &scenario_site.uplink else { continue };
        let joined = scenario.paths.iter().filter(|path| path.ends.iter().any(|end| end.site == site));
        let rtt = joined.map(|path| path.rtt()).max().unwrap_or_default();
        links.extend([0, 1].map(|direction| {
            let owner = Owner::Uplink { site, direction };
            PlannedLink { owner, settings: settings.clone(), rtt }
        }));
    }
    links
}

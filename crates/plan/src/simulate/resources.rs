//! What transfers share: links, uplinks, disks, tape, nodes. Each is a capacity in bytes per second.
//!
//! Does not know: who uses them.

use std::collections::HashMap;

use scenario::{Scenario, Scheduler};

use super::law::payload_part;
use crate::network::Network;
use crate::routes::Route;

/// A shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A link, by its number in the network.
    Link(usize),
    /// The uplink of a site, from it.
    UplinkOut(usize),
    /// The uplink of a site, to it.
    UplinkIn(usize),
    /// The disks of a site, read.
    DiskRead(usize),
    /// The disks of a site, written.
    DiskWrite(usize),
    /// The tape drives of a site.
    Tape(usize),
    /// The data transfer nodes of a site, sending.
    NodesOut(usize),
    /// The data transfer nodes of a site, receiving.
    NodesIn(usize),
}

/// All resources of a scenario that bound something.
#[derive(Clone, Debug)]
pub struct Resources {
    /// In the order of their numbers.
    pub all: Vec<Resource>,
    /// What transfers may use of each, bytes of payload per second, while nothing is broken.
    pub usable: Vec<f64>,
    numbers: HashMap<Resource, u32>,
}

impl Resources {
    /// The resources of a scenario. Only the hub's scheduler knows high-water marks; congestion control takes what there is.
    pub fn new(scenario: &Scenario, network: &Network) -> Resources {
        let mut resources = Resources { all: Vec::new(), usable: Vec::new(), numbers: HashMap::new() };
        let mark = |mark: Option<f64>| match scenario.simulation.scheduler {
            Scheduler::Hub => mark.unwrap_or(1.0),
            Scheduler::None => 1.0,
        };
        for (at, link) in network.links.iter().enumerate() {
            let payload = payload_part(link.mtu_bytes);
            resources.add(Resource::Link(at), link.capacity_bit_s * mark(Some(link.mark)) * payload);
        }
        for (site, described) in scenario.sites.iter().enumerate() {
            let facts = &described.facts;
            let rate = |rate: Option<model::units::BitRate>| rate.map_or(f64::INFINITY, |rate| rate.0 as f64);
            let payload = payload_part(f64::from(described.interfaces[0].mtu));
            let uplink = rate(described.uplink.as_ref().and_then(|uplink| uplink.rate)) * mark(facts.mark) * payload;
            let nodes = facts.nodes.map_or(1.0, f64::from) * rate(facts.node_rate);
            for (resource, bit_s) in [
                (Resource::UplinkOut(site), uplink),
                (Resource::UplinkIn(site), uplink),
                (Resource::DiskRead(site), rate(facts.read_rate)),
                (Resource::DiskWrite(site), rate(facts.write_rate)),
                (Resource::Tape(site), rate(facts.tape_rate)),
                (Resource::NodesOut(site), nodes),
                (Resource::NodesIn(site), nodes),
            ] {
                resources.add(resource, bit_s);
            }
        }
        resources
    }

    /// Adds a resource, unless it bounds nothing. A link can fail, so it counts even if it bounds nothing now.
    fn add(&mut self, resource: Resource, bit_s: f64) {
        if bit_s.is_finite() || matches!(resource, Resource::Link(_)) {
            self.numbers.insert(resource, self.all.len() as u32);
            self.all.push(resource);
            self.usable.push(bit_s / 8.0);
        }
    }

    /// The number of a resource; none if it bounds nothing.
    pub fn number(&self, resource: Resource) -> Option<u32> {
        self.numbers.get(&resource).copied()
    }

    /// The numbers of what a transfer over a route uses.
    pub fn path(&self, source: usize, target: usize, route: &Route, from_tape: bool) -> Vec<u32> {
        let links = route.links.iter().map(|link| Resource::Link(*link));
        let read = if from_tape { Resource::Tape(source) } else { Resource::DiskRead(source) };
        let at_ends = [
            read,
            Resource::NodesOut(source),
            Resource::UplinkOut(source),
            Resource::UplinkIn(target),
            Resource::NodesIn(target),
            Resource::DiskWrite(target),
        ];
        links.chain(at_ends).filter_map(|resource| self.number(resource)).collect()
    }
}

impl Resource {
    /// The name of a resource for a report.
    pub fn name(self, network: &Network) -> String {
        let site = |site: usize| network.sites[site].as_str();
        match self {
            Resource::Link(link) => network.links[link].name.clone(),
            Resource::UplinkOut(at) => format!("uplink of {}, out", site(at)),
            Resource::UplinkIn(at) => format!("uplink of {}, in", site(at)),
            Resource::DiskRead(at) => format!("disks of {}, reading", site(at)),
            Resource::DiskWrite(at) => format!("disks of {}, writing", site(at)),
            Resource::Tape(at) => format!("tape of {}", site(at)),
            Resource::NodesOut(at) => format!("nodes of {}, sending", site(at)),
            Resource::NodesIn(at) => format!("nodes of {}, receiving", site(at)),
        }
    }
}

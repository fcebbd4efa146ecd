//! What transfers share: links, uplinks, disks, tape, nodes. Each is a capacity in bytes per second.
//!
//! Does not know: who uses them.

use std::collections::HashMap;

use scenario::{Congestion, LightSettings, Scenario, Scheduler};

use super::law::{BBR_USES, payload_part};
use crate::network::Network;
use crate::routes::NetworkRoute;

/// Packets of an optical path.
const LIGHT_MTU_BYTES: f64 = 9_000.0;

/// A shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SharedResource {
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
    /// The optical path of a queue, by the queue's number.
    LightPath(usize),
}

/// All resources of a scenario that bound something.
#[derive(Clone, Debug)]
pub struct Resources {
    /// In the order of their numbers.
    pub all: Vec<SharedResource>,
    /// What transfers may use of each, bytes of payload per second, while nothing is broken.
    pub usable: Vec<f64>,
    numbers: HashMap<SharedResource, u32>,
}

impl Resources {
    /// The resources of a scenario. Only the hub's scheduler knows high-water marks; congestion control takes what there is, BBR a little less.
    pub fn new(scenario: &Scenario, network: &Network) -> Resources {
        let mut resources = Resources { all: Vec::new(), usable: Vec::new(), numbers: HashMap::new() };
        let mark = |mark: Option<f64>| match scenario.simulation.scheduler {
            Scheduler::Hub => mark.unwrap_or(1.0),
            Scheduler::None if scenario.simulation.congestion == Congestion::Bbr => BBR_USES,
            Scheduler::None => 1.0,
        };
        for (at, link) in network.links.iter().enumerate() {
            let payload = payload_part(link.mtu_bytes);
            resources.add(SharedResource::Link(at), link.capacity_bit_s * mark(Some(link.mark)) * payload);
        }
        for (site, described) in scenario.sites.iter().enumerate() {
            let facts = &described.facts;
            let rate = |rate: Option<model::units::BitRate>| rate.map_or(f64::INFINITY, |rate| rate.0 as f64);
            let payload = payload_part(f64::from(described.interfaces[0].mtu));
            let uplink = rate(described.uplink.as_ref().and_then(|uplink| uplink.rate)) * mark(facts.mark) * payload;
            let nodes = facts.nodes.map_or(1.0, f64::from) * rate(facts.node_rate);
            for (resource, bit_s) in [
                (SharedResource::UplinkOut(site), uplink),
                (SharedResource::UplinkIn(site), uplink),
                (SharedResource::DiskRead(site), rate(facts.read_rate)),
                (SharedResource::DiskWrite(site), rate(facts.write_rate)),
                (SharedResource::Tape(site), rate(facts.tape_rate)),
                (SharedResource::NodesOut(site), nodes),
                (SharedResource::NodesIn(site), nodes),
            ] {
                resources.add(resource, bit_s);
            }
        }
        resources
    }

    /// Adds a resource, unless it bounds nothing. A link can fail, so it counts even if it bounds nothing now.
    fn add(&mut self, resource: SharedResource, bit_s: f64) {
        if bit_s.is_finite() || matches!(resource, SharedResource::Link(_)) {
            self.numbers.insert(resource, self.all.len() as u32);
            self.all.push(resource);
            self.usable.push(bit_s / 8.0);
        }
    }

    /// The number of a resource; none if it bounds nothing.
    pub fn number(&self, resource: SharedResource) -> Option<u32> {
        self.numbers.get(&resource).copied()
    }

    /// The numbers of what a transfer over a route uses.
    pub fn path(&self, source: usize, target: usize, route: &NetworkRoute, from_tape: bool) -> Vec<u32> {
        let links = route.links.iter().filter_map(|link| self.number(SharedResource::Link(*link)));
        links.chain(self.ends(source, target, from_tape)).collect()
    }

    /// Adds the optical path of a queue.
    pub fn add_light_path(&mut self, queue: usize, light: &LightSettings) {
        self.add(SharedResource::LightPath(queue), light.rate.0 as f64 * payload_part(LIGHT_MTU_BYTES));
    }

    /// The numbers of what a transfer over the optical path of its queue uses.
    pub fn light_path(&self, queue: usize, source: usize, target: usize, from_tape: bool) -> Vec<u32> {
        let path = self.number(SharedResource::LightPath(queue));
        path.into_iter().chain(self.ends(source, target, from_tape)).collect()
    }

    /// What a transfer uses at its ends.
    fn ends(&self, source: usize, target: usize, from_tape: bool) -> impl Iterator<Item = u32> {
        let read = if from_tape { SharedResource::Tape(source) } else { SharedResource::DiskRead(source) };
        let at_ends = [
            read,
            SharedResource::NodesOut(source),
            SharedResource::UplinkOut(source),
            SharedResource::UplinkIn(target),
            SharedResource::NodesIn(target),
            SharedResource::DiskWrite(target),
        ];
        at_ends.into_iter().filter_map(|resource| self.number(resource))
    }
}

impl SharedResource {
    /// The name of a resource for a report.
    pub fn name(self, network: &Network) -> String {
        let site = |site: usize| network.sites[site].as_str();
        match self {
            SharedResource::Link(link) => network.links[link].name.clone(),
            SharedResource::UplinkOut(at) => format!("uplink of {}, out", site(at)),
            SharedResource::UplinkIn(at) => format!("uplink of {}, in", site(at)),
            SharedResource::DiskRead(at) => format!("disks of {}, reading", site(at)),
            SharedResource::DiskWrite(at) => format!("disks of {}, writing", site(at)),
            SharedResource::Tape(at) => format!("tape of {}", site(at)),
            SharedResource::NodesOut(at) => format!("nodes of {}, sending", site(at)),
            SharedResource::NodesIn(at) => format!("nodes of {}, receiving", site(at)),
            SharedResource::LightPath(queue) => format!("light path {}", queue + 1),
        }
    }
}

//! What a collaboration shares: links in each direction, what endpoints give and take, and the caps of communities.

use model::v1::hub::{Collaboration, Link};
use sched::high_water_mark::below_mark;

/// A shared resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What it is of.
    pub of: ResourceOf,
    /// What it carries, bytes per second.
    pub capacity: f64,
    /// The part that may be used.
    pub mark: f64,
    /// Traffic of others, bytes per second.
    pub others: f64,
}

/// The part of what a link carries that is payload: of 1,500 bytes of a packet 1,428 are, with the headers of IPv6 and TCP, and of those all
/// but 22 for 16 KiB with those of TLS. Larger packets have more.
const PAYLOAD_PART: f64 = 0.95;

impl Resource {
    /// What may be used of it in the long run, bytes of payload per second.
    pub fn below_mark(&self) -> f64 {
        below_mark(self.capacity, self.mark, self.others) * self.payload_part()
    }

    /// The part that is payload. Limits of endpoints and communities speak of payload alone.
    pub fn payload_part(&self) -> f64 {
        if matches!(self.of, ResourceOf::Link { .. }) { PAYLOAD_PART } else { 1.0 }
    }
}

/// What a resource is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceOf {
    /// A link, in the direction in which it is named in a route, or in the other one.
    Link {
        /// Its name.
        name: String,
        /// The other direction.
        reverse: bool,
    },
    /// What an endpoint gives.
    EndpointOut(String),
    /// What an endpoint takes.
    EndpointIn(String),
    /// The cap of a community.
    Community(String),
}

impl ResourceOf {
    /// What people call it.
    pub fn name(&self) -> String {
        match self {
            ResourceOf::Link { name, reverse: false } => format!("link {name}"),
            ResourceOf::Link { name, reverse: true } => format!("link {name}, reverse"),
            ResourceOf::EndpointOut(name) => format!("endpoint {name}, out"),
            ResourceOf::EndpointIn(name) => format!("endpoint {name}, in"),
            ResourceOf::Community(name) => format!("community {name}"),
        }
    }
}

/// All that is described with a bound.
pub(super) fn resources(described: &Collaboration) -> Vec<Resource> {
    let bytes = |bits: u64| bits as f64 / 8.0;
    let mut resources = Vec::new();
    for (name, Link { capacity_bit_s, mark, duplex, others_bit_s, .. }) in &described.links {
        for reverse in [false, true].into_iter().take(if *duplex { 2 } else { 1 }) {
            let of = ResourceOf::Link { name: name.clone(), reverse };
            resources.push(Resource {
                of,
                capacity: bytes(*capacity_bit_s),
                mark: *mark,
                others: bytes(*others_bit_s),
            });
        }
    }
    let whole = |of, bits| Resource { of, capacity: bytes(bits), mark: 1.0, others: 0.0 };
    for (name, endpoint) in &described.endpoints {
        let out = endpoint.limits.out_bit_s.map(|bits| whole(ResourceOf::EndpointOut(name.clone()), bits));
        let into = endpoint.limits.in_bit_s.map(|bits| whole(ResourceOf::EndpointIn(name.clone()), bits));
        resources.extend(out.into_iter().chain(into));
    }
    for (name, community) in &described.communities {
        resources.extend(community.cap_bit_s.map(|bits| whole(ResourceOf::Community(name.clone()), bits)));
    }
    resources
}

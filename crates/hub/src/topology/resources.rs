//! The shared resources of a collaboration: links in each direction, the limits of endpoints out and in, and the caps of communities.

use model::v1::hub::{Collaboration, Link};
use sched::high_water_mark::below_mark;

/// A shared resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What it belongs to.
    pub of: ResourceOf,
    /// Its capacity, bytes per second.
    pub capacity: f64,
    /// The part of the capacity that may be used.
    pub mark: f64,
    /// Traffic of others, bytes per second.
    pub others: f64,
}

/// The part of the bytes on a link that is payload. In a packet of 1,500 bytes, the headers of IPv6 and TCP leave 1,428 bytes; TLS
/// takes 22 of every 16 KiB of these. In larger packets the part is larger.
const PAYLOAD_PART: f64 = 0.95;

impl Resource {
    /// The rate up to its mark, less the traffic of others, bytes of payload per second.
    pub fn below_mark(&self) -> f64 {
        below_mark(self.capacity, self.mark, self.others) * self.payload_part()
    }

    /// The part that is payload. Limits of endpoints and communities count payload only.
    pub fn payload_part(&self) -> f64 {
        if matches!(self.of, ResourceOf::Link { .. }) { PAYLOAD_PART } else { 1.0 }
    }
}

/// What a resource belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceOf {
    /// A link in one direction.
    Link {
        /// Its name.
        name: String,
        /// Whether it is the reverse direction.
        reverse: bool,
    },
    /// The limit of an endpoint as a source.
    EndpointOut(String),
    /// The limit of an endpoint as a target.
    EndpointIn(String),
    /// The cap of a community.
    Community(String),
}

impl ResourceOf {
    /// Its name for output, such as `link ocean, reverse`.
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

/// All resources of a description whose rate is bounded.
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

//! Verifies a forwarding configuration: every member of a virtual network reaches every other, no packet turns in a circle, no packet leaves its network.
//!
//! Does not know: how a configuration came about. It follows one packet for each pair through the tables, as routers would.

use std::collections::{BTreeMap, BTreeSet};

use crate::network::Network;
use crate::routes::{self, Avoid};

/// A table of one site: by destination, the link to use.
pub type ForwardingTable = BTreeMap<usize, usize>;

/// Virtual networks, with the tables that routers have for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// By name.
    pub networks: BTreeMap<String, VirtualNetwork>,
}

/// A virtual network (VRF).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VirtualNetwork {
    /// The sites that belong to it.
    pub members: BTreeSet<usize>,
    /// The table of each site for its packets; sites between members have one too.
    pub tables: BTreeMap<usize, ForwardingTable>,
    /// Links over which packets pass into another virtual network: the link, and that network. Each is a leak unless it is meant.
    pub exits: BTreeMap<usize, String>,
}

/// A fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForwardingFault {
    /// A packet stops at a site that has no entry for its destination, or an entry with a link of another site.
    Unreachable {
        /// The virtual network.
        network: String,
        /// The member that sends.
        from: usize,
        /// The member that should receive.
        to: usize,
        /// Where the packet stops.
        at: usize,
    },
    /// A packet comes back to a site.
    Loop {
        /// The virtual network.
        network: String,
        /// The member that sends.
        from: usize,
        /// The member that should receive.
        to: usize,
        /// The site that sees the packet twice.
        at: usize,
    },
    /// A packet gets to another virtual network.
    Leak {
        /// The virtual network.
        network: String,
        /// The one that the packet gets to.
        into: String,
        /// The site at which it leaves.
        at: usize,
    },
}

impl Configuration {
    /// Shortest routes between all members of each network.
    pub fn shortest(network: &Network, members: &BTreeMap<String, BTreeSet<usize>>) -> Configuration {
        let mut configuration = Configuration::default();
        for (name, members) in members {
            let mut virtual_network = VirtualNetwork { members: members.clone(), ..VirtualNetwork::default() };
            for to in members {
                for from in members.iter().filter(|from| *from != to) {
                    let Some(route) = routes::shortest(network, *from, *to, &Avoid::default()) else { continue };
                    for link in route.links {
                        let site = network.links[link].from;
                        // The first route decides for all packets to this destination, so tables agree with each other.
                        virtual_network.tables.entry(site).or_default().entry(*to).or_insert(link);
                    }
                }
            }
            configuration.networks.insert(name.clone(), virtual_network);
        }
        configuration
    }

    /// All faults, each once.
    pub fn verify(&self, network: &Network) -> BTreeSet<ForwardingFault> {
        let mut faults = BTreeSet::new();
        for (name, virtual_network) in &self.networks {
            for from in &virtual_network.members {
                for to in virtual_network.members.iter().filter(|to| *to != from) {
                    faults.extend(virtual_network.follow(network, name, *from, *to));
                }
            }
        }
        faults
    }
}

impl VirtualNetwork {
    /// Follows a packet to its destination; returns the fault that it meets.
    fn follow(&self, network: &Network, name: &str, from: usize, to: usize) -> Option<ForwardingFault> {
        let name = || name.to_owned();
        let mut visited = BTreeSet::new();
        let mut at = from;
        while at != to {
            if !visited.insert(at) {
                return Some(ForwardingFault::Loop { network: name(), from, to, at });
            }
            let entry = self.tables.get(&at).and_then(|table| table.get(&to));
            let Some(link) = entry.filter(|link| network.links.get(**link).is_some_and(|link| link.from == at)) else {
                return Some(ForwardingFault::Unreachable { network: name(), from, to, at });
            };
            if let Some(into) = self.exits.get(link) {
                return Some(ForwardingFault::Leak { network: name(), into: into.clone(), at });
            }
            at = network.links[*link].to;
        }
        None
    }
}

impl ForwardingFault {
    /// The fault as a sentence with its remedy.
    pub fn show(&self, network: &Network) -> String {
        let site = |at: &usize| network.sites[*at].as_str();
        match self {
            ForwardingFault::Unreachable { network, from, to, at } => format!(
                "{network}: packets from {} to {} stop at {}: add an entry for {} there",
                site(from),
                site(to),
                site(at),
                site(to)
            ),
            ForwardingFault::Loop { network, from, to, at } => format!(
                "{network}: packets from {} to {} come back to {}: correct the entry for {} on the circle",
                site(from),
                site(to),
                site(at),
                site(to)
            ),
            ForwardingFault::Leak { network, into, at } => format!(
                "{network}: packets leave for {into} at {}: remove the import between the two, or the route that uses it",
                site(at)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scenario::Scenario;

    use super::*;

    /// Six sites in a ring, with two chords.
    fn ring() -> Network {
        let mut text: String = (0..6).map(|site| format!("[site.s{site}]\n")).collect();
        for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)] {
            text += &format!("[path.p{a}{b}]\nsites = [\"s{a}\", \"s{b}\"]\nrtt = \"{}ms\"\n", 10 + a + 2 * b);
        }
        Network::new(&Scenario::read(&text).unwrap(), None)
    }

    fn two_networks(network: &Network) -> Configuration {
        let members = [("lhcone", vec![0, 2, 4]), ("ska", vec![1, 3, 5])];
        let members = members.into_iter().map(|(name, sites)| (name.to_owned(), sites.into_iter().collect()));
        Configuration::shortest(network, &members.collect())
    }

    #[test]
    fn a_configuration_of_shortest_routes_has_no_fault() {
        let network = ring();
        assert_eq!(two_networks(&network).verify(&network), BTreeSet::new());
    }

    /// A random fault in a random entry that packets use.
    #[derive(Clone, Copy, Debug)]
    enum InjectedFault {
        Remove,
        SendBack,
        Leak,
    }

    proptest! {
        #[test]
        fn a_random_fault_is_found_and_named(which in any::<prop::sample::Index>(), damage in prop::sample::select(vec![InjectedFault::Remove, InjectedFault::SendBack, InjectedFault::Leak])) {
            let network = ring();
            let mut configuration = two_networks(&network);
            // Entries of hops that some packet takes: those of members themselves.
            let mut used = Vec::new();
            for (name, of) in &configuration.networks {
                used.extend(of.members.iter().flat_map(|site| of.tables[site].keys().map(|to| (name.clone(), *site, *to))));
            }
            let (name, site, to) = used[which.index(used.len())].clone();
            let virtual_network = configuration.networks.get_mut(&name).unwrap();
            let link = virtual_network.tables[&site][&to];
            match damage {
                InjectedFault::Remove => drop(virtual_network.tables.get_mut(&site).unwrap().remove(&to)),
                InjectedFault::SendBack => {
                    let next = network.links[link].to;
                    let back = network.reverse(link).unwrap();
                    virtual_network.tables.entry(next).or_default().insert(to, back);
                }
                InjectedFault::Leak => drop(virtual_network.exits.insert(link, "internet".to_owned())),
            }
            let faults = configuration.verify(&network);
            let is_named = |fault: &ForwardingFault| match (damage, fault) {
                (InjectedFault::Remove, ForwardingFault::Unreachable { network, to: of, at, .. }) => (network, of, at) == (&name, &to, &site),
                (InjectedFault::SendBack, ForwardingFault::Loop { network, to: of, .. }) => (network, of) == (&name, &to),
                (InjectedFault::Leak, ForwardingFault::Leak { network, at, .. }) => (network, at) == (&name, &site),
                _ => false,
            };
            // A packet that is sent back by its destination has already arrived.
            let arrives = matches!(damage, InjectedFault::SendBack) && network.links[link].to == to;
            prop_assert!(arrives || faults.iter().any(is_named), "{damage:?} of {name} at {site} to {to}: {faults:?}");
        }
    }
}

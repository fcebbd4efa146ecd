//! Verifies a forwarding configuration: every member of a virtual network reaches every prefix of it, no packet loops, and no packet enters
//! a virtual network that its own does not reach.
//!
//! All packets that every table treats alike are followed as one: those whose longest matching prefix, of all prefixes of the configuration, is the same
//! (equivalence classes; Khurshid and others, VeriFlow, NSDI 2013). So the result holds for each single address.
//!
//! Does not know: how a configuration came about, or packets that are sent before tables agree.

use std::collections::{BTreeMap, BTreeSet};

use scenario::Scenario;
use scenario::forwarding::{Forwarding, ForwardingRoute, NextHop, Prefix, Vrf, VrfSite};

use crate::network::Network;
use crate::routes::{self, Avoid};

/// What happens to packets that do not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForwardingFaultKind {
    /// They stop at a site that has no next hop for them, drops them, or is not the one that they are for; or their link does not exist.
    Lost,
    /// They come back to a site.
    Loop,
    /// They get into a virtual network that theirs does not reach, by its number.
    Leak(usize),
}

/// A fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingFault {
    /// What happens.
    pub kind: ForwardingFaultKind,
    /// The virtual network whose packets they are, by its number.
    pub vrf: usize,
    /// The prefix that they are for.
    pub prefix: Prefix,
    /// The site that has the prefix; none if nobody has it.
    pub owner: Option<usize>,
    /// The sites that the packets of one member go over, up to the one where it happens; a loop ends with the site that it began with.
    pub path: Vec<usize>,
    /// Further members whose packets meet the same fault at the same place.
    pub others: Vec<usize>,
}

/// What a verification did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verification {
    /// Pairs of a member and a class of packets that were followed.
    pub followed: usize,
    /// Each fault once, by virtual network and prefix.
    pub faults: Vec<ForwardingFault>,
}

/// Follows all packets of all members.
pub fn verify(network: &Network, forwarding: &Forwarding) -> Verification {
    let classes = classes(forwarding);
    let mut verification = Verification::default();
    for (number, vrf) in forwarding.vrfs.iter().enumerate() {
        let mut faults: BTreeMap<(Prefix, ForwardingFaultKind, BTreeSet<usize>), ForwardingFault> = BTreeMap::new();
        for class in &classes {
            let packets = PacketClass::new(network, forwarding, number, *class);
            for member in vrf.sites.iter().filter(|site| !site.prefixes.is_empty()) {
                verification.followed += 1;
                let Some(fault) = packets.follow(member.site) else { continue };
                let key = (*class, fault.kind, fault.place());
                match faults.get_mut(&key) {
                    Some(known) => known.others.push(member.site),
                    None => drop(faults.insert(key, fault)),
                }
            }
        }
        verification.faults.extend(faults.into_values());
    }
    verification
}

/// The prefixes of a configuration that are the longest match of at least one address.
fn classes(forwarding: &Forwarding) -> BTreeSet<Prefix> {
    let sites = || forwarding.vrfs.iter().flat_map(|vrf| &vrf.sites);
    let routes = sites().flat_map(|site| site.routes.iter().map(|route| route.prefix));
    let all: BTreeSet<Prefix> = sites().flat_map(|site| site.prefixes.iter().copied()).chain(routes).collect();
    let has_own = |prefix: &Prefix| {
        let inner: Vec<Prefix> =
            all.iter().copied().filter(|other| other != prefix && prefix.contains(other)).collect();
        !prefix.halves().is_some_and(|halves| halves.iter().all(|half| is_covered(half, &inner)))
    };
    all.iter().copied().filter(has_own).collect()
}

/// Whether each address of a prefix is in one of others.
fn is_covered(prefix: &Prefix, others: &[Prefix]) -> bool {
    if others.iter().any(|other| other.contains(prefix)) {
        return true;
    }
    let inner: Vec<Prefix> = others.iter().copied().filter(|other| prefix.contains(other)).collect();
    !inner.is_empty() && prefix.halves().is_some_and(|halves| halves.iter().all(|half| is_covered(half, &inner)))
}

/// Packets of one class that members of one virtual network send.
struct PacketClass<'a> {
    network: &'a Network,
    forwarding: &'a Forwarding,
    vrf: usize,
    class: Prefix,
    /// The virtual network and the site that they are for.
    owner: Option<(usize, usize)>,
}

impl<'a> PacketClass<'a> {
    fn new(network: &'a Network, forwarding: &'a Forwarding, vrf: usize, class: Prefix) -> PacketClass<'a> {
        let reached = std::iter::once(vrf).chain(forwarding.vrfs[vrf].reaches.iter().copied());
        let owner = reached.filter_map(|number| Some((number, owner(&forwarding.vrfs[number], &class)?))).next();
        PacketClass { network, forwarding, vrf, class, owner }
    }

    /// Follows the packets of a member; returns the fault that they meet.
    fn follow(&self, from: usize) -> Option<ForwardingFault> {
        let mut path = vec![from];
        let mut visited = BTreeSet::new();
        let (mut vrf, mut at) = (self.vrf, from);
        loop {
            if !visited.insert((vrf, at)) {
                return self.fault(ForwardingFaultKind::Loop, path);
            }
            let Some(site) = self.forwarding.vrfs[vrf].sites.iter().find(|site| site.site == at) else {
                return self.lost(path);
            };
            let attached =
                longest(site.prefixes.iter().map(|prefix| (prefix, ())), &self.class).map(|(prefix, ())| prefix);
            let route = longest(site.routes.iter().map(|route| (&route.prefix, route.next)), &self.class);
            let next = match (attached, route) {
                (Some(attached), Some((prefix, next))) if prefix.length() > attached.length() => next,
                (Some(_), _) if self.owner == Some((vrf, at)) => return None,
                (None, Some((_, next))) => next,
                _ => return self.lost(path),
            };
            let NextHop::Forward { over, vrf: into } = next else { return self.lost(path) };
            if let Some(into) =
                into.filter(|into| *into != self.vrf && !self.forwarding.vrfs[self.vrf].reaches.contains(into))
            {
                return self.fault(ForwardingFaultKind::Leak(into), path);
            }
            if let Some(over) = over {
                let mut links = self.network.links_of_path(over).map(|link| &self.network.links[link]);
                let Some(link) = links.find(|link| link.from == at && link.capacity_bit_s > 0.0) else {
                    return self.lost(path);
                };
                at = link.to;
                path.push(at);
            }
            vrf = into.unwrap_or(vrf);
        }
    }

    /// Packets for nobody may be dropped.
    fn lost(&self, path: Vec<usize>) -> Option<ForwardingFault> {
        self.owner.and_then(|_| self.fault(ForwardingFaultKind::Lost, path))
    }

    fn fault(&self, kind: ForwardingFaultKind, path: Vec<usize>) -> Option<ForwardingFault> {
        let owner = self.owner.map(|(_, site)| site);
        Some(ForwardingFault { kind, vrf: self.vrf, prefix: self.class, owner, path, others: Vec::new() })
    }
}

/// The site of a virtual network to which a class of packets is attached.
fn owner(vrf: &Vrf, class: &Prefix) -> Option<usize> {
    let attached = vrf.sites.iter().flat_map(|site| site.prefixes.iter().map(|prefix| (prefix, site.site)));
    longest(attached, class).map(|(_, site)| site)
}

/// The longest of some prefixes that contains another.
fn longest<'p, T>(prefixes: impl Iterator<Item = (&'p Prefix, T)>, inner: &Prefix) -> Option<(&'p Prefix, T)> {
    prefixes.filter(|(prefix, _)| prefix.contains(inner)).max_by_key(|(prefix, _)| prefix.length())
}

/// A configuration of shortest routes between the sites of a group, with the networks of their interfaces. A site of the group without an
/// address is not a member: it only forwards.
pub fn shortest(scenario: &Scenario, network: &Network, name: &str, members: &[usize]) -> Forwarding {
    let mut vrf = Vrf { name: name.to_owned(), ..Vrf::default() };
    let mut tables: BTreeMap<usize, VrfSite> = BTreeMap::new();
    let mut attached: Vec<(usize, Prefix)> = Vec::new();
    for site in members {
        let v4 = scenario.sites[*site]
            .interfaces
            .iter()
            .filter_map(|interface| interface.v4)
            .map(|(at, bits)| (at.into(), bits));
        let v6 = scenario.sites[*site]
            .interfaces
            .iter()
            .filter_map(|interface| interface.v6)
            .map(|(at, bits)| (at.into(), bits));
        let prefixes: BTreeSet<Prefix> = v4.chain(v6).map(|(address, bits)| Prefix::of(address, bits)).collect();
        attached.extend(prefixes.iter().map(|prefix| (*site, *prefix)));
        tables.insert(*site, VrfSite { site: *site, prefixes: prefixes.into_iter().collect(), routes: Vec::new() });
    }
    for (to, prefix) in &attached {
        for from in members.iter().filter(|from| *from != to) {
            let Some(route) = routes::shortest(network, *from, *to, &Avoid::default()) else { continue };
            for link in route.links.iter().map(|link| &network.links[*link]) {
                let table =
                    tables.entry(link.from).or_insert_with(|| VrfSite { site: link.from, ..VrfSite::default() });
                // The first route decides for all packets to this prefix, so tables agree with each other.
                if table.routes.iter().all(|route| route.prefix != *prefix) {
                    let next = NextHop::Forward { over: Some(link.path), vrf: None };
                    table.routes.push(ForwardingRoute { prefix: *prefix, next });
                }
            }
        }
    }
    vrf.sites = tables.into_values().collect();
    Forwarding { vrfs: vec![vrf] }
}

impl ForwardingFault {
    /// Where it happens: the site, or all sites of the loop.
    fn place(&self) -> BTreeSet<usize> {
        let last = self.path.last();
        let first = self.path.iter().position(|site| Some(site) == last).unwrap_or(0);
        self.path[first..].iter().copied().collect()
    }

    /// The fault as a sentence with its remedy.
    pub fn show(&self, network: &Network, forwarding: &Forwarding) -> String {
        let site = |at: usize| network.sites[at].as_str();
        let vrf = &forwarding.vrfs[self.vrf].name;
        let owner = self.owner.map_or(String::new(), |owner| format!(" ({})", site(owner)));
        let path = self.path.iter().map(|at| site(*at)).collect::<Vec<_>>().join(" → ");
        let (from, at) = (self.path.first().map_or("", |at| site(*at)), self.path.last().map_or("", |at| site(*at)));
        let others = match self.others.len() {
            0 => String::new(),
            _ => format!(" and {}", self.others.iter().map(|at| site(*at)).collect::<Vec<_>>().join(", ")),
        };
        let who = format!("{vrf}: packets of {from}{others} for {}{owner}", self.prefix);
        match self.kind {
            ForwardingFaultKind::Lost => format!("{who} are lost at {at} ({path}): add or correct its next hop there"),
            ForwardingFaultKind::Loop => {
                format!("{who} come back to {at} ({path}): correct the next hop of one site of the loop")
            }
            ForwardingFaultKind::Leak(into) => {
                let into = &forwarding.vrfs[into].name;
                format!(
                    "{who} get into {into} at {at} ({path}): correct the next hop there, or add {into} to reaches of {vrf}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! A virtual network over several countries: each national backbone has a VRF for the sites of its country, and the VRFs peer where
//! backbones meet (RFC 4364).
//!
//! Does not know: the syntax of any router.

use std::collections::{BTreeMap, BTreeSet};

use scenario::Scenario;

use crate::network::Network;

/// The VRF of one country.
#[derive(Clone, Debug, PartialEq)]
pub struct CountryVrf {
    /// The country, as in the scenario.
    pub country: String,
    /// The backbones that carry it: the owners of links within the country, or to other countries.
    pub backbones: BTreeSet<String>,
    /// The number behind the colon of its route distinguisher and of its route target.
    pub number: u32,
    /// The sites of the country that belong to the overlay.
    pub members: Vec<usize>,
    /// The countries that it peers with, each with the links over which it peers.
    pub peers: BTreeMap<String, Vec<usize>>,
}

/// A VRF in each country of an overlay.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// Its name: that of the group of sites.
    pub name: String,
    /// In alphabetical order.
    pub countries: Vec<CountryVrf>,
    /// Members without a country, which no VRF can take.
    pub without_country: Vec<usize>,
}

/// An interface of a router that belongs to a member: packets of the overlay come in and go out there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPort {
    /// The interface of the router.
    pub interface: String,
    /// The addresses behind it: `10.1.0.0/24`.
    pub prefix: String,
}

/// The commands (arguments of `ip`) that separate virtual networks on a Linux router by policy routing, for kernels without VRF devices: packets that come in
/// at a port of a network are routed by a table of that network alone, whose last route is `unreachable`.
pub fn policy_routing(networks: &[Vec<MemberPort>]) -> Vec<String> {
    let mut commands = Vec::new();
    for (ports, table) in networks.iter().zip(FIRST_TABLE..) {
        for MemberPort { interface, prefix } in ports {
            commands.push(format!("rule add iif {interface} lookup {table} priority {table}"));
            commands.push(format!("route add {prefix} dev {interface} table {table}"));
        }
        commands.push(format!("route add unreachable default table {table}"));
    }
    commands
}

/// The first routing table of virtual networks: the kernel's own are 253 to 255.
const FIRST_TABLE: u32 = 1000;

/// Plans an overlay for a group of sites.
pub fn overlay(scenario: &Scenario, network: &Network, group: &str) -> Overlay {
    let country = |site: usize| scenario.sites[site].facts.country.as_deref();
    let is_member = |site: &usize| scenario.sites[*site].facts.groups.iter().any(|name| name == group);
    let members: Vec<usize> = (0..scenario.sites.len()).filter(is_member).collect();
    let names: BTreeSet<&str> = members.iter().filter_map(|site| country(*site)).collect();
    let countries = names.iter().zip(1..).map(|(name, number)| {
        let mut vrf = CountryVrf {
            country: (*name).to_owned(),
            backbones: BTreeSet::new(),
            number,
            members: members.iter().copied().filter(|site| country(*site) == Some(*name)).collect(),
            peers: BTreeMap::new(),
        };
        for (at, link) in network.links.iter().enumerate().filter(|(_, link)| country(link.from) == Some(*name)) {
            vrf.backbones.extend(scenario.paths[link.path].facts.owner.clone());
            if let Some(other) = country(link.to).filter(|other| other != name && names.contains(other)) {
                vrf.peers.entry(other.to_owned()).or_default().push(at);
            }
        }
        vrf
    });
    Overlay {
        name: group.to_owned(),
        countries: countries.collect(),
        without_country: members.iter().copied().filter(|site| country(*site).is_none()).collect(),
    }
}

impl Overlay {
    /// Countries that no chain of peerings joins to the first.
    pub fn islands(&self) -> Vec<&str> {
        let mut reached: BTreeSet<&str> =
            self.countries.first().map(|first| first.country.as_str()).into_iter().collect();
        loop {
            let before = reached.len();
            for vrf in &self.countries {
                if reached.contains(vrf.country.as_str()) {
                    reached.extend(vrf.peers.keys().map(String::as_str));
                }
            }
            if reached.len() == before {
                break;
            }
        }
        let names = self.countries.iter().map(|vrf| vrf.country.as_str());
        names.filter(|country| !reached.contains(country)).collect()
    }

    /// The plan as text that an engineer of each backbone can work from.
    pub fn show(&self, network: &Network) -> String {
        let site = |at: &usize| network.sites[*at].as_str();
        let mut text = String::new();
        for vrf in &self.countries {
            let backbones: Vec<&str> = vrf.backbones.iter().map(String::as_str).collect();
            let carried = if backbones.is_empty() { "no owner stated".to_owned() } else { backbones.join(", ") };
            text += &format!("{}: VRF {} on {carried}\n", vrf.country, self.name);
            text += &format!("  route distinguisher  ASN:{0}, route target ASN:{0}, ASN of the backbone\n", vrf.number);
            text +=
                &format!("  sites                {}\n", vrf.members.iter().map(site).collect::<Vec<_>>().join(", "));
            for (country, links) in &vrf.peers {
                let number =
                    self.countries.iter().find(|other| other.country == *country).map_or(0, |other| other.number);
                let over: Vec<&str> = links.iter().map(|link| network.links[*link].name.as_str()).collect();
                text += &format!(
                    "  peers with           {country} over {}; imports its route target ASN:{number}\n",
                    over.join(", ")
                );
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_a_network_knows_its_members_and_refuses_all_others() {
        let port = |interface: &str, prefix: &str| MemberPort { interface: interface.into(), prefix: prefix.into() };
        let commands = policy_routing(&[
            vec![port("eth0", "10.1.0.0/24"), port("eth1", "10.2.0.0/24")],
            vec![port("eth2", "10.3.0.0/24")],
        ]);
        assert_eq!(commands.len(), 2 * 2 + 1 + 2 + 1);
        assert_eq!(commands[1], "route add 10.1.0.0/24 dev eth0 table 1000");
        assert_eq!(commands[4], "route add unreachable default table 1000");
        assert_eq!(commands[5], "rule add iif eth2 lookup 1001 priority 1001");
    }

    #[test]
    fn each_country_has_a_vrf_that_peers_over_the_links_between_them() {
        let text = "[site.cape-town]\ncountry = \"ZA\"\ngroup = \"ska\"\n[site.pretoria]\ncountry = \"ZA\"\ngroup = \"ska\"\n\
                    [site.london]\ncountry = \"UK\"\ngroup = \"ska\"\n[site.perth]\ncountry = \"AU\"\ngroup = \"ska\"\n\
                    [path.cape-town-pretoria]\nowner = \"SANReN\"\n[path.cape-town-london]\nowner = \"SANReN\"\n";
        let scenario = Scenario::read(text).unwrap();
        let network = Network::new(&scenario, None);
        let overlay = overlay(&scenario, &network, "ska");
        let south_africa = overlay.countries.iter().find(|vrf| vrf.country == "ZA").unwrap();
        assert_eq!(south_africa.members.len(), 2);
        assert_eq!(south_africa.peers.keys().collect::<Vec<_>>(), ["UK"]);
        assert_eq!(overlay.islands(), ["UK", "ZA"], "nothing joins them to AU");
        assert!(overlay.show(&network).contains("ZA: VRF ska on SANReN"), "{}", overlay.show(&network));
    }
}

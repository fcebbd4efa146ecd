//! The network of a scenario in one year: sites, and the directed links between them.
//!
//! Does not know: events of the scenario, or flows.

use std::collections::BTreeMap;

use scenario::{Crossing, Loss, PathDirection, Scenario};

/// Light takes 5 µs for a kilometre of fibre (index of refraction 1.5).
pub const SECONDS_PER_KM: f64 = 5e-6;

/// A directed link.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkLink {
    /// The name of its path, with the direction: `perth-singapore ab`.
    pub name: String,
    /// The number of its path in the scenario. The two directions of a path share it.
    pub path: usize,
    /// 0 for `ab`, 1 for `ba`.
    pub direction: usize,
    /// The site at which it begins.
    pub from: usize,
    /// The site at which it ends.
    pub to: usize,
    /// Its capacity, bit/s; infinite if the scenario states no rate.
    pub capacity_bit_s: f64,
    /// The part of the capacity that transfers may use.
    pub mark: f64,
    /// One-way delay, seconds.
    pub delay_s: f64,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// The largest packet, bytes.
    pub mtu_bytes: f64,
    /// What it shares with others, by numbers into [`Network::risks`].
    pub risks: Vec<usize>,
}

/// What is shared by several links: a cable, a duct.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRisk {
    /// As in the scenario.
    pub name: String,
    /// The links that fail with it.
    pub links: Vec<usize>,
}

/// The network in one year.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The year; none takes every link, whatever its years.
    pub year: Option<u16>,
    /// The names of the sites, by the scenario's numbers.
    pub sites: Vec<String>,
    /// Two for each path, in the order of the scenario.
    pub links: Vec<NetworkLink>,
    /// In alphabetical order.
    pub risks: Vec<SharedRisk>,
    /// Fixed routes, in both directions: the links, and the one-way delay if it is stated.
    pub(crate) fixed: BTreeMap<(usize, usize), FixedLinks>,
    /// The links that leave each site.
    outgoing: Vec<Vec<usize>>,
}

/// A fixed route in one direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FixedLinks {
    /// The links, in order; none if one of them does not exist in this year.
    pub links: Vec<usize>,
    /// The one-way delay, seconds, if the scenario states a round-trip time.
    pub delay_s: Option<f64>,
}

impl Network {
    /// The network of a scenario in a year.
    pub fn new(scenario: &Scenario, year: Option<u16>) -> Network {
        let exists = |path: &scenario::Path| year.is_none_or(|year| path.facts.years.contains(year));
        let mut links = Vec::new();
        let mut risk_names: Vec<(String, usize)> = Vec::new();
        for (number, path) in scenario.paths.iter().enumerate().filter(|(_, path)| exists(path)) {
            for direction in 0..2 {
                // A direction that goes over other sites has no link of its own.
                if !path.directions[direction].via.is_empty() {
                    continue;
                }
                risk_names.extend(path.facts.shared_risk.iter().map(|name| (name.clone(), links.len())));
                links.push(link(scenario, number, direction));
            }
        }
        let mut names: Vec<String> = risk_names.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        let mut risks: Vec<SharedRisk> = names.into_iter().map(|name| SharedRisk { name, links: Vec::new() }).collect();
        for (name, at) in risk_names {
            if let Ok(risk) = risks.binary_search_by(|risk| risk.name.cmp(&name)) {
                risks[risk].links.push(at);
                links[at].risks.push(risk);
            }
        }
        let sites: Vec<String> = scenario.sites.iter().map(|site| site.name.clone()).collect();
        let mut outgoing = vec![Vec::new(); sites.len()];
        for (at, link) in links.iter().enumerate() {
            outgoing[link.from].push(at);
        }
        let mut network = Network { year, sites, links, risks, fixed: BTreeMap::new(), outgoing };
        for route in &scenario.routes {
            for (from, to) in [(route.from, route.to), (route.to, route.from)] {
                let direction = usize::from(from != route.from);
                let mut over = route.over.clone();
                if direction == 1 {
                    over.reverse();
                }
                if let Some(links) = network.follow(from, &over, direction) {
                    let delay_s = route.rtt.map(|rtt| rtt.as_secs_f64() / 2.0);
                    network.fixed.insert((from, to), FixedLinks { links, delay_s });
                }
            }
        }
        network
    }

    /// The links over these paths: of each path the link that begins where the one before ended, or else, where paths are not joined, the
    /// one of the direction.
    fn follow(&self, from: usize, over: &[Crossing], direction: usize) -> Option<Vec<usize>> {
        let mut at = from;
        let mut links = Vec::new();
        for Crossing { path, against } in over {
            let direction = direction ^ usize::from(*against);
            let joined = self.links_of_path(*path).find(|link| self.links[*link].from == at);
            let stated = || self.links_of_path(*path).find(|link| self.links[*link].direction == direction);
            let link = joined.or_else(stated)?;
            at = self.links[link].to;
            links.push(link);
        }
        Some(links)
    }

    /// The links that leave a site.
    pub fn outgoing(&self, site: usize) -> &[usize] {
        &self.outgoing[site]
    }

    /// The links of a path, by the path's number in the scenario: one for each direction.
    pub fn links_of_path(&self, path: usize) -> impl Iterator<Item = usize> {
        (0..self.links.len()).filter(move |at| self.links[*at].path == path)
    }

    /// The other direction of a link; none if that goes over other sites.
    pub fn reverse(&self, link: usize) -> Option<usize> {
        self.links_of_path(self.links[link].path).find(|other| *other != link)
    }
}

fn link(scenario: &Scenario, number: usize, direction: usize) -> NetworkLink {
    let path = &scenario.paths[number];
    let path_direction: &PathDirection = &path.directions[direction];
    let key = ["ab", "ba"][direction];
    let members = path_direction.members.iter().filter(|member| !member.down && !member.withdrawn);
    let rate = |member: &scenario::LinkSettings| {
        let rate = member.rate.map_or(f64::INFINITY, |rate| rate.0 as f64);
        rate - member.cross_traffic.map_or(0.0, |traffic| traffic.0 as f64)
    };
    let delay_s = match path.facts.distance_km {
        Some(km) if path_direction.members[0].delay.is_zero() => km * SECONDS_PER_KM,
        _ => path_direction.members[0].delay.as_secs_f64(),
    };
    NetworkLink {
        name: format!("{} {key}", path.name),
        path: number,
        direction,
        from: path.ends[direction].site,
        to: path.ends[1 - direction].site,
        capacity_bit_s: members.clone().map(rate).sum(),
        mark: path.facts.mark.unwrap_or(1.0),
        delay_s,
        loss: members.clone().map(|member| loss(&member.loss)).sum::<f64>() / members.count().max(1) as f64,
        mtu_bytes: path.mtu.map_or_else(
            || f64::from(scenario.interface(path.ends[direction]).mtu),
            |mtu| f64::from(mtu.min(scenario.interface(path.ends[direction]).mtu)),
        ),
        risks: Vec::new(),
    }
}

/// The share of the packets that a pattern loses.
fn loss(pattern: &Loss) -> f64 {
    match pattern {
        Loss::None | Loss::List(_) => 0.0,
        Loss::Random(probability) => *probability,
        Loss::Every(packets) => 1.0 / *packets as f64,
        // The share of time that Gilbert's chain spends in the bad state.
        Loss::Burst(into, back) => into / (into + back),
    }
}

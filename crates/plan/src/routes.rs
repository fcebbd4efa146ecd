//! Routes: the shortest by delay, the next ones, routes over given sites, and pairs of routes that share nothing.
//!
//! Does not know: capacity. A route is what a network layer would choose; whether it fits is for [`crate::loads`].

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use crate::network::Network;

/// The number of shortest routes that are tried as the first of a diverse pair.
const ROUTES_TRIED: usize = 64;

/// A route: a sequence of links, each of which begins where the one before ends.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkRoute {
    /// Numbers into [`Network::links`].
    pub links: Vec<usize>,
    /// The sum of the one-way delays, seconds.
    pub delay_s: f64,
}

/// Links and sites that a route must not use.
#[derive(Clone, Debug, Default)]
pub struct Avoid {
    /// Numbers of links.
    pub links: BTreeSet<usize>,
    /// Numbers of sites. The ends of a route may be among them.
    pub sites: BTreeSet<usize>,
}

/// Two routes that share no link in either direction, no shared risk, and no site but the ends.
#[derive(Clone, Debug, PartialEq)]
pub struct DiversePair {
    /// The shorter one.
    pub primary: NetworkRoute,
    /// The longer one.
    pub backup: NetworkRoute,
}

/// A site that the search has reached.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ReachedSite {
    delay_s: f64,
    hops: usize,
    site: usize,
}

impl Eq for ReachedSite {}

impl Ord for ReachedSite {
    /// The site with the least delay is the greatest, so that the heap gives it first; then the one with the fewest links, then the first
    /// one: the result does not depend on chance.
    fn cmp(&self, other: &ReachedSite) -> Ordering {
        let by_delay = other.delay_s.total_cmp(&self.delay_s);
        by_delay.then_with(|| other.hops.cmp(&self.hops)).then_with(|| other.site.cmp(&self.site))
    }
}

impl PartialOrd for ReachedSite {
    fn partial_cmp(&self, other: &ReachedSite) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The route between two sites: the fixed one, if there is one and all of its links may be used; else the shortest.
pub fn between(network: &Network, from: usize, to: usize, avoid: &Avoid) -> Option<NetworkRoute> {
    let is_open = |link: &usize| !avoid.links.contains(link) && network.links[*link].capacity_bit_s > 0.0;
    match network.fixed.get(&(from, to)).filter(|fixed| fixed.links.iter().all(is_open)) {
        None => shortest(network, from, to, avoid),
        Some(fixed) => {
            let route = NetworkRoute::new(network, fixed.links.clone());
            Some(NetworkRoute {
                delay_s: fixed.delay_s.map_or(route.delay_s, |delay| delay.max(route.delay_s)),
                ..route
            })
        }
    }
}

/// The route of least delay (Dijkstra); none if there is no route. A site's route to itself has no links.
pub fn shortest(network: &Network, from: usize, to: usize, avoid: &Avoid) -> Option<NetworkRoute> {
    let mut least = vec![f64::INFINITY; network.sites.len()];
    let mut reached_by: Vec<Option<usize>> = vec![None; network.sites.len()];
    let mut open = BinaryHeap::from([ReachedSite { delay_s: 0.0, hops: 0, site: from }]);
    least[from] = 0.0;
    while let Some(reached) = open.pop() {
        if reached.site == to {
            return Some(trace(network, from, to, &reached_by));
        }
        if reached.delay_s > least[reached.site] {
            continue;
        }
        for at in network.outgoing(reached.site) {
            let link = &network.links[*at];
            let is_closed = link.capacity_bit_s <= 0.0 || avoid.links.contains(at);
            if is_closed || link.to != to && avoid.sites.contains(&link.to) {
                continue;
            }
            let delay_s = reached.delay_s + link.delay_s;
            if delay_s < least[link.to] {
                least[link.to] = delay_s;
                reached_by[link.to] = Some(*at);
                open.push(ReachedSite { delay_s, hops: reached.hops + 1, site: link.to });
            }
        }
    }
    None
}

fn trace(network: &Network, from: usize, to: usize, reached_by: &[Option<usize>]) -> NetworkRoute {
    let mut links = Vec::new();
    let mut site = to;
    while let Some(link) = reached_by[site].filter(|_| site != from) {
        links.push(link);
        site = network.links[link].from;
    }
    links.reverse();
    NetworkRoute::new(network, links)
}

/// The route over given sites in their order: the shortest leg to each.
pub fn over(network: &Network, from: usize, via: &[usize], to: usize, avoid: &Avoid) -> Option<NetworkRoute> {
    if via.is_empty() {
        return between(network, from, to, avoid);
    }
    let stops: Vec<usize> = [from].into_iter().chain(via.iter().copied()).chain([to]).collect();
    let mut links = Vec::new();
    for leg in stops.windows(2) {
        links.extend(shortest(network, leg[0], leg[1], avoid)?.links);
    }
    Some(NetworkRoute::new(network, links))
}

/// Up to `count` routes without loops, the shortest first (Yen, 1971).
pub fn shortest_routes(network: &Network, from: usize, to: usize, count: usize) -> Vec<NetworkRoute> {
    let mut found: Vec<NetworkRoute> = shortest(network, from, to, &Avoid::default()).into_iter().collect();
    let mut candidates: Vec<NetworkRoute> = Vec::new();
    while found.len() < count {
        let Some(last) = found.last().cloned() else { break };
        for split in 0..last.links.len() {
            let head = &last.links[..split];
            let avoid = Avoid {
                links: found
                    .iter()
                    .filter(|route| route.links.starts_with(head))
                    .map(|route| route.links[split])
                    .collect(),
                sites: head.iter().map(|link| network.links[*link].from).collect(),
            };
            let spur = network.links[last.links[split]].from;
            let Some(tail) = shortest(network, spur, to, &avoid) else { continue };
            let route = NetworkRoute::new(network, head.iter().copied().chain(tail.links).collect());
            if !candidates.contains(&route) && !found.contains(&route) {
                candidates.push(route);
            }
        }
        let Some(best) = (0..candidates.len()).min_by(|a, b| candidates[*a].compare(&candidates[*b])) else { break };
        found.push(candidates.swap_remove(best));
    }
    found
}

/// The pair of routes that share nothing but their ends, with the least sum of delays. A link shares with its own reverse, and with all
/// links of its shared risks. None if there is no such pair among those that begin with one of the 64 shortest routes.
pub fn diverse_pair(network: &Network, from: usize, to: usize) -> Option<DiversePair> {
    let pairs = shortest_routes(network, from, to, ROUTES_TRIED).into_iter().filter_map(|primary| {
        let backup = shortest(network, from, to, &primary.shared(network, from, to))?;
        Some(DiversePair { primary, backup })
    });
    pairs.min_by(|a, b| a.delay_s().total_cmp(&b.delay_s())).map(DiversePair::ordered)
}

impl NetworkRoute {
    /// A route over these links.
    pub fn new(network: &Network, links: Vec<usize>) -> NetworkRoute {
        let delay_s = links.iter().map(|link| network.links[*link].delay_s).sum();
        NetworkRoute { links, delay_s }
    }

    /// The sites that it goes over, ends included; none if it has no links.
    pub fn sites(&self, network: &Network) -> Vec<usize> {
        let first = self.links.first().map(|link| network.links[*link].from);
        first.into_iter().chain(self.links.iter().map(|link| network.links[*link].to)).collect()
    }

    /// The names of the sites, joined by arrows.
    pub fn show(&self, network: &Network) -> String {
        let names: Vec<&str> = self.sites(network).iter().map(|site| network.sites[*site].as_str()).collect();
        names.join(" → ")
    }

    /// The least capacity of its links, bit/s; infinite without links.
    pub fn capacity_bit_s(&self, network: &Network) -> f64 {
        self.links.iter().map(|link| network.links[*link].capacity_bit_s).fold(f64::INFINITY, f64::min)
    }

    /// The share of the packets that its links lose together.
    pub fn loss(&self, network: &Network) -> f64 {
        1.0 - self.links.iter().map(|link| 1.0 - network.links[*link].loss).product::<f64>()
    }

    /// The route back over the same paths; none if one of them has no link back.
    pub fn reversed(&self, network: &Network) -> Option<NetworkRoute> {
        let links = self.links.iter().rev().map(|link| network.reverse(*link)).collect::<Option<Vec<_>>>()?;
        Some(NetworkRoute::new(network, links))
    }

    fn compare(&self, other: &NetworkRoute) -> Ordering {
        self.delay_s.total_cmp(&other.delay_s).then_with(|| self.links.cmp(&other.links))
    }

    /// What a second route must avoid to share nothing with this one.
    fn shared(&self, network: &Network, from: usize, to: usize) -> Avoid {
        let mut avoid = Avoid::default();
        for link in &self.links {
            avoid.links.extend(network.links_of_path(network.links[*link].path));
            for risk in &network.links[*link].risks {
                avoid.links.extend(&network.risks[*risk].links);
            }
        }
        avoid.sites = self.sites(network).into_iter().filter(|site| *site != from && *site != to).collect();
        avoid
    }
}

impl DiversePair {
    /// The sum of both delays, seconds.
    pub fn delay_s(&self) -> f64 {
        self.primary.delay_s + self.backup.delay_s
    }

    fn ordered(self) -> DiversePair {
        if self.primary.delay_s <= self.backup.delay_s {
            self
        } else {
            DiversePair { primary: self.backup, backup: self.primary }
        }
    }
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;

    use super::*;

    /// a and d are joined over b (20 ms) and over c (30 ms); the links a-b and a-c share a duct where `duct` says so.
    fn network(duct: &str) -> Network {
        let text = format!(
            "[site.a]\n[site.b]\n[site.c]\n[site.d]\n\
             [path.a-b]\nrtt = \"20ms\"\n{duct}\n[path.b-d]\nrtt = \"20ms\"\n\
             [path.a-c]\nrtt = \"30ms\"\n{duct}\n[path.c-d]\nrtt = \"30ms\"\n[path.b-c]\nrtt = \"2ms\"\n"
        );
        Network::new(&Scenario::read(&text).unwrap(), None)
    }

    #[test]
    fn the_shortest_route_has_the_least_delay() {
        let network = network("");
        let route = shortest(&network, 0, 3, &Avoid::default()).unwrap();
        assert_eq!(route.show(&network), "a → b → d");
        assert!((route.delay_s - 0.020).abs() < 1e-12);
        assert!(shortest(&network, 2, 2, &Avoid::default()).unwrap().links.is_empty());
    }

    #[test]
    fn further_routes_come_in_the_order_of_their_delay() {
        let network = network("");
        let shown: Vec<String> = shortest_routes(&network, 0, 3, 9).iter().map(|route| route.show(&network)).collect();
        assert_eq!(shown, ["a → b → d", "a → b → c → d", "a → c → b → d", "a → c → d"]);
    }

    #[test]
    fn a_route_over_given_sites_visits_them_in_order() {
        let network = network("");
        // Each leg is the shortest one: to c it leads over b.
        assert_eq!(over(&network, 0, &[2, 1], 3, &Avoid::default()).unwrap().show(&network), "a → b → c → b → d");
    }

    #[test]
    fn a_fixed_route_goes_before_the_shortest_as_long_as_its_links_are_there() {
        let mut text = String::from(
            "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\n[path.a-c]\nrtt = \"10ms\"\n[path.c-b]\nrtt = \"10ms\"\n",
        );
        text += "[route.long]\nfrom = \"a\"\nto = \"b\"\nover = [\"a-c\", \"c-b\"]\nrtt = \"30ms\"\n";
        let network = Network::new(&Scenario::read(&text).unwrap(), None);
        let there = between(&network, 0, 1, &Avoid::default()).unwrap();
        let back = between(&network, 1, 0, &Avoid::default()).unwrap();
        assert_eq!((there.show(&network), back.show(&network)), ("a → c → b".to_owned(), "b → c → a".to_owned()));
        assert!((there.delay_s - 0.015).abs() < 1e-12);
        let avoid = Avoid { links: there.links.iter().copied().take(1).collect(), ..Avoid::default() };
        assert_eq!(between(&network, 0, 1, &avoid).unwrap().show(&network), "a → b");
    }

    #[test]
    fn a_diverse_pair_shares_no_link_and_no_duct() {
        let free = network("");
        let pair = diverse_pair(&free, 0, 3).unwrap();
        assert_eq!((pair.primary.show(&free), pair.backup.show(&free)), ("a → b → d".into(), "a → c → d".into()));
        assert_eq!(diverse_pair(&network("shared_risk = \"duct under the road\""), 0, 3), None);
    }
}

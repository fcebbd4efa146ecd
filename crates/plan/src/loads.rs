//! Loads of links: the flows of a scenario on their routes.
//!
//! Does not know: packets and congestion. A link that is loaded beyond its capacity is reported, and nothing is cut.

use std::collections::BTreeSet;

use model::figure::Figure;
use scenario::{FlowDemand, Scenario};

use crate::network::Network;
use crate::routes::{self, Avoid, NetworkRoute};

/// Which flows count.
#[derive(Clone, Debug, Default)]
pub struct FlowChoice {
    /// The switches that are on.
    pub switches: BTreeSet<String>,
    /// The year; none takes every flow.
    pub year: Option<u16>,
    /// The factor on all rates: growth, bursts.
    pub factor: f64,
}

/// One flow from one site to one other, on its route.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutedFlow {
    /// The name of the flow in the scenario.
    pub flow: String,
    /// The line of its header.
    pub line: usize,
    /// The sending site.
    pub from: usize,
    /// The receiving site.
    pub to: usize,
    /// The rate, bit/s.
    pub rate_bit_s: f64,
    /// The route; none if there is no route.
    pub route: Option<NetworkRoute>,
}

/// The load of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoad {
    /// The number of the link.
    pub link: usize,
    /// The sum of the rates of its flows, bit/s.
    pub load_bit_s: f64,
    /// The flows on it, by numbers into [`Loads::flows`].
    pub flows: Vec<usize>,
}

/// Flows on their routes, and the loads of all links.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads {
    /// Each pair of each flow.
    pub flows: Vec<RoutedFlow>,
    /// In the order of the network's links.
    pub links: Vec<LinkLoad>,
}

impl FlowChoice {
    /// All flows without a switch, at their stated rates.
    pub fn stated(year: Option<u16>) -> FlowChoice {
        FlowChoice { switches: BTreeSet::new(), year, factor: 1.0 }
    }

    /// Whether a flow counts.
    pub fn counts(&self, flow: &FlowDemand) -> bool {
        let is_on = flow.switch.as_ref().is_none_or(|switch| self.switches.contains(switch));
        is_on && self.year.is_none_or(|year| flow.years.contains(year))
    }
}

/// Puts the flows of a scenario on their routes.
pub fn loads(scenario: &Scenario, network: &Network, choice: &FlowChoice, avoid: &Avoid) -> Loads {
    let mut flows = Vec::new();
    for flow in scenario.flows.iter().filter(|flow| choice.counts(flow)) {
        for from in &flow.from {
            for to in flow.to.iter().filter(|to| *to != from) {
                flows.push(RoutedFlow {
                    flow: flow.name.clone(),
                    line: flow.line,
                    from: *from,
                    to: *to,
                    rate_bit_s: flow.rate_bit_s * choice.factor,
                    route: route(network, flow, *from, *to, avoid),
                });
            }
        }
    }
    let mut links: Vec<LinkLoad> =
        (0..network.links.len()).map(|link| LinkLoad { link, load_bit_s: 0.0, flows: Vec::new() }).collect();
    for (at, flow) in flows.iter().enumerate() {
        for link in flow.route.iter().flat_map(|route| &route.links) {
            links[*link].load_bit_s += flow.rate_bit_s;
            links[*link].flows.push(at);
        }
    }
    Loads { flows, links }
}

/// The route of a flow. Where the sites that it is to go over cannot be reached, it takes the shortest route, as a network layer would.
fn route(network: &Network, flow: &FlowDemand, from: usize, to: usize, avoid: &Avoid) -> Option<NetworkRoute> {
    routes::over(network, from, &flow.via, to, avoid).or_else(|| routes::between(network, from, to, avoid))
}

impl Loads {
    /// The flows that have no route.
    pub fn unreachable(&self) -> impl Iterator<Item = &RoutedFlow> {
        self.flows.iter().filter(|flow| flow.route.is_none())
    }

    /// The links that are loaded beyond the part of their capacity that transfers may use.
    pub fn overloaded<'a>(&'a self, network: &'a Network) -> impl Iterator<Item = &'a LinkLoad> {
        self.links.iter().filter(|load| {
            let link = &network.links[load.link];
            load.load_bit_s > link.capacity_bit_s * link.mark * (1.0 + 1e-9)
        })
    }

    /// The load of a link as a figure in Gbit/s: the sum of its flows by name.
    pub fn figure(&self, network: &Network, load: &LinkLoad) -> Figure {
        let mut figure =
            Figure::new(format!("load of {}", network.links[load.link].name), load.load_bit_s / 1e9, "Gbit/s");
        let mut names = Vec::new();
        for at in &load.flows {
            let flow = &self.flows[*at];
            let name = identifier(&format!("{} {}", flow.flow, network.sites[flow.to]));
            figure = figure.with(name.clone(), flow.rate_bit_s / 1e9, "Gbit/s");
            names.push(name);
        }
        let formula = if names.is_empty() { "0".to_owned() } else { names.join(" + ") };
        figure.formula(formula).source("the flows of the scenario on their routes")
    }
}

/// A name for a formula: lower case letters, digits and `_`.
pub(crate) fn identifier(text: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = text.chars().map(letter).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("n_{name}") } else { name }
}

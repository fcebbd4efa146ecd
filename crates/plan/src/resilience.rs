//! What happens when a link or a shared risk fails: which flows take another route, which have none, which links are then overloaded.
//!
//! Does not know: how long a repair takes, or two failures at once.

use scenario::Scenario;

use crate::loads::{FlowChoice, Loads, loads};
use crate::network::Network;
use crate::routes::Avoid;

/// What fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureCase {
    /// Both directions of a path, by its number in the scenario.
    Path(usize),
    /// All links of a shared risk, by its number in the network.
    SharedRisk(usize),
}

/// The consequence of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Consequence {
    /// What fails.
    pub failure: FailureCase,
    /// Its name.
    pub name: String,
    /// Flows that take another route, by numbers into [`Loads::flows`].
    pub rerouted: Vec<usize>,
    /// Flows that have no route any more.
    pub cut: Vec<usize>,
    /// Links that are loaded beyond their mark, and were not before.
    pub overloaded: Vec<usize>,
    /// The loads after the failure.
    pub loads: Loads,
}

impl Consequence {
    /// The flows that lose something: those without a route, and those over a link that is overloaded now.
    pub fn suffering(&self) -> Vec<usize> {
        let crosses = |at: &usize| {
            let route = self.loads.flows[*at].route.as_ref();
            route.is_some_and(|route| route.links.iter().any(|link| self.overloaded.contains(link)))
        };
        let crowded = (0..self.loads.flows.len()).filter(crosses);
        self.cut.iter().copied().chain(crowded).collect()
    }
}

/// Removes each path and each shared risk in turn; the failure that hurts most flows comes first.
pub fn failures(scenario: &Scenario, network: &Network, choice: &FlowChoice) -> Vec<Consequence> {
    let before = loads(scenario, network, choice, &Avoid::default());
    let mut paths: Vec<usize> = network.links.iter().map(|link| link.path).collect();
    paths.dedup();
    let of_paths = paths.into_iter().map(|path| (FailureCase::Path(path), scenario.paths[path].name.clone()));
    let of_risks = network.risks.iter().enumerate();
    let of_risks = of_risks.map(|(number, risk)| (FailureCase::SharedRisk(number), risk.name.clone()));
    let mut all: Vec<Consequence> = of_paths
        .chain(of_risks)
        .map(|(failure, name)| consequence(scenario, network, choice, &before, failure, name))
        .collect();
    all.sort_by_key(|consequence| (usize::MAX - consequence.cut.len(), usize::MAX - consequence.suffering().len()));
    all
}

fn consequence(
    scenario: &Scenario,
    network: &Network,
    choice: &FlowChoice,
    before: &Loads,
    failure: FailureCase,
    name: String,
) -> Consequence {
    let failed: Vec<usize> = match &failure {
        FailureCase::Path(path) => network.links_of_path(*path).collect(),
        FailureCase::SharedRisk(risk) => network.risks[*risk].links.clone(),
    };
    let avoid = Avoid { links: failed.into_iter().collect(), ..Avoid::default() };
    let after = loads(scenario, network, choice, &avoid);
    let flows = || before.flows.iter().zip(&after.flows).enumerate();
    let was_overloaded: Vec<usize> = before.overloaded(network).map(|load| load.link).collect();
    Consequence {
        failure,
        name,
        rerouted: flows()
            .filter(|(_, (was, is))| is.route.is_some() && was.route != is.route)
            .map(|(at, _)| at)
            .collect(),
        cut: flows().filter(|(_, (was, is))| was.route.is_some() && is.route.is_none()).map(|(at, _)| at).collect(),
        overloaded: after
            .overloaded(network)
            .map(|load| load.link)
            .filter(|link| !was_overloaded.contains(link))
            .collect(),
        loads: after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIANGLE: &str = r#"
        [site.a]
        [site.b]
        [site.c]
        [site.d]
        [path.a-b]
        rtt = "10ms"
        rate = "100Gbit/s"
        shared_risk = "bridge"
        [path.b-c]
        rtt = "10ms"
        rate = "100Gbit/s"
        [path.a-c]
        rtt = "50ms"
        rate = "30Gbit/s"
        shared_risk = "bridge"
        [path.c-d]
        rtt = "1ms"
        rate = "100Gbit/s"
        [flow.raw]
        from = "a"
        to = ["b", "c"]
        rate = "20Gbit/s"
    "#;

    #[test]
    fn a_failed_link_moves_flows_and_overloads_the_detour() {
        let scenario = Scenario::read(TRIANGLE).unwrap();
        let network = Network::new(&scenario, None);
        let all = failures(&scenario, &network, &FlowChoice::stated(None));
        let of = |name: &str| all.iter().find(|consequence| consequence.name == name).unwrap();
        let broken = of("a-b");
        assert_eq!((broken.rerouted.len(), broken.cut.len()), (2, 0));
        let overloaded: Vec<&str> = broken.overloaded.iter().map(|link| network.links[*link].name.as_str()).collect();
        assert_eq!(overloaded, ["a-c ab"], "40 Gbit/s meet 30");
        assert_eq!(broken.suffering(), [0, 1]);
        assert_eq!((of("c-d").rerouted.len(), of("c-d").suffering().len()), (0, 0));
    }

    #[test]
    fn a_shared_risk_cuts_what_single_links_do_not() {
        let scenario = Scenario::read(TRIANGLE).unwrap();
        let network = Network::new(&scenario, None);
        let all = failures(&scenario, &network, &FlowChoice::stated(None));
        assert_eq!((all[0].name.as_str(), all[0].cut.len()), ("bridge", 2), "the worst comes first");
    }
}

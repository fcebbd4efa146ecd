//! Maps of a scenario's sites and links, by load, by failure, and after a simulation.

use std::collections::BTreeSet;

use model::v1::plan::PlanSimulation;
use plan::loads::Loads;
use plan::network::Network;
use plan::resilience::{Consequence, FailureCase};
use report::html::{self, LinkState, MapLink, MapSite};
use scenario::{Scenario, Target, Word};

use super::LoadedScenario;

/// A map of the loads. Links whose failure cuts or crowds flows are marked.
pub fn of_loads(loaded: &LoadedScenario, network: &Network, loads: &Loads, failures: &[Consequence]) -> String {
    let hurts = |consequence: &&Consequence| !consequence.suffering().is_empty();
    let critical: BTreeSet<usize> =
        failures.iter().filter(hurts).flat_map(|consequence| paths(network, &consequence.failure)).collect();
    let state = LoadState { loads, failed: BTreeSet::new(), critical };
    let about = "The load of each link in its fuller direction, as a part of its capacity";
    html::map("map", "The links on the map", about, &sites(&loaded.scenario), &state.links(&loaded.scenario, network))
}

/// A map of the loads after a failure.
pub fn of_failure(number: usize, loaded: &LoadedScenario, network: &Network, consequence: &Consequence) -> String {
    let failed = paths(network, &consequence.failure);
    let state = LoadState { loads: &consequence.loads, failed, critical: BTreeSet::new() };
    let title = format!("Without {}", consequence.name);
    let about = format!(
        "{} flows have no route, {} take another one, {} suffer",
        consequence.cut.len(),
        consequence.rerouted.len(),
        consequence.suffering().len()
    );
    let links = state.links(&loaded.scenario, network);
    html::map(&format!("map-{number}"), &title, &about, &sites(&loaded.scenario), &links)
}

/// A map of the mean rates of a simulation. Links that an event takes down are drawn as failed.
pub fn of_simulation(loaded: &LoadedScenario, document: &PlanSimulation) -> String {
    let scenario = &loaded.scenario;
    let network = loaded.network();
    let failed: BTreeSet<usize> = scenario.events.iter().filter_map(path_that_goes_down).collect();
    let link = |path: usize| {
        let names: BTreeSet<&str> = network.links_of_path(path).map(|link| network.links[link].name.as_str()).collect();
        let used = document.resources.iter().filter(|resource| names.contains(resource.name.as_str()));
        let mean = used.clone().map(|resource| resource.mean_bit_s).fold(0.0, f64::max);
        let part = used.filter_map(|resource| Some(resource.mean_bit_s / resource.usable_bit_s?)).reduce(f64::max);
        let state = match mean {
            _ if failed.contains(&path) => LinkState::Failed,
            0.0 => LinkState::Idle,
            _ => LinkState::Carries,
        };
        map_link(scenario, path, part, state)
    };
    let links: Vec<MapLink> = present(scenario, &network).map(link).collect();
    let about = "The mean rate over each link in its fuller direction, as a part of what transfers may use; a link that is down for a time is drawn as down";
    html::map("map-simulated", "Simulated links on the map", about, &sites(scenario), &links)
}

fn path_that_goes_down(event: &scenario::Event) -> Option<usize> {
    let goes_down = event.change.words.iter().any(|word| matches!(word, Word::Down(true) | Word::Withdrawn(true)));
    match event.change.target {
        Target::Path { path, .. } if goes_down => Some(path),
        _ => None,
    }
}

fn sites(scenario: &Scenario) -> Vec<MapSite> {
    let site = |site: &scenario::Site| MapSite { name: site.name.clone(), position: site.facts.position };
    scenario.sites.iter().map(site).collect()
}

/// The paths that exist in the year.
fn present<'a>(scenario: &'a Scenario, network: &'a Network) -> impl Iterator<Item = usize> + 'a {
    (0..scenario.paths.len()).filter(|path| network.links_of_path(*path).next().is_some())
}

fn map_link(scenario: &Scenario, path: usize, part: Option<f64>, state: LinkState) -> MapLink {
    let described = &scenario.paths[path];
    let ends = described.ends.map(|end| end.site);
    MapLink { name: described.name.clone(), ends, part, state, critical: false }
}

/// The paths that fail.
fn paths(network: &Network, failure: &FailureCase) -> BTreeSet<usize> {
    match failure {
        FailureCase::Path(path) => BTreeSet::from([*path]),
        FailureCase::SharedRisk(risk) => {
            network.risks[*risk].links.iter().map(|link| network.links[*link].path).collect()
        }
    }
}

/// Loads, and which paths fail or are critical.
struct LoadState<'a> {
    loads: &'a Loads,
    failed: BTreeSet<usize>,
    critical: BTreeSet<usize>,
}

impl LoadState<'_> {
    fn links(&self, scenario: &Scenario, network: &Network) -> Vec<MapLink> {
        let overloaded: BTreeSet<usize> = self.loads.overloaded(network).map(|load| load.link).collect();
        let link = |path: usize| {
            let links: Vec<usize> = network.links_of_path(path).collect();
            let load = links.iter().map(|link| self.loads.links[*link].load_bit_s).fold(0.0, f64::max);
            let part = |link: &usize| self.loads.links[*link].load_bit_s / network.links[*link].capacity_bit_s;
            let part = links.iter().map(part).fold(0.0, f64::max);
            let is_known = links.iter().all(|link| network.links[*link].capacity_bit_s.is_finite());
            let state = if self.failed.contains(&path) {
                LinkState::Failed
            } else if links.iter().any(|link| overloaded.contains(link)) {
                LinkState::Overloaded
            } else if load > 0.0 {
                LinkState::Carries
            } else {
                LinkState::Idle
            };
            let drawn = map_link(scenario, path, Some(part).filter(|_| is_known), state);
            MapLink { critical: self.critical.contains(&path), ..drawn }
        };
        present(scenario, network).map(link).collect()
    }
}

//! The section of a page about links, and the page of `plan links --out`.

use model::figure::Figure;
use model::v1::plan::PlanReach;
use plan::loads::loads;
use plan::network::Network;
use plan::resilience::{Consequence, failures};
use plan::routes::Avoid;
use report::html::{self, Table};

use super::figure_list::figure_list;
use super::{LoadedScenario, links, map, show_rate};

/// Each path fails in turn, and all flows find new routes: with more paths than this, a page would take too long.
const FAILING_PATHS_MAX: usize = 250;
/// Failures that have a map of their own.
const FAILURE_MAPS: usize = 3;

/// A page about the links of a scenario.
pub fn page(loaded: &LoadedScenario, network: &Network) -> String {
    let title = format!("Links of {}", loaded.name);
    html::page(&title, &format!("<h1>{}</h1>{}", html::brief(&title), section(loaded, network)))
}

/// The section of a page about the links: loads, a map, optical reach, failures, and the figures.
pub fn section(loaded: &LoadedScenario, network: &Network) -> String {
    let loads = loads(&loaded.scenario, network, &loaded.flows(), &Avoid::default());
    let mut body = "<h2>Links</h2>".to_owned();
    let mut table = Table::new("numbers", "The fullest first", &["link", "load", "capacity", "part"]);
    for link in links::links(network, &loads) {
        let capacity = link.capacity_bit_s;
        table.row(&[
            link.name.clone(),
            show_rate(link.load_bit_s),
            capacity.map_or("not stated".to_owned(), show_rate),
            capacity.map_or(String::new(), |capacity| format!("{:.0} %", link.load_bit_s / capacity * 100.0)),
        ]);
    }
    let failures = if loaded.scenario.paths.len() <= FAILING_PATHS_MAX {
        failures(&loaded.scenario, network, &loaded.flows())
    } else {
        Vec::new()
    };
    body += &map::of_loads(loaded, network, &loads, &failures);
    body += &table.end();
    body += &reach_table(&links::reach(loaded, network));
    let loaded_links = loads.links.iter().filter(|load| !load.flows.is_empty());
    body += &failure_section(loaded, network, &failures);
    body += &figure_list(&loaded_links.map(|load| loads.figure(network, load)).collect::<Vec<Figure>>());
    body
}

/// Optical reach of the paths whose length is known.
fn reach_table(paths: &[PlanReach]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let caption = "Optical reach, by wavelengths of the Indigo cable";
    let mut table = Table::new("", caption, &["path", "length", "without regeneration", "wavelengths in production"]);
    for path in paths {
        let kinds = path.wavelengths.iter().filter(|kind| kind.production).map(links::show_wavelength);
        table.row(&[
            path.path.clone(),
            format!("{:.0} km", path.distance_km),
            if path.reaches { "yes" } else { "no" }.to_owned(),
            kinds.collect::<Vec<_>>().join("; "),
        ]);
    }
    table.end()
}

/// What each failure does, with a map for the worst ones.
fn failure_section(loaded: &LoadedScenario, network: &Network, failures: &[Consequence]) -> String {
    let worst: Vec<&Consequence> = failures.iter().filter(|failure| !failure.suffering().is_empty()).collect();
    if worst.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new("", "Failures that hurt, the worst first", &["without", "cut", "rerouted", "suffer", "overloaded"]);
    for failure in &worst {
        let overloaded = failure.overloaded.iter().map(|link| network.links[*link].name.as_str());
        table.row(&[
            failure.name.clone(),
            failure.cut.len().to_string(),
            failure.rerouted.len().to_string(),
            failure.suffering().len().to_string(),
            overloaded.collect::<Vec<_>>().join(", "),
        ]);
    }
    let of = |(number, failure): (usize, &&Consequence)| map::of_failure(number, loaded, network, failure);
    let maps: String = worst.iter().take(FAILURE_MAPS).enumerate().map(of).collect();
    format!("<h3>Failures</h3>{}{maps}", table.end())
}

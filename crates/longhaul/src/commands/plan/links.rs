//! `plan links`: flows on their routes, loads, failures, diverse routes.

use model::Exit;
use model::v1::plan::{PlanFailure, PlanFlow, PlanLink, PlanLinks, PlanReach, PlanRoute, PlanWavelength};
use plan::loads::{LinkLoad, Loads, RoutedFlow, loads};
use plan::network::Network;
use plan::optics::{self, WavelengthChoice};
use plan::resilience::{Consequence, failures};
use plan::routes::{Avoid, NetworkRoute, diverse_pair};

use super::{LoadedScenario, show_rate};
use crate::args::PlanLinks as LinksArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints the loads of the links; with options also failures and diverse routes.
///
/// # Errors
/// A site of `--diverse` does not exist.
pub fn run(args: &LinksArgs, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    let network = loaded.network();
    let document = document(args, loaded, &network)?;
    if printer.is_json() {
        printer.object(&document);
    } else {
        print_links(&document, printer);
        print_reach(&document, printer);
        print_failures(&document, printer);
        if let [from, to] = args.diverse.as_slice() {
            print_diverse(&document, from, to, printer);
        }
    }
    let is_well = document.unreachable.is_empty() && document.links.iter().all(|link| !link.overloaded);
    Ok(if is_well { Exit::Done } else { Exit::Partial })
}

/// The document of the command.
fn document(args: &LinksArgs, loaded: &LoadedScenario, network: &Network) -> Result<PlanLinks, Failure> {
    let scenario = &loaded.scenario;
    let choice = loaded.flows();
    let loads = loads(scenario, network, &choice, &Avoid::default());
    let consequences = if args.failures { failures(scenario, network, &choice) } else { Vec::new() };
    let diverse = match args.diverse.as_slice() {
        [from, to] => {
            let ends = [from, to].map(|name| {
                scenario.site(name).ok_or_else(|| Failure::usage(format!("{}: there is no site {name:?}", loaded.name)))
            });
            let [from, to] = ends;
            let pair = diverse_pair(network, from?, to?);
            pair.map_or_else(Vec::new, |pair| vec![route(network, &pair.primary), route(network, &pair.backup)])
        }
        _ => Vec::new(),
    };
    Ok(PlanLinks {
        v: 1,
        event: "plan_links".to_owned(),
        scenario: loaded.name.clone(),
        year: loaded.year,
        links: links(network, &loads),
        unreachable: loads.unreachable().map(|routed| flow(network, routed)).collect(),
        failures: consequences.iter().map(|consequence| failure(network, consequence)).collect(),
        diverse,
        reach: reach(loaded, network),
    })
}

/// Links that carry something, the fullest first.
pub fn links(network: &Network, loads: &Loads) -> Vec<PlanLink> {
    let overloaded: Vec<usize> = loads.overloaded(network).map(|load| load.link).collect();
    let mut loaded: Vec<&LinkLoad> = loads.links.iter().filter(|load| !load.flows.is_empty()).collect();
    let fill = |load: &LinkLoad| load.load_bit_s / network.links[load.link].capacity_bit_s;
    loaded.sort_by(|a, b| fill(b).total_cmp(&fill(a)));
    let link = |load: &&LinkLoad| PlanLink {
        name: network.links[load.link].name.clone(),
        capacity_bit_s: Some(network.links[load.link].capacity_bit_s).filter(|rate| rate.is_finite()),
        load_bit_s: load.load_bit_s,
        overloaded: overloaded.contains(&load.link),
        flows: load.flows.iter().map(|at| flow(network, &loads.flows[*at])).collect(),
    };
    loaded.iter().map(link).collect()
}

fn flow(network: &Network, flow: &RoutedFlow) -> PlanFlow {
    PlanFlow {
        flow: flow.flow.clone(),
        from: network.sites[flow.from].clone(),
        to: network.sites[flow.to].clone(),
        rate_bit_s: flow.rate_bit_s,
    }
}

fn failure(network: &Network, consequence: &Consequence) -> PlanFailure {
    PlanFailure {
        name: consequence.name.clone(),
        rerouted: consequence.rerouted.len(),
        cut: consequence.cut.iter().map(|at| flow(network, &consequence.loads.flows[*at])).collect(),
        overloaded: consequence.overloaded.iter().map(|link| network.links[*link].name.clone()).collect(),
        suffering: consequence.suffering().len(),
    }
}

fn route(network: &Network, route: &NetworkRoute) -> PlanRoute {
    PlanRoute {
        sites: route.sites(network).into_iter().map(|site| network.sites[site].clone()).collect(),
        delay_s: route.delay_s,
        capacity_bit_s: Some(route.capacity_bit_s(network)).filter(|rate| rate.is_finite()),
    }
}

/// How far light gets on each path that has a length and exists in the year.
pub fn reach(loaded: &LoadedScenario, network: &Network) -> Vec<PlanReach> {
    let of_path = |(number, path): (usize, &scenario::Path)| {
        let distance_km = path.facts.distance_km?;
        let link = network.links_of_path(number).next()?;
        let rate = Some(network.links[link].capacity_bit_s).filter(|rate| rate.is_finite());
        let wavelength = |choice: &WavelengthChoice| PlanWavelength {
            rate_bit_s: choice.gbit_s * 1e9,
            width_ghz: choice.width_ghz,
            bit_s_hz: choice.bit_s_hz(),
            reach_km: choice.reach_km,
            production: choice.in_production,
            regenerators: choice.regenerators,
            count: rate.map(|rate| choice.count(rate / 1e9)),
        };
        let choices = optics::choices(distance_km);
        Some(PlanReach {
            path: path.name.clone(),
            distance_km,
            rate_bit_s: rate,
            reaches: choices.iter().any(|choice| choice.in_production && choice.regenerators == 0),
            wavelengths: choices.iter().map(wavelength).collect(),
        })
    };
    loaded.scenario.paths.iter().enumerate().filter_map(of_path).collect()
}

/// A kind of wavelength in words.
pub fn show_wavelength(wavelength: &PlanWavelength) -> String {
    let PlanWavelength { rate_bit_s, width_ghz, bit_s_hz, regenerators, count, .. } = wavelength;
    let count = count.map_or(String::new(), |count| format!("{count} x "));
    let trial = if wavelength.production { "" } else { " (in trials)" };
    let regenerated = match regenerators {
        0 => "without regeneration".to_owned(),
        1 => "1 regenerator each".to_owned(),
        more => format!("{more} regenerators each"),
    };
    format!("{count}{} in {width_ghz} GHz ({bit_s_hz:.2} bit/s/Hz){trial}, {regenerated}", show_rate(*rate_bit_s))
}

fn print_reach(document: &PlanLinks, printer: &Printer) {
    for path in &document.reach {
        let verdict = if path.reaches { "light gets through" } else { "light NEEDS REGENERATION" };
        printer.line(&format!("{:<34} {:>8.0} km  {verdict}", path.path, path.distance_km));
        if printer.is_chatty() {
            path.wavelengths.iter().for_each(|kind| printer.line(&format!("    {}", show_wavelength(kind))));
        }
    }
}

fn print_links(document: &PlanLinks, printer: &Printer) {
    for link in &document.links {
        let capacity = link.capacity_bit_s.map_or("no rate stated".to_owned(), |capacity| {
            format!("{:>4.0} % of {}", link.load_bit_s / capacity * 100.0, show_rate(capacity))
        });
        let mark = if link.overloaded { "  OVERLOADED" } else { "" };
        printer.line(&format!("{:<34} {:>14}  {capacity}{mark}", link.name, show_rate(link.load_bit_s)));
        if printer.is_chatty() {
            for flow in &link.flows {
                printer.line(&format!("    {} {} → {}  {}", flow.flow, flow.from, flow.to, show_rate(flow.rate_bit_s)));
            }
        }
    }
    for flow in &document.unreachable {
        printer.line(&format!("NO ROUTE  {} {} → {}", flow.flow, flow.from, flow.to));
    }
}

fn print_failures(document: &PlanLinks, printer: &Printer) {
    for failure in &document.failures {
        let overloaded = if failure.overloaded.is_empty() {
            String::new()
        } else {
            format!("; overloaded: {}", failure.overloaded.join(", "))
        };
        printer.line(&format!(
            "without {:<26} {} flows cut, {} rerouted, {} suffer{overloaded}",
            failure.name,
            failure.cut.len(),
            failure.rerouted,
            failure.suffering
        ));
    }
}

fn print_diverse(document: &PlanLinks, from: &str, to: &str, printer: &Printer) {
    if document.diverse.is_empty() {
        return printer.line(&format!("{from} and {to} have no two routes that share nothing"));
    }
    for (role, route) in ["primary", "backup"].into_iter().zip(&document.diverse) {
        printer.line(&format!("{role:<8} {:>7.1} ms one way  {}", route.delay_s * 1e3, route.sites.join(" → ")));
    }
}

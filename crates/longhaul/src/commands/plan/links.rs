//! `plan links`: flows on their routes, loads, failures, diverse routes.

use model::Exit;
use model::v1::plan::{PlanFailure, PlanFlow, PlanLink, PlanLinks, PlanRoute};
use plan::loads::{LinkLoad, Loads, RoutedFlow, loads};
use plan::network::Network;
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

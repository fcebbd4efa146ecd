//! `longhaul plan`: link loads, demand, cost, failures and simulated transfers of a scenario.

mod check;
mod compare;
mod figure_list;
mod figures;
mod forwarding;
mod link_page;
mod links;
mod map;
mod overlay;
mod page;
mod predict;
mod replicas;
mod simulation;
mod twin;

use std::path::Path;

use model::Exit;
use scenario::{SHIPPED, Scenario, shipped};

use crate::args::{PlanAction, PlanArgs, PlanLinks, PlanScenario, PlanScenarios, PlanSimulate};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// A valid scenario, with the year and the switches that select its flows.
struct LoadedScenario {
    /// As it was named.
    name: String,
    scenario: Scenario,
    year: Option<u16>,
    switches: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// The scenario cannot be read or makes no sense, an argument does not fit it, a hub does not answer, or a page cannot be written.
pub fn run(plan: &PlanArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match &plan.action {
        PlanAction::Scenarios(args) => print_scenarios(args, printer),
        PlanAction::Check(args) => check::run(&load(args)?, printer),
        PlanAction::Demand(args) => figures::demand(args, &load(&args.scenario)?, printer),
        PlanAction::Cost(args) if args.replicas => replicas::run(args, &load(&args.scenario)?, printer),
        PlanAction::Cost(args) => figures::cost(args, &load(&args.scenario)?, printer),
        PlanAction::Links(args) => show_links(args, &load(&args.scenario)?, printer),
        PlanAction::Overlay(args) => overlay::run(args, &load(&args.scenario)?, printer),
        PlanAction::Forwarding(args) => forwarding::run(args, &load(&args.scenario)?, printer),
        PlanAction::Simulate(args) => simulate(args, load(&args.scenario)?, printer),
        PlanAction::Compare(args) => compare::run(args, printer),
        PlanAction::Predict(args) => predict::run(args, settings, printer),
        PlanAction::Twin(at) => twin::run(at, settings, printer),
        PlanAction::Report(args) => page::run(args, &load(&args.scenario)?, printer),
    }
}

/// Reads a scenario from a file, or takes a shipped one. A file goes before a shipped scenario of the same name.
fn load(args: &PlanScenario) -> Result<LoadedScenario, Failure> {
    let name = args.scenario.as_str();
    let text = match shipped(name).filter(|_| !Path::new(name).is_file()) {
        Some(shipped) => shipped.text.to_owned(),
        None => std::fs::read_to_string(name).map_err(|error| {
            let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
            Failure::usage(format!("{name}: {error}; shipped scenarios: {}", names.join(", ")))
        })?,
    };
    let scenario = Scenario::read(&text).map_err(|problem| Failure::usage(format!("{name}: {problem}")))?;
    check_switches(&scenario, &args.switches)?;
    Ok(LoadedScenario { name: name.to_owned(), scenario, year: args.year, switches: args.switches.clone() })
}

fn check_switches(scenario: &Scenario, switches: &[String]) -> Result<(), Failure> {
    let mut known: Vec<&str> = scenario.flows.iter().filter_map(|flow| flow.switch.as_deref()).collect();
    known.sort_unstable();
    known.dedup();
    match switches.iter().find(|switch| !known.contains(&switch.as_str())) {
        None => Ok(()),
        Some(switch) if known.is_empty() => {
            Err(Failure::usage(format!("no flow of the scenario is behind a switch: leave --with {switch} out")))
        }
        Some(switch) => {
            Err(Failure::usage(format!("there is no switch {switch:?}: write one of {}", known.join(", "))))
        }
    }
}

fn print_scenarios(args: &PlanScenarios, printer: &Printer) -> Result<Exit, Failure> {
    match &args.name {
        None => SHIPPED.iter().for_each(|shipped| printer.line(&format!("{:<18} {}", shipped.name, shipped.what))),
        Some(name) => {
            let Some(found) = shipped(name) else {
                return Err(Failure::usage(format!("no scenario {name:?} is shipped: see longhaul plan scenarios")));
            };
            printer.line(found.text.trim_end());
        }
    }
    Ok(Exit::Done)
}

/// Writes a page about the links if one was asked for, and prints them.
///
/// # Errors
/// A site of `--diverse` does not exist, or the page cannot be written.
fn show_links(args: &PlanLinks, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    if let Some(file) = &args.out {
        page::write(file, &link_page::page(loaded, &loaded.network()))?;
    }
    links::run(args, loaded, printer)
}

/// Simulates the work, writes a page if one was asked for, and prints the results.
///
/// # Errors
/// The scenario has no work, or the page cannot be written.
fn simulate(args: &PlanSimulate, mut loaded: LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    if let Some(seed) = args.seed {
        loaded.scenario.seed = seed;
    }
    let outcome = simulation::run_to_the_end(&loaded, printer)?;
    let document = outcome.document(&loaded.name, loaded.scenario.seed, loaded.year);
    if let Some(file) = &args.out {
        page::write(file, &page::simulation(&loaded, &document))?;
    }
    if printer.is_json() {
        printer.object(&document);
    } else {
        simulation::print(&document, printer);
    }
    Ok(match (document.stopped, document.complete) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::Partial,
    })
}

impl LoadedScenario {
    /// The flows that count.
    fn flows(&self) -> plan::loads::FlowChoice {
        plan::loads::FlowChoice { switches: self.switches.iter().cloned().collect(), year: self.year, factor: 1.0 }
    }

    /// The network of the year.
    fn network(&self) -> plan::network::Network {
        plan::network::Network::new(&self.scenario, self.year)
    }
}

/// A rate with three significant digits.
fn show_rate(bit_s: f64) -> String {
    if bit_s.is_infinite() {
        return "unlimited".to_owned();
    }
    model::units::BitRate(bit_s.round() as u64).to_string()
}

/// A time for people: seconds, minutes, hours or days.
fn show_time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

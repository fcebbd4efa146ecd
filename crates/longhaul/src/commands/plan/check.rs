//! `plan check`: what a scenario has, and what in it cannot work.

use model::Exit;
use plan::loads::loads;
use plan::routes::{self, Avoid};

use super::{LoadedScenario, show_rate};
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints what the scenario has and each finding.
///
/// # Errors
/// None: a finding is an exit code, that of an incomplete result.
pub fn run(loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    let scenario = &loaded.scenario;
    let findings = findings(loaded);
    printer.line(&format!(
        "{}: {} sites, {} paths, {} flows, {} kinds of work, {} costs, {} events",
        loaded.name,
        scenario.sites.len(),
        scenario.paths.len(),
        scenario.flows.len(),
        scenario.work.len(),
        scenario.costs.len(),
        scenario.events.len()
    ));
    findings.iter().for_each(|finding| printer.line(finding));
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Partial })
}

/// What cannot work, each with its line and its remedy.
pub fn findings(loaded: &LoadedScenario) -> Vec<String> {
    let scenario = &loaded.scenario;
    let network = loaded.network();
    let site = |at: usize| scenario.sites[at].name.as_str();
    let in_year = loaded.year.map_or(String::new(), |year| format!(" in {year}"));
    let loads = loads(scenario, &network, &loaded.flows(), &Avoid::default());
    let mut findings: Vec<String> = loads
        .unreachable()
        .map(|flow| {
            let (from, to) = (site(flow.from), site(flow.to));
            format!("line {}: flow {} has no route from {from} to {to}{in_year}: add a path", flow.line, flow.flow)
        })
        .collect();
    for load in loads.overloaded(&network) {
        let link = &network.links[load.link];
        findings.push(format!(
            "{} carries {} of {}{in_year}: raise the rate, or move flows with via",
            link.name,
            show_rate(load.load_bit_s),
            show_rate(link.capacity_bit_s * link.mark)
        ));
    }
    for work in &scenario.work {
        let is_cut =
            |from: usize, to: usize| from != to && routes::shortest(&network, from, to, &Avoid::default()).is_none();
        for (from, to) in work.from.iter().flat_map(|from| work.to.iter().map(move |to| (*from, *to))) {
            if is_cut(from, to) {
                let (from, to) = (site(from), site(to));
                findings.push(format!(
                    "line {}: work {} has no route from {from} to {to}{in_year}: add a path",
                    work.line, work.name
                ));
            }
        }
    }
    findings
}

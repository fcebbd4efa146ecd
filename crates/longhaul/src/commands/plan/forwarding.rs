//! `plan forwarding`: verifies a configuration of virtual networks, or prints one to start from.

use std::path::Path;

use model::Exit;
use model::v1::plan::{PlanForwarding, PlanForwardingFault};
use plan::forwarding::{ForwardingFault, ForwardingFaultKind, Verification, shortest, verify};
use plan::network::Network;
use scenario::forwarding::Forwarding;

use super::LoadedScenario;
use crate::args::PlanForwarding as ForwardingArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints the faults of the configuration; with `--shortest`, a configuration without faults. The exit code is that of an incomplete result
/// if packets do not arrive.
///
/// # Errors
/// The configuration cannot be read or makes no sense, or no site belongs to the group.
pub fn run(args: &ForwardingArgs, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    let network = loaded.network();
    if let Some(group) = &args.shortest {
        printer.line(start(group, loaded, &network)?.trim_end());
        return Ok(Exit::Done);
    }
    let Some(file) = &args.configuration else {
        return Err(Failure::usage("name a configuration, or write --shortest GROUP for a start".to_owned()));
    };
    let forwarding = read(file, loaded)?;
    let document = document(loaded, &network, &forwarding, &verify(&network, &forwarding));
    if printer.is_json() {
        printer.object(&document);
    } else {
        document.faults.iter().for_each(|fault| printer.line(&fault.what));
        if printer.is_chatty() {
            let (followed, faults) = (document.followed, document.faults.len());
            printer.line(&format!("{followed} pairs of a member and a prefix followed, {faults} faults"));
        }
    }
    Ok(if document.faults.is_empty() { Exit::Done } else { Exit::Partial })
}

fn read(file: &Path, loaded: &LoadedScenario) -> Result<Forwarding, Failure> {
    let problem = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| problem(&error))?;
    Forwarding::read(&text, &loaded.scenario).map_err(|error| problem(&error))
}

fn start(group: &str, loaded: &LoadedScenario, network: &Network) -> Result<String, Failure> {
    let scenario = &loaded.scenario;
    let is_member = |site: &usize| scenario.sites[*site].facts.groups.iter().any(|name| name == group);
    let members: Vec<usize> = (0..scenario.sites.len()).filter(is_member).collect();
    if members.is_empty() {
        return Err(Failure::usage(format!("{}: no site belongs to a group {group:?}", loaded.name)));
    }
    Ok(shortest(scenario, network, group, &members).write(scenario))
}

fn document(
    loaded: &LoadedScenario,
    network: &Network,
    forwarding: &Forwarding,
    verification: &Verification,
) -> PlanForwarding {
    let names = |sites: &[usize]| sites.iter().map(|site| network.sites[*site].clone()).collect::<Vec<_>>();
    let fault = |fault: &ForwardingFault| PlanForwardingFault {
        kind: match fault.kind {
            ForwardingFaultKind::Lost => "lost",
            ForwardingFaultKind::Loop => "loop",
            ForwardingFaultKind::Leak(_) => "leak",
        }
        .to_owned(),
        vrf: forwarding.vrfs[fault.vrf].name.clone(),
        prefix: fault.prefix.to_string(),
        owner: fault.owner.map(|owner| network.sites[owner].clone()),
        at: fault.path.last().map_or_else(String::new, |at| network.sites[*at].clone()),
        path: names(&fault.path),
        into: match fault.kind {
            ForwardingFaultKind::Leak(into) => Some(forwarding.vrfs[into].name.clone()),
            ForwardingFaultKind::Lost | ForwardingFaultKind::Loop => None,
        },
        others: names(&fault.others),
        what: fault.show(network, forwarding),
    };
    PlanForwarding {
        v: 1,
        event: "plan_forwarding".to_owned(),
        scenario: loaded.name.clone(),
        year: loaded.year,
        followed: verification.followed,
        faults: verification.faults.iter().map(fault).collect(),
    }
}

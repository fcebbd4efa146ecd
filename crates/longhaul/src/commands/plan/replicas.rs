//! `plan cost --replicas`: the ways to keep replicas beside each other.

use model::Exit;
use model::figure::Figure;
use plan::replication::{ReplicaFigures, figures};

use super::LoadedScenario;
use super::figures::{check_years, print, show};
use crate::args::PlanCost;
use crate::failure::Failure;
use crate::printer::Printer;

/// The columns of the table.
pub const HEADS: [&str; 9] = [
    "replicas",
    "flows of a source",
    "each",
    "circuits",
    "most into a site",
    "passed on",
    "copies of a day",
    "held",
    "own cost a year",
];

/// Prints the replica scenarios: a row of a table for each, then the figures.
///
/// # Errors
/// The scenario has no replica scenario, or the years are in the wrong order.
pub fn run(args: &PlanCost, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    check_years(args)?;
    if loaded.scenario.replicas.is_empty() {
        let message = format!("{} has no replica scenarios: add a table like [replicas.parallel]", loaded.name);
        return Err(Failure::usage(message));
    }
    let all = all(args.since, args.until, loaded);
    if !printer.is_json() {
        print_table(&all, printer);
    }
    let figures: Vec<Figure> = all.iter().flat_map(ReplicaFigures::all).collect();
    print(loaded, &figures, printer);
    Ok(Exit::Done)
}

/// The figures of all replica scenarios.
pub fn all(since: u16, until: u16, loaded: &LoadedScenario) -> Vec<ReplicaFigures> {
    let network = loaded.network();
    let of = |replicas| figures(&loaded.scenario, &network, replicas, (since, until));
    loaded.scenario.replicas.iter().map(of).collect()
}

/// The cells of a row. Sources are alike in most scenarios: each number is that of the source for which it is highest.
pub fn row(replicas: &ReplicaFigures) -> Vec<String> {
    let none = || "-".to_owned();
    let most = |of: fn(&plan::replication::SourceFigures) -> &Figure| {
        replicas.sources.iter().map(of).max_by(|a, b| a.value.total_cmp(&b.value)).map_or_else(none, show)
    };
    let costs: Vec<String> = replicas.costs.iter().map(show).collect();
    vec![
        replicas.name.clone(),
        most(|source| &source.flows).trim().to_owned(),
        most(|source| &source.rate),
        most(|source| &source.circuits).trim().to_owned(),
        replicas.fullest_site.as_ref().map_or_else(none, show),
        replicas.passed_on.as_ref().map_or_else(none, show),
        show(&replicas.stored),
        replicas.held.first().map_or_else(none, |held| format!("{} x {}", replicas.held.len(), show(held))),
        if costs.is_empty() { none() } else { costs.join(" + ") },
    ]
}

fn print_table(all: &[ReplicaFigures], printer: &Printer) {
    let heads = HEADS.iter().map(|head| (*head).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(all.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        printer.line(cells.join("  ").trim_end());
    }
    printer.line("");
}

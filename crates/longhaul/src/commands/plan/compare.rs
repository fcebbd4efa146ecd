//! `plan compare`: several scenarios simulated one after the other, their results side by side.

use model::Exit;
use model::v1::plan::PlanSimulation;

use super::{load, show_time, simulation};
use crate::args::{PlanCompare, PlanScenario};
use crate::failure::Failure;
use crate::printer::Printer;

/// Simulates each scenario, and prints one row for each.
///
/// # Errors
/// A scenario cannot be read, or has no work.
pub fn run(args: &PlanCompare, printer: &Printer) -> Result<Exit, Failure> {
    let mut documents: Vec<PlanSimulation> = Vec::new();
    for name in &args.scenarios {
        let loaded = load(&PlanScenario { scenario: name.clone(), year: None, switches: Vec::new() })?;
        let outcome = simulation::run_to_the_end(&loaded, printer)?;
        documents.push(outcome.document(&loaded.name, loaded.scenario.seed, loaded.year));
        if outcome.stopped {
            break;
        }
    }
    if printer.is_json() {
        documents.iter().for_each(|document| printer.object(document));
    } else {
        documents.iter().for_each(|document| printer.line(&row(document)));
    }
    let is_complete = documents.len() == args.scenarios.len() && documents.iter().all(|document| document.complete);
    Ok(if is_complete { Exit::Done } else { Exit::Partial })
}

fn row(document: &PlanSimulation) -> String {
    let files: u64 = document.work.iter().map(|work| work.files).sum();
    let done: u64 = document.work.iter().map(|work| work.done).sum();
    let late: u64 = document.work.iter().map(|work| work.late).sum();
    let bytes: f64 = document.work.iter().map(|work| work.bytes).sum();
    let last_s = document.work.iter().map(|work| work.last_s).fold(0.0, f64::max);
    let p99_s = document.work.iter().map(|work| work.took.p99_s).fold(0.0, f64::max);
    format!(
        "{:<30} {done} of {files} files, {:.1} TB, the last after {}, 99 % of a work's files within {}, {late} late",
        document.scenario,
        bytes / 1e12,
        show_time(last_s),
        show_time(p99_s)
    )
}

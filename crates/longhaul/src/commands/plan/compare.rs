//! `plan compare`: several scenarios simulated one after the other, their results side by side.

use model::Exit;
use model::v1::plan::{PlanSimulation, PlanWork};

use super::{load, show_rate, show_time, simulation};
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
    let p99_s = document.work.iter().map(|work| work.took.p99_s).fold(0.0, f64::max);
    format!(
        "{:<30} {done} of {files} files, {:.1} TB, {}, 99 % of a work's files within {}, {late} late{}{}",
        document.scenario,
        bytes / 1e12,
        ends(document),
        show_time(p99_s),
        peak(document),
        spared(document)
    )
}

/// When the last file of all work was complete. If kinds of work ended at different times: the first and the last of these times.
fn ends(document: &PlanSimulation) -> String {
    let last_s = |work: &PlanWork| work.last_s;
    let (first, last) = (
        document.work.iter().map(last_s).fold(f64::INFINITY, f64::min),
        document.work.iter().map(last_s).fold(0.0, f64::max),
    );
    let (first, last) = (show_time(first), show_time(last));
    if first == last || document.work.is_empty() {
        format!("the last after {last}")
    } else {
        format!("work ends after {first} to {last}")
    }
}

/// The highest rate over a resource.
fn peak(document: &PlanSimulation) -> String {
    let most = document.resources.iter().max_by(|a, b| a.peak_bit_s.total_cmp(&b.peak_bit_s));
    most.map_or(String::new(), |most| format!(", at most {} ({})", show_rate(most.peak_bit_s), most.name))
}

/// What caches answered.
fn spared(document: &PlanSimulation) -> String {
    let from_cache: u64 = document.work.iter().map(|work| work.from_cache).sum();
    let bytes = |work: &PlanWork| work.bytes / work.done.max(1) as f64 * work.from_cache as f64;
    match from_cache {
        0 => String::new(),
        _ => {
            let spared: f64 = document.work.iter().map(bytes).sum();
            format!(", {from_cache} from caches, which spare the links {:.0} TB", spared / 1e12)
        }
    }
}

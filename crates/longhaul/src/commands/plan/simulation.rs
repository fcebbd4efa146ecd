//! `plan simulate`: the work of a scenario in virtual time. Ctrl-C ends the simulation, not the program, which reports the results so
//! far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::v1::plan::PlanSimulation;
use plan::{Outcome, SimulationProgress, simulate};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{LoadedScenario, show_rate, show_time};
use crate::failure::Failure;
use crate::printer::Printer;

/// How often progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// Resources that are printed.
const RESOURCES_SHOWN: usize = 12;

/// Simulates until everything is done, the simulated time is over, or a signal stops it.
///
/// # Errors
/// The scenario has no work, or a signal handler cannot be set.
pub fn run_to_the_end(loaded: &LoadedScenario, printer: &Printer) -> Result<Outcome, Failure> {
    if loaded.scenario.work.is_empty() {
        let message = format!("{} has no work: add a table like [work.raw-export]", loaded.name);
        return Err(Failure::usage(message));
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let set = signal_hook::flag::register(signal, Arc::clone(&cancelled));
        set.map_err(|error| Failure::local(format!("cannot handle signals: {error}")))?;
    }
    let mut shown_at = Instant::now();
    let mut carry_on = |progress: SimulationProgress| {
        if printer.is_watched() && shown_at.elapsed() >= PROGRESS_EVERY {
            shown_at = Instant::now();
            show_progress(progress);
        }
        !cancelled.load(Ordering::Relaxed)
    };
    Ok(simulate(&loaded.scenario, loaded.year, &mut carry_on))
}

fn show_progress(progress: SimulationProgress) {
    let part = progress.now_s / progress.duration_s * 100.0;
    Printer::stderr_line(&format!(
        "simulated {} of {} ({part:.0} %), {} events",
        show_time(progress.now_s),
        show_time(progress.duration_s),
        progress.events
    ));
}

/// Prints the results.
pub fn print(document: &PlanSimulation, printer: &Printer) {
    let how = match (document.stopped, document.complete) {
        (true, _) => "stopped before the end",
        (false, true) => "all work done",
        (false, false) => "NOT ALL DONE when the simulated time was over",
    };
    printer.line(&format!("simulated {}, {} events: {how}", show_time(document.simulated_s), document.events));
    for work in &document.work {
        let late = if work.late > 0 { format!(", {} LATE", work.late) } else { String::new() };
        let failed = if work.failed > 0 { format!(", {} attempts repeated", work.failed) } else { String::new() };
        let cached = if work.from_cache > 0 { format!(", {} from the cache", work.from_cache) } else { String::new() };
        printer.line(&format!(
            "{:<24} {} of {} files, the last after {}{late}{failed}{cached}",
            work.name,
            work.done,
            work.files,
            show_time(work.last_s)
        ));
        printer.line(&format!(
            "    took, from a file's arrival: median {}, 95 % {}, 99 % {}, longest {}",
            show_time(work.took.median_s),
            show_time(work.took.p95_s),
            show_time(work.took.p99_s),
            show_time(work.took.max_s)
        ));
    }
    for resource in document.resources.iter().take(RESOURCES_SHOWN) {
        let usable = resource.usable_bit_s.map_or("no rate stated".to_owned(), |usable| {
            format!("{:>3.0} % of {}", resource.mean_bit_s / usable * 100.0, show_rate(usable))
        });
        printer.line(&format!(
            "{:<34} mean {:>14}, peak {:>14}  {usable}, bound {:.0} % of the time",
            resource.name,
            show_rate(resource.mean_bit_s),
            show_rate(resource.peak_bit_s),
            resource.bound * 100.0
        ));
    }
    let buffer = document.course.iter().map(|moment| moment.buffered_bytes).fold(0.0, f64::max);
    printer.line(&format!("waiting at the sources at most: {:.2} TB", buffer / 1e12));
    for ignored in &document.ignored {
        printer.line(&format!("not simulated: {ignored} changes neither rate nor reachability"));
    }
}

//! `longhaul exercise run --every`: an exercise that is repeated, with a directory for each run, a page about all of them, and their outcomes for
//! the watch of a hub.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exercise::grade::FlowGrade;
use exercise::page::{self, TrendRun};
use exercise::record::RunRecord;
use model::Exit;
use model::v1::exercise::{ExerciseFlowOutcome, ExerciseOutcome};

use super::report::read;
use super::run::{LoadedExercise, RECORD, StopSignals, now, out_dir, run_once, write_file};
use crate::args::ExerciseRun;
use crate::failure::Failure;
use crate::hub_client;
use crate::printer::Printer;
use crate::settings::Settings;

/// The page about all runs.
const TREND: &str = "trend.html";
/// Runs on that page.
const TREND_RUNS_MAX: usize = 400;
/// How often a wait for the next run looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs an exercise again and again until a signal. A run that cannot begin is reported, and the next one is tried at its time.
///
/// # Errors
/// The directory cannot be written, or signals cannot be handled.
pub fn run(
    args: &ExerciseRun,
    every: Duration,
    loaded: &LoadedExercise,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let out = &out_dir(args, loaded);
    let stop = StopSignals::new()?;
    loop {
        let next = Instant::now() + every;
        let name = web::date::rfc3339(now()).replace(':', "");
        match run_once(loaded, &out.join(name), &args.at, settings, printer) {
            Ok(record) => conclude(args, loaded, out, &record, settings, printer)?,
            Err(failure) => printer.line(&format!("this run did not take place: {}", failure.message)),
        }
        if !wait(next, stop.flag()) {
            return Ok(Exit::Done);
        }
    }
}

/// Waits until a time; false if a signal ends the wait.
fn wait(until: Instant, stop: &Arc<AtomicBool>) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(LOOK_EVERY.min(left));
    }
    false
}

/// Writes the page about all runs, and hands the outcome to the watch of the hub, if one is named.
fn conclude(
    args: &ExerciseRun,
    loaded: &LoadedExercise,
    out: &Path,
    record: &RunRecord,
    settings: &Settings,
    printer: &Printer,
) -> Result<(), Failure> {
    let runs = PastRuns::read(out, printer)?;
    if let Some(before) = &runs.before {
        let lost = page::regressions(before, record);
        lost.iter().for_each(|line| printer.line(&format!("less than the run before: {line}")));
    }
    write_file(&out.join(TREND), &page::trend(&runs.trend))?;
    printer.line(&out.join(TREND).display().to_string());
    let outcome = outcome(&loaded.name, record);
    if hub_client::origin(&args.at).is_err() || record.stopped.is_some() || outcome.flows.is_empty() {
        return Ok(());
    }
    let told =
        hub_client::api(&args.at, settings).and_then(|hub| hub.watch_exercise(&outcome).map_err(hub_client::failure));
    match told {
        Ok(raised) => raised.alarms.iter().for_each(|alarm| printer.line(&format!("alarm: {}", alarm.evidence))),
        Err(failure) => printer.line(&format!("the watch of the hub does not get this outcome: {}", failure.message)),
    }
    Ok(())
}

/// The runs so far.
#[derive(Default)]
struct PastRuns {
    /// What the page shows of each, the oldest first.
    trend: Vec<TrendRun>,
    /// The record of the run before the last one.
    before: Option<RunRecord>,
}

impl PastRuns {
    /// Reads the records below a directory. One that cannot be read is named and left out.
    fn read(out: &Path, printer: &Printer) -> Result<PastRuns, Failure> {
        let entries = fs::read_dir(out).map_err(|error| Failure::usage(format!("{}: {error}", out.display())))?;
        let mut dirs: Vec<_> =
            entries.flatten().map(|entry| entry.path()).filter(|dir| dir.join(RECORD).is_file()).collect();
        dirs.sort();
        let mut runs = PastRuns::default();
        let mut last = None;
        for dir in &dirs[dirs.len().saturating_sub(TREND_RUNS_MAX)..] {
            match read(dir) {
                Ok(record) => {
                    runs.trend.push(TrendRun::of(&record));
                    runs.before = last.replace(record);
                }
                Err(failure) => printer.line(&failure.message),
            }
        }
        Ok(runs)
    }
}

/// What the flows of a run sustained. A flow without samples is left out, because its rate is not known; one that failed as a whole
/// sustained nothing. The slots of a search try different settings, and are left out.
fn outcome(name: &str, record: &RunRecord) -> ExerciseOutcome {
    let phases = record.phases.iter().filter(|_| record.trials.is_empty());
    let flows = phases.flat_map(|phase| &phase.flows).filter_map(|flow| {
        let grade = FlowGrade::of(flow);
        let has_failed = grade.failed > 0 && grade.bytes == 0;
        let sustained_bit_s = grade.attained.map(|attained| attained.sustained).or(has_failed.then_some(0.0))?;
        Some(ExerciseFlowOutcome {
            name: flow.name.clone(),
            from: flow.from.clone(),
            to: flow.to.clone(),
            sustained_bit_s,
            goal_bit_s: flow.goal_bit_s,
        })
    });
    ExerciseOutcome { exercise: name.to_owned(), began: record.began.clone(), flows: flows.collect() }
}

//! `longhaul exercise`: load from one file, score cards, data challenges.

mod agent;
mod board;
mod connect;
mod list;
mod repeat;
mod report;
mod rig;
mod run;
mod scorecard;
mod tool_servers;

use model::Exit;

use crate::args::{Common, ExerciseAction, ExerciseArgs, ExerciseRun};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// Runs the command.
///
/// # Errors
/// What the action says.
pub fn run(exercise: ExerciseArgs, common: &Common, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match exercise.action {
        ExerciseAction::Run(args) => begin(&args, settings, printer),
        ExerciseAction::Report(args) => report::run(&args, printer),
        ExerciseAction::Board(args) => board::show(&args, settings, printer),
        ExerciseAction::Stop(args) => board::stop(&args, settings, printer),
        ExerciseAction::Scorecard(args) => scorecard::run(&args, settings, printer),
        ExerciseAction::List(args) => list::run(&args, printer),
        ExerciseAction::Agent(args) => agent::run(&args, common, settings, printer),
    }
}

/// Runs an exercise once, or again and again.
fn begin(args: &ExerciseRun, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let Some(loaded) = run::checked(args, printer)? else { return Ok(Exit::Done) };
    match args.every {
        Some(every) => repeat::run(args, every, &loaded, settings, printer),
        None => {
            let record = run::run_once(&loaded, &run::out_dir(args, &loaded), &args.at, settings, printer)?;
            Ok(run::exit_of(&record))
        }
    }
}

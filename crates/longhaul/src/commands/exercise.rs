//! `longhaul exercise`: load from one file, score cards, data challenges.

mod agent;
mod connect;
mod list;
mod report;
mod rig;
mod run;
mod scorecard;

use model::Exit;

use crate::args::{Common, ExerciseAction, ExerciseArgs};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// Runs the command.
///
/// # Errors
/// What the action says.
pub fn run(exercise: ExerciseArgs, common: &Common, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match exercise.action {
        ExerciseAction::Run(args) => run::run(&args, settings, printer),
        ExerciseAction::Report(args) => report::run(&args, printer),
        ExerciseAction::Scorecard(args) => scorecard::run(&args, settings, printer),
        ExerciseAction::List(args) => list::run(&args, printer),
        ExerciseAction::Agent(args) => agent::run(&args, common, settings, printer),
    }
}

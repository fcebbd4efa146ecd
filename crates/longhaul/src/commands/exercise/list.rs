//! `longhaul exercise list`: the exercises that come with the program, or the text of one.

use exercise::{Exercise, SHIPPED, shipped};
use model::Exit;

use crate::args::ExerciseList;
use crate::failure::Failure;
use crate::printer::Printer;

/// Runs the command.
///
/// # Errors
/// There is no exercise of that name.
pub fn run(args: &ExerciseList, printer: &Printer) -> Result<Exit, Failure> {
    if let Some(name) = &args.name {
        let found = shipped(name).ok_or_else(|| Failure::usage(format!("there is no exercise {name}")))?;
        printer.line(found.text.trim_end());
        return Ok(Exit::Done);
    }
    for exercise in &SHIPPED {
        let read = Exercise::read(exercise.text).map_err(|problem| Failure::local(problem.to_string()))?;
        printer.line(&format!("{:<34} {}", exercise.name, read.title));
    }
    Ok(Exit::Done)
}

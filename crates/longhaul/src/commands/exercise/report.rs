//! `longhaul exercise report`: the page of a run again, or of two runs side by side.

use std::path::Path;

use exercise::page;
use exercise::record::{RunRecord, SCHEMA};
use model::Exit;

use super::run::{RECORD, write_file};
use crate::args::ExerciseReport;
use crate::failure::Failure;
use crate::printer::Printer;

/// Runs the command.
///
/// # Errors
/// A directory holds no run, or the page cannot be written.
pub fn run(args: &ExerciseReport, printer: &Printer) -> Result<Exit, Failure> {
    let runs = args.runs.iter().map(|dir| read(dir)).collect::<Result<Vec<_>, _>>()?;
    let (page, lines) = match runs.as_slice() {
        [before, after] => (page::comparison(before, after), page::regressions(before, after)),
        [run, ..] => (page::page(run), page::lines(run)),
        [] => return Err(Failure::usage("say which run")),
    };
    for line in &lines {
        printer.line(line);
    }
    if let Some(out) = &args.out {
        write_file(out, &page)?;
        printer.line(&format!("{}", out.display()));
    }
    let has_regression = runs.len() == 2 && !lines.is_empty();
    Ok(if has_regression { Exit::Failed } else { Exit::Done })
}

/// Reads the record in the directory of a run.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn read(dir: &Path) -> Result<RunRecord, Failure> {
    let file = dir.join(RECORD);
    let shown = file.display();
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::usage(format!("{shown}: {error}; give the directory of a run: `exercise run --out DIR`"))
    })?;
    let record: RunRecord = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{shown} is not the record of a run: {error}")))?;
    if record.schema > SCHEMA {
        let version = record.schema;
        return Err(Failure::usage(format!(
            "{shown} has version {version} of the format, and this program knows {SCHEMA}; use a newer one"
        )));
    }
    Ok(record)
}

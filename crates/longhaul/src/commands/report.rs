//! `longhaul report`: receipts, series and TCP tests as one self-contained HTML page.

use std::fs;
use std::io;
use std::path::Path;

use model::Exit;
use model::fault::Fault;
use serde::Serialize;

use crate::args::Report;
use crate::failure::Failure;
use crate::printer::Printer;

/// The result as JSON.
#[derive(Serialize)]
struct PageReport<'a> {
    v: u8,
    event: &'static str,
    out: String,
    /// Jobs and tests on the page.
    stories: usize,
    /// The inputs that could not be read, and why.
    remarks: &'a [String],
}

/// Runs the command.
///
/// # Errors
/// An input cannot be read, or the page cannot be written.
pub fn run(report: &Report, printer: &Printer) -> Result<Exit, Failure> {
    if report.out.is_none() && printer.is_json() {
        return Err(Failure::usage(
            "--json and the page both want standard output; name a file for the page with --out",
        ));
    }
    let is_input = |file: &&std::path::PathBuf| report.files.iter().any(|input| is_same(input, file));
    if let Some(file) = report.out.as_ref().filter(is_input) {
        return Err(Failure::usage(format!(
            "{} is one of the files to read: --out would write over it",
            file.display()
        )));
    }
    if report.files.iter().filter(|file| *file == Path::new("-")).count() > 1 {
        return Err(Failure::usage("- (standard input) is read once"));
    }
    let mut inputs = Vec::new();
    for file in &report.files {
        inputs.extend(::report::read(file)?.into_iter().map(|found| (file.display().to_string(), found)));
    }
    let (stories, remarks) = ::report::stories(inputs);
    if printer.is_chatty() {
        remarks.iter().for_each(|remark| Printer::note(remark));
    }
    let page = ::report::page(report.title.as_deref(), &stories);
    match &report.out {
        None => printer.page(&page).map_err(|error| write_failure("standard output", &error))?,
        Some(file) => {
            let shown = file.display().to_string();
            fs::write(file, page).map_err(|error| write_failure(&shown, &error))?;
            if printer.is_json() {
                let stories = stories.len();
                printer.object(&PageReport { v: 1, event: "report", out: shown, stories, remarks: &remarks });
            }
        }
    }
    Ok(Exit::Done)
}

/// Whether two paths name one file.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn write_failure(to: &str, error: &io::Error) -> Failure {
    let fault = Fault::Storage;
    Failure { exit: fault.into(), fault, message: format!("cannot write the page to {to}: {error}") }
}

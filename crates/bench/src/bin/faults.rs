//! The second half of `make bench-probe`: faults in emulated paths.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use bench::machine;
use bench::probe::faults::{FAULTS, markdown, run};
use bench::program::{self, Binary, Results};
use clap::Parser;

/// Whether the probe finds faults that are put into emulated paths. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Runs of each fault
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each of the probe's tests
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Faults whose name contains this; may be given again
    #[arg(long)]
    only: Vec<String>,
    #[command(flatten)]
    binary: Binary,
    /// Where probe-faults.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-probe", all(&Args::parse()))
}

/// Runs the faults; whether enough of them were found.
fn all(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    ensure!(
        args.out.is_some() || args.only.is_empty(),
        "a part of the table must not replace the whole one: give --out DIR"
    );
    let mut outcomes = Vec::new();
    for fault in FAULTS.into_iter().filter(|fault| program::is_wanted(&args.only, fault.name)) {
        let outcome = run(&longhaul, fault, args.rounds, args.seconds)?;
        println!("{}: {:?}", fault.name, outcome.first_causes);
        outcomes.push(outcome);
    }
    ensure!(!outcomes.is_empty(), "--only selects no fault");
    let date = machine::date();
    let head = format!(
        "- Date: {date}\n- Machine: {}\n- Command: `make bench-probe`; {} runs of each fault, {} s for each of the probe's tests\n\
         - Where the path has a rate, the probe gets it by `--link`\n\
         - **Everything here is emulated.** A fault counts as found where kind, direction and place of the first cause are right in \
         most of its runs; two faults at once count where they are the first two causes",
        machine::describe("emulated network")?,
        args.rounds,
        args.seconds
    );
    let (text, met) = markdown(&head, &outcomes);
    let out = Results::open(args.out.as_deref())?;
    out.write("probe-faults.md", &text)?;
    print!("\n{text}");
    out.print_path("probe-faults.md");
    Ok(met)
}

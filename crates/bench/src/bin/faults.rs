//! The second half of `make bench-probe`: faults in emulated paths.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bench::machine;
use bench::probe::faults::{FAULTS, markdown, run};
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
    /// The longhaul binary; default: beside this one
    #[arg(long, value_name = "FILE")]
    longhaul: Option<PathBuf>,
    /// Where probe-faults.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match all(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench-probe: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether enough were found.
fn all(args: &Args) -> Result<bool> {
    let own = std::env::current_exe()?;
    let build = own.parent().context("this program has a directory")?;
    let longhaul = args.longhaul.clone().unwrap_or_else(|| build.join("longhaul"));
    ensure!(longhaul.exists(), "{} is not there; run `make build` first", longhaul.display());
    ensure!(
        args.out.is_some() || args.only.is_empty(),
        "a part of the table does not take the place of the whole one: --out DIR"
    );
    let mut outcomes = Vec::new();
    for fault in FAULTS {
        if !args.only.is_empty() && !args.only.iter().any(|only| fault.name.contains(only)) {
            continue;
        }
        let outcome = run(&longhaul, fault, args.rounds, args.seconds)?;
        println!("{}: {:?}", fault.name, outcome.said);
        outcomes.push(outcome);
    }
    ensure!(!outcomes.is_empty(), "there is no such fault");
    let date = machine::first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let head = format!(
        "- Date: {date}\n- Machine: {}\n- Command: `make bench-probe`; {} runs of each fault, {} s for each of the probe's tests\n\
         - Where the path has a rate, the probe is told so (`--link`)\n\
         - **Everything here is emulated.** A fault counts as found where kind, direction and place of the first cause are right in \
         most of its runs; of two at once, where the first two causes are they",
        machine::describe("emulated network")?,
        args.rounds,
        args.seconds
    );
    let (text, met) = markdown(&head, &outcomes);
    let out = args.out.clone().unwrap_or_else(machine::repository_results);
    fs::create_dir_all(&out)?;
    fs::write(out.join("probe-faults.md"), &text)?;
    println!("\n{text}\nwritten: {}", out.join("probe-faults.md").display());
    Ok(met)
}

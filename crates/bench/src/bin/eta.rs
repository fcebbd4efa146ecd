//! `make bench-eta`: its arguments, signals and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use bench::eta::report::{Circumstances, Outcome, markdown, row};
use bench::eta::run::Bench;
use bench::eta::{judge, runs};
use bench::machine;
use bench::program::{self, Binary, Results};
use clap::Parser;

/// The accuracy of the time left that `longhaul cp` shows: real jobs over emulated paths. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Only these runs, counted from 1; may be given again
    #[arg(long, value_name = "N")]
    only: Vec<usize>,
    /// Keep the progress lines of every run in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Where files are read and written; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    binary: Binary,
    /// Where eta.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-eta", run(&Args::parse()))
}

/// Runs the jobs; whether at least 90 % of them were good.
fn run(args: &Args) -> Result<bool> {
    program::require_root()?;
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("eta", args.scratch.as_deref())?;
    let stop = program::stopped_by_signals()?;
    let only: Vec<String> = args.only.iter().map(|n| format!("--only {n}")).collect();
    let about = Circumstances {
        date: machine::date(),
        machine: machine::describe("emulated network")?,
        arguments: program::make_words(&only),
    };
    // A part of the table must not replace the whole one.
    ensure!(args.out.is_some() || args.only.is_empty(), "--only needs --out DIR");
    let bench = Bench { longhaul: &longhaul, scratch: scratch.path(), stop: &stop };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (at, planned) in runs::all().into_iter().enumerate() {
        if !args.only.is_empty() && !args.only.contains(&(at + 1)) {
            continue;
        }
        let outcome = bench.run(&planned).and_then(|(lines, limited)| {
            if let Some(dir) = &args.keep {
                fs::create_dir_all(dir)?;
                fs::write(dir.join(format!("{:02}.jsonl", at + 1)), &lines)?;
            }
            Ok((judge::judge(&lines)?, limited))
        });
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        let outcome = outcome.map_err(|error| format!("{error:#}"));
        println!("{} {}", at + 1, row(&planned, &outcome).trim());
        outcomes.push((planned, outcome));
    }
    let out = Results::open(args.out.as_deref())?;
    out.write("eta.md", markdown(&about, &outcomes))?;
    out.print_path("eta.md");
    let good = outcomes.iter().filter(|(_, o)| o.as_ref().is_ok_and(|(verdict, _)| verdict.is_good())).count();
    ensure!(!outcomes.is_empty(), "--only selects no run");
    Ok(good * 20 >= outcomes.len() * 18)
}

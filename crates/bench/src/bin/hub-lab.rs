//! `make bench-hub-lab`: a hub and three sites behind one emulated link. Writes docs/results/hub-lab.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use bench::hub_lab::cases::{Outcome, cross_traffic, deadline, many_users, shares_and_marks};
use bench::hub_lab::collaboration::Collaboration;
use bench::machine;
use bench::program::{self, Binary, Results};
use clap::Parser;

/// A hub and three sites behind one emulated link of 1 Gbit/s with its mark at 80 %. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Where files are read and written; it should be in memory; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    binary: Binary,
    /// Where hub-lab.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-hub-lab", run(&Args::parse()))
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    program::require_root()?;
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("hub-lab", args.scratch.as_deref())?;
    let stop = program::stopped_by_signals()?;
    let mut lab = Collaboration::up(&longhaul, scratch.path(), &stop)?;
    let before = lab.reading()?;
    let mut outcomes = Vec::new();
    for case in [shares_and_marks, deadline, many_users] {
        outcomes.extend(print_outcomes(case(&mut lab)?));
        lab.cancel_all()?;
    }
    outcomes.extend(print_outcomes(cross_traffic(&mut lab, scratch.path())?));
    let limited = lab.limited(&before)?;
    let mut text = format!(
        "# A hub in the lab\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-hub-lab`\n- Three sites, RTT 20 and 40 ms, behind one link of \
         1 Gbit/s with a queue of 20 ms; its mark at 80 %; one run\n- Emulator: {}\n\n| what | measured | target | |\n|---|---|---|---|\n",
        machine::date(),
        machine::describe("emulated network")?,
        limited.as_deref().unwrap_or("it was not the limit"),
    );
    for Outcome { what, measured, target, is_met } in &outcomes {
        let met = if *is_met { "met" } else { "**not met**" };
        text.push_str(&format!("| {what} | {measured} | {target} | {met} |\n"));
    }
    let out = Results::open(args.out.as_deref())?;
    out.write("hub-lab.md", text)?;
    out.print_path("hub-lab.md");
    Ok(outcomes.iter().all(|outcome| outcome.is_met))
}

/// Prints outcomes, and returns them.
fn print_outcomes(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    for outcome in &outcomes {
        println!("{}: {} ({})", outcome.what, outcome.measured, outcome.target);
    }
    outcomes
}

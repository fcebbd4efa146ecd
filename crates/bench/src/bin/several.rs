//! `make bench-several`: its arguments, signals and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use bench::machine;
use bench::program::{self, Binary, Results};
use bench::several::report::{Circumstances, Row, markdown, row};
use bench::several::run::{Bench, cases, mover_cases};
use clap::Parser;

/// One job over two emulated paths: what it carries, how it is split, what a cut costs. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Runs of each case; their median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Where files are read and written; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    binary: Binary,
    /// With a mover at the end of the second path, instead of a second address of the node
    #[arg(long)]
    movers: bool,
    /// Where several.md or movers.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-several", run(&Args::parse()).map(|()| true))
}

fn run(args: &Args) -> Result<()> {
    program::require_root()?;
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("several", args.scratch.as_deref())?;
    let stop = program::stopped_by_signals()?;
    let rounds = (args.rounds != 5).then(|| format!("--rounds {}", args.rounds));
    let about = Circumstances {
        date: machine::date(),
        machine: machine::describe("emulated network")?,
        arguments: program::make_words(rounds.as_slice()),
    };
    let bench = Bench { longhaul: &longhaul, scratch: scratch.path(), stop: &stop };
    let mut rows: Vec<Row> =
        (if args.movers { mover_cases() } else { cases() }).into_iter().map(|case| (case, Vec::new())).collect();
    // All cases run once in each round, so that drift of the machine affects all alike.
    for _ in 0..args.rounds {
        for (case, results) in &mut rows {
            let result = bench.run(case).map_err(|error| format!("{error:#}"));
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
            println!("{}", row(&(case.clone(), vec![result.clone()])).trim());
            results.push(result);
        }
    }
    let out = Results::open(args.out.as_deref())?;
    let page = if args.movers { "movers.md" } else { "several.md" };
    out.write(page, markdown(&about, &rows))?;
    out.print_path(page);
    Ok(())
}

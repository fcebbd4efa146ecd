//! `make bench-mirrors`: its arguments, signals and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use bench::machine;
use bench::mirrors::report::{Circumstances, Row, markdown, svg};
use bench::mirrors::run::{Bench, ClientKind, cases};
use bench::program::{self, Binary, Results};
use clap::Parser;

/// Copies from several sources that slow down and die: tails and shares, compared with aria2 if that is installed.
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
    /// Where mirrors.md and mirrors.svg go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-mirrors", run(&Args::parse()).map(|()| true))
}

fn run(args: &Args) -> Result<()> {
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("mirrors", args.scratch.as_deref())?;
    let stop = program::stopped_by_signals()?;
    let rounds = (args.rounds != 5).then(|| format!("--rounds {}", args.rounds));
    let other = machine::first_line("aria2c", &["--version"]);
    let has_aria2 = !other.is_empty();
    let about = Circumstances {
        date: machine::date(),
        machine: machine::describe("loopback")?,
        other,
        arguments: program::make_words(rounds.as_slice()),
    };
    let bench = Bench { longhaul: &longhaul, scratch: scratch.path(), stop: &stop };
    let mut rows: Vec<Row> = cases()
        .into_iter()
        .flat_map(|case| [(case.clone(), ClientKind::Ours, Ok(Vec::new())), (case, ClientKind::Aria2, Ok(Vec::new()))])
        .collect();
    // All cases run once in each round, so that drift of the machine affects all alike.
    for _ in 0..args.rounds {
        for (case, client, results) in &mut rows {
            let Ok(so_far) = results else { continue };
            if *client == ClientKind::Aria2 && !has_aria2 {
                *results = Err("not installed".to_owned());
                continue;
            }
            match bench.run(case, *client) {
                Ok(result) => {
                    println!(
                        "{}, {client:?}: tail {:.2}, {:.1} s",
                        case.title,
                        result.tail(),
                        result.halves.iter().sum::<f64>()
                    );
                    so_far.push(result);
                }
                Err(error) => *results = Err(format!("failed: {error:#}")),
            }
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        }
    }
    let out = Results::open(args.out.as_deref())?;
    out.write("mirrors.md", markdown(&about, &rows))?;
    out.write("mirrors.svg", svg(&rows))?;
    out.print_path("mirrors.md");
    Ok(())
}

//! `make bench-several`: arguments, signals, and what is written in the end.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bench::machine;
use bench::several::report::{About, Row, markdown, row};
use bench::several::run::{Bench, cases, mover_cases};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// One job over two emulated paths: what it carries, how it is split, what a cut costs. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Runs of each case; their median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Where files are read and written; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The longhaul binary; default: beside this one
    #[arg(long, value_name = "FILE")]
    longhaul: Option<PathBuf>,
    /// With a mover at the end of the second path, instead of a second address of the node
    #[arg(long)]
    movers: bool,
    /// Where several.md or movers.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("bench-several: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "a lab needs root");
    let own = std::env::current_exe()?;
    let build = own.parent().context("this program has a directory")?;
    let longhaul = args.longhaul.clone().unwrap_or_else(|| build.join("longhaul"));
    ensure!(longhaul.exists(), "{} is not there; run `make build` first", longhaul.display());
    let scratch = args.scratch.clone().unwrap_or_else(|| build.parent().unwrap_or(build).to_owned());
    let scratch = tempfile::Builder::new().prefix("longhaul-several-").tempdir_in(scratch)?;
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let arguments = if args.rounds == 5 { String::new() } else { format!("BENCH=\"--rounds {}\"", args.rounds) };
    let about = About {
        date: machine::first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        machine: machine::describe("emulated network")?,
        arguments,
    };
    let bench = Bench { longhaul: &longhaul, scratch: scratch.path(), stop: &stop };
    let mut rows: Vec<Row> =
        (if args.movers { mover_cases() } else { cases() }).into_iter().map(|case| (case, Vec::new())).collect();
    // One after the other, round by round: a machine that drifts hurts all alike.
    for _ in 0..args.rounds {
        for (case, courses) in &mut rows {
            let course = bench.run(case).map_err(|error| format!("{error:#}"));
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
            println!("{}", row(&(case.clone(), vec![course.clone()])).trim());
            courses.push(course);
        }
    }
    let out = args.out.clone().unwrap_or_else(machine::repository_results);
    fs::create_dir_all(&out)?;
    let file = out.join(if args.movers { "movers.md" } else { "several.md" });
    fs::write(&file, markdown(&about, &rows))?;
    println!("\nwritten: {}", file.display());
    Ok(())
}

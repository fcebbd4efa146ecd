//! `make bench-mirrors`: arguments, signals, and what is written in the end.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bench::machine;
use bench::mirrors::report::{About, Row, markdown, svg};
use bench::mirrors::run::{Bench, Who, cases};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Copies from several sources that slow down and die: tails and shares, beside aria2 where it is installed.
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
    /// Where mirrors.md and mirrors.svg go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("bench-mirrors: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let own = std::env::current_exe()?;
    let build = own.parent().context("this program has a directory")?;
    let longhaul = args.longhaul.clone().unwrap_or_else(|| build.join("longhaul"));
    ensure!(longhaul.exists(), "{} is not there; run `make build` first", longhaul.display());
    let scratch = args.scratch.clone().unwrap_or_else(|| build.parent().unwrap_or(build).to_owned());
    let scratch = tempfile::Builder::new().prefix("longhaul-mirrors-").tempdir_in(scratch)?;
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let arguments = if args.rounds == 5 { String::new() } else { format!("BENCH=\"--rounds {}\"", args.rounds) };
    let other = machine::first_line("aria2c", &["--version"]);
    let has_aria2 = !other.is_empty();
    let about = About {
        date: machine::first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        machine: machine::describe("loopback")?,
        other,
        arguments,
    };
    let bench = Bench { longhaul: &longhaul, scratch: scratch.path(), stop: &stop };
    let mut rows: Vec<Row> = cases()
        .into_iter()
        .flat_map(|case| [(case.clone(), Who::Ours, Ok(Vec::new())), (case, Who::Aria2, Ok(Vec::new()))])
        .collect();
    // One after the other, round by round: a machine that drifts hurts all alike.
    for _ in 0..args.rounds {
        for (case, who, courses) in &mut rows {
            let Ok(so_far) = courses else { continue };
            if *who == Who::Aria2 && !has_aria2 {
                *courses = Err("not installed".to_owned());
                continue;
            }
            match bench.run(case, *who) {
                Ok(course) => {
                    println!(
                        "{}, {who:?}: tail {:.2}, {:.1} s",
                        case.title,
                        course.tail(),
                        course.halves.iter().sum::<f64>()
                    );
                    so_far.push(course);
                }
                Err(error) => *courses = Err(format!("failed: {error:#}")),
            }
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        }
    }
    let out = args.out.clone().unwrap_or_else(machine::repository_results);
    fs::create_dir_all(&out)?;
    fs::write(out.join("mirrors.md"), markdown(&about, &rows))?;
    fs::write(out.join("mirrors.svg"), svg(&rows))?;
    println!("\nwritten: {}", out.join("mirrors.md").display());
    Ok(())
}

//! `make bench-eta`: arguments, signals, and what is written in the end.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bench::eta::report::{About, Outcome, markdown, row};
use bench::eta::run::Bench;
use bench::eta::{judge, runs};
use bench::machine;
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How good the time left is that `longhaul cp` tells: real jobs over emulated paths. Needs root.
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
    /// The longhaul binary; default: beside this one
    #[arg(long, value_name = "FILE")]
    longhaul: Option<PathBuf>,
    /// Where eta.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench-eta: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether at least 18 of 20 were good.
fn run(args: &Args) -> Result<bool> {
    ensure!(rustix::process::geteuid().is_root(), "a lab needs root");
    let own = std::env::current_exe()?;
    let build = own.parent().context("this program has a directory")?;
    let longhaul = args.longhaul.clone().unwrap_or_else(|| build.join("longhaul"));
    ensure!(longhaul.exists(), "{} is not there; run `make build` first", longhaul.display());
    let scratch = args.scratch.clone().unwrap_or_else(|| build.parent().unwrap_or(build).to_owned());
    let scratch = tempfile::Builder::new().prefix("longhaul-eta-").tempdir_in(scratch)?;
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let only: Vec<String> = args.only.iter().map(|n| format!("--only {n}")).collect();
    let about = About {
        date: machine::first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        machine: machine::describe("emulated network")?,
        arguments: if only.is_empty() { String::new() } else { format!("BENCH=\"{}\"", only.join(" ")) },
    };
    // A part of the table does not take the place of the whole one.
    let whole = || args.only.is_empty().then(machine::repository_results);
    let out = args.out.clone().or_else(whole).context("--only needs --out DIR")?;
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
    fs::create_dir_all(&out)?;
    fs::write(out.join("eta.md"), markdown(&about, &outcomes))?;
    println!("\nwritten: {}", out.join("eta.md").display());
    let good = outcomes.iter().filter(|(_, o)| o.as_ref().is_ok_and(|(verdict, _)| verdict.is_good())).count();
    ensure!(!outcomes.is_empty(), "there is no such run");
    Ok(good * 20 >= outcomes.len() * 18)
}

//! `make bench-probe`: arguments, and what is written in the end.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bench::account::Accounts;
use bench::machine;
use bench::probe::datagrams::Datagrams;
use bench::probe::report::{About, markdown};
use bench::probe::run::Bench;
use clap::Parser;

/// The probe beside iperf3, over loopback; its counts over emulated paths (needs root).
#[derive(Debug, Parser)]
struct Args {
    /// Rounds that count
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Numbers of streams
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    streams: Vec<u32>,
    /// The longhaul binary; default: beside this one
    #[arg(long, value_name = "FILE")]
    longhaul: Option<PathBuf>,
    /// Where probe.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench-probe: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all targets were met.
fn run(args: &Args) -> Result<bool> {
    let own = std::env::current_exe()?;
    let build = own.parent().context("this program has a directory")?;
    let longhaul = args.longhaul.clone().unwrap_or_else(|| build.join("longhaul"));
    ensure!(longhaul.exists(), "{} is not there; run `make build` first", longhaul.display());
    let iperf3 = machine::first_line("iperf3", &["--version"]);
    ensure!(!iperf3.is_empty(), "iperf3 is not there; scripts/setup-bench.sh installs it");
    let scratch = tempfile::Builder::new().prefix("longhaul-probe-").tempdir()?;
    let accounts = Accounts::open();
    let about = About {
        date: machine::first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        machine: machine::describe("loopback")?,
        rounds: args.rounds,
        seconds: args.seconds,
        method: accounts.method(),
        iperf3,
    };
    let bench = Bench { longhaul: &longhaul, scratch: scratch.path(), seconds: args.seconds, rounds: args.rounds };
    let rows = args.streams.iter().map(|streams| bench.run(&accounts, *streams)).collect::<Result<Vec<_>>>()?;
    let datagrams =
        Datagrams { longhaul: &longhaul, scratch: scratch.path(), seconds: args.seconds, rounds: args.rounds };
    let datagrams = bench::probe::datagrams::run(&datagrams, &accounts)?;
    let (text, met) = markdown(&about, &rows, datagrams)?;
    let out = args.out.clone().unwrap_or_else(machine::repository_results);
    fs::create_dir_all(&out)?;
    fs::write(out.join("probe.md"), &text)?;
    println!("{text}\nwritten: {}", out.join("probe.md").display());
    Ok(met)
}

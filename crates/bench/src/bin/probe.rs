//! `make bench-probe`: its arguments and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use bench::account::Accounts;
use bench::machine;
use bench::probe::datagrams::Datagrams;
use bench::probe::report::{Circumstances, markdown};
use bench::probe::run::Bench;
use bench::program::{self, Binary, Results};
use clap::Parser;

/// The probe compared with iperf3, over loopback; its counts over emulated paths (needs root).
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
    #[command(flatten)]
    binary: Binary,
    /// Where probe.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-probe", run(&Args::parse()))
}

/// Runs the measurements; whether all targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let iperf3 = machine::first_line("iperf3", &["--version"]);
    ensure!(!iperf3.is_empty(), "iperf3 is not installed; scripts/setup-bench.sh installs it");
    let scratch = tempfile::Builder::new().prefix("longhaul-probe-").tempdir()?;
    let accounts = Accounts::open();
    let about = Circumstances {
        date: machine::date(),
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
    let out = Results::open(args.out.as_deref())?;
    out.write("probe.md", &text)?;
    print!("{text}");
    out.print_path("probe.md");
    Ok(met)
}

//! `make bench-scale`: its arguments and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use bench::account::Accounts;
use bench::file_service::idle::raise_descriptors;
use bench::machine;
use bench::process::{Server, free_port};
use bench::program::{self, Binary, Results};
use bench::scale::load::{self, OfferedLoad};
use bench::scale::picture;
use bench::scale::report::{LoadRow, ScaleCircumstances, markdown};
use bench::scale::transfers::ScaleBench;
use clap::Parser;

/// A node with many streams, jobs, sessions and requests, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds that count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// MiB of all jobs of a run together
    #[arg(long, default_value_t = 8192, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..))]
    size: u64,
    /// Native sessions
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// HTTP requests per second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Seconds of each load
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[command(flatten)]
    binary: Binary,
    /// Where scale.md and scale.svg go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-scale", run(&Args::parse()))
}

/// Runs the measurements; whether all targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("scale", None)?;
    raise_descriptors(u64::from(args.sessions) + 1_000)?;
    let data = scratch.path().join("data");
    fs::create_dir(&data)?;
    fs::write(data.join("small"), [7; 1024])?;
    let accounts = Accounts::open();
    let port = free_port()?;
    let export = format!("data={}", data.display());
    let state = scratch.path().join("state").display().to_string();
    let listen = format!("127.0.0.1:{port}");
    let mut words = vec![longhaul.display().to_string()];
    words.extend(["serve", "--quiet", "--plain", "--anonymous", "rw", "--export", &export].map(String::from));
    words.extend(["--listen", &listen, "--state", &state].map(String::from));
    let server = Server::start(accounts.side("node")?, &words, port, &scratch.path().join("node.log"))?;
    let bytes = args.size << 20;
    let log = scratch.path().join("client.log");
    let bench = ScaleBench { longhaul: &longhaul, accounts: &accounts, server: &server, bytes, log };
    let rows = bench.run(args.rounds)?;
    let loads = measure_loads(args, port)?;
    let about = ScaleCircumstances {
        date: machine::date(),
        machine: machine::describe("loopback")?,
        command: format!("make bench-scale {}", program::shown_arguments(&[])).trim().to_owned(),
        method: accounts.method(),
        rounds: args.rounds,
        bytes,
    };
    let (text, met) = markdown(&about, &rows, &loads)?;
    let out = Results::open(args.out.as_deref())?;
    out.write("scale.md", &text)?;
    out.write("scale.svg", picture::svg(&rows, bytes)?)?;
    print!("{text}");
    out.print_path("scale.md");
    Ok(met)
}

/// Runs all rounds of the loads, alone and at once.
fn measure_loads(args: &Args, port: u16) -> Result<Vec<LoadRow>> {
    let both = OfferedLoad {
        sessions: args.sessions,
        session_interval: Duration::from_secs(2),
        connections: 32,
        requests_s: args.requests,
        time: Duration::from_secs(args.seconds),
    };
    let row = |title, load| LoadRow { title, load, results: Vec::new() };
    let mut rows = [
        row("sessions alone", OfferedLoad { connections: 0, ..both }),
        row("requests alone", OfferedLoad { sessions: 0, ..both }),
        row("at once", both),
    ];
    for round in 0..args.rounds as usize {
        for at in 0..rows.len() {
            let row = &mut rows[(at + round) % 3];
            let result = load::run(port, "/data/small", row.load)?;
            println!("{}: {result:?}", row.title);
            row.results.push(result);
        }
    }
    Ok(rows.into())
}

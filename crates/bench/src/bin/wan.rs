//! `make bench-wan`: its arguments, signals and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench::machine;
use bench::program::{self, Binary, Results};
use bench::wan::bed::WanBench;
use bench::wan::plan::{CellRounds, Terms};
use bench::wan::report::{Circumstances, markdown};
use bench::wan::site::{self, BottleneckSettings};
use bench::wan::stage::Stage;
use bench::wan::tool::{Kind, Programs};
use bench::wan::{cell, picture, plan, rounds, verdict};
use clap::Parser;

/// Longhaul compared with its peers over emulated wide-area paths. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// The whole matrix, however long it takes
    #[arg(long, conflicts_with_all = ["quick", "cells"])]
    full: bool,
    /// A handful of cells with sets a tenth of their size, to try it
    #[arg(long)]
    quick: bool,
    /// These cells, as SET/RTT/LOSS: large/303/0.3, small/*/0; may be given again
    #[arg(long, value_name = "CELLS")]
    cells: Vec<String>,
    /// These tools alone; may be given again, or separated by commas
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// Rounds of every cell; by default 3 for the key cells and 1 for the others
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: Option<u32>,
    /// Minutes that cells are chosen for; with --full and --cells there is no end
    #[arg(long, default_value_t = 60)]
    minutes: u32,
    /// The bottleneck in Mbit/s
    #[arg(long, value_name = "MBIT/S", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// What may wait for the bottleneck, as a scenario writes it: bdp, 50ms, 16MB
    #[arg(long, default_value = "bdp")]
    queue: String,
    /// MTU of both sites
    #[arg(long, default_value_t = 9_000, value_parser = clap::value_parser!(u16).range(1_280..))]
    mtu: u16,
    /// Default congestion control of both sites
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Seconds after which a run is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    cap: u64,
    /// Sets are so many times smaller; with --quick 10
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..=500))]
    divide: Option<u64>,
    /// FDT takes part with this jar
    #[arg(long, value_name = "JAR")]
    fdt: Option<PathBuf>,
    /// Where the files are: 4 GB of them
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    scratch: PathBuf,
    #[command(flatten)]
    binary: Binary,
    /// Where wan.md and wan.svg go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-wan", run(&Args::parse()))
}

/// Runs the measurements; whether all targets were met.
fn run(args: &Args) -> Result<bool> {
    let started = Instant::now();
    program::require_root()?;
    ensure!(!machine::first_line("setpriv", &["--version"]).is_empty(), "setpriv (util-linux) is not installed");
    let programs = Programs { longhaul: args.binary.find()?, fdt: args.fdt.clone() };
    let (kinds, missing) = kinds(args, &programs)?;
    // The directory is removed when the run ends, also when it fails.
    let scratch = program::scratch("wan", Some(&args.scratch))?;
    bench::data::open_to_all(scratch.path())?;
    let part = args.quick || !args.cells.is_empty() || !args.tools.is_empty();
    ensure!(args.out.is_some() || !part, "a part of the table must not replace the whole one: give --out DIR");
    let divide = args.divide.unwrap_or(if args.quick { 10 } else { 1 });
    let bench = WanBench {
        path: BottleneckSettings { rate_mbit: args.rate, queue: args.queue.clone(), mtu: args.mtu },
        stage: Stage { root: scratch.path().to_owned(), divide },
        programs,
        congestion: args.congestion.clone(),
        cap: Duration::from_secs(args.cap.max(1)),
        stop: program::stopped_by_signals()?,
    };
    let is_timed = !args.full && args.cells.is_empty();
    let budget_s = if is_timed { f64::from(args.minutes) * 60.0 } else { f64::INFINITY };
    let (planned, choice) = plan_cells(args, &bench, &kinds, budget_s)?;
    let about = about(args, &bench, &kinds, missing, choice)?;
    let end = is_timed.then(|| started + Duration::from_secs_f64(budget_s));
    measure(args, &bench, &planned, &kinds, end, &about)
}

/// The tools that take part, and why the others do not.
fn kinds(args: &Args, programs: &Programs) -> Result<(Vec<Kind>, Vec<String>)> {
    let known = || Kind::all().into_iter().map(Kind::name).collect::<Vec<_>>().join(", ");
    for name in &args.tools {
        ensure!(
            Kind::all().iter().any(|kind| kind.name() == name),
            "no tool is called {name}; the tools are {}",
            known()
        );
    }
    let wanted = |kind: &Kind| args.tools.is_empty() || args.tools.iter().any(|name| name == kind.name());
    let mut kinds = Vec::new();
    let mut missing = Vec::new();
    for kind in Kind::all().into_iter().filter(wanted) {
        match kind.missing(programs) {
            None => kinds.push(kind),
            Some(why) => {
                println!("LEFT OUT: {}: {why}; scripts/setup-bench.sh installs what Debian has", kind.title());
                missing.push(format!("{}: {why}", kind.title()));
            }
        }
    }
    ensure!(!kinds.is_empty(), "none of these tools is installed");
    Ok((kinds, missing))
}

/// The cells that fit the time, and the reason for the choice.
fn plan_cells(args: &Args, bench: &WanBench, kinds: &[Kind], budget_s: f64) -> Result<(Vec<CellRounds>, String)> {
    let (ranked, mut choice) = if !args.cells.is_empty() {
        let mut chosen = Vec::new();
        for pattern in &args.cells {
            chosen.extend(cell::matching(pattern)?);
        }
        let ranked: Vec<CellRounds> =
            plan::ranked().into_iter().filter(|cell_rounds| chosen.contains(&cell_rounds.cell)).collect();
        (ranked, "chosen by name".to_owned())
    } else if args.quick {
        (plan::quick(), "a handful, to try it".to_owned())
    } else if args.full {
        (plan::ranked(), "all".to_owned())
    } else {
        let why = "those that fit into {} minutes by an estimate, in this order: those with targets at 303 ms (3 \
                   rounds), all sets without loss at 0, 56, 7.5 and 142 ms, then the other losses, longest RTT first (1 \
                   round)";
        (plan::ranked(), why.replace("{}", &args.minutes.to_string()))
    };
    let ranked = ranked
        .into_iter()
        .map(|cell_rounds| CellRounds { rounds: args.repeat.unwrap_or(cell_rounds.rounds), ..cell_rounds });
    let ranked: Vec<CellRounds> = ranked.collect();
    let terms = Terms { bottleneck: bench.bottleneck(), cap_s: bench.cap.as_secs_f64(), divide: bench.stage.divide };
    let (taken, left_out) = plan::fit(&ranked, budget_s, kinds, terms);
    let expected: f64 = taken.iter().map(|cell_rounds| plan::estimate_s(*cell_rounds, kinds, terms)).sum();
    println!("{} cells, about {:.0} minutes; {} left out for time", taken.len(), expected / 60.0, left_out.len());
    if let Some(rounds) = args.repeat {
        choice += &format!("; {rounds} rounds of each");
    }
    Ok((taken, choice))
}

fn about(args: &Args, bench: &WanBench, kinds: &[Kind], missing: Vec<String>, choice: String) -> Result<Circumstances> {
    let mut congestion_texts = Vec::new();
    for (name, who) in [(args.congestion.as_str(), "both sites"), ("bbr", "rows marked (bbr)")] {
        let in_force = bench.congestion_in_force(name)?;
        ensure!(in_force == name, "the sites' connections have {in_force}, not {name}: `modprobe tcp_{name}`?");
        congestion_texts
            .push(format!("{name} by default at {who} ({})", site::CongestionSetting::here(name).description()));
    }
    Ok(Circumstances {
        date: machine::date(),
        machine: machine::describe("emulated network")?,
        arguments: program::shown_arguments(&[("--fdt", Some("fdt.jar"))]),
        versions: versions(bench, kinds),
        missing,
        bottleneck: bench.bottleneck(),
        queue: if args.queue == "bdp" { "one BDP (256 KiB at least)".into() } else { args.queue.clone() },
        file_system: machine::file_system(&bench.stage.root),
        congestion: congestion_texts.join("; ") + "; a program may choose another, as Longhaul and iperf3 can",
        cap_s: bench.cap.as_secs_f64(),
        divide: bench.stage.divide,
        choice,
    })
}

/// The versions that the tools report.
fn versions(bench: &WanBench, kinds: &[Kind]) -> Vec<String> {
    let longhaul = bench.programs.longhaul.display().to_string();
    let mut versions = vec![machine::first_line(&longhaul, &["--version"])];
    let package = |name| machine::first_line("dpkg-query", &["-W", "-f", "${Package} ${Version}", name]);
    let packages = [
        (Kind::Xrdcp, "xrootd-client"),
        (Kind::Xrdcp, "xrootd-server"),
        (Kind::Gridftp, "globus-gass-copy-progs"),
        (Kind::Gridftp, "globus-gridftp-server-progs"),
        (Kind::Rclone, "rclone"),
        (Kind::Iperf3, "iperf3"),
    ];
    versions.extend(packages.into_iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, name)| package(name)));
    versions.retain(|version| !version.is_empty());
    versions
}

fn measure(
    args: &Args,
    bench: &WanBench,
    planned: &[CellRounds],
    kinds: &[Kind],
    end: Option<Instant>,
    about: &Circumstances,
) -> Result<bool> {
    let out = Results::open(args.out.as_deref())?;
    // Written after each cell, so that an interrupted run leaves its results.
    let results = rounds::run(bench, planned, kinds, end, |results| {
        out.write("wan.md", markdown(about, results))?;
        out.write("wan.svg", picture::svg(results, about.cap_s)?)
    })?;
    // The cells that were left out at the end are known only now.
    out.write("wan.md", markdown(about, &results))?;
    out.print_path("wan.md");
    let judged = verdict::judge(&results, bench.bottleneck());
    for one in judged.iter().filter(|one| !one.met) {
        println!("NOT MET  {}: {}: {}", one.cell, one.target, one.figure);
    }
    println!("{} of {} targets met", judged.iter().filter(|one| one.met).count(), judged.len());
    Ok(judged.iter().all(|one| one.met))
}

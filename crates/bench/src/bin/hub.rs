//! `make bench-hub`: the jobs that a hub accepts per second, the times of its lists while many files wait, the time of an allocation, and
//! the small files per second that nodes move for it. Writes docs/results/hub.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use bench::hub::{CLIENTS, Hub, Pair, percentile_99, small_files, spread_text, submit, time_requests};
use bench::machine;
use bench::program::{self, Binary, Results};
use bench::statistics::median;
use clap::Parser;
use sched::allocation::Demand;
use sched::shares::{Aggregate, Class, Group, share};

/// Aggregates of an allocation.
const AGGREGATES: usize = 10_000;
/// Resources of an allocation.
const RESOURCES: usize = 2_000;

/// A hub compared with its targets, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// Seconds that each kind of job is submitted for
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often each is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Files that wait while lists are asked for
    #[arg(long, default_value_t = 1_000_000)]
    queued: usize,
    /// Small files that go from node to node
    #[arg(long, default_value_t = 20_000)]
    files: usize,
    #[command(flatten)]
    binary: Binary,
    /// Where hub.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-hub", run(&Args::parse()))
}

/// Milliseconds of one allocation over many aggregates: ten communities with three activities each, five resources on a path.
fn allocation() -> f64 {
    let group = |number: usize, weight: f64| Group { number: number as u32, weight };
    let aggregates: Vec<Aggregate> = (0..AGGREGATES)
        .map(|at| {
            let step = |by: usize| ((at * 7919 + by * 104_729) % RESOURCES) as u32;
            let mut path: Vec<u32> = (0..5).map(step).collect();
            path.sort_unstable();
            path.dedup();
            let (community, activity) = (at % 10, at % 30);
            let groups = vec![group(community, (community + 1) as f64), group(100 + activity, 1.0)];
            Aggregate {
                class: Class::Standard,
                groups,
                demand: Demand { weight: 1.0, floor: 0.0, cap: f64::INFINITY, path },
            }
        })
        .collect();
    let capacities: Vec<f64> = (0..RESOURCES).map(|at| 1e9 + (at % 17) as f64 * 1e8).collect();
    let began = Instant::now();
    let rates = share(&capacities, &aggregates);
    let took = began.elapsed().as_secs_f64() * 1000.0;
    assert!(rates.iter().all(|rate| rate.rate > 0.0), "an aggregate has no rate");
    took
}

/// Has small files moved from node to node by one job; returns files per second from the submission to the end.
fn move_small_files(hub: &Hub, dir: &Path, files: usize) -> Result<f64> {
    let pair = Pair::start(hub, dir)?;
    let orders = small_files(&pair, files)?;
    Ok(files as f64 / pair.time_moves(hub, &orders, files)?.as_secs_f64())
}

/// Submits jobs until `--queued` files wait; returns their number.
fn fill_queue(hub: &Hub, args: &Args) -> Result<u64> {
    loop {
        let queued: u64 = hub.api()?.queues()?.queues.iter().map(|queue| queue.queued).sum();
        if queued >= args.queued as u64 {
            return Ok(queued);
        }
        submit(hub, 1000, args.seconds)?;
    }
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let scratch = tempfile::Builder::new().prefix("longhaul-hub-").tempdir()?;
    let hub = Hub::start(&longhaul, scratch.path())?;
    let small_files_s = (0..args.rounds)
        .map(|round| {
            let dir = scratch.path().join(format!("round{round}"));
            move_small_files(&hub, &dir, args.files)
        })
        .collect::<Result<Vec<f64>>>()?;
    // No node carries out these transfers: only the queue is measured from here on.
    hub.api()?.stop("all", &model::v1::hub::Stopped { reason: "measured".into(), ..Default::default() })?;
    let mut single_file_jobs_s = Vec::new();
    let mut files_of_large_jobs_s = Vec::new();
    for _ in 0..args.rounds {
        single_file_jobs_s.push(submit(&hub, 1, args.seconds)?);
        files_of_large_jobs_s.push(submit(&hub, 1000, args.seconds)? * 1000.0);
    }
    let queued = fill_queue(&hub, args)?;
    let id = hub.api()?.jobs(true, None, 1)?.jobs.first().context("no job waits")?.id;
    let status = time_requests(&hub, &format!("/api/v1/jobs/{id}"), 1000)?;
    let list = time_requests(&hub, "/api/v1/jobs?limit=100", 1000)?;
    let allocations: Vec<f64> = (0..args.rounds).map(|_| allocation()).collect();
    let memory = hub.memory()? as f64 / 1e6;
    let middle = |all: &[f64]| median(all.iter().copied()).unwrap_or_default();
    let met = |is_met: bool| if is_met { "met" } else { "**not met**" };
    let targets = [
        middle(&single_file_jobs_s) >= 2000.0,
        middle(&files_of_large_jobs_s) >= 50_000.0,
        percentile_99(&status) <= 50.0 && percentile_99(&list) <= 50.0,
        memory < 500.0,
        middle(&allocations) <= 10.0,
        middle(&small_files_s) >= 1000.0,
    ];
    let text = format!(
        "# The hub, measured\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-hub`\n- Database: SQLite on {}, WAL, synchronous \
         FULL; {CLIENTS} clients, each over one connection, in clear; medians of {} rounds (least to most)\n\n\
         | what | measured | target | |\n|---|---|---|---|\n\
         | jobs of one file, accepted per second | {} | 2,000 | {} |\n\
         | files in jobs of 1,000, accepted per second | {} | 50,000 | {} |\n\
         | 99 of 100 answers to the status of a job, to a page of 100 jobs, with {queued} files queued, ms | {:.1}, {:.1} | 50 | {} |\n\
         | memory of the hub then, MB | {memory:.0} | 500 | {} |\n\
         | allocation over {AGGREGATES} aggregates and {RESOURCES} resources, ms | {:.1} | 10 | {} |\n\
         | files of 1 kB from node to node by one job of {}, per second | {} | 1,000 | {} |\n",
        machine::date(),
        machine::describe("loopback")?,
        machine::file_system(scratch.path()),
        args.rounds,
        spread_text(&single_file_jobs_s, 0),
        met(targets[0]),
        spread_text(&files_of_large_jobs_s, 0),
        met(targets[1]),
        percentile_99(&status),
        percentile_99(&list),
        met(targets[2]),
        met(targets[3]),
        middle(&allocations),
        met(targets[4]),
        args.files,
        spread_text(&small_files_s, 0),
        met(targets[5]),
    );
    print!("{text}");
    let out = Results::open(args.out.as_deref())?;
    out.write("hub.md", text)?;
    Ok(targets.iter().all(|target| *target))
}

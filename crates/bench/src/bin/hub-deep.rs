//! `make bench-hub-deep`: measurements of a hub that take minutes. Ten million files that wait, and a restart with them; a million small files
//! from node to node; a data set beside `longhaul cp`. Writes docs/results/hub-deep.md.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::hub::{Hub, Pair, ask, late, small_files, spread, submit};
use bench::machine;
use bench::program::{self, Binary, Results};
use bench::statistics::median;
use clap::Parser;
use model::v1::hub::Stopped;

/// Seconds of one round of submissions.
const SUBMIT_S: u64 = 10;
/// The longest wait for the first claim after a restart.
const CLAIM_MAX: Duration = Duration::from_secs(120);
/// Files of the data set.
const SET_FILES: u64 = 10;

/// What takes a hub minutes, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// Files that wait while lists are asked for, and while the hub is killed
    #[arg(long, default_value_t = 10_000_000)]
    queued: usize,
    /// How often it is killed and started again
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    restarts: u32,
    /// Files of 1 kB that go from node to node
    #[arg(long, default_value_t = 1_000_000)]
    files: usize,
    /// Bytes of the data set, in GB
    #[arg(long, default_value_t = 10)]
    gigabytes: u64,
    /// How often the data set is moved by either
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    binary: Binary,
    /// Where hub-deep.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::end("bench-hub-deep", run(&Args::parse()))
}

/// The figures of a queue in which many files wait.
struct QueueFigures {
    queued: u64,
    status: f64,
    list: f64,
    megabytes: f64,
    megabytes_after: f64,
    database_gb: f64,
    /// Seconds from the start to the first claim.
    claims: Vec<f64>,
}

fn waiting(args: &Args, longhaul: &Path, dir: &Path) -> Result<QueueFigures> {
    let mut hub = Hub::start(longhaul, dir)?;
    let stopped = Stopped { reason: "measured".into(), ..Stopped::default() };
    hub.api()?.stop("all", &stopped)?;
    let waits = |hub: &Hub| -> Result<u64> { Ok(hub.api()?.queues()?.queues.iter().map(|queue| queue.queued).sum()) };
    let mut queued = 0;
    while queued < args.queued as u64 {
        submit(&hub, 1000, SUBMIT_S)?;
        queued = waits(&hub)?;
        println!("{queued} files wait");
    }
    let id = hub.api()?.jobs(true, None, 1)?.jobs.first().context("no job waits")?.id;
    let status = late(&ask(&hub, &format!("/api/v1/jobs/{id}"), 1000)?);
    let list = late(&ask(&hub, "/api/v1/jobs?limit=100", 1000)?);
    let megabytes = hub.memory()? as f64 / 1e6;
    let mut claims = Vec::new();
    for _ in 0..args.restarts {
        let began = Instant::now();
        hub = hub.restart()?;
        hub.api()?.start("all")?;
        until(&hub, |running| running > 0)?;
        claims.push(began.elapsed().as_secs_f64());
        hub.api()?.stop("all", &stopped)?;
        // Nobody carries out the claims, so they return to the queue: the next claim is a new one.
        until(&hub, |running| running == 0)?;
    }
    let database_gb = fs::metadata(dir.join("hub/hub.db"))?.len() as f64 / 1e9;
    Ok(QueueFigures {
        queued,
        status,
        list,
        megabytes,
        megabytes_after: hub.memory()? as f64 / 1e6,
        database_gb,
        claims,
    })
}

/// Waits until `is_wanted` holds for the number of files that run.
fn until(hub: &Hub, is_wanted: impl Fn(u64) -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_wanted(hub.api()?.queues()?.queues.iter().map(|queue| queue.running).sum()) {
        ensure!(began.elapsed() < CLAIM_MAX, "the number of files that run does not change");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Has files of 1 kB moved from node to node, in jobs of the largest permitted size; returns files per second.
fn small(args: &Args, longhaul: &Path, dir: &Path) -> Result<f64> {
    let hub = Hub::start(longhaul, dir)?;
    let pair = Pair::start(&hub, dir)?;
    let files = small_files(&pair, args.files)?;
    println!("{} files are there", files.len());
    Ok(files.len() as f64 / pair.moved(&hub, &files, 100_000)?.as_secs_f64())
}

/// Seconds of a data set by a hub, and by `longhaul cp`, in turn.
fn set(args: &Args, longhaul: &Path, dir: &Path) -> Result<(Vec<f64>, Vec<f64>)> {
    let hub = Hub::start(longhaul, dir)?;
    let pair = Pair::start(&hub, dir)?;
    let bytes = args.gigabytes * 1_000_000_000 / SET_FILES;
    let source = pair.sites[0].data.join("set");
    fs::create_dir_all(&source)?;
    for at in 0..SET_FILES {
        fill(&source.join(format!("f{at}")), bytes)?;
    }
    let (mut by_hub, mut by_cp) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        for first in [round % 2 == 0, round % 2 != 0] {
            let target = pair.sites[1].data.join("in");
            if first {
                let files: Vec<_> =
                    (0..SET_FILES).map(|at| pair.file(&format!("set/f{at}"), &format!("in/f{at}"), bytes)).collect();
                by_hub.push(pair.moved(&hub, &files, files.len())?.as_secs_f64());
            } else {
                by_cp.push(copy(longhaul, &source, &pair)?);
            }
            fs::remove_dir_all(&target)?;
            Command::new("sync").status()?;
            println!("round {round}: {:?} s by the hub, {:?} s by cp", by_hub.last(), by_cp.last());
        }
    }
    Ok((by_hub, by_cp))
}

fn copy(longhaul: &Path, source: &Path, pair: &Pair) -> Result<f64> {
    let began = Instant::now();
    let mut command = Command::new(longhaul);
    command.args(["cp", "-r", "--quiet"]).arg(source).arg(format!("{}/data/in", pair.sites[1].url));
    let status = command.env("LONGHAUL_KEY", &pair.sites[1].key).status()?;
    ensure!(status.success(), "longhaul cp failed");
    Ok(began.elapsed().as_secs_f64())
}

/// Writes a file that no file system stores as a hole.
fn fill(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut piece = vec![0u8; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        piece[..8].copy_from_slice(&left.to_le_bytes());
        let now = left.min(piece.len() as u64);
        file.write_all(&piece[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let scratch = tempfile::Builder::new().prefix("longhaul-hub-deep-").tempdir()?;
    let below = |name: &str| -> Result<PathBuf> {
        let dir = scratch.path().join(name);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    };
    let (by_hub, by_cp) = set(args, &longhaul, &below("set")?)?;
    fs::remove_dir_all(scratch.path().join("set"))?;
    let small = small(args, &longhaul, &below("small")?)?;
    fs::remove_dir_all(scratch.path().join("small"))?;
    let waiting = waiting(args, &longhaul, &below("waiting")?)?;
    let middle = |all: &[f64]| median(all.iter().copied()).unwrap_or_default();
    let ratio = middle(&by_hub) / middle(&by_cp);
    let slowest = waiting.claims.iter().copied().fold(0.0, f64::max);
    let rows = [
        (
            format!("{} GB in {SET_FILES} files, ordered at the hub, s; by `longhaul cp`, s; ratio", args.gigabytes),
            format!("{}; {}; {ratio:.3}", spread(&by_hub, 1), spread(&by_cp, 1)),
            "1.02",
            ratio <= 1.02,
        ),
        (
            format!("{} files of 1 kB from node to node, per second", args.files),
            format!("{small:.0}"),
            "1,000",
            small >= 1000.0,
        ),
        (
            format!("memory with {} files queued, MB; after {} restarts", waiting.queued, args.restarts),
            format!("{:.0}; {:.0}", waiting.megabytes, waiting.megabytes_after),
            "500",
            waiting.megabytes.max(waiting.megabytes_after) < 500.0,
        ),
        (
            "from the start of the killed hub to the first claim, s".to_owned(),
            spread(&waiting.claims, 2),
            "5",
            slowest <= 5.0,
        ),
        (
            "99 of 100 answers to the status of a job, to a page of 100 jobs, ms".to_owned(),
            format!("{:.1}, {:.1}", waiting.status, waiting.list),
            "50",
            waiting.status <= 50.0 && waiting.list <= 50.0,
        ),
    ];
    let mut text = format!(
        "# The hub with much to do, measured\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-hub-deep`\n- Database: SQLite on {}, \
         WAL, synchronous FULL; {:.1} GB with all that wait. Medians (least to most) of {} rounds, in turn, and of {} restarts\n\n\
         | what | measured | target | |\n|---|---|---|---|\n",
        machine::date(),
        machine::describe("loopback")?,
        machine::file_system(scratch.path()),
        waiting.database_gb,
        args.rounds,
        args.restarts,
    );
    for (what, measured, target, is_met) in &rows {
        let met = if *is_met { "met" } else { "**not met**" };
        text.push_str(&format!("| {what} | {measured} | {target} | {met} |\n"));
    }
    print!("{text}");
    Results::open(args.out.as_deref())?.write("hub-deep.md", text)?;
    Ok(rows.iter().all(|(.., is_met)| *is_met))
}

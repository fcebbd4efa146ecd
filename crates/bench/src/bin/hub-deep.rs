//! `make bench-hub-deep`: measurements of a hub that take minutes: ten million queued files and a restart with them, a million small files
//! from node to node, and a data set compared with `longhaul cp`. Writes docs/results/hub-deep.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::hub::{Hub, Pair, percentile_99, small_files, spread_text, submit, time_requests};
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

/// Measurements of a hub that take minutes, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// Files that wait while lists are asked for, and while the hub is killed
    #[arg(long, default_value_t = 10_000_000)]
    queued: usize,
    /// How often the hub is killed and started again
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    restarts: u32,
    /// Files of 1 kB that go from node to node
    #[arg(long, default_value_t = 1_000_000)]
    files: usize,
    /// Bytes of the data set, in GB
    #[arg(long, default_value_t = 10)]
    gigabytes: u64,
    /// How often the hub and `longhaul cp` each move the data set
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    binary: Binary,
    /// Where hub-deep.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-hub-deep", run(&Args::parse()))
}

/// The figures of a queue in which many files wait.
struct QueueFigures {
    /// Files that wait.
    queued: u64,
    /// The 99th percentile of the times to answer with the status of a job.
    status_ms: f64,
    /// The 99th percentile of the times to answer with a page of jobs.
    list_ms: f64,
    megabytes: f64,
    /// Memory after all restarts.
    megabytes_after: f64,
    database_gb: f64,
    /// Seconds from each start to the first claim.
    claims_s: Vec<f64>,
}

fn measure_queue(args: &Args, longhaul: &Path, dir: &Path) -> Result<QueueFigures> {
    let mut hub = Hub::start(longhaul, dir)?;
    let stopped = Stopped { reason: "measured".into(), ..Stopped::default() };
    hub.api()?.stop("all", &stopped)?;
    let queued_files =
        |hub: &Hub| -> Result<u64> { Ok(hub.api()?.queues()?.queues.iter().map(|queue| queue.queued).sum()) };
    let mut queued = 0;
    while queued < args.queued as u64 {
        submit(&hub, 1000, SUBMIT_S)?;
        queued = queued_files(&hub)?;
        println!("{queued} files wait");
    }
    let id = hub.api()?.jobs(true, None, 1)?.jobs.first().context("no job waits")?.id;
    let status_ms = percentile_99(&time_requests(&hub, &format!("/api/v1/jobs/{id}"), 1000)?);
    let list_ms = percentile_99(&time_requests(&hub, "/api/v1/jobs?limit=100", 1000)?);
    let megabytes = hub.memory()? as f64 / 1e6;
    let mut claims_s = Vec::new();
    for _ in 0..args.restarts {
        let began = Instant::now();
        hub = hub.restart()?;
        hub.api()?.start("all")?;
        wait_for_running(&hub, |running| running > 0)?;
        claims_s.push(began.elapsed().as_secs_f64());
        hub.api()?.stop("all", &stopped)?;
        // No node carries out the claimed transfers, so they return to the queue: the next claim is a new one.
        wait_for_running(&hub, |running| running == 0)?;
    }
    let database_gb = fs::metadata(dir.join("hub/hub.db"))?.len() as f64 / 1e9;
    Ok(QueueFigures {
        queued,
        status_ms,
        list_ms,
        megabytes,
        megabytes_after: hub.memory()? as f64 / 1e6,
        database_gb,
        claims_s,
    })
}

/// Waits until `is_wanted` accepts the number of running files.
fn wait_for_running(hub: &Hub, is_wanted: impl Fn(u64) -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_wanted(hub.api()?.queues()?.queues.iter().map(|queue| queue.running).sum()) {
        ensure!(began.elapsed() < CLAIM_MAX, "the number of running files does not change");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Has files of 1 kB moved from node to node, in jobs of the largest permitted size; returns files per second.
fn move_small_files(args: &Args, longhaul: &Path, dir: &Path) -> Result<f64> {
    let hub = Hub::start(longhaul, dir)?;
    let pair = Pair::start(&hub, dir)?;
    let files = small_files(&pair, args.files)?;
    println!("{} files are made", files.len());
    Ok(files.len() as f64 / pair.time_moves(&hub, &files, 100_000)?.as_secs_f64())
}

/// Moves a data set by a hub and by `longhaul cp` in turn; returns the seconds of each run of both.
fn move_data_set(args: &Args, longhaul: &Path, dir: &Path) -> Result<(Vec<f64>, Vec<f64>)> {
    let hub = Hub::start(longhaul, dir)?;
    let pair = Pair::start(&hub, dir)?;
    let bytes = args.gigabytes * 1_000_000_000 / SET_FILES;
    let source = pair.sites[0].data.join("set");
    fs::create_dir_all(&source)?;
    for at in 0..SET_FILES {
        fill(&source.join(format!("f{at}")), bytes)?;
    }
    let mut by_hub = Vec::new();
    let mut by_cp = Vec::new();
    for round in 0..args.rounds {
        for is_by_hub in [round % 2 == 0, round % 2 != 0] {
            let target = pair.sites[1].data.join("in");
            if is_by_hub {
                let files: Vec<_> =
                    (0..SET_FILES).map(|at| pair.file(&format!("set/f{at}"), &format!("in/f{at}"), bytes)).collect();
                by_hub.push(pair.time_moves(&hub, &files, files.len())?.as_secs_f64());
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
    let (by_hub, by_cp) = move_data_set(args, &longhaul, &below("set")?)?;
    fs::remove_dir_all(scratch.path().join("set"))?;
    let small_files_s = move_small_files(args, &longhaul, &below("small")?)?;
    fs::remove_dir_all(scratch.path().join("small"))?;
    let queue = measure_queue(args, &longhaul, &below("waiting")?)?;
    let middle = |all: &[f64]| median(all.iter().copied()).unwrap_or_default();
    let ratio = middle(&by_hub) / middle(&by_cp);
    let slowest = queue.claims_s.iter().copied().fold(0.0, f64::max);
    let rows = [
        (
            format!("{} GB in {SET_FILES} files, ordered at the hub, s; by `longhaul cp`, s; ratio", args.gigabytes),
            format!("{}; {}; {ratio:.3}", spread_text(&by_hub, 1), spread_text(&by_cp, 1)),
            "1.02",
            ratio <= 1.02,
        ),
        (
            format!("{} files of 1 kB from node to node, per second", args.files),
            format!("{small_files_s:.0}"),
            "1,000",
            small_files_s >= 1000.0,
        ),
        (
            format!("memory with {} files queued, MB; after {} restarts", queue.queued, args.restarts),
            format!("{:.0}; {:.0}", queue.megabytes, queue.megabytes_after),
            "500",
            queue.megabytes.max(queue.megabytes_after) < 500.0,
        ),
        (
            "from the start of the killed hub to the first claim, s".to_owned(),
            spread_text(&queue.claims_s, 2),
            "5",
            slowest <= 5.0,
        ),
        (
            "99 of 100 answers to the status of a job, to a page of 100 jobs, ms".to_owned(),
            format!("{:.1}, {:.1}", queue.status_ms, queue.list_ms),
            "50",
            queue.status_ms <= 50.0 && queue.list_ms <= 50.0,
        ),
    ];
    let mut text = format!(
        "# The hub with much to do, measured\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-hub-deep`\n- Database: SQLite on {}, \
         WAL, synchronous FULL; {:.1} GB with all that wait. Medians (least to most) of {} rounds, in turn, and of {} restarts\n\n\
         | what | measured | target | |\n|---|---|---|---|\n",
        machine::date(),
        machine::describe("loopback")?,
        machine::file_system(scratch.path()),
        queue.database_gb,
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

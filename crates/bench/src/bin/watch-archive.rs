//! `make bench-watch-archive`: the cost of a watch of 100 sites: the size of a year of its archive, the time of a view of it, and the
//! processor time of the measurements of 9,900 pairs as they arrive. Writes docs/results/watch-archive.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use bench::{machine, program, statistics};
use clap::Parser;
use model::v1::node::{Delays, Found, Measurement, Measurements, StreamReport};
use tokio::runtime::Runtime;
use watch::archive::chunk::pack;
use watch::archive::columns::{LATENCY, roll_up};
use watch::archive::store::{Archive, SeriesKey};
use watch::archive::{DAY, Level, Row};
use watch::config::{Config, schedule_id};
use watch::state::{Watch, WatchPlan};

const MINUTE: i64 = 60_000;
/// Pairs of a mesh of 100 sites, in both directions.
const PAIRS: usize = 9_900;
/// Days of the year.
const DAYS: i64 = 366;
/// Views of each kind.
const VIEWS: usize = 40;
/// Nodes that measure; each has 99 pairs.
const NODES: usize = 100;

/// What a watch of 100 sites costs.
#[derive(Debug, Parser)]
struct Args {
    /// Pairs whose year is written; the size is scaled to 9,900
    #[arg(long, default_value_t = 99)]
    pairs: usize,
    /// Minutes of measurements of 9,900 pairs that arrive
    #[arg(long, default_value_t = 65, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Where watch-archive.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-watch-archive", run(&Args::parse()))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The row of one minute of a path: about 600 packets, noise on the delays, a lost packet in some minutes, a queue in the afternoon.
fn minute(at: i64, random: &mut fastrand::Rng, base: i64) -> Row {
    let jitter = |random: &mut fastrand::Rng, most: i64| random.i64(0..most).min(random.i64(0..most));
    let busy = if (at / 3_600_000) % 24 == 15 { 40 } else { 1 };
    let least = base + jitter(random, 15);
    let mut values = vec![Some(0); LATENCY.len()];
    // In the order of `LATENCY`: the span, packets sent and lost; the round trips; the queues and the hops of both directions.
    values[0] = Some(60_000);
    values[1] = Some(600 + random.i64(-6..7));
    values[2] = Some(i64::from(random.f64() < 0.01));
    values[8] = Some(least);
    values[9] = Some(least + 20 + jitter(random, 20 * busy));
    values[10] = Some(least + 60 + jitter(random, 60 * busy));
    values[11] = Some(least + 200 + jitter(random, 800 * busy));
    values[12] = Some(30 + jitter(random, 40 * busy));
    values[13] = Some(30 + jitter(random, 40));
    values[14] = Some(12);
    values[15] = Some(11);
    Row { at, values }
}

fn key(pair: usize) -> SeriesKey {
    SeriesKey { from: format!("s{}", pair / 99), to: format!("t{}", pair % 99), test: "latency".into() }
}

/// Writes a year of some pairs; returns its bytes in the database.
async fn year(archive: &Archive, pairs: usize, file: &Path) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(30);
    let mut series = Vec::new();
    for pair in 0..pairs {
        series.push((archive.series(&key(pair)).await?, 20_000 + random.i64(0..280_000)));
    }
    let last = now() / DAY;
    for day in last - DAYS..last {
        let mut minutes = Vec::new();
        let mut hours = Vec::new();
        for (id, base) in &series {
            let rows: Vec<Row> = (0..1_440).map(|at| minute(day * DAY + at * MINUTE, &mut random, *base)).collect();
            hours.push((*id, pack(LATENCY, &roll_up(LATENCY, &rows, 3_600_000))));
            minutes.push((*id, pack(LATENCY, &rows)));
        }
        archive.write_days(Level::Minutes, day, &minutes).await?;
        archive.write_days(Level::Hours, day, &hours).await?;
        if day % 60 == 0 {
            println!("day {} of {DAYS}", day - last + DAYS);
        }
    }
    let wal = fs::metadata(file.with_extension("db-wal")).map_or(0, |data| data.len());
    Ok(fs::metadata(file)?.len() + wal)
}

/// Milliseconds of each view of a span, over pairs at random.
async fn views(watch: &Watch, pairs: usize, span: i64) -> Result<Vec<f64>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut took = Vec::new();
    for _ in 0..VIEWS {
        let until = now() / DAY * DAY - random.i64(0..(DAYS * DAY - span).max(1));
        let began = Instant::now();
        let history = watch.history(&key(random.usize(0..pairs)), until - span, until, 1_000).await?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(!history.rows.is_empty(), "a view of {span} ms is empty");
    }
    Ok(took)
}

/// A mesh of 100 sites, each pair in both directions.
fn mesh() -> Result<WatchPlan> {
    let nodes: String = (0..NODES).map(|at| format!("[node.n{at}]\naddress = \"n{at}\"\n")).collect();
    let groups: String = (0..NODES)
        .map(|from| {
            let to: Vec<String> = (0..NODES).filter(|to| *to != from).map(|to| format!("\"n{to}\"")).collect();
            format!(
                "[[group]]\nname = \"g{from}\"\nmode = \"island\"\nfrom = [\"n{from}\"]\nto = [{}]\nthroughput = false\npath = false\n",
                to.join(", ")
            )
        })
        .collect();
    Ok(WatchPlan::of(Config::parse(&format!("{nodes}{groups}"))?)?)
}

/// The measurements of a node's 99 pairs in a minute, in the form of the wire.
fn page(node: usize, at: i64, number: u64, random: &mut fastrand::Rng) -> Result<String> {
    let measurements = (0..NODES).filter(|to| *to != node).enumerate().map(|(index, to)| {
        let least = 20_000 + (node * to) as i64 % 280_000 + random.i64(0..15);
        let delays =
            |least: i64| Some(Delays { min_us: least, median_us: least + 30, p95_us: least + 90, max_us: least + 400 });
        let report = StreamReport {
            sent: 600,
            received: 600,
            round_trip: delays(least),
            forward: delays(least / 2),
            reverse: delays(least / 2),
            hops_forward: Some(12),
            hops_reverse: Some(12),
            ports: 8,
            ..StreamReport::default()
        };
        Measurement {
            number: number + index as u64 + 1,
            schedule: schedule_id(&format!("n{node}"), &format!("n{to}"), "latency"),
            at_s: at as f64 / 1e3,
            seconds: 60.0,
            found: Found::Stream(report),
        }
    });
    let page = Measurements { measurements: measurements.collect(), next: number + 99, dropped: 0 };
    Ok(serde_json::to_string(&page)?)
}

/// Processor time of this process, seconds.
fn cpu_s() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}

/// The cost of the measurements of all pairs as they arrive.
struct ArchiveFigures {
    /// Share of a processor.
    processor: f64,
    /// Seconds to pack an hour.
    pack_s: f64,
    /// Resident bytes.
    resident: u64,
}

/// Gives the watch the measurements of some minutes, and packs them.
async fn feed(watch: &Watch, minutes: u32) -> Result<ArchiveFigures> {
    let mut random = fastrand::Rng::with_seed(99);
    let begin = (now() / 3_600_000) * 3_600_000 - i64::from(minutes) * MINUTE;
    let mut spent_s = 0.0;
    for at in 0..minutes {
        for node in 0..NODES {
            let number = u64::from(at) * 99;
            let text = page(node, begin + i64::from(at) * MINUTE, number, &mut random)?;
            let before = cpu_s();
            let read: Measurements = serde_json::from_str(&text)?;
            watch.take(&format!("n{node}"), read.measurements, read.next).await?;
            spent_s += cpu_s() - before;
        }
        let before = cpu_s();
        // A running watch judges all paths six times a minute.
        (0..6).for_each(|_| watch.judge_all_paths(begin + i64::from(at) * MINUTE + MINUTE));
        spent_s += cpu_s() - before;
    }
    let resident = resident()?;
    let began = Instant::now();
    let before = cpu_s();
    watch.archive.pack(begin + i64::from(minutes) * MINUTE).await?;
    let pack_s = cpu_s() - before;
    println!("packing took {:.1} s", began.elapsed().as_secs_f64());
    let span = f64::from(minutes) * 60.0;
    Ok(ArchiveFigures { processor: (spent_s + pack_s) / span, pack_s, resident })
}

fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("/proc/self/status has no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kilobytes * 1024)
}

fn median_and_most(all: &[f64]) -> String {
    let middle = statistics::median(all.iter().copied()).unwrap_or_default();
    let most = all.iter().copied().fold(0.0, f64::max);
    format!("{middle:.1} ({most:.1} at most)")
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let scratch = program::scratch("watch", None)?;
    let runtime = Runtime::new()?;
    let file = |name: &str| scratch.path().join(name).join("watch.db");
    for name in ["year", "feed"] {
        fs::create_dir_all(scratch.path().join(name))?;
    }
    let open = |name: &str| runtime.block_on(Archive::open(&format!("sqlite:{}", file(name).display())));
    let (figures, _changes) = {
        let (watch, changes) = runtime.block_on(Watch::new(mesh()?, open("feed")?))?;
        (runtime.block_on(feed(&watch, args.minutes))?, changes)
    };
    let archive = open("year")?;
    let bytes = runtime.block_on(year(&archive, args.pairs, &file("year")))?;
    let gigabytes = bytes as f64 / args.pairs as f64 * PAIRS as f64 / 1e9;
    let (watch, _changes) = runtime.block_on(Watch::new(WatchPlan::default(), archive))?;
    let spans = [("a day", DAY), ("a month", 30 * DAY), ("a year", DAYS * DAY - 1)];
    let mut took = Vec::new();
    for (_, span) in spans {
        took.push(runtime.block_on(views(&watch, args.pairs, span))?);
    }
    let slowest = took.iter().flatten().copied().fold(0.0, f64::max);
    let resident_mb = figures.resident as f64 / 1e6;
    let rows = [
        (
            format!("a year of 9,900 pairs, minutes and hours, GB ({} pairs written, scaled)", args.pairs),
            format!("{gigabytes:.1}"),
            "20",
            gigabytes < 20.0,
        ),
        (
            spans.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ") + " of a pair in 1,000 rows at most, ms",
            took.iter().map(|all| median_and_most(all)).collect::<Vec<_>>().join(", "),
            "100",
            slowest < 100.0,
        ),
        (
            "minutes of 9,900 pairs as they come: JSON, archive, judge, looks, packing; % of a processor".to_owned(),
            format!("{:.2}", figures.processor * 100.0),
            "2",
            figures.processor < 0.02,
        ),
        (
            format!("of that, packing {} minutes, s of processor", args.minutes),
            format!("{:.1}", figures.pack_s),
            "",
            true,
        ),
        ("resident after that, MB".to_owned(), format!("{resident_mb:.0}"), "200", resident_mb < 200.0),
    ];
    let mut text = format!(
        "# What a watch of 100 sites costs\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-watch-archive`\n- Synthetic paths: a minute of 600 packets, noise on \
         delays, a lost packet in a hundred minutes, a queue in the afternoon. Medians of {VIEWS} views. HTTP and TLS with the nodes are not in it: 100 requests a \
         minute\n\n| what | measured | target | |\n|---|---|---|---|\n",
        machine::date(),
        machine::describe("no network")?
    );
    for (what, measured, target, is_met) in &rows {
        let met = if *is_met { "met" } else { "**not met**" };
        let _ = writeln!(text, "| {what} | {measured} | {target} | {} |", if target.is_empty() { "" } else { met });
    }
    print!("{text}");
    let out = args.out.clone().unwrap_or_else(machine::repository_results);
    fs::write(out.join("watch-archive.md"), text)?;
    Ok(rows.iter().all(|(.., is_met)| *is_met))
}

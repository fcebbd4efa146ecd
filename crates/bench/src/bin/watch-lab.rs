//! `make bench-watch`: faults in a mesh of a lab; whether a watch finds them, names cause and place, and raises no alarm on paths without a
//! fault. Writes docs/results/watch-lab.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::machine;
use bench::program::{self, Binary, Results};
use bench::watch_lab::mesh::{LATENCY_RATE, Mesh, SCALE};
use bench::watch_lab::trial::{Outcome, Trials, run as run_trials};
use bench::watch_lab::{dashboard, year};
use clap::Parser;
use watch::archive::store::Archive;

/// The target: so many of twenty faults found.
const FOUND_MIN: usize = 19;
/// The target: so many of twenty faults reported with the right cause and place.
const RIGHT_MIN: usize = 18;
/// The most false alarms that the report lists.
const SHOWN_MAX: usize = 20;

/// Faults in a running mesh of six sites, at compressed time. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds with a fault whose name contains this; may be given again
    #[arg(long)]
    only: Vec<String>,
    /// Where nodes and the watch keep their state; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    binary: Binary,
    /// Where watch-lab.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-watch", run(&Args::parse()))
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    program::require_root()?;
    ensure!(
        args.out.is_some() || args.only.is_empty(),
        "a part of the table must not replace the whole one: give --out DIR"
    );
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("watch-lab", args.scratch.as_deref())?;
    let stop = program::stopped_by_signals()?;
    let mesh = Mesh::up(&longhaul, scratch.path(), &stop)?;
    let before = mesh.reading()?;
    let trials = run_trials(&mesh, |name| program::is_wanted(&args.only, name))?;
    let limited = mesh.limited(&before)?;
    let yellow = yellow(&mesh.archive(), &trials.outcomes)?;
    drop(mesh);
    // With `--only`, which selects a part of the table, the year is left out.
    let year = if args.only.is_empty() { Some(year::false_alarms()?) } else { None };
    for alarm in year.iter().flatten().take(SHOWN_MAX) {
        println!("in a clean year: {alarm:?}");
    }
    let head = format!(
        "- Date: {}\n- Machine: {}\n- Command: `make bench-watch`\n- **Everything here is emulated**: six sites of 100 Mbit/s, RTT 6 to 46 ms, four members of a core, {LATENCY_RATE} packets/s \
         of latency on each of 15 paths (in a compressed minute a sixth of the usual 600), TCP of 2 s every 75 s on nine. Times of the judge are \
         {SCALE:.4} of the usual ones: a second stands for a minute\n- Emulator: {}\n",
        machine::date(),
        machine::describe("emulated network")?,
        limited.as_deref().unwrap_or("it was not the limit"),
    );
    let (text, met) = markdown(&head, &trials, &yellow, year.map(|year| year.len()));
    let out = Results::open(args.out.as_deref())?;
    out.write("watch-lab.md", &text)?;
    print!("\n{text}");
    out.print_path("watch-lab.md");
    Ok(met)
}

/// The time after which a dashboard would have been yellow, for each fault.
fn yellow(archive: &std::path::Path, outcomes: &[Outcome]) -> Result<Vec<Option<Duration>>> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let archive = Archive::open(&format!("sqlite:{}", archive.display())).await?;
        let mut all = Vec::new();
        for outcome in outcomes {
            all.push(dashboard::yellow_after(&archive, outcome).await?);
        }
        Ok(all)
    })
}

/// Seconds of the run; each stands for a minute.
fn seconds(after: Option<Duration>) -> String {
    after.map_or_else(|| "never".into(), |after| format!("{:.0} s", after.as_secs_f64()))
}

fn markdown(head: &str, trials: &Trials, yellow: &[Option<Duration>], year: Option<usize>) -> (String, bool) {
    let mut text = format!("# Faults in a mesh, and the alarms of a watch\n\n{head}\n");
    text += "A fault is found when an alarm is raised for a path and direction that it affects. The cause, direction and segment of most alarms of these paths, an hour of \
             compressed time later, are compared with the truth: for losses three hours, which have the packets of half an hour; for faults that only TCP shows when all pairs have been \
             tested once more. All faults of a round are \
             present at the same time. The last column is perfSONAR's dashboard with its shipped thresholds on the same packets (loss of 600 packets yellow from 1 %; \
             its thresholds of throughput are 2 and 5 Gbit/s, whatever the link gives: red before and after).\n\n";
    text += "| fault | found after | named | | 1 % dashboard |\n|---|---|---|---|---|\n";
    for (outcome, yellow) in trials.outcomes.iter().zip(yellow) {
        let right = match (outcome.is_right, outcome.found_after) {
            (true, _) => "right",
            (false, Some(_)) => "**wrong**",
            (false, None) => "**not found**",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {right} | {} |",
            outcome.fault.name,
            seconds(outcome.found_after),
            outcome.named,
            seconds(*yellow)
        );
    }
    let count = trials.outcomes.len();
    let found = trials.outcomes.iter().filter(|outcome| outcome.found_after.is_some()).count();
    let right = trials.outcomes.iter().filter(|outcome| outcome.is_right).count();
    let is_met = |is: bool| if is { "met" } else { "**not met**" };
    let faults_met = count.saturating_sub(found) <= 20 - FOUND_MIN && count.saturating_sub(right) <= 20 - RIGHT_MIN;
    text += "\n| what | measured | target | |\n|---|---|---|---|\n";
    let _ = writeln!(
        text,
        "| faults found | {found} of {count} | {FOUND_MIN} of 20 | {} |\n| with cause, direction and segment | {right} of {count} | {RIGHT_MIN} of 20 | {} |",
        is_met(count.saturating_sub(found) <= 20 - FOUND_MIN),
        is_met(count.saturating_sub(right) <= 20 - RIGHT_MIN)
    );
    let _ = writeln!(
        text,
        "| alarms in the lab of paths without a fault, with {:.0} minutes without any fault at the start | {} | 0 | {} |",
        trials.clean.as_secs_f64() / 60.0,
        trials.false_alarms.len(),
        is_met(trials.false_alarms.is_empty())
    );
    if let Some(year) = year {
        let _ = writeln!(
            text,
            "| alarms of a clean year of {} paths (drawn, minute by minute) | {year} | 0 | {} |",
            year::PATHS,
            is_met(year == 0)
        );
    }
    (text, faults_met && year.is_none_or(|year| year == 0))
}

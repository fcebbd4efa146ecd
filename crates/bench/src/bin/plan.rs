//! `make bench-plan`: the simulator at the scale of the high-luminosity LHC, and its answers to questions of a collaboration.
//! Writes docs/results/plan.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use bench::machine;
use bench::plan::{hl_lhc, prediction, questions};
use bench::program::{self, Results};
use clap::Parser;
use plan::simulate;
use scenario::Scenario;

/// The targets: wall time, memory, and events per second.
const SECONDS_MAX: f64 = 600.0;
const MEMORY_MAX_MB: f64 = 4000.0;
const EVENTS_S_MIN: f64 = 1e6;

/// The simulator at the scale of the high-luminosity LHC, and questions of a collaboration.
#[derive(Debug, Parser)]
struct Args {
    /// The simulated part of the day, seconds
    #[arg(long, default_value_t = 86_400.0)]
    seconds: f64,
    /// Where plan.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-plan", run(&Args::parse()))
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let scale = scale(args.seconds)?;
    let mut text = format!(
        "# Planning: scale and questions\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-plan`\n\
         - All results are simulated; wall time, processor time and memory are measured\n\n{}",
        machine::date(),
        machine::describe("no network")?,
        scale.text
    );
    for question in questions::all() {
        let _ = write!(text, "\n## {}\n\n| | |\n|---|---|\n", question.text);
        for version in question.versions {
            let _ = writeln!(text, "| {} | {} |", version.name, version.answer);
        }
    }
    text.push_str(&prediction::markdown()?);
    print!("{text}");
    Results::open(args.out.as_deref())?.write("plan.md", text)?;
    Ok(scale.is_met)
}

struct ScaleResult {
    text: String,
    is_met: bool,
}

fn scale(seconds: f64) -> Result<ScaleResult> {
    let scenario = Scenario::read(&hl_lhc::scenario(seconds)).map_err(|problem| anyhow!("{problem}"))?;
    let began = Instant::now();
    let processor_before = processor_s()?;
    let mut shown = 0.0;
    let outcome = simulate(&scenario, None, &mut |progress| {
        if progress.now_s >= shown {
            println!("{:.0} of {:.0} s, {} events", progress.now_s, progress.duration_s, progress.events);
            shown += seconds / 24.0;
        }
        true
    });
    let wall_s = began.elapsed().as_secs_f64();
    let processor_s = processor_s()? - processor_before;
    let memory_mb = memory_mb()?;
    let files: u64 = outcome.work.iter().map(|work| work.files).sum();
    let done: u64 = outcome.work.iter().map(|work| work.done).sum();
    let failed: u64 = outcome.work.iter().map(|work| work.failed).sum();
    let bytes: f64 = outcome.work.iter().map(|work| work.bytes).sum();
    let events_s = outcome.events as f64 / wall_s;
    // A part of the day is compared with its part of the ten minutes.
    let wall_max_s = SECONDS_MAX * seconds / 86_400.0;
    let is_met = wall_s < wall_max_s && memory_mb < MEMORY_MAX_MB;
    let met = |is_met: bool| if is_met { "met" } else { "not met" };
    let text = format!(
        "## The high-luminosity LHC at full scale\n\n{} + {} + {} sites and CERN, {} kinds of work, {seconds:.0} s of the day, lognormal sizes, \
         1 % of the attempts fail and are repeated. The scheduler is the hub's, every 10 s.\n\n\
         | | | target |\n|---|---|---|\n\
         | files | {files}, of which {done} arrived | |\n| attempts that failed | {failed} | |\n\
         | mean rate | {:.2} Tbit/s | |\n\
         | events | {}, {:.2} million a second | 1 million a second: **{}** |\n\
         | wall time | {wall_s:.0} s | {wall_max_s:.0} s: **{}** |\n| processor time | {processor_s:.0} s, one thread | |\n\
         | memory, most | {memory_mb:.0} MB | 4,000 MB: **{}** |\n",
        hl_lhc::TIER_1,
        hl_lhc::TIER_2,
        hl_lhc::TIER_3,
        scenario.work.len(),
        bytes * 8.0 / outcome.simulated_s / 1e12,
        outcome.events,
        events_s / 1e6,
        met(events_s >= EVENTS_S_MIN),
        met(wall_s < wall_max_s),
        met(memory_mb < MEMORY_MAX_MB),
    );
    Ok(ScaleResult { text, is_met })
}

/// The most memory that this process has had, MB.
fn memory_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// The processor time of this process, seconds.
fn processor_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').context("no name in /proc/self/stat")?.1;
    let field = |at: usize| -> Result<f64> { Ok(after.split_whitespace().nth(at).context("short stat")?.parse()?) };
    // utime and stime, in ticks of 10 ms (proc(5), fields 14 and 15).
    Ok((field(11)? + field(12)?) / 100.0)
}

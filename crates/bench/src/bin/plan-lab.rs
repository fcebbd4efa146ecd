//! `make bench-plan-lab`: completion times of the simulator compared with those of real transfers in the lab. Writes
//! docs/results/plan-lab.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use bench::machine;
use bench::plan::cells::{self, LabCell};
use bench::plan::lab_run::{CellTimes, LabBench, simulated_times};
use bench::program::{self, Binary, Results};
use clap::Parser;

/// The error up to which a cell is right.
const ERROR_MAX: f64 = 0.10;
/// Cells that have to be right, of 24.
const RIGHT_MIN: usize = 22;

/// The simulator compared with real transfers over emulated paths. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Only cells whose name contains this; may be given again
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// How many further cells are drawn at random, in search of what breaks the model
    #[arg(long, value_name = "NUMBER", default_value_t = 24)]
    search: u64,
    /// The seed of the draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Where files are read and written; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    binary: Binary,
    /// Where plan-lab.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-plan-lab", run(&Args::parse()))
}

/// Runs the cells; whether at least 22 of 24 are right.
fn run(args: &Args) -> Result<bool> {
    program::require_root()?;
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("plan-lab", args.scratch.as_deref())?;
    let stop = program::stopped_by_signals()?;
    ensure!(
        args.out.is_some() || args.only.is_empty(),
        "--only needs --out DIR: a part of the table must not replace the whole one"
    );
    let bench = LabBench { longhaul: &longhaul, scratch: scratch.path(), stop: &stop };
    let wanted = cells::all().into_iter().filter(|cell| program::is_wanted(&args.only, &cell.name));
    let rows = compare(&bench, wanted)?;
    let draws = if args.only.is_empty() { args.search } else { 0 };
    let drawn = compare(&bench, (0..draws).map(|number| cells::drawn(args.seed, number)))?;
    let right = count_right(&rows);
    let mut text = format!(
        "# The simulator beside real transfers\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-plan-lab`\n\
         - One scenario file for both. In the lab: `longhaul cp` of files between namespaces over emulated paths. Simulated: `plan::simulate`, \
         without a scheduler, rates computed at each change\n- Times are those until the last copy of a cell is complete; in brackets those of each copy\n\n\
         **{right} of {}** within 10 %. The worst first.\n\n{HEADER}",
        machine::date(),
        machine::describe("emulated network")?,
        rows.len()
    );
    for (cell, times) in &rows {
        let _ = writeln!(text, "{}", row(cell, times));
    }
    if !drawn.is_empty() {
        text += &search_text(&drawn, args.seed);
    }
    let limited: Vec<String> = rows
        .iter()
        .chain(&drawn)
        .filter_map(|(cell, times)| Some(format!("- {}: {}", cell.name, times.limited.as_ref()?)))
        .collect();
    if !limited.is_empty() {
        let _ = write!(text, "\nThe lab itself was the limit in:\n\n{}\n", limited.join("\n"));
    }
    let out = Results::open(args.out.as_deref())?;
    out.write("plan-lab.md", text)?;
    out.print_path("plan-lab.md");
    Ok(right >= RIGHT_MIN.min(rows.len()))
}

const HEADER: &str = "| cell | real | simulated | error |\n|---|---|---|---|\n";

/// A cell with its times in the lab and in the simulator.
type ComparedCell = (LabCell, CellTimes);

/// Runs cells in the lab and in the simulator; the worst first.
fn compare(bench: &LabBench, cells: impl Iterator<Item = LabCell>) -> Result<Vec<ComparedCell>> {
    let mut rows: Vec<ComparedCell> = Vec::new();
    for cell in cells {
        let simulated_s = simulated_times(&cell)?;
        let (real_s, limited) = bench.run(&cell)?;
        let times = CellTimes { real_s, simulated_s, limited };
        println!("{}", row(&cell, &times));
        rows.push((cell, times));
    }
    rows.sort_by(|(_, a), (_, b)| b.error().abs().total_cmp(&a.error().abs()));
    Ok(rows)
}

fn count_right(rows: &[ComparedCell]) -> usize {
    rows.iter().filter(|(_, times)| times.error().abs() <= ERROR_MAX).count()
}

/// The drawn cells, and how far those with each property are off.
fn search_text(drawn: &[ComparedCell], seed: u64) -> String {
    let mut text = format!(
        "\n## Search for what breaks the model\n\n{} cells drawn at random (seed {seed}): **{}** within 10 %. The median of the errors of those with a property, \
         and without it:\n\n| property | cells | with it | without it |\n|---|---|---|---|\n",
        drawn.len(),
        count_right(drawn)
    );
    for property in ["cubic", "% loss", "in bursts", "streams", "outage"] {
        let median = |has: bool| {
            let errors = drawn.iter().filter(|(cell, _)| cell.name.contains(property) == has);
            let mut errors: Vec<f64> = errors.map(|(_, times)| times.error().abs() * 100.0).collect();
            errors.sort_by(f64::total_cmp);
            errors.get(errors.len() / 2).map_or("-".to_owned(), |median| format!("{median:.1} %"))
        };
        let cells = drawn.iter().filter(|(cell, _)| cell.name.contains(property)).count();
        let _ = writeln!(text, "| {property} | {cells} | {} | {} |", median(true), median(false));
    }
    text += "\nThe worst first.\n\n";
    text += HEADER;
    for (cell, times) in drawn {
        let _ = writeln!(text, "{}", row(cell, times));
    }
    text
}

fn row(cell: &LabCell, times: &CellTimes) -> String {
    format!(
        "| {} | {} | {} | {:+.1} % |",
        cell.name,
        times_text(&times.real_s),
        times_text(&times.simulated_s),
        times.error() * 100.0
    )
}

/// The longest time; with those of each copy if there are several.
fn times_text(times: &[f64]) -> String {
    let last = times.iter().copied().fold(0.0, f64::max);
    let each: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
    if times.len() == 1 { format!("{last:.2} s") } else { format!("{last:.2} s ({})", each.join(", ")) }
}

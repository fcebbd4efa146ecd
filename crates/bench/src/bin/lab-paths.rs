//! `make bench-lab`: its arguments, signals and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use bench::machine;
use bench::paths::report::{Circumstances, markdown};
use bench::paths::runner::{PathBench, Section};
use bench::paths::{bottleneck, ceiling, exact, grid, memory, picture};
use bench::program::{self, Results};
use clap::{Parser, ValueEnum};

/// The lab itself: what it carries, how exact it is, and what TCP makes of its paths. Needs root and iperf3.
#[derive(Debug, Parser)]
struct Args {
    /// How often the ceiling and the bottleneck are measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds that each cell of the grid is measured
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Only this part; may be given again
    #[arg(long, value_name = "PART")]
    only: Vec<LabCheck>,
    /// Cells of the grid at a time
    #[arg(long, value_name = "CELLS", default_value_t = 6)]
    side_by_side: usize,
    /// Where lab.md and lab.svg go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LabCheck {
    /// The rate that the lab carries without a bottleneck
    Ceiling,
    /// How near a bottleneck is to its rate
    Bottleneck,
    /// Whether the lab counts what the kernels count
    Exact,
    /// The memory that the delay line takes
    Memory,
    /// Rate against RTT and loss
    Grid,
}

fn main() -> ExitCode {
    program::exit_code("bench-lab", run(&Args::parse()))
}

/// Runs the measurements; whether each of them gave a number.
fn run(args: &Args) -> Result<bool> {
    program::require_root()?;
    let iperf = machine::first_line("iperf3", &["--version"]);
    ensure!(!iperf.is_empty(), "iperf3 is not installed; run scripts/setup-bench.sh");
    ensure!(!machine::first_line("setpriv", &["--version"]).is_empty(), "setpriv (util-linux) is not installed");
    let bench = PathBench {
        rounds: args.rounds,
        seconds: args.seconds,
        side_by_side: args.side_by_side.max(1),
        stop: program::stopped_by_signals()?,
    };
    let about = Circumstances {
        date: machine::date(),
        machine: machine::describe("emulated network")?,
        iperf,
        arguments: program::shown_arguments(&[]),
        rounds: args.rounds,
    };
    let out = Results::open(args.out.as_deref())?;
    let mut sections: Vec<Section> = Vec::new();
    let mut has_picture = false;
    for part in LabCheck::value_variants().iter().filter(|part| args.only.is_empty() || args.only.contains(part)) {
        sections.push(match part {
            LabCheck::Ceiling => ceiling::measure(&bench)?,
            LabCheck::Bottleneck => bottleneck::measure(&bench)?,
            LabCheck::Exact => exact::measure(&bench)?,
            LabCheck::Memory => memory::measure(&bench)?,
            LabCheck::Grid => {
                let (section, reached) = grid::measure(&bench)?;
                out.write("lab.svg", picture::svg(&reached)?)?;
                has_picture = true;
                section
            }
        });
        // Written after each part, so that an interrupted run leaves its results.
        out.write("lab.md", markdown(&about, &sections, has_picture))?;
    }
    out.print_path("lab.md");
    let failures: Vec<&String> = sections.iter().flat_map(|section| &section.failures).collect();
    failures.iter().for_each(|failure| println!("FAILED  {failure}"));
    Ok(failures.is_empty())
}

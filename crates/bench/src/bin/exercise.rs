//! `make bench-exercise`: the exercises that come with the program, in their labs: what was sustained, what processors and memory that took, old
//! tools beside Longhaul, and a search beside the full grid. Writes docs/results/exercise.md; with `--endurance`, the long run alone, and
//! docs/results/endurance.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use bench::exercise::ExerciseBench;
use bench::exercise::tables;
use bench::machine;
use bench::program::{self, Binary, Results};
use clap::Parser;

/// Runs the shipped exercises. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Exercises whose name contains this; may be given again
    #[arg(long)]
    only: Vec<String>,
    /// Run `endurance` alone, which takes an hour
    #[arg(long, conflicts_with = "only")]
    endurance: bool,
    /// Where nodes keep their files; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    binary: Binary,
    /// Where the tables go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The exercise that takes an hour.
const ENDURANCE: &str = "endurance";

fn main() -> ExitCode {
    program::exit_code("bench-exercise", run(&Args::parse()))
}

/// Runs the exercises; whether their targets were met.
fn run(args: &Args) -> Result<bool> {
    program::require_root()?;
    ensure!(
        args.out.is_some() || args.only.is_empty(),
        "a part of the table must not replace the whole one: give --out DIR"
    );
    let longhaul = args.binary.find()?;
    let scratch = program::scratch("exercise", args.scratch.as_deref())?;
    let bench = ExerciseBench::new(longhaul, scratch.path().to_owned());
    let out = Results::open(args.out.as_deref())?;
    let head = |command: &str| -> Result<String> {
        Ok(format!(
            "- Date: {}\n- Machine: {}\n- Command: `{command}`\n- **Everything here is emulated**: sites, paths and nodes are on one machine, and share its processors and disks\n",
            machine::date(),
            machine::describe("emulated network")?
        ))
    };
    if args.endurance {
        let run = bench.run(ENDURANCE)?;
        let (text, met) = tables::endurance(&head("make bench-exercise BENCH=--endurance")?, &run);
        out.write("endurance.md", &text)?;
        out.print_path("endurance.md");
        return Ok(met);
    }
    let wanted = |name: &str| name != ENDURANCE && program::is_wanted(&args.only, name);
    let mut runs = Vec::new();
    for shipped in exercise::SHIPPED.iter().filter(|shipped| wanted(shipped.name)) {
        println!("{}", shipped.name);
        runs.push(bench.run(shipped.name)?);
    }
    let search = if program::is_wanted(&args.only, "grid") { Some(bench.search_and_grid()?) } else { None };
    let (text, met) = tables::all(&head("make bench-exercise")?, &runs, search.as_ref());
    out.write("exercise.md", &text)?;
    print!("\n{text}");
    out.print_path("exercise.md");
    Ok(met)
}

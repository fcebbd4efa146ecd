//! The second half of `make bench-micro`: the results that criterion has left, as a page.
#![allow(clippy::print_stdout, reason = "a program that prints its results")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use bench::program::{self, Results};
use bench::{machine, micro};
use clap::Parser;

/// The results of the micro-benchmarks, as a page.
#[derive(Debug, Parser)]
struct Args {
    /// The directory of criterion's results; default: beside the build
    #[arg(long, value_name = "DIR")]
    criterion: Option<PathBuf>,
    /// Where micro.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-micro", run(&Args::parse()))
}

fn run(args: &Args) -> Result<bool> {
    let criterion = match &args.criterion {
        Some(dir) => dir.clone(),
        None => program::build_directory()?.with_file_name("criterion"),
    };
    let machine = machine::describe("one thread")?;
    let page = micro::markdown(&machine::date(), &machine, &micro::read(&criterion)?)?;
    let out = Results::open(args.out.as_deref())?;
    out.write("micro.md", &page)?;
    print!("{page}");
    out.print_path("micro.md");
    Ok(true)
}

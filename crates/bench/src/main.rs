//! `make bench`: its arguments, namespace, scratch directories and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::account::Accounts;
use bench::contestant::{self, Programs, reference};
use bench::pki::Pki;
use bench::program::{self, Binary, Results, is_wanted};
use bench::report::{Circumstances, markdown, svg};
use bench::round::RoundRunner;
use bench::{machine, namespace, scenario};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The congestion control of the page without another name.
const CUBIC: &str = "cubic";
/// By default a run is ended after so many seconds.
const PATIENCE_S: u64 = 120;

/// Longhaul compared with its network peers, measured in one interleaved run.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds: how often each contestant runs each scenario
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Fraction of the data that is moved: 0.1 for a quick try
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Only scenarios whose name contains this; may be given again
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Scratch on a disk; default: beside the build
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Scratch in memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    tmpfs: PathBuf,
    /// Congestion control of all connections
    #[arg(long, value_name = "NAME", default_value = CUBIC)]
    congestion: String,
    /// FDT takes part with this jar
    #[arg(long, value_name = "FILE")]
    fdt_jar: Option<PathBuf>,
    /// Seconds after which a run is ended; its contestant sits out the rest of the scenario
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE_S)]
    patience: u64,
    #[command(flatten)]
    binary: Binary,
    /// Where speed.md and speed.svg go, with another congestion control than cubic speed-NAME; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run in the present namespace; set when the program starts itself again
    #[arg(long, hide = true)]
    inside: bool,
    /// Create, write and rename files: the reference of small files; set when the program starts itself again
    #[arg(long, hide = true, num_args = 3, value_names = ["DIR", "FILES", "BYTES"])]
    bare_loop: Option<Vec<String>>,
}

fn main() -> ExitCode {
    program::exit_code("bench", run(&Args::parse()))
}

/// Runs the measurements; whether no contestant failed.
fn run(args: &Args) -> Result<bool> {
    if let Some([directory, files, bytes]) = args.bare_loop.as_deref() {
        reference::bare_loop(Path::new(directory), files.parse()?, bytes.parse()?)?;
        return Ok(true);
    }
    if !args.inside {
        let error = namespace::enter();
        println!("WITHOUT A NETWORK NAMESPACE: {error:#}; the host's congestion control stays");
    }
    let congestion = if args.inside {
        namespace::set_congestion(&args.congestion)?;
        format!("{} for all, set in a network namespace of the run's own", args.congestion)
    } else {
        format!("{}, the host's (no network namespace could be made)", namespace::congestion()?.0)
    };
    let disk = program::scratch("bench", args.scratch.as_deref())?;
    let tmpfs = program::scratch("bench", Some(&args.tmpfs))?;
    for directory in [disk.path(), tmpfs.path()] {
        bench::data::open_to_all(directory)?;
    }
    let certificates = tmpfs.path().join("pki");
    std::fs::create_dir(&certificates)?;
    let programs = Programs {
        longhaul: args.binary.find()?,
        bench: std::env::current_exe()?,
        fdt_jar: args.fdt_jar.clone(),
        pki: Pki::make(&certificates)?,
    };
    let runner = RoundRunner {
        disk: disk.path().to_owned(),
        tmpfs: tmpfs.path().to_owned(),
        rounds: args.rounds,
        time_limit: Duration::from_secs(args.patience),
        accounts: Accounts::open(),
        stop: Arc::default(),
    };
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&runner.stop))?;
    }
    let about = Circumstances {
        date: machine::date(),
        machine: machine::describe("loopback")?,
        file_system: machine::file_system(disk.path()),
        rounds: args.rounds,
        scale: args.scale,
        arguments: program::make_words(&shown_words(args)),
        congestion,
        method: runner.accounts.method().into(),
        names: names(&runner, &programs),
    };
    measure(args, &runner, &programs, &about)
}

/// The arguments that a reader needs to repeat the run.
fn shown_words(args: &Args) -> Vec<String> {
    let mut words = Vec::new();
    if args.congestion != CUBIC {
        words.extend(["--congestion".to_owned(), args.congestion.clone()]);
    }
    if args.patience != PATIENCE_S {
        words.extend(["--patience".to_owned(), args.patience.to_string()]);
    }
    words.extend(args.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
    words
}

/// The paths of this machine and the text that reports show instead; longer paths first.
fn names(runner: &RoundRunner, programs: &Programs) -> Vec<(String, &'static str)> {
    let mut names = vec![
        (runner.disk.display().to_string(), "/DISK"),
        (runner.tmpfs.display().to_string(), "/TMPFS"),
        (programs.longhaul.display().to_string(), "longhaul"),
        (programs.bench.display().to_string(), "bench"),
    ];
    names.extend(programs.fdt_jar.as_ref().map(|jar| (jar.display().to_string(), "fdt.jar")));
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    names
}

fn measure(args: &Args, runner: &RoundRunner, programs: &Programs, about: &Circumstances) -> Result<bool> {
    let scenarios = scenario::all(args.scale).into_iter().filter(|s| is_wanted(&args.only, s.name));
    let scenarios: Vec<_> = scenarios.collect();
    ensure!(!scenarios.is_empty(), "no scenario has a name that --only selects");
    let contestants = contestant::all(programs);
    let out = Results::open(args.out.as_deref())?;
    let page = match args.congestion.as_str() {
        CUBIC => "speed".to_owned(),
        other => format!("speed-{other}"),
    };
    let picture = format!("{page}.svg");
    let mut outcomes = Vec::new();
    for scenario in scenarios {
        let rows = runner.run(&scenario, &contestants)?;
        outcomes.push((scenario, rows));
        // Written after each scenario, so that an interrupted run leaves its results.
        out.write(&format!("{page}.md"), markdown(about, &picture, &outcomes)?)?;
        out.write(&picture, svg(&outcomes)?)?;
    }
    out.print_path(&format!("{page}.md"));
    let failed: Vec<_> = outcomes.iter().flat_map(|(_, rows)| rows).filter(|row| row.failed).collect();
    for row in &failed {
        println!("FAILED  {}: {}", row.name, row.note.as_deref().unwrap_or_default());
    }
    Ok(failed.is_empty())
}

//! `make bench-http-service` and `make bench-root`: their arguments and results.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::account::Accounts;
use bench::contestant::find_program;
use bench::file_service::cells::{Cell, small_name};
use bench::file_service::long_path::LongPathBench;
use bench::file_service::report::{Circumstances, IdleRow, Outcome, RequestRow, markdown};
use bench::file_service::requests::{RequestKind, RequestedFiles, rate};
use bench::file_service::run::{Bench, ensure_on_disk, make_files};
use bench::file_service::servers::ServerStarter;
use bench::file_service::{MeasuredProtocol, ServerKind, idle, picture};
use bench::machine;
use bench::pki::Pki;
use bench::program::{self, Binary, Results, is_wanted};
use clap::Parser;

/// A service of a node compared with that of xrootd, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// The protocol of the service
    #[arg(long)]
    protocol: MeasuredProtocol,
    /// Rounds that count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only cells whose name contains one of these: curl-get-clear, xrdcp-put-tls, …, pull-clear, small-put-clear, idle, asks,
    /// long-path
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    only: Vec<String>,
    /// MiB of the large file
    #[arg(long, default_value_t = 4096, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    size: u64,
    /// Number of small files
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Number of idle connections
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Seconds of requests in a round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Where files go, on a disk; default: a fresh directory below the current one
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// A second xrootd in Longhaul's place: how far from each other two equal servers are
    #[arg(long)]
    stand_in: bool,
    #[command(flatten)]
    binary: Binary,
    /// Where the page and its picture go; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    program::exit_code(args.protocol.make_target(), run(&args))
}

/// Runs the measurements; whether all targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = if args.stand_in { args.binary.path()? } else { args.binary.find()? };
    ensure!(!args.stand_in || args.out.is_some(), "--stand-in needs --out: its numbers are not Longhaul's");
    let clients: &[&str] = match args.protocol {
        MeasuredProtocol::Http => &["curl", "davix-get", "davix-put"],
        MeasuredProtocol::Root => &["xrdcp", "xargs"],
    };
    for program in ["xrootd", "taskset", "openssl"].iter().chain(clients) {
        let found = find_program((*program).as_ref());
        ensure!(found.is_some(), "{program} is not installed; scripts/setup.sh installs it");
    }
    let below = args.scratch.clone().map_or_else(std::env::current_dir, Ok)?;
    let scratch = program::scratch(args.protocol.document(), Some(&below))?;
    ensure_on_disk(scratch.path())?;
    idle::raise_descriptors(args.connections as u64 + 1000)?;
    let pki_dir = scratch.path().join("pki");
    fs::create_dir(&pki_dir)?;
    bench::data::open_to_all(scratch.path())?;
    let starter = ServerStarter {
        longhaul,
        stand_in: args.stand_in,
        scratch: scratch.path().to_owned(),
        pki: Pki::make(&pki_dir)?,
    };
    let large = args.size << 20;
    println!("making the files");
    make_files(&starter, large, args.files)?;
    let accounts = Accounts::open();
    let about = about(args, &accounts, large)?;
    let cells: Vec<Cell> =
        Cell::all(args.protocol).into_iter().filter(|cell| is_wanted(&args.only, &cell.name())).collect();
    let bench = Bench { starter: &starter, accounts: &accounts, rounds: args.rounds, large, small: args.files };
    let mut outcome = Outcome::default();
    if is_wanted(&args.only, "idle") {
        outcome.idle = idle_rows(args, &starter, &accounts);
    }
    if is_wanted(&args.only, "asks") {
        outcome.requests = request_rows(args, &starter, &accounts);
    }
    if !cells.is_empty() {
        outcome.rows = bench.run(&cells)?;
    }
    if args.protocol == MeasuredProtocol::Root && is_wanted(&args.only, "long-path") {
        program::require_root()?;
        let copies = tempfile::Builder::new().prefix("longhaul-bench-").tempdir_in("/dev/shm")?;
        let stop = program::stopped_by_signals()?;
        let bench = LongPathBench { starter: &starter, copies: copies.path(), rounds: args.rounds, stop: &stop };
        outcome.long_path = bench.run()?;
    }
    let (text, met) = markdown(&about, &outcome)?;
    let out = Results::open(args.out.as_deref())?;
    let document = args.protocol.document();
    out.write(&format!("{document}.md"), &text)?;
    out.write(&format!("{document}.svg"), picture::svg(&outcome.rows, args.stand_in)?)?;
    print!("{text}");
    out.print_path(&format!("{document}.md"));
    Ok(met)
}

fn about(args: &Args, accounts: &Accounts, large: u64) -> Result<Circumstances> {
    let target = args.protocol.make_target();
    let command = format!("make {target} {}", program::shown_arguments(&[("--protocol", None)])).trim().to_owned();
    let clients = match args.protocol {
        MeasuredProtocol::Http => {
            let davix = machine::first_line("davix-get", &["--version"]);
            format!("; {}; davix {davix}", machine::first_line("curl", &["--version"]))
        }
        // xrdcp is of the same version.
        MeasuredProtocol::Root => String::new(),
    };
    let below = args.scratch.clone().unwrap_or_else(|| ".".into());
    Ok(Circumstances {
        date: machine::date(),
        machine: machine::describe("loopback")?,
        file_system: machine::file_system(&below),
        rounds: args.rounds,
        large,
        method: accounts.method(),
        versions: format!("Peers: xrootd {}{clients}", xrootd_version()),
        command,
        stand_in: args.stand_in,
        protocol: args.protocol,
    })
}

/// The version of xrootd, which xrootd prints to stderr.
fn xrootd_version() -> String {
    let output = std::process::Command::new("xrootd").arg("-v").output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
}

fn idle_rows(args: &Args, starter: &ServerStarter, accounts: &Accounts) -> Vec<IdleRow> {
    let mut rows = Vec::new();
    for tls in [false, true] {
        for kind in ServerKind::ALL {
            println!("{} idle connections, {}", args.connections, kind.name());
            let name = format!("idle-{}-{}", kind.name(), if tls { "tls" } else { "clear" });
            // A fresh server: memory left by earlier measurements must not count.
            let idle = starter.start(kind, &name, accounts, None).and_then(|server| {
                let clients = idle::IdleClients {
                    protocol: args.protocol,
                    ca: tls.then_some(starter.pki.ca.as_path()),
                    count: args.connections,
                    path: &format!("/data/{}", small_name(0)),
                };
                idle::measure(&server, &clients)
            });
            println!("  {idle:?}");
            rows.push((kind, tls, idle.map_err(|error| format!("{error:#}"))));
        }
    }
    rows
}

fn request_rows(args: &Args, starter: &ServerStarter, accounts: &Accounts) -> Vec<RequestRow> {
    let mut rows: Vec<RequestRow> = Vec::new();
    for request in RequestKind::all(args.protocol) {
        rows.extend(ServerKind::ALL.map(|kind| (kind, *request, Ok(Vec::new()))));
    }
    let files =
        RequestedFiles { small: format!("/data/{}", small_name(0)), large: ("/data/large".into(), args.size << 20) };
    let servers = ServerKind::ALL.map(|kind| starter.start(kind, &format!("asks-{}", kind.name()), accounts, Some(0)));
    let core = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
    for round in 0..=args.rounds {
        for (kind, request, rates) in &mut rows {
            let Ok(so_far) = rates else { continue };
            let time = Duration::from_secs(args.seconds);
            let now = match &servers[*kind as usize] {
                Ok(server) => rate(server.port, &files, *request, time, core).map_err(|error| format!("{error:#}")),
                Err(error) => Err(format!("{error:#}")),
            };
            println!("{}, {}: {now:?}", request.name(), kind.name());
            match now {
                Ok(rate) if round > 0 => so_far.push(rate),
                Ok(_) => {}
                Err(why) => *rates = Err(why),
            }
        }
    }
    rows
}

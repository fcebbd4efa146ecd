//! `make bench-hub`: how many jobs a hub takes a second, what its lists cost while many wait, how long an allocation takes, and how many small
//! files go through it from node to node. Writes docs/results/hub.md.
#![allow(clippy::print_stdout, reason = "a program that talks to the one who called it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::machine;
use bench::node::{Node, grant};
use bench::program::{self, Binary, Results};
use bench::statistics::median;
use clap::Parser;
use hubapi::Api;
use model::id::Uuid;
use model::v1::hub::{FileOrder, JobOrder};
use sched::allocation::Demand;
use sched::shares::{Aggregate, Class, Group, share};
use web::{Client, Dialer, Headers, HttpUrl, Method};

/// Those who submit at once.
const CLIENTS: usize = 4;
/// Aggregates and resources of an allocation.
const AGGREGATES: usize = 10_000;
const RESOURCES: usize = 2_000;

/// A hub beside what is asked of it, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// Seconds that each kind of job is submitted for
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often each is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Files that wait while lists are asked for
    #[arg(long, default_value_t = 1_000_000)]
    queued: usize,
    /// Small files that go from node to node
    #[arg(long, default_value_t = 20_000)]
    files: usize,
    #[command(flatten)]
    binary: Binary,
    /// Where hub.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::end("bench-hub", run(&Args::parse()))
}

/// A hub that runs, and a key to it.
struct Hub {
    process: Node,
    origin: String,
    key: String,
}

impl Hub {
    fn start(longhaul: &Path, dir: &Path) -> Result<Hub> {
        let state = dir.join("hub");
        let mut grant = Command::new(longhaul);
        grant.args(["hub", "grant", "--role", "admin", "--name", "bench", "--state"]).arg(&state);
        let output = grant.output()?;
        let said = String::from_utf8(output.stdout)?;
        let key = said.lines().last().context("no key was made")?.to_owned();
        let mut command = Command::new(longhaul);
        command.args(["hub", "serve", "--plain", "--quiet", "--listen", "127.0.0.1:0", "--state"]).arg(&state);
        command.stderr(fs::File::create(dir.join("hub.log"))?);
        let process = Node::start(&mut command)?;
        Ok(Hub { origin: format!("http://127.0.0.1:{}/", process.port), process, key })
    }

    fn api(&self) -> Result<Api> {
        let bearer = format!("Bearer {}", self.key);
        Ok(Api::new(dialer()?, HttpUrl::parse(&self.origin)?, Some(&bearer)))
    }

    /// Resident memory, bytes.
    fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? << 10)
    }
}

fn dialer() -> Result<Dialer> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = Arc::new(tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    let within = Duration::from_secs(60);
    Ok(Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: within, silence: within })
}

/// A job of so many files between two hosts that nobody reaches.
fn order(files: usize) -> JobOrder {
    let id = Uuid::now_v7();
    let file = |at: usize| FileOrder {
        sources: vec![format!("lh://source.example/data/run7/{id}/{at:06}.h5")],
        target: format!("lh://target.example/data/in/run7/{id}/{at:06}.h5"),
        bytes: Some(1_000_000_000),
        ..FileOrder::default()
    };
    JobOrder { id: Some(id), files: (0..files).map(file).collect(), ..JobOrder::default() }
}

/// Submits jobs of so many files from some clients at once, each over one connection; how many jobs a second were accepted.
fn submit(hub: &Hub, files: usize, seconds: u64) -> Result<f64> {
    let (accepted, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let client = || -> Result<()> {
        let mut client = Client::new(&dialer()?, &HttpUrl::parse(&hub.origin)?)?;
        let headers = Headers::new().with("Authorization", format!("Bearer {}", hub.key));
        let headers = headers.with("Content-Type", "application/json");
        while !stop.load(Ordering::Relaxed) {
            let body = serde_json::to_vec(&order(files))?;
            client.send(
                &Method::Post,
                "/api/v1/jobs",
                &headers.clone().with("Content-Length", body.len().to_string()),
            )?;
            client.write(&body)?;
            let (response, mut body) = client.answer(&Method::Post)?;
            let said = client.read_all(&mut body, 1 << 20)?;
            ensure!(response.status == 201, "{}: {}", response.status, String::from_utf8_lossy(&said));
            accepted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let all: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a thread that submits ended"))?)
    })?;
    Ok(accepted.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

/// Milliseconds of a question, sorted, over one connection.
fn ask(hub: &Hub, target: &str, times: u32) -> Result<Vec<f64>> {
    let mut client = Client::new(&dialer()?, &HttpUrl::parse(&hub.origin)?)?;
    let headers = Headers::new().with("Authorization", format!("Bearer {}", hub.key));
    let mut all = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        client.send(&Method::Get, target, &headers)?;
        let (response, mut body) = client.answer(&Method::Get)?;
        client.read_all(&mut body, 64 << 20)?;
        ensure!(response.status == 200, "the hub answers {}", response.status);
        all.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Milliseconds of one allocation over many aggregates: ten communities with three activities each, five resources on a path.
fn allocation() -> f64 {
    let group = |number: usize, weight: f64| Group { number: number as u32, weight };
    let aggregates: Vec<Aggregate> = (0..AGGREGATES)
        .map(|at| {
            let step = |by: usize| ((at * 7919 + by * 104_729) % RESOURCES) as u32;
            let mut path: Vec<u32> = (0..5).map(step).collect();
            path.sort_unstable();
            path.dedup();
            let (community, activity) = (at % 10, at % 30);
            let groups = vec![group(community, (community + 1) as f64), group(100 + activity, 1.0)];
            Aggregate {
                class: Class::Standard,
                groups,
                demand: Demand { weight: 1.0, floor: 0.0, cap: f64::INFINITY, path },
            }
        })
        .collect();
    let capacities: Vec<f64> = (0..RESOURCES).map(|at| 1e9 + (at % 17) as f64 * 1e8).collect();
    let began = Instant::now();
    let rates = share(&capacities, &aggregates);
    let took = began.elapsed().as_secs_f64() * 1000.0;
    assert!(rates.iter().all(|rate| rate.rate > 0.0), "everybody has something");
    took
}

/// Small files from node to node by one job; files per second from the submission to the end.
fn through(hub: &Hub, longhaul: &Path, dir: &Path, files: usize) -> Result<f64> {
    let api = hub.api()?;
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        let (state, data) = (dir.join(name).join("state"), dir.join(name).join("data"));
        fs::create_dir_all(&data)?;
        let key = grant(longhaul, &state, &["--export", "data", "--write"])?;
        let mut command = Command::new(longhaul);
        command.args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--state"]).arg(&state);
        command.arg("--export").arg(format!("data={}:rw", data.display()));
        let node = Node::start(command.stderr(fs::File::create(dir.join(name).join("log"))?))?;
        let url = format!("lh://127.0.0.1:{}", node.port);
        let endpoint = model::v1::hub::Endpoint { urls: vec![url.clone()], key: Some(key), ..Default::default() };
        api.put(name, &endpoint)?;
        nodes.push((node, url, data));
    }
    for at in 0..files {
        fs::write(nodes[0].2.join(format!("f{at}")), [7; 1000])?;
    }
    let file = |at: usize| FileOrder {
        sources: vec![format!("{}/data/f{at}", nodes[0].1)],
        target: format!("{}/data/in/{:02x}/f{at}", nodes[1].1, at % 256),
        bytes: Some(1000),
        ..FileOrder::default()
    };
    let order = JobOrder { id: Some(Uuid::now_v7()), files: (0..files).map(file).collect(), ..JobOrder::default() };
    let began = Instant::now();
    let (job, _) = api.submit(&order)?;
    loop {
        let job = api.job(&job.id.to_string())?;
        if job.ended.is_some() {
            ensure!(job.done == files as u64, "{} of {files} files arrived", job.done);
            return Ok(files as f64 / began.elapsed().as_secs_f64());
        }
        ensure!(began.elapsed() < Duration::from_secs(600), "the job does not end: {job:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The median of some measurements, and the least and the most.
fn spread(all: &[f64]) -> String {
    let of = |pick: fn(f64, f64) -> f64, start| all.iter().copied().fold(start, pick);
    let middle = median(all.iter().copied()).unwrap_or_default();
    format!("{middle:.0} ({:.0} to {:.0})", of(f64::min, f64::INFINITY), of(f64::max, 0.0))
}

/// Whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let scratch = tempfile::Builder::new().prefix("longhaul-hub-").tempdir()?;
    let hub = Hub::start(&longhaul, scratch.path())?;
    let through = (0..args.rounds)
        .map(|round| {
            let dir = scratch.path().join(format!("round{round}"));
            through(&hub, &longhaul, &dir, args.files)
        })
        .collect::<Result<Vec<f64>>>()?;
    // What nobody carries waits: only the queue is measured from here on.
    hub.api()?.stop("all", &model::v1::hub::Stopped { reason: "measured".into(), ..Default::default() })?;
    let (mut ones, mut thousands) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        ones.push(submit(&hub, 1, args.seconds)?);
        thousands.push(submit(&hub, 1000, args.seconds)? * 1000.0);
    }
    let mut queued: u64 = hub.api()?.queues()?.queues.iter().map(|queue| queue.queued).sum();
    while queued < args.queued as u64 {
        submit(&hub, 1000, args.seconds)?;
        queued = hub.api()?.queues()?.queues.iter().map(|queue| queue.queued).sum();
    }
    let id = hub.api()?.jobs(true, None, 1)?.jobs.first().context("no job waits")?.id;
    let (status, list) = (ask(&hub, &format!("/api/v1/jobs/{id}"), 1000)?, ask(&hub, "/api/v1/jobs?limit=100", 1000)?);
    let late = |all: &[f64]| all.get(all.len() * 99 / 100).copied().unwrap_or_default();
    let allocations: Vec<f64> = (0..args.rounds).map(|_| allocation()).collect();
    let memory = hub.memory()? as f64 / 1e6;
    let middle = |all: &[f64]| median(all.iter().copied()).unwrap_or_default();
    let met = |is_met: bool| if is_met { "met" } else { "**not met**" };
    let targets = [
        middle(&ones) >= 2000.0,
        middle(&thousands) >= 50_000.0,
        late(&status) <= 50.0 && late(&list) <= 50.0,
        memory < 500.0,
        middle(&allocations) <= 10.0,
        middle(&through) >= 1000.0,
    ];
    let text = format!(
        "# The hub, measured\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-hub`\n- Database: SQLite on {}, WAL, synchronous \
         FULL; {CLIENTS} clients, each over one connection, in clear; medians of {} rounds (least to most)\n\n\
         | what | measured | target | |\n|---|---|---|---|\n\
         | jobs of one file, accepted per second | {} | 2,000 | {} |\n\
         | files in jobs of 1,000, accepted per second | {} | 50,000 | {} |\n\
         | 99 of 100 answers to the status of a job, to a page of 100 jobs, with {queued} files queued, ms | {:.1}, {:.1} | 50 | {} |\n\
         | memory of the hub then, MB | {memory:.0} | 500 | {} |\n\
         | allocation over {AGGREGATES} aggregates and {RESOURCES} resources, ms | {:.1} | 10 | {} |\n\
         | files of 1 kB from node to node by one job of {}, per second | {} | 1,000 | {} |\n",
        machine::date(),
        machine::describe("loopback")?,
        machine::file_system(scratch.path()),
        args.rounds,
        spread(&ones),
        met(targets[0]),
        spread(&thousands),
        met(targets[1]),
        late(&status),
        late(&list),
        met(targets[2]),
        met(targets[3]),
        middle(&allocations),
        met(targets[4]),
        args.files,
        spread(&through),
        met(targets[5]),
    );
    print!("{text}");
    let out = Results::open(args.out.as_deref())?;
    out.write("hub.md", text)?;
    Ok(targets.iter().all(|target| *target))
}

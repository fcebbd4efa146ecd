//! `make bench-portal`: processor time and memory of a hub while a hundred people have pages of the portal open and a thousand
//! transfers run. Writes docs/results/portal.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bench::hub::{Hub, percentile_99};
use bench::program::{self, Binary, Results};
use bench::{machine, scripted_node};
use clap::Parser;
use model::id::Uuid;
use model::v1::hub::{Endpoint, FileOrder, JobOrder};
use serde_json::Value;

/// The number of endpoints.
const ENDPOINTS: usize = 50;
/// The transfers out of each endpoint, and into it: as many as a hub permits by default.
const TRANSFERS_EACH: usize = 20;
/// The most transfers of a queue at once. Each pair of endpoints has several activities, and so several queues.
const QUEUE_TRANSFERS: usize = 4;
/// Bytes of a file: so many that the hub does not combine files into one transfer.
const FILE_BYTES: u64 = 100 << 30;
/// The longest that all transfers may take to begin.
const BEGIN_MAX: Duration = Duration::from_secs(180);

/// What the portal costs a hub, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// People with a page open
    #[arg(long, default_value_t = 100)]
    people: usize,
    /// Seconds that are measured
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[command(flatten)]
    binary: Binary,
    /// Where portal.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-portal", run(&Args::parse()))
}

/// Adds the endpoints and submits the transfers; returns the ids of the jobs.
fn submit(hub: &Hub) -> Result<Vec<Uuid>> {
    let api = hub.api()?;
    let node = scripted_node::start()?;
    for at in 0..ENDPOINTS {
        let urls = vec![format!("lh://node-{at}.example/")];
        let endpoint = Endpoint { urls, api: Some(format!("http://{node}")), ..Endpoint::default() };
        api.put(&format!("node-{at}"), &endpoint)?;
    }
    let order = |at: usize, activity: usize| {
        let file = |file: usize| FileOrder {
            sources: vec![format!("lh://node-{at}.example/data/{activity}/{file}")],
            target: format!("lh://node-{}.example/data/{at}/{activity}/{file}", (at + 1) % ENDPOINTS),
            bytes: Some(FILE_BYTES),
            ..FileOrder::default()
        };
        JobOrder {
            id: Some(Uuid::now_v7()),
            files: (0..2 * QUEUE_TRANSFERS).map(file).collect(),
            activity: Some(format!("activity-{activity}")),
            ..JobOrder::default()
        }
    };
    let activities = TRANSFERS_EACH / QUEUE_TRANSFERS;
    let orders = (0..ENDPOINTS * activities).map(|job| order(job / activities, job % activities));
    orders.map(|order| Ok(api.submit(&order)?.0.id)).collect()
}

/// Waits until as many transfers run as the queues permit.
fn until_all_run(hub: &Hub) -> Result<()> {
    let api = hub.api()?;
    let began = Instant::now();
    loop {
        let running: u64 = api.queues()?.queues.iter().map(|queue| queue.running).sum();
        println!("{running} transfers run after {:.0} s", began.elapsed().as_secs_f64());
        if running >= (ENDPOINTS * TRANSFERS_EACH) as u64 {
            return Ok(());
        }
        ensure!(began.elapsed() < BEGIN_MAX, "only {running} transfers run");
        sleep(Duration::from_secs(2));
    }
}

/// The requests of a person's page, and their interval: half of the people look at a transfer, a quarter at the list, a quarter at the
/// queue.
fn page_requests(person: usize, jobs: &[Uuid]) -> Vec<(String, Duration)> {
    let seconds = Duration::from_secs;
    let job = format!("/api/v1/jobs/{}", jobs[person % jobs.len()]);
    match person % 4 {
        0 | 1 => vec![
            (job.clone(), seconds(1)),
            (format!("{job}/transfers"), seconds(1)),
            (format!("{job}/files?limit=200"), seconds(2)),
            (format!("{job}/why"), seconds(5)),
        ],
        2 => vec![("/api/v1/jobs?limit=100".to_owned(), seconds(2))],
        _ => vec![("/api/v1/queues".to_owned(), seconds(2)), ("/api/v1/shares".to_owned(), seconds(2))],
    }
}

/// Sends the requests of a page until the time is over; returns the milliseconds until each answer.
fn poll_page(hub: &Hub, person: usize, jobs: &[Uuid], until: Instant) -> Result<Vec<f64>> {
    let client = hub.client()?;
    let mut due: Vec<(String, Duration, Instant)> =
        page_requests(person, jobs).into_iter().map(|(path, every)| (path, every, Instant::now())).collect();
    let mut all = Vec::new();
    while Instant::now() < until {
        for (path, every, at) in &mut due {
            if Instant::now() >= *at {
                let began = Instant::now();
                let _: Value = client.get(path)?;
                all.push(began.elapsed().as_secs_f64() * 1000.0);
                *at = began + *every;
            }
        }
        sleep(Duration::from_millis(50));
    }
    Ok(all)
}

/// The figures of one span.
struct PortalFigures {
    cores: f64,
    answers_s: f64,
    p99_ms: f64,
    megabytes: f64,
}

fn measure(hub: &Hub, people: usize, jobs: &[Uuid], span: Duration) -> Result<PortalFigures> {
    let before_s = hub.processor_s()?;
    let began = Instant::now();
    let until = began + span;
    let mut all = std::thread::scope(|scope| -> Result<Vec<f64>> {
        let pollers: Vec<_> =
            (0..people).map(|person| scope.spawn(move || poll_page(hub, person, jobs, until))).collect();
        sleep(until.saturating_duration_since(Instant::now()));
        let mut all = Vec::new();
        for poller in pollers {
            all.extend(poller.join().map_err(|_| anyhow!("a thread that polls a page panicked"))??);
        }
        Ok(all)
    })?;
    all.sort_by(f64::total_cmp);
    let seconds = began.elapsed().as_secs_f64();
    let cores = (hub.processor_s()? - before_s) / seconds;
    let megabytes = hub.memory()? as f64 / 1e6;
    Ok(PortalFigures { cores, answers_s: all.len() as f64 / seconds, p99_ms: percentile_99(&all), megabytes })
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let scratch = tempfile::Builder::new().prefix("longhaul-portal-").tempdir()?;
    let span = Duration::from_secs(args.seconds);
    let (idle, loaded) = measure_idle_and_loaded(&longhaul, scratch.path(), args.people, span)?;
    let text = format!(
        "# What the portal costs a hub\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-portal`\n- {} transfers run at {ENDPOINTS} endpoints, which \
         are one scripted node that moves nothing: the hub asks it of each transfer every half second, as it asks real ones. {} people have \
         pages open: half look at a transfer, a quarter at the list, a quarter at the queue; each asks as often as the page does, over a \
         connection that it keeps, in clear text. {} s each; SQLite\n\n\
         | | hub, cores | hub, MB | answers/s | 99 of 100 answered within, ms |\n|---|---|---|---|---|\n\
         | no page open | {:.2} | {:.0} | - | - |\n| {} pages open | {:.2} | {:.0} | {:.0} | {:.1} |\n\n\
         Target: less than 1 core (**{}**) and 300 MB (**{}**).\n",
        machine::date(),
        machine::describe("loopback")?,
        ENDPOINTS * TRANSFERS_EACH,
        args.people,
        args.seconds,
        idle.cores,
        idle.megabytes,
        args.people,
        loaded.cores,
        loaded.megabytes,
        loaded.answers_s,
        loaded.p99_ms,
        if loaded.cores < 1.0 { "met" } else { "not met" },
        if loaded.megabytes < 300.0 { "met" } else { "not met" },
    );
    print!("{text}");
    Results::open(args.out.as_deref())?.write("portal.md", text)?;
    Ok(loaded.cores < 1.0 && loaded.megabytes < 300.0)
}

/// Measures the hub with no page open, and with all pages open.
fn measure_idle_and_loaded(
    longhaul: &Path,
    dir: &Path,
    people: usize,
    span: Duration,
) -> Result<(PortalFigures, PortalFigures)> {
    let hub = Hub::start(longhaul, dir)?;
    let jobs = submit(&hub)?;
    until_all_run(&hub)?;
    Ok((measure(&hub, 0, &jobs, span)?, measure(&hub, people, &jobs, span)?))
}

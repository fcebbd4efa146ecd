//! `make bench-api`: the time in which a node's API answers with a list of transfers. Writes docs/results/api.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::machine;
use bench::node::{Node, dialer, grant};
use bench::program::{self, Binary, Results};
use bench::statistics::median;
use clap::Parser;
use model::id::Uuid;
use model::v1::Stage;
use model::v1::node::{Credentials, Order};
use nodeapi::{Api, PageQuery};
use web::{Client, Headers, HttpUrl, Method};

/// The longest that the whole list may take.
const TARGET: Duration = Duration::from_millis(50);
/// The clients that order transfers at the same time to fill the list.
const ORDERING_CLIENTS: usize = 8;

/// What a list of transfers costs, over loopback: real transfers of no bytes are ordered, and listed when all have ended.
#[derive(Debug, Parser)]
struct Args {
    /// Transfers in the list
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    transfers: u64,
    /// How often each list is asked for
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    binary: Binary,
    /// Where api.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-api", run(&Args::parse()))
}

/// A node with a key to it.
struct NodeWithKey {
    node: Node,
    key: String,
}

impl NodeWithKey {
    fn start(longhaul: &Path, dir: &Path) -> Result<NodeWithKey> {
        let state = dir.join("state");
        let data = dir.join("data");
        fs::create_dir_all(&data)?;
        let key = grant(longhaul, &state, &["--export", "data", "--write"])?;
        let mut command = Command::new(longhaul);
        command.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--state"]).arg(&state);
        command.arg("--export").arg(format!("data={}:rw", data.display()));
        let node = Node::start(command.stderr(fs::File::create(dir.join("log"))?))?;
        Ok(NodeWithKey { node, key })
    }

    fn origin(&self) -> Result<HttpUrl> {
        HttpUrl::parse(&format!("http://127.0.0.1:{}/", self.node.port)).map_err(|e| anyhow!("{e}"))
    }
}

/// Orders `count` transfers of no bytes, from the node to itself, and waits until they end. Returns the time that this took.
fn fill(node: &NodeWithKey, api: &Api, count: u64) -> Result<Duration> {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let order = || -> Result<()> {
        while next.fetch_add(1, Ordering::Relaxed) < count as usize {
            let target = format!("lh://127.0.0.1:{}/null:", node.node.port);
            let credentials = Some(Credentials { key: Some(node.key.clone()), ..Credentials::default() });
            let order = Order { credentials, ..Order::new(Uuid::now_v7(), "/zero:0", target) };
            api.create_transfer(&order)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..ORDERING_CLIENTS).map(|_| scope.spawn(order)).collect();
        all.into_iter()
            .try_for_each(|one| one.join().map_err(|_| anyhow!("a thread that orders transfers panicked"))?)
    })?;
    loop {
        let all_transfers = PageQuery { limit: Some(10_000), state: None, after: None };
        let page = api.list_transfers(all_transfers)?.transfers;
        if page.iter().all(|transfer| transfer.state.is_last()) {
            let failed = page.iter().find(|transfer| transfer.state != Stage::Done);
            ensure!(failed.is_none(), "a transfer of no bytes failed: {failed:?}");
            ensure!(page.len() as u64 == count, "{} transfers are listed, not {count}", page.len());
            return Ok(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Repeats a request over one connection; returns the sorted seconds from the first byte of each request to the last byte of its
/// answer, and the bytes of an answer.
fn time_list(node: &NodeWithKey, target: &str, rounds: u32) -> Result<(Vec<f64>, usize)> {
    let mut client = Client::new(&dialer()?, &node.origin()?)?;
    let headers = Headers::new().with("Authorization", format!("Bearer {}", node.key));
    let mut seconds = Vec::new();
    let mut bytes = 0;
    for _ in 0..rounds {
        let began = Instant::now();
        client.send(&Method::Get, target, &headers)?;
        let (response, mut body) = client.final_response(&Method::Get)?;
        let answer = client.read_all(&mut body, 64 << 20)?;
        seconds.push(began.elapsed().as_secs_f64());
        ensure!(response.status == 200, "the node answers {}", response.status);
        bytes = answer.len();
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds, bytes))
}

fn row(what: &str, seconds: &[f64], bytes: usize) -> String {
    let ms = |value: f64| format!("{:.1} ms", value * 1000.0);
    let middle = median(seconds.iter().copied()).unwrap_or_default();
    let most = seconds.last().copied().unwrap_or_default();
    let p95 = seconds.get(seconds.len() * 19 / 20).copied().unwrap_or(most);
    format!("| {what} | {:.2} MB | {} | {} | {} |\n", bytes as f64 / 1e6, ms(middle), ms(p95), ms(most))
}

/// Runs the measurements; whether the target was met.
fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let scratch = tempfile::Builder::new().prefix("longhaul-api-").tempdir()?;
    let node = NodeWithKey::start(&longhaul, scratch.path())?;
    let bearer = format!("Bearer {}", node.key);
    let api = Api::new(dialer()?, node.origin()?, Some(&bearer));
    let filled = fill(&node, &api, args.transfers)?;
    let count = args.transfers;
    println!("{count} transfers ordered, carried and ended in {:.1} s", filled.as_secs_f64());
    let (whole, whole_bytes) = time_list(&node, "/api/v1/transfers?limit=10000", args.rounds)?;
    let (page, page_bytes) = time_list(&node, "/api/v1/transfers", args.rounds)?;
    let (none, none_bytes) = time_list(&node, "/api/v1/transfers?state=failed", args.rounds)?;
    let (health, health_bytes) = time_list(&node, "/api/v1/health", args.rounds)?;
    let middle = median(whole.iter().copied()).context("at least one round")?;
    let met = Duration::from_secs_f64(middle) < TARGET;
    let text = format!(
        "# The node's API, measured\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-api`\n\
         - {count} real transfers of no bytes were ordered by {ORDERING_CLIENTS} clients, carried and ended in {:.1} s, each written \
         down twice on the way ({}); then each list was asked for {} times over one connection, in clear, and its bytes were \
         read, not parsed\n\n**{count} transfers are listed in {:.1} ms** (median; the target is {} ms): {}.\n\n\
         | question | answer | median | 19 of 20 | most |\n|---|---|---|---|---|\n{}{}{}{}",
        machine::date(),
        machine::describe("loopback")?,
        filled.as_secs_f64(),
        machine::file_system(scratch.path()),
        args.rounds,
        middle * 1000.0,
        TARGET.as_millis(),
        if met { "met" } else { "**not met**" },
        row(&format!("all {count}"), &whole, whole_bytes),
        row("a page of 1,000", &page, page_bytes),
        row("those that failed (none)", &none, none_bytes),
        row("health", &health, health_bytes),
    );
    print!("{text}");
    let out = Results::open(args.out.as_deref())?;
    out.write("api.md", text)?;
    Ok(met)
}

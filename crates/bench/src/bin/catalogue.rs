//! `make bench-catalogue`: ten million files in the catalogue of a hub on SQLite: look-ups, the evaluation of a rule over a hundred
//! thousand files, and submissions to the queue at the same time. Writes docs/results/catalogue.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::hub::{Hub, percentile_99, spread_text, submit, time_requests};
use bench::machine;
use bench::program::{self, Binary, Results};
use clap::Parser;
use model::v1::hub::{DataKind, Endpoint, NewData, NewDataList, NewReplica, RuleOrder, ScopeOrder, Stopped, Storage};

/// Files of one request.
const REQUEST: usize = 1_000;
/// Files of one data set.
const DATASET: usize = 100_000;
/// Look-ups of each kind.
const LOOKUPS: u32 = 1_000;
/// The longest that the hub may take to evaluate a rule.
const RULE_MAX: Duration = Duration::from_secs(300);

/// The cost of a catalogue of many files, over loopback.
#[derive(Debug, Parser)]
struct Args {
    /// Files in the catalogue
    #[arg(long, default_value_t = 10_000_000)]
    files: usize,
    /// Rules of 100,000 files that the hub evaluates
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rules: u32,
    #[command(flatten)]
    binary: Binary,
    /// Where catalogue.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    program::exit_code("bench-catalogue", run(&Args::parse()))
}

/// The figures of the catalogue.
struct CatalogueFigures {
    /// Files entered per second.
    entered: f64,
    /// Milliseconds of each look-up of a name, sorted.
    name: Vec<f64>,
    /// Milliseconds of each look-up of a file with its copies, sorted.
    copies: Vec<f64>,
    /// Milliseconds of each look-up of a page of names, sorted.
    page: Vec<f64>,
    /// Seconds of the evaluation of each rule.
    rules: Vec<f64>,
    /// Jobs of one file submitted per second before a rule is evaluated.
    submitted_before: f64,
    /// The same while a rule is evaluated.
    submitted_during: f64,
    megabytes: f64,
    database_gb: f64,
}

/// Adds the endpoints and the scope, and stops all transfers.
fn set_up(hub: &Hub) -> Result<()> {
    let api = hub.api()?;
    for name in ["a", "b", "c"] {
        let url = format!("lh://{name}.example");
        let storage = Storage { url: format!("{url}/data"), ..Storage::default() };
        api.put(name, &Endpoint { urls: vec![url], storage: Some(storage), ..Endpoint::default() })?;
    }
    // The transfers that rules order wait: only the catalogue is measured.
    api.stop("all", &Stopped { reason: "measured".into(), ..Stopped::default() })?;
    api.make_scope("survey", &ScopeOrder::default())?;
    Ok(())
}

fn dataset_name(dataset: usize) -> String {
    format!("survey:run-{dataset:04}")
}

fn file_name(at: usize) -> String {
    format!("{}/beam-{:02}/visibilities-{at:09}.ms", dataset_name(at / DATASET), at % 36)
}

/// Adds files at endpoint `a` to the catalogue, in data sets of a hundred thousand; returns files per second.
fn enter(hub: &Hub, files: usize) -> Result<f64> {
    let api = hub.api()?;
    let began = Instant::now();
    for first in (0..files).step_by(REQUEST) {
        let dataset = dataset_name(first / DATASET);
        if first % DATASET == 0 {
            let new = NewData { name: dataset.clone(), kind: DataKind::Dataset, ..NewData::default() };
            api.enter_data(&NewDataList { data: vec![new], into: None })?;
            println!("{first} files after {:.0} s", began.elapsed().as_secs_f64());
        }
        let file = |at: usize| NewData {
            name: file_name(at),
            bytes: Some(1_000_000_000),
            adler32: Some(format!("{at:08x}")),
            replicas: vec![NewReplica { endpoint: "a".into(), path: None }],
            ..NewData::default()
        };
        let data = (first..files.min(first + REQUEST)).map(file).collect();
        api.enter_data(&NewDataList { data, into: Some(dataset) })?;
    }
    Ok(files as f64 / began.elapsed().as_secs_f64())
}

/// Looks up names that are spread over the whole catalogue; returns milliseconds, sorted.
fn look_up(hub: &Hub, files: usize, target: impl Fn(&str) -> String) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for at in 0..LOOKUPS as usize {
        // A step that shares no factor with the number of files visits all of them.
        let name = file_name(at * 7_368_787 % files).replace('/', "%2F");
        all.extend(time_requests(hub, &target(&name), 1)?);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Makes a rule for a data set; returns the seconds until the hub has evaluated it for all files.
fn evaluate_rule(hub: &Hub, dataset: usize) -> Result<f64> {
    let api = hub.api()?;
    let order = RuleOrder { name: dataset_name(dataset), at: "b|c".into(), copies: Some(1), ..RuleOrder::default() };
    let began = Instant::now();
    let id = api.make_rule(&order)?.id;
    loop {
        let rule = api.rule(&id)?;
        if !rule.is_evaluating {
            let copies = rule.ok + rule.replicating + rule.stuck;
            ensure!(copies == DATASET as u64, "the rule has {copies} copies");
            return Ok(began.elapsed().as_secs_f64());
        }
        ensure!(began.elapsed() < RULE_MAX, "the rule is not evaluated after {RULE_MAX:?}");
        sleep(Duration::from_millis(50));
    }
}

fn measure(args: &Args, longhaul: &Path, dir: &Path) -> Result<CatalogueFigures> {
    let hub = Hub::start(longhaul, dir)?;
    set_up(&hub)?;
    let entered = enter(&hub, args.files)?;
    let name = look_up(&hub, args.files, |name| format!("/api/v1/data/{name}"))?;
    let copies = look_up(&hub, args.files, |name| format!("/api/v1/data/{name}/files"))?;
    let page = time_requests(&hub, "/api/v1/data?scope=survey&like=run-0000%2Fbeam-0*&limit=100", LOOKUPS)?;
    let mut rules = Vec::new();
    for at in 0..args.rules as usize {
        rules.push(evaluate_rule(&hub, at)?);
        println!("a rule was evaluated in {:.2} s", rules[at]);
    }
    let submitted_before = submit(&hub, 1, 5)?;
    let submitted_during = std::thread::scope(|scope| -> Result<f64> {
        let evaluation = scope.spawn(|| evaluate_rule(&hub, args.rules as usize));
        let submitted_during = submit(&hub, 1, 5)?;
        evaluation.join().map_err(|_| anyhow::anyhow!("the thread that evaluates a rule panicked"))??;
        Ok(submitted_during)
    })?;
    let database_gb = fs::metadata(dir.join("hub/hub.db")).context("no database")?.len() as f64 / 1e9;
    let megabytes = hub.memory()? as f64 / 1e6;
    Ok(CatalogueFigures {
        entered,
        name,
        copies,
        page,
        rules,
        submitted_before,
        submitted_during,
        megabytes,
        database_gb,
    })
}

/// Runs the measurements; whether the targets were met.
fn run(args: &Args) -> Result<bool> {
    let needed = (args.rules as usize + 1) * DATASET;
    ensure!(args.files >= needed, "--rules {} needs --files {needed} at least", args.rules);
    let longhaul = args.binary.find()?;
    let scratch = tempfile::Builder::new().prefix("longhaul-catalogue-").tempdir()?;
    let figures = measure(args, &longhaul, scratch.path())?;
    let slowest = figures.rules.iter().copied().fold(0.0, f64::max);
    let look_ups = [percentile_99(&figures.name), percentile_99(&figures.copies), percentile_99(&figures.page)];
    let rows = [
        (
            "99 of 100 look-ups of a name, of a file with its copies, of a page of 100 names like a pattern, ms"
                .to_owned(),
            format!("{:.2}, {:.2}, {:.2}", look_ups[0], look_ups[1], look_ups[2]),
            "10",
            Some(look_ups.iter().all(|ms| *ms < 10.0)),
        ),
        (format!("a rule of {DATASET} files evaluated, s"), spread_text(&figures.rules, 2), "10", Some(slowest < 10.0)),
        (
            "jobs of one file submitted per second while a rule is looked through; before".to_owned(),
            format!("{:.0}; {:.0}", figures.submitted_during, figures.submitted_before),
            "",
            None,
        ),
        (
            "files entered per second, 1,000 a request, one client".to_owned(),
            format!("{:.0}", figures.entered),
            "",
            None,
        ),
        (
            "memory of the hub, MB; its database, GB".to_owned(),
            format!("{:.0}; {:.1}", figures.megabytes, figures.database_gb),
            "",
            None,
        ),
    ];
    let mut text = format!(
        "# The catalogue of a hub, measured\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-catalogue`\n- {} files in data sets of {DATASET}, one copy of each; \
         SQLite on {}, WAL, synchronous FULL. Look-ups over one connection each, one after another, all over the catalogue: what is read is seldom in a cache \
         of the database. Rules: medians (least to most) of {}\n\n| what | measured | target | |\n|---|---|---|---|\n",
        machine::date(),
        machine::describe("loopback")?,
        args.files,
        machine::file_system(scratch.path()),
        args.rules,
    );
    for (what, measured, target, is_met) in &rows {
        let met = match is_met {
            None => "",
            Some(true) => "met",
            Some(false) => "**not met**",
        };
        text.push_str(&format!("| {what} | {measured} | {target} | {met} |\n"));
    }
    print!("{text}");
    Results::open(args.out.as_deref())?.write("catalogue.md", text)?;
    Ok(rows.iter().all(|(.., is_met)| is_met.unwrap_or(true)))
}

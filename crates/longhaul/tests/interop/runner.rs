//! Runs cases side by side, reports how each ended, and counts.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::case::Case;
use crate::clients::is_installed;
use crate::context::{CaseContext, Skip};
use crate::table;
use crate::test_bed::TestBed;
use crate::wait::skipped;

/// The options of the command line. Options of the standard harness that have no meaning here are ignored.
pub struct Options {
    filters: Vec<String>,
    exact: bool,
    pub list: bool,
    /// Whether a stock xrootd replaces the node.
    pub against_stock: bool,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    Passed,
    Failed(String),
    Skipped(String),
    /// A stock server in place of the node answers differently, as the case states. The difference itself is not compared.
    Differs,
}

impl Options {
    pub fn read(words: impl Iterator<Item = String>) -> Options {
        let against = std::env::var("LONGHAUL_INTEROP_AGAINST").unwrap_or_default();
        assert!(against.is_empty() || against == "stock", "LONGHAUL_INTEROP_AGAINST: `stock` or nothing");
        let mut options =
            Options { filters: Vec::new(), exact: false, list: false, against_stock: !against.is_empty() };
        for word in words {
            match word.as_str() {
                "--list" => options.list = true,
                "--exact" => options.exact = true,
                _ if word.starts_with('-') => {}
                _ => options.filters.push(word),
            }
        }
        options
    }

    pub fn selects(&self, case: &Case) -> bool {
        let id = case.id();
        let is = |filter: &String| if self.exact { id == *filter } else { id.contains(filter.as_str()) };
        self.filters.is_empty() || self.filters.iter().any(is)
    }

    fn is_complete(&self) -> bool {
        self.filters.is_empty() && !self.against_stock
    }
}

thread_local! {
    static PANIC_MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs all cases; returns whether none failed.
pub fn run(cases: &[Case], options: &Options) -> bool {
    println!("\nrunning {} cases", cases.len());
    let started = Instant::now();
    std::panic::set_hook(Box::new(|info| PANIC_MESSAGE.with(|message| *message.borrow_mut() = info.to_string())));
    let test_bed = match catch_unwind(|| TestBed::start(options.against_stock)) {
        Ok(test_bed) => test_bed,
        Err(_) => {
            println!("the servers do not start: {}", PANIC_MESSAGE.take());
            return false;
        }
    };
    let outcomes = run_all(cases, &test_bed, options);
    let ended = catch_unwind(AssertUnwindSafe(|| drop(test_bed)));
    let count = |which: fn(&CaseOutcome) -> bool| outcomes.iter().filter(|outcome| which(outcome)).count();
    let failed = count(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
    for (case, outcome) in cases.iter().zip(&outcomes) {
        if let CaseOutcome::Failed(why) = outcome {
            println!("\n---- {} ----\n{why}", case.id());
        }
    }
    if ended.is_err() {
        println!("\na node's log reports a panic: {}", PANIC_MESSAGE.take());
    }
    println!(
        "\ncases: {} passed; {failed} failed; {} skipped; {} differ on a stock server; finished in {:.0} s",
        count(|outcome| *outcome == CaseOutcome::Passed),
        count(|outcome| matches!(outcome, CaseOutcome::Skipped(_))),
        count(|outcome| *outcome == CaseOutcome::Differs),
        started.elapsed().as_secs_f64()
    );
    let is_current = !options.is_complete() || failed > 0 || table::are_current(cases, &outcomes);
    failed == 0 && is_current && ended.is_ok()
}

fn run_all(cases: &[Case], test_bed: &TestBed, options: &Options) -> Vec<CaseOutcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![CaseOutcome::Passed; cases.len()]);
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, case)) = next_of(cases, &next) {
                    let outcome = judge(case, run_case(case, test_bed), options);
                    outcomes.lock().unwrap()[at] = outcome;
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

fn next_of<'a>(cases: &'a [Case], next: &AtomicUsize) -> Option<(usize, &'a Case)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    cases.get(at).map(|case| (at, case))
}

fn run_case(case: &Case, test_bed: &TestBed) -> CaseOutcome {
    if let Some(program) = case.programs().iter().find(|program| !is_installed(program)) {
        return CaseOutcome::Skipped(format!("{program} is not installed (scripts/setup.sh installs it)"));
    }
    let result = catch_unwind(AssertUnwindSafe(|| {
        let context = CaseContext::new(case, test_bed);
        (case.run)(&context);
    }));
    match result {
        Ok(()) => CaseOutcome::Passed,
        Err(payload) => match payload.downcast::<Skip>() {
            Ok(skip) => CaseOutcome::Skipped(skip.0),
            Err(_) => CaseOutcome::Failed(PANIC_MESSAGE.take()),
        },
    }
}

/// Against a stock server, cases that it answers differently are not failures; a case that it now answers as it should
/// is reported.
fn judge(case: &Case, outcome: CaseOutcome, options: &Options) -> CaseOutcome {
    let id = case.id();
    match (outcome, case.stock.filter(|_| options.against_stock)) {
        (CaseOutcome::Failed(why), Some(how)) => {
            println!("case {id} ... stock differs: {how} ({} …)", short(&why));
            CaseOutcome::Differs
        }
        (CaseOutcome::Passed, Some(how)) => {
            println!("case {id} ... ok, although a difference was expected: {how}");
            CaseOutcome::Passed
        }
        (CaseOutcome::Skipped(why), _) => {
            skipped(&format!("interop {id}"), &why);
            CaseOutcome::Skipped(why)
        }
        (outcome, _) => {
            println!("case {id} ... {}", if outcome == CaseOutcome::Passed { "ok" } else { "FAILED" });
            outcome
        }
    }
}

/// The beginning of a case's failure, without the command.
fn short(why: &str) -> String {
    let (head, rest) = why.split_once("words: \"").unwrap_or((why, ""));
    let rest = rest.split_once("\",").map_or("", |(_, rest)| rest);
    [head, rest].concat().split_whitespace().collect::<Vec<_>>().join(" ").chars().take(240).collect()
}

//! `cargo xtask test`: builds every test once, under clippy, and runs each in a process of its own.
//!
//! Most tests of Longhaul wait: for round trips, deadlines, other processes. So the tests of all programs share one queue, and
//! many tests that wait run beside a few that compute ([`budget::Pool`]). Tests that measure run one at a time, with priority. The
//! report has the failed tests with their last lines and the command that runs only that test, the skipped tests, the slowest
//! tests, and the seconds of each program beside its budget (`crates/xtask/tests.toml`).

pub mod budget;
pub(crate) mod build;
pub(crate) mod checks;
pub mod conclusion;
mod process;
mod queue;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use budget::{Budget, Pool};
use conclusion::Conclusion;

/// The directory below the target directory with the output of each test of the last run, and with `seconds.txt`, the time of each.
const OUTPUTS: &str = "tests";

/// The tests to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Only the programs that need no root and no system packages.
    pub pure: bool,
    /// Whether seconds are reported, but not compared with the budgets: for a machine that is kept busy on purpose.
    pub unhurried: bool,
    /// Only tests whose name contains one of these; without any, all tests.
    pub filters: Vec<String>,
}

impl Request {
    /// Reads `[--pure] [--unhurried] [WORD]…`; none if there is any other option.
    pub fn parse(words: &[&str]) -> Option<Request> {
        let mut request = Request::default();
        for word in words {
            match *word {
                "--pure" => request.pure = true,
                "--unhurried" => request.unhurried = true,
                option if option.starts_with('-') => return None,
                filter => request.filters.push(filter.to_owned()),
            }
        }
        Some(request)
    }
}

/// One test: a function of a test program, or a program as a whole.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its test program, by the name of the program's budget: `wire`, `engine/faults`, `longhaul/e2e`.
    pub part: String,
    /// Its name in the program; empty for a program that is one test.
    pub name: String,
    /// The file that runs it.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Variables that are added to its environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// The directory that it runs in.
    pub dir: PathBuf,
    /// The command that runs it alone.
    pub alone: String,
}

impl Test {
    /// Program and name, as reports show them.
    pub fn title(&self) -> String {
        match self.name.as_str() {
            "" => self.part.clone(),
            name => format!("{} {name}", self.part),
        }
    }
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With status 0.
    Passed,
    /// With another status.
    Failed,
    /// It ran longer than any test may, and was killed.
    Hung,
}

/// A test that has run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The test.
    pub test: Test,
    /// How it ended.
    pub ending: Ending,
    /// The time from its start to its end.
    pub took: Duration,
    /// Processor time of its process, and of the processes that it waited for.
    pub processor: Duration,
    /// The file with all that it printed.
    pub output: PathBuf,
}

/// Runs the requested tests, and prints the report. A request for all tests also checks format and dependencies before.
///
/// # Errors
/// A program does not build, a test fails, or a program exceeds its budget.
pub fn run(request: &Request) -> Result<()> {
    let mut skipped = Vec::new();
    if *request == Request::default() {
        checks::format()?;
        skipped = checks::dependencies()?;
    }
    run_after(request, skipped)
}

/// Runs the requested tests, and prints the report. `skipped` has checks that were skipped before, for the report.
///
/// # Errors
/// A program does not build, a test fails, or a program exceeds its budget.
pub fn run_after(request: &Request, skipped: Vec<String>) -> Result<()> {
    let began = Instant::now();
    let tests = Tests::build(request)?;
    println!("built and linted in {:.0} s", began.elapsed().as_secs_f64());
    let conclusion = tests.run(request)?.with_skipped(skipped);
    println!("{}", conclusion.text());
    if !conclusion.is_green() {
        bail!("a test failed or a program exceeded its budget: see above");
    }
    Ok(())
}

/// Tests whose programs are built.
pub struct Tests {
    tests: Vec<Test>,
    budget: Budget,
}

impl Tests {
    /// Builds the requested tests, under clippy.
    ///
    /// # Errors
    /// A program does not build, or has a lint.
    pub fn build(request: &Request) -> Result<Tests> {
        let budget = Budget::load()?;
        Ok(Tests { tests: build::tests(request, &budget)?, budget })
    }

    /// Runs the tests.
    ///
    /// # Errors
    /// A test cannot be started, or its program has no budget.
    pub fn run(&self, request: &Request) -> Result<Conclusion> {
        let began = Instant::now();
        let outputs = build::target_directory()?.join(OUTPUTS);
        let is_alone = |test: &Test| self.budget.pool(&test.part, &test.name).is_ok_and(|pool| pool == Pool::Alone);
        let (alone, together) = self.tests.iter().cloned().partition::<Vec<_>, _>(is_alone);
        let outcomes = queue::run(together, &self.budget, outputs.clone())?;
        let outcomes = self.run_alone_and_unjudged(outcomes, alone, &outputs)?;
        let conclusion = Conclusion::new(outcomes, self.budget.clone(), began.elapsed(), request);
        fs::write(outputs.join("seconds.txt"), conclusion.list())?;
        Ok(conclusion)
    }

    /// Runs the tests that run alone, and once more those that could not be judged beside others.
    fn run_alone_and_unjudged(&self, outcomes: Vec<Outcome>, alone: Vec<Test>, outputs: &Path) -> Result<Vec<Outcome>> {
        let (unjudged, mut outcomes): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(conclusion::is_not_judged);
        if !unjudged.is_empty() {
            println!("{} tests could not be judged beside the others; each runs once more, alone", unjudged.len());
        }
        for test in alone.into_iter().chain(unjudged.into_iter().map(|outcome| outcome.test)) {
            outcomes.extend(queue::run(vec![test], &self.budget, outputs.to_owned())?);
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod samples {
    use super::Test;

    /// A test that a shell runs.
    pub fn shell(part: &str, name: &str, script: &str) -> Test {
        Test {
            part: part.to_owned(),
            name: name.to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            environment: &[],
            dir: "/".into(),
            alone: format!("cargo test --package {part} -- --exact {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_from_words_and_other_options_are_refused() {
        assert_eq!(Request::parse(&[]), Some(Request::default()));
        let request = Request::parse(&["--unhurried", "resume", "--pure", "kept::"]).unwrap();
        assert_eq!(request, Request { pure: true, unhurried: true, filters: vec!["resume".into(), "kept::".into()] });
        assert_eq!(Request::parse(&["--fast"]), None);
    }
}

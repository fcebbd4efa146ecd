//! `cargo xtask test`: builds every test once, under clippy, and runs each in a process of its own.
//!
//! Most tests of Longhaul wait: for round trips, deadlines, other processes. So the tests of all programs share one queue, and
//! many of those that wait run beside the few that compute ([`budget::Pool`]). What measures goes before them, one at a time. At the
//! end stand the failed tests with their last lines and how to run just that one, what was skipped, the slowest tests, and the
//! seconds of each program beside its budget (`crates/xtask/tests.toml`).

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

/// Below the target directory: what each test of the last run printed, and `seconds.txt`, what each took.
const OUTPUTS: &str = "tests";

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Only the programs that need no root and no system packages.
    pub pure: bool,
    /// Seconds are told, but not held against the budget: for a machine that is kept busy on purpose.
    pub unhurried: bool,
    /// Only tests whose name contains one of these; all of them where there are none.
    pub filters: Vec<String>,
}

impl Request {
    /// Reads `[--pure] [--unhurried] [WORD]…`; none where an option is another.
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
    /// The program that it is in, by the name of its budget: `wire`, `engine/warm`, `e2e`.
    pub part: String,
    /// Its name there; empty for a program that is one test.
    pub name: String,
    /// What runs it.
    pub program: PathBuf,
    /// The words that the program is given.
    pub arguments: Vec<String>,
    /// What it finds in its environment beside everything else.
    pub environment: &'static [(&'static str, &'static str)],
    /// The directory that it runs in.
    pub dir: PathBuf,
    /// What a person types to run it alone.
    pub alone: String,
}

impl Test {
    /// Part and name, as reports call it.
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
    /// As it should.
    Passed,
    /// With a status other than 0.
    Failed,
    /// It ran for longer than any test may, and was ended.
    Hung,
}

/// A test that has run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which one.
    pub test: Test,
    /// How it ended.
    pub ending: Ending,
    /// From its start to its end.
    pub took: Duration,
    /// Processor time, its own and that of the processes that it waited for.
    pub processor: Duration,
    /// Where all that it printed is kept.
    pub output: PathBuf,
}

/// Runs what was asked for, and says how it went; where all was, format and dependencies are checked before.
///
/// # Errors
/// What does not build, tests that failed, programs that took more seconds than they may.
pub fn run(request: &Request) -> Result<()> {
    let mut skipped = Vec::new();
    if *request == Request::default() {
        checks::format()?;
        skipped = checks::dependencies()?;
    }
    run_after(request, skipped)
}

/// The same after checks, some of which this machine could not do.
///
/// # Errors
/// What does not build, tests that failed, programs that took more seconds than they may.
pub fn run_after(request: &Request, skipped: Vec<String>) -> Result<()> {
    let began = Instant::now();
    let tests = Tests::build(request)?;
    println!("built and linted in {:.0} s", began.elapsed().as_secs_f64());
    let conclusion = tests.run(request)?.with_skipped(skipped);
    println!("{}", conclusion.text());
    if !conclusion.is_green() {
        bail!("not green; what failed is named above");
    }
    Ok(())
}

/// Tests that are built.
pub struct Tests {
    tests: Vec<Test>,
    budget: Budget,
}

impl Tests {
    /// Builds what was asked for, under clippy.
    ///
    /// # Errors
    /// Something does not build, or has a lint.
    pub fn build(request: &Request) -> Result<Tests> {
        let budget = Budget::load()?;
        Ok(Tests { tests: build::tests(request, &budget)?, budget })
    }

    /// Runs them.
    ///
    /// # Errors
    /// One cannot be started, or its program has no budget.
    pub fn run(&self, request: &Request) -> Result<Conclusion> {
        let began = Instant::now();
        let outputs = build::target_directory()?.join(OUTPUTS);
        let is_alone = |test: &Test| self.budget.pool(&test.part, &test.name).is_ok_and(|pool| pool == Pool::Alone);
        let (alone, together) = self.tests.iter().cloned().partition::<Vec<_>, _>(is_alone);
        let outcomes = queue::run(together, &self.budget, outputs.clone())?;
        let outcomes = self.at_last(outcomes, alone, &outputs)?;
        let conclusion = Conclusion::new(outcomes, self.budget.clone(), began.elapsed(), request);
        fs::write(outputs.join("seconds.txt"), conclusion.list())?;
        Ok(conclusion)
    }

    /// When all others are over: tests that run alone, and once more those that the machine was too busy to judge.
    fn at_last(&self, outcomes: Vec<Outcome>, alone: Vec<Test>, outputs: &Path) -> Result<Vec<Outcome>> {
        let (late, mut outcomes): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(conclusion::is_not_judged);
        if !late.is_empty() {
            println!("{} tests could not be judged beside the others; each runs once more, alone", late.len());
        }
        for test in alone.into_iter().chain(late.into_iter().map(|outcome| outcome.test)) {
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
    fn words_are_read_or_refused() {
        assert_eq!(Request::parse(&[]), Some(Request::default()));
        let request = Request::parse(&["--unhurried", "resume", "--pure", "kept::"]).unwrap();
        assert_eq!(request, Request { pure: true, unhurried: true, filters: vec!["resume".into(), "kept::".into()] });
        assert_eq!(Request::parse(&["--fast"]), None);
    }
}

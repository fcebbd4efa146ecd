//! The budgets of the test programs, and how their tests run beside others: `crates/xtask/tests.toml`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use cargo_metadata::{Target, TargetKind};
use serde::Deserialize;

use super::Test;

/// The name of the documentation's examples among the programs.
pub const EXAMPLES: &str = "examples in documentation";

/// The content of the file when this program was built.
const TEXT: &str = include_str!("../../tests.toml");

/// A program may take so many times the seconds of its budget, because others may use the machine as well.
pub const SLACK: u32 = 3;
/// A program that takes less never fails a run: on a busy machine, many short tests take long.
pub const OVERRUN_MIN: Duration = Duration::from_secs(60);

/// What a test does most of the time. This decides how many tests of its kind run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// It keeps a processor busy: few run at once, with a lower priority.
    Computes,
    /// It waits for deadlines, round trips or other processes: many run at once.
    Waits,
    /// It measures time: one runs at a time, with a higher priority if that is permitted (root).
    Measures,
    /// It measures time so exactly, or has so much to compute in a row, that nothing else may run: after all others.
    Alone,
}

impl Pool {
    /// The niceness that its tests get in addition (nice(2)): with five, a process gets a quarter of a processor beside another one.
    pub fn niceness(self) -> i32 {
        match self {
            Pool::Computes => 5,
            Pool::Waits | Pool::Alone => 0,
            Pool::Measures => -10,
        }
    }
}

/// The budget of a test program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramBudget {
    /// The sum of the seconds of its tests, on two processors that only run all tests: processor time in the pool `computes`, wall
    /// time in the others.
    pub seconds: u64,
    /// What its tests do most of the time.
    pub pool: Pool,
    /// How the names of tests begin that belong to the pool `measures` instead.
    #[serde(default)]
    pub measures: Vec<String>,
    /// How the names of tests begin that belong to the pool `alone` instead.
    #[serde(default)]
    pub alone: Vec<String>,
    /// How the names of the longest tests begin: they start first, so that none is left for the end.
    #[serde(default)]
    pub slow: Vec<String>,
    /// Whether all of its tests run in one process, because they share data that are expensive to make and only read.
    #[serde(default)]
    pub together: bool,
    /// Whether it needs neither root nor a system package, and so is a part of `make check`.
    #[serde(default)]
    pub pure: bool,
}

/// The budgets of all test programs, by name: `CRATE` for unit tests, `CRATE/TARGET` for integration tests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// How many tests of each pool run at once.
    pub at_once: AtOnce,
    /// The programs.
    pub part: BTreeMap<String, ProgramBudget>,
}

/// How many tests of a pool run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtOnce {
    /// Of [`Pool::Computes`].
    pub computes: usize,
    /// Of [`Pool::Waits`].
    pub waits: usize,
}

impl Budget {
    /// Reads the committed file.
    ///
    /// # Errors
    /// The file is not valid.
    pub fn load() -> Result<Budget> {
        toml::from_str(TEXT).context("crates/xtask/tests.toml")
    }

    /// The pool of a test.
    ///
    /// # Errors
    /// Its program has no budget.
    pub fn pool(&self, part: &str, name: &str) -> Result<Pool> {
        let row = self.part(part)?;
        let is_one_of = |begins: &[String]| begins.iter().any(|begin| name.starts_with(begin.as_str()));
        if is_one_of(&row.alone) {
            return Ok(Pool::Alone);
        }
        Ok(if is_one_of(&row.measures) { Pool::Measures } else { row.pool })
    }

    /// How many tests of a pool run at once.
    pub fn at_once(&self, pool: Pool) -> usize {
        match pool {
            Pool::Computes => self.at_once.computes,
            Pool::Waits => self.at_once.waits,
            Pool::Measures | Pool::Alone => 1,
        }
    }

    /// The seconds that a run of a pool's tests takes by their budgets, with as many at once as run.
    pub fn seconds(&self, pool: Pool) -> u64 {
        let rows = self.part.values().filter(|part| part.pool == pool);
        rows.map(|part| part.seconds).sum::<u64>() / self.at_once(pool).max(1) as u64
    }

    /// The sort key of a test, by which the longest tests begin first.
    pub fn order(&self, test: &Test) -> impl Ord + use<> {
        let row = self.part.get(&test.part);
        let is_slow = row.is_some_and(|row| row.slow.iter().any(|begin| test.name.starts_with(begin.as_str())));
        (Reverse((is_slow, row.map_or(0, |row| row.seconds))), test.title())
    }

    /// The budget of a program.
    ///
    /// # Errors
    /// The program has none.
    pub fn part(&self, part: &str) -> Result<&ProgramBudget> {
        self.part.get(part).with_context(|| {
            format!("crates/xtask/tests.toml has no [part.\"{part}\"]: add the seconds that its tests may take, and their pool")
        })
    }
}

/// The name of a test program in the budget: `wire` for the unit tests of a library, `wire/pair` for tests/pair.rs, `longhaul/bin` for
/// the tests of a binary.
pub fn part_name(package: &str, target: &Target) -> String {
    match target.kind.first() {
        Some(TargetKind::Test | TargetKind::Example) => format!("{package}/{}", target.name),
        Some(TargetKind::Bin) => format!("{package}/bin"),
        _ => package.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::shell;
    use super::*;

    #[test]
    fn the_committed_budget_can_be_read() {
        let budget = Budget::load().unwrap();
        assert!(budget.at_once.waits >= budget.at_once.computes);
        assert!(budget.part.len() > 20);
    }

    #[test]
    fn slow_tests_and_tests_of_long_programs_begin_first() {
        let row = |name: &str, seconds: u64| {
            format!("[part.{name}]\nseconds = {seconds}\npool = \"waits\"\nslow = [\"kills::\"]\n")
        };
        let text = format!("at_once = {{ computes = 1, waits = 2 }}\n{}{}", row("a", 1), row("b", 9));
        let budget: Budget = toml::from_str(&text).unwrap();
        let mut tests = [shell("a", "x", ""), shell("b", "x", ""), shell("a", "kills::x", "")];
        tests.sort_by_cached_key(|test| budget.order(test));
        assert_eq!(tests.iter().map(Test::title).collect::<Vec<_>>(), ["a kills::x", "b x", "a x"]);
    }

    #[test]
    fn a_test_may_measure_in_a_program_that_waits() {
        let text = "at_once = { computes = 1, waits = 2 }\n[part.a]\nseconds = 1\npool = \"waits\"\nmeasures = [\"lab::\"]\nalone = [\"lab::story\"]";
        let budget: Budget = toml::from_str(text).unwrap();
        assert_eq!(budget.pool("a", "moves::x").unwrap(), Pool::Waits);
        assert_eq!(budget.pool("a", "lab::x").unwrap(), Pool::Measures);
        assert_eq!(budget.pool("a", "lab::story::x").unwrap(), Pool::Alone);
        let error = budget.pool("b", "x").unwrap_err().to_string();
        assert!(error.contains("[part.\"b\"]"), "{error}");
    }
}

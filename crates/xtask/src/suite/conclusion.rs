//! The report at the end of a run: failed tests with their last lines, skipped tests, times, budgets, and the counts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use super::budget::{Budget, OVERRUN_MIN, Pool, SLACK};
use super::{Ending, Outcome, Request};

/// The number of last lines that the report shows of a failed test.
const LAST_LINES: usize = 30;
/// The number of slowest tests that the report shows.
const SLOWEST: usize = 10;
/// The words with which a test reports that it was skipped, or that the machine was too busy to judge what it measured.
const REMARKS: [&str; 2] = ["SKIPPED", NOT_JUDGED];
const NOT_JUDGED: &str = "NOT JUDGED";
/// The number of slowest tests that the report shows of a program that exceeds its budget.
const SLOWEST_OF_PART: usize = 5;

/// The outcomes of all tests of a run, and the report about them.
#[derive(Debug)]
pub struct Conclusion {
    outcomes: Vec<Outcome>,
    skipped: Vec<String>,
    budget: Budget,
    ran: Duration,
    checks_budget: bool,
}

/// The time that the tests of one program took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProgramTimes {
    tests: usize,
    took: Duration,
    processor: Duration,
}

impl ProgramTimes {
    /// The time that is compared with the budget, and its unit. A program that computes runs with a lower priority (nice(2)), so its
    /// wall time depends on the other programs; its processor time does not.
    fn charged_time(&self, pool: Option<Pool>) -> (Duration, &'static str) {
        match pool {
            Some(Pool::Computes) => (self.processor, "s of processor time"),
            _ => (self.took, "s"),
        }
    }
}

impl Conclusion {
    /// Makes the conclusion of a run. Budgets are checked if all tests were requested, on a machine that was not kept busy on purpose.
    pub fn new(outcomes: Vec<Outcome>, budget: Budget, ran: Duration, request: &Request) -> Conclusion {
        let skipped = outcomes.iter().flat_map(skipped_in).collect();
        let checks_budget = request.filters.is_empty() && !request.unhurried;
        Conclusion { outcomes, skipped, budget, ran, checks_budget }
    }

    /// Adds checks that were skipped on this machine.
    pub fn with_skipped(mut self, more: Vec<String>) -> Conclusion {
        self.skipped.extend(more);
        self
    }

    /// Whether there was a test, all tests passed, and all programs kept to their budgets.
    pub fn is_green(&self) -> bool {
        !self.outcomes.is_empty() && self.failed().next().is_none() && self.over_budget().is_empty()
    }

    /// The tests that did not pass.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.ending != Ending::Passed)
    }

    /// The report for people. Its last line has the counts.
    pub fn text(&self) -> String {
        let mut text = self.seconds();
        text.push_str(&self.over_budget());
        for outcome in self.failed() {
            text.push_str(&failure(outcome));
        }
        if !self.skipped.is_empty() {
            let count = self.skipped.len();
            let _ = writeln!(text, "\n{count} skipped or not judged: this machine lacks something, or was too busy:");
            self.skipped.iter().for_each(|line| text.extend([line, "\n"]));
        }
        let failed = self.failed().count();
        let _ =
            write!(text, "\n{} passed, {failed} failed, {} skipped", self.outcomes.len() - failed, self.skipped.len());
        text
    }

    /// A line for each test, slowest first.
    pub fn list(&self) -> String {
        slowest(self.outcomes.iter().collect(), usize::MAX)
    }

    /// A row of a table: passed, failed, skipped, seconds, processor seconds.
    pub fn cells(&self) -> [String; 5] {
        let failed = self.failed().count();
        let processor: Duration = self.outcomes.iter().map(|outcome| outcome.processor).sum();
        let passed = self.outcomes.len() - failed;
        let [ran, processor] = [self.ran, processor].map(|time| format!("{:.0}", time.as_secs_f64()));
        [passed.to_string(), failed.to_string(), self.skipped.len().to_string(), ran, processor]
    }

    fn parts(&self) -> BTreeMap<&str, ProgramTimes> {
        let mut parts: BTreeMap<&str, ProgramTimes> = BTreeMap::new();
        for outcome in &self.outcomes {
            let sum = parts.entry(&outcome.test.part).or_default();
            sum.tests += 1;
            sum.took += outcome.took;
            sum.processor += outcome.processor;
        }
        parts
    }

    /// The times of all programs, and of the slowest tests.
    fn seconds(&self) -> String {
        let mut text = String::from("\nprogram                     tests  seconds  of processor  budget\n");
        for (part, sum) in self.parts() {
            let budget = self.budget.part.get(part).map_or(0, |part| part.seconds);
            let (took, processor) = (sum.took.as_secs_f64(), sum.processor.as_secs_f64());
            let _ = writeln!(text, "{part:26} {:6} {took:8.1} {processor:13.1} {budget:7}", sum.tests);
        }
        text.push_str("\nslowest\n");
        let all: Vec<&Outcome> = self.outcomes.iter().collect();
        text.push_str(&slowest(all, SLOWEST));
        let _ = writeln!(text, "\nall of them took {:.0} s", self.ran.as_secs_f64());
        text
    }

    /// The programs that exceeded their budgets, with their slowest tests; empty if none did.
    fn over_budget(&self) -> String {
        let mut text = String::new();
        for (part, sum) in self.parts().into_iter().filter(|_| self.checks_budget) {
            let row = self.budget.part.get(part);
            let budget = row.map_or(0, |row| row.seconds);
            let (spent, unit) = sum.charged_time(row.map(|row| row.pool));
            if spent > (Duration::from_secs(budget) * SLACK).max(OVERRUN_MIN) {
                let spent = spent.as_secs_f64();
                let _ = writeln!(
                    text,
                    "\n{part} took {spent:.0} {unit}, more than {SLACK} times its {budget} s (crates/xtask/tests.toml). Its slowest tests:"
                );
                text.push_str(&slowest(
                    self.outcomes.iter().filter(|o| o.test.part == part).collect(),
                    SLOWEST_OF_PART,
                ));
            }
        }
        text
    }
}

/// The slowest of some tests, the slowest first.
fn slowest(mut outcomes: Vec<&Outcome>, count: usize) -> String {
    outcomes.sort_by_key(|outcome| Reverse(outcome.took));
    let rows = outcomes.iter().take(count).map(|outcome| {
        let (took, processor) = (outcome.took.as_secs_f64(), outcome.processor.as_secs_f64());
        format!("{took:6.1} s, {processor:5.1} s of processor time: {}\n", outcome.test.title())
    });
    rows.collect()
}

/// The output of a test.
fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&fs::read(&outcome.output).unwrap_or_default()).into_owned()
}

/// Whether a test passed, but reported that the machine was too busy for its measurement.
pub fn is_not_judged(outcome: &Outcome) -> bool {
    outcome.ending == Ending::Passed && printed(outcome).contains(NOT_JUDGED)
}

/// The lines of a test's output that report a skipped or unjudged part.
fn skipped_in(outcome: &Outcome) -> Vec<String> {
    let remark = |line: &str| REMARKS.iter().find_map(|word| Some(line[line.find(word)?..].to_owned()));
    printed(outcome).lines().filter_map(remark).collect()
}

fn failure(outcome: &Outcome) -> String {
    let printed = printed(outcome);
    let lines: Vec<&str> = printed.lines().collect();
    let mut text = String::new();
    let how = match outcome.ending {
        Ending::Hung => "was ended, because it hung",
        Ending::Failed | Ending::Passed => "failed",
    };
    let _ = writeln!(text, "\n{} {how} after {:.1} s:", outcome.test.title(), outcome.took.as_secs_f64());
    for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
        let _ = writeln!(text, "    {line}");
    }
    let _ = writeln!(text, "  whole output: {}", outcome.output.display());
    let _ = writeln!(text, "  only this test: {}", outcome.test.alone);
    text
}

#[cfg(test)]
mod tests;

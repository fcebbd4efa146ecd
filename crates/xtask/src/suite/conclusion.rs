//! What is said at the end: failed tests with their last lines, what was skipped, where the time went, budgets, the count.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use super::budget::{Budget, FORGIVEN, Pool, SLACK};
use super::{Ending, Outcome, Request};

/// How many of its last lines a failed test is told with.
const LAST_LINES: usize = 30;
const SLOWEST: usize = 10;
/// How tests begin to say that they did not do what they are there for.
const NOT_DONE: [&str; 2] = ["SKIPPED", NOT_JUDGED];
const NOT_JUDGED: &str = "NOT JUDGED";
/// Of a program that took too long.
const SLOWEST_OF_PART: usize = 5;

/// All that ran, and what is to be said of it.
#[derive(Debug)]
pub struct Conclusion {
    outcomes: Vec<Outcome>,
    skipped: Vec<String>,
    budget: Budget,
    ran: Duration,
    holds_budget: bool,
}

/// The time that the tests of one program took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProgramTimes {
    tests: usize,
    took: Duration,
    processor: Duration,
}

impl ProgramTimes {
    /// What is held against the budget, and its unit. A program that computes gives way to all others (nice(2)), so its wall time
    /// tells how busy the others were; its processor time is its own.
    fn charged(&self, pool: Option<Pool>) -> (Duration, &'static str) {
        match pool {
            Some(Pool::Computes) => (self.processor, "s of processor"),
            _ => (self.took, "s"),
        }
    }
}

impl Conclusion {
    /// Of what ran. Budgets are held where all of a program's tests did, on a machine that was not kept busy on purpose.
    pub fn new(outcomes: Vec<Outcome>, budget: Budget, ran: Duration, request: &Request) -> Conclusion {
        let skipped = outcomes.iter().flat_map(skipped_in).collect();
        let holds_budget = request.filters.is_empty() && !request.unhurried;
        Conclusion { outcomes, skipped, budget, ran, holds_budget }
    }

    /// With what else could not be done on this machine.
    pub fn with_skipped(mut self, more: Vec<String>) -> Conclusion {
        self.skipped.extend(more);
        self
    }

    /// Whether all tests passed, within the budgets, and there was one at all.
    pub fn is_green(&self) -> bool {
        !self.outcomes.is_empty() && self.failed().next().is_none() && self.overdrawn().is_empty()
    }

    /// Those that did not pass.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.ending != Ending::Passed)
    }

    /// The report for people. Its last line counts.
    pub fn text(&self) -> String {
        let mut text = self.seconds();
        text.push_str(&self.overdrawn());
        for outcome in self.failed() {
            text.push_str(&failure(outcome));
        }
        if !self.skipped.is_empty() {
            let _ = writeln!(text, "\n{} skipped or not judged, because this machine cannot:", self.skipped.len());
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

    /// Passed, failed, skipped, seconds, and those of processor: a row of a table.
    pub fn cells(&self) -> [String; 5] {
        let failed = self.failed().count();
        let processor: Duration = self.outcomes.iter().map(|outcome| outcome.processor).sum();
        let (passed, skipped) = (self.outcomes.len() - failed, self.skipped.len());
        let seconds = [self.ran, processor].map(|time| format!("{:.0}", time.as_secs_f64()));
        let [ran, processor] = seconds;
        [passed.to_string(), failed.to_string(), skipped.to_string(), ran, processor]
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

    /// Where the time went.
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

    /// Which programs took more than they may, with their slowest tests. Empty where none did.
    fn overdrawn(&self) -> String {
        let mut text = String::new();
        for (part, sum) in self.parts().into_iter().filter(|_| self.holds_budget) {
            let row = self.budget.part.get(part);
            let budget = row.map_or(0, |row| row.seconds);
            let (spent, unit) = sum.charged(row.map(|row| row.pool));
            if spent > (Duration::from_secs(budget) * SLACK).max(FORGIVEN) {
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

/// The slowest of them, slowest first.
fn slowest(mut outcomes: Vec<&Outcome>, count: usize) -> String {
    outcomes.sort_by_key(|outcome| Reverse(outcome.took));
    let rows = outcomes.iter().take(count).map(|outcome| {
        let (took, processor) = (outcome.took.as_secs_f64(), outcome.processor.as_secs_f64());
        format!("{took:6.1} s, {processor:5.1} of processor: {}\n", outcome.test.title())
    });
    rows.collect()
}

fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&fs::read(&outcome.output).unwrap_or_default()).into_owned()
}

/// Whether a test that passed said that this machine was too busy for what it measures.
pub fn is_not_judged(outcome: &Outcome) -> bool {
    outcome.ending == Ending::Passed && printed(outcome).contains(NOT_JUDGED)
}

/// What a test said that it could not do here, or not judge on a machine as busy as this.
fn skipped_in(outcome: &Outcome) -> Vec<String> {
    let said = |line: &str| NOT_DONE.iter().find_map(|word| Some(line[line.find(word)?..].to_owned()));
    printed(outcome).lines().filter_map(said).collect()
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
    let _ = writeln!(text, "  all of it: {}", outcome.output.display());
    let _ = writeln!(text, "  just this: {}", outcome.test.alone);
    text
}

#[cfg(test)]
mod tests;

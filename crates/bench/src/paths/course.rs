//! Shared by all parts: duration, rounds, the stop flag, and the wording that every table uses.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use lab::Lateness;

use super::bed::{Bed, Iperf3Run, PathSettings};
use super::iperf::Flow;
use super::load::LoadBaseline;
use crate::statistics::Spread;

/// The mark of a run in which the lab itself was the limit.
const MARK: &str = "emulator-limited";

/// The extent of the measurements.
#[derive(Clone, Debug)]
pub struct PathBench {
    /// How often the ceiling and the bottleneck are measured.
    pub rounds: u32,
    /// Seconds for which each cell of the grid is measured.
    pub seconds: u32,
    /// Cells of the grid that run side by side.
    pub side_by_side: usize,
    /// Set by a signal: the run ends.
    pub stop: Arc<AtomicBool>,
}

/// The report of one part.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Markdown.
    pub text: String,
    /// Runs that gave no number.
    pub failures: Vec<String>,
    /// The arguments of iperf3.
    pub commands: Vec<String>,
}

/// One run alone on the machine, and what others used meanwhile, in % of one processor.
#[derive(Debug)]
pub struct SoloRun {
    /// The run.
    pub run: Iperf3Run,
    /// The processor time of others, in % of one processor.
    pub others: f64,
}

impl PathBench {
    /// Runs one flow on a path of its own, with nothing beside it.
    pub fn alone(&self, way: &PathSettings, flow: &Flow) -> Result<SoloRun> {
        self.disturbed(way, flow, |_, _| Ok(()))
    }

    /// As `alone`; `beside` may change the path meanwhile.
    pub fn disturbed(
        &self,
        way: &PathSettings,
        flow: &Flow,
        beside: impl Fn(&Bed<'_>, f64) -> Result<()>,
    ) -> Result<SoloRun> {
        let since = LoadBaseline::now()?;
        let bed = Bed::up("bench", way, &self.stop)?;
        let run = bed.run(flow, |elapsed| beside(&bed, elapsed))?;
        drop(bed);
        Ok(SoloRun { run, others: since.others_percent()? })
    }

    /// A run that failed is told and noted, and the next one has its turn; but not after a signal.
    pub fn note<T>(&self, what: &str, result: Result<T>, section: &mut Section) -> Result<Option<T>> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        Ok(result.inspect_err(|error| section.fail(format!("{what}: {error:#}"))).ok())
    }
}

impl Section {
    /// Begins a part with a heading and an introduction.
    pub fn new(title: &str, words: &str) -> Section {
        println!("\n{title}");
        Section { text: format!("\n## {title}\n\n{words}\n"), ..Section::default() }
    }

    /// Adds a line.
    pub fn line(&mut self, line: impl Display) {
        self.text += &format!("{line}\n");
    }

    /// Adds the head of a table.
    pub fn head(&mut self, columns: &[&str]) {
        self.line(format!("\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len())));
    }

    /// Adds a row, and prints it.
    pub fn row(&mut self, cells: &[String]) {
        self.line(format!("| {} |", cells.join(" | ")));
    }

    /// Adds the arguments of iperf3, each only once.
    pub fn command(&mut self, flow: &Flow) {
        let command = flow.shown();
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }

    /// Notes a run that gave no number.
    pub fn fail(&mut self, what: String) {
        println!("  FAILED  {what}");
        self.failures.push(what);
    }
}

/// The text of a table about whether the lab was the limit in any of several runs.
pub fn mark<'a>(limited: impl Iterator<Item = &'a Option<String>>) -> String {
    let limited: Vec<&Option<String>> = limited.collect();
    let reasons: Vec<&str> = limited.iter().filter_map(|reason| reason.as_deref()).collect();
    match reasons.as_slice() {
        [] => "-".to_owned(),
        [reason] if limited.len() == 1 => format!("**{MARK}**: {reason}"),
        [reason, ..] => format!("**{MARK}** in {} of {} runs: {reason}", reasons.len(), limited.len()),
    }
}

/// How late packets were, in ms: median, 99 %, largest.
pub fn late(lateness: &Lateness) -> [f64; 3] {
    [lateness.quantile(0.5), lateness.quantile(0.99), lateness.max()].map(|late| late.as_secs_f64() * 1e3)
}

/// A median with its bounds.
pub fn shown(spread: Spread, digits: usize) -> String {
    let Spread { median, least, most } = spread;
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_why_and_how_often() {
        let late = Some("late".to_owned());
        assert_eq!(mark([&None, &None].into_iter()), "-");
        assert_eq!(mark([&late].into_iter()), "**emulator-limited**: late");
        assert_eq!(mark([&None, &late, &late].into_iter()), "**emulator-limited** in 2 of 3 runs: late");
    }

    #[test]
    fn failures_are_noted_and_signals_end() {
        let course = PathBench { rounds: 1, seconds: 1, side_by_side: 1, stop: Arc::default() };
        let mut section = Section::new("Part", "Words.");
        assert_eq!(course.note("a", Ok(3), &mut section).unwrap(), Some(3));
        let failed: Result<u32> = Err(anyhow::anyhow!("no route"));
        assert_eq!(course.note("b", failed, &mut section).unwrap(), None);
        assert_eq!(section.failures, ["b: no route"]);
        course.stop.store(true, Ordering::Relaxed);
        assert!(course.note("c", Ok(1), &mut section).is_err());
    }
}

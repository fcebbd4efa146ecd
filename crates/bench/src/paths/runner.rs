//! What all parts share: their duration and rounds, the stop flag, sections of the report, and the texts of tables.

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

/// The extent of the measurements. Runs flows over paths.
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

/// A run beside which no other run of the bench took place.
#[derive(Debug)]
pub struct SoloRun {
    /// The run.
    pub run: Iperf3Run,
    /// The processor time of others, in % of one processor.
    pub others_percent: f64,
}

impl PathBench {
    /// Runs one flow on a path of its own, with nothing beside it.
    ///
    /// # Errors
    /// The lab or iperf3 fails, or a signal stopped the run.
    pub fn run_alone(&self, path: &PathSettings, flow: &Flow) -> Result<SoloRun> {
        self.run_disturbed(path, flow, |_, _| Ok(()))
    }

    /// Runs one flow like [`PathBench::run_alone`], and calls `meanwhile` with the seconds since the start: it may change the path.
    ///
    /// # Errors
    /// The lab or iperf3 fails, `meanwhile` fails, or a signal stopped the run.
    pub fn run_disturbed(
        &self,
        path: &PathSettings,
        flow: &Flow,
        meanwhile: impl Fn(&Bed<'_>, f64) -> Result<()>,
    ) -> Result<SoloRun> {
        let since = LoadBaseline::now()?;
        let bed = Bed::up("bench", path, &self.stop)?;
        let run = bed.run(flow, |elapsed| meanwhile(&bed, elapsed))?;
        drop(bed);
        Ok(SoloRun { run, others_percent: since.others_percent()? })
    }

    /// The value of a run; none if the run failed, which is printed and noted in the section, so that the next run can follow.
    ///
    /// # Errors
    /// A signal stopped the run.
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

    /// Adds a row of a table.
    pub fn row(&mut self, cells: &[String]) {
        self.line(format!("| {} |", cells.join(" | ")));
    }

    /// Adds the arguments of iperf3, each only once.
    pub fn command(&mut self, flow: &Flow) {
        let command = flow.command_line();
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

/// The text of a table that says in how many runs the lab was the limit, and why.
pub fn mark<'a>(limited: impl Iterator<Item = &'a Option<String>>) -> String {
    let limited: Vec<&Option<String>> = limited.collect();
    let reasons: Vec<&str> = limited.iter().filter_map(|reason| reason.as_deref()).collect();
    match reasons.as_slice() {
        [] => "-".to_owned(),
        [reason] if limited.len() == 1 => format!("**{MARK}**: {reason}"),
        [reason, ..] => format!("**{MARK}** in {} of {} runs: {reason}", reasons.len(), limited.len()),
    }
}

/// The lateness of packets in ms: median, 99th percentile, largest.
pub fn lateness_ms(lateness: &Lateness) -> [f64; 3] {
    [lateness.quantile(0.5), lateness.quantile(0.99), lateness.max()].map(|late| late.as_secs_f64() * 1e3)
}

/// A median with the least and the largest value, as text.
pub fn spread_text(spread: Spread, digits: usize) -> String {
    let Spread { median, least, most } = spread;
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_why_and_in_how_many_runs_the_lab_was_the_limit() {
        let late = Some("late".to_owned());
        assert_eq!(mark([&None, &None].into_iter()), "-");
        assert_eq!(mark([&late].into_iter()), "**emulator-limited**: late");
        assert_eq!(mark([&None, &late, &late].into_iter()), "**emulator-limited** in 2 of 3 runs: late");
    }

    #[test]
    fn a_failed_run_is_noted_and_a_signal_stops_the_bench() {
        let bench = PathBench { rounds: 1, seconds: 1, side_by_side: 1, stop: Arc::default() };
        let mut section = Section::new("Part", "Words.");
        assert_eq!(bench.note("a", Ok(3), &mut section).unwrap(), Some(3));
        let failed: Result<u32> = Err(anyhow::anyhow!("no route"));
        assert_eq!(bench.note("b", failed, &mut section).unwrap(), None);
        assert_eq!(section.failures, ["b: no route"]);
        bench.stop.store(true, Ordering::Relaxed);
        assert!(bench.note("c", Ok(1), &mut section).is_err());
    }
}

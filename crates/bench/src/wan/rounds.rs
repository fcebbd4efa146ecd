//! Rounds: all tools of a cell run one after the other, then all again. The result is an outcome for each cell.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::bed::{RunEnd, ToolRun, WanBench};
use super::cell::Cell;
use super::plan::{CellRounds, Terms, estimate_s};
use super::tool::{Kind, Tool};
use crate::statistics::{Spread, median, spread};

/// The runs of a tool in a cell.
#[derive(Clone, Debug)]
pub struct ToolRuns {
    /// The tool.
    pub tool: Tool,
    /// Its runs.
    pub runs: Vec<ToolRun>,
}

/// A cell with all its tools.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The cell.
    pub cell: Cell,
    /// Bytes of the set.
    pub bytes: u64,
    /// The tools, in the order of a round.
    pub tool_runs: Vec<ToolRuns>,
}

/// The verdict on all runs of a tool in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every run delivered; its times, seconds.
    Done(Spread),
    /// A run was ended at the cap; the share of the bytes that had arrived.
    Capped(Option<f64>),
    /// A run did not deliver; why.
    Failed(String),
}

impl ToolRuns {
    /// The verdict on all its runs: a tool that failed once has failed, a tool that was capped once is capped.
    pub fn verdict(&self) -> Option<Verdict> {
        let failed = self.runs.iter().find_map(|run| match &run.end {
            RunEnd::Failed(reason) => Some(Verdict::Failed(reason.clone())),
            _ => None,
        });
        let capped = self.runs.iter().find_map(|run| match run.end {
            RunEnd::Capped(share) => Some(Verdict::Capped(share)),
            _ => None,
        });
        let done = || spread(self.runs.iter().map(|run| run.wall_s)).map(Verdict::Done);
        failed.or(capped).or_else(done)
    }

    /// The median time, if every run delivered.
    pub fn wall_s(&self) -> Option<f64> {
        match self.verdict()? {
            Verdict::Done(spread) => Some(spread.median),
            _ => None,
        }
    }

    /// CPU seconds of client and server per 10^9 bytes, medians.
    pub fn cpu_s_per_gb(&self, bytes: u64) -> Option<[f64; 2]> {
        let gb = bytes as f64 / 1e9;
        let median_of = |value: fn(&ToolRun) -> f64| median(self.runs.iter().map(value));
        Some([median_of(|run| run.client_s)? / gb, median_of(|run| run.server_s)? / gb])
    }

    /// Whether another run is worthwhile: every run so far delivered.
    fn is_worth_another_run(&self) -> bool {
        self.runs.iter().all(|run| run.end == RunEnd::Done)
    }
}

impl Outcome {
    /// The runs of a tool without BBR as the site's default.
    pub fn runs_of(&self, kind: Kind) -> Option<&ToolRuns> {
        self.tool_runs.iter().find(|tool_runs| tool_runs.tool == Tool { kind, is_bbr: false })
    }
}

/// The results of the whole bench.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Cells that were run, in their order.
    pub outcomes: Vec<Outcome>,
    /// Cells for which there was no time.
    pub left_out: Vec<Cell>,
}

/// Runs cells until the time is over; calls `after_cell` after each cell.
///
/// # Errors
/// Files cannot be made or removed, `after_cell` fails, or a signal stopped the run. A tool that fails is a result.
pub fn run(
    bench: &WanBench,
    planned: &[CellRounds],
    kinds: &[Kind],
    end: Option<Instant>,
    mut after_cell: impl FnMut(&Results) -> Result<()>,
) -> Result<Results> {
    let terms = Terms { bottleneck: bench.bottleneck(), cap_s: bench.cap.as_secs_f64(), divide: bench.stage.divide };
    let mut results = Results::default();
    let started = Instant::now();
    for (at, cell_rounds) in planned.iter().enumerate() {
        let expected = Duration::from_secs_f64(estimate_s(*cell_rounds, kinds, terms));
        if end.is_some_and(|end| Instant::now() + expected > end) {
            println!("\n{}: LEFT OUT, there is no time for it", cell_rounds.cell);
            results.left_out.push(cell_rounds.cell);
            continue;
        }
        println!(
            "\n{} ({} of {}, {:.0} s so far)",
            cell_rounds.cell,
            at + 1,
            planned.len(),
            started.elapsed().as_secs_f64()
        );
        results.outcomes.push(cell(bench, *cell_rounds, kinds)?);
        if !planned[at + 1..].iter().any(|later| later.cell.set == cell_rounds.cell.set) {
            bench.stage.remove(cell_rounds.cell.set)?;
        }
        after_cell(&results)?;
    }
    Ok(results)
}

fn cell(bench: &WanBench, cell_rounds: CellRounds, kinds: &[Kind]) -> Result<Outcome> {
    let cell = cell_rounds.cell;
    bench.stage.make(cell.set)?;
    let without_runs = |tool| ToolRuns { tool, runs: Vec::new() };
    let mut tool_runs: Vec<ToolRuns> = Tool::of(cell, kinds).into_iter().map(without_runs).collect();
    let bytes = cell.set.bytes(bench.stage.divide);
    for round in 1..=cell_rounds.rounds {
        for tool_runs in tool_runs.iter_mut().filter(|tool_runs| tool_runs.is_worth_another_run()) {
            let run = bench.run(tool_runs.tool, cell, round);
            // An error of one run, such as a server that does not start, does not stop the other tools.
            let run = match run {
                Ok(run) => run,
                Err(error) => {
                    bench.check_not_stopped()?;
                    failed(&error)
                }
            };
            println!("{round}/{}  {:<28} {}", cell_rounds.rounds, tool_runs.tool.title(), line(&run, bytes));
            tool_runs.runs.push(run);
        }
    }
    Ok(Outcome { cell, bytes, tool_runs })
}

fn failed(error: &anyhow::Error) -> ToolRun {
    ToolRun {
        end: RunEnd::Failed(format!("{error:#}")),
        wall_s: 0.0,
        client_s: 0.0,
        server_s: 0.0,
        others_percent: 0.0,
        limited: None,
        commands: Default::default(),
    }
}

/// The progress line of a run.
fn line(run: &ToolRun, bytes: u64) -> String {
    let end = match &run.end {
        RunEnd::Done => format!("{:7.2} s, {:6.1} Mbit/s", run.wall_s, bytes as f64 * 8e-6 / run.wall_s),
        RunEnd::Capped(Some(share)) => format!("capped, {:.1} % had arrived", share * 100.0),
        RunEnd::Capped(None) => "capped".to_owned(),
        RunEnd::Failed(reason) => format!("FAILED: {reason}"),
    };
    let limited = run.limited.as_ref().map(|why| format!(", EMULATOR-LIMITED: {why}")).unwrap_or_default();
    format!("{end}, CPU {:.2} + {:.2} s, others {:.0} %{limited}", run.client_s, run.server_s, run.others_percent)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cell::{Set, all};
    use super::super::ideal::Bottleneck;
    use super::*;

    /// A run with this end.
    pub fn run_of(end: RunEnd, wall_s: f64) -> ToolRun {
        ToolRun { end, wall_s, client_s: 0.5, server_s: 1.0, commands: ["serve".into(), "copy".into()], ..failed_run() }
    }

    fn failed_run() -> ToolRun {
        failed(&anyhow::anyhow!("not run"))
    }

    /// Three runs of a tool that each took `wall_s`.
    pub fn tool_runs_of(kind: Kind, wall_s: f64) -> ToolRuns {
        let runs = vec![run_of(RunEnd::Done, wall_s); 3];
        ToolRuns { tool: Tool { kind, is_bbr: false }, runs }
    }

    /// The whole matrix: Longhaul at 97 % of the ideal, every other tool at half of it.
    pub fn samples() -> Results {
        let line = Bottleneck { rate_bit_s: 1e9, mtu: 9000 };
        let outcome = |cell: Cell| {
            let bytes = cell.set.bytes(1);
            let ideal_s = line.ideal_s(bytes, cell.rtt_s());
            let tool_runs = |tool: Tool| {
                let share = if tool.kind == Kind::Longhaul { 0.97 } else { 0.5 };
                ToolRuns { tool, ..tool_runs_of(tool.kind, ideal_s / share) }
            };
            Outcome { cell, bytes, tool_runs: Tool::of(cell, &Kind::all()).into_iter().map(tool_runs).collect() }
        };
        Results { outcomes: all().into_iter().map(outcome).collect(), left_out: vec![Cell::new(Set::Large, 0, 0)] }
    }

    #[test]
    fn one_capped_or_failed_run_decides_the_verdict_on_a_tool() {
        let mut tool_runs = tool_runs_of(Kind::Xrdcp, 12.0);
        assert_eq!(tool_runs.wall_s(), Some(12.0));
        assert_eq!(tool_runs.cpu_s_per_gb(500_000_000), Some([1.0, 2.0]));
        assert!(tool_runs.is_worth_another_run());
        tool_runs.runs.push(run_of(RunEnd::Capped(Some(0.25)), 60.0));
        assert_eq!(tool_runs.verdict(), Some(Verdict::Capped(Some(0.25))));
        assert!(!tool_runs.is_worth_another_run() && tool_runs.wall_s().is_none());
        tool_runs.runs.push(run_of(RunEnd::Failed("no room".into()), 1.0));
        assert_eq!(tool_runs.verdict(), Some(Verdict::Failed("no room".into())));
        tool_runs.runs.clear();
        assert_eq!(tool_runs.verdict(), None);
    }

    #[test]
    fn the_progress_line_of_a_run_has_its_end_and_rate() {
        assert!(
            line(&run_of(RunEnd::Done, 10.0), 1_000_000_000).starts_with("  10.00 s,  800.0 Mbit/s, CPU 0.50 + 1.00")
        );
        assert!(line(&run_of(RunEnd::Capped(Some(0.5)), 60.0), 1).contains("50.0 % had arrived"));
        assert!(line(&run_of(RunEnd::Failed("no route".into()), 0.0), 1).contains("FAILED: no route"));
    }
}

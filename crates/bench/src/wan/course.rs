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
    pub lanes: Vec<ToolRuns>,
}

/// The runs of a tool in a cell as one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every run delivered.
    Done(Spread),
    /// A run was ended at the cap; the share that had arrived.
    Capped(Option<f64>),
    /// A run did not deliver.
    Failed(String),
}

impl ToolRuns {
    /// The verdict on all its runs: a tool that failed once has failed, a tool that was capped once is capped.
    pub fn verdict(&self) -> Option<Verdict> {
        let failed = self.runs.iter().find_map(|run| match &run.end {
            RunEnd::Failed(said) => Some(Verdict::Failed(said.clone())),
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
        let of = |value: fn(&ToolRun) -> f64| median(self.runs.iter().map(value));
        Some([of(|run| run.client_s)? / gb, of(|run| run.server_s)? / gb])
    }

    /// Whether another run is worthwhile.
    fn goes_on(&self) -> bool {
        self.runs.iter().all(|run| run.end == RunEnd::Done)
    }
}

impl Outcome {
    /// The runs of a tool without BBR as the site's default.
    pub fn lane(&self, kind: Kind) -> Option<&ToolRuns> {
        self.lanes.iter().find(|lane| lane.tool == Tool { kind, is_bbr: false })
    }
}

/// The results of the whole bench.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Cells that were run, in their order.
    pub outcomes: Vec<Outcome>,
    /// Cells for which there was no time.
    pub left: Vec<Cell>,
}

/// Runs cells until the time is over; calls `told` after each cell.
pub fn run(
    ground: &WanBench,
    turns: &[CellRounds],
    kinds: &[Kind],
    end: Option<Instant>,
    mut told: impl FnMut(&Results) -> Result<()>,
) -> Result<Results> {
    let terms = Terms { line: ground.line(), cap_s: ground.cap.as_secs_f64(), divide: ground.stage.divide };
    let mut results = Results::default();
    let started = Instant::now();
    for (at, turn) in turns.iter().enumerate() {
        let expected = Duration::from_secs_f64(estimate_s(*turn, kinds, terms));
        if end.is_some_and(|end| Instant::now() + expected > end) {
            println!("\n{}: LEFT OUT, there is no time for it", turn.cell);
            results.left.push(turn.cell);
            continue;
        }
        println!("\n{} ({} of {}, {:.0} s so far)", turn.cell, at + 1, turns.len(), started.elapsed().as_secs_f64());
        results.outcomes.push(cell(ground, *turn, kinds)?);
        if !turns[at + 1..].iter().any(|later| later.cell.set == turn.cell.set) {
            ground.stage.remove(turn.cell.set)?;
        }
        told(&results)?;
    }
    Ok(results)
}

fn cell(ground: &WanBench, turn: CellRounds, kinds: &[Kind]) -> Result<Outcome> {
    let cell = turn.cell;
    ground.stage.make(cell.set)?;
    let lane = |tool| ToolRuns { tool, runs: Vec::new() };
    let mut lanes: Vec<ToolRuns> = Tool::of(cell, kinds).into_iter().map(lane).collect();
    let bytes = cell.set.bytes(ground.stage.divide);
    for round in 1..=turn.rounds {
        for lane in lanes.iter_mut().filter(|lane| lane.goes_on()) {
            let run = ground.run(lane.tool, cell, round);
            // An error of one run, such as a server that does not start, does not stop the other tools.
            let run = match run {
                Ok(run) => run,
                Err(error) => {
                    ground.go_on()?;
                    failed(&error)
                }
            };
            println!("{round}/{}  {:<28} {}", turn.rounds, lane.tool.title(), line(&run, bytes));
            lane.runs.push(run);
        }
    }
    Ok(Outcome { cell, bytes, lanes })
}

fn failed(error: &anyhow::Error) -> ToolRun {
    ToolRun {
        end: RunEnd::Failed(format!("{error:#}")),
        wall_s: 0.0,
        client_s: 0.0,
        server_s: 0.0,
        others: 0.0,
        limited: None,
        commands: Default::default(),
    }
}

/// The line that is printed about a run.
fn line(run: &ToolRun, bytes: u64) -> String {
    let what = match &run.end {
        RunEnd::Done => format!("{:7.2} s, {:6.1} Mbit/s", run.wall_s, bytes as f64 * 8e-6 / run.wall_s),
        RunEnd::Capped(Some(share)) => format!("capped, {:.1} % had arrived", share * 100.0),
        RunEnd::Capped(None) => "capped".to_owned(),
        RunEnd::Failed(said) => format!("FAILED: {said}"),
    };
    let limited = run.limited.as_ref().map(|why| format!(", EMULATOR-LIMITED: {why}")).unwrap_or_default();
    format!("{what}, CPU {:.2} + {:.2} s, others {:.0} %{limited}", run.client_s, run.server_s, run.others)
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
    pub fn lane_of(kind: Kind, wall_s: f64) -> ToolRuns {
        let runs = vec![run_of(RunEnd::Done, wall_s); 3];
        ToolRuns { tool: Tool { kind, is_bbr: false }, runs }
    }

    /// The whole matrix: Longhaul at 97 % of the ideal, every other tool at half of it.
    pub fn samples() -> Results {
        let line = Bottleneck { rate_bit_s: 1e9, mtu: 9000 };
        let outcome = |cell: Cell| {
            let bytes = cell.set.bytes(1);
            let ideal_s = line.ideal_s(bytes, cell.rtt_s());
            let lane = |tool: Tool| {
                let share = if tool.kind == Kind::Longhaul { 0.97 } else { 0.5 };
                ToolRuns { tool, ..lane_of(tool.kind, ideal_s / share) }
            };
            Outcome { cell, bytes, lanes: Tool::of(cell, &Kind::all()).into_iter().map(lane).collect() }
        };
        Results { outcomes: all().into_iter().map(outcome).collect(), left: vec![Cell::new(Set::Large, 0, 0)] }
    }

    #[test]
    fn one_bad_run_spoils_a_lane() {
        let mut lane = lane_of(Kind::Xrdcp, 12.0);
        assert_eq!(lane.wall_s(), Some(12.0));
        assert_eq!(lane.cpu_s_per_gb(500_000_000), Some([1.0, 2.0]));
        assert!(lane.goes_on());
        lane.runs.push(run_of(RunEnd::Capped(Some(0.25)), 60.0));
        assert_eq!(lane.verdict(), Some(Verdict::Capped(Some(0.25))));
        assert!(!lane.goes_on() && lane.wall_s().is_none());
        lane.runs.push(run_of(RunEnd::Failed("no room".into()), 1.0));
        assert_eq!(lane.verdict(), Some(Verdict::Failed("no room".into())));
        lane.runs.clear();
        assert_eq!(lane.verdict(), None);
    }

    #[test]
    fn runs_are_told_in_a_line() {
        assert!(
            line(&run_of(RunEnd::Done, 10.0), 1_000_000_000).starts_with("  10.00 s,  800.0 Mbit/s, CPU 0.50 + 1.00")
        );
        assert!(line(&run_of(RunEnd::Capped(Some(0.5)), 60.0), 1).contains("50.0 % had arrived"));
        assert!(line(&run_of(RunEnd::Failed("no route".into()), 0.0), 1).contains("FAILED: no route"));
    }
}

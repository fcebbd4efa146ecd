//! Turns: all tools of a cell, one after the other, then all again. What was measured comes out as outcomes.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::bed::{End, Ground, Run};
use super::cell::Cell;
use super::plan::{Terms, Turn, estimate_s};
use super::tool::{Kind, Tool};
use crate::statistics::{Spread, median, spread};

/// What a tool reached in a cell.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Who.
    pub tool: Tool,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// A cell with all its tools.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What.
    pub cell: Cell,
    /// Bytes of the set.
    pub bytes: u64,
    /// The tools, in the order of a round.
    pub lanes: Vec<Lane>,
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

impl Lane {
    /// All its runs as one: what failed once has failed, what was capped once is capped.
    pub fn verdict(&self) -> Option<Verdict> {
        let failed = self.runs.iter().find_map(|run| match &run.end {
            End::Failed(said) => Some(Verdict::Failed(said.clone())),
            _ => None,
        });
        let capped = self.runs.iter().find_map(|run| match run.end {
            End::Capped(share) => Some(Verdict::Capped(share)),
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
        let of = |value: fn(&Run) -> f64| median(self.runs.iter().map(value));
        Some([of(|run| run.client_s)? / gb, of(|run| run.server_s)? / gb])
    }

    /// Whether another run would tell more.
    fn goes_on(&self) -> bool {
        self.runs.iter().all(|run| run.end == End::Done)
    }
}

impl Outcome {
    /// A tool's lane, without BBR as the site's default.
    pub fn lane(&self, kind: Kind) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.tool == Tool { kind, is_bbr: false })
    }
}

/// What a whole run came to.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Cells that were run, in their order.
    pub outcomes: Vec<Outcome>,
    /// Cells for which there was no time.
    pub left: Vec<Cell>,
}

/// Runs turns until the time is over; `told` hears of each cell that is done.
pub fn run(
    ground: &Ground,
    turns: &[Turn],
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

fn cell(ground: &Ground, turn: Turn, kinds: &[Kind]) -> Result<Outcome> {
    let cell = turn.cell;
    ground.stage.make(cell.set)?;
    let lane = |tool| Lane { tool, runs: Vec::new() };
    let mut lanes: Vec<Lane> = Tool::of(cell, kinds).into_iter().map(lane).collect();
    let bytes = cell.set.bytes(ground.stage.divide);
    for round in 1..=turn.rounds {
        for lane in lanes.iter_mut().filter(|lane| lane.goes_on()) {
            let run = ground.run(lane.tool, cell, round);
            // A server that does not come up, for example: the others go on.
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

fn failed(error: &anyhow::Error) -> Run {
    Run {
        end: End::Failed(format!("{error:#}")),
        wall_s: 0.0,
        client_s: 0.0,
        server_s: 0.0,
        others: 0.0,
        limited: None,
        commands: Default::default(),
    }
}

/// A run for who watches.
fn line(run: &Run, bytes: u64) -> String {
    let what = match &run.end {
        End::Done => format!("{:7.2} s, {:6.1} Mbit/s", run.wall_s, bytes as f64 * 8e-6 / run.wall_s),
        End::Capped(Some(share)) => format!("capped, {:.1} % had arrived", share * 100.0),
        End::Capped(None) => "capped".to_owned(),
        End::Failed(said) => format!("FAILED: {said}"),
    };
    let limited = run.limited.as_ref().map(|why| format!(", EMULATOR-LIMITED: {why}")).unwrap_or_default();
    format!("{what}, CPU {:.2} + {:.2} s, others {:.0} %{limited}", run.client_s, run.server_s, run.others)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cell::{Set, all};
    use super::super::ideal::Line;
    use super::*;

    /// A run that ended so.
    pub fn run_of(end: End, wall_s: f64) -> Run {
        Run { end, wall_s, client_s: 0.5, server_s: 1.0, commands: ["serve".into(), "copy".into()], ..failed_run() }
    }

    fn failed_run() -> Run {
        failed(&anyhow::anyhow!("not run"))
    }

    /// A lane whose runs all took so long.
    pub fn lane_of(kind: Kind, wall_s: f64) -> Lane {
        let runs = vec![run_of(End::Done, wall_s); 3];
        Lane { tool: Tool { kind, is_bbr: false }, runs }
    }

    /// The whole matrix: Longhaul at 97 % of what the path gives, everybody else at half of it.
    pub fn samples() -> Results {
        let line = Line { rate_bit_s: 1e9, mtu: 9000 };
        let outcome = |cell: Cell| {
            let bytes = cell.set.bytes(1);
            let ideal_s = line.ideal_s(bytes, cell.rtt_s());
            let lane = |tool: Tool| {
                let share = if tool.kind == Kind::Longhaul { 0.97 } else { 0.5 };
                Lane { tool, ..lane_of(tool.kind, ideal_s / share) }
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
        lane.runs.push(run_of(End::Capped(Some(0.25)), 60.0));
        assert_eq!(lane.verdict(), Some(Verdict::Capped(Some(0.25))));
        assert!(!lane.goes_on() && lane.wall_s().is_none());
        lane.runs.push(run_of(End::Failed("no room".into()), 1.0));
        assert_eq!(lane.verdict(), Some(Verdict::Failed("no room".into())));
        lane.runs.clear();
        assert_eq!(lane.verdict(), None);
    }

    #[test]
    fn runs_are_told_in_a_line() {
        assert!(line(&run_of(End::Done, 10.0), 1_000_000_000).starts_with("  10.00 s,  800.0 Mbit/s, CPU 0.50 + 1.00"));
        assert!(line(&run_of(End::Capped(Some(0.5)), 60.0), 1).contains("50.0 % had arrived"));
        assert!(line(&run_of(End::Failed("no route".into()), 0.0), 1).contains("FAILED: no route"));
    }
}

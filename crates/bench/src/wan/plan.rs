//! The plan: which cells are run, how often, and whether they fit the time.
//!
//! Estimates of the time are rough. They only choose cells; no report shows them.

use model::laws;

use super::cell::{Cell, LONGEST_US, RTTS_US, Set};
use super::ideal::Bottleneck;
use super::tool::{Kind, Tool};

/// The overhead of each run in seconds: starting a lab and a server, sync, removing earlier files.
const OVERHEAD_S: f64 = 2.5;

/// A cell, and how often each tool runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRounds {
    /// The cell.
    pub cell: Cell,
    /// Rounds.
    pub rounds: u32,
}

/// What the duration of a run depends on, besides its cell and tool.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// The longest that a run may take, s.
    pub cap_s: f64,
    /// The divisor of the sets' sizes.
    pub divide: u64,
}

/// All cells, the most important first: those with targets (three rounds each), then those of the picture, then the rest of the
/// matrix.
pub fn ranked() -> Vec<CellRounds> {
    let mut planned: Vec<CellRounds> = Vec::new();
    let mut add = |cell: Cell, rounds: u32| {
        if !planned.iter().any(|cell_rounds| cell_rounds.cell == cell) {
            planned.push(CellRounds { cell, rounds });
        }
    };
    for loss_ppm in [0, 46, 3_000] {
        add(Cell::new(Set::Large, LONGEST_US, loss_ppm), 3);
    }
    for set in [Set::Small, Set::Mixed, Set::Whole] {
        add(Cell::new(set, LONGEST_US, 0), 3);
    }
    add(Cell::new(Set::Split, LONGEST_US, 0), 3);
    add(Cell::new(Set::Split, LONGEST_US, 46), 3);
    add(Cell::new(Set::Medium, LONGEST_US, 0), 3);
    // The picture: all sets without loss, the ends of the axis first.
    for rtt_us in [0, 56_000, 7_500, 142_000] {
        Set::MATRIX.into_iter().for_each(|set| add(Cell::new(set, rtt_us, 0), 1));
    }
    for loss_ppm in [46, 3_000] {
        for rtt_us in RTTS_US.into_iter().rev() {
            Set::MATRIX.into_iter().for_each(|set| add(Cell::new(set, rtt_us, loss_ppm), 1));
        }
    }
    planned
}

/// A few cells for a quick trial.
pub fn quick() -> Vec<CellRounds> {
    let cells = [
        Cell::new(Set::Large, 0, 0),
        Cell::new(Set::Large, LONGEST_US, 46),
        Cell::new(Set::Small, 56_000, 0),
        Cell::new(Set::Mixed, 56_000, 0),
        Cell::new(Set::Split, LONGEST_US, 0),
    ];
    cells.map(|cell| CellRounds { cell, rounds: 1 }).into()
}

/// Chooses cells in their order while they fit the time; returns those that fit and those that do not. A later, shorter cell may fit
/// after one that did not.
pub fn fit(planned: &[CellRounds], budget_s: f64, kinds: &[Kind], terms: Terms) -> (Vec<CellRounds>, Vec<CellRounds>) {
    let mut left_s = budget_s;
    planned.iter().partition(|cell_rounds| {
        let takes_s = estimate_s(**cell_rounds, kinds, terms);
        let fits = takes_s <= left_s;
        if fits {
            left_s -= takes_s;
        }
        fits
    })
}

/// An estimate of the seconds that all rounds of a cell take. A tool that reaches the cap is not run again.
pub fn estimate_s(cell_rounds: CellRounds, kinds: &[Kind], terms: Terms) -> f64 {
    let tools = Tool::of(cell_rounds.cell, kinds);
    let one = |tool: Tool| {
        let takes_s = run_s(tool, cell_rounds.cell, terms);
        let runs = if takes_s >= terms.cap_s { 1 } else { cell_rounds.rounds };
        f64::from(runs) * (takes_s + OVERHEAD_S)
    };
    tools.into_iter().map(one).sum()
}

/// An estimate of the seconds of one run: the longest of the ideal time, the time at CUBIC's rate under the loss, and the round trips
/// that the files wait for.
fn run_s(tool: Tool, cell: Cell, terms: Terms) -> f64 {
    let bytes = cell.set.bytes(terms.divide);
    let ideal_s = terms.bottleneck.ideal_s(bytes, cell.rtt_s());
    if tool.kind == Kind::Iperf3 {
        // iperf3 sends for a fixed time.
        return ideal_s.min(terms.cap_s);
    }
    // The number of streams, and the round trips that a tool waits for each file: from trials of each tool.
    let (streams, trips) = match tool.kind {
        Kind::Longhaul | Kind::LonghaulMemory | Kind::Iperf3 => (f64::INFINITY, 0.0),
        Kind::Xrdcp => (4.0, 1.0),
        Kind::XrdcpTuned => (8.0, 0.0),
        Kind::Gridftp => (1.0, 5.5),
        Kind::GridftpTuned | Kind::Fdt => (8.0, 0.1),
        Kind::Rclone => (16.0, 0.6),
        Kind::XrdcpMany | Kind::GridftpMany => (16.0, 0.5),
    };
    let streams = if !cell.set.is_tree() && matches!(tool.kind, Kind::Xrdcp | Kind::Rclone) { 1.0 } else { streams };
    let loss = f64::from(cell.loss_ppm) / 1e6;
    let lossy_s = match cell.loss_ppm {
        0 => 0.0,
        _ if tool.is_bbr => 0.0,
        _ => {
            let rtt_s = cell.rtt_s().max(1e-3);
            bytes as f64 * 8.0 / (streams * laws::cubic_bit_s(terms.bottleneck.mss(), rtt_s, loss))
        }
    };
    let waits_s =
        if cell.set.is_tree() { cell.set.files(terms.divide).len() as f64 * trips * cell.rtt_s() } else { 0.0 };
    (1.15 * ideal_s).max(lossy_s).max(waits_s).min(terms.cap_s)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::cell::all;
    use super::*;

    const TERMS: Terms = Terms { bottleneck: Bottleneck { rate_bit_s: 1e9, mtu: 9000 }, cap_s: 60.0, divide: 1 };

    #[test]
    fn every_cell_has_a_rank() {
        let ranked: Vec<Cell> = ranked().into_iter().map(|cell_rounds| cell_rounds.cell).collect();
        assert_eq!(ranked.iter().collect::<BTreeSet<_>>().len(), ranked.len());
        assert_eq!(ranked.into_iter().collect::<BTreeSet<_>>(), all().into_iter().collect());
    }

    #[test]
    fn cells_that_fit_the_time_are_chosen_and_the_others_returned() {
        let kinds = Kind::all();
        let (taken, left) = fit(&ranked(), 3_300.0, &kinds, TERMS);
        assert_eq!(taken.len() + left.len(), 63);
        let takes_s: f64 = taken.iter().map(|cell_rounds| estimate_s(*cell_rounds, &kinds, TERMS)).sum();
        assert!((2_500.0..=3_300.0).contains(&takes_s), "{takes_s}");
        let has = |cell| taken.iter().any(|cell_rounds| cell_rounds.cell == cell && cell_rounds.rounds == 3);
        for loss_ppm in [0, 46, 3_000] {
            assert!(has(Cell::new(Set::Large, LONGEST_US, loss_ppm)), "key cells fit: {loss_ppm}");
        }
        assert!(
            [Set::Small, Set::Mixed, Set::Whole, Set::Medium].map(|set| has(Cell::new(set, LONGEST_US, 0)))
                == [true; 4]
        );
        assert!(fit(&ranked(), 0.0, &kinds, TERMS).0.is_empty());
        assert_eq!(fit(&ranked(), f64::INFINITY, &kinds, TERMS).1, []);
    }

    #[test]
    fn estimates_depend_on_the_cap_and_on_loss() {
        let one =
            |kind, set, loss_ppm| run_s(Tool { kind, is_bbr: false }, Cell::new(set, LONGEST_US, loss_ppm), TERMS);
        assert_eq!(one(Kind::Gridftp, Set::Small, 0), 60.0);
        assert_eq!(one(Kind::Xrdcp, Set::Large, 3_000), 60.0);
        assert!(one(Kind::Longhaul, Set::Small, 0) < 15.0);
        let bbr = Tool { kind: Kind::Gridftp, is_bbr: true };
        assert!(run_s(bbr, Cell::new(Set::Large, LONGEST_US, 3_000), TERMS) < 15.0);
        let cell_rounds = |rounds| CellRounds { cell: Cell::new(Set::Small, LONGEST_US, 0), rounds };
        let capped = |rounds| estimate_s(cell_rounds(rounds), &[Kind::Gridftp], TERMS);
        assert_eq!(capped(1), capped(3), "a capped tool is run once");
    }
}

//! TCP over lossy paths: rate against RTT, for several congestion controls, compared with Mathis' law.
//!
//! Cells run side by side, in waves of cells with the same duration. A cell in which the lab was the limit is measured again, alone.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result};
use model::laws;

use super::bed::{Bed, Iperf3Run, PathSettings};
use super::iperf::{Flow, Load};
use super::load::LoadBaseline;
use super::runner::{PathBench, Section, lateness_ms, mark};

/// Round trips, ms.
pub const RTTS: [u32; 7] = [1, 10, 20, 50, 100, 200, 303];
/// Losses, in %, and the words of the scenario for them.
pub const LOSSES: [(f64, &str); 2] = [(0.0046, "loss = \"0.0046%\""), (0.1, "loss = \"0.1%\"")];
/// Packet sizes.
pub const MTUS: [u16; 2] = [1500, 9000];
/// Congestion controls.
pub const CONGESTIONS: [&str; 3] = ["reno", "cubic", "bbr"];
const RATE_MBIT: u32 = 1_000;
const QUEUE_LEAST: u64 = 2_000_000;
/// The longest part that is left out at the beginning, in seconds.
const OMIT_MAX: u32 = 20;
/// IPv4 and TCP headers with timestamps.
const HEADERS: u16 = 52;

/// One cell, by its indices in the tables above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The index in [`LOSSES`].
    pub loss: usize,
    /// The index in [`MTUS`].
    pub mtu: usize,
    /// The index in [`CONGESTIONS`].
    pub congestion: usize,
    /// The index in [`RTTS`].
    pub rtt: usize,
}

/// The result of a cell.
#[derive(Clone, Debug)]
pub struct CellResult {
    /// The cell.
    pub cell: Cell,
    /// Goodput, Mbit/s.
    pub mbit_s: f64,
    /// Segments that the lab dropped as the scenario's loss, in the whole run.
    pub lost: u64,
    /// Segments that the lab dropped because its queue was full, in the whole run.
    pub dropped: u64,
    /// The 99th percentile of the lateness of packets, ms.
    pub late_ms: f64,
    /// The processor time of others meanwhile, in % of one processor.
    pub others_percent: f64,
    /// Whether it was measured again alone, because the lab had been the limit.
    pub is_repeated: bool,
    /// Why the lab was the limit; none if it was not.
    pub limited: Option<String>,
}

impl Cell {
    fn mss(self) -> f64 {
        f64::from(MTUS[self.mtu] - HEADERS)
    }

    /// The rate by Mathis' law, at most that of the bottleneck, in Mbit/s.
    pub fn mathis(self) -> f64 {
        let line = f64::from(RATE_MBIT) * self.mss() / f64::from(MTUS[self.mtu]);
        let rtt_s = f64::from(RTTS[self.rtt]) / 1e3;
        (laws::mathis_bit_s(self.mss(), rtt_s, LOSSES[self.loss].0 / 100.0) / 1e6).min(line)
    }

    fn path(self) -> PathSettings {
        let ab = LOSSES[self.loss].1;
        let mut path = PathSettings {
            rtt_ms: RTTS[self.rtt],
            rate_mbit: Some(RATE_MBIT),
            mtu: MTUS[self.mtu],
            ab,
            ..PathSettings::default()
        };
        path.queue = Some(path.bdp().max(QUEUE_LEAST));
        // Each cell has a seed of its own.
        let place = [(MTUS.len(), self.mtu), (CONGESTIONS.len(), self.congestion), (RTTS.len(), self.rtt)];
        path.seed = place.iter().fold(self.loss, |seed, (all, one)| seed * all + one) as u32;
        path
    }

    /// The flow of the cell. The first two seconds, or 60 round trips, are not counted.
    fn flow(self, measure_s: u32) -> Flow {
        let omit_s = (RTTS[self.rtt] * 60).div_ceil(1_000).clamp(2, OMIT_MAX);
        let load = Load::Tcp { streams: 1, congestion: CONGESTIONS[self.congestion] };
        Flow { load, v6: false, omit_s, measure_s }
    }

    fn title(self) -> String {
        let (congestion, mtu) = (CONGESTIONS[self.congestion], MTUS[self.mtu]);
        format!("{congestion}, MTU {mtu}, RTT {} ms, loss {} %", RTTS[self.rtt], LOSSES[self.loss].0)
    }
}

/// All cells, ordered by RTT: cells of one RTT have the same duration.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for rtt in 0..RTTS.len() {
        for loss in 0..LOSSES.len() {
            for congestion in 0..CONGESTIONS.len() {
                cells.extend((0..MTUS.len()).map(|mtu| Cell { loss, mtu, congestion, rtt }));
            }
        }
    }
    cells
}

/// Runs the measurement; returns the table, and the results that the picture is drawn from.
///
/// # Errors
/// The lab does not start, or a signal stopped the run. A cell that fails is noted in the section.
pub fn measure(bench: &PathBench) -> Result<(Section, Vec<CellResult>)> {
    let PathBench { seconds, side_by_side: beside, .. } = bench;
    let words = format!(
        "\
One stream over {RATE_MBIT} Mbit/s, a queue of one BDP (2 MB at least), loss in the direction of the data alone.
{seconds} s measured after 2 s or 60 round trips (20 s at most), {beside} cells side by side. Mathis: MSS / RTT ×
sqrt(1.5 / p), but not more than the line carries. Lost: segments that the lab lost on purpose in the whole run, the
seconds left out included; dropped: those that its queue had no room for. Where few were lost, chance decides much, and
the rate also shows how slow start ended."
    );
    let mut section = Section::new("Rate against RTT and loss (emulated)", &words);
    let known = available(bench)?;
    for name in CONGESTIONS.iter().filter(|name| !known.contains(**name)) {
        println!("  THIS KERNEL HAS NO {name}: ITS CELLS ARE SKIPPED");
        section.line(format!("\n**This kernel has no {name}: its cells are skipped.**"));
    }
    let cells: Vec<Cell> = cells().into_iter().filter(|cell| known.contains(CONGESTIONS[cell.congestion])).collect();
    let mut reached: Vec<CellResult> = Vec::new();
    let started = Instant::now();
    let waves = cells.chunks(bench.side_by_side.max(1));
    for (number, wave) in waves.clone().enumerate() {
        println!("  wave {} of {}, {:.0} s so far", number + 1, waves.len(), started.elapsed().as_secs_f64());
        reached.extend(side_by_side(bench, wave, &mut section)?);
    }
    for one in reached.iter_mut().filter(|one| one.limited.is_some()) {
        println!("  again, alone: {}", one.cell.title());
        // If the second run fails, the marked result stays.
        if let Some(alone) = side_by_side(bench, &[one.cell], &mut section)?.pop() {
            *one = CellResult { is_repeated: true, ..alone };
        }
    }
    reached.sort_by_key(|reached| reached.cell);
    table(&mut section, &reached);
    Ok((section, reached))
}

/// The congestion controls that a lab's sites have.
fn available(bench: &PathBench) -> Result<BTreeSet<String>> {
    let path = PathSettings { mtu: 1500, ..PathSettings::default() };
    Ok(Bed::up("bench", &path, &bench.stop)?.congestions()?.into_iter().collect())
}

fn side_by_side(bench: &PathBench, wave: &[Cell], section: &mut Section) -> Result<Vec<CellResult>> {
    let since = LoadBaseline::now()?;
    let results: Vec<(Cell, Result<CellResult>)> = std::thread::scope(|scope| {
        let begin = |(number, cell): (usize, &Cell)| {
            let cell = *cell;
            (cell, scope.spawn(move || run_cell(bench, &format!("bench-{number}"), cell)))
        };
        let threads: Vec<_> = wave.iter().enumerate().map(begin).collect();
        let end = |(cell, thread): (Cell, std::thread::ScopedJoinHandle<'_, Result<CellResult>>)| {
            (cell, thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the thread of the run panicked"))))
        };
        threads.into_iter().map(end).collect()
    });
    let others_percent = since.others_percent()?;
    let mut all = Vec::new();
    for (cell, result) in results {
        section.command(&cell.flow(bench.seconds));
        if let Some(reached) = bench.note(&cell.title(), result, section)? {
            let CellResult { mbit_s, lost, dropped, late_ms, .. } = reached;
            let mark = mark([&reached.limited].into_iter());
            println!(
                "  {}: {mbit_s:.1} Mbit/s, Mathis {:.1}, lost {lost}, dropped {dropped}, late p99 {late_ms:.2} ms, \
                 others {others_percent:.0} %, lab {mark}",
                cell.title(),
                cell.mathis()
            );
            all.push(CellResult { others_percent, ..reached });
        }
    }
    Ok(all)
}

fn run_cell(bench: &PathBench, name: &str, cell: Cell) -> Result<CellResult> {
    let path = cell.path();
    let bed = Bed::up(name, &path, &bench.stop).context("cannot bring the lab up")?;
    let run = bed.run(&cell.flow(bench.seconds), |_| Ok(()))?;
    let counts = Iperf3Run::data(&run.whole)?.counts;
    Ok(CellResult {
        cell,
        mbit_s: run.report.bit_s / 1e6,
        lost: counts.lost,
        dropped: counts.queue_dropped,
        late_ms: lateness_ms(&Iperf3Run::data(&run.counted)?.lateness)[1],
        others_percent: 0.0,
        is_repeated: false,
        limited: run.limited,
    })
}

fn table(section: &mut Section, reached: &[CellResult]) {
    for (loss, (percent, _)) in LOSSES.iter().enumerate() {
        for (mtu, bytes) in MTUS.iter().enumerate() {
            section.line(format!("\nLoss {percent} %, MTU {bytes}; Mbit/s (lost, dropped):"));
            section.head(&["RTT ms", "Mathis", CONGESTIONS[0], CONGESTIONS[1], CONGESTIONS[2], "others %", "lab"]);
            for (rtt, ms) in RTTS.iter().enumerate() {
                let cell_of = |congestion| {
                    let cell = Cell { loss, mtu, congestion, rtt };
                    (cell, reached.iter().find(|reached| reached.cell == cell))
                };
                let all: Vec<_> = (0..CONGESTIONS.len()).map(cell_of).collect();
                let mut cells = vec![ms.to_string(), format!("{:.1}", all[0].0.mathis())];
                cells.extend(all.iter().map(|(_, reached)| reached.map_or_else(|| "-".to_owned(), result_text)));
                let measured = || all.iter().filter_map(|(_, reached)| *reached);
                cells.push(format!("{:.0}", measured().map(|reached| reached.others_percent).fold(0.0, f64::max)));
                let limited = measured().filter(|reached| reached.limited.is_some());
                let limited =
                    limited.map(|r| format!("{}: {}", CONGESTIONS[r.cell.congestion], mark([&r.limited].into_iter())));
                let limited: Vec<String> = limited.collect();
                cells.push(if limited.is_empty() { "-".to_owned() } else { limited.join("; ") });
                section.row(&cells);
            }
        }
    }
    if reached.iter().any(|reached| reached.is_repeated) {
        section.line("\n\\* Measured again by itself: side by side with others, the lab had been the limit.");
    }
}

fn result_text(reached: &CellResult) -> String {
    let footnote = if reached.is_repeated { "\\*" } else { "" };
    format!("{:.1}{footnote} ({}, {})", reached.mbit_s, reached.lost, reached.dropped)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A whole grid in which every cell reaches the rate of Mathis' law.
    pub fn samples() -> Vec<CellResult> {
        let sample = |cell: Cell| CellResult {
            cell,
            mbit_s: cell.mathis(),
            lost: 12,
            dropped: 3,
            late_ms: 0.1,
            others_percent: 4.0,
            is_repeated: false,
            limited: None,
        };
        cells().into_iter().map(sample).collect()
    }

    #[test]
    fn cells_of_one_rtt_have_one_duration_and_each_cell_a_seed() {
        let cells = cells();
        assert_eq!(cells.len(), 84);
        let omit = |cell: Cell| cell.flow(60).omit_s;
        assert!(cells.chunks(6).all(|wave| wave.iter().all(|cell| omit(*cell) == omit(wave[0]))));
        assert_eq!([cells[0], cells[83]].map(omit), [2, 19]);
        assert_eq!(cells.iter().map(|cell| cell.path().seed).collect::<BTreeSet<_>>().len(), 84);
        assert_eq!(cells[0].path().queue, Some(2_000_000));
        assert_eq!(cells[83].path().queue, Some(37_875_000));
        assert!((cells[83].mathis() - 9.14).abs() < 0.05, "{}", cells[83].mathis());
        assert!((cells[0].mathis() - 965.3).abs() < 0.1, "{}", cells[0].mathis());
    }

    #[test]
    fn the_table_has_every_cell() {
        let mut samples = samples();
        samples[0].is_repeated = true;
        samples[1].limited = Some("late".into());
        samples.retain(|sample| sample.cell != Cell { loss: 1, mtu: 1, congestion: 2, rtt: 6 });
        let mut section = Section::default();
        table(&mut section, &samples);
        let text = &section.text;
        assert_eq!(text.matches("\n| ").count(), 4 * 8);
        assert!(text.contains("| 1 | 965.3 | 965.3\\* (12, 3) | 965.3 (12, 3) | 965.3 (12, 3) | 4 | - |"), "{text}");
        assert!(text.contains("| reno: **emulator-limited**: late |"), "{text}");
        assert!(text.contains("| 303 | 9.1 | 9.1 (12, 3) | 9.1 (12, 3) | - | 4 | - |"), "{text}");
        assert!(text.ends_with("the lab had been the limit.\n"));
    }
}

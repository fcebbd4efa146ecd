//! A cell in the lab with real transfers, and in the simulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use lab::Lab;
use plan::simulate;
use scenario::Scenario;

use super::cells::{CellWork, LabCell};
use crate::data;
use crate::job::Data;
use crate::node::SiteProcesses;

/// The longest that a cell may take.
const RUN_MAX: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The inputs of all cells.
#[derive(Debug)]
pub struct LabBench<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for files.
    pub scratch: &'a Path,
    /// Set by a signal: the run ends.
    pub stop: &'a AtomicBool,
}

/// The completion times of a cell's copies, seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CellTimes {
    /// As measured in the lab.
    pub real_s: Vec<f64>,
    /// As simulated.
    pub simulated_s: Vec<f64>,
    /// Why the lab was the limit, if it was.
    pub limited: Option<String>,
}

impl CellTimes {
    /// How far the simulated completion of the whole cell is from the real one, a fraction of the real one.
    pub fn error(&self) -> f64 {
        let last = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        last(&self.simulated_s) / last(&self.real_s) - 1.0
    }
}

/// Simulates a cell.
///
/// # Errors
/// The cell makes no scenario, or its work does not end.
pub fn simulated_times(cell: &LabCell) -> Result<Vec<f64>> {
    let text = cell.scenario();
    let scenario = Scenario::read(&text).map_err(|problem| anyhow!("{problem}\n{text}"))?;
    let outcome = simulate(&scenario, None, &mut |_| true);
    ensure!(outcome.complete, "{}: the simulated work does not end", cell.name);
    Ok(outcome.work.iter().map(|work| work.last_s).collect())
}

impl LabBench<'_> {
    /// Runs a cell in the lab; returns the completion time of each copy and why the lab was the limit, if it was.
    ///
    /// # Errors
    /// The lab, a node or a copy fails, or a signal stopped the run.
    pub fn run(&self, cell: &LabCell) -> Result<(Vec<f64>, Option<String>)> {
        let dir = tempfile::Builder::new().prefix("cell-").tempdir_in(self.scratch)?;
        let text = cell.scenario();
        let mut scenario = Scenario::read(&text).map_err(|problem| anyhow!("{problem}\n{text}"))?;
        // Events count from the beginning of the copies, as in the simulator: the nodes are up before.
        let mut events = std::mem::take(&mut scenario.events);
        events.reverse();
        let sources: Vec<PathBuf> = cell
            .work
            .iter()
            .enumerate()
            .map(|(at, work)| fill(work, &dir.path().join(format!("source-{at}"))))
            .collect::<Result<_>>()?;
        let lab = Lab::up("bench-plan", &scenario, dir.path())?;
        let sites = SiteProcesses { lab: &lab, longhaul: self.longhaul, dir: dir.path() };
        let mut targets: Vec<&str> = cell.work.iter().map(|work| work.to).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut nodes = Vec::new();
        for target in targets {
            let export = dir.path().join(format!("target-{target}"));
            fs::create_dir(&export)?;
            let export = format!("data={}:rw", export.display());
            let arguments = ["serve", "--export", &export, "--anonymous", "rw"].map(String::from);
            nodes.push(sites.serve(target, &format!("node-{target}"), &arguments, self.stop)?);
        }
        let before = lab.reading()?;
        let began = Instant::now();
        let mut copies = Vec::new();
        for (at, (work, source)) in cell.work.iter().zip(&sources).enumerate() {
            copies.push(Some(sites.start(work.from, &format!("copy-{at}"), &arguments(cell, work, source, at))?));
        }
        let mut ended_s = vec![0.0; copies.len()];
        while copies.iter().any(Option::is_some) {
            while let Some(due) = events.pop_if(|event| event.at <= began.elapsed()) {
                lab.change(due.change, due.lasts)?;
            }
            for (at, copy) in copies.iter_mut().enumerate() {
                let Some(running) = copy else { continue };
                let Some(status) = running.0.try_wait()? else { continue };
                if !status.success() {
                    bail!("a copy failed: {}", fs::read_to_string(sites.log(&format!("copy-{at}"), "err"))?.trim());
                }
                ended_s[at] = began.elapsed().as_secs_f64();
                *copy = None;
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(began.elapsed() < RUN_MAX, "the copies do not end");
            sleep(POLL_INTERVAL);
        }
        Ok((ended_s, lab.limited(&lab.reading()?.since(&before))))
    }
}

fn arguments(cell: &LabCell, work: &CellWork, source: &Path, at: usize) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["cp", "--quiet", "-r", "--congestion", cell.congestion].map(String::from).to_vec();
    if let Some(streams) = work.streams {
        arguments.extend(["--streams".to_owned(), streams.to_string()]);
    }
    arguments.extend([source.display().to_string(), format!("lh://{}/data/{at}", work.to)]);
    arguments
}

fn fill(work: &CellWork, source: &Path) -> Result<PathBuf> {
    fs::create_dir(source)?;
    let (files, bytes_each) = work.files;
    data::make(Data::Tree { files, bytes_each }, source)?;
    Ok(source.to_owned())
}

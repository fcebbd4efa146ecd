//! One copy: a server, the lines to it, a client, and the time at which half of the bytes had arrived.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::line::{LineCondition, ThrottledLine};
use crate::node::Node;
use crate::process::ChildGuard;

/// The longest that a copy may take.
const RUN_MAX: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const MB: u64 = 1_000_000;

/// The conditions of the sources at the start, and from the middle of the file on.
#[derive(Clone, Debug)]
pub struct Case {
    /// The title of the case.
    pub title: &'static str,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes per second of each line at first.
    pub rates: Vec<u64>,
    /// The new conditions of lines when half of the bytes have arrived.
    pub later: Vec<(usize, LineCondition)>,
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let ten = |last| (0..10).map(|at| if at == 9 { last } else { 5 * MB }).collect::<Vec<_>>();
    let case = |title, condition| Case { title, bytes: 400 * MB, rates: ten(5 * MB), later: vec![(9, condition)] };
    vec![
        Case {
            title: "three lines of 20, 10 and 5 MB/s",
            bytes: 400 * MB,
            rates: vec![20 * MB, 10 * MB, 5 * MB],
            later: vec![],
        },
        Case { title: "ten lines, one of which crawls", bytes: 400 * MB, rates: ten(MB / 10), later: vec![] },
        case("ten lines, one of which begins to crawl in the middle", LineCondition::Rate(MB / 20)),
        case("ten lines, one of which dies in the middle", LineCondition::Dead),
        case("ten lines, one of which falls silent in the middle", LineCondition::Silent),
        Case {
            title: "ten lines, one of which crawls; in the middle another begins to, one dies and one falls silent",
            bytes: 400 * MB,
            rates: ten(MB / 10),
            later: vec![(6, LineCondition::Rate(MB / 20)), (7, LineCondition::Dead), (8, LineCondition::Silent)],
        },
    ]
}

impl Case {
    /// The best possible tail: the time of the second half divided by that of the first, if all capacity were used to the end.
    pub fn ideal(&self) -> f64 {
        let first: u64 = self.rates.iter().sum();
        let rate = |at: usize| {
            self.later.iter().find(|(line, _)| *line == at).map_or(self.rates[at], |(_, condition)| match condition {
                LineCondition::Rate(rate) => *rate,
                LineCondition::Silent | LineCondition::Dead => 0,
            })
        };
        first as f64 / (0..self.rates.len()).map(rate).sum::<u64>() as f64
    }
}

/// The client of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// `longhaul cp --mirror`.
    Ours,
    /// aria2, with a connection to each source.
    Aria2,
}

/// The figures of one copy.
#[derive(Clone, Debug)]
pub struct CopyResult {
    /// Seconds until half of the bytes had arrived, and from then to the end.
    pub halves: [f64; 2],
    /// Bytes that each line carried, with headers and with bytes that were not needed.
    pub carried_bytes: Vec<u64>,
}

impl CopyResult {
    /// The time of the second half divided by that of the first.
    pub fn tail(&self) -> f64 {
        self.halves[1] / self.halves[0]
    }
}

/// The inputs of all copies.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for files.
    pub scratch: &'a Path,
    /// Set by a signal: the run ends.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Starts a node that serves `data/f`.
    fn serve(&self, dir: &Path) -> Result<Node> {
        let mut command = Command::new(self.longhaul);
        command.args(["serve", "--quiet", "--plain", "--anonymous", "ro", "--listen", "127.0.0.1:0", "--export"]);
        command.arg(format!("data={}", dir.join("data").display())).arg("--state").arg(dir.join("node"));
        Node::start(command.stderr(File::create(dir.join("node.err"))?))
    }

    /// Copies once.
    ///
    /// # Errors
    /// The server or the client fails, the copy differs from its source, or a signal stopped the run.
    pub fn run(&self, case: &Case, client: ClientKind) -> Result<CopyResult> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(self.scratch)?;
        fs::create_dir(dir.path().join("data"))?;
        let source = dir.path().join("data/f");
        fs::write(&source, (0..case.bytes).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect::<Vec<u8>>())?;
        let node = self.serve(dir.path())?;
        let lines = case.rates.iter().map(|rate| ThrottledLine::open(node.port, *rate)).collect::<Result<Vec<_>>>()?;
        let target = dir.path().join("copy");
        let carried_bytes = || lines.iter().map(ThrottledLine::carried_bytes).sum::<u64>();
        let log = dir.path().join("copy.err");
        let mut copy = self.command(client, &lines, &target);
        copy.env("LONGHAUL_STATE", dir.path().join("client")).env_remove("LONGHAUL_KEY");
        copy.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let started = Instant::now();
        let mut copy = ChildGuard(copy.spawn().with_context(|| format!("cannot start {client:?}"))?);
        let mut first = None;
        let status = loop {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(started.elapsed() < RUN_MAX, "the copy takes longer than {RUN_MAX:?}");
            if first.is_none() && carried_bytes() >= case.bytes / 2 {
                first = Some(started.elapsed().as_secs_f64());
                case.later.iter().for_each(|(line, condition)| lines[*line].set_condition(*condition));
            }
            if let Some(status) = copy.0.try_wait()? {
                break status;
            }
            sleep(POLL_INTERVAL);
        };
        let whole = started.elapsed().as_secs_f64();
        if !status.success() {
            bail!("{status}: {}", fs::read_to_string(&log)?.trim());
        }
        ensure!(fs::read(&source)? == fs::read(&target)?, "the copy differs from its source");
        let first = first.context("the copy ended before half of its bytes had arrived")?;
        Ok(CopyResult {
            halves: [first, whole - first],
            carried_bytes: lines.iter().map(ThrottledLine::carried_bytes).collect(),
        })
    }

    fn command(&self, client: ClientKind, lines: &[ThrottledLine], target: &PathBuf) -> Command {
        let urls: Vec<String> = lines.iter().map(|line| format!("http://127.0.0.1:{}/data/f", line.port)).collect();
        match client {
            ClientKind::Ours => {
                let mut command = Command::new(self.longhaul);
                command.arg("cp").arg(&urls[0]).arg(target);
                urls[1..].iter().for_each(|url| {
                    command.args(["--mirror", url]);
                });
                command
            }
            ClientKind::Aria2 => {
                let mut command = Command::new("aria2c");
                // aria2 takes all lines for one server, so it may open as many connections as there are lines.
                let split = lines.len().to_string();
                command.args(["-x", "16", "-s", &split, "-k", "1M", "--file-allocation=none", "--no-conf", "--quiet"]);
                command.arg("-d").arg(target.parent().unwrap_or(target)).args(["-o", "copy"]).args(&urls);
                command
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_possible_tail_is_the_ratio_of_the_capacities() {
        let ideals: Vec<f64> = cases().iter().map(Case::ideal).collect();
        assert_eq!(&ideals[..2], [1.0, 1.0]);
        assert!(ideals[2..5].iter().all(|ideal| (1.10..1.12).contains(ideal)), "{ideals:?}");
        assert!((1.4..1.6).contains(&ideals[5]), "{ideals:?}");
    }
}

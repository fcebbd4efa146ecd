//! One file read by XRootD's protocol over 303 ms, in an emulated network: from an xrootd and from a node, by xrdcp and by `longhaul cp`.
//!
//! Each run has a lab and a server of its own, so that no packet is in flight and no window is open when it begins. The copy goes to
//! memory: a disk would be measured as well.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lab::Lab;

use super::ServerKind;
use super::servers::ServerStarter;
use crate::account::Accounts;
use crate::data;
use crate::paths::load::LoadBaseline;
use crate::site_programs::SitePrograms;
use crate::statistics::{Spread, spread};
use crate::wan::cell::{Cell, LONGEST_US, Set};
use crate::wan::ideal::Bottleneck;
use crate::wan::site::{self, BottleneckSettings};

/// The file, below the directory that all servers show.
const NAME: &str = "long";
/// Its size.
pub const BYTES: u64 = 1_500_000_000;
/// The rate of the bottleneck, Mbit/s.
pub const RATE_MBIT: u32 = 500;
/// The MTU of both sites.
const MTU: u16 = 9_000;
/// The congestion control of both sites; a program may choose another.
pub const CONGESTION: &str = "cubic";
/// The port of the server; every site has all ports for itself.
const PORT: u16 = 1094;
/// A run longer than this is ended.
const RUN_MAX: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The program that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingProgram {
    /// `longhaul cp`.
    Longhaul,
    /// xrdcp.
    Xrdcp,
}

/// A reader and a server.
pub type LongPathCase = (ReadingProgram, ServerKind);

/// All cases, in the order of the first round.
pub const CASES: [LongPathCase; 4] = [
    (ReadingProgram::Longhaul, ServerKind::Theirs),
    (ReadingProgram::Xrdcp, ServerKind::Theirs),
    (ReadingProgram::Xrdcp, ServerKind::Ours),
    (ReadingProgram::Longhaul, ServerKind::Ours),
];

/// One run.
#[derive(Clone, Debug)]
pub struct LongPathRun {
    /// Seconds from the start of the reader to its end.
    pub wall_s: f64,
    /// CPU seconds of the reader.
    pub client_s: f64,
    /// CPU seconds of the server.
    pub server_s: f64,
    /// The processor time of others meanwhile, in % of one processor.
    pub others_percent: f64,
    /// Why the lab was the limit; none if it was not.
    pub limited: Option<String>,
}

/// The runs of a case, or why it was not measured.
pub type LongPathRow = (LongPathCase, Result<Vec<LongPathRun>, String>);

/// The text of a case in tables.
pub fn title((reader, server): LongPathCase) -> String {
    let reader = match reader {
        ReadingProgram::Longhaul => "`longhaul cp`",
        ReadingProgram::Xrdcp => "xrdcp",
    };
    format!("{reader} from {}", if server == ServerKind::Ours { "a node" } else { "xrootd" })
}

/// The spread of a value over the runs of a case.
pub fn spread_of(rows: &[LongPathRow], case: LongPathCase, value: fn(&LongPathRun) -> f64) -> Option<Spread> {
    let (_, runs) = rows.iter().find(|(at, _)| *at == case)?;
    spread(runs.as_ref().ok()?.iter().map(value))
}

/// The path's bottleneck, from which ideal times are calculated.
pub fn bottleneck() -> Bottleneck {
    Bottleneck { rate_bit_s: f64::from(RATE_MBIT) * 1e6, mtu: MTU }
}

/// The path as a cell of `make bench-wan`.
pub fn cell() -> Cell {
    Cell::new(Set::Large, LONGEST_US, 0)
}

/// The inputs of all runs.
pub struct LongPathBench<'a> {
    /// Starts the servers.
    pub starter: &'a ServerStarter,
    /// A directory in memory, below which each run makes one for its copy.
    pub copies: &'a Path,
    /// How many rounds.
    pub rounds: u32,
    /// Set by a signal: the run ends.
    pub stop: &'a AtomicBool,
}

impl LongPathBench<'_> {
    /// Runs all rounds of all cases. Each round begins with another case.
    ///
    /// # Errors
    /// The file cannot be made, or a signal stopped the run. A run that fails ends its case.
    pub fn run(&self) -> Result<Vec<LongPathRow>> {
        data::fill(&self.starter.data().join(NAME), BYTES, 1)?;
        let mut rows: Vec<LongPathRow> = CASES.iter().map(|case| (*case, Ok(Vec::new()))).collect();
        for round in 0..self.rounds {
            for at in 0..rows.len() {
                let at = (at + round as usize) % rows.len();
                let (case, runs) = &mut rows[at];
                let Ok(so_far) = runs else { continue };
                let run = self.run_once(*case, round);
                ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
                println!("{} over 303 ms: {run:?}", title(*case));
                match run {
                    Ok(run) => so_far.push(run),
                    Err(error) => *runs = Err(format!("{error:#}")),
                }
            }
        }
        Ok(rows)
    }

    fn run_once(&self, case: LongPathCase, round: u32) -> Result<LongPathRun> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(&self.starter.scratch)?;
        data::open_to_all(dir.path())?;
        let source = self.starter.data().join(NAME);
        data::heat(&source)?;
        data::sync()?;
        let path = BottleneckSettings { rate_mbit: RATE_MBIT, queue: "bdp".to_owned(), mtu: MTU };
        let lab = Lab::up("bench-root", &path.read(cell(), round, CONGESTION)?, dir.path())?;
        site::set_congestion(&lab, CONGESTION)?;
        let address = site::address(&lab, "b")?;
        let programs = SitePrograms { lab: &lab, dir: dir.path() };
        let accounts = Accounts::by_processes();
        let since = LoadBaseline::now()?;
        let (server, client) = (accounts.side("server")?, accounts.side("client")?);
        let words = self.starter.words(case.1, &dir.path().join("server"), &format!("{address}:{PORT}"), PORT)?;
        let mut serving = server.spawn(&mut programs.command("b", "server", &words)?)?;
        programs.wait_for_listener("b", "server", &mut serving, PORT, self.stop)?;
        let copies = tempfile::Builder::new().prefix("run-").tempdir_in(self.copies)?;
        let copy = copies.path().join("copy");
        let words = self.reader_words(case.0, &format!("root://{address}:{PORT}//data/{NAME}"), &copy);
        let before = (lab.reading()?, server.cpu_s()?, client.cpu_s_ended()?);
        let started = Instant::now();
        let mut reading = client.spawn(&mut programs.command("a", "client", &words)?)?;
        let status = loop {
            if let Some(status) = reading.try_wait()? {
                break status;
            }
            if self.stop.load(Ordering::Relaxed) || started.elapsed() > RUN_MAX {
                client.kill();
            }
            sleep(POLL_INTERVAL);
        };
        let wall_s = started.elapsed().as_secs_f64();
        let limited = lab.limited(&lab.reading()?.since(&before.0));
        let (client_s, server_s) = (client.cpu_s_ended()? - before.2, server.cpu_s()? - before.1);
        drop(server);
        serving.wait()?;
        let others_percent = since.others_percent()?;
        ensure!(status.success(), "{status}: {}", programs.last_line("client"));
        data::compare(&source, &copy)?;
        Ok(LongPathRun { wall_s, client_s, server_s, others_percent, limited })
    }

    fn reader_words(&self, reader: ReadingProgram, url: &str, copy: &Path) -> Vec<String> {
        let mut words = match reader {
            ReadingProgram::Longhaul => vec![self.starter.longhaul.display().to_string(), "cp".to_owned()],
            ReadingProgram::Xrdcp => ["xrdcp", "--silent", "-f"].map(String::from).into(),
        };
        words.extend([url.to_owned(), copy.display().to_string()]);
        words
    }
}

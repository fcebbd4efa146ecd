//! Rounds of a cell: Longhaul, xrootd; xrootd, Longhaul; … The order changes from round to round, because the first server
//! finds memory in another state than the second.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cells::{Cell, Operation, SMALL, Setting, small_name};
use super::servers::Makers;
use super::{Row, Sample, ServerKind};
use crate::account::{Accounts, machine_busy_s};
use crate::data;
use crate::process::{Jobs, Server, Watch};

/// The time in which a server may finish work after the client has ended; that work counts.
const AFTERMATH: Duration = Duration::from_millis(100);
/// A run longer than this is ended.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a run needs.
pub struct Bench<'a> {
    /// The makers of the servers.
    pub makers: &'a Makers,
    /// The accounts that the runs are charged to.
    pub accounts: &'a Accounts,
    /// Rounds that count.
    pub rounds: u32,
    /// Size of the large file.
    pub large: u64,
    /// Number of small files.
    pub small: u64,
}

/// Makes the files that all servers show.
pub fn make_files(makers: &Makers, large: u64, small: u64) -> Result<()> {
    let data = makers.data();
    fs::create_dir_all(data.join("small"))?;
    data::open_to_all(&data)?;
    data::fill(&data.join("large"), large, 1)?;
    for at in 0..small {
        data::fill(&data.join(small_name(at)), SMALL, at + 2)?;
    }
    data::sync()
}

impl Bench<'_> {
    /// Runs all rounds of all cells; the servers keep running.
    pub fn run(&self, cells: &[Cell]) -> Result<Vec<Row>> {
        let start = |who, name| self.makers.start(who, name, self.accounts, None);
        let (ours, theirs) = (start(ServerKind::Ours, "ours")?, start(ServerKind::Theirs, "theirs")?);
        let other = start(ServerKind::Theirs, "other")?;
        cells.iter().map(|cell| self.cell(*cell, [&ours, &theirs], &other)).collect()
    }

    fn cell(&self, cell: Cell, servers: [&Server; 2], other: &Server) -> Result<Row> {
        let mut row = Row { title: cell.title(self.small), samples: [Vec::new(), Vec::new()], note: None };
        println!("{}", row.title);
        // The first run of each server warms caches and does not count.
        for round in 0..=self.rounds {
            let mut order = ServerKind::ALL;
            if round % 2 == 1 {
                order.reverse();
            }
            for who in order {
                let turn = self.turn(cell, who, round, servers[who as usize], other);
                match turn {
                    Ok(sample) if round > 0 => row.samples[who as usize].push(sample),
                    Ok(_) => {}
                    Err(error) => {
                        let note = format!("{}: {error:#}", who.name());
                        println!("  {note}");
                        row.note = Some(note);
                        return Ok(row);
                    }
                }
            }
        }
        Ok(row)
    }

    fn turn(&self, cell: Cell, who: ServerKind, round: u32, server: &Server, other: &Server) -> Result<Sample> {
        let data = self.makers.data();
        let setting = Setting {
            cell,
            who,
            server,
            other,
            pki: &self.makers.pki,
            data: &data,
            small: self.small,
            target: format!("{}-{}-{round}", cell.name(), who.name()),
            scratch: &self.makers.scratch,
        };
        let bytes = if cell.is_small() { self.small * SMALL } else { self.large };
        self.prepare(&setting, bytes)?;
        let sample = self.measure(&setting, bytes)?;
        println!("  {:9} {:.2} GB/s", who.name(), sample.bytes_s / 1e9);
        setting.check()?;
        if cell.writes() {
            if round == self.rounds {
                compare(&setting)?;
            }
            data::empty(&data.join(&setting.target))?;
        }
        Ok(sample)
    }

    fn prepare(&self, setting: &Setting, bytes: u64) -> Result<()> {
        let source = if setting.cell.is_small() { "small" } else { "large" };
        data::heat(&setting.data.join(source))?;
        if setting.cell.writes() {
            let target = setting.data.join(&setting.target);
            fs::create_dir_all(target.join("small"))?;
            data::open_to_all(&target)?;
            data::open_to_all(&target.join("small"))?;
            data::touch_memory(&self.makers.scratch, bytes)?;
        }
        data::sync()
    }

    fn measure(&self, setting: &Setting, bytes: u64) -> Result<Sample> {
        let (accounts, server) = (self.accounts, setting.server);
        let client = accounts.side("client")?;
        let jobs = Jobs { commands: vec![setting.words()?], log: self.makers.scratch.join("client.log") };
        let third = matches!(setting.cell.what, Operation::Pull | Operation::Source).then_some(setting.other);
        let third_s = || third.map_or(Ok(0.0), |third| third.side.cpu_s());
        let before = (server.side.cpu_s()?, third_s()?, machine_busy_s()?);
        let started = Instant::now();
        client.enter()?;
        let own = client.cpu_s_ended();
        let (result, _) = Watch::beside(&client, Some(&server.side), PATIENCE, || jobs.run(&client));
        let own = client.cpu_s_ended().and_then(|after| Ok(after - own?));
        client.leave()?;
        let (wall_s, client_s) = (result?, own?);
        std::thread::sleep(AFTERMATH);
        let server_s = server.side.cpu_s()? - before.0;
        let ours = client_s + server_s + third_s()? - before.1;
        let others = (machine_busy_s()? - before.2 - ours) / started.elapsed().as_secs_f64();
        let gb = bytes as f64 / 1e9;
        Ok(Sample {
            bytes_s: bytes as f64 / wall_s,
            server_s_per_gb: server_s / gb,
            client_s_per_gb: client_s / gb,
            others: others.max(0.0),
        })
    }
}

/// Checks that the files written in the last round equal those that were sent.
fn compare(setting: &Setting) -> Result<()> {
    let name = if setting.cell.is_small() { "small" } else { "large" };
    let target = setting.data.join(&setting.target);
    data::compare(&setting.data.join(name), &target.join(name)).context("after the last round")
}

/// Refuses memory in place of a disk.
pub fn on_disk(dir: &Path) -> Result<()> {
    /// From linux/magic.h.
    const TMPFS: u64 = 0x0102_1994;
    let facts = rustix::fs::statfs(dir)?;
    if facts.f_type as u64 == TMPFS {
        bail!("{} is in memory (tmpfs); --scratch names a directory on a disk", dir.display());
    }
    Ok(())
}

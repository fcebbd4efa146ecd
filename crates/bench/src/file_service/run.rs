//! Rounds of a cell: Longhaul, xrootd; xrootd, Longhaul; … The order alternates, because the first server of a round finds memory in
//! another state than the second.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cells::{CLIENTS, Cell, CellInputs, Operation, PART, SMALL, small_name};
use super::servers::ServerStarter;
use super::{Row, Sample, ServerKind};
use crate::account::{Accounts, machine_busy_s};
use crate::data;
use crate::process::{Jobs, RunMonitor, Server};

/// The time in which a server may finish work after the client has ended; that work counts.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// A run longer than this is ended.
const RUN_MAX: Duration = Duration::from_secs(180);

/// The inputs of all runs.
pub struct Bench<'a> {
    /// Starts the servers.
    pub starter: &'a ServerStarter,
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
///
/// # Errors
/// A file cannot be written.
pub fn make_files(starter: &ServerStarter, large: u64, small: u64) -> Result<()> {
    let data = starter.data();
    fs::create_dir_all(data.join("small"))?;
    data::open_to_all(&data)?;
    data::fill(&data.join("large"), large, 1)?;
    data::fill(&data.join(PART), large / CLIENTS, 1)?;
    for at in 0..small {
        data::fill(&data.join(small_name(at)), SMALL, at + 2)?;
    }
    data::sync()
}

impl Bench<'_> {
    /// Runs all rounds of all cells; the servers keep running.
    ///
    /// # Errors
    /// A server does not start. A run that fails gives its row a note instead.
    pub fn run(&self, cells: &[Cell]) -> Result<Vec<Row>> {
        let start = |kind, name| self.starter.start(kind, name, self.accounts, None);
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
            for kind in order {
                let sample = self.run_once(cell, kind, round, servers[kind as usize], other);
                match sample {
                    Ok(sample) if round > 0 => row.samples[kind as usize].push(sample),
                    Ok(_) => {}
                    Err(error) => {
                        let note = format!("{}: {error:#}", kind.name());
                        println!("  {note}");
                        row.note = Some(note);
                        return Ok(row);
                    }
                }
            }
        }
        Ok(row)
    }

    fn run_once(&self, cell: Cell, kind: ServerKind, round: u32, server: &Server, other: &Server) -> Result<Sample> {
        let data = self.starter.data();
        let inputs = CellInputs {
            cell,
            kind,
            server,
            other,
            pki: &self.starter.pki,
            data: &data,
            small: self.small,
            target: format!("{}-{}-{round}", cell.name(), kind.name()),
            scratch: &self.starter.scratch,
        };
        let bytes = match cell.operation {
            Operation::Small(_) => self.small * SMALL,
            Operation::AtOnce => self.large / CLIENTS * CLIENTS,
            _ => self.large,
        };
        self.prepare(&inputs, bytes)?;
        let sample = self.measure(&inputs, bytes)?;
        println!("  {:9} {:.2} GB/s", kind.name(), sample.bytes_s / 1e9);
        inputs.check()?;
        if cell.writes() {
            if round == self.rounds {
                compare(&inputs)?;
            }
            data::empty(&data.join(&inputs.target))?;
        }
        Ok(sample)
    }

    fn prepare(&self, inputs: &CellInputs, bytes: u64) -> Result<()> {
        let source = match inputs.cell.operation {
            Operation::Small(_) => "small",
            Operation::AtOnce => PART,
            _ => "large",
        };
        data::heat(&inputs.data.join(source))?;
        // What xrdcp fetched before; it makes the directory itself.
        if inputs.fetched().exists() {
            fs::remove_dir_all(inputs.fetched())?;
        }
        fs::create_dir_all(inputs.fetched())?;
        if inputs.cell.writes() {
            let target = inputs.data.join(&inputs.target);
            fs::create_dir_all(target.join("small"))?;
            data::open_to_all(&target)?;
            data::open_to_all(&target.join("small"))?;
            data::touch_memory(&self.starter.scratch, bytes)?;
        }
        data::sync()
    }

    fn measure(&self, inputs: &CellInputs, bytes: u64) -> Result<Sample> {
        let server = inputs.server;
        let client = self.accounts.side("client")?;
        let jobs = Jobs { commands: vec![inputs.words()?], log: self.starter.scratch.join("client.log") };
        let third_party = matches!(inputs.cell.operation, Operation::Pull | Operation::Source).then_some(inputs.other);
        let third_party_s = || third_party.map_or(Ok(0.0), |other| other.side.cpu_s());
        let server_before_s = server.side.cpu_s()?;
        let third_party_before_s = third_party_s()?;
        let busy_before_s = machine_busy_s()?;
        let started = Instant::now();
        client.enter()?;
        let client_before_s = client.cpu_s_ended();
        let (result, _) = RunMonitor::run_jobs(&client, Some(&server.side), RUN_MAX, || jobs.run(&client));
        let client_s = client.cpu_s_ended().and_then(|after_s| Ok(after_s - client_before_s?));
        client.leave()?;
        let wall_s = result?;
        let client_s = client_s?;
        std::thread::sleep(SETTLE_TIME);
        let server_s = server.side.cpu_s()? - server_before_s;
        let measured_s = client_s + server_s + third_party_s()? - third_party_before_s;
        let others_cores = (machine_busy_s()? - busy_before_s - measured_s) / started.elapsed().as_secs_f64();
        let gb = bytes as f64 / 1e9;
        Ok(Sample {
            bytes_s: bytes as f64 / wall_s,
            server_s_per_gb: server_s / gb,
            client_s_per_gb: client_s / gb,
            others_cores: others_cores.max(0.0),
        })
    }
}

/// Checks that the files written in the last round equal those that were sent.
fn compare(inputs: &CellInputs) -> Result<()> {
    let name = if inputs.cell.is_small() { "small" } else { "large" };
    let target = inputs.data.join(&inputs.target);
    data::compare(&inputs.data.join(name), &target.join(name)).context("after the last round")
}

/// Checks that a directory is on a disk and not in memory.
///
/// # Errors
/// The directory is in memory, or its file system cannot be found out.
pub fn ensure_on_disk(dir: &Path) -> Result<()> {
    /// From linux/magic.h.
    const TMPFS: u64 = 0x0102_1994;
    let file_system = rustix::fs::statfs(dir)?;
    if file_system.f_type as u64 == TMPFS {
        bail!("{} is in memory (tmpfs); --scratch names a directory on a disk", dir.display());
    }
    Ok(())
}

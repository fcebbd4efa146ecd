//! One run: a lab, a server at site `b`, and clients at site `a`, until the clients end or are ended.
//!
//! Each run has a lab of its own, so that no packet is in flight when it begins: the kernel sends the data that a killed client
//! leaves in its socket for minutes. This module ends every process that it starts; if this program is killed, the
//! kernel kills its children (setpriv(1), `--pdeathsig`).
//! Does not know: which tools are compared.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::Lab;
use tempfile::TempDir;

use super::cell::Cell;
use super::ideal::Bottleneck;
use super::site::{self, BottleneckSettings, PATH};
use super::stage::Stage;
use super::tool::{CommandLine, Kind, Programs, RunInputs, Tool};
use crate::account::{Accounts, Side};
use crate::data;
use crate::paths::iperf;
use crate::paths::load::LoadBaseline;
use crate::site_programs::SitePrograms;

/// The interval at which processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The time in which a server may finish work after the last client has ended; that work counts.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// The inputs of all runs.
#[derive(Debug)]
pub struct WanBench {
    /// The bottleneck of every path.
    pub path: BottleneckSettings,
    /// The files.
    pub stage: Stage,
    /// The programs that are not found in PATH.
    pub programs: Programs,
    /// The site's default congestion control.
    pub congestion: String,
    /// The longest that a run may take.
    pub cap: Duration,
    /// Set by a signal: the run ends.
    pub stop: Arc<AtomicBool>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// All files arrived.
    Done,
    /// The run was ended at the cap; the share of the bytes that had arrived, if files were moved.
    Capped(Option<f64>),
    /// A client failed, or files are missing or wrong; why, or the last line that the client printed.
    Failed(String),
}

/// One run.
#[derive(Clone, Debug)]
pub struct ToolRun {
    /// How it ended.
    pub end: RunEnd,
    /// Seconds from the start of the first client to the end of the last one.
    pub wall_s: f64,
    /// CPU seconds of all clients.
    pub client_s: f64,
    /// CPU seconds of the server.
    pub server_s: f64,
    /// The processor time of others meanwhile, in % of one processor.
    pub others_percent: f64,
    /// Why the lab was the limit; none if it was not.
    pub limited: Option<String>,
    /// The commands of the server and of one client.
    pub commands: [String; 2],
}

/// A running lab for one run.
struct Bed<'a> {
    bench: &'a WanBench,
    lab: Lab,
    dir: &'a Path,
}

/// How the clients ended, and when.
struct ClientsOutcome {
    end: RunEnd,
    wall_s: f64,
}

impl WanBench {
    /// The rate and packet size that ideal times are calculated from.
    pub fn bottleneck(&self) -> Bottleneck {
        Bottleneck { rate_bit_s: f64::from(self.path.rate_mbit) * 1e6, mtu: self.path.mtu }
    }

    /// Checks that no signal has stopped the bench.
    ///
    /// # Errors
    /// A signal has stopped it.
    pub fn check_not_stopped(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
        Ok(())
    }

    /// The congestion control that a connection at a site has by default, once the default is set to `wanted`.
    ///
    /// # Errors
    /// The lab cannot be started, or no connection can be made in it.
    pub fn congestion_in_force(&self, wanted: &str) -> Result<String> {
        let dir = self.directory()?;
        let scenario = self.path.read(super::cell::all()[0], 0, wanted)?;
        let lab = Lab::up("wan", &scenario, dir.path())?;
        site::set_congestion(&lab, wanted)?;
        site::congestion(&lab)
    }

    fn directory(&self) -> Result<TempDir> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(&self.stage.root)?;
        data::open_to_all(dir.path())?;
        Ok(dir)
    }

    /// Runs a tool once. A failure of the tool is a [`RunEnd`], not an error.
    ///
    /// # Errors
    /// The lab, the server or a client cannot be started, or a signal stopped the bench.
    pub fn run(&self, tool: Tool, cell: Cell, round: u32) -> Result<ToolRun> {
        self.check_not_stopped()?;
        let dir = self.directory()?;
        let target = self.stage.fresh_target()?;
        data::sync()?;
        let congestion = if tool.is_bbr { "bbr" } else { &self.congestion };
        // All tools of a round get the same seed, and so the same losses.
        let seed = cell.rtt_us / 100 + cell.loss_ppm + round;
        let scenario = self.path.read(cell, seed, congestion)?;
        let lab = Lab::up("wan", &scenario, dir.path())?;
        ensure!(lab.link(PATH, 0) == Some(0), "the lab's first link is not the data's");
        site::set_congestion(&lab, congestion)?;
        let bytes = cell.set.bytes(self.stage.divide);
        let job = RunInputs {
            set: cell.set,
            bytes,
            ideal_s: self.bottleneck().ideal_s(bytes, cell.rtt_s()),
            names: self.stage.files(cell.set).into_iter().map(|file| file.name).collect(),
            source: self.stage.source(cell.set),
            server_root: self.stage.server_root(),
            target,
            state: dir.path().to_owned(),
            address: site::address(&lab, "b")?,
        };
        let bed = Bed { bench: self, lab, dir: dir.path() };
        let mut run = bed.run(tool, &job)?;
        drop(bed);
        if run.end == RunEnd::Done
            && let Some(copy) = tool.copy(&job)
            && let Err(error) = self.stage.verify(cell.set, &copy, round as usize * 7)
        {
            run.end = RunEnd::Failed(format!("{error:#}"));
        }
        self.stage.fresh_target()?;
        Ok(run)
    }

    /// A command as the report shows it.
    fn displayed_command(&self, words: &[String], job: &RunInputs) -> String {
        let names = [
            (job.target.display().to_string(), "/TARGET/run"),
            (job.server_root.display().to_string(), "/TARGET"),
            (self.stage.root.join("source").display().to_string(), "/SOURCE"),
            (job.state.display().to_string(), "/STATE"),
            (self.programs.longhaul.display().to_string(), "longhaul"),
            (self.programs.fdt.as_ref().map_or("fdt.jar".into(), |jar| jar.display().to_string()), "fdt.jar"),
            (job.address.clone(), "B"),
        ];
        names.iter().fold(words.join(" "), |text, (path, name)| text.replace(path.as_str(), name))
    }
}

impl Bed<'_> {
    fn run(&self, tool: Tool, job: &RunInputs) -> Result<ToolRun> {
        let accounts = Accounts::by_processes();
        let (server, client) = (accounts.side("server")?, accounts.side("client")?);
        let (server_command, port) = tool.server(&self.bench.programs, job)?;
        let clients = tool.clients(&self.bench.programs, job);
        let first = clients.first().context("a tool without a client")?;
        let commands = [self.bench.displayed_command(&server_command, job), self.bench.displayed_command(first, job)];
        let since = LoadBaseline::now()?;
        let mut server_process = self.serve(&server, &server_command, port)?;
        let before = (self.lab.reading()?, server.cpu_s()?, client.cpu_s_ended()?);
        let mut outcome = self.run_clients(&client, &clients, job, tool)?;
        sleep(SETTLE_TIME);
        let server_s = server.cpu_s()? - before.1;
        let reading = self.lab.reading()?.since(&before.0);
        if let RunEnd::Capped(Some(arrived)) = &mut outcome.end {
            // A file system may hold bytes that were reserved but never arrived.
            let carried = reading.links.first().map_or(0, |link| link.counts.out_bytes) as f64;
            *arrived = arrived.min(carried / job.bytes as f64).min(1.0);
        }
        let client_s = client.cpu_s_ended()? - before.2;
        drop(server);
        server_process.wait()?;
        Ok(ToolRun {
            end: outcome.end,
            wall_s: outcome.wall_s,
            client_s,
            server_s,
            others_percent: since.others_percent()?,
            limited: self.lab.limited(&reading),
            commands,
        })
    }

    fn programs(&self) -> SitePrograms<'_> {
        SitePrograms { lab: &self.lab, dir: self.dir }
    }

    fn serve(&self, side: &Side, words: &CommandLine, port: u16) -> Result<Child> {
        let programs = self.programs();
        let mut child = side.spawn(&mut programs.command("b", "server", words)?)?;
        programs.wait_for_listener("b", "server", &mut child, port, &self.bench.stop)?;
        Ok(child)
    }

    /// Runs clients side by side until all have ended, or the cap is reached.
    fn run_clients(&self, side: &Side, clients: &[CommandLine], job: &RunInputs, tool: Tool) -> Result<ClientsOutcome> {
        let started = Instant::now();
        let mut running = Vec::new();
        for (at, words) in clients.iter().enumerate() {
            let name = format!("client-{at}");
            running.push((side.spawn(&mut self.programs().command("a", &name, words)?)?, name));
        }
        let mut failure: Option<String> = None;
        let mut wall_s = 0.0;
        while !running.is_empty() {
            let mut left = Vec::new();
            for (mut child, name) in running {
                match child.try_wait()? {
                    None => left.push((child, name)),
                    Some(status) if !status.success() => {
                        failure = Some(format!("{}: {}", status_text(status), self.programs().last_line(&name)));
                    }
                    Some(_) => {}
                }
                wall_s = started.elapsed().as_secs_f64();
            }
            running = left;
            let stopped = self.bench.stop.load(Ordering::Relaxed);
            if !running.is_empty() && (stopped || started.elapsed() > self.bench.cap) {
                let copy = tool.copy(job);
                let arrived = copy.map(|_| Stage::bytes_arrived(&job.target) as f64 / job.bytes as f64);
                side.kill();
                for (child, _) in &mut running {
                    child.wait()?;
                }
                self.bench.check_not_stopped()?;
                return Ok(ClientsOutcome { end: RunEnd::Capped(arrived), wall_s: self.bench.cap.as_secs_f64() });
            }
            sleep(POLL_INTERVAL);
        }
        match failure {
            Some(failure) => Ok(ClientsOutcome { end: RunEnd::Failed(failure), wall_s }),
            None => self.clients_outcome(tool, job, wall_s),
        }
    }

    /// The outcome of clients that all succeeded. iperf3 sends for a fixed time: its seconds are those that the payload would take
    /// at the rate that its receiver reports.
    fn clients_outcome(&self, tool: Tool, job: &RunInputs, wall_s: f64) -> Result<ClientsOutcome> {
        if tool.kind != Kind::Iperf3 {
            return Ok(ClientsOutcome { end: RunEnd::Done, wall_s });
        }
        let text = fs::read_to_string(self.programs().log("client-0", "out"))?;
        Ok(match iperf::parse(&text) {
            Ok(report) => ClientsOutcome { end: RunEnd::Done, wall_s: job.bytes as f64 * 8.0 / report.bit_s },
            Err(error) => ClientsOutcome { end: RunEnd::Failed(format!("{error:#}")), wall_s },
        })
    }
}

fn status_text(status: std::process::ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

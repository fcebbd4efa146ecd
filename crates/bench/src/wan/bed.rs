//! One run: a lab of its own, a server at `b`, clients at `a`, until they end or are ended.
//!
//! Each run has a lab of its own, so that no packet is in flight when it begins: the data that a killed client leaves in its
//! socket would be sent for minutes. Every process that this module starts is ended by it; if this program is killed, the
//! kernel kills its children: setpriv(1) arranges that.
//! Does not know: who is compared with whom.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::Lab;
use tempfile::TempDir;

use super::cell::Cell;
use super::ideal::Bottleneck;
use super::site::{self, BottleneckSettings, PATH};
use super::stage::Stage;
use super::tool::{Kind, Programs, RunInputs, Tool, Words};
use crate::account::{Accounts, Side};
use crate::contestant::find_program;
use crate::data;
use crate::paths::iperf;
use crate::paths::load::LoadBaseline;
use crate::process::has_listener;

/// The interval at which processes are polled.
const LOOK: Duration = Duration::from_millis(5);
/// The longest that a server may take until it listens.
const SERVER_MAX: Duration = Duration::from_secs(15);
/// The time in which a server may finish work after the last client has ended; that work counts.
const AFTERMATH: Duration = Duration::from_millis(100);

/// The inputs of all runs.
#[derive(Debug)]
pub struct WanBench {
    /// The path.
    pub way: BottleneckSettings,
    /// The files.
    pub stage: Stage,
    /// Programs that are not found by name.
    pub means: Programs,
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
    /// It was ended at the cap; the share of the bytes that had arrived, where there are files.
    Capped(Option<f64>),
    /// It did not deliver; the last line that it printed.
    Failed(String),
}

/// One run.
#[derive(Clone, Debug)]
pub struct ToolRun {
    /// How it ended.
    pub end: RunEnd,
    /// From the start of the first client to the end of the last one.
    pub wall_s: f64,
    /// CPU seconds of all clients.
    pub client_s: f64,
    /// CPU seconds of the server.
    pub server_s: f64,
    /// The processor time of others meanwhile, in % of one processor.
    pub others: f64,
    /// Why the lab was the limit; none where it was not.
    pub limited: Option<String>,
    /// The commands of the server and of one client.
    pub commands: [String; 2],
}

/// A running lab for one run.
struct Bed<'a> {
    ground: &'a WanBench,
    lab: Lab,
    dir: &'a Path,
}

/// How the clients ended, and when.
struct ClientsOutcome {
    end: RunEnd,
    wall_s: f64,
}

impl WanBench {
    /// The bottleneck.
    pub fn line(&self) -> Bottleneck {
        Bottleneck { rate_bit_s: f64::from(self.way.rate_mbit) * 1e6, mtu: self.way.mtu }
    }

    /// Fails after a signal.
    pub fn go_on(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
        Ok(())
    }

    /// The congestion control of a connection at a site that sets none itself, to check that the setting holds.
    pub fn congestion_in_force(&self, wanted: &str) -> Result<String> {
        let dir = self.directory()?;
        let scenario = self.way.read(super::cell::all()[0], 0, wanted)?;
        let lab = Lab::up("wan", &scenario, dir.path())?;
        site::set_congestion(&lab, wanted)?;
        site::congestion(&lab)
    }

    fn directory(&self) -> Result<TempDir> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(&self.stage.root)?;
        data::open_to_all(dir.path())?;
        Ok(dir)
    }

    /// Runs a tool once. A failure of the tool is an end of the run; an error is one of the bench.
    pub fn run(&self, tool: Tool, cell: Cell, round: u32) -> Result<ToolRun> {
        self.go_on()?;
        let dir = self.directory()?;
        let target = self.stage.target()?;
        data::sync()?;
        let congestion = if tool.is_bbr { "bbr" } else { &self.congestion };
        // Every tool of a round has the same seed.
        let seed = cell.rtt_us / 100 + cell.loss_ppm + round;
        let scenario = self.way.read(cell, seed, congestion)?;
        let lab = Lab::up("wan", &scenario, dir.path())?;
        ensure!(lab.link(PATH, 0) == Some(0), "the lab's first link is not the data's");
        site::set_congestion(&lab, congestion)?;
        let bytes = cell.set.bytes(self.stage.divide);
        let job = RunInputs {
            set: cell.set,
            bytes,
            ideal_s: self.line().ideal_s(bytes, cell.rtt_s()),
            names: self.stage.pieces(cell.set).into_iter().map(|piece| piece.name).collect(),
            source: self.stage.source(cell.set),
            shown: self.stage.shown(),
            target,
            state: dir.path().to_owned(),
            address: site::address(&lab, "b")?,
        };
        let bed = Bed { ground: self, lab, dir: dir.path() };
        let mut run = bed.run(tool, &job)?;
        drop(bed);
        if run.end == RunEnd::Done
            && let Some(copy) = tool.copy(&job)
            && let Err(error) = self.stage.verify(cell.set, &copy, round as usize * 7)
        {
            run.end = RunEnd::Failed(format!("{error:#}"));
        }
        self.stage.target()?;
        Ok(run)
    }

    /// A command as the report shows it.
    fn shown(&self, words: &[String], job: &RunInputs) -> String {
        let names = [
            (job.target.display().to_string(), "/TARGET/run"),
            (job.shown.display().to_string(), "/TARGET"),
            (self.stage.root.join("source").display().to_string(), "/SOURCE"),
            (job.state.display().to_string(), "/STATE"),
            (self.means.longhaul.display().to_string(), "longhaul"),
            (self.means.fdt.as_ref().map_or("fdt.jar".into(), |jar| jar.display().to_string()), "fdt.jar"),
            (job.address.clone(), "B"),
        ];
        names.iter().fold(words.join(" "), |text, (path, name)| text.replace(path.as_str(), name))
    }
}

impl Bed<'_> {
    fn run(&self, tool: Tool, job: &RunInputs) -> Result<ToolRun> {
        let accounts = Accounts::by_processes();
        let (server, client) = (accounts.side("server")?, accounts.side("client")?);
        let (words, port) = tool.server(&self.ground.means, job)?;
        let clients = tool.clients(&self.ground.means, job);
        let first = clients.first().context("a tool without a client")?;
        let commands = [self.ground.shown(&words, job), self.ground.shown(first, job)];
        let since = LoadBaseline::now()?;
        let mut held = self.serve(&server, &words, port)?;
        let before = (self.lab.reading()?, server.cpu_s()?, client.cpu_s_ended()?);
        let mut told = self.clients(&client, &clients, job, tool)?;
        sleep(AFTERMATH);
        let server_s = server.cpu_s()? - before.1;
        let reading = self.lab.reading()?.since(&before.0);
        if let RunEnd::Capped(Some(held)) = &mut told.end {
            // A file system may hold bytes that were reserved but never arrived.
            let carried = reading.links.first().map_or(0, |link| link.counts.out_bytes) as f64;
            *held = held.min(carried / job.bytes as f64).min(1.0);
        }
        let client_s = client.cpu_s_ended()? - before.2;
        drop(server);
        held.wait()?;
        Ok(ToolRun {
            end: told.end,
            wall_s: told.wall_s,
            client_s,
            server_s,
            others: since.others_percent()?,
            limited: self.lab.limited(&reading),
            commands,
        })
    }

    fn command(&self, site: &str, words: &Words, log: &str) -> Result<Command> {
        let (program, arguments) = words.split_first().context("an empty command")?;
        let program = find_program(Path::new(program)).with_context(|| format!("{program} is not there"))?;
        let mut command = self.lab.command(site, "setpriv")?;
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        // The state directory is no tuning: it keeps Longhaul from remembering an earlier run.
        command.env("LONGHAUL_STATE", self.dir.join("client")).stdin(Stdio::null());
        command.stdout(File::create(self.log(log, "out"))?).stderr(File::create(self.log(log, "err"))?);
        Ok(command)
    }

    fn log(&self, name: &str, end: &str) -> PathBuf {
        self.dir.join(format!("{name}.{end}"))
    }

    fn serve(&self, side: &Side, words: &Words, port: u16) -> Result<Child> {
        let mut child = side.spawn(&mut self.command("b", words, "server")?)?;
        let started = Instant::now();
        loop {
            let read = |name: &str| fs::read_to_string(Path::new("/proc/thread-self/net").join(name));
            let tables = self.lab.site("b")?.within(|| ["tcp", "tcp6"].map(read))?;
            if tables.into_iter().flatten().any(|table| has_listener(&table, port)) {
                return Ok(child);
            }
            self.ground.go_on()?;
            if child.try_wait()?.is_some() || started.elapsed() > SERVER_MAX {
                bail!("{} does not listen: {}", words.first().map_or("", String::as_str), self.last_words("server"));
            }
            sleep(LOOK);
        }
    }

    /// Runs clients side by side until all have ended, or the cap is reached.
    fn clients(&self, side: &Side, clients: &[Words], job: &RunInputs, tool: Tool) -> Result<ClientsOutcome> {
        let started = Instant::now();
        let mut running = Vec::new();
        for (at, words) in clients.iter().enumerate() {
            let name = format!("client-{at}");
            running.push((side.spawn(&mut self.command("a", words, &name)?)?, name));
        }
        let mut failure: Option<String> = None;
        let mut wall_s = 0.0;
        while !running.is_empty() {
            let mut left = Vec::new();
            for (mut child, name) in running {
                match child.try_wait()? {
                    None => left.push((child, name)),
                    Some(status) if !status.success() => {
                        failure = Some(format!("{}: {}", plain(status), self.last_words(&name)));
                    }
                    Some(_) => {}
                }
                wall_s = started.elapsed().as_secs_f64();
            }
            running = left;
            let stopped = self.ground.stop.load(Ordering::Relaxed);
            if !running.is_empty() && (stopped || started.elapsed() > self.ground.cap) {
                let copy = tool.copy(job);
                let held = copy.map(|_| Stage::held(&job.target) as f64 / job.bytes as f64);
                side.kill();
                for (child, _) in &mut running {
                    child.wait()?;
                }
                self.ground.go_on()?;
                return Ok(ClientsOutcome { end: RunEnd::Capped(held), wall_s: self.ground.cap.as_secs_f64() });
            }
            sleep(LOOK);
        }
        match failure {
            Some(said) => Ok(ClientsOutcome { end: RunEnd::Failed(said), wall_s }),
            None => self.told(tool, job, wall_s),
        }
    }

    /// The result of the clients. Only iperf3, which sends for a fixed time, is judged by its own report: the seconds are those
    /// that the payload would take at its receiver's rate.
    fn told(&self, tool: Tool, job: &RunInputs, wall_s: f64) -> Result<ClientsOutcome> {
        if tool.kind != Kind::Iperf3 {
            return Ok(ClientsOutcome { end: RunEnd::Done, wall_s });
        }
        let text = fs::read_to_string(self.log("client-0", "out"))?;
        Ok(match iperf::parse(&text) {
            Ok(told) => ClientsOutcome { end: RunEnd::Done, wall_s: job.bytes as f64 * 8.0 / told.bit_s },
            Err(error) => ClientsOutcome { end: RunEnd::Failed(format!("{error:#}")), wall_s },
        })
    }

    /// The last line that a process wrote, which is its error if it failed.
    fn last_words(&self, name: &str) -> String {
        let read = |end: &str| fs::read(self.log(name, end)).unwrap_or_default();
        let texts = ["err", "out"].map(|end| String::from_utf8_lossy(&read(end)).into_owned());
        last_line(&texts).unwrap_or("it said nothing").to_owned()
    }
}

fn plain(status: std::process::ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// The last line of the first text that has one. Progress output overwrites itself, so lines also end at carriage returns.
fn last_line(texts: &[String]) -> Option<&str> {
    let last = |text: &'_ str| text.trim_end().rfind(['\n', '\r']).map_or(0, |at| at + 1);
    texts.iter().find(|text| !text.trim().is_empty()).map(|text| text[last(text)..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_what_it_complained_about() {
        let texts = |err: &str, out: &str| [err.to_owned(), out.to_owned()];
        assert_eq!(last_line(&texts("one\ntwo\n\n", "three")), Some("two"));
        assert_eq!(last_line(&texts("50 %\r100 %\rno room\n", "")), Some("no room"));
        assert_eq!(last_line(&texts(" \n", "three")), Some("three"));
        assert_eq!(last_line(&texts("", "")), None);
    }
}

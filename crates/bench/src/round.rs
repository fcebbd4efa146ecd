//! Rounds: every contestant runs a scenario once, then all again. The result is a row for each contestant.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::account::{Accounts, machine_busy_s, reset_peak};
use crate::contestant::{Contestant, JobCommand, Role, missing};
use crate::data;
use crate::job::Job;
use crate::process::{Jobs, OutOfPatience, Server, Watch, free_port};
use crate::scenario::{Medium, Scenario};
use crate::statistics::median;
use crate::target::Figures;

/// The time in which servers may finish work after the last client has ended; that work counts.
const AFTERMATH: Duration = Duration::from_millis(100);

/// One run: all jobs of a scenario by one contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds per job.
    pub wall_s: f64,
    /// CPU seconds of the client per job.
    pub client_s: f64,
    /// CPU seconds of the server per job.
    pub server_s: f64,
    /// Processors that others kept busy meanwhile.
    pub others: f64,
    /// Peak resident memory of the client's processes.
    pub client_mib: f64,
    /// Peak resident memory of the server's processes.
    pub server_mib: f64,
}

/// The results of one contestant in one scenario.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its role in the comparison.
    pub role: Role,
    /// Its runs.
    pub samples: Vec<Sample>,
    /// A note beside the numbers, or in place of them.
    pub note: Option<String>,
    /// Whether it failed, or its copy was wrong.
    pub failed: bool,
    /// Commands of its server and of one client.
    pub commands: Vec<Vec<String>>,
}

impl Row {
    /// Its medians, if it ran.
    pub fn figures(&self, scenario: &Scenario) -> Option<Figures> {
        let of = |value: fn(&Sample) -> f64| median(self.samples.iter().map(value));
        Some(Figures {
            name: self.name,
            is_peer: self.role == Role::Peer,
            wall_s: of(|s| s.wall_s)?,
            bytes: scenario.data.bytes(),
            files: scenario.data.files(),
            cpu_s: of(|s| s.client_s + s.server_s)?,
            // The bound holds for every run: the largest value counts.
            peak_mib: self.samples.iter().map(|s| s.client_mib.max(s.server_mib)).fold(0.0, f64::max),
        })
    }
}

/// Runs scenarios in rounds.
#[derive(Debug)]
pub struct RoundRunner {
    /// Scratch on disk.
    pub disk: PathBuf,
    /// Scratch in memory.
    pub tmpfs: PathBuf,
    /// The number of rounds.
    pub rounds: u32,
    /// A run that takes longer is ended, and its contestant sits out later rounds.
    pub patience: Duration,
    /// The accounts that the runs are charged to.
    pub accounts: Accounts,
    /// Set by a signal: no further run begins, and everything is cleared away.
    pub stop: Arc<AtomicBool>,
}

/// A contestant in a scenario.
struct Participant<'a> {
    contestant: &'a dyn Contestant,
    row: Row,
    server: Option<Server>,
    root: PathBuf,
    state: PathBuf,
}

impl RoundRunner {
    /// Runs a scenario with every contestant that can do it.
    pub fn run(&self, scenario: &Scenario, contestants: &[Box<dyn Contestant>]) -> Result<Vec<Row>> {
        let medium = if scenario.medium == Medium::Disk { &self.disk } else { &self.tmpfs };
        let place = medium.join(scenario.name);
        let source = place.join("source");
        fs::create_dir_all(&place)?;
        println!("\n{}: making the source", scenario.title);
        data::make(scenario.data, &source)?;
        let mut participants = Vec::new();
        for contestant in contestants {
            participants.extend(self.enter(scenario, contestant.as_ref(), &place)?);
        }
        for round in 1..=self.rounds {
            for participant in &mut participants {
                ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
                self.turn(scenario, participant, round, &source)?;
            }
        }
        participants.iter_mut().for_each(|participant| participant.server = None);
        if scenario.medium == Medium::Tmpfs {
            // Memory is short, and removing files does not slow down this file system.
            fs::remove_dir_all(&place)?;
        }
        Ok(participants.into_iter().map(|participant| participant.row).collect())
    }

    /// Makes a participant of a contestant that does such jobs, and starts its server. A contestant that cannot run gets only a
    /// note.
    fn enter<'a>(
        &self,
        scenario: &Scenario,
        contestant: &'a dyn Contestant,
        place: &Path,
    ) -> Result<Option<Participant<'a>>> {
        let slug: String = contestant.name().chars().filter(char::is_ascii_alphanumeric).collect();
        let (root, state) = (place.join(&slug), self.tmpfs.join(format!("state/{}/{slug}", scenario.name)));
        let probe = Job {
            data: scenario.data,
            source: place.join("source"),
            root: root.clone(),
            target: root.join("probe"),
            state: state.clone(),
            port: 0,
        };
        if contestant.order(&probe).is_none() {
            return Ok(None);
        }
        let (name, role) = (contestant.name(), contestant.role());
        let row =
            Row { name, role, samples: Vec::new(), note: missing(contestant), failed: false, commands: Vec::new() };
        let mut participant = Participant { contestant, row, server: None, root, state };
        if participant.row.note.is_none()
            && let Err(error) = self.start(&mut participant, scenario, &slug)
        {
            participant.fail(&error);
        }
        Ok(Some(participant))
    }

    fn start(&self, participant: &mut Participant<'_>, scenario: &Scenario, slug: &str) -> Result<()> {
        fs::create_dir_all(&participant.root)?;
        fs::create_dir_all(&participant.state)?;
        data::open_to_all(&participant.root)?;
        let port = free_port()?;
        if let Some(words) = participant.contestant.server(&participant.root, &participant.state, port)? {
            let side = self.accounts.side(&format!("{}-{slug}-server", scenario.name))?;
            participant.row.commands.push(without_port(&words, port));
            participant.server = Some(Server::start(side, &words, port, &participant.state.join("server.out"))?);
        }
        Ok(())
    }

    /// One run of one contestant.
    fn turn(&self, scenario: &Scenario, participant: &mut Participant<'_>, round: u32, source: &Path) -> Result<()> {
        if participant.row.note.is_some() {
            return Ok(());
        }
        let name = participant.row.name;
        let (jobs, orders) = participant.prepare(scenario, round, source)?;
        data::sync()?;
        if scenario.medium != Medium::Memory {
            data::heat(source)?;
            // This comes last: a virtual machine returns memory that is free for a second or two to its host.
            // It is done on the medium itself: each medium takes its pages from elsewhere.
            data::touch_memory(&participant.root, scenario.data.bytes())?;
        }
        match self.sample(scenario, participant, &orders) {
            Ok(sample) => {
                let cpu_s = sample.client_s + sample.server_s;
                println!(
                    "{round}/{}  {name:<20} {:9.4} s, {cpu_s:8.3} CPU s, others {:.2}",
                    self.rounds, sample.wall_s, sample.others
                );
                participant.row.samples.push(sample);
            }
            Err(error) if error.is::<OutOfPatience>() && participant.row.role != Role::Ours => {
                println!("{round}/{}  {name:<20} given up: {error}", self.rounds);
                participant.row.note = Some(format!("given up: {error}"));
            }
            Err(error) => participant.fail(&error),
        }
        // The copies of the last round are compared; a run that was given up has left only parts.
        if round == self.rounds
            && participant.row.note.is_none()
            && let Err(error) = compare(source, &orders)
        {
            participant.fail(&error);
        }
        // Emptied at once: copies of past rounds would push the sources out of the page cache.
        jobs.iter().try_for_each(|job| data::empty(&job.target))
    }

    fn sample(&self, scenario: &Scenario, participant: &mut Participant<'_>, orders: &[JobCommand]) -> Result<Sample> {
        let client = self.accounts.side("client")?;
        let server = participant.server.as_ref().map(|server| &server.side);
        let server_cpu = || server.map_or(Ok(0.0), |side| side.cpu_s());
        let commands: Vec<_> = orders.iter().map(|order| order.command.clone()).collect();
        if participant.row.samples.is_empty() {
            let port = participant.server.as_ref().map_or(0, |server| server.port);
            participant.row.commands.extend(commands.last().map(|words| without_port(words, port)));
        }
        let jobs = Jobs { commands, log: participant.state.join("client.out") };
        server.inspect(|side| reset_peak(&side.pids()));
        client.enter()?;
        let before = (client.cpu_s_ended()?, server_cpu()?, machine_busy_s()?, Instant::now());
        let (wall, peaks) = Watch::beside(&client, server, self.patience, || jobs.run(&client));
        std::thread::sleep(AFTERMATH);
        let after = (client.cpu_s_ended()?, server_cpu()?, machine_busy_s()?, before.3.elapsed().as_secs_f64());
        client.leave()?;
        let (client_s, server_s) = (after.0 - before.0, after.1 - before.1);
        let each = f64::from(scenario.jobs);
        Ok(Sample {
            wall_s: wall? / each,
            client_s: client_s / each,
            server_s: server_s / each,
            // Ticks of the machine are coarser than the accounts: the difference is never below zero.
            others: ((after.2 - before.2 - client_s - server_s) / after.3).max(0.0),
            client_mib: peaks.0,
            server_mib: peaks.1,
        })
    }
}

/// Compares all copies of a run with the source.
fn compare(source: &Path, orders: &[JobCommand]) -> Result<()> {
    orders.iter().filter_map(|order| order.copy.as_ref()).try_for_each(|copy| data::compare(source, copy))
}

/// A command for the report: its port, which differs every time, is replaced.
fn without_port(words: &[String], port: u16) -> Vec<String> {
    let (alone, after_host) = (port.to_string(), format!(":{port}"));
    let show = |word: &String| if *word == alone { "PORT".into() } else { word.replace(&after_host, ":PORT") };
    words.iter().map(show).collect()
}

impl Participant<'_> {
    /// Makes fresh directories; returns the jobs, and the commands for them.
    fn prepare(&self, scenario: &Scenario, round: u32, source: &Path) -> Result<(Vec<Job>, Vec<JobCommand>)> {
        let (mut jobs, mut orders) = (Vec::new(), Vec::new());
        for at in 0..scenario.jobs {
            let target = self.root.join(format!("{round}/{at}"));
            fs::create_dir_all(&target)?;
            data::open_to_all(&target)?;
            let job = Job {
                data: scenario.data,
                source: source.to_owned(),
                root: self.root.clone(),
                target,
                state: self.state.clone(),
                port: self.server.as_ref().map_or(0, |server| server.port),
            };
            orders.push(self.contestant.order(&job).context("a contestant changed its mind")?);
            jobs.push(job);
        }
        Ok((jobs, orders))
    }

    fn fail(&mut self, error: &anyhow::Error) {
        println!("FAILED  {}: {error:#}", self.row.name);
        self.row.failed = true;
        self.row.note = Some(format!("**failed**: {error:#}"));
    }
}

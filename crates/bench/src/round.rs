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
use crate::process::{Jobs, RunMonitor, Server, TimeLimitExceeded, free_port};
use crate::scenario::{Medium, Scenario};
use crate::statistics::median;
use crate::target::Figures;

/// The time in which a server may finish its work after the last client has ended. That work counts.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// One run: all jobs of a scenario by one contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds per job.
    pub wall_s: f64,
    /// CPU seconds of the client per job.
    pub client_s: f64,
    /// CPU seconds of the server per job.
    pub server_s: f64,
    /// Processors that other processes kept busy meanwhile.
    pub others_cores: f64,
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
        let median_of = |value: fn(&Sample) -> f64| median(self.samples.iter().map(value));
        Some(Figures {
            name: self.name,
            role: self.role,
            wall_s: median_of(|s| s.wall_s)?,
            bytes: scenario.data.bytes(),
            files: scenario.data.files(),
            cpu_s: median_of(|s| s.client_s + s.server_s)?,
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
    /// A run that takes longer is ended, and its contestant takes no part in later rounds.
    pub time_limit: Duration,
    /// The accounts that the runs are charged to.
    pub accounts: Accounts,
    /// Set by a signal: no further run begins, and all servers and files are removed.
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
    ///
    /// # Errors
    /// The source cannot be made, a measurement cannot be taken, or a signal stopped the run. A contestant that fails gives its row a note
    /// instead.
    pub fn run(&self, scenario: &Scenario, contestants: &[Box<dyn Contestant>]) -> Result<Vec<Row>> {
        let medium = if scenario.medium == Medium::Disk { &self.disk } else { &self.tmpfs };
        let directory = medium.join(scenario.name);
        let source = directory.join("source");
        fs::create_dir_all(&directory)?;
        println!("\n{}: making the source", scenario.title);
        data::make(scenario.data, &source)?;
        let mut participants = Vec::new();
        for contestant in contestants {
            participants.extend(self.participant(scenario, contestant.as_ref(), &directory)?);
        }
        for round in 1..=self.rounds {
            for participant in &mut participants {
                ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
                self.run_once(scenario, participant, round, &source)?;
            }
        }
        participants.iter_mut().for_each(|participant| participant.server = None);
        if scenario.medium == Medium::Tmpfs {
            // Memory is scarce, and removing files does not slow down this file system.
            fs::remove_dir_all(&directory)?;
        }
        Ok(participants.into_iter().map(|participant| participant.row).collect())
    }

    /// Makes a participant of a contestant, and starts its server. None if the contestant does no such jobs; one that cannot run
    /// has a note.
    fn participant<'a>(
        &self,
        scenario: &Scenario,
        contestant: &'a dyn Contestant,
        directory: &Path,
    ) -> Result<Option<Participant<'a>>> {
        let slug: String = contestant.name().chars().filter(char::is_ascii_alphanumeric).collect();
        let root = directory.join(&slug);
        let state = self.tmpfs.join(format!("state/{}/{slug}", scenario.name));
        let sample_job = Job {
            data: scenario.data,
            source: directory.join("source"),
            root: root.clone(),
            target: root.join("probe"),
            state: state.clone(),
            port: 0,
        };
        if contestant.job_command(&sample_job).is_none() {
            return Ok(None);
        }
        let row = Row {
            name: contestant.name(),
            role: contestant.role(),
            samples: Vec::new(),
            note: missing(contestant),
            failed: false,
            commands: Vec::new(),
        };
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
    fn run_once(
        &self,
        scenario: &Scenario,
        participant: &mut Participant<'_>,
        round: u32,
        source: &Path,
    ) -> Result<()> {
        if participant.row.note.is_some() {
            return Ok(());
        }
        let name = participant.row.name;
        let (jobs, job_commands) = participant.prepare(scenario, round, source)?;
        data::sync()?;
        if scenario.medium != Medium::Memory {
            data::heat(source)?;
            // Memory is touched last: a virtual machine returns memory that is free for a second or two to its host.
            // It is touched on the medium itself: each medium gets its pages from another pool.
            data::touch_memory(&participant.root, scenario.data.bytes())?;
        }
        match self.sample(scenario, participant, &job_commands) {
            Ok(sample) => {
                let cpu_s = sample.client_s + sample.server_s;
                println!(
                    "{round}/{}  {name:<20} {:9.4} s, {cpu_s:8.3} CPU s, others {:.2}",
                    self.rounds, sample.wall_s, sample.others_cores
                );
                participant.row.samples.push(sample);
            }
            Err(error) if error.is::<TimeLimitExceeded>() && participant.row.role != Role::Ours => {
                println!("{round}/{}  {name:<20} given up: {error}", self.rounds);
                participant.row.note = Some(format!("given up: {error}"));
            }
            Err(error) => participant.fail(&error),
        }
        // The copies of the last round are compared; a run that exceeded its time limit has left only parts.
        if round == self.rounds
            && participant.row.note.is_none()
            && let Err(error) = compare(source, &job_commands)
        {
            participant.fail(&error);
        }
        // Copies are emptied at once: those of past rounds would displace the sources from the page cache.
        jobs.iter().try_for_each(|job| data::empty(&job.target))
    }

    fn sample(
        &self,
        scenario: &Scenario,
        participant: &mut Participant<'_>,
        job_commands: &[JobCommand],
    ) -> Result<Sample> {
        let client = self.accounts.side("client")?;
        let server = participant.server.as_ref().map(|server| &server.side);
        let server_cpu = || server.map_or(Ok(0.0), |side| side.cpu_s());
        let commands: Vec<_> = job_commands.iter().map(|job_command| job_command.command.clone()).collect();
        if participant.row.samples.is_empty() {
            let port = participant.server.as_ref().map_or(0, |server| server.port);
            participant.row.commands.extend(commands.last().map(|words| without_port(words, port)));
        }
        let jobs = Jobs { commands, log: participant.state.join("client.out") };
        server.inspect(|side| reset_peak(&side.pids()));
        client.enter()?;
        let client_before_s = client.cpu_s_ended()?;
        let server_before_s = server_cpu()?;
        let busy_before_s = machine_busy_s()?;
        let started = Instant::now();
        let (wall, peaks) = RunMonitor::run_jobs(&client, server, self.time_limit, || jobs.run(&client));
        std::thread::sleep(SETTLE_TIME);
        let client_s = client.cpu_s_ended()? - client_before_s;
        let server_s = server_cpu()? - server_before_s;
        let busy_s = machine_busy_s()? - busy_before_s;
        let elapsed_s = started.elapsed().as_secs_f64();
        client.leave()?;
        let job_count = f64::from(scenario.jobs);
        Ok(Sample {
            wall_s: wall? / job_count,
            client_s: client_s / job_count,
            server_s: server_s / job_count,
            // Ticks of the machine are coarser than the accounts, so the difference may come out below zero.
            others_cores: ((busy_s - client_s - server_s) / elapsed_s).max(0.0),
            client_mib: peaks.client_mib,
            server_mib: peaks.server_mib,
        })
    }
}

/// Compares all copies of a run with the source.
fn compare(source: &Path, job_commands: &[JobCommand]) -> Result<()> {
    job_commands
        .iter()
        .filter_map(|job_command| job_command.copy.as_ref())
        .try_for_each(|copy| data::compare(source, copy))
}

/// A command for the report, with a word in place of the port, which differs in every run.
fn without_port(words: &[String], port: u16) -> Vec<String> {
    let alone = port.to_string();
    let after_host = format!(":{port}");
    let show = |word: &String| if *word == alone { "PORT".into() } else { word.replace(&after_host, ":PORT") };
    words.iter().map(show).collect()
}

impl Participant<'_> {
    /// Makes fresh directories; returns the jobs and their commands.
    fn prepare(&self, scenario: &Scenario, round: u32, source: &Path) -> Result<(Vec<Job>, Vec<JobCommand>)> {
        let (mut jobs, mut job_commands) = (Vec::new(), Vec::new());
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
            job_commands.push(self.contestant.job_command(&job).context("the contestant has no command for the job")?);
            jobs.push(job);
        }
        Ok((jobs, job_commands))
    }

    fn fail(&mut self, error: &anyhow::Error) {
        println!("FAILED  {}: {error:#}", self.row.name);
        self.row.failed = true;
        self.row.note = Some(format!("**failed**: {error:#}"));
    }
}

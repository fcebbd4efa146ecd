//! Rounds: every contestant does a scenario once, then all again. What was measured of each comes out as a row.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::account::{Accounts, machine_busy_s, reset_peak};
use crate::contestant::{Contestant, Order, Role, missing};
use crate::data;
use crate::job::Job;
use crate::process::{Jobs, OutOfPatience, Server, Watch, free_port};
use crate::scenario::{Medium, Scenario};
use crate::statistics::median;
use crate::target::Figures;

/// After the last client has ended, servers may still have something to do that counts.
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

/// What one contestant reached in one scenario.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What it is there for.
    pub role: Role,
    /// Its runs.
    pub samples: Vec<Sample>,
    /// What is to be said beside the numbers, or instead of them.
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
            // A bound for any run: the worst counts.
            peak_mib: self.samples.iter().map(|s| s.client_mib.max(s.server_mib)).fold(0.0, f64::max),
        })
    }
}

/// Where and how often.
#[derive(Debug)]
pub struct Course {
    /// Scratch on disk.
    pub disk: PathBuf,
    /// Scratch in memory.
    pub tmpfs: PathBuf,
    /// How many rounds.
    pub rounds: u32,
    /// A run longer than this is ended, and its contestant sits out later rounds.
    pub patience: Duration,
    /// Who is charged.
    pub accounts: Accounts,
    /// Set by a signal: no further run begins, and everything is cleared away.
    pub stop: Arc<AtomicBool>,
}

/// A contestant in a scenario.
struct Lane<'a> {
    contestant: &'a dyn Contestant,
    row: Row,
    server: Option<Server>,
    root: PathBuf,
    state: PathBuf,
}

impl Course {
    /// Runs a scenario with everybody who can do it.
    pub fn run(&self, scenario: &Scenario, contestants: &[Box<dyn Contestant>]) -> Result<Vec<Row>> {
        let medium = if scenario.medium == Medium::Disk { &self.disk } else { &self.tmpfs };
        let place = medium.join(scenario.name);
        let source = place.join("source");
        fs::create_dir_all(&place)?;
        println!("\n{}: making the source", scenario.title);
        data::make(scenario.data, &source)?;
        let mut lanes = Vec::new();
        for contestant in contestants {
            lanes.extend(self.enter(scenario, contestant.as_ref(), &place)?);
        }
        for round in 1..=self.rounds {
            for lane in &mut lanes {
                ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
                self.turn(scenario, lane, round, &source)?;
            }
        }
        lanes.iter_mut().for_each(|lane| lane.server = None);
        if scenario.medium == Medium::Tmpfs {
            // Memory is short, and nothing slows down here after files were removed.
            fs::remove_dir_all(&place)?;
        }
        Ok(lanes.into_iter().map(|lane| lane.row).collect())
    }

    /// A lane for a contestant that does such jobs, its server started. One that cannot run has only a note.
    fn enter<'a>(&self, scenario: &Scenario, contestant: &'a dyn Contestant, place: &Path) -> Result<Option<Lane<'a>>> {
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
        let mut lane = Lane { contestant, row, server: None, root, state };
        if lane.row.note.is_none()
            && let Err(error) = self.start(&mut lane, scenario, &slug)
        {
            lane.fail(&error);
        }
        Ok(Some(lane))
    }

    fn start(&self, lane: &mut Lane<'_>, scenario: &Scenario, slug: &str) -> Result<()> {
        fs::create_dir_all(&lane.root)?;
        fs::create_dir_all(&lane.state)?;
        data::open_to_all(&lane.root)?;
        let port = free_port()?;
        if let Some(words) = lane.contestant.server(&lane.root, &lane.state, port)? {
            let side = self.accounts.side(&format!("{}-{slug}-server", scenario.name))?;
            lane.row.commands.push(without_port(&words, port));
            lane.server = Some(Server::start(side, &words, port, &lane.state.join("server.out"))?);
        }
        Ok(())
    }

    /// One run of one contestant.
    fn turn(&self, scenario: &Scenario, lane: &mut Lane<'_>, round: u32, source: &Path) -> Result<()> {
        if lane.row.note.is_some() {
            return Ok(());
        }
        let name = lane.row.name;
        let (jobs, orders) = lane.prepare(scenario, round, source)?;
        data::sync()?;
        if scenario.medium != Medium::Memory {
            data::heat(source)?;
            // Last: a virtual machine gives memory that is free for a second or two back to its host.
            // And on the medium itself: each takes its pages from elsewhere.
            data::touch_memory(&lane.root, scenario.data.bytes())?;
        }
        match self.sample(scenario, lane, &orders) {
            Ok(sample) => {
                let cpu_s = sample.client_s + sample.server_s;
                println!(
                    "{round}/{}  {name:<20} {:9.4} s, {cpu_s:8.3} CPU s, others {:.2}",
                    self.rounds, sample.wall_s, sample.others
                );
                lane.row.samples.push(sample);
            }
            Err(error) if error.is::<OutOfPatience>() && lane.row.role != Role::Ours => {
                println!("{round}/{}  {name:<20} given up: {error}", self.rounds);
                lane.row.note = Some(format!("given up: {error}"));
            }
            Err(error) => lane.fail(&error),
        }
        // The copies of the last round are looked at; a run that was given up has left parts only.
        if round == self.rounds
            && lane.row.note.is_none()
            && let Err(error) = compare(source, &orders)
        {
            lane.fail(&error);
        }
        // At once: copies of past rounds would crowd the page cache until sources are no longer hot.
        jobs.iter().try_for_each(|job| data::empty(&job.target))
    }

    fn sample(&self, scenario: &Scenario, lane: &mut Lane<'_>, orders: &[Order]) -> Result<Sample> {
        let client = self.accounts.side("client")?;
        let server = lane.server.as_ref().map(|server| &server.side);
        let server_cpu = || server.map_or(Ok(0.0), |side| side.cpu_s());
        let commands: Vec<_> = orders.iter().map(|order| order.command.clone()).collect();
        if lane.row.samples.is_empty() {
            let port = lane.server.as_ref().map_or(0, |server| server.port);
            lane.row.commands.extend(commands.last().map(|words| without_port(words, port)));
        }
        let jobs = Jobs { commands, log: lane.state.join("client.out") };
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
            // Ticks of the machine are coarser than ours: never less than nobody.
            others: ((after.2 - before.2 - client_s - server_s) / after.3).max(0.0),
            client_mib: peaks.0,
            server_mib: peaks.1,
        })
    }
}

/// Compares all copies of a run with the source.
fn compare(source: &Path, orders: &[Order]) -> Result<()> {
    orders.iter().filter_map(|order| order.copy.as_ref()).try_for_each(|copy| data::compare(source, copy))
}

/// A command as it is shown: its port is another every time.
fn without_port(words: &[String], port: u16) -> Vec<String> {
    let (alone, after_host) = (port.to_string(), format!(":{port}"));
    let show = |word: &String| if *word == alone { "PORT".into() } else { word.replace(&after_host, ":PORT") };
    words.iter().map(show).collect()
}

impl Lane<'_> {
    /// Fresh directories, and the orders for them.
    fn prepare(&self, scenario: &Scenario, round: u32, source: &Path) -> Result<(Vec<Job>, Vec<Order>)> {
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

//! Starts services of this program, and waits until they listen.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::network::SiteNetwork;
use super::spawner::spawn;
use crate::failure::Failure;

/// How long a process may take to listen.
const START_MAX: Duration = Duration::from_secs(20);
/// How often the output of a starting process is read.
const START_CHECK_EVERY: Duration = Duration::from_millis(50);

/// A process that is killed when this is dropped.
pub struct Process(Child);

impl Process {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts processes of this program at the sites of a network.
pub struct Launcher<'a> {
    /// Where they run.
    pub network: &'a SiteNetwork,
    /// This program.
    pub program: &'a Path,
    /// Where their output goes.
    pub dir: &'a Path,
    /// Set by a signal: a wait ends.
    pub stop: &'a AtomicBool,
}

/// A service that listens.
pub struct Service {
    /// The process.
    pub process: Process,
    /// Where it listens, `HOST:PORT`.
    pub address: String,
    /// The file with what it prints.
    pub output: PathBuf,
}

impl Launcher<'_> {
    /// Starts a service at a site, and waits until it listens. `name` names the files of its output.
    ///
    /// # Errors
    /// It cannot be started, or does not listen in time.
    pub fn serve(&self, site: &str, name: &str, words: &[String]) -> Result<Service, Failure> {
        let log = |extension: &str| {
            let path = self.dir.join(format!("{name}.{extension}"));
            File::create(&path).map(|file| (file, path)).map_err(|error| cannot("write a log", &error))
        };
        let (out, output) = log("out")?;
        let (err, err_path) = log("err")?;
        let mut command = self.network.command(site, self.program)?;
        command.args(words).stdin(Stdio::null()).stdout(out).stderr(err);
        let mut process = Process(spawn(command).map_err(|error| cannot("start a process", &error))?);
        let started = Instant::now();
        loop {
            let text = fs::read_to_string(&output).unwrap_or_default();
            let address = text.lines().find_map(|line| line.strip_prefix("listening on "));
            if let Some(address) = address {
                let bare = ["https://", "http://"].iter().find_map(|scheme| address.strip_prefix(scheme));
                let address = bare.unwrap_or(address).to_owned();
                return Ok(Service { process, address, output });
            }
            let has_ended = process.0.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || started.elapsed() > START_MAX || self.stop.load(Ordering::Relaxed) {
                let why = fs::read_to_string(&err_path).unwrap_or_default();
                return Err(Failure::local(format!("the {name} does not listen: {}", why.trim())));
            }
            std::thread::sleep(START_CHECK_EVERY);
        }
    }

    /// Starts another program that serves at a site, and waits until its address answers.
    ///
    /// # Errors
    /// It cannot be started, or does not listen in time.
    pub fn serve_by(&self, site: &str, name: &str, words: &[String], listen: SocketAddr) -> Result<Process, Failure> {
        let log = self.dir.join(format!("{name}.log"));
        let out = File::create(&log).map_err(|error| cannot("write a log", &error))?;
        let err = out.try_clone().map_err(|error| cannot("write a log", &error))?;
        let mut command = self.network.command(site, Path::new(words.first().map_or("", String::as_str)))?;
        command.args(words.get(1..).unwrap_or_default()).stdin(Stdio::null()).stdout(out).stderr(err);
        let mut process = Process(spawn(command).map_err(|error| cannot("start a process", &error))?);
        let started = Instant::now();
        while !self.network.answers(site, listen) {
            let has_ended = process.0.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || started.elapsed() > START_MAX || self.stop.load(Ordering::Relaxed) {
                let why = fs::read_to_string(&log).unwrap_or_default();
                let program = words.iter().find(|word| *word != "setpriv" && !word.starts_with('-'));
                let program = program.map_or("", String::as_str);
                return Err(Failure::local(format!("{name} does not listen; is {program} installed? {}", why.trim())));
            }
            std::thread::sleep(START_CHECK_EVERY);
        }
        Ok(process)
    }

    /// Runs a command on this host with a state directory as its last argument. Returns the last line of its output.
    ///
    /// # Errors
    /// The command fails.
    pub fn run(&self, words: &[&str], state: &Path) -> Result<String, Failure> {
        let mut command = Command::new(self.program);
        command.args(words).arg(state);
        let text = output_of(command, words[0])?;
        Ok(text.lines().last().unwrap_or_default().to_owned())
    }
}

/// The output of a command that succeeds.
///
/// # Errors
/// The command cannot be started, or fails.
pub fn output_of(mut command: Command, what: &str) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot("start a process", &error))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::local(format!("{what} failed: {}", why.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot {what}: {error}"))
}

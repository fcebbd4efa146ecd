//! Servers and clients as processes: starts them, waits for them, reads their memory, ends them.

use std::fmt;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;

use crate::account::{Side, peak_mib};
use crate::contestant::find_program;

/// The longest that a server may take until it listens.
const START_MAX: Duration = Duration::from_secs(15);
/// The interval at which memory is read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A child process that is killed when its guard is dropped.
#[derive(Debug)]
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // `kill` fails if the process has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// The account of its cost.
    pub side: Side,
    /// The port on which it listens.
    pub port: u16,
    child: Child,
}

/// A port that is free now.
///
/// # Errors
/// No port is free.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Makes a command of words, with its output in a file.
fn command(words: &[String], log: &Path) -> Result<Command> {
    let (program, arguments) = words.split_first().context("an empty command")?;
    let program = find_program(Path::new(program)).with_context(|| format!("{program} is not installed"))?;
    let log = File::create(log)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

/// The last line of a log that is not empty.
fn last_log_line(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing").trim().to_owned()
}

/// Whether a process listens on a port, by /proc/net/tcp: some servers would take a trial connection for a client.
fn listens(port: u16) -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(fs::read_to_string);
    tables.into_iter().flatten().any(|table| has_listener(&table, port))
}

/// Whether a table like /proc/net/tcp has a listener at a port.
pub fn has_listener(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1).is_some_and(|local| local.ends_with(&end)) && fields.get(3) == Some(&"0A")
    })
}

impl Server {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// The program cannot be started, ends, or does not listen in time.
    pub fn start(side: Side, words: &[String], port: u16, log: &Path) -> Result<Server> {
        side.enter()?;
        let child = command(words, log).and_then(|mut command| side.spawn(&mut command));
        side.leave()?;
        let child = child?;
        let mut server = Server { side, port, child };
        let started = Instant::now();
        while !listens(port) {
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended ({status}): {}", last_log_line(log));
            }
            if started.elapsed() > START_MAX {
                bail!("the server does not listen after {START_MAX:?}: {}", last_log_line(log));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.side.kill();
        let _ = self.child.wait();
    }
}

/// Reads the peak memory of both sides while jobs run, and ends jobs that exceed the time limit.
#[derive(Debug)]
pub struct RunMonitor {
    is_over: AtomicBool,
    peaks: Mutex<PeakMemory>,
}

/// The peak resident memory of both sides of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakMemory {
    /// Of the client's processes, MiB.
    pub client_mib: f64,
    /// Of the server's processes, MiB.
    pub server_mib: f64,
}

/// The error of a run that exceeded its time limit.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimitExceeded(Duration);

impl fmt::Display for TimeLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a run took longer than {} s", self.0.as_secs())
    }
}

impl std::error::Error for TimeLimitExceeded {}

impl RunMonitor {
    /// Runs jobs, and reads memory meanwhile. Clients that still run after `time_limit` are killed.
    pub fn run_jobs<T>(
        client: &Side,
        server: Option<&Side>,
        time_limit: Duration,
        jobs: impl FnOnce() -> Result<T>,
    ) -> (Result<T>, PeakMemory) {
        let started = Instant::now();
        let monitor = RunMonitor { is_over: AtomicBool::new(false), peaks: Mutex::default() };
        let result = std::thread::scope(|scope| {
            scope.spawn(|| monitor.poll_until_over(client, server, time_limit));
            let result = jobs();
            monitor.is_over.store(true, Ordering::Relaxed);
            result
        });
        let result = if started.elapsed() > time_limit { Err(TimeLimitExceeded(time_limit).into()) } else { result };
        let peaks = *monitor.peaks.lock();
        (result, peaks)
    }

    fn poll_until_over(&self, client: &Side, server: Option<&Side>, time_limit: Duration) {
        let started = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            let client_mib = peak_mib(&client.pids());
            let server_mib = server.map_or(0.0, |side| peak_mib(&side.pids()));
            let mut peaks = self.peaks.lock();
            peaks.client_mib = peaks.client_mib.max(client_mib);
            peaks.server_mib = peaks.server_mib.max(server_mib);
            drop(peaks);
            if started.elapsed() > time_limit {
                client.kill();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Jobs of one client, one after the other.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Their commands.
    pub commands: Vec<Vec<String>>,
    /// The file for the output of the last command.
    pub log: PathBuf,
}

impl Jobs {
    /// Runs all commands; returns the seconds that passed.
    ///
    /// # Errors
    /// A command cannot be started, or fails.
    pub fn run(&self, client: &Side) -> Result<f64> {
        let started = Instant::now();
        for words in &self.commands {
            let status = client.spawn(&mut command(words, &self.log)?)?.wait()?;
            if !status.success() {
                bail!("{} ({status}): {}", words.first().map_or("", String::as_str), last_log_line(&self.log));
            }
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

impl Jobs {
    /// Runs all commands at once; returns the seconds until the last one has ended.
    ///
    /// # Errors
    /// A command cannot be started, or fails.
    pub fn run_at_once(&self, client: &Side) -> Result<f64> {
        let started = Instant::now();
        let start = |words: &Vec<String>| client.spawn(&mut command(words, &self.log)?);
        let children = self.commands.iter().map(start).collect::<Result<Vec<Child>>>()?;
        let mut failed = None;
        for mut child in children {
            let status = child.wait()?;
            failed = failed.or((!status.success()).then_some(status));
        }
        match failed {
            Some(status) => bail!("a command failed ({status}): {}", last_log_line(&self.log)),
            None => Ok(started.elapsed().as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_in_the_table_of_connections() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:115C 00000000:0000 0A 0 0\n";
        assert!(has_listener(table, 0x115c));
        assert!(!has_listener(table, 0x15c));
        assert!(!has_listener(&table.replace(" 0A ", " 01 "), 0x115c), "a connection");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens(listener.local_addr().unwrap().port()));
    }
}

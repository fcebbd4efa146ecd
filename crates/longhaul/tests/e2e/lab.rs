//! `longhaul lab`, with the real binary: each test has a state directory of its own, runs while no other lab does, and reports
//! where labs cannot run.

mod commands;
mod copy_and_check;
mod flows;
mod lifetime;
mod limits;
mod paths;
mod probes;
mod refusals;
mod several_paths;
mod tune;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use lab::control::{Remote, list};
use lab::fixture::{Fixture, LabLock, has_prerequisites};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Outcome, Running, words};
use crate::node::{LONGHAUL, Serving};
use crate::wait::{LONG, until, until_some};

/// Two sites, 20 ms apart.
const PAIR: &str = "[site.left]\n[site.right]\n[path.left-right]\nrtt = \"20ms\"\nrate = \"100Mbit/s\"\n";

/// A client that works with labs, one at a time on this machine. A lab that still runs is taken down when it is dropped.
struct Labs {
    client: Client,
    test: &'static str,
    since: CpuWaitBaseline,
    _lock: LabLock,
}

impl Labs {
    /// None where labs cannot run, which is reported.
    fn of(test: &'static str) -> Option<Labs> {
        has_prerequisites(test).then(|| {
            let lock = LabLock::take().unwrap();
            Labs { client: Client::new(), test, since: CpuWaitBaseline::now(), _lock: lock }
        })
    }

    /// Whether times and rates of the running lab are meaningful.
    fn is_judged(&self) -> bool {
        is_judged(self.test, self.status()["emulator_limited"].as_str().map(str::to_owned), &self.since)
    }

    /// Writes a scenario.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        self.client.write(&format!("{name}.toml"), text)
    }

    /// Starts `longhaul lab` with these arguments.
    fn begin(&self, words: Vec<OsString>) -> Running {
        let mut command = self.client.command(lab_words(words));
        command.env_remove("LONGHAUL_LAB");
        self.client.start(command)
    }

    /// Runs `longhaul lab` with these arguments.
    fn run(&self, words: Vec<OsString>) -> Outcome {
        self.begin(words).finish()
    }

    /// Starts a node at a site of the running lab, which lets anonymous clients write to the client's `data`, with further arguments.
    fn serve(&self, site: &str, more: &[&str]) -> Running {
        let (data, state) = (self.client.path("data"), self.client.path("node"));
        fs::create_dir(&data).unwrap();
        let export = format!("data={}:rw", data.display());
        let mut words = words!["exec", site, "--", LONGHAUL, "serve", "--export", export, "--anonymous", "rw"];
        words.extend(words!["--state", state]);
        words.extend(more.iter().map(OsString::from));
        let serving = self.begin(words);
        until("the node listens", LONG, || serving.out().contains("listening on"));
        serving
    }

    /// The status of the only running lab.
    fn status(&self) -> Value {
        self.run(vec!["status".into(), "--json".into()]).expect(0).json()
    }

    /// The directory of a lab's name.
    fn dir(&self, name: &str) -> PathBuf {
        self.client.state().join("lab").join(name)
    }

    /// The process of a lab.
    fn process(&self, name: &str) -> u32 {
        let file = self.dir(name).join("pid");
        until_some("the lab's process is known", LONG, || fs::read_to_string(&file).ok()?.trim().parse().ok())
    }

    /// Whether nothing is left below the state directory.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.client.state().join("lab")).map_or(true, |mut entries| entries.next().is_none())
    }
}

/// Starts a node at site `b` of a lab, which lets anonymous clients write to this directory.
fn serve_at_b(fixture: &Fixture, dir: &TempDir) -> Serving {
    let mut command = fixture.command("b", LONGHAUL).unwrap();
    command.args(["serve", "--listen", "0.0.0.0:0", "--anonymous", "rw", "--state"]).arg(dir.path().join("node"));
    command.arg("--export").arg(format!("d={}:rw", dir.path().display())).stderr(Stdio::null());
    Serving::start(&mut command)
}

/// A moment, and the time for which programs had waited for a processor until then (proc(5), pressure).
pub struct CpuWaitBaseline(Instant, Option<u64>);

impl CpuWaitBaseline {
    pub fn now() -> CpuWaitBaseline {
        CpuWaitBaseline(Instant::now(), waited_us())
    }

    /// The processor time that the machine withheld, in words; none where it was little.
    fn busy(&self) -> Option<String> {
        let share = (waited_us()? - self.1?) as f64 / 1e6 / self.0.elapsed().as_secs_f64();
        (share > 0.6).then(|| format!("a thread waited for a processor {:.0} % of the time", share * 100.0))
    }
}

fn waited_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    text.lines().find(|line| line.starts_with("some "))?.rsplit_once("total=")?.1.trim().parse().ok()
}

/// Whether times and rates are meaningful, for a test that finds them wrong. They are not where the lab was the limit or the
/// machine was busy, which is reported.
pub fn is_judged(test: &str, limited: Option<String>, since: &CpuWaitBaseline) -> bool {
    let why = limited.or_else(|| since.busy());
    if let Some(why) = &why {
        let _ = writeln!(std::io::stderr(), "NOT JUDGED: {test}: {why}");
    }
    why.is_none()
}

impl Drop for Labs {
    fn drop(&mut self) {
        list(&self.client.state()).iter().map(Remote::down).for_each(drop);
    }
}

fn lab_words(mut words: Vec<OsString>) -> Vec<OsString> {
    words.insert(0, "lab".into());
    words
}

/// Whether a process exists and has not ended.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

fn wait_until_ended(what: &str, pid: u32) {
    until(what, LONG, || !is_running(pid));
}

/// The number that a command has printed as its first line.
fn pid_from(running: &Running) -> u32 {
    until_some("the command prints its process id", LONG, || running.out().lines().next()?.trim().parse().ok())
}

/// A shell command that prints its process id and keeps running.
const PRINT_PID_AND_SLEEP: &str = "echo $$; exec sleep 600";

/// A path as text, for a shell's command line.
fn path_text(path: &Path) -> String {
    path.display().to_string()
}

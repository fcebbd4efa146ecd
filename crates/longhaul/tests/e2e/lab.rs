//! `longhaul lab`, with the real binary: each test with a state directory and a turn of its own, and loud where labs
//! cannot be had.

mod flows;
mod limits;
mod lives;
mod paths;
mod probes;
mod refusals;
mod several;
mod story;
mod tune;
mod use_of;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use lab::control::{Remote, list};
use lab::rig::{Rig, Turn, able};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Outcome, Running, words};
use crate::node::{LONGHAUL, Serving};
use crate::wait::{LONG, until, until_some};

/// Two sites, 20 ms apart.
const PAIR: &str = "[site.left]\n[site.right]\n[path.left-right]\nrtt = \"20ms\"\nrate = \"100Mbit/s\"\n";

/// Somebody who works with labs, one at a time on this machine. What is still up goes with this.
struct Labs {
    client: Client,
    test: &'static str,
    since: Since,
    _turn: Turn,
}

impl Labs {
    /// None where there can be none, which is said.
    fn of(test: &'static str) -> Option<Labs> {
        able(test).then(|| {
            let turn = Turn::take().unwrap();
            Labs { client: Client::new(), test, since: Since::now(), _turn: turn }
        })
    }

    /// Whether times and rates of the lab that is up mean something.
    fn is_judged(&self) -> bool {
        is_judged(self.test, self.status()["emulator_limited"].as_str().map(str::to_owned), &self.since)
    }

    /// Writes a scenario.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        self.client.write(&format!("{name}.toml"), text)
    }

    /// `longhaul lab` with these words, begun.
    fn begin(&self, words: Vec<OsString>) -> Running {
        let mut command = self.client.command(lab_words(words));
        command.env_remove("LONGHAUL_LAB");
        self.client.start(command)
    }

    /// `longhaul lab` with these words.
    fn run(&self, words: Vec<OsString>) -> Outcome {
        self.begin(words).finish()
    }

    /// A node at a site of the lab that is up, which lets anybody write to the client's `data`, with these words besides.
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

    /// What the only lab that is up says of itself.
    fn status(&self) -> Value {
        self.run(vec!["status".into(), "--json".into()]).expect(0).json()
    }

    /// The directory of a lab's name.
    fn dir(&self, name: &str) -> PathBuf {
        self.client.state().join("lab").join(name)
    }

    /// The process that holds a lab.
    fn holder(&self, name: &str) -> u32 {
        let file = self.dir(name).join("pid");
        until_some("the lab's process is known", LONG, || fs::read_to_string(&file).ok()?.trim().parse().ok())
    }

    /// Nothing is left below the state directory.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.client.state().join("lab")).map_or(true, |mut entries| entries.next().is_none())
    }
}

/// A node at site `b` of a rig, which lets anybody write to this directory.
fn serve_at_b(rig: &Rig, dir: &TempDir) -> Serving {
    let mut command = rig.command("b", LONGHAUL).unwrap();
    command.args(["serve", "--listen", "0.0.0.0:0", "--anonymous", "rw", "--state"]).arg(dir.path().join("node"));
    command.arg("--export").arg(format!("d={}:rw", dir.path().display())).stderr(Stdio::null());
    Serving::start(&mut command)
}

/// A moment, and for how long programs had waited for a processor by then (proc(5), pressure).
pub struct Since(Instant, Option<u64>);

impl Since {
    pub fn now() -> Since {
        Since(Instant::now(), waited_us())
    }

    /// What the machine withheld, if that was much.
    fn busy(&self) -> Option<String> {
        let share = (waited_us()? - self.1?) as f64 / 1e6 / self.0.elapsed().as_secs_f64();
        (share > 0.6).then(|| format!("somebody waited for a processor {:.0} % of the time", share * 100.0))
    }
}

fn waited_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    text.lines().find(|line| line.starts_with("some "))?.rsplit_once("total=")?.1.trim().parse().ok()
}

/// Whether times and rates mean something, for a test that does not find them as they should be: not where the lab was the
/// limit or the machine was busy, which is said.
pub fn is_judged(test: &str, limited: Option<String>, since: &Since) -> bool {
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

/// Whether a process is there and has not ended.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

fn until_ended(what: &str, pid: u32) {
    until(what, LONG, || !lives(pid));
}

/// The number that a command has printed as its first line.
fn pid_from(running: &Running) -> u32 {
    until_some("the command says its number", LONG, || running.out().lines().next()?.trim().parse().ok())
}

/// A command line for a shell that says its number and stays.
const STAYS: &str = "echo $$; exec sleep 600";

/// A path in a shell's command line.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

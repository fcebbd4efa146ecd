//! One run: a lab of two sites, a node at one, a copy from or to it at the other.
//!
//! Should this program itself be killed, setpriv(1) has told the kernel to take its children along.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::{Lab, Scenario};

use super::runs::{Load, Planned};
use crate::data;
use crate::job::Data;
use crate::process::Held;

/// How long a run may take.
const RUN_MAX: Duration = Duration::from_secs(180);
/// How long a node may take until it listens.
const NODE_MAX: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// Where runs happen.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The binary.
    pub longhaul: &'a Path,
    /// Room for files.
    pub scratch: &'a Path,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Runs a job; the lines of its `--json`, and why the lab was the limit, if it was.
    pub fn run(&self, planned: &Planned) -> Result<(String, Option<String>)> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(self.scratch)?;
        let place = |name: &str| -> Result<PathBuf> {
            let path = dir.path().join(name);
            fs::create_dir(&path)?;
            Ok(path)
        };
        let (source, target, state) = (place("source")?, place("target")?, place("state")?);
        fill(&planned.load, &source)?;
        let text = planned.way.scenario();
        let scenario = Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))?;
        let lab = Lab::up("bench-eta", &scenario, dir.path())?;
        let start = |site: &str, words: &[String], log: &Path| -> Result<Held> {
            let mut command: Command = lab.command(site, "setpriv")?;
            command.args(["--pdeathsig", "KILL"]).arg(self.longhaul).args(words);
            command.env("LONGHAUL_STATE", state.join(site)).env_remove("LONGHAUL_KEY").stdin(Stdio::null());
            command.stdout(File::create(log)?).stderr(File::create(log.with_extension("err"))?);
            Ok(Held(command.spawn().context("cannot start setpriv and longhaul")?))
        };
        let export = format!("data={}:rw", target.display());
        let log = dir.path().join("node.out");
        let node = ["serve", "--export", &export, "--anonymous", "rw"].map(String::from);
        let _node = start("b", &node, &log)?;
        self.wait("the node does not listen", NODE_MAX, || Ok(fs::read_to_string(&log)?.contains("listening")))?;
        let before = lab.reading()?;
        let log = dir.path().join("copy.out");
        let mut copy = start("a", &words(planned, &source), &log)?;
        let mut status = None;
        self.wait("the copy does not end", RUN_MAX, || {
            status = copy.0.try_wait()?;
            Ok(status.is_some())
        })?;
        let limited = lab.limited(&lab.reading()?.since(&before));
        if status.is_none_or(|status| !status.success()) {
            bail!("the copy failed: {}", fs::read_to_string(log.with_extension("err"))?.trim());
        }
        Ok((fs::read_to_string(&log)?, limited))
    }

    fn wait(&self, what: &str, most: Duration, mut is_over: impl FnMut() -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        while !is_over()? {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(started.elapsed() < most, "{what}");
            sleep(LOOK);
        }
        Ok(())
    }
}

/// The words of the copy.
fn words(planned: &Planned, source: &Path) -> Vec<String> {
    let mut words = vec!["cp".to_owned(), "--json".to_owned()];
    words.extend(planned.options.split_whitespace().map(String::from));
    words.extend(match &planned.load {
        Load::Memory { bytes, pull: false } => vec![format!("zero:{bytes}"), "lh://b/null:".to_owned()],
        Load::Memory { bytes, pull: true } => vec![format!("lh://b/zero:{bytes}"), "null:".to_owned()],
        Load::Files(_) => vec!["-r".to_owned(), source.display().to_string(), "lh://b/data".to_owned()],
    });
    words
}

/// The command as one would type it.
pub fn shown(planned: &Planned) -> String {
    format!("longhaul {}", words(planned, Path::new("SOURCE")).join(" "))
}

fn fill(load: &Load, source: &Path) -> Result<()> {
    let Load::Files(groups) = load else { return Ok(()) };
    for (at, (files, bytes_each)) in groups.iter().enumerate() {
        let group = source.join(at.to_string());
        fs::create_dir(&group)?;
        data::make(Data::Tree { files: *files, bytes_each: *bytes_each }, &group)?;
    }
    Ok(())
}

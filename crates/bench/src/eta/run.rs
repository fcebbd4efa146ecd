//! One run: a lab of two sites, a node at one, a copy from or to it at the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use lab::{Lab, Scenario};

use super::runs::{Load, Planned};
use crate::data;
use crate::job::Data;
use crate::node::SiteProcesses;
use crate::process::ChildGuard;

/// The longest that a run may take.
const RUN_MAX: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The inputs of all runs.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for files.
    pub scratch: &'a Path,
    /// Set by a signal: the run ends.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Runs a job; returns the lines of its `--json`, and why the lab was the limit, if it was.
    ///
    /// # Errors
    /// The lab, the node or the copy fails, or a signal stopped the run.
    pub fn run(&self, planned: &Planned) -> Result<(String, Option<String>)> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(self.scratch)?;
        let make_directory = |name: &str| -> Result<PathBuf> {
            let path = dir.path().join(name);
            fs::create_dir(&path)?;
            Ok(path)
        };
        let source = make_directory("source")?;
        let target = make_directory("target")?;
        fill(&planned.load, &source)?;
        let text = planned.path.scenario();
        let scenario = Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))?;
        let lab = Lab::up("bench-eta", &scenario, dir.path())?;
        let sites = SiteProcesses { lab: &lab, longhaul: self.longhaul, dir: dir.path() };
        let export = format!("data={}:rw", target.display());
        let node = ["serve", "--export", &export, "--anonymous", "rw"].map(String::from);
        let _node = sites.serve("b", "node", &node, self.stop)?;
        let before = lab.reading()?;
        let mut copy = sites.start("a", "copy", &arguments(planned, &source))?;
        let status = self.wait_for(&mut copy)?;
        let limited = lab.limited(&lab.reading()?.since(&before));
        if !status.success() {
            bail!("the copy failed: {}", fs::read_to_string(sites.log("copy", "err"))?.trim());
        }
        Ok((fs::read_to_string(sites.log("copy", "out"))?, limited))
    }

    /// Waits until the copy ends.
    fn wait_for(&self, copy: &mut ChildGuard) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = copy.0.try_wait()? {
                return Ok(status);
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(started.elapsed() < RUN_MAX, "the copy does not end");
            sleep(POLL_INTERVAL);
        }
    }
}

/// The arguments of the copy.
fn arguments(planned: &Planned, source: &Path) -> Vec<String> {
    let mut arguments = vec!["cp".to_owned(), "--json".to_owned()];
    arguments.extend(planned.options.split_whitespace().map(String::from));
    arguments.extend(match &planned.load {
        Load::Memory { bytes, pull: false } => vec![format!("zero:{bytes}"), "lh://b/null:".to_owned()],
        Load::Memory { bytes, pull: true } => vec![format!("lh://b/zero:{bytes}"), "null:".to_owned()],
        Load::Files(_) => vec!["-r".to_owned(), source.display().to_string(), "lh://b/data".to_owned()],
    });
    arguments
}

/// The command as a user types it.
pub fn command_line(planned: &Planned) -> String {
    format!("longhaul {}", arguments(planned, Path::new("SOURCE")).join(" "))
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

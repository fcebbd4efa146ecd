//! Three sites in a lab with a node each, and a hub at the first site that shares out this site's link.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::{Lab, Owner, Scenario};
use serde_json::Value;

use crate::data;
use crate::node::{SiteProcesses, grant};
use crate::process::ChildGuard;

/// The capacity of the link from the first site to all others, Mbit/s.
pub const LINK_MBIT_S: u64 = 1000;
/// The part of it that the collaboration may use.
pub const MARK: f64 = 0.8;
/// Bytes of the file that all jobs copy.
pub const FILE_BYTES: u64 = 256 << 20;
/// The interval at which counters are read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The sites; their nodes are the endpoints `na`, `nb` and `nc`.
const SITES: [&str; 3] = ["a", "b", "c"];
const HUB: &str = "https://10.77.1.1:8446";

/// The counter of the shared link at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When the counter was read.
    pub at: Instant,
    /// Bytes that have left the first site, with headers.
    pub bytes: u64,
}

/// A lab with nodes and a hub.
pub struct Collaboration<'a> {
    lab: Lab,
    longhaul: &'a Path,
    dir: &'a Path,
    stop: &'a AtomicBool,
    /// The index of the shared link in readings.
    link: usize,
    key: String,
    submitted: u64,
    // Dropped before the lab.
    processes: Vec<ChildGuard>,
}

fn scenario() -> Result<Scenario> {
    let text = format!(
        "[site.a]\nuplink = {{ rate = \"{LINK_MBIT_S}Mbit/s\", queue = \"20ms\" }}\n[site.b]\n[site.c]\n\
         [path.near]\nsites = [\"a\", \"b\"]\nrtt = \"20ms\"\n[path.far]\nsites = [\"a\", \"c\"]\nrtt = \"40ms\"\n"
    );
    Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))
}

impl<'a> Collaboration<'a> {
    /// Starts the lab, the nodes and the hub. The communities `one`, `two` and `four` have the shares of their names.
    ///
    /// # Errors
    /// The lab, a node or the hub does not start, or the hub refuses a command.
    pub fn up(longhaul: &'a Path, dir: &'a Path, stop: &'a AtomicBool) -> Result<Collaboration<'a>> {
        let lab = Lab::up("bench-hub", &scenario()?, dir)?;
        let uplink = Owner::Uplink { site: 0, direction: 0 };
        let link = lab.topology().link(uplink).context("the first site has an uplink")?;
        let mut all =
            Collaboration { lab, longhaul, dir, stop, link, key: String::new(), submitted: 0, processes: Vec::new() };
        let state = dir.join("hub");
        let output =
            all.command("a", &["hub", "grant", "--role", "admin", "--name", "bench", "--community", ""], |command| {
                command.arg("--state").arg(&state);
            })?;
        all.key = output.lines().last().context("no key was made")?.to_owned();
        let words = ["hub", "serve", "--listen", "10.77.1.1:8446", "--state", &state.display().to_string()];
        let sites = SiteProcesses { lab: &all.lab, longhaul, dir };
        let hub = sites.serve("a", "hub", &words.map(String::from), stop)?;
        all.processes.push(hub);
        for (at, site) in SITES.iter().enumerate() {
            all.add_node(at + 1, site)?;
        }
        data::fill(&dir.join("data-a/file"), FILE_BYTES, 7)?;
        let capacity = format!("{LINK_MBIT_S}Mbit/s");
        all.hub(&[
            "hub",
            "link",
            "add",
            "wan",
            "--capacity",
            &capacity,
            "--mark",
            &MARK.to_string(),
            "--between",
            "a,*",
        ])?;
        for (name, share) in [("one", "1"), ("two", "2"), ("four", "4")] {
            all.hub(&["hub", "community", "add", name, "--share", share])?;
        }
        Ok(all)
    }

    fn add_node(&mut self, number: usize, site: &str) -> Result<()> {
        let data = self.dir.join(format!("data-{site}"));
        fs::create_dir_all(&data)?;
        let state = self.dir.join(format!("node-{site}"));
        let export = format!("data={}:rw", data.display());
        let listen = format!("10.77.{number}.1:7411");
        let words = ["serve", "--listen", &listen, "--export", &export, "--state", &state.display().to_string()];
        let sites = SiteProcesses { lab: &self.lab, longhaul: self.longhaul, dir: self.dir };
        let node = sites.serve(site, &format!("node-{site}"), &words.map(String::from), self.stop)?;
        self.processes.push(node);
        let key = self.dir.join(format!("key-{site}"));
        fs::write(&key, grant(self.longhaul, &state, &["--export", "data", "--write"])?)?;
        self.hub(&["hub", "site", "add", site])?;
        let url = format!("lh://10.77.{number}.1/");
        let key = key.display().to_string();
        let name = format!("n{site}");
        self.hub(&["hub", "endpoint", "add", &name, "--site", site, "--url", &url, "--endpoint-key-file", &key])?;
        Ok(())
    }

    fn command(&self, site: &str, words: &[&str], more: impl Fn(&mut Command)) -> Result<String> {
        let mut command = self.lab.command(site, self.longhaul)?;
        command.args(words).env("LONGHAUL_STATE", self.dir.join("client")).env("LONGHAUL_HUB", HUB);
        command.env("LONGHAUL_KEY", &self.key).stdin(Stdio::null());
        more(&mut command);
        let output = command.output()?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a command of the hub; returns what it prints.
    ///
    /// # Errors
    /// The command fails.
    pub fn hub(&self, words: &[&str]) -> Result<String> {
        self.command("a", words, |_| ())
    }

    /// Submits copies of the file to a site; returns the job's id.
    ///
    /// # Errors
    /// The hub refuses.
    pub fn submit(&mut self, site: usize, files: u64, words: &[&str]) -> Result<String> {
        let mut list = String::new();
        for _ in 0..files {
            self.submitted += 1;
            let host = site + 1;
            let at = self.submitted;
            list.push_str(&format!("lh://10.77.1.1/data/file lh://10.77.{host}.1/data/f{at} {FILE_BYTES}\n"));
        }
        let path = self.dir.join("list");
        fs::write(&path, list)?;
        let path = path.display().to_string();
        let all: Vec<&str> = ["submit", "--files-from", &path].into_iter().chain(words.iter().copied()).collect();
        Ok(self.hub(&all)?.lines().last().unwrap_or_default().to_owned())
    }

    /// The rate of each community's transfers in Mbit/s, by the name of the community.
    ///
    /// # Errors
    /// The hub does not answer.
    pub fn rates_by_community(&self) -> Result<BTreeMap<String, f64>> {
        let mut rates_by_community = BTreeMap::new();
        for line in self.hub(&["queue", "show", "--json"])?.lines() {
            let line: Value = serde_json::from_str(line)?;
            if let (Some(community), Some(bits)) = (line["community"].as_str(), line["used_bit_s"].as_f64()) {
                *rates_by_community.entry(community.to_owned()).or_default() += bits / 1e6;
            }
        }
        Ok(rates_by_community)
    }

    /// A job, as the hub reports it.
    ///
    /// # Errors
    /// The hub does not answer.
    pub fn job(&self, id: &str) -> Result<Value> {
        let text = self.hub(&["queue", "show", id, "--json"])?;
        Ok(serde_json::from_str(text.lines().next().unwrap_or_default())?)
    }

    /// Cancels all jobs, waits until they have ended, and removes their copies.
    ///
    /// # Errors
    /// The hub does not answer, or the jobs do not end.
    pub fn cancel_all(&mut self) -> Result<()> {
        for line in self.hub(&["queue", "list", "--json"])?.lines() {
            let job: Value = serde_json::from_str(line)?;
            self.hub(&["queue", "cancel", job["id"].as_str().unwrap_or_default()])?;
        }
        let begun = Instant::now();
        while !self.hub(&["queue", "list", "--json"])?.trim().is_empty() {
            ensure!(begun.elapsed() < Duration::from_secs(60), "the jobs do not end");
            sleep(Duration::from_millis(200));
        }
        for site in ["data-b", "data-c"] {
            for entry in fs::read_dir(self.dir.join(site))? {
                let _ = fs::remove_file(entry?.path());
            }
        }
        Ok(())
    }

    /// Starts a copy with CUBIC to the second site, which the hub does not know.
    ///
    /// # Errors
    /// The copy cannot be started.
    pub fn start_cross_traffic(&self, dir: &Path) -> Result<ChildGuard> {
        let state = self.dir.join("node-b");
        let key = grant(self.longhaul, &state, &["--export", "data", "--write"])?;
        let source = self.dir.join("data-a/file");
        let mut command = self.lab.command("a", "setpriv")?;
        command.args(["--pdeathsig", "KILL"]).arg(self.longhaul);
        command.args(["cp", "--congestion", "cubic", "--streams", "4", "--sync", "none"]).arg(source);
        command.arg("lh://10.77.2.1/data/others").env("LONGHAUL_KEY", key).env("LONGHAUL_STATE", dir);
        Ok(ChildGuard(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    /// Samples the link's counter for a span.
    ///
    /// # Errors
    /// The lab does not answer, or a signal ended the run.
    pub fn sample_link(&self, span: Duration) -> Result<Vec<Sample>> {
        let begun = Instant::now();
        let mut samples = Vec::new();
        while begun.elapsed() < span {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            let bytes = self.lab.reading()?.links[self.link].counts.out_bytes;
            samples.push(Sample { at: Instant::now(), bytes });
            sleep(POLL_INTERVAL);
        }
        Ok(samples)
    }

    /// Why the lab was the limit since a reading, if it was.
    ///
    /// # Errors
    /// The lab does not answer.
    pub fn limited(&self, before: &lab::Reading) -> Result<Option<String>> {
        Ok(self.lab.limited(&self.lab.reading()?.since(before)))
    }

    /// A reading to compare with later.
    ///
    /// # Errors
    /// The lab does not answer.
    pub fn reading(&self) -> Result<lab::Reading> {
        Ok(self.lab.reading()?)
    }

    /// The number of running transfers, as the hub reports it.
    ///
    /// # Errors
    /// The hub does not answer.
    pub fn running_transfers(&self) -> Result<u64> {
        let shown = self.hub(&["queue", "show", "--json"])?;
        let running_transfers =
            shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?["running"].as_u64());
        Ok(running_transfers.sum())
    }
}

//! The mesh: three sites in the west, three in the east, a core of four parallel members between them, a longer path over the south, a
//! reflector, and the watch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::scenario::Change;
use lab::{Lab, Scenario};
use model::v1::probe::Direction;
use model::v1::watch::{Alarm, Alarms, Grid, Health};

use super::clock::ReflectorAtSite;
use super::faults::FaultMethod;
use crate::node::{SiteProcesses, grant};
use crate::process::ChildGuard;

/// The sites with nodes, those of the west first.
pub const SITES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The reflector whose clock can be set.
pub const REFLECTOR: &str = "g";
/// The factor on the times of the judge.
pub const SCALE: f64 = 1.0 / 60.0;
/// Packets of latency on a path in each direction, per second: the most that a watch orders.
pub const LATENCY_RATE: u32 = 100;
/// The interval of the TCP tests of a pair: long enough for six tests of two seconds, and the time that is kept free between them.
pub const TCP_EVERY: Duration = Duration::from_secs(75);
/// TCP tests of a pair after which the judge knows its normal rate.
const LEARN: u32 = 4;
const HUB: &str = "https://10.77.8.1:8446";
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The sites `west`, `east` and `south` only forward packets. They come last, so that the addresses of the others begin at 1.
const SCENARIO: &str = r#"
seed = 30
[site.a]
[site.b]
[site.c]
[site.d]
[site.e]
[site.f]
[site.g]
[site.noc]
[site.west]
[site.east]
[site.south]
[path.a-west]
rtt = "2ms"
hops = 1
rate = "100Mbit/s"
queue = "100ms"
[path.b-west]
rtt = "4ms"
hops = 1
rate = "100Mbit/s"
queue = "100ms"
[path.c-west]
rtt = "8ms"
hops = 1
rate = "100Mbit/s"
queue = "100ms"
[path.d-east]
rtt = "2ms"
hops = 1
rate = "100Mbit/s"
queue = "100ms"
[path.e-east]
rtt = "4ms"
hops = 1
rate = "100Mbit/s"
queue = "100ms"
[path.f-east]
rtt = "8ms"
hops = 1
rate = "100Mbit/s"
queue = "100ms"
[path.g-east]
rtt = "2ms"
[path.noc-west]
rtt = "2ms"
[path.west-east]
rtt = "30ms"
hops = 2
ecmp = 4
[path.west-south]
rtt = "30ms"
hops = 2
[path.south-east]
rtt = "30ms"
hops = 2
"#;

/// The segments that packets from one site to another pass.
pub fn segments(from: &str, to: &str) -> Vec<String> {
    let is_west = |site: &str| SITES[..3].contains(&site);
    let core = match (is_west(from), is_west(to)) {
        (true, false) => "core".to_owned(),
        (false, true) => "core (back)".to_owned(),
        _ => format!("{from} to {to}"),
    };
    vec![format!("{from} out"), core, format!("{to} in")]
}

/// Whether the path and direction of an alarm pass a segment. `segment` may also be a host: then, whether the path ends there.
pub fn passes(alarm: &Alarm, segment: &str) -> bool {
    let (from, to) = (alarm.from.as_str(), alarm.to.as_str());
    let over = |from, to| segments(from, to).iter().any(|passed| passed == segment);
    let is_at = [from, to].contains(&segment);
    match alarm.direction {
        Some(Direction::Forward) => over(from, to),
        Some(Direction::Reverse) => over(to, from),
        None => is_at || over(from, to) || over(to, from),
    }
}

/// A running mesh.
pub struct Mesh<'a> {
    longhaul: &'a Path,
    dir: &'a Path,
    stop: &'a AtomicBool,
    key: String,
    reflector: ReflectorAtSite,
    // Dropped before the lab.
    processes: Vec<ChildGuard>,
    lab: Lab,
}

impl<'a> Mesh<'a> {
    /// Starts the mesh.
    ///
    /// # Errors
    /// The lab, a node or the watch does not start.
    pub fn up(longhaul: &'a Path, dir: &'a Path, stop: &'a AtomicBool) -> Result<Mesh<'a>> {
        let scenario = Scenario::read(SCENARIO).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        let lab = Lab::up("bench-watch", &scenario, dir)?;
        let reflector = ReflectorAtSite::start(&lab, REFLECTOR)?;
        let mut mesh = Mesh { lab, longhaul, dir, stop, key: String::new(), reflector, processes: Vec::new() };
        let tables: Vec<String> = (1..).zip(SITES).map(|(at, site)| mesh.add_node(at, site)).collect::<Result<_>>()?;
        let config = dir.join("watch.toml");
        fs::write(&config, configuration(&tables))?;
        let state = dir.join("hub");
        let output = mesh.command(&["hub", "grant", "--role", "operator", "--name", "noc", "--state"], Some(&state))?;
        mesh.key = output.lines().last().context("no key was made")?.to_owned();
        let words = ["watch", "serve", "--listen", "10.77.8.1:8446", "--config", &config.display().to_string()];
        let words = words.into_iter().map(String::from).chain(["--state".into(), state.display().to_string()]);
        let sites = SiteProcesses { lab: &mesh.lab, longhaul, dir };
        let watch = sites.serve("noc", "watch", &words.collect::<Vec<_>>(), stop)?;
        mesh.processes.push(watch);
        Ok(mesh)
    }

    /// Starts a node; returns its table of the watch's configuration.
    fn add_node(&mut self, number: usize, site: &str) -> Result<String> {
        let data = self.dir.join(format!("data-{site}"));
        fs::create_dir_all(&data)?;
        let state = self.dir.join(format!("node-{site}"));
        let address = format!("10.77.{number}.1:7411");
        let export = format!("data={}:rw", data.display());
        let words = ["serve", "--listen", &address, "--export", &export, "--responders", "stamp", "--state"];
        let words = words.into_iter().map(String::from).chain([state.display().to_string()]).collect::<Vec<_>>();
        let sites = SiteProcesses { lab: &self.lab, longhaul: self.longhaul, dir: self.dir };
        let node = sites.serve(site, &format!("node-{site}"), &words, self.stop)?;
        self.processes.push(node);
        let key = self.dir.join(format!("key-{site}"));
        fs::write(&key, grant(self.longhaul, &state, &["--export", "data", "--write"])?)?;
        Ok(format!("[node.{site}]\naddress = \"{address}\"\nkey-file = \"{}\"\nlink = \"100Mbit/s\"\n", key.display()))
    }

    fn command(&self, words: &[&str], last: Option<&Path>) -> Result<String> {
        let mut command = self.lab.command("noc", self.longhaul)?;
        command.args(words).args(last).stdin(Stdio::null());
        command.env("LONGHAUL_STATE", self.dir.join("client")).env("LONGHAUL_HUB", HUB).env("LONGHAUL_KEY", &self.key);
        let output = command.output()?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn query<T: serde::de::DeserializeOwned>(&self, words: &[&str]) -> Result<T> {
        let text = self.command(words, None)?;
        Ok(serde_json::from_str(text.lines().next().unwrap_or_default())?)
    }

    /// The alarms of the last twelve hours, also those that have ended.
    ///
    /// # Errors
    /// The watch does not answer.
    pub fn alarms(&self) -> Result<Vec<Alarm>> {
        let alarms: Alarms = self.query(&["watch", "alarms", "--since", "12h", "--json"])?;
        Ok(alarms.alarms)
    }

    /// Waits until the judge knows the normal values of all paths.
    ///
    /// # Errors
    /// Not all paths are measured in time, or a signal stopped the run.
    pub fn wait_until_learned(&self) -> Result<()> {
        let begun = Instant::now();
        let is_measured = |grid: &Grid| {
            let halves = grid.cells.iter().flat_map(|cell| [&cell.forward, &cell.reverse]);
            !grid.cells.is_empty() && halves.into_iter().all(|half| half.health != Health::Unknown)
        };
        while !is_measured(&self.query(&["watch", "grid", "--json"])?) {
            ensure!(begun.elapsed() < TCP_EVERY * 4, "not all pairs are measured; {}", self.dir.display());
            self.wait(POLL_INTERVAL)?;
        }
        self.wait(TCP_EVERY * LEARN)
    }

    /// Waits for a span.
    ///
    /// # Errors
    /// A signal stopped the run.
    pub fn wait(&self, span: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < span {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            sleep(POLL_INTERVAL.min(span));
        }
        Ok(())
    }

    /// Puts a fault into the mesh, or removes it.
    ///
    /// # Errors
    /// The lab or sysctl(8) refuses the change.
    pub fn apply(&self, method: &FaultMethod, is_faulty: bool) -> Result<()> {
        let at = usize::from(!is_faulty);
        match method {
            FaultMethod::Path { path, direction, member, words } => {
                let word = (words[at].0.to_owned(), words[at].1.to_owned());
                let change = Change::read(self.lab.scenario(), path, *direction, *member, &[word]);
                self.lab.change(change.map_err(|problem| anyhow::anyhow!("{problem}"))?, None)?;
            }
            FaultMethod::Sysctl { site, setting } => {
                let value = format!("{}={}", setting[0], setting[1 + at]);
                let status =
                    self.lab.command(site, "sysctl")?.args(["-q", "-w", &value]).stdin(Stdio::null()).status()?;
                ensure!(status.success(), "sysctl {value} at {site}: {status}");
            }
            FaultMethod::Clock(milliseconds) => self.reflector.set_offset_ms(if is_faulty { *milliseconds } else { 0 }),
        }
        Ok(())
    }

    /// A reading to compare with later.
    ///
    /// # Errors
    /// The lab does not answer.
    pub fn reading(&self) -> Result<lab::Reading> {
        Ok(self.lab.reading()?)
    }

    /// Why the lab was the limit since a reading, if it was.
    ///
    /// # Errors
    /// The lab does not answer.
    pub fn limited(&self, before: &lab::Reading) -> Result<Option<String>> {
        Ok(self.lab.limited(&self.lab.reading()?.since(before)))
    }

    /// The path of the watch's archive.
    pub fn archive(&self) -> PathBuf {
        self.dir.join("hub/watch.db")
    }
}

/// The configuration of the watch: streams among all sites, TCP between west and east, the reflector's clock from all sites.
fn configuration(tables: &[String]) -> String {
    let (west, east) = SITES.split_at(3);
    let pairs: Vec<(&str, &str)> = west.iter().flat_map(|from| east.iter().map(|to| (*from, *to))).collect();
    // Time is compressed, and a diagnosis takes real time: its result would come after the fault.
    let mut text = format!("diagnosis = false\n[judge]\nscale = {SCALE}\nlearn = {LEARN}\n{}", tables.concat());
    text += &format!("[target.{REFLECTOR}]\nurl = \"stamp://10.77.7.1\"\n");
    let known = pairs.iter().copied().chain(west.iter().map(|from| (*from, REFLECTOR)));
    for (from, to) in known {
        text += &format!("[[path]]\nfrom = \"{from}\"\nto = \"{to}\"\nsegments = [\"core\"]\n");
    }
    // Half of the usual ports: in a compressed minute a path sends a sixth of its usual packets, and with eight ports each would have
    // too few to distinguish the members of the core.
    let latency = format!("latency = {{ rate = {LATENCY_RATE}, report = \"1s\", ports = 4 }}\nthroughput = false\n");
    let named: Vec<String> = pairs.iter().map(|(from, to)| format!("[\"{from}\", \"{to}\"]")).collect();
    text += &format!("[[group]]\nname = \"light\"\nmembers = {SITES:?}\n{latency}path = {{ every = \"10s\" }}\n");
    text += &format!("[[group]]\nname = \"clock\"\nmode = \"island\"\nto = [\"{REFLECTOR}\"]\n{latency}path = false\n");
    text += &format!(
        "[[group]]\nname = \"heavy\"\nmode = \"pairs\"\npairs = [{}]\nlatency = false\npath = false\n\
         throughput = {{ every = \"{}s\", lasts = \"2s\", waits-for-transfers = false }}\n",
        named.join(", "),
        TCP_EVERY.as_secs()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::faults::ROUNDS;
    use super::*;

    #[test]
    fn faults_of_one_round_share_no_direction() {
        assert!(ROUNDS.iter().map(|round| round.faults.len()).sum::<usize>() == 20);
        let directions = || SITES.iter().flat_map(|from| SITES.iter().map(move |to| (*from, *to)));
        for round in ROUNDS {
            for (from, to) in directions().filter(|(from, to)| from != to) {
                let is_on_path = |segment: &str| segments(from, to).iter().any(|passed| passed == segment);
                let count = round.faults.iter().filter(|fault| is_on_path(fault.segment)).count();
                assert!(count <= 1, "{from} to {to} meets {count} faults");
            }
        }
    }

    #[test]
    fn the_watch_accepts_the_configuration_of_the_mesh() {
        let tables = SITES.map(|site| format!("[node.{site}]\naddress = \"{site}\"\nlink = \"100Mbit/s\"\n"));
        let config = watch::config::Config::parse(&configuration(&tables)).unwrap();
        let mesh = watch::mesh::Mesh::of(&config).unwrap();
        assert_eq!((mesh.tests.len(), mesh.remarks.len()), (15 + 15 + 6 + 18, 0), "{:?}", mesh.remarks);
    }
}

//! A lab that this process holds: brought up, entered, changed, read, and removed when it is dropped.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::emulator::EmulatorHandle;
use crate::error::Error;
use crate::fabric::Fabric;
use crate::packet::FRAME_MAX;
use crate::packet_memory::PacketMemory;
use crate::reading::Reading;
use crate::scenario::{Change, Problem, Scenario};
use crate::site::{Group, Site};
use crate::topology::{Owner, PlannedLink, Topology};
use crate::wire::{TunWire, Wire};

/// A lab of this process.
pub struct Lab {
    name: String,
    scenario: Scenario,
    topology: Topology,
    sites: Vec<Site>,
    emulator: EmulatorHandle,
    thread: Option<JoinHandle<()>>,
}

/// The assumed rate of a path without a bottleneck, which carries what the machine can: it sizes the delay line.
const UNBOUNDED_BIT_S: f64 = 10e9;
/// The most memory that is touched before the first packet, bytes.
const READY_MAX: f64 = 1e9;

/// The size of the full delay lines of all links, in bytes.
fn delay_line_bytes(topology: &Topology) -> f64 {
    let of_link = |link: &PlannedLink| {
        let rate = link.settings.rate.map_or(UNBOUNDED_BIT_S, |rate| rate.0 as f64);
        let travel = link.settings.delay + link.settings.jitter;
        link.settings.queue_bytes(link.rtt) as f64 + rate / 8.0 * travel.as_secs_f64()
    };
    topology.links.iter().map(of_link).sum()
}

fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(1 << 20) << 10
}

impl Lab {
    /// Brings a scenario up. The files that its sites see in place of the host's are put into `dir`.
    ///
    /// # Errors
    /// No permission, no TUN devices, or a setting that the kernel refuses. Then nothing is left behind.
    pub fn up(name: &str, scenario: &Scenario, dir: &Path) -> Result<Lab, Error> {
        crate::site::check_prerequisites()?;
        let topology = Topology::of(scenario);
        let available = available_memory();
        let bytes_max = scenario.memory.map_or(available / 2, |bytes| bytes.0);
        let ready = delay_line_bytes(&topology).min(READY_MAX).min(available as f64 / 8.0);
        let mut sites = Vec::new();
        let mut ports = Vec::new();
        for number in 0..scenario.sites.len() {
            match Site::up(scenario, number, dir) {
                Ok((site, site_ports)) => {
                    sites.push(site);
                    ports.extend(site_ports);
                }
                Err(error) => {
                    sites.iter().filter_map(Site::group).for_each(Group::remove);
                    return Err(error);
                }
            }
        }
        let memory = PacketMemory::new(FRAME_MAX, bytes_max, ready as u64);
        let fabric = Fabric::new(scenario, topology.clone(), memory);
        let failed = |source| {
            sites.iter().filter_map(Site::group).for_each(Group::remove);
            Error::site(name, "start its emulator", source)
        };
        let (emulator, thread) = TunWire::carry(fabric, ports, &scenario.events).map_err(failed)?;
        Ok(Lab { name: name.to_owned(), scenario: scenario.clone(), topology, sites, emulator, thread: Some(thread) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scenario that it was made from.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Its ports, links and routes.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// All sites.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// A site by its name.
    ///
    /// # Errors
    /// There is no such site.
    pub fn site(&self, name: &str) -> Result<&Site, Error> {
        let known = || self.sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.sites.iter().find(|site| site.name == name);
        found.ok_or_else(|| Error::NoSite { name: name.to_owned(), known: known() })
    }

    /// A command that will run at a site.
    ///
    /// # Errors
    /// There is no such site, or the command cannot be prepared.
    pub fn command(&self, site: &str, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let mut command = self.site(site)?.command(program)?;
        command.env("LONGHAUL_LAB", &self.name);
        Ok(command)
    }

    /// Changes words of a path (or of a site's uplink) now, as `longhaul lab set` does: `("loss", "1%")`.
    ///
    /// # Errors
    /// The target or a word is unknown, a value makes no sense, or the words contradict the settings in force.
    pub fn set(&self, target: &str, words: &[(&str, &str)]) -> Result<(), Error> {
        let words: Vec<_> = words.iter().map(|(word, value)| ((*word).to_owned(), (*value).to_owned())).collect();
        self.change(Change::read(&self.scenario, target, None, None, &words)?, None)
    }

    /// Changes the network; for a while only, if `lasts` says so.
    ///
    /// # Errors
    /// The words contradict the settings in force.
    pub fn change(&self, change: Change, lasts: Option<Duration>) -> Result<(), Error> {
        let now = self.emulator.read().ok_or_else(|| self.ended())?;
        for link in self.topology.changed(&change) {
            let mut settings = now.links[link].settings.clone();
            change.words.iter().for_each(|word| drop(settings.set(word.clone())));
            // A setting that the change does not name may become idle: a queue, when the change removes the rate.
            let is_touched = |word: &str| change.words.iter().any(|one| one.touches(word));
            if let Some((_, what, remedy)) = settings.contradiction().filter(|(word, ..)| is_touched(word)) {
                return Err(Problem { line: 0, what, remedy: remedy.to_owned() }.into());
            }
        }
        if self.emulator.change(change, lasts) { Ok(()) } else { Err(self.ended()) }
    }

    fn ended(&self) -> Error {
        Error::Ended { name: self.name.clone() }
    }

    /// The counts so far: what the lab did to packets.
    ///
    /// # Errors
    /// The emulator has ended.
    pub fn reading(&self) -> Result<Reading, Error> {
        let mut reading = self.emulator.read().ok_or_else(|| self.ended())?;
        reading.not_read = self.sites.iter().map(Site::dropped).sum();
        Ok(reading)
    }

    /// Why the lab itself was the limit during a reading, if it was.
    pub fn limited(&self, reading: &Reading) -> Option<String> {
        let rtts: Vec<Duration> = self.topology.links.iter().map(|link| self.rtt(link, reading)).collect();
        reading.limited(&rtts)
    }

    /// The RTT of a link's path at a reading.
    fn rtt(&self, link: &PlannedLink, reading: &Reading) -> Duration {
        let Owner::Path { path, .. } = link.owner else { return link.rtt };
        let scenario_path = &self.scenario.paths[path];
        let delay = |direction: usize| {
            let number = self.link(&scenario_path.name, direction)?;
            Some(reading.links[number].settings.delay)
        };
        match (delay(0), delay(1)) {
            (Some(forward), Some(reverse)) => forward + reverse,
            (Some(one), None) | (None, Some(one)) => 2 * one,
            (None, None) => link.rtt,
        }
    }

    /// The number of a path's link in readings, in this direction (0 for `ab`); of several members, the first.
    pub fn link(&self, path: &str, direction: usize) -> Option<usize> {
        let path = self.scenario.path(path)?;
        let owner = Owner::Path { path, direction, member: 0 };
        self.topology.link(owner)
    }

    /// The inode numbers of its sites' network namespaces.
    pub fn networks(&self) -> Vec<u64> {
        self.sites.iter().filter_map(|site| site.namespaces().network_number().ok()).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        crate::site_processes::end(&self.networks(), crate::site_processes::GRACE);
        self.sites.iter().for_each(Site::shorten_orphan_retries);
        self.emulator.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.sites.iter().filter_map(Site::group).for_each(Group::remove);
    }
}

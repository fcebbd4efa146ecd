//! A test bed: a lab of two sites and one path, with iperf3 at both ends.
//!
//! The sender is site `a`, the receiver site `b`; the direction `ab` carries the data. This module ends every process that it
//! starts: when the process takes too long, when the run is stopped, when the bed is dropped. If this program is killed, the
//! kernel kills its children (setpriv(1), `--pdeathsig`).
//! Does not know: what is measured.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, iter};

use anyhow::{Context, Result, bail, ensure};
use lab::scenario::Change;
use lab::{Lab, LinkReading, Reading, Scenario};
use tempfile::TempDir;

use super::iperf::{self, Flow, Iperf3Report};
use super::kernel::KernelCounters;
use crate::process::ChildGuard;
use crate::site_programs::SitePrograms;

/// The path's name in scenarios.
const PATH: &str = "a-b";
/// The server's port; every site has all ports for itself.
const PORT: u16 = 5201;
/// The interval at which processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The longest that a server may take until it ends by itself.
const SERVER_MAX: Duration = Duration::from_secs(15);
/// The time that a client may take in addition to its seconds and its round trips.
const CLIENT_EXTRA: Duration = Duration::from_secs(20);
/// Round trips that iperf3 takes to negotiate with its server before it sends.
const HANDSHAKE_ROUND_TRIPS: u32 = 4;

/// The settings of a path: for both directions, unless a field names one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSettings {
    /// The round-trip time, ms.
    pub rtt_ms: u32,
    /// The rate of the bottleneck, Mbit/s; none: no bottleneck.
    pub rate_mbit: Option<u32>,
    /// The size of the bottleneck's queue, bytes; none: one BDP.
    pub queue: Option<u64>,
    /// The MTU of both sites, bytes.
    pub mtu: u16,
    /// Further settings of the direction that carries the data, as a scenario writes them.
    pub ab: &'static str,
    /// The most that a connection's buffers may hold, bytes; none: as much as TCP can use.
    pub window: Option<u64>,
    /// The seed of all random choices.
    pub seed: u32,
}

impl PathSettings {
    /// The path as a scenario of the lab.
    pub fn scenario(&self) -> String {
        let PathSettings { rtt_ms, mtu, seed, .. } = self;
        let window = self.window.map(|bytes| {
            let [r, w] = ["rmem", "wmem"].map(|name| format!("\"net.ipv4.tcp_{name}\" = \"4096 131072 {bytes}\""));
            format!("sysctl = {{ {r}, {w} }}\n")
        });
        let window = window.unwrap_or_default();
        let mut text = format!("seed = {seed}\n[site.a]\nmtu = {mtu}\n{window}[site.b]\nmtu = {mtu}\n{window}");
        let _ = write!(text, "[path.{PATH}]\nrtt = \"{rtt_ms}ms\"\n");
        let rate = self.rate_mbit.map(|rate| format!("rate = \"{rate}Mbit/s\"\n"));
        let queue = self.queue.map(|queue| format!("queue = \"{queue}B\"\n"));
        text + &rate.unwrap_or_default() + &queue.unwrap_or_default() + &format!("ab = {{ {} }}\n", self.ab)
    }

    /// The bandwidth-delay product of the bottleneck, bytes.
    pub fn bdp(&self) -> u64 {
        u64::from(self.rate_mbit.unwrap_or_default()) * u64::from(self.rtt_ms) * 125
    }

    fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt_ms.into())
    }
}

/// A running lab, and a directory of its own.
pub struct Bed<'a> {
    lab: Lab,
    path: &'a PathSettings,
    dir: TempDir,
    stop: &'a AtomicBool,
}

/// The results of one run of iperf3.
#[derive(Debug)]
pub struct Iperf3Run {
    /// The report of iperf3.
    pub report: Iperf3Report,
    /// The lab's reading from before the first packet to after the last.
    pub whole: Reading,
    /// The lab's reading over the seconds that iperf3 counted, approximately.
    pub counted: Reading,
    /// Why the lab was the limit in those seconds; none if it was not.
    pub limited: Option<String>,
    /// As `limited`, for the whole run.
    pub limited_in_whole_run: Option<String>,
    /// The counters of the sender's kernel, before and after.
    pub sender: [KernelCounters; 2],
    /// The counters of the receiver's kernel, before and after.
    pub receiver: [KernelCounters; 2],
}

impl Iperf3Run {
    /// The data's direction in a reading.
    ///
    /// # Errors
    /// The lab has no links.
    pub fn data(reading: &Reading) -> Result<&LinkReading> {
        reading.links.first().context("the lab has no links")
    }

    /// The growth of a counter of the sender's kernel.
    pub fn at_sender(&self, name: &str) -> u64 {
        self.sender[1].growth_since(&self.sender[0], name)
    }

    /// The growth of a counter of the receiver's kernel.
    pub fn at_receiver(&self, name: &str) -> u64 {
        self.receiver[1].growth_since(&self.receiver[0], name)
    }
}

impl ChildGuard {
    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl<'a> Bed<'a> {
    /// Starts the lab.
    ///
    /// # Errors
    /// The lab cannot be started.
    pub fn up(name: &str, path: &'a PathSettings, stop: &'a AtomicBool) -> Result<Bed<'a>> {
        let text = path.scenario();
        let scenario = Scenario::read(&text).map_err(|problem| anyhow::anyhow!("{problem}\n{text}"))?;
        let dir = tempfile::Builder::new().prefix("longhaul-lab-").tempdir()?;
        let lab = Lab::up(name, &scenario, dir.path())?;
        ensure!(lab.link(PATH, 0) == Some(0), "the lab's first link is not the data's");
        Ok(Bed { lab, path, dir, stop })
    }

    /// Changes a setting of the direction that carries the data, at once.
    ///
    /// # Errors
    /// The lab refuses the change.
    pub fn set(&self, word: &str, value: &str) -> Result<()> {
        let words = [(word.to_owned(), value.to_owned())];
        Ok(self.lab.change(Change::read(self.lab.scenario(), PATH, Some(0), None, &words)?, None)?)
    }

    /// The congestion controls that a site has.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn congestions(&self) -> Result<Vec<String>> {
        let read = || fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        Ok(self.lab.site("a")?.within(read)??.split_whitespace().map(String::from).collect())
    }

    /// Runs iperf3 once. While it runs, calls `meanwhile` repeatedly with the seconds since the start.
    ///
    /// # Errors
    /// iperf3 or its server fails or takes too long, the lab cannot be read, `meanwhile` fails, or a signal stopped the run.
    pub fn run(&self, flow: &Flow, mut meanwhile: impl FnMut(f64) -> Result<()>) -> Result<Iperf3Run> {
        let mut server = self.serve()?;
        let kernels = || -> Result<[KernelCounters; 2]> {
            Ok([KernelCounters::of(&self.lab, "a")?, KernelCounters::of(&self.lab, "b")?])
        };
        let [sender_before, receiver_before] = kernels()?;
        let start = self.lab.reading()?;
        let mut client = self.iperf("a", "client", &flow.arguments(&self.address(flow.v6)?))?;
        let started = Instant::now();
        let handshake = self.path.rtt() * HANDSHAKE_ROUND_TRIPS;
        let count_from = handshake + Duration::from_secs(flow.omit_s.into());
        let count_to = count_from + Duration::from_secs(flow.measure_s.into());
        let (mut first, mut last) = (None, None);
        while !client.has_ended()? {
            self.check_not_stopped()?;
            let elapsed = started.elapsed();
            if elapsed > count_to + CLIENT_EXTRA + handshake * 10 {
                bail!(
                    "iperf3 did not end after {:.0} s: {}",
                    elapsed.as_secs_f64(),
                    self.programs().last_line("client")
                );
            }
            if first.is_none() && elapsed >= count_from {
                first = Some(self.lab.reading()?);
            }
            if last.is_none() && elapsed >= count_to {
                last = Some(self.lab.reading()?);
            }
            meanwhile(elapsed.as_secs_f64())?;
            sleep(POLL_INTERVAL);
        }
        let text = fs::read_to_string(self.dir.path().join("client.out"))?;
        let report = iperf::parse(&text).with_context(|| self.programs().last_line("client"))?;
        self.wait(&mut server)?;
        // Packets that are still under way arrive, and are acknowledged.
        sleep(Duration::from_millis(200) + self.path.rtt() * 3);
        let end = self.lab.reading()?;
        let [sender_after, receiver_after] = kernels()?;
        let first = first.unwrap_or_else(|| start.clone());
        let last = last.unwrap_or_else(|| end.clone());
        let whole = end.since(&start);
        let counted = last.since(&first);
        Ok(Iperf3Run {
            report,
            limited: self.lab.limited(&counted),
            limited_in_whole_run: self.lab.limited(&whole),
            whole,
            counted,
            sender: [sender_before, sender_after],
            receiver: [receiver_before, receiver_after],
        })
    }

    /// Checks that no signal has stopped the run.
    fn check_not_stopped(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
        Ok(())
    }

    fn address(&self, v6: bool) -> Result<String> {
        let site = self.lab.scenario().sites.iter().find(|site| site.name == "b");
        let interface = site.and_then(|site| site.interfaces.first()).context("site b has no interface")?;
        let address = if v6 {
            interface.v6.map(|(address, _)| address.to_string())
        } else {
            interface.v4.map(|(address, _)| address.to_string())
        };
        address.context("site b has no address of this kind")
    }

    fn programs(&self) -> SitePrograms<'_> {
        SitePrograms { lab: &self.lab, dir: self.dir.path() }
    }

    /// Starts iperf3 at a site, with its output in files of the bed.
    fn iperf(&self, site: &str, name: &str, arguments: &[String]) -> Result<ChildGuard> {
        let words: Vec<String> = iter::once("iperf3".to_owned()).chain(arguments.iter().cloned()).collect();
        let mut command = self.programs().command(site, name, &words)?;
        Ok(ChildGuard(command.spawn().context("cannot start setpriv and iperf3 (scripts/setup-bench.sh)")?))
    }

    /// Starts a server for one client, and waits until it listens.
    fn serve(&self) -> Result<ChildGuard> {
        let mut server = self.iperf("b", "server", &["-s", "-1"].map(String::from))?;
        self.programs().wait_for_listener("b", "server", &mut server.0, PORT, self.stop)?;
        Ok(server)
    }

    /// Waits until the server ends, which it does by itself after its client. One that does not end is killed by its guard; this is not
    /// a failure.
    fn wait(&self, server: &mut ChildGuard) -> Result<()> {
        let ended = Instant::now();
        while !server.has_ended()? && ended.elapsed() < SERVER_MAX {
            self.check_not_stopped()?;
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_path_make_a_scenario() {
        let plain = PathSettings { rtt_ms: 0, mtu: 9000, ..PathSettings::default() };
        let full = PathSettings {
            rtt_ms: 303,
            rate_mbit: Some(1_000),
            queue: Some(40_000_000),
            mtu: 1500,
            ab: "loss = 0.001, corrupt = \"0.05%\"",
            window: Some(16 << 20),
            seed: 7,
        };
        let read = |path: &PathSettings| Scenario::read(&path.scenario()).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(read(&plain).paths[0].directions[0].members[0].rate, None);
        let scenario = read(&full);
        let [ab, ba] = [0, 1].map(|n| &scenario.paths[0].directions[n].members[0]);
        assert_eq!((ab.queue_bytes(full.rtt()), ab.corrupt, ba.corrupt), (40_000_000, 0.0005, 0.0));
        assert_eq!((scenario.sites[1].sysctl.len(), scenario.seed), (2, 7));
        assert_eq!(full.bdp(), 37_875_000);
    }
}

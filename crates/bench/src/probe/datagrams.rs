//! `longhaul probe udp`: its highest rate, the spacing of its packets, and whether its counts agree with those of the lab.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lab::Counts;
use lab::fixture::{Fixture, up};
use serde_json::Value;

use super::report::Verdict;
use super::start_iperf3_server;
use crate::account::Accounts;
use crate::node::grant;
use crate::process::{Server, free_port};
use crate::statistics::{Spread, spread};

/// Payload at the highest rate: a jumbo frame's.
const MAX_BYTES: &str = "8972";
/// The target of the highest rate, bit/s.
const MAX_BIT_S: f64 = 40e9;
/// Spacings in microseconds, and the largest error of their median.
const SPACINGS_US: [u32; 5] = [5, 10, 20, 50, 100];
const SPACING_ERROR_MAX: f64 = 0.01;
/// Faults of an emulated path whose counts are known.
const FAULTS: [(&str, [(&str, &str); 4]); 3] = [
    ("loss", [("loss", "0.5%"), ("duplicate", "0%"), ("reorder", "0%"), ("reorder_by", "2ms")]),
    ("copies", [("loss", "0%"), ("duplicate", "0.5%"), ("reorder", "0%"), ("reorder_by", "2ms")]),
    ("all at once", [("loss", "0.5%"), ("duplicate", "0.5%"), ("reorder", "0.5%"), ("reorder_by", "2ms")]),
];

/// The inputs of all runs.
pub struct Datagrams<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for state and logs.
    pub scratch: &'a Path,
    /// Seconds of a run.
    pub seconds: u32,
    /// Rounds.
    pub rounds: u32,
}

/// One run at the highest rate.
#[derive(Clone, Copy, Debug)]
struct HighestRateRun {
    sent_bit_s: f64,
    received_bit_s: f64,
    lost: f64,
}

/// Datagrams that were lost, duplicated and reordered, as counted by the probe or by the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DatagramCounts {
    lost: u64,
    duplicates: u64,
    reordered: u64,
}

/// Runs the measurements; returns the numbers, and which targets were met.
///
/// # Errors
/// A node, a server or a lab does not start, or a test gives no numbers.
pub fn run(bench: &Datagrams<'_>, accounts: &Accounts) -> Result<(String, Vec<Verdict>)> {
    let mut out = String::from("\n## Datagrams\n");
    let mut verdicts = Vec::new();
    let (node, key) = bench.node(accounts)?;
    let iperf3_server = start_iperf3_server(accounts, "iperf3-udp", bench.scratch)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        ours.push(bench.run_at_highest_rate(node.port, &key)?);
        theirs.push(bench.run_iperf3_at_highest_rate(iperf3_server.port)?);
    }
    out += "\nAs fast as it goes, 8972 bytes each, one flow (least to most):\n\n";
    out += "| | sent, Gbit/s | received, Gbit/s | lost |\n|---|---|---|---|\n";
    for (name, runs) in [("longhaul probe udp --max", &ours), ("iperf3 -u -b 0 -l 8972", &theirs)] {
        let spread_of = |value: fn(&HighestRateRun) -> f64| spread(runs.iter().map(value)).context("no runs");
        let (sent, received, lost) = (
            spread_of(|f| f.sent_bit_s / 1e9)?,
            spread_of(|f| f.received_bit_s / 1e9)?,
            spread_of(|f| f.lost * 100.0)?,
        );
        writeln!(out, "| {name} | {} | {} | {} % |", show(sent), show(received), show(lost))?;
    }
    let reached = spread(ours.iter().map(|run| run.received_bit_s)).context("no runs")?.median;
    verdicts.push(("received, 40 Gbit/s or more".into(), format!("{:.1} Gbit/s", reached / 1e9), reached >= MAX_BIT_S));
    out += "\nSpacing (64 bytes), median of each round's 50th and 99th percentile:\n\n";
    out += "| asked, µs | 50 %, µs | 99 %, µs | rounds that say the host was the limit |\n|---|---|---|---|\n";
    let runs = (0..bench.rounds).map(|_| bench.spacings(node.port, &key)).collect::<Result<Vec<_>>>()?;
    for (at, requested) in SPACINGS_US.into_iter().enumerate() {
        let spread_of = |which: usize| spread(runs.iter().map(|run| run[at].0[which] * 1e6)).context("no runs");
        let half = spread_of(0)?;
        let most = spread_of(1)?;
        let limited = runs.iter().filter(|run| run[at].1).count();
        writeln!(out, "| {requested} | {} | {} | {limited} of {} |", show(half), show(most), runs.len())?;
        let deviation = (half.median / f64::from(requested) - 1.0).abs();
        verdicts.push((
            format!("spacing of {requested} µs, median within 1 %"),
            format!("{:.2} %", deviation * 100.0),
            deviation <= SPACING_ERROR_MAX,
        ));
    }
    drop((node, iperf3_server));
    out += "\nCounts over an emulated path of 10 ms (20,000 datagrams a second; faults for two seconds of four):\n\n";
    out += "| fault | lost: lab, probe | twice: lab, probe | late: lab, probe |\n|---|---|---|---|\n";
    for (name, words) in FAULTS {
        let (truth, found) = bench.compare_counts(&words)?;
        writeln!(
            out,
            "| {name} | {}, {} | {}, {} | {}, {} |",
            truth.lost, found.lost, truth.duplicates, found.duplicates, truth.reordered, found.reordered
        )?;
        verdicts.push((format!("{name}: the probe's counts are the lab's"), format!("{found:?}"), truth == found));
    }
    Ok((out, verdicts))
}

fn show(spread: Spread) -> String {
    format!("{:.2} ({:.2} to {:.2})", spread.median, spread.least, spread.most)
}

impl Datagrams<'_> {
    /// Starts a node that lets a client with a key send as fast as it can.
    fn node(&self, accounts: &Accounts) -> Result<(Server, String)> {
        let state = self.scratch.join("datagrams").display().to_string();
        let key = grant(self.longhaul, Path::new(&state), &["--export", "d"])?;
        let port = free_port()?;
        let export = format!("d={}", self.scratch.display());
        let listen = format!("127.0.0.1:{port}");
        let words = [
            &self.longhaul.display().to_string(),
            "serve",
            "--export",
            &export,
            "--listen",
            &listen,
            "--state",
            &state,
        ];
        let log = self.scratch.join("datagrams.log");
        Ok((Server::start(accounts.side("datagrams")?, &words.map(str::to_owned), port, &log)?, key))
    }

    /// Runs a probe; returns its JSON lines.
    fn probe(&self, port: u16, key: &str, words: &[&str]) -> Result<Vec<Value>> {
        let mut command = Command::new(self.longhaul);
        command.args(["probe", "udp", &format!("127.0.0.1:{port}"), "--json"]).args(words);
        command.env("LONGHAUL_STATE", self.scratch.join("client")).env("LONGHAUL_KEY", key);
        lines(&mut command)
    }

    fn run_at_highest_rate(&self, port: u16, key: &str) -> Result<HighestRateRun> {
        let time = format!("{}s", self.seconds);
        let found = self.probe(port, key, &["--max", "--size", MAX_BYTES, "-t", &time])?;
        let point = found.last().context("a result")?;
        Ok(HighestRateRun {
            sent_bit_s: number(&point["sent"]["rate_bit_s"])?,
            received_bit_s: number(&point["received"]["rate_bit_s"])?,
            lost: number(&point["lost_share"])?,
        })
    }

    fn run_iperf3_at_highest_rate(&self, port: u16) -> Result<HighestRateRun> {
        let words = [
            "-J",
            "-u",
            "-b",
            "0",
            "-l",
            MAX_BYTES,
            "-c",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-t",
            &self.seconds.to_string(),
        ];
        let output = Command::new("iperf3").args(words).stdin(Stdio::null()).output()?;
        let found: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(output.status.success(), "iperf3: {}", found["error"]);
        let sum = &found["end"]["sum"];
        let (sent, lost) = (number(&sum["bits_per_second"])?, number(&sum["lost_percent"])? / 100.0);
        Ok(HighestRateRun { sent_bit_s: sent, received_bit_s: sent * (1.0 - lost), lost })
    }

    /// The 50th and 99th percentile of each requested spacing, and whether the host was the limit.
    fn spacings(&self, port: u16, key: &str) -> Result<Vec<([f64; 2], bool)>> {
        let list = SPACINGS_US.map(|us| format!("{us}us")).join(",");
        let found = self.probe(port, key, &["--spacing", &list, "--size", "64", "-t", "1s"])?;
        ensure!(found.len() == SPACINGS_US.len(), "{} results", found.len());
        let spacing_of = |point: &Value| {
            let spacing = &point["sent"]["spacing"];
            Ok(([number(&spacing["p50_s"])?, number(&spacing["p99_s"])?], point["host_limited"].is_string()))
        };
        found.iter().map(spacing_of).collect()
    }

    /// Runs a probe over a path that is disturbed for a part of the test; returns the counts of the lab and of the probe. The control
    /// connection sends nothing while the path is disturbed.
    fn compare_counts(&self, words: &[(&str, &str)]) -> Result<(DatagramCounts, DatagramCounts)> {
        let fixture = up("bench-probe", "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"10ms\"")
            .context("a lab needs root and /dev/net/tun")?;
        let dir = tempfile::tempdir()?;
        let node = super::faults::serve(&fixture, self.longhaul, dir.path())?;
        let mut command = fixture.command("a", self.longhaul)?;
        command.args([
            "probe",
            "udp",
            &format!("b:{}", node.port),
            "--spacing",
            "50us",
            "--size",
            "200",
            "-t",
            "4s",
            "--json",
            "--state",
        ]);
        command.arg(dir.path().join("near")).stdin(Stdio::null());
        let (found, truth) = std::thread::scope(|scope| -> Result<_> {
            let found = scope.spawn(|| lines(&mut command));
            std::thread::sleep(Duration::from_millis(1_200));
            let before = lab_counts(&fixture)?;
            fixture.set("a-b", words)?;
            std::thread::sleep(Duration::from_secs(2));
            fixture.set("a-b", &[("loss", "0%"), ("duplicate", "0%"), ("reorder", "0%")])?;
            let truth = lab_counts(&fixture)?.since(&before);
            let Ok(found) = found.join() else { bail!("the thread of a run panicked") };
            Ok((found?, truth))
        })?;
        let point = found.last().context("a result")?;
        let count = |value: &Value| value.as_u64().with_context(|| format!("no count in {point}"));
        let received = &point["received"];
        let found = DatagramCounts {
            lost: count(&point["lost"])?,
            duplicates: count(&received["duplicates"])?,
            reordered: count(&received["reordered"])?,
        };
        Ok((DatagramCounts { lost: truth.lost, duplicates: truth.duplicated, reordered: truth.reordered }, found))
    }
}

/// The lab's counts of the forward direction.
fn lab_counts(fixture: &Fixture) -> Result<Counts> {
    let link = fixture.link("a-b", 0).context("the lab has its path")?;
    Ok(fixture.reading()?.links[link].counts)
}

/// Runs a command; returns the lines that it prints, as JSON.
fn lines(command: &mut Command) -> Result<Vec<Value>> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} is not a number"))
}

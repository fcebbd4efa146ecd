//! `cargo xtask soak`: runs the fault tests with many samples, then a node and its clients at full rate for an hour, and checks
//! that the node's memory and descriptors do not grow. Writes docs/results/soak.md.
//!
//! At full rate, rounds of jobs follow one another: memory to memory, and a tree of files to the node and from it, sealed and
//! plain. A round is one sample of the rate. After each round, while no job runs, memory and descriptors are sampled: these
//! are kept from job to job, so a leak in one job appears as a slope. Both are also sampled every ten seconds, while jobs run:
//! these samples show the most that jobs take.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::demo::{Node, binary, fill, repository};
use crate::suite::build::cargo;

/// The largest growth of memory in an hour, as a share: an allowance for the fragmentation of an allocator.
const GROWTH_PER_HOUR_MAX: f64 = 0.05;
/// The share of the time at the beginning that warms caches and pools, and does not count.
const WARM_UP: f64 = 0.1;
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// The time that the node gets after a round to close its files and connections.
const SETTLE_TIME: Duration = Duration::from_millis(300);

const MEMORY_BYTES: u64 = 2 << 30;
const LARGE_BYTES: u64 = 256 << 20;
const SMALL_FILES: u64 = 2_000;
const SMALL_BYTES: u64 = 16 << 10;
const PROPERTY_CASES: &str = "20000";

/// Options of the task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoakOptions {
    /// Minutes at full rate.
    pub minutes: f64,
    /// The least number of faults, in virtual time and over real sockets each; a tenth of this number of programs is killed.
    pub faults: u64,
}

impl SoakOptions {
    /// Reads `--minutes M` and `--faults N`; none if there are other words.
    pub fn parse(words: &[&str]) -> Option<SoakOptions> {
        let mut options = SoakOptions { minutes: 60.0, faults: 1000 };
        for pair in words.chunks(2) {
            match pair {
                ["--minutes", minutes] => options.minutes = minutes.parse().ok().filter(|m: &f64| *m > 0.0)?,
                ["--faults", faults] => options.faults = faults.parse().ok()?,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Memory and descriptors of the node at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_s: f64,
    rss_bytes: f64,
    descriptors: f64,
}

fn sample(pid: u32, started: Instant) -> Result<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as f64;
    Ok(Sample { at_s: started.elapsed().as_secs_f64(), rss_bytes: kib * 1024.0, descriptors })
}

/// A quantity over time: (seconds, value).
struct Series(Vec<(f64, f64)>);

impl Series {
    /// Makes a series of points after the warm-up.
    fn new(points: impl Iterator<Item = (f64, f64)>, total_s: f64) -> Result<Series> {
        let points: Vec<_> = points.filter(|(at, _)| *at >= total_s * WARM_UP).collect();
        ensure!(points.len() >= 3, "too short: only {} samples after the warm-up", points.len());
        Ok(Series(points))
    }

    fn first(&self) -> f64 {
        self.0.first().map_or(0.0, |point| point.1)
    }

    fn last(&self) -> f64 {
        self.0.last().map_or(0.0, |point| point.1)
    }

    fn bounds(&self) -> (f64, f64) {
        self.0.iter().fold((f64::MAX, f64::MIN), |(least, most), (_, v)| (least.min(*v), most.max(*v)))
    }

    /// The slope by least squares, per hour.
    fn slope(&self) -> f64 {
        let count = self.0.len() as f64;
        let mean_t = self.0.iter().map(|p| p.0).sum::<f64>() / count;
        let mean_v = self.mean();
        let covariance: f64 = self.0.iter().map(|(t, v)| (t - mean_t) * (v - mean_v)).sum();
        let variance: f64 = self.0.iter().map(|(t, _)| (t - mean_t) * (t - mean_t)).sum();
        if variance > 0.0 { covariance / variance * 3600.0 } else { 0.0 }
    }

    fn mean(&self) -> f64 {
        self.0.iter().map(|p| p.1).sum::<f64>() / self.0.len() as f64
    }

    /// The growth as a share of the mean: over an hour, or over the whole run if it was shorter, because minutes do not predict hours.
    fn growth(&self) -> f64 {
        let span_s = self.0.last().map_or(0.0, |p| p.0) - self.0.first().map_or(0.0, |p| p.0);
        self.slope() / self.mean() * (span_s / 3600.0).min(1.0)
    }

    fn row(&self, what: &str, unit: f64, digits: usize) -> String {
        let (least, most) = self.bounds();
        let [first, last, least, most, slope] =
            [self.first(), self.last(), least, most, self.slope()].map(|value| format!("{:.digits$}", value / unit));
        let share = 100.0 * self.slope() / self.mean();
        format!("| {what} | {first} | {last} | {least} to {most} | {slope} | {share:+.1} % |\n")
    }
}

/// Runs the property tests with twenty times as many cases as `make test`. Returns the line of the page.
fn run_properties() -> Result<String> {
    let started = Instant::now();
    let suites = [
        ("wire", "hostile", ""),
        ("wire", "pair", "a_million_entries_take_bounded_state"),
        ("wire", "pair", "any_tree_ends_right_under_any_faults"),
        ("lab", "packet", ""),
        ("tune", "hosts", "invalid_files_break_no_audit_and_are_no_fault"),
    ];
    for (package, suite, test) in suites {
        println!("properties: {package} {suite} {test} …");
        let mut command = Command::new(cargo());
        command.args(["test", "--quiet", "--package", package, "--test", suite, test]);
        command.env("PROPTEST_CASES", PROPERTY_CASES);
        let output = command.output()?;
        ensure!(output.status.success(), "{package} {suite} failed:\n{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(format!(
        "properties of hostile bytes, {PROPERTY_CASES} cases each: all hold ({:.0} s)",
        started.elapsed().as_secs_f64()
    ))
}

/// Runs the property tests and the fault tests with many samples. Returns a line of the page for each.
fn run_faults(count: u64) -> Result<Vec<String>> {
    let suites = [
        ("wire", "pair", "attempts::a_job_of_several_cut_attempts_ends_right", "virtual time:"),
        ("engine", "faults", "after_random_faults_the_target_equals_the_source", "real sockets:"),
        ("longhaul", "e2e", "kills::the_same_command_resumes_after_any_kill", "killed "),
        ("longhaul", "e2e", "movers::a_copy_is_whole_when_any_node_dies_or_hangs", "movers: "),
        ("longhaul", "e2e", "hub_faults::no_file_is_lost_under_faults_with_a_hub_on_a_file", "test result"),
        ("longhaul", "e2e", "hub_faults::no_file_is_lost_under_faults_with_two_hubs_on_postgresql", "hub: "),
    ];
    let mut fault_lines = vec![run_properties()?];
    for (package, suite, test, begins) in suites {
        println!("faults: {package} {suite} …");
        let started = Instant::now();
        let arguments = ["test", "--quiet", "--package", package, "--test", suite, test, "--", "--nocapture"];
        let mut command = Command::new(cargo());
        let output = command.args(arguments).env("LONGHAUL_FAULTS", count.to_string()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("{package} {suite} failed:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
        }
        let at = text.find(begins).with_context(|| format!("{package} {suite} does not print {begins:?}:\n{text}"))?;
        let line = text[at..].lines().next().unwrap_or_default();
        let line = format!("{line} ({:.0} s)", started.elapsed().as_secs_f64());
        println!("{line}");
        fault_lines.push(line);
    }
    Ok(fault_lines)
}

struct Soak {
    binary: PathBuf,
    work: PathBuf,
    node: Node,
}

impl Soak {
    fn start(work: &Path) -> Result<Soak> {
        let binary = binary("release")?;
        let source = work.join("source");
        fs::create_dir_all(source.join("small"))?;
        fs::create_dir_all(work.join("target"))?;
        fill(&source.join("large"), LARGE_BYTES, 1)?;
        (0..SMALL_FILES).try_for_each(|at| fill(&source.join(format!("small/{at}")), SMALL_BYTES, at))?;
        let export = format!("data={}:rw", work.display());
        let arguments = ["--export", &export, "--anonymous", "rw", "--plain"];
        let node = Node::start(&binary, &work.join("node"), &arguments)?;
        Ok(Soak { binary, work: work.to_owned(), node })
    }

    fn copy(&self, flags: &[&str], from: &str, to: &str) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command.args(["--quiet", "cp", "-r"]).args(flags).args([from, to]);
        command.env("LONGHAUL_STATE", self.work.join("client")).stdout(Stdio::null());
        let status = command.status()?;
        ensure!(status.success(), "{from} to {to} failed: {status}");
        Ok(())
    }

    /// Runs one job of each kind. Returns the bytes that were moved.
    fn run_round(&self) -> Result<u64> {
        let node = &self.node.address;
        let target = self.work.join("target");
        let local_source = self.work.join("source").display().to_string();
        let export = format!("lh://{node}/data");
        let pulled = target.join("pulled").display().to_string();
        let tree_bytes = LARGE_BYTES + SMALL_FILES * SMALL_BYTES;
        let mut bytes = 0;
        for flags in [&[][..], &["--plain"]] {
            self.copy(flags, &format!("zero:{MEMORY_BYTES}"), &format!("lh://{node}/null:"))?;
            self.copy(flags, &local_source, &format!("{export}/target/pushed"))?;
            self.copy(flags, &format!("{export}/source"), &pulled)?;
            bytes += MEMORY_BYTES + 2 * tree_bytes;
            let diff = Command::new("diff").args(["-rq", &local_source, &pulled]).status()?;
            ensure!(diff.success(), "the copy differs from the source");
            ["pushed", "pulled"].iter().try_for_each(|name| fs::remove_dir_all(target.join(name)))?;
        }
        Ok(bytes)
    }

    /// Runs rounds until the time is over, and samples the node.
    fn run(&self, minutes: f64) -> Result<SoakMeasurements> {
        let started = Instant::now();
        let total_s = minutes * 60.0;
        let stop = AtomicBool::new(false);
        let pid = self.node.pid();
        let mut measured = SoakMeasurements { total_s, ..SoakMeasurements::default() };
        let (result, busy) = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut samples = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    samples.extend(sample(pid, started));
                    std::thread::park_timeout(SAMPLE_EVERY);
                }
                samples
            });
            let result = self.run_rounds(started, total_s, &mut measured);
            stop.store(true, Ordering::Relaxed);
            sampler.thread().unpark();
            (result, sampler.join().unwrap_or_default())
        });
        result?;
        measured.busy = busy;
        Ok(measured)
    }

    fn run_rounds(&self, started: Instant, total_s: f64, measured: &mut SoakMeasurements) -> Result<()> {
        while started.elapsed().as_secs_f64() < total_s {
            let begun = Instant::now();
            let bytes = self.run_round()?;
            let rate = bytes as f64 * 8.0 / begun.elapsed().as_secs_f64();
            std::thread::sleep(SETTLE_TIME);
            let at_rest = sample(self.node.pid(), started)?;
            println!(
                "{:6.0} s  {:5.2} Gbit/s  {:6.1} MiB  {} descriptors",
                at_rest.at_s,
                rate / 1e9,
                at_rest.rss_bytes / 1048576.0,
                at_rest.descriptors
            );
            measured.bytes += bytes;
            measured.rates.push((at_rest.at_s, rate));
            measured.at_rest.push(at_rest);
        }
        Ok(())
    }
}

#[derive(Default)]
struct SoakMeasurements {
    total_s: f64,
    bytes: u64,
    /// Samples between rounds.
    at_rest: Vec<Sample>,
    /// Samples of every ten seconds.
    busy: Vec<Sample>,
    rates: Vec<(f64, f64)>,
}

/// The page, and the targets that were not met.
fn report(options: SoakOptions, fault_lines: &[String], measured: &SoakMeasurements) -> Result<(String, Vec<String>)> {
    let total_s = measured.total_s;
    let series = |samples: &[Sample], of: fn(&Sample) -> f64| {
        Series::new(samples.iter().map(|sample| (sample.at_s, of(sample))), total_s)
    };
    let memory = series(&measured.at_rest, |s| s.rss_bytes)?;
    let descriptors = series(&measured.at_rest, |s| s.descriptors)?;
    let rate = Series::new(measured.rates.iter().copied(), total_s)?;
    let mut out = String::from("# Soak: faults, then full rate\n\n");
    writeln!(
        out,
        "Loopback on one machine: both ends share its processors and disk, there is no NIC and no distance.\n"
    )?;
    writeln!(out, "- Date: {}\n- Machine: {}", first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]), machine()?)?;
    writeln!(out, "- Command: `cargo xtask soak --minutes {} --faults {}`", options.minutes, options.faults)?;
    if options.minutes < 60.0 {
        writeln!(out, "- A trial of {} minutes: its slopes per hour are an extrapolation", options.minutes)?;
    }
    writeln!(out, "\n## Faults, by seed\n")?;
    fault_lines.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
    writeln!(out, "\n## Full rate, {:.1} minutes\n", total_s / 60.0)?;
    let rounds = measured.rates.len();
    let gb = measured.bytes as f64 / 1e9;
    writeln!(
        out,
        "{rounds} rounds of six jobs, {gb:.0} GB; of the node, without the first {:.0} %:\n",
        WARM_UP * 100.0
    )?;
    out.push_str("| | first | last | least to most | slope per hour | share per hour |\n|---|---|---|---|---|---|\n");
    out.push_str(&memory.row("memory between jobs, MiB", 1048576.0, 2));
    out.push_str(&series(&measured.busy, |s| s.rss_bytes)?.row("memory every 10 s, MiB", 1048576.0, 2));
    out.push_str(&descriptors.row("descriptors between jobs", 1.0, 1));
    out.push_str(&series(&measured.busy, |s| s.descriptors)?.row("descriptors every 10 s", 1.0, 1));
    out.push_str(&rate.row("rate of a round, Gbit/s", 1e9, 3));
    let mut failures = Vec::new();
    if memory.growth() > GROWTH_PER_HOUR_MAX {
        failures.push(format!("memory grows by {:.1} % in that time", memory.growth() * 100.0));
    }
    if descriptors.last() > descriptors.first() && descriptors.growth() > 0.0 {
        failures.push(format!("descriptors grow: from {} to {}", descriptors.first(), descriptors.last()));
    }
    let verdict =
        if failures.is_empty() { "neither memory nor descriptors grow".to_owned() } else { failures.join("; ") };
    writeln!(
        out,
        "\nVerdict (memory may grow by 5 % in an hour, or in the whole run where it is shorter): {verdict}."
    )?;
    Ok((out, failures))
}

fn measure(options: SoakOptions, work: &Path) -> Result<()> {
    let fault_lines = if options.faults > 0 { run_faults(options.faults)? } else { vec!["left out".to_owned()] };
    let measured = Soak::start(work)?.run(options.minutes)?;
    let (page, failures) = report(options, &fault_lines, &measured)?;
    println!("\n{page}");
    let results = repository().join("docs/results");
    fs::create_dir_all(&results)?;
    fs::write(results.join("soak.md"), page)?;
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Runs the faults and the rounds, and writes the page.
///
/// # Errors
/// A job or a test fails, bytes are wrong, memory or descriptors grow, or the page cannot be written.
pub fn run(options: SoakOptions) -> Result<()> {
    let work = std::env::temp_dir().join(format!("longhaul-soak-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let result = measure(options, &work);
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result
}

/// The first line that a command prints; empty if it cannot be run.
pub(crate) fn first_line(command: &str, arguments: &[&str]) -> String {
    let out = Command::new(command).args(arguments).output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
}

/// A description of this machine.
pub(crate) fn machine() -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let processors = std::thread::available_parallelism()?;
    let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    Ok(format!(
        "{processors} processors ({model}), Linux {}, congestion control {}",
        first_line("uname", &["-r"]),
        congestion.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_per_hour_and_without_the_warm_up() {
        let points = (0..=100).map(|at| (f64::from(at) * 36.0, if at < 10 { 900.0 } else { 100.0 + f64::from(at) }));
        let series = Series::new(points, 3600.0).unwrap();
        assert!((series.slope() - 100.0).abs() < 1e-6, "{}", series.slope());
        assert_eq!((series.first(), series.last()), (110.0, 200.0));
        assert!((series.growth() - 100.0 / 155.0 * 0.9).abs() < 1e-6, "{}", series.growth());
        assert!(Series::new([(0.0, 1.0), (1.0, 1.0)].into_iter(), 1.0).is_err());
    }

    #[test]
    fn options_are_read_from_words_and_others_are_refused() {
        assert_eq!(SoakOptions::parse(&[]), Some(SoakOptions { minutes: 60.0, faults: 1000 }));
        assert_eq!(
            SoakOptions::parse(&["--faults", "5", "--minutes", "0.5"]),
            Some(SoakOptions { minutes: 0.5, faults: 5 })
        );
        for words in [&["--minutes"][..], &["--minutes", "0"], &["--faults", "many"], &["--hours", "1"]] {
            assert_eq!(SoakOptions::parse(words), None, "{words:?}");
        }
    }
}

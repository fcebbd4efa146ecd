//! `cargo xtask bench`: what a job costs on this machine, beside `cp` as the reference. Writes Markdown and SVG to
//! docs/results.
//!
//! Runs are interleaved (A B C A B C …) so that a drifting machine hurts all alike; medians of five; CPU seconds of
//! both ends from the kernel's accounting of children and /proc, beside wall time. Fresh directories for every run:
//! recreating files right after deleting them is many times slower on some ext4. Peers other than `cp` come with a
//! crate of their own later.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::demo::{Node, binary, fill, repository};

const RUNS: usize = 5;

/// Makes the command of one run, for a fresh target directory.
type Make = Box<dyn Fn(&Bench, &Path) -> Result<Vec<String>>>;

/// One measured way of moving something.
struct Case {
    name: &'static str,
    bytes: u64,
    files: u64,
    run: Make,
}

struct Bench {
    binary: PathBuf,
    work: PathBuf,
    node: Node,
    clock_ticks: f64,
}

#[derive(Clone, Copy)]
struct Sample {
    wall_s: f64,
    cpu_s: f64,
}

/// CPU seconds of a process so far, from /proc/PID/stat (proc_pid_stat(5), fields 14 and 15).
fn cpu_of(pid: u32, clock_ticks: f64) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).context("/proc/PID/stat has another form")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks: f64 =
        fields.get(11..13).context("/proc/PID/stat is short")?.iter().filter_map(|f| f.parse::<f64>().ok()).sum();
    Ok(ticks / clock_ticks)
}

/// CPU seconds of all children that have ended so far (fields 16 and 17 of our own stat).
fn cpu_of_children(clock_ticks: f64) -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).context("/proc/self/stat has another form")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks: f64 =
        fields.get(13..15).context("/proc/self/stat is short")?.iter().filter_map(|f| f.parse::<f64>().ok()).sum();
    Ok(ticks / clock_ticks)
}

impl Bench {
    fn sample(&self, case: &Case, round: usize) -> Result<Sample> {
        let target = self.work.join(format!("target/{}-{round}", case.name.replace([' ', ',', ':'], "-")));
        fs::create_dir_all(&target)?;
        let arguments = (case.run)(self, &target)?;
        let (program, rest) = arguments.split_first().context("an empty command")?;
        let before = cpu_of(self.node.pid(), self.clock_ticks)? + cpu_of_children(self.clock_ticks)?;
        let started = Instant::now();
        let status = Command::new(program)
            .args(rest)
            .env("LONGHAUL_STATE", self.work.join("client"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        let wall_s = started.elapsed().as_secs_f64();
        ensure!(status.success(), "{}: {arguments:?} failed", case.name);
        let after = cpu_of(self.node.pid(), self.clock_ticks)? + cpu_of_children(self.clock_ticks)?;
        Ok(Sample { wall_s, cpu_s: after - before })
    }

    fn longhaul(&self, arguments: &[&str]) -> Vec<String> {
        let mut out = vec![self.binary.display().to_string(), "--quiet".into(), "cp".into(), "-r".into()];
        out.extend(arguments.iter().map(ToString::to_string));
        out
    }
}

fn cases(work: &Path) -> Result<Vec<Case>> {
    let source = work.join("source");
    fs::create_dir_all(source.join("small"))?;
    fill(&source.join("large"), 1 << 30, 1)?;
    fill(&source.join("one-kib"), 1 << 10, 2)?;
    for at in 0..10_000u64 {
        fill(&source.join(format!("small/{at}")), 16 << 10, at)?;
    }
    let at = |name: &str| source.join(name).display().to_string();
    let mut cases = Vec::new();
    let mut add = |name, bytes, files, run: Make| {
        cases.push(Case { name, bytes, files, run });
    };
    let push = |from: String, flags: &'static [&'static str]| {
        Box::new(move |bench: &Bench, target: &Path| {
            let below = target.strip_prefix(bench.work.join("target"))?.display().to_string();
            let onto = format!("lh://{}/data/{below}/copy", bench.node.address);
            let mut arguments = flags.to_vec();
            arguments.extend([from.as_str(), onto.as_str()]);
            Ok(bench.longhaul(&arguments))
        })
    };
    let cp = |from: String| {
        Box::new(move |_: &Bench, target: &Path| {
            Ok(vec!["cp".into(), "-r".into(), from.clone(), target.join("copy").display().to_string()])
        })
    };
    add(
        "memory to memory, sealed",
        4 << 30,
        1,
        Box::new(|bench: &Bench, _: &Path| {
            Ok(bench.longhaul(&["zero:4GiB", &format!("lh://{}/null:", bench.node.address)]))
        }),
    );
    add(
        "memory to memory, plain",
        4 << 30,
        1,
        Box::new(|bench: &Bench, _: &Path| {
            Ok(bench.longhaul(&["--plain", "zero:4GiB", &format!("lh://{}/null:", bench.node.address)]))
        }),
    );
    add("1 GiB file, sealed", 1 << 30, 1, push(at("large"), &[]));
    add("1 GiB file, plain", 1 << 30, 1, push(at("large"), &["--plain"]));
    add("1 GiB file, cp (no network)", 1 << 30, 1, cp(at("large")));
    add("10,000 files of 16 KiB, sealed", 10_000 << 14, 10_000, push(at("small"), &[]));
    add("10,000 files of 16 KiB, cp (no network)", 10_000 << 14, 10_000, cp(at("small")));
    add("one file of 1 KiB, process start included", 1 << 10, 1, push(at("one-kib"), &[]));
    Ok(cases)
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

pub(crate) fn first_line(command: &str, arguments: &[&str]) -> String {
    let out = Command::new(command).args(arguments).output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
}

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

/// The table of all cases.
fn table(cases: &[Case], samples: &[Vec<Sample>], load: &str) -> Result<String> {
    let mut out = String::from("# First light: what a job costs on loopback\n\n");
    writeln!(out, "Loopback on one machine: both ends share its processors, there is no NIC and no distance.\n")?;
    writeln!(out, "- Date: {}\n- Machine: {}", first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]), machine()?)?;
    writeln!(out, "- Load by others before the run (1, 5, 15 min): {load}")?;
    writeln!(out, "- Command: `make bench`; {RUNS} interleaved runs of each, medians with (min to max)")?;
    writeln!(out, "- CPU: client and node together; target files are new in every run, not flushed to disk\n")?;
    writeln!(out, "| case | wall s | Gbit/s | files/s | CPU s | CPU s per GB |\n|---|---|---|---|---|---|")?;
    for (case, samples) in cases.iter().zip(samples) {
        let (wall, least, most) = median(samples.iter().map(|s| s.wall_s).collect());
        let (cpu, ..) = median(samples.iter().map(|s| s.cpu_s).collect());
        let rate = case.bytes as f64 * 8.0 / wall / 1e9;
        let files = if case.files > 1 { format!("{:.0}", case.files as f64 / wall) } else { "-".into() };
        let per_gb = if case.bytes > 1 << 20 { format!("{:.2}", cpu / (case.bytes as f64 / 1e9)) } else { "-".into() };
        writeln!(
            out,
            "| {} | {wall:.3} ({least:.3} to {most:.3}) | {rate:.2} | {files} | {cpu:.2} | {per_gb} |",
            case.name
        )?;
    }
    out.push_str(READING);
    Ok(out)
}

/// What the numbers do not say by themselves.
const READING: &str = "
- Rows that write to disk vary with the machine's memory more than with the program: on a virtual machine whose host
  takes free memory back, pages touched for the first time cost about 2.5 CPU s/GB (the widest gaps between min and max,
  also of `cp`). `cp` copies through one process and no socket; it is the reference, not a peer.
- No physical network card, no distance: see the end-to-end tests for what happens over 200 ms.
";

/// Bars of the median rates, as SVG.
fn bars(cases: &[Case], samples: &[Vec<Sample>]) -> Result<String> {
    let rows: Vec<(&str, f64)> = cases
        .iter()
        .zip(samples)
        .filter(|(case, _)| case.bytes > 1 << 20)
        .map(|(case, s)| (case.name, case.bytes as f64 * 8.0 / median(s.iter().map(|s| s.wall_s).collect()).0 / 1e9))
        .collect();
    let most = rows.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let height = rows.len() * 30 + 40;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    writeln!(out, "<text x=\"10\" y=\"20\">Median rate on loopback, Gbit/s (longer is faster)</text>")?;
    for (at, (name, rate)) in rows.iter().enumerate() {
        let (y, width) = (at * 30 + 35, rate / most * 430.0);
        let colour = if name.contains("no network") { "#999" } else { "#2a6fb0" };
        writeln!(out, "<text x=\"10\" y=\"{}\">{name}</text>", y + 15)?;
        writeln!(out, "<rect x=\"310\" y=\"{y}\" width=\"{width:.1}\" height=\"20\" fill=\"{colour}\"/>")?;
        writeln!(out, "<text x=\"{:.1}\" y=\"{}\">{rate:.1}</text>", 316.0 + width, y + 15)?;
    }
    out.push_str("</svg>\n");
    Ok(out)
}

fn measure(work: &Path) -> Result<()> {
    let binary = binary()?;
    let load = fs::read_to_string("/proc/loadavg")?.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let cases = cases(work)?;
    fs::create_dir_all(work.join("target"))?;
    let export = format!("data={}:rw", work.join("target").display());
    let node = Node::start(&binary, &work.join("node"), &["--export", &export, "--anonymous", "rw", "--plain"])?;
    let clock_ticks = first_line("getconf", &["CLK_TCK"]).parse().unwrap_or(100.0);
    let bench = Bench { binary, work: work.to_owned(), node, clock_ticks };
    let mut samples: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    // Round 0 warms caches and is not counted.
    for round in 0..=RUNS {
        for (case, samples) in cases.iter().zip(&mut samples) {
            let sample = bench.sample(case, round)?;
            println!("{round}/{RUNS}  {:<44} {:.3} s, {:.2} CPU s", case.name, sample.wall_s, sample.cpu_s);
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let results = repository().join("docs/results");
    fs::create_dir_all(&results)?;
    fs::write(results.join("first-light.md"), table(&cases, &samples, &load)? + "\n![rates](first-light.svg)\n")?;
    fs::write(results.join("first-light.svg"), bars(&cases, &samples)?)?;
    Ok(())
}

/// Runs all cases and writes the results.
pub fn run() -> Result<()> {
    let work = std::env::temp_dir().join(format!("longhaul-bench-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let result = measure(&work);
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result
}

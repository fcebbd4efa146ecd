//! What the micro-benchmarks measured, as a page: docs/results/micro.md. criterion leaves a file for each of them; this module reads them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::statistics::Spread;

/// What a benchmark works through in one iteration.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub enum IterationWork {
    /// Bytes.
    Bytes(u64),
    /// Rows, blocks or transfers.
    Elements(u64),
}

/// One benchmark, as criterion describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Benchmark {
    #[serde(rename = "group_id")]
    group: String,
    #[serde(rename = "function_id")]
    function: Option<String>,
    throughput: Option<IterationWork>,
}

/// The estimates of a benchmark, of which the page shows one.
#[derive(Debug, Deserialize)]
struct Estimates {
    median: TimeEstimate,
}

/// An estimate in nanoseconds.
#[derive(Debug, Deserialize)]
struct TimeEstimate {
    confidence_interval: Interval,
    point_estimate: f64,
}

/// The bounds of an estimate in nanoseconds.
#[derive(Debug, Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

/// A step that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredStep {
    /// What it is part of: checksum, seal, record, ledger or allocation.
    pub group: String,
    /// Its name in the group.
    pub name: String,
    /// The work of one iteration.
    pub work: IterationWork,
    /// Nanoseconds of one iteration: the median, with the bounds within which it lies with a confidence of 95 %.
    pub time_ns: Spread,
}

/// The steps that criterion has left in its directory, in the order of their names and sizes.
///
/// # Errors
/// There are none, or one of the files cannot be read.
pub fn read(criterion: &Path) -> Result<Vec<MeasuredStep>> {
    let mut steps = Vec::new();
    collect(criterion, &mut steps)?;
    ensure!(!steps.is_empty(), "no results in {}: `make bench-micro` makes them", criterion.display());
    let size = |step: &MeasuredStep| match step.work {
        IterationWork::Bytes(count) | IterationWork::Elements(count) => count,
    };
    steps.sort_by_key(|step| (step.group.clone(), step.name.clone(), size(step)));
    Ok(steps)
}

/// Adds the steps below a directory: each has its last results in a directory named `new`.
fn collect(dir: &Path, steps: &mut Vec<MeasuredStep>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("{}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        if path.ends_with("new") {
            steps.extend(step(&path)?);
        } else {
            collect(&path, steps)?;
        }
    }
    Ok(())
}

/// The step whose results are in a directory; none without a count of its work.
fn step(dir: &Path) -> Result<Option<MeasuredStep>> {
    let benchmark: Benchmark = parse(&dir.join("benchmark.json"))?;
    let Estimates { median } = parse(&dir.join("estimates.json"))?;
    let bounds = median.confidence_interval;
    let time_ns = Spread { median: median.point_estimate, least: bounds.lower_bound, most: bounds.upper_bound };
    let name = benchmark.function.unwrap_or_default();
    Ok(benchmark.throughput.map(|work| MeasuredStep { group: benchmark.group, name, work, time_ns }))
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = fs::read(path).with_context(|| format!("{}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}", path.display()))
}

/// Writes the page.
///
/// # Errors
/// A line cannot be formatted.
pub fn markdown(date: &str, machine: &str, steps: &[MeasuredStep]) -> Result<String> {
    let mut out = String::from("# The steps of each byte and of each record\n\n");
    writeln!(out, "- Date: {date}\n- Machine: {machine}\n- Command: `make bench-micro`")?;
    out += "- One thread; medians, with the bounds within which they lie with a confidence of 95 % (criterion)\n\n";
    out += "| step | work | time of one | rate |\n|---|---|---|---|\n";
    for step in steps {
        let Spread { median, least, most } = step.time_ns;
        // Bytes in a nanosecond are GB/s; elements in a nanosecond are 1,000 million/s.
        let (work, rate, unit) = match step.work {
            IterationWork::Bytes(bytes) => (format!("{} KiB", bytes >> 10), bytes as f64 / median, "GB/s"),
            IterationWork::Elements(count) => (count.to_string(), count as f64 / median * 1e3, "million/s"),
        };
        writeln!(
            out,
            "| {} {} | {work} | {} ({} to {}) | {rate:.3} {unit} |",
            step.group,
            step.name,
            time(median),
            time(least),
            time(most)
        )?;
    }
    Ok(out)
}

/// A time with a unit that suits it.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{ns:.2} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes what criterion leaves of a benchmark.
    fn leave(criterion: &Path, directory: &str, benchmark: &str, median_ns: f64) {
        let dir = criterion.join(directory).join("new");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("benchmark.json"), benchmark).unwrap();
        let estimates = format!(
            r#"{{"median":{{"confidence_interval":{{"confidence_level":0.95,"lower_bound":{median_ns},"upper_bound":{median_ns}}},"point_estimate":{median_ns},"standard_error":1.0}}}}"#
        );
        fs::write(dir.join("estimates.json"), estimates).unwrap();
    }

    #[test]
    fn a_page_has_a_row_for_each_benchmark_in_the_order_of_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let crc = |bytes| {
            format!(
                r#"{{"group_id":"checksum","function_id":"crc32c","value_str":"{bytes}","throughput":{{"Bytes":{bytes}}}}}"#
            )
        };
        leave(dir.path(), "checksum/crc32c/131072", &crc(131_072), 10_000.0);
        leave(dir.path(), "checksum/crc32c/4096", &crc(4_096), 200.0);
        let rows = r#"{"group_id":"record","function_id":"encode","throughput":{"Elements":256}}"#;
        leave(dir.path(), "record/encode", rows, 2_560.0);
        fs::create_dir_all(dir.path().join("report")).unwrap();
        let page = markdown("today", "here", &read(dir.path()).unwrap()).unwrap();
        let rows: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1).collect();
        assert_eq!(
            rows,
            [
                "| checksum crc32c | 4 KiB | 200.00 ns (200.00 ns to 200.00 ns) | 20.480 GB/s |",
                "| checksum crc32c | 128 KiB | 10.00 µs (10.00 µs to 10.00 µs) | 13.107 GB/s |",
                "| record encode | 256 | 2.56 µs (2.56 µs to 2.56 µs) | 100.000 million/s |",
            ]
        );
    }

    #[test]
    fn a_directory_without_results_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap_err().to_string().contains("make bench-micro"));
    }
}

//! The report: docs/results/probe.md.

use std::fmt::Write as _;

use anyhow::Result;

use super::{Row, Sample, Tool};
use crate::statistics::{Spread, median, spread};

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured.
    pub machine: String,
    /// Rounds that count.
    pub rounds: u32,
    /// Seconds of a run.
    pub seconds: u32,
    /// How processor time was counted.
    pub method: &'static str,
    /// iperf3's version.
    pub iperf3: String,
}

/// The largest processor time per byte, as a share of that of iperf3 with large blocks.
const CPU_OF_LARGE: f64 = 1.0;
/// The largest processor time per byte, as a share of that of iperf3 with its default blocks.
const CPU_OF_DEFAULT: f64 = 0.6;

fn of(rows: &[Row], tool: Tool, value: fn(&Sample) -> f64) -> Option<Spread> {
    spread(rows.iter().find(|row| row.tool == tool)?.samples.iter().map(value))
}

/// The target, the figure that was reached, and whether that is enough.
pub type Verdict = (String, String, bool);

/// Judges the targets of one number of streams.
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    let middle = |tool, value| of(rows, tool, value).map_or(f64::NAN, |spread| spread.median);
    let rate = |tool| middle(tool, |sample| sample.rate_bit_s);
    // Runs of the same round are compared, so that a disturbance of the machine affects both.
    let cpu = |other: Tool| {
        let samples = |tool| rows.iter().find(|row| row.tool == tool).map_or(&[][..], |row| &row.samples);
        let pairs = samples(Tool::Probe).iter().zip(samples(other));
        median(pairs.map(|(ours, theirs)| ours.cpu_s_per_gb / theirs.cpu_s_per_gb)).unwrap_or(f64::NAN)
    };
    let best = rate(Tool::Iperf3Large).max(rate(Tool::Iperf3));
    let faster = rate(Tool::Probe) / best;
    let large = cpu(Tool::Iperf3Large);
    let default = cpu(Tool::Iperf3);
    vec![
        ("rate, of iperf3's better one: 1.00 or more".into(), format!("{faster:.2}"), faster >= 1.0),
        (
            format!("CPU per GB, of `iperf3 -l 1M`: {CPU_OF_LARGE:.1} or less"),
            format!("{large:.2}"),
            large <= CPU_OF_LARGE,
        ),
        (
            format!("CPU per GB, of iperf3's default: {CPU_OF_DEFAULT:.1} or less"),
            format!("{default:.2}"),
            default <= CPU_OF_DEFAULT,
        ),
    ]
}

/// Writes the document; returns it, and whether all targets were met. `datagrams` has the section and the verdicts of datagrams.
///
/// # Errors
/// A line cannot be formatted.
pub fn markdown(about: &Circumstances, all: &[Vec<Row>], datagrams: (String, Vec<Verdict>)) -> Result<(String, bool)> {
    let mut out = String::from("# Probe beside iperf3\n\n");
    writeln!(out, "- Date: {}\n- Machine: {}\n- iperf3: {}", about.date, about.machine, about.iperf3)?;
    writeln!(
        out,
        "- Command: `make bench-probe`; {} interleaved rounds of {} s, and one before them",
        about.rounds, about.seconds
    )?;
    writeln!(out, "- CPU seconds of both ends, by {}", about.method)?;
    out += "- Loopback: both ends and the kernel between them share this machine's processors\n";
    out += "\n| streams | | rate (least to most), Gbit/s | CPU s/GB (least to most) |\n|---|---|---|---|\n";
    for rows in all {
        for row in rows {
            let show = |value, unit: f64| {
                let spread = of(rows, row.tool, value).unwrap_or(Spread { median: 0.0, least: 0.0, most: 0.0 });
                format!("{:.2} ({:.2} to {:.2})", spread.median / unit, spread.least / unit, spread.most / unit)
            };
            let rate = show(|sample| sample.rate_bit_s, 1e9);
            let cpu = show(|sample| sample.cpu_s_per_gb, 1.0);
            writeln!(out, "| {} | {} | {rate} | {cpu} |", row.streams, row.tool.name())?;
        }
    }
    out += "\nRates are compared by their medians, processor time by the median of the rounds' ratios.\n";
    out += "\n| streams | target | reached | |\n|---|---|---|---|\n";
    let mut met = true;
    for rows in all {
        for (target, reached, good) in judge(rows) {
            met &= good;
            let streams = rows.first().map_or(0, |row| row.streams);
            writeln!(out, "| {streams} | {target} | {reached} | {} |", if good { "met" } else { "**not met**" })?;
        }
    }
    let (text, verdicts) = datagrams;
    out += &text;
    out += "\n| target | reached | |\n|---|---|---|\n";
    for (target, reached, good) in verdicts {
        met &= good;
        writeln!(out, "| {target} | {reached} | {} |", if good { "met" } else { "**not met**" })?;
    }
    Ok((out, met))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_judged() {
        let row = |tool, rate_bit_s, cpu_s_per_gb| Row {
            tool,
            streams: 1,
            samples: vec![Sample { rate_bit_s, cpu_s_per_gb }],
        };
        let rows = [row(Tool::Probe, 20e9, 0.5), row(Tool::Iperf3Large, 19e9, 0.6), row(Tool::Iperf3, 15e9, 0.8)];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.iter().map(|v| v.1.as_str()).collect::<Vec<_>>(), ["1.05", "0.83", "0.62"]);
        assert_eq!(verdicts.iter().map(|v| v.2).collect::<Vec<_>>(), [true, true, false]);
        let none = judge(&rows[..1]);
        assert!(none.iter().all(|verdict| !verdict.2), "a target that was not measured is not met: {none:?}");
    }
}

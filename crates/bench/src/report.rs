//! The report: docs/results/speed.md. `bars` draws its picture.

mod bars;

use std::fmt::Write as _;

use anyhow::Result;

use crate::round::{Row, Sample};
use crate::scenario::{Medium, Scenario};
use crate::statistics::{Spread, median, spread};
use crate::target::{Figures, judge};

pub use bars::svg;

/// A scenario with the rows of all contestants.
pub type Outcome = (Scenario, Vec<Row>);

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured.
    pub machine: String,
    /// The file system of the disk's scratch.
    pub file_system: String,
    /// The number of rounds.
    pub rounds: u32,
    /// The share of the data that was moved.
    pub scale: f64,
    /// The arguments of `make bench`.
    pub arguments: String,
    /// The congestion control, and how it was set.
    pub congestion: String,
    /// How CPU seconds were counted.
    pub method: String,
    /// Paths of this machine, and the text that the report shows instead.
    pub names: Vec<(String, &'static str)>,
}

const READING: &str = "\
- Every run moves the whole data set to a fresh directory. Before it, the source is read (hot in the page cache), as much
  memory as it writes is touched, and `sync` runs. Targets are not flushed. The copies of the last round were compared
  with the source. Contestants take turns: A B C A B C …
- Wall: from the client's start to its end, median (least to most). CPU: all processes of a side, median; kernel threads
  that write back are not in it. Others: processors that other processes kept busy meanwhile, mean (write-back included).
  Memory: peak resident, summed over a side's processes, the most of all runs.
- Peers that encrypt have their own targets: Longhaul seals by default, and is compared with them as it is.
- `cp` and the bare loop (one thread: create, write, rename; it reads nothing) cross no network: they are
  references, not peers. iperf3 moves no files.
";

/// Writes the document; `picture` is the file beside it.
///
/// # Errors
/// A line cannot be formatted.
pub fn markdown(about: &Circumstances, picture: &str, outcomes: &[Outcome]) -> Result<String> {
    let mut out = String::from("# Speed: Longhaul beside its peers\n\n");
    writeln!(out, "- Date: {}\n- Machine: {}", about.date, about.machine)?;
    writeln!(out, "- Disk: {}; tmpfs: /dev/shm", about.file_system)?;
    let command = format!("make bench {}", about.arguments);
    writeln!(out, "- Command: `{}`; {} interleaved rounds", command.trim_end(), about.rounds)?;
    writeln!(out, "- Congestion control: {}\n- CPU seconds by {}", about.congestion, about.method)?;
    if (about.scale - 1.0).abs() > f64::EPSILON {
        writeln!(out, "- **A quick try: {} of the data** that the targets are meant for", about.scale)?;
    }
    out.push_str(READING);
    writeln!(out, "\n![rates]({picture})")?;
    for (scenario, rows) in outcomes {
        table(&mut out, scenario, rows)?;
    }
    out.push_str("\n## Commands\n");
    for (scenario, rows) in outcomes {
        writeln!(out, "\n{}:\n\n```text", scenario.title)?;
        for words in rows.iter().flat_map(|row| &row.commands) {
            writeln!(out, "{}", plain_words(words, &about.names))?;
        }
        out.push_str("```\n");
    }
    Ok(out)
}

/// A command with names in place of this machine's paths.
fn plain_words(words: &[String], names: &[(String, &str)]) -> String {
    let line = words.join(" ");
    names.iter().fold(line, |line, (path, name)| line.replace(path.as_str(), name))
}

fn table(out: &mut String, scenario: &Scenario, rows: &[Row]) -> Result<()> {
    let many = scenario.data.files() > 1;
    let (speed, cpu) = match (many, scenario.jobs) {
        (true, _) => ("files/s", "CPU-s/GB"),
        (false, 1) => ("GB/s", "CPU-s/GB"),
        (false, _) => ("jobs/s", "CPU-s/job"),
    };
    writeln!(out, "\n## {}\n", scenario.title)?;
    writeln!(out, "| contestant | runs | wall s | {speed} | {cpu} | client + server | others | client, server MiB |")?;
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    for row in rows {
        let note = row.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        match (row.figures(scenario), spread(row.samples.iter().map(|s| s.wall_s))) {
            (Some(figures), Some(wall)) => {
                line(out, scenario, row, figures, wall, &note)?;
            }
            _ => writeln!(out, "| {}{note} | 0 | - | - | - | - | - | - |", row.name)?,
        }
    }
    out.push('\n');
    let all: Vec<Figures> = rows.iter().filter_map(|row| row.figures(scenario)).collect();
    for target in &scenario.targets {
        writeln!(out, "- {}", judge(target, &all))?;
    }
    if scenario.jobs > 1 {
        let ours = rows.iter().find(|row| row.name == crate::contestant::LONGHAUL);
        let jobs = ours.map_or(0, |row| row.samples.len() as u32 * scenario.jobs);
        let how = if ours.is_none_or(|row| row.failed) { "**missed**" } else { "reached" };
        writeln!(out, "- target {} jobs back to back without a failure ({jobs} done): {how}", scenario.jobs)?;
    }
    Ok(())
}

fn line(out: &mut String, scenario: &Scenario, row: &Row, all: Figures, wall: Spread, note: &str) -> Result<()> {
    let rate = match (all.files > 1, scenario.jobs) {
        (true, _) => format!("{:.0}", all.files as f64 / wall.median),
        (false, 1) => format!("{:.2}", all.bytes as f64 / wall.median / 1e9),
        (false, _) => format!("{:.1}", 1.0 / wall.median),
    };
    let unit = if scenario.jobs == 1 { all.bytes as f64 / 1e9 } else { 1.0 };
    let median_per_unit = |value: fn(&Sample) -> f64| median(row.samples.iter().map(value)).unwrap_or_default() / unit;
    let mean = |value: fn(&Sample) -> f64| row.samples.iter().map(value).sum::<f64>() / row.samples.len() as f64;
    let most = |value: fn(&Sample) -> f64| row.samples.iter().map(value).fold(0.0, f64::max);
    write!(
        out,
        "| {}{note} | {} | {:.3} ({:.3} to {:.3}) | {rate} | **{:.3}** ",
        row.name,
        row.samples.len(),
        wall.median,
        wall.least,
        wall.most,
        all.cpu_s / unit
    )?;
    write!(
        out,
        "| {:.3} + {:.3} | {:.2} ",
        median_per_unit(|s| s.client_s),
        median_per_unit(|s| s.server_s),
        mean(|s| s.others_cores)
    )?;
    writeln!(out, "| {:.0}, {:.0} |", most(|s| s.client_mib), most(|s| s.server_mib))?;
    Ok(())
}

/// The value of a bar of the picture, and its unit.
fn speed(scenario: &Scenario, figures: &Figures) -> (f64, &'static str) {
    match scenario.medium {
        _ if figures.files > 1 => (figures.files as f64 / figures.wall_s, "files/s"),
        Medium::Disk | Medium::Tmpfs if scenario.jobs > 1 => (1.0 / figures.wall_s, "jobs/s"),
        _ => (figures.bytes as f64 / figures.wall_s / 1e9, "GB/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::{LONGHAUL, Role};

    fn row(name: &'static str, role: Role, walls: &[f64]) -> Row {
        let sample = |wall_s: &f64| Sample {
            wall_s: *wall_s,
            client_s: 1.0,
            server_s: 2.0,
            others_cores: 0.5,
            client_mib: 10.0,
            server_mib: 20.0,
        };
        let commands = vec![vec!["run".into(), "/there/scratch/a".into()]];
        Row { name, role, samples: walls.iter().map(sample).collect(), note: None, failed: false, commands }
    }

    #[test]
    fn the_report_has_rows_and_verdicts_and_no_paths_of_the_machine() {
        let scenario = crate::scenario::all(1.0).remove(0);
        let mut absent = row("xrdcp", Role::Peer, &[]);
        absent.note = Some("xrdcp is not installed".into());
        let rows = vec![row(LONGHAUL, Role::Ours, &[2.0, 9.0, 3.0]), row("fast", Role::Peer, &[4.0]), absent];
        let about = Circumstances {
            date: String::new(),
            machine: String::new(),
            file_system: String::new(),
            rounds: 3,
            scale: 0.5,
            arguments: String::new(),
            congestion: "cubic".into(),
            method: String::new(),
            names: vec![("/there/scratch".into(), "DISK")],
        };
        let outcomes = [(scenario, rows)];
        let text = markdown(&about, "speed.svg", &outcomes).unwrap();
        assert!(
            text.contains(
                "| Longhaul | 3 | 3.000 (2.000 to 9.000) | 1.43 | **0.698** | 0.233 + 0.466 | 0.50 | 10, 20 |"
            ),
            "{text}"
        );
        assert!(text.contains("| xrdcp (xrdcp is not installed) | 0 |"), "{text}");
        assert!(text.contains("(fast) = 3.20 s (3.00 s): reached"), "{text}");
        assert!(text.contains("run DISK/a") && !text.contains("/there"), "{text}");
        assert!(text.contains("A quick try: 0.5 of the data"));
        let picture = svg(&outcomes).unwrap();
        assert!(picture.starts_with("<svg") && picture.contains("Longhaul") && picture.ends_with("</svg>\n"));
    }
}

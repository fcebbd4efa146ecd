//! The report: docs/results/scale.md.

use std::fmt::Write as _;

use anyhow::Result;

use super::load::{Latencies, LoadResult, OfferedLoad};
use super::transfers::{JOBS, JobSetting, ScaleRow};
use crate::statistics::{Spread, spread};

/// The most that a GB may cost with many streams, as a multiple of the cost with one.
const COST_RATIO_MAX: f64 = 1.25;
/// The least share of the requests that were due which must be answered in time.
const ANSWERED_MIN: f64 = 0.99;
/// The longest latency that 99 % of the requests may have under the full load, seconds.
const P99_MAX_S: f64 = 0.05;
/// The most that the median latency of the slowest connection may be, as a multiple of that of the middle one.
const UNFAIRNESS_MAX: f64 = 2.0;

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct ScaleCircumstances {
    /// The date of the run.
    pub date: String,
    /// The machine.
    pub machine: String,
    /// The command line.
    pub command: String,
    /// How processor time was counted.
    pub method: &'static str,
    /// Rounds that count.
    pub rounds: u32,
    /// Bytes of all jobs of a run together.
    pub bytes: u64,
}

/// A phase of the load, with its results round by round.
#[derive(Clone, Debug)]
pub struct LoadRow {
    /// The title.
    pub title: &'static str,
    /// The load.
    pub load: OfferedLoad,
    /// The results.
    pub results: Vec<LoadResult>,
}

/// CPU seconds per GB of a setting.
pub fn cpu_s_per_gb(row: &ScaleRow, bytes: u64) -> Option<Spread> {
    spread(row.runs.iter().map(|run| run.cpu_s * 1e9 / bytes as f64))
}

fn show(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "–".into(), |s| format!("{:.2} ({:.2} to {:.2})", s.median, s.least, s.most))
}

fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**not met**" }
}

/// Writes the document; returns it, and whether all targets were met.
///
/// # Errors
/// A line cannot be formatted.
pub fn markdown(about: &ScaleCircumstances, rows: &[ScaleRow], loads: &[LoadRow]) -> Result<(String, bool)> {
    let mut out = String::from("# A node with many streams, jobs, sessions and requests\n\n");
    writeln!(out, "- Date: {}\n- Machine: {}", about.date, about.machine)?;
    writeln!(out, "- Command: `{}`; {} rounds in turning order, and one before them", about.command, about.rounds)?;
    writeln!(out, "- CPU seconds by {}", about.method)?;
    out += "- Loopback: node, clients and the kernel between them share this machine's processors\n\n";
    let met = [streams(&mut out, rows, about.bytes)?, jobs(&mut out, rows, about.bytes)?, load(&mut out, loads)?];
    Ok((out, met.into_iter().all(|met| met)))
}

fn streams(out: &mut String, rows: &[ScaleRow], bytes: u64) -> Result<bool> {
    let of = |plain| rows.iter().filter(move |row| row.setting.streams.is_some() && row.setting.plain == plain);
    writeln!(
        out,
        "## Streams\n\n![CPU seconds per GB by streams](scale.svg)\n\nOne job of {:.1} GB from memory to memory. Medians (least to \
         most); CPU of both ends. Target: a GB costs at most {COST_RATIO_MAX} times what it costs with one stream.\n",
        bytes as f64 / 1e9
    )?;
    out.push_str("| payload | streams | wall, s | CPU s/GB | memory of the node, MiB | |\n|---|---|---|---|---|---|\n");
    let mut met = true;
    for plain in [true, false] {
        let one = of(plain).next().and_then(|row| cpu_s_per_gb(row, bytes)).map(|cost| cost.median);
        for row in of(plain) {
            let cost = cpu_s_per_gb(row, bytes);
            let ratio = cost.zip(one).map(|(cost, one)| cost.median / one);
            let is_met = ratio.is_some_and(|ratio| ratio <= COST_RATIO_MAX);
            met &= is_met;
            let payload = if plain { "in clear" } else { "sealed" };
            let streams = row.setting.streams.unwrap_or_default();
            let wall = show(spread(row.runs.iter().map(|run| run.wall_s)));
            let memory = row.runs.iter().map(|run| run.node_mib).fold(0.0, f64::max);
            let ratio = ratio.map_or_else(|| "not measured".into(), |ratio| format!("× {ratio:.2}: {}", word(is_met)));
            writeln!(out, "| {payload} | {streams} | {wall} | {} | {memory:.0} | {ratio} |", show(cost))?;
        }
    }
    Ok(met)
}

fn jobs(out: &mut String, rows: &[ScaleRow], bytes: u64) -> Result<bool> {
    writeln!(
        out,
        "\n## Jobs\n\nThe same bytes by one `longhaul cp` and by {JOBS} at once, {:.0} MB each. Target: together they take no longer.\n",
        bytes as f64 / 1e6 / f64::from(JOBS)
    )?;
    out.push_str("| payload | jobs | wall, s | CPU s/GB | memory of the node, MiB | |\n|---|---|---|---|---|---|\n");
    let mut met = true;
    for plain in [true, false] {
        let row_of = |jobs| rows.iter().find(|row| row.setting == JobSetting { jobs, streams: None, plain });
        let wall = |jobs| row_of(jobs).and_then(|row| spread(row.runs.iter().map(|run| run.wall_s)));
        let ratio = wall(JOBS).zip(wall(1)).map(|(many, one)| many.median / one.median);
        let is_met = ratio.is_some_and(|ratio| ratio <= 1.0);
        met &= is_met;
        for jobs in [1, JOBS] {
            let Some(row) = row_of(jobs) else { continue };
            let verdict = match (jobs, ratio) {
                (1, _) => String::new(),
                (_, Some(ratio)) => format!("× {ratio:.2}: {}", word(is_met)),
                (_, None) => "not measured".to_owned(),
            };
            let memory = row.runs.iter().map(|run| run.node_mib).fold(0.0, f64::max);
            let payload = if plain { "in clear" } else { "sealed" };
            let cost = show(cpu_s_per_gb(row, bytes));
            writeln!(out, "| {payload} | {jobs} | {} | {cost} | {memory:.0} | {verdict} |", show(wall(jobs)))?;
        }
    }
    Ok(met)
}

fn load(out: &mut String, loads: &[LoadRow]) -> Result<bool> {
    writeln!(
        out,
        "\n## Sessions and requests\n\nNative sessions that each ask for the exports at an interval, and GET requests for a file of 1 KiB in \
         clear at a rate; alone, and at once. A latency counts from the moment at which the request was due. The slowest connection is \
         compared with the middle one by its mean and by its median latency. A pause of the machine, which delays whichever connection is \
         being answered, raises the first; a connection that is served worse than others has a high median. Targets at once: {:.0} % of \
         the requests are answered in time, 99 % of them within {:.0} ms, and the slowest connection waits at most {UNFAIRNESS_MAX} times \
         as long as the middle one, by median.\n",
        ANSWERED_MIN * 100.0,
        P99_MAX_S * 1e3
    )?;
    out.push_str(
        "| load | kind | due/s | answered/s | median, ms | 99 %, ms | slowest, ms | slowest connection: mean | median | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut met = true;
    for row in loads {
        let OfferedLoad { sessions, session_interval, connections, requests_s, .. } = row.load;
        let native = (sessions > 0, f64::from(sessions) / session_interval.as_secs_f64(), "native");
        let http = (connections > 0, f64::from(requests_s), "HTTP");
        let is_judged = native.0 && http.0;
        for ((is_there, due_s, kind), of) in [
            (native, (|one: &LoadResult| one.sessions) as fn(&LoadResult) -> Option<Latencies>),
            (http, |one| one.requests),
        ] {
            if !is_there {
                continue;
            }
            let value = |value: fn(&Latencies) -> f64| spread(row.results.iter().filter_map(of).map(|one| value(&one)));
            let cells = [
                value(|one| one.answered_s),
                value(|one| one.median_s * 1e3),
                value(|one| one.p99_s * 1e3),
                value(|one| one.slowest_s * 1e3),
                value(|one| one.mean_unfairness),
                value(|one| one.median_unfairness),
            ];
            let [answered, _, p99_ms, _, _, unfairness] = cells.map(|cell| cell.map_or(f64::NAN, |cell| cell.median));
            let is_met = answered >= due_s * ANSWERED_MIN && p99_ms <= P99_MAX_S * 1e3 && unfairness <= UNFAIRNESS_MAX;
            met &= is_met || !is_judged;
            let verdict = if is_judged { word(is_met) } else { "" };
            let cells = cells.map(show).join(" | ");
            writeln!(out, "| {} | {kind} | {due_s:.0} | {cells} | {verdict} |", row.title)?;
        }
    }
    Ok(met)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::transfers::{ScaleRun, settings};
    use super::*;

    fn about() -> ScaleCircumstances {
        ScaleCircumstances {
            date: String::new(),
            machine: String::new(),
            command: "make bench-scale".into(),
            method: "x",
            rounds: 1,
            bytes: 1_000_000_000,
        }
    }

    fn rows(cost: impl Fn(JobSetting) -> f64, wall_s: impl Fn(JobSetting) -> f64) -> Vec<ScaleRow> {
        let run = |setting| ScaleRun { wall_s: wall_s(setting), cpu_s: cost(setting), node_mib: 9.0 };
        settings().into_iter().map(|setting| ScaleRow { setting, runs: vec![run(setting)] }).collect()
    }

    fn loads(latencies: Latencies) -> Vec<LoadRow> {
        let load = OfferedLoad {
            sessions: 1000,
            session_interval: Duration::from_secs(2),
            connections: 32,
            requests_s: 500,
            time: Duration::from_secs(1),
        };
        let result = LoadResult { sessions: Some(latencies), requests: Some(latencies) };
        vec![LoadRow { title: "both", load, results: vec![result] }]
    }

    const GOOD: Latencies = Latencies {
        answered_s: 500.0,
        median_s: 0.001,
        p99_s: 0.01,
        slowest_s: 0.02,
        mean_unfairness: 2.5,
        median_unfairness: 1.2,
    };

    #[test]
    fn targets_are_judged() {
        let met = |rows: &[ScaleRow], latencies| markdown(&about(), rows, &loads(latencies)).unwrap().1;
        let flat = rows(|_| 1.0, |_| 2.0);
        assert!(met(&flat, GOOD));
        let steep = rows(|setting| if setting.streams == Some(256) { 1.3 } else { 1.0 }, |_| 2.0);
        assert!(!met(&steep, GOOD), "256 streams cost too much");
        let crowded = rows(|_| 1.0, |setting| if setting.jobs > 1 { 2.1 } else { 2.0 });
        assert!(!met(&crowded, GOOD), "many jobs take longer");
        assert!(!met(&flat, Latencies { answered_s: 490.0, ..GOOD }));
        assert!(!met(&flat, Latencies { p99_s: 0.06, ..GOOD }));
        assert!(!met(&flat, Latencies { median_unfairness: 3.0, ..GOOD }));
    }

    #[test]
    fn the_report_has_all_figures() {
        let (text, _) = markdown(&about(), &rows(|_| 1.0, |_| 2.0), &loads(GOOD)).unwrap();
        assert!(
            text.contains("| sealed | 256 | 2.00 (2.00 to 2.00) | 1.00 (1.00 to 1.00) | 9 | × 1.00: met |"),
            "{text}"
        );
        assert!(text.contains("| both | HTTP | 500 | 500.00 (500.00 to 500.00) | 1.00 "), "{text}");
    }
}

//! The report: docs/results/http-service.md.

use std::fmt::Write as _;

use anyhow::Result;

use super::idle::Idle;
use super::judge::{IDLE_MAX, LONG_PATH_SHARE_MIN, REQUESTS_S_MIN, is_small, judge, judge_long_path, spread_of};
use super::long_path::{self, LongPathRow};
use super::requests::RequestKind;
use super::{MeasuredProtocol, Row, ServerKind};
use crate::statistics::{Spread, spread};

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured.
    pub machine: String,
    /// The file system of the files.
    pub file_system: String,
    /// Rounds that count.
    pub rounds: u32,
    /// Size of the large file.
    pub large: u64,
    /// How processor time was counted.
    pub method: &'static str,
    /// Versions of xrootd, curl, davix.
    pub versions: String,
    /// The command line.
    pub command: String,
    /// Whether a second xrootd stood in Longhaul's place.
    pub stand_in: bool,
    /// The protocol.
    pub protocol: MeasuredProtocol,
}

/// Idle connections of one server, with or without TLS; or why they were not measured.
pub type IdleRow = (ServerKind, bool, Result<Idle, String>);

/// Requests per second of one server, round by round; or why they were not measured.
pub type RequestRow = (ServerKind, RequestKind, Result<Vec<f64>, String>);

/// All results.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cells in which bytes move.
    pub rows: Vec<Row>,
    /// Idle connections.
    pub idle: Vec<IdleRow>,
    /// Requests per second.
    pub requests: Vec<RequestRow>,
    /// One file over 303 ms.
    pub long_path: Vec<LongPathRow>,
}

/// Writes the document; returns it, and whether all targets were met.
///
/// # Errors
/// A line cannot be formatted.
pub fn markdown(about: &Circumstances, outcome: &Outcome) -> Result<(String, bool)> {
    let mut out = match about.protocol {
        MeasuredProtocol::Http => String::from("# The HTTP service of a node compared with that of xrootd\n\n"),
        MeasuredProtocol::Root => String::from("# XRootD's protocol of a node compared with that of xrootd\n\n"),
    };
    if about.stand_in {
        out += "**A second xrootd stands in Longhaul's place: this is how far from 1.00 two equal servers are.**\n\n";
    }
    writeln!(out, "- Date: {}\n- Machine: {}\n- Files: {}", about.date, about.machine, about.file_system)?;
    writeln!(out, "- {}", about.versions)?;
    let large = about.large as f64 / f64::from(1 << 30);
    let rounds = about.rounds;
    writeln!(out, "- Command: `{}`; {rounds} interleaved rounds, and one before them", about.command)?;
    writeln!(out, "- The large file: {large:.2} GiB. Both servers show the same files; source hot in the page cache")?;
    writeln!(out, "- CPU seconds by {}", about.method)?;
    out += "- Loopback: servers, clients and the kernel between them share this machine's processors\n";
    writeln!(out, "\n![Rates]({}.svg)", about.protocol.document())?;
    let mut met = true;
    if !outcome.rows.is_empty() {
        met &= bytes(&mut out, &outcome.rows)?;
    }
    if !outcome.idle.is_empty() {
        met &= idle(&mut out, &outcome.idle)?;
    }
    if !outcome.requests.is_empty() {
        met &= requests(&mut out, about.protocol, &outcome.requests)?;
    }
    if !outcome.long_path.is_empty() {
        met &= over_a_long_path(&mut out, &outcome.long_path)?;
    }
    if about.stand_in {
        // A reader must not take the numbers of the stand-in for Longhaul's.
        out = out.replace("| Longhaul |", "| xrootd, stand-in |");
    }
    Ok((out, met))
}

fn show(spread: Option<Spread>, unit: f64) -> String {
    let number = |s: Spread| format!("{:.2} ({:.2} to {:.2})", s.median / unit, s.least / unit, s.most / unit);
    spread.map_or("–".into(), number)
}

fn bytes(out: &mut String, rows: &[Row]) -> Result<bool> {
    out.push_str("\n## Bytes\n\n");
    out.push_str(
        "Target: at least xrootd's rate in every cell, and 1.3 times that or at most 0.7 of its CPU per byte.\n",
    );
    out.push_str(
        "Medians (least to most). In third-party copies the server is the one that is compared, and the other\n",
    );
    out.push_str("end is an xrootd for both.\n\n");
    out.push_str("| cell | server | rate, GB/s | server CPU s/GB | client CPU s/GB | others, cores | verdict |\n");
    out.push_str("|---|---|---|---|---|---|---|\n");
    let mut met = true;
    for row in rows {
        for kind in ServerKind::ALL {
            let verdict = if kind == ServerKind::Ours { verdict(row, &mut met) } else { String::new() };
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {verdict} |",
                row.title,
                kind.name(),
                show(spread_of(row, kind, |s| s.bytes_s), 1e9),
                show(spread_of(row, kind, |s| s.server_s_per_gb), 1.0),
                show(spread_of(row, kind, |s| s.client_s_per_gb), 1.0),
                show(spread_of(row, kind, |s| s.others_cores), 1.0),
            )?;
        }
    }
    Ok(met)
}

fn verdict(row: &Row, met: &mut bool) -> String {
    match judge(row) {
        Some(verdict) => {
            *met &= verdict.met;
            let word = if verdict.met { "met" } else { "**not met**" };
            let note = row.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
            format!("rate × {:.2}, CPU × {:.2}: {word}{note}", verdict.rate, verdict.cpu)
        }
        None => {
            *met = false;
            format!("not measured: {}", row.note.as_deref().unwrap_or("no runs").replace('|', "/").replace('\n', " "))
        }
    }
}

fn idle(out: &mut String, rows: &[IdleRow]) -> Result<bool> {
    writeln!(
        out,
        "\n## Idle connections\n\nEach has had one request answered. Target: below {} MB.\n",
        IDLE_MAX / 1_000_000
    )?;
    out.push_str("| server | | connections | memory before, MB | with them, MB | threads | one more answer, ms | |\n");
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    let mut met = true;
    for (kind, tls, idle) in rows {
        let line = if *tls { "TLS" } else { "clear" };
        match idle {
            Ok(idle) => {
                met &= *kind != ServerKind::Ours || is_small(idle);
                let word = if *kind == ServerKind::Theirs {
                    ""
                } else if is_small(idle) {
                    "met"
                } else {
                    "**not met**"
                };
                let mb = |bytes: u64| bytes as f64 / 1e6;
                writeln!(
                    out,
                    "| {} | {line} | {} | {:.0} | {:.0} | {} | {:.1} | {word} |",
                    kind.name(),
                    idle.connections,
                    mb(idle.before_bytes),
                    mb(idle.with_bytes),
                    idle.threads,
                    idle.answer_s * 1e3
                )?;
            }
            Err(why) => {
                met &= *kind != ServerKind::Ours;
                writeln!(out, "| {} | {line} | not measured: {why} | | | | | |", kind.name())?;
            }
        }
    }
    Ok(met)
}

/// The median rate of a request at a server.
fn rate_of(rows: &[RequestRow], kind: ServerKind, request: RequestKind) -> Option<Spread> {
    let (.., rates) = rows.iter().find(|(at, what, _)| (*at, *what) == (kind, request))?;
    spread(rates.as_ref().ok()?.iter().copied())
}

fn requests(out: &mut String, protocol: MeasuredProtocol, rows: &[RequestRow]) -> Result<bool> {
    let target = match protocol {
        MeasuredProtocol::Http => format!("{REQUESTS_S_MIN:.0}/s"),
        MeasuredProtocol::Root => "at least xrootd's rate".to_owned(),
    };
    writeln!(
        out,
        "\n## Requests\n\nThe server is pinned to one processor, one client on another with one connection; clear. \
         Target: {target}.\n"
    )?;
    out.push_str("| request | server | answers/s | |\n|---|---|---|---|\n");
    let mut met = true;
    for (kind, request, rates) in rows {
        let least = match protocol {
            MeasuredProtocol::Http => Some(REQUESTS_S_MIN),
            MeasuredProtocol::Root => rate_of(rows, ServerKind::Theirs, *request).map(|rate| rate.median),
        };
        let rate = rate_of(rows, *kind, *request);
        let enough = rate.zip(least).is_some_and(|(rate, least)| rate.median >= least);
        let text = match (rates, rate) {
            (Err(why), _) => format!("not measured: {why}"),
            (Ok(_), None) => "–".into(),
            (Ok(_), Some(rate)) => format!("{:.0} ({:.0} to {:.0})", rate.median, rate.least, rate.most),
        };
        met &= *kind != ServerKind::Ours || enough;
        let word = match (kind, enough) {
            (ServerKind::Theirs, _) => "",
            (_, true) => "met",
            (_, false) => "**not met**",
        };
        writeln!(out, "| {} | {} | {text} | {word} |", request.name(), kind.name())?;
    }
    Ok(met)
}

fn over_a_long_path(out: &mut String, rows: &[LongPathRow]) -> Result<bool> {
    writeln!(
        out,
        "\n## Over 303 ms\n\nOne file of {:.1} GB is read over an emulated path of {} Mbit/s in clear, to memory: a queue of one BDP, {} at both \
         sites unless a program chooses another, a fresh server for each run. The share is the least time that the path permits (headers and one \
         slow start) divided by the time that was taken. Targets: `longhaul cp` from xrootd at least {LONG_PATH_SHARE_MIN:.2} of the bottleneck; \
         xrdcp from a node at least as fast as from xrootd.\n",
        long_path::BYTES as f64 / 1e9,
        long_path::RATE_MBIT,
        long_path::CONGESTION,
    )?;
    out.push_str(
        "| reader and server | time, s | Mbit/s | share | client CPU s/GB | server CPU s/GB | others, % | |\n",
    );
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    let mut met = true;
    for (case, runs) in rows {
        let judged = judge_long_path(rows, *case);
        met &= judged.is_none_or(|(_, met)| met);
        let title = long_path::title(*case);
        let runs = match runs {
            Ok(runs) => runs,
            Err(why) => {
                writeln!(out, "| {title} | not measured: {why} | | | | | | |")?;
                continue;
            }
        };
        let of = |value| long_path::spread_of(rows, *case, value);
        let wall_s = of(|run| run.wall_s);
        let median = wall_s.map_or(f64::NAN, |spread| spread.median);
        let share = long_path::bottleneck().net_share(long_path::BYTES, long_path::cell().rtt_s(), median);
        let verdict = match judged {
            None => String::new(),
            Some((figure, met)) => format!("{figure:.2}: {}", if met { "met" } else { "**not met**" }),
        };
        let limited = runs.iter().find_map(|run| run.limited.as_ref());
        let limited = limited.map(|why| format!(" (the emulator was the limit: {why})")).unwrap_or_default();
        let gb = long_path::BYTES as f64 / 1e9;
        writeln!(
            out,
            "| {title} | {} | {:.0} | {share:.2} | {} | {} | {} | {verdict}{limited} |",
            show(wall_s, 1.0),
            long_path::BYTES as f64 * 8e-6 / median,
            show(of(|run| run.client_s), gb),
            show(of(|run| run.server_s), gb),
            show(of(|run| run.others_percent), 1.0),
        )?;
    }
    Ok(met)
}

#[cfg(test)]
mod tests {
    use super::super::Sample;
    use super::*;

    #[test]
    fn the_report_says_which_targets_were_met() {
        let sample = |bytes_s| Sample { bytes_s, server_s_per_gb: 0.5, client_s_per_gb: 0.1, others_cores: 0.0 };
        let row = Row { title: "curl, GET".into(), samples: [vec![sample(2e9)], vec![sample(1e9)]], note: None };
        let about = Circumstances {
            date: String::new(),
            machine: String::new(),
            file_system: "ext4".into(),
            rounds: 1,
            large: 1 << 32,
            method: "x",
            versions: String::new(),
            command: "make bench-http-service".into(),
            stand_in: false,
            protocol: MeasuredProtocol::Http,
        };
        let idle = Idle { connections: 10, before_bytes: 1, with_bytes: IDLE_MAX, answer_s: 0.001, threads: 3 };
        let mut outcome = Outcome { rows: vec![row], ..Outcome::default() };
        let (text, met) = markdown(&about, &outcome).unwrap();
        assert!(met && text.contains("rate × 2.00, CPU × 1.00: met"), "{text}");
        outcome.idle = vec![(ServerKind::Ours, true, Ok(idle)), (ServerKind::Theirs, true, Err("it died".into()))];
        outcome.requests = vec![(ServerKind::Ours, RequestKind::Digest, Ok(vec![2500.0]))];
        let (text, met) = markdown(&about, &outcome).unwrap();
        assert!(!met && text.contains("| Longhaul | TLS | 10 | 0 | 300 | 3 | 1.0 | **not met** |"), "{text}");
        assert!(text.contains("| 2500 (2500 to 2500) | met |") && text.contains("4.00 GiB"), "{text}");
    }
}

//! The report: docs/results/door.md.

use std::fmt::Write as _;

use anyhow::Result;

use super::asks::Question;
use super::idle::Idle;
use super::judge::{ASKS_MIN, IDLE_MAX, is_small, judge, of};
use super::{Row, ServerKind};
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
}

/// Idle connections of one server, in clear or TLS; or why there are none.
pub type IdleRow = (ServerKind, bool, Result<Idle, String>);

/// Requests per second of one server, round by round; or why there are none.
pub type AskRow = (ServerKind, Question, Result<Vec<f64>, String>);

/// All results.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cells in which bytes move.
    pub rows: Vec<Row>,
    /// Idle connections.
    pub idle: Vec<IdleRow>,
    /// Requests per second.
    pub asks: Vec<AskRow>,
}

/// Writes the document; and whether all targets were met.
pub fn markdown(about: &Circumstances, outcome: &Outcome) -> Result<(String, bool)> {
    let mut out = String::from("# The HTTP door beside xrootd's\n\n");
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
    out += "\n![Rates](door.svg)\n";
    let mut met = true;
    if !outcome.rows.is_empty() {
        met &= bytes(&mut out, &outcome.rows)?;
    }
    if !outcome.idle.is_empty() {
        met &= idle(&mut out, &outcome.idle)?;
    }
    if !outcome.asks.is_empty() {
        met &= asks(&mut out, &outcome.asks)?;
    }
    if about.stand_in {
        // A reader must not take these numbers for Longhaul's.
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
        for who in ServerKind::ALL {
            let verdict = if who == ServerKind::Ours { verdict(row, &mut met) } else { String::new() };
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {verdict} |",
                row.title,
                who.name(),
                show(of(row, who, |s| s.bytes_s), 1e9),
                show(of(row, who, |s| s.server_s_per_gb), 1.0),
                show(of(row, who, |s| s.client_s_per_gb), 1.0),
                show(of(row, who, |s| s.others), 1.0),
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
        "\n## Idle connections\n\nEach has had one question answered. Target: below {} MB.\n",
        IDLE_MAX / 1_000_000
    )?;
    out.push_str("| server | | connections | memory before, MB | with them, MB | threads | one more answer, ms | |\n");
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    let mut met = true;
    for (who, tls, idle) in rows {
        let line = if *tls { "TLS" } else { "clear" };
        match idle {
            Ok(idle) => {
                met &= *who != ServerKind::Ours || is_small(idle);
                let word = if *who == ServerKind::Theirs {
                    ""
                } else if is_small(idle) {
                    "met"
                } else {
                    "**not met**"
                };
                let mb = |bytes: u64| bytes as f64 / 1e6;
                let (before, with, ms) = (mb(idle.before), mb(idle.with), idle.answer_s * 1e3);
                let (name, count, threads) = (who.name(), idle.connections, idle.threads);
                writeln!(
                    out,
                    "| {name} | {line} | {count} | {before:.0} | {with:.0} | {threads} | {ms:.1} | {word} |"
                )?;
            }
            Err(why) => {
                met &= *who != ServerKind::Ours;
                writeln!(out, "| {} | {line} | not measured: {why} | | | | | |", who.name())?;
            }
        }
    }
    Ok(met)
}

fn asks(out: &mut String, rows: &[AskRow]) -> Result<bool> {
    writeln!(
        out,
        "\n## Questions\n\nThe server held to one processor, one client on another with one connection; clear. \
         Target: {ASKS_MIN:.0}/s.\n"
    )?;
    out.push_str("| question | server | answers/s | |\n|---|---|---|---|\n");
    let mut met = true;
    for (who, question, rates) in rows {
        let (text, enough) = match rates {
            Ok(rates) => {
                let spread = spread(rates.iter().copied());
                let number = |s: Spread| format!("{:.0} ({:.0} to {:.0})", s.median, s.least, s.most);
                (spread.map_or("–".into(), number), spread.is_some_and(|s| s.median >= ASKS_MIN))
            }
            Err(why) => (format!("not measured: {why}"), false),
        };
        met &= *who != ServerKind::Ours || enough;
        let word = match (who, enough) {
            (ServerKind::Theirs, _) => "",
            (_, true) => "met",
            (_, false) => "**not met**",
        };
        writeln!(out, "| {} | {} | {text} | {word} |", question.name(), who.name())?;
    }
    Ok(met)
}

#[cfg(test)]
mod tests {
    use super::super::Sample;
    use super::*;

    #[test]
    fn tables_tell_what_was_met() {
        let sample = |bytes_s| Sample { bytes_s, server_s_per_gb: 0.5, client_s_per_gb: 0.1, others: 0.0 };
        let row = Row { title: "curl, GET".into(), samples: [vec![sample(2e9)], vec![sample(1e9)]], note: None };
        let about = Circumstances {
            date: String::new(),
            machine: String::new(),
            file_system: "ext4".into(),
            rounds: 1,
            large: 1 << 32,
            method: "x",
            versions: String::new(),
            command: "make bench-door".into(),
            stand_in: false,
        };
        let idle = Idle { connections: 10, before: 1, with: IDLE_MAX, answer_s: 0.001, threads: 3 };
        let mut outcome = Outcome { rows: vec![row], ..Outcome::default() };
        let (text, met) = markdown(&about, &outcome).unwrap();
        assert!(met && text.contains("rate × 2.00, CPU × 1.00: met"), "{text}");
        outcome.idle = vec![(ServerKind::Ours, true, Ok(idle)), (ServerKind::Theirs, true, Err("it died".into()))];
        outcome.asks = vec![(ServerKind::Ours, Question::Digest, Ok(vec![2500.0]))];
        let (text, met) = markdown(&about, &outcome).unwrap();
        assert!(!met && text.contains("| Longhaul | TLS | 10 | 0 | 300 | 3 | 1.0 | **not met** |"), "{text}");
        assert!(text.contains("| 2500 (2500 to 2500) | met |") && text.contains("4.00 GiB"), "{text}");
    }
}

//! The report: docs/results/mirrors.md, and its picture.

use std::fmt::Write as _;

use super::run::{Case, ClientKind, CopyResult};
use crate::statistics::{median, spread};

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured.
    pub machine: String,
    /// The other client, with its version; empty if it is not installed.
    pub other: String,
    /// The arguments of `make bench-mirrors`.
    pub arguments: String,
}

/// A case, a client, and its runs; or why there are none.
pub type Row = (Case, ClientKind, Result<Vec<CopyResult>, String>);

/// The median tail of runs.
fn tail(results: &[CopyResult]) -> f64 {
    median(results.iter().map(CopyResult::tail)).unwrap_or(f64::NAN)
}

fn name(client: ClientKind) -> &'static str {
    match client {
        ClientKind::Ours => "Longhaul",
        ClientKind::Aria2 => "aria2",
    }
}

/// Writes the document.
pub fn markdown(about: &Circumstances, rows: &[Row]) -> String {
    let Circumstances { date, machine, other, arguments } = about;
    let other = match other.as_str() {
        "" => "nothing (aria2 is not installed)".to_string(),
        other => format!("{other}, with as many connections as there are lines (`-x 16 -s LINES -k 1M`)"),
    };
    let mut out = String::from("# Many sources and no tail, measured\n\n");
    let _ = write!(
        out,
        "- Date: {date}\n\
         - Machine: {machine}\n\
         - Command: `{}`\n\
         - Sources: one node over HTTP in clear, behind lines with a rate. **The lines are relays of the bench on loopback**: no delay,\n  \
           no loss, one machine for all\n\
         - Beside Longhaul: {other}\n\
         - Tail: (time of the last half) / (time of the first half); half is when the lines have carried half of the file's bytes\n\
         - Best: the tail if the whole capacity of the lines were used to the end\n\
         - Medians, with the least and the most; every copy is compared with its source\n\n\
         | case | client | runs | tail | best | seconds | carried beside the file |\n|---|---|---|---|---|---|---|\n",
        format!("make bench-mirrors {arguments}").trim(),
    );
    for (case, client, results) in rows {
        match results {
            Err(why) => drop(writeln!(out, "| {} | {} | {why} | | | | |", case.title, name(*client))),
            Ok(results) => {
                let spread_of = |value: fn(&CopyResult) -> f64| {
                    spread(results.iter().map(value))
                        .map(|s| format!("{:.2} ({:.2}–{:.2})", s.median, s.least, s.most))
                        .unwrap_or_default()
                };
                let more = results.iter().map(|c| c.carried_bytes.iter().sum::<u64>() as f64 / case.bytes as f64 - 1.0);
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {:.2} | {} | {:.1} % |",
                    case.title,
                    name(*client),
                    results.len(),
                    spread_of(CopyResult::tail),
                    case.ideal(),
                    spread_of(|c| c.halves[0] + c.halves[1]),
                    median(more).unwrap_or(f64::NAN) * 100.0
                );
            }
        }
    }
    out.push_str(
        "\n## Shares\n\nThe share of all bytes that each line carried, beside its share of the rates at the start.\n\n",
    );
    for (case, client, results) in rows.iter().filter(|(case, ..)| case.later.is_empty()) {
        let Ok(results) = results else { continue };
        let all: u64 = case.rates.iter().sum();
        let share = |at: usize| {
            let part = |c: &CopyResult| c.carried_bytes[at] as f64 / c.carried_bytes.iter().sum::<u64>() as f64;
            let due = case.rates[at] as f64 / all as f64;
            format!("{:.1} % ({:.1})", median(results.iter().map(part)).unwrap_or(f64::NAN) * 100.0, due * 100.0)
        };
        let shares: Vec<String> = (0..case.rates.len()).map(share).collect();
        let _ = writeln!(out, "- {}, {}: {}", case.title, name(*client), shares.join(", "));
    }
    out + "\n![Tails](mirrors.svg)\n"
}

/// Bars of the median tails as SVG.
pub fn svg(rows: &[Row]) -> String {
    let tails: Vec<(&Row, f64)> =
        rows.iter().filter_map(|row| Some((row, tail(row.2.as_ref().ok()?)))).filter(|(_, t)| t.is_finite()).collect();
    let most = tails.iter().map(|(_, tail)| *tail).fold(1.5, f64::max);
    let mut body = String::new();
    let mut y = 50;
    for ((case, client, _), tail) in &tails {
        let width = tail / most * 480.0;
        let fill = if *client == ClientKind::Ours { "#2a6fb0" } else { "#c98a3a" };
        let _ = writeln!(body, "<text x=\"10\" y=\"{y}\">{}: {}</text>", name(*client), case.title);
        let _ = writeln!(body, "<rect x=\"10\" y=\"{}\" width=\"{width:.1}\" height=\"16\" fill=\"{fill}\"/>", y + 6);
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{}\">{tail:.2} (best {:.2})</text>",
            width + 18.0,
            y + 19,
            case.ideal()
        );
        y += 46;
    }
    let font = "font-family=\"sans-serif\" font-size=\"13\"";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{y}\" {font}>\n\
         <rect width=\"720\" height=\"{y}\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"22\">Time of the last half by that of the first, over relays on loopback; shorter is better.</text>\n\
         {body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirrors::run::cases;

    #[test]
    fn the_document_has_tails_shares_and_failures() {
        let about = Circumstances {
            date: "2026-11-20".into(),
            machine: "virtual machine".into(),
            other: "aria2 version 1.36.0".into(),
            arguments: String::new(),
        };
        let result = |tail: f64| CopyResult { halves: [2.0, 2.0 * tail], carried_bytes: vec![200, 120, 80] };
        let rows = [
            (cases()[0].clone(), ClientKind::Ours, Ok(vec![result(1.0), result(1.25), result(3.0)])),
            (cases()[0].clone(), ClientKind::Aria2, Err("not installed".to_owned())),
        ];
        let text = markdown(&about, &rows);
        for wanted in ["1.25 (1.00–3.00)", "| aria2 | not installed", "50.0 % (57.1), 30.0 % (28.6), 20.0 % (14.3)"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(svg(&rows).contains("1.25 (best 1.00)"));
    }
}

//! The report: docs/results/several.md.

use std::fmt::Write as _;
use std::path::Path;

use super::run::{Case, Cut, TransferResult, copy_arguments};
use crate::statistics::spread;

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured.
    pub machine: String,
    /// The arguments of `make bench-several`.
    pub arguments: String,
}

/// A case and its runs.
pub type Row = (Case, Vec<Result<TransferResult, String>>);

fn spread_text(values: impl Iterator<Item = f64>, digits: usize) -> String {
    spread(values)
        .map_or_else(|| "–".to_owned(), |s| format!("{:.digits$} ({:.digits$}–{:.digits$})", s.median, s.least, s.most))
}

/// The row of one case.
pub fn row((case, results): &Row) -> String {
    let good: Vec<&TransferResult> = results.iter().flatten().collect();
    let failed: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    let limited = good.iter().filter(|result| result.limited.is_some()).count();
    let mut notes = Vec::new();
    if let Some(why) = failed.first() {
        notes.push(format!("{} failed: {why}", failed.len()));
    }
    if limited > 0 {
        notes.push(format!("{limited} emulator-limited"));
    }
    let steady_mbit_s =
        if case.cut == Cut::None { spread_text(good.iter().map(|c| c.steady_mbit_s), 1) } else { "–".to_owned() };
    let payload = spread_text(good.iter().map(|c| case.bytes as f64 * 8e-6 / c.seconds), 1);
    let parts = spread_text(good.iter().map(|c| c.carried_bytes[0] as f64 / c.carried_bytes[1].max(1) as f64), 2);
    let recovery_s = spread_text(good.iter().filter_map(|c| c.recovery_s), 1);
    format!(
        "| {} | {} | {} | {steady_mbit_s} | {payload} | {parts} | {recovery_s} | {} |\n",
        case.title,
        good.len(),
        spread_text(good.iter().map(|c| c.seconds), 1),
        notes.join("; ")
    )
}

/// Writes the document.
pub fn markdown(about: &Circumstances, rows: &[Row]) -> String {
    let Circumstances { date, machine, arguments } = about;
    let movers = rows.iter().any(|(case, _)| case.mover);
    let (title, what, ends) = if movers {
        (
            "Movers",
            "movers",
            "the node listens at the end of one, a mover of it, a process of its own, at the end of the other",
        )
    } else {
        ("Several paths", "several", "the node advertises its address on each")
    };
    let mut out = format!("# {title}, measured\n\n");
    let _ = write!(
        out,
        "- Date: {date}\n\
         - Machine: {machine}\n\
         - Command: `{}`\n\
         - Back end: `tun`. **Every path here is emulated**: both ends and the network share one machine\n\
         - Two paths, 20 and 60 ms, queues of 50 ms, MTU 1500; {ends}\n\
         - Steady: the most that both paths carried for ten seconds, headers included (payload is 96 % of it). Whole job: its payload\n  \
           over its time, slow start and the search for the rate included. Parts: the path of 20 ms over the one of 60 ms\n\
         - Back: from the cut (of both: from its end) until the remaining paths carry 90 % of their rate over half a second, and continue to\n\
         - Medians, with the least and the most; cut copies are compared with their source\n\n\
         | case | runs | seconds | steady Mbit/s | whole job Mbit/s | parts | back after s | |\n|---|---|---|---|---|---|---|---|\n",
        format!("make bench-{what} {arguments}").trim(),
    );
    rows.iter().for_each(|of| out += &row(of));
    out.push_str(if movers {
        "\n## Commands\n\nThe mover: `longhaul serve --export data=TARGET:rw --listen 10.77.2.2:7411`; its key: `longhaul grant \
         --export data --write`\n\nThe node: `longhaul serve --export data=TARGET:rw --anonymous rw --listen 10.77.2.1:7411 --peers \
         10.77.2.2 --key-file KEYS`\n\n```text\n"
    } else {
        "\n## Commands\n\nThe node: `longhaul serve --export data=TARGET:rw --anonymous rw --advertise 10.77.2.1,10.77.2.2`\n\n\
         ```text\n"
    });
    let mut commands: Vec<String> = rows
        .iter()
        .map(|(case, _)| format!("longhaul {}\n", copy_arguments(case, Path::new("SOURCE")).join(" ")))
        .collect();
    commands.dedup();
    out += &commands.concat();
    out.push_str("```\n");
    out
}

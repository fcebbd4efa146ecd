//! The page docs/results/fuzz.md: the runs and findings of every target so far.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::counts::FuzzCounts;
use super::{fuzz_directory, grouped};
use crate::demo::repository;
use crate::soak::{first_line, machine};

/// Writes the page.
///
/// # Errors
/// The counts or the notes cannot be read, or the page cannot be written.
pub fn write(targets: &[String]) -> Result<()> {
    let mut rows = Vec::new();
    for target in targets {
        rows.push((target.as_str(), FuzzCounts::read(&fuzz_directory(), target)?));
    }
    let notes = fs::read_to_string(fuzz_directory().join("notes.md")).context("cannot read fuzz/notes.md")?;
    let date = first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let path = repository().join("docs/results/fuzz.md");
    fs::write(&path, page(&rows, &notes, &date, &machine()?)?).with_context(|| path.display().to_string())
}

fn page(rows: &[(&str, FuzzCounts)], notes: &str, date: &str, machine: &str) -> Result<String> {
    let mut out = String::from("# Fuzzing: every parser that a stranger can reach, and both protocol machines\n\n");
    let commits: BTreeSet<&str> =
        rows.iter().map(|(_, counts)| counts.commit.as_str()).filter(|c| !c.is_empty()).collect();
    let commits: Vec<&str> = commits.into_iter().collect();
    writeln!(out, "- Date: {date}\n- Machine: {machine}, one process at a time")?;
    writeln!(out, "- Command: `make fuzz` (`cargo xtask fuzz`), again and again: counts add up over calls")?;
    writeln!(out, "- Commit: {}; of each target the last one that ran\n", commits.join(", "))?;
    writeln!(
        out,
        "A run is one input; libFuzzer counts them. Edges are what the corpus covers of all code that the target\n\
         reaches, libraries included. The rate is over all parts, starts included. What the targets feed is in\n\
         [fuzz/README.md](../../fuzz/README.md).\n"
    )?;
    writeln!(out, "| target | runs so far | edges | runs/s | corpus | findings |\n|---|---|---|---|---|---|")?;
    for (target, counts) in rows {
        let FuzzCounts { runs, edges, corpus, findings, .. } = counts;
        let [runs, edges, rate, corpus] = [*runs, *edges, counts.rate(), *corpus].map(grouped);
        writeln!(out, "| {target} | {runs} | {edges} | {rate} | {corpus} | {findings} |")?;
    }
    let runs = rows.iter().map(|(_, counts)| counts.runs).sum();
    let hours = rows.iter().map(|(_, counts)| counts.seconds).sum::<f64>() / 3_600.0;
    writeln!(out, "\n{} runs in {hours:.1} hours.\n\n{}", grouped(runs), notes.trim_end())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_for_each_target() {
        let some =
            FuzzCounts { runs: 7_200_000, seconds: 3_600.0, edges: 12, corpus: 3, findings: 1, commit: "ab".into() };
        let page =
            page(&[("a", some), ("b", FuzzCounts::default())], "## Found\n\nnothing\n", "today", "a machine").unwrap();
        assert!(page.contains("| a | 7,200,000 | 12 | 2,000 | 3 | 1 |\n| b | 0 | 0 | 0 | 0 | 0 |\n"), "{page}");
        assert!(
            page.contains("- Commit: ab;") && page.ends_with("7,200,000 runs in 1.0 hours.\n\n## Found\n\nnothing\n")
        );
    }
}

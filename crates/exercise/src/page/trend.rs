//! All runs of a repeated exercise: what each phase sustained, run after run.

use report::html::{self, Plot, Scale, Step, Table};

use super::optional_rate;
use crate::grade::{self, PhaseGrade};
use crate::record::RunRecord;

/// Phases with a line of their own.
const PHASES_MAX: usize = 8;

/// The page of all runs, the oldest first.
pub fn trend(runs: &[RunRecord]) -> String {
    let Some(last) = runs.last() else { return html::page("No runs", "<h1>No runs</h1>") };
    let title = format!("{}: {} runs", last.title, runs.len());
    let mut body = format!("<h1>{}</h1>", html::brief(&title));
    body += &chart(runs, last);
    let mut heads = vec!["began"];
    heads.extend(last.phases.iter().map(|phase| phase.name.as_str()));
    heads.push("result");
    let mut table = Table::new("numbers", "Sustained rates of the phases; the latest run first", &heads);
    for run in runs.iter().rev() {
        let mut row = vec![run.began.clone()];
        row.extend(last.phases.iter().map(|phase| optional_rate(sustained(run, &phase.name))));
        row.push(grade::verdict(run));
        table.row(&row);
    }
    html::page(&title, &(body + &table.end()))
}

fn chart(runs: &[RunRecord], last: &RunRecord) -> String {
    let phases = &last.phases[..last.phases.len().min(PHASES_MAX)];
    let all = || runs.iter().flat_map(|run| phases.iter().filter_map(|phase| sustained(run, &phase.name)));
    let most = all().fold(0.0, f64::max);
    let about = "A run that did not reach a phase has no step there";
    let scale = Scale::plain(runs.len() as f64, "runs");
    let mut plot = Plot::new("trend", "Sustained rate of each run", about, scale, Scale::rate(most));
    for (style, phase) in phases.iter().enumerate() {
        let step = |(at, run): (usize, &RunRecord)| {
            let high = sustained(run, &phase.name)?;
            Some(Step { from: at as f64, to: at as f64 + 1.0, low: 0.0, high })
        };
        plot.line(style, &runs.iter().enumerate().filter_map(step).collect::<Vec<_>>());
        plot.key_line(style, &phase.name);
    }
    plot.figure("")
}

/// What a phase of a run sustained.
fn sustained(run: &RunRecord, phase: &str) -> Option<f64> {
    let found = run.phases.iter().find(|found| found.name == phase)?;
    PhaseGrade::of(found).attained.map(|attained| attained.sustained)
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_run_without_a_phase_has_a_gap_and_not_a_zero() {
        let (first, mut second) = (run(), run());
        second.phases.clear();
        let mut third = run();
        third.began = "2026-11-28".into();
        let page = trend(&[first, second, third]);
        assert!(page.contains("3 runs") && page.contains("2026-11-28") && page.contains("<td>-</td>"), "{page}");
        assert!(!page.contains("NaN") && page.contains("push &amp; pull"));
        assert!(trend(&[]).contains("No runs"));
    }
}

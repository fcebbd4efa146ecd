//! All runs of a repeated exercise: what each phase sustained, run after run.

use report::html::{self, Plot, Scale, Step, Table};

use super::optional_rate;
use crate::grade::{self, PhaseGrade};
use crate::record::RunRecord;

/// Phases with a line of their own.
const PHASES_MAX: usize = 8;

/// A run on the page of all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendRun {
    title: String,
    began: String,
    /// The phases, and what each sustained.
    phases: Vec<(String, Option<f64>)>,
    result: String,
}

impl TrendRun {
    /// What the page needs of a run.
    pub fn of(run: &RunRecord) -> TrendRun {
        let sustained = |phase| PhaseGrade::of(phase).attained.map(|attained| attained.sustained);
        TrendRun {
            title: run.title.clone(),
            began: run.began.clone(),
            phases: run.phases.iter().map(|phase| (phase.name.clone(), sustained(phase))).collect(),
            result: grade::verdict(run),
        }
    }

    /// What a phase sustained.
    fn sustained(&self, phase: &str) -> Option<f64> {
        self.phases.iter().find(|(name, _)| name == phase)?.1
    }
}

/// The page of all runs, the oldest first.
pub fn trend(runs: &[TrendRun]) -> String {
    let Some(last) = runs.last() else { return html::page("No runs", "<h1>No runs</h1>") };
    let title = format!("{}: {} runs", last.title, runs.len());
    let mut body = format!("<h1>{}</h1>", html::brief(&title));
    body += &chart(runs, last);
    let mut heads = vec!["began"];
    heads.extend(last.phases.iter().map(|(name, _)| name.as_str()));
    heads.push("result");
    let mut table = Table::new("numbers", "Sustained rates of the phases; the latest run first", &heads);
    for run in runs.iter().rev() {
        let mut row = vec![run.began.clone()];
        row.extend(last.phases.iter().map(|(name, _)| optional_rate(run.sustained(name))));
        row.push(run.result.clone());
        table.row(&row);
    }
    html::page(&title, &(body + &table.end()))
}

fn chart(runs: &[TrendRun], last: &TrendRun) -> String {
    let phases = &last.phases[..last.phases.len().min(PHASES_MAX)];
    let all = || runs.iter().flat_map(|run| phases.iter().filter_map(|(name, _)| run.sustained(name)));
    let most = all().fold(0.0, f64::max);
    let about = "A run that did not reach a phase has no step there";
    let scale = Scale::plain(runs.len() as f64, "runs");
    let mut plot = Plot::new("trend", "Sustained rate of each run", about, scale, Scale::rate(most));
    for (style, (name, _)) in phases.iter().enumerate() {
        let step = |(at, run): (usize, &TrendRun)| {
            let high = run.sustained(name)?;
            Some(Step { from: at as f64, to: at as f64 + 1.0, low: 0.0, high })
        };
        plot.line(style, &runs.iter().enumerate().filter_map(step).collect::<Vec<_>>());
        plot.key_line(style, name);
    }
    plot.figure("")
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
        let page = trend(&[&first, &second, &third].map(TrendRun::of));
        assert!(page.contains("3 runs") && page.contains("2026-11-28") && page.contains("<td>-</td>"), "{page}");
        assert!(!page.contains("NaN") && page.contains("push &amp; pull"));
        assert!(trend(&[]).contains("No runs"));
    }
}

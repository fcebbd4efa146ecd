//! The report: docs/results/eta.md.

use std::fmt::Write as _;

use super::judge::Verdict;
use super::run::command_line;
use super::runs::Planned;

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured.
    pub machine: String,
    /// The arguments of `make bench-eta`.
    pub arguments: String,
}

/// A run, with its verdict and why the lab was the limit, if it was; or why the run failed.
pub type Outcome = (Planned, Result<(Verdict, Option<String>), String>);

/// Writes the document.
pub fn markdown(about: &Circumstances, outcomes: &[Outcome]) -> String {
    let mut out = String::from("# The time left, measured\n\n");
    let Circumstances { date, machine, arguments } = about;
    let command = format!("make bench-eta {arguments}");
    let good = outcomes.iter().filter(|(_, outcome)| outcome.as_ref().is_ok_and(|(v, _)| v.is_good())).count();
    let all: Vec<&Verdict> = outcomes.iter().filter_map(|(_, o)| o.as_ref().ok().map(|(v, _)| v)).collect();
    let sum = |of: fn(&Verdict) -> usize| all.iter().map(|v| of(v)).sum::<usize>();
    let _ = write!(
        out,
        "- Date: {date}\n\
         - Machine: {machine}\n\
         - Command: `{}`\n\
         - Back end: `tun`. **Every path here is emulated**: both ends and the network share one machine\n\
         - Counted: every progress line (one a second) from the first tenth of the bytes on. Its error is the\n  \
           predicted end minus the real end, as a share of the job's whole time; a line without a prediction counts as 100 %\n\
         - A run is good where nine of ten of its lines are off by less than 10 %\n\n\
         **{good} of {} runs are good**; {} of {} lines are off by less than 10 %; {} are within the bound that they \
         report.\n",
        command.trim(),
        outcomes.len(),
        sum(|v| v.good),
        sum(|v| v.lines_counted),
        sum(|v| v.within),
    );
    out.push_str(
        "\n| RTT, rate, loss | job | time | rate | lines | within 10 % | within the bound | median error | worst | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (planned, outcome) in outcomes {
        out += &row(planned, outcome);
    }
    out.push_str(
        "\n## Commands\n\nThe node, at site b: `longhaul serve --export data=TARGET:rw --anonymous rw`\n\n```text\n",
    );
    let mut commands: Vec<String> = outcomes.iter().map(|(planned, _)| command_line(planned)).collect();
    commands.dedup();
    commands.iter().for_each(|command| out += &format!("{command}\n"));
    out + "```\n"
}

/// A row of the table.
pub fn row(planned: &Planned, outcome: &Result<(Verdict, Option<String>), String>) -> String {
    let settings = &planned.path;
    let loss = settings.ab.split('"').nth(1).map(|loss| format!(", {loss}")).unwrap_or_default();
    let path = format!("{} ms, {} Mbit/s{loss}", settings.rtt_ms, settings.rate_mbit.unwrap_or_default());
    let job = format!("{} {}", planned.load.description(), planned.options);
    let job = job.trim();
    match outcome {
        Err(error) => format!("| {path} | {job} | failed: {error} |\n"),
        Ok((v, limited)) => format!(
            "| {path} | {job} | {:.1} s | {:.0} Mbit/s | {} | {} | {} | {:.1} % | {:.1} % | {}{} |\n",
            v.seconds,
            v.rate_bit_s / 1e6,
            v.lines_counted,
            v.good,
            v.within,
            v.median() * 100.0,
            v.worst() * 100.0,
            if v.is_good() { "good" } else { "**not good**" },
            limited.as_ref().map(|why| format!("; emulator-limited: {why}")).unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eta::runs;

    #[test]
    fn the_document_counts_good_runs_and_names_failures() {
        let about =
            Circumstances { date: "2026-11-20".into(), machine: "virtual machine".into(), arguments: String::new() };
        let errors = vec![0.01, 0.02, 0.3];
        let verdict = Verdict { seconds: 20.0, lines_counted: 3, good: 2, within: 1, errors, ..Verdict::default() };
        let planned = runs::all();
        let outcomes = [(planned[13].clone(), Ok((verdict, None))), (planned[19].clone(), Err("no route".into()))];
        let text = markdown(&about, &outcomes);
        for wanted in ["**0 of 2 runs are good**; 2 of 3", "20 ms, 1000 Mbit/s, 0.01%", "2.0 % | 30.0 %", "no route"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(text.contains("longhaul cp --json -r SOURCE lh://b/data\n"));
    }
}

//! The report of a run as one page, and two runs side by side.
//!
//! Does not know: how it was run. Everything comes from the record.

mod charts;
mod comparison;
mod nodes;
mod trend;

use model::units::{BitRate, Bytes};
use report::html::{self, Table};

use crate::grade::{self, FlowGrade, PhaseGrade};
use crate::record::{Attained, FaultRecord, PhaseRecord, RunRecord, TrialRecord};

pub use comparison::{REGRESSION, comparison, regressions};
pub use nodes::{Trend, slope};
pub use trend::{TrendRun, trend};

/// A rate with its unit.
pub fn rate_text(bit_s: f64) -> String {
    BitRate(bit_s.max(0.0).round() as u64).to_string()
}

fn optional_rate(bit_s: Option<f64>) -> String {
    bit_s.map_or_else(|| "-".to_owned(), rate_text)
}

/// The page of a run.
pub fn page(run: &RunRecord) -> String {
    let class = if grade::is_complete(run) { "good" } else { "part" };
    let mut body = format!(
        "<h1>{}</h1><div class=\"verdict {class}\"><p>{}</p></div>",
        html::brief(&run.title),
        html::brief(&grade::verdict(run))
    );
    body += &sections(run);
    html::page(&run.title, &body)
}

/// The facts, tables and charts of a run, for a page with a head of its own.
pub fn sections(run: &RunRecord) -> String {
    let mut body = facts(run);
    body += &missing(run);
    body += &phases_table(run);
    for (number, phase) in run.phases.iter().enumerate() {
        body += &phase_section(phase, number);
    }
    body + &trials(&run.trials)
}

fn facts(run: &RunRecord) -> String {
    let emulated = run.emulated.clone().unwrap_or_else(|| "nothing".to_owned());
    let facts = [
        ("began", run.began.clone()),
        ("scale", format!("{}", run.scale)),
        ("controller", run.machine.clone()),
        ("software", run.software.clone()),
        ("command", run.command.clone()),
        ("emulated", emulated),
    ];
    let facts: String = facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", html::brief(value)))
        .collect();
    let mut table = Table::new("", "Sites", &["site", "node", "software", "remark"]);
    for site in &run.sites {
        let remark = site.left_out.as_ref().map_or_else(String::new, |why| format!("left out: {why}"));
        table.row(&[site.name.clone(), site.node.clone(), site.software.clone(), remark]);
    }
    format!("<dl class=\"facts\">{facts}</dl>{}", table.folded("Sites and their software"))
}

fn missing(run: &RunRecord) -> String {
    if run.missing.is_empty() {
        return String::new();
    }
    let items: String = run.missing.iter().map(|text| format!("<li>{}</li>", html::brief(text))).collect();
    format!("<h2>What is missing</h2><ul class=\"bad\">{items}</ul>")
}

fn phases_table(run: &RunRecord) -> String {
    let heads = ["phase", "time", "bytes", "sustained", "min", "max", "mean", "goals met"];
    let mut table = Table::new(
        "numbers",
        "All flows of a phase together. Means of ten seconds; sustained is what nine of ten reach after the ramp",
        &heads,
    );
    for phase in &run.phases {
        let grade = PhaseGrade::of(phase);
        let mut row = vec![phase.name.clone(), format!("{:.0} s", phase.seconds), Bytes(grade.bytes).to_string()];
        row.extend(attained_cells(grade.attained));
        row.push(if grade.goals == 0 { "-".to_owned() } else { format!("{} of {}", grade.met, grade.goals) });
        table.row(&row);
    }
    table.end()
}

/// Sustained, lowest, highest and mean rate.
fn attained_cells(attained: Option<Attained>) -> [String; 4] {
    let cell = |of: fn(&Attained) -> f64| optional_rate(attained.as_ref().map(of));
    [cell(|a| a.sustained), cell(|a| a.min), cell(|a| a.max), cell(|a| a.mean)]
}

fn phase_section(phase: &PhaseRecord, number: usize) -> String {
    let mut section = format!("<section><h2>{}</h2>", html::brief(&phase.name));
    section += &flow_table(phase);
    section += &site_goal_table(phase);
    section += &charts::rates(phase, number);
    section += &charts::sites(phase, number);
    section += &charts::layers(phase, number);
    section += &nodes::table(phase);
    section += &fault_table(&phase.faults);
    section + "</section>"
}

fn flow_table(phase: &PhaseRecord) -> String {
    let heads = [
        "flow",
        "by",
        "goal",
        "sustained",
        "min",
        "max",
        "mean",
        "gaps",
        "files",
        "failed",
        "goal met",
        "held back by",
    ];
    let mut table = Table::new("numbers", "Flows; gaps are seconds without a sample, which count nowhere", &heads);
    for flow in &phase.flows {
        let grade = FlowGrade::of(flow);
        let mut row = vec![flow.name.clone(), flow.tool.clone(), optional_rate(flow.goal_bit_s)];
        row.extend(attained_cells(grade.attained));
        row.push(grade.attained.map_or_else(|| "all".to_owned(), |attained| attained.gaps.to_string()));
        row.extend([grade.files.to_string(), grade.failed.to_string()]);
        row.push(goal_text(flow.goal_bit_s, grade.reaches_goal).to_owned());
        row.push(grade.why);
        table.row(&row);
    }
    table.end()
}

/// What sites should have sustained, and did.
fn site_goal_table(phase: &PhaseRecord) -> String {
    if phase.site_goals.is_empty() {
        return String::new();
    }
    let heads = ["site", "goal", "sustained", "min", "max", "mean", "goal met"];
    let mut table = Table::new("numbers", "Goals of sites: all of their flows in a direction together", &heads);
    for goal in &phase.site_goals {
        let direction = if goal.sends { "sends" } else { "receives" };
        let mut row = vec![format!("{} {direction}", goal.site), rate_text(goal.goal_bit_s)];
        row.extend(attained_cells(phase.attained_by_site(goal)));
        row.push(goal_text(Some(goal.goal_bit_s), grade::site_reaches_goal(phase, goal)).to_owned());
        table.row(&row);
    }
    table.end()
}

fn goal_text(goal_bit_s: Option<f64>, reaches: Option<bool>) -> &'static str {
    match (goal_bit_s, reaches) {
        (None, _) => "-",
        (Some(_), Some(true)) => "met",
        (Some(_), Some(false)) => "missed",
        (Some(_), None) => "not known",
    }
}

fn fault_table(faults: &[FaultRecord]) -> String {
    if faults.is_empty() {
        return String::new();
    }
    let mut table = Table::new("", "Injected faults", &["what", "from", "until", "remark"]);
    for fault in faults {
        table.row(&[
            fault.what.clone(),
            format!("{:.0} s", fault.at_s),
            fault.until_s.map_or_else(|| "the end".to_owned(), |until_s| format!("{until_s:.0} s")),
            fault.error.clone().unwrap_or_default(),
        ]);
    }
    table.end()
}

fn trials(trials: &[TrialRecord]) -> String {
    let Some(first) = trials.first() else { return String::new() };
    let mut heads = vec!["slot"];
    heads.extend(first.setting.iter().map(|(name, _)| name.as_str()));
    heads.extend(["mean rate", "± standard error"]);
    let mut table = Table::new("numbers", "All trials of the search", &heads);
    for (number, trial) in trials.iter().enumerate() {
        let mut row = vec![(number + 1).to_string()];
        row.extend(trial.setting.iter().map(|(_, value)| value.to_string()));
        row.push(if trial.failed { "failed".to_owned() } else { rate_text(trial.rate_bit_s) });
        row.push(rate_text(trial.error_bit_s));
        table.row(&row);
    }
    let best = trials.iter().filter(|trial| !trial.failed).max_by(|a, b| a.rate_bit_s.total_cmp(&b.rate_bit_s));
    let proposal = best.map_or_else(
        || "<p>No trial moved anything: there is nothing to propose.</p>".to_owned(),
        |best| {
            let values: Vec<String> = best.setting.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!(
                "<div class=\"verdict good\"><p>Proposal for the configuration of the site: {} ({}).</p></div>",
                html::brief(&values.join(", ")),
                rate_text(best.rate_bit_s)
            )
        },
    );
    format!("<h2>Search</h2>{proposal}{}", table.end())
}

/// The grades of a run as lines for a terminal.
pub fn lines(run: &RunRecord) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", run.title, grade::verdict(run))];
    for phase in &run.phases {
        let grade = PhaseGrade::of(phase);
        let together = grade.attained.map_or_else(
            || "not sampled as a whole".to_owned(),
            |all| format!("{} sustained, {} to {}", rate_text(all.sustained), rate_text(all.min), rate_text(all.max)),
        );
        lines.push(format!("{} ({:.0} s, {}): {together}", phase.name, phase.seconds, Bytes(grade.bytes)));
        for goal in phase.site_goals.iter().filter(|goal| grade::site_reaches_goal(phase, goal) != Some(true)) {
            let sustained = optional_rate(phase.attained_by_site(goal).map(|attained| attained.sustained));
            let direction = if goal.sends { "sends" } else { "receives" };
            lines.push(format!("  {} {direction} {sustained} of {}", goal.site, rate_text(goal.goal_bit_s)));
        }
        for flow in phase.flows.iter().filter(|flow| flow.reaches_goal() != Some(true)) {
            let grade = FlowGrade::of(flow);
            if flow.goal_bit_s.is_none() && grade.failed == 0 {
                continue;
            }
            let sustained = optional_rate(grade.attained.map(|attained| attained.sustained));
            let goal = flow.goal_bit_s.map_or_else(String::new, |goal| format!(" of {}", rate_text(goal)));
            lines.push(format!("  {}: {sustained}{goal}; {} failed; {}", flow.name, grade.failed, grade.why));
        }
    }
    lines.extend(run.missing.iter().map(|text| format!("missing: {text}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FlowRecord, NodeSample, RoundRecord, RunSiteRecord, SiteGoalRecord};

    /// A run with a flow that meets its goal, one that misses it, and a gap.
    pub(super) fn run() -> RunRecord {
        let flow = |name: &str, rate: f64| FlowRecord {
            name: name.into(),
            from: "a".into(),
            to: "b".into(),
            tool: "longhaul".into(),
            goal_bit_s: Some(4e8),
            rates_bit_s: [vec![Some(rate); 20], vec![None; 4], vec![Some(rate); 20]].concat(),
            rounds: vec![RoundRecord {
                seconds: 44.0,
                files: 7,
                verdict: "network: <lossy>".into(),
                ..RoundRecord::default()
            }],
            ..FlowRecord::default()
        };
        let phase = PhaseRecord {
            name: "push & pull".into(),
            seconds: 44.0,
            flows: vec![flow("one", 5e8), flow("two", 3e8)],
            nodes: vec![NodeSample { site: "a".into(), running: 2, queued: 1, load: 0.5, ..NodeSample::default() }],
            faults: vec![FaultRecord { at_s: 20.0, until_s: Some(24.0), what: "a-b: loss=1%".into(), error: None }],
            site_goals: vec![SiteGoalRecord { site: "b".into(), sends: false, goal_bit_s: 9e8 }],
            ..PhaseRecord::default()
        };
        RunRecord {
            title: "A <test>".into(),
            sites: vec![RunSiteRecord { name: "a".into(), ..RunSiteRecord::default() }],
            phases: vec![phase],
            trials: vec![TrialRecord {
                setting: vec![("streams".into(), 4)],
                rate_bit_s: 5e8,
                ..TrialRecord::default()
            }],
            missing: vec!["c was left out".into()],
            ..RunRecord::default()
        }
    }

    #[test]
    fn a_page_says_what_was_met_what_is_missing_and_why() {
        let text = page(&run());
        for part in [
            "1 of 3 goals met",
            "b receives",
            "c was left out",
            "push &amp; pull",
            "missed",
            "&lt;lossy&gt;",
            "streams = 4",
            "a-b: loss=1%",
        ] {
            assert!(text.contains(part), "{part} is not in the page");
        }
        assert!(!text.contains("<lossy>") && !text.contains("NaN"));
    }

    #[test]
    fn the_lines_for_a_terminal_name_who_is_behind() {
        let lines = lines(&run());
        assert!(
            lines.iter().any(|line| line.contains("two: 300 Mbit/s of 400 Mbit/s") && line.contains("lossy")),
            "{lines:?}"
        );
        assert!(!lines.iter().any(|line| line.contains("  one:")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("b receives 800 Mbit/s of 900 Mbit/s")), "{lines:?}");
    }
}

//! Two runs side by side: phases and flows by their names.

use report::html::{self, Table};

use super::{optional_rate, rate_text};
use crate::grade::{self, FlowGrade, PhaseGrade};
use crate::record::{FlowRecord, PhaseRecord, RunRecord};

/// The change that counts as a regression: less than this of the rate before.
pub const REGRESSION: f64 = 0.9;

/// A fact of a run as text.
type Fact = fn(&RunRecord) -> String;

/// The page of two runs.
pub fn comparison(before: &RunRecord, after: &RunRecord) -> String {
    let title = format!("{}: two runs", after.title);
    let found = regressions(before, after);
    let (class, verdict) = match found.len() {
        0 => ("good", "no flow lost more than a tenth of its rate".to_owned()),
        count => ("bad", format!("{count} flows or phases lost more than a tenth of their rate")),
    };
    let mut body = format!("<h1>{}</h1><div class=\"verdict {class}\"><p>{verdict}</p></div>", html::brief(&title));
    let heads = ["", "before", "after"];
    let mut facts = Table::new("", "The runs", &heads);
    let rows: [(&str, Fact); 5] = [
        ("began", |run| run.began.clone()),
        ("machine", |run| run.machine.clone()),
        ("software", |run| run.software.clone()),
        ("emulated", |run| run.emulated.clone().unwrap_or_else(|| "nothing".into())),
        ("result", grade::verdict),
    ];
    for (name, of) in rows {
        facts.row(&[name.to_owned(), of(before), of(after)]);
    }
    body += &facts.end();
    let mut table = Table::new(
        "numbers",
        "Sustained rates; a phase is all of its flows together",
        &["phase or flow", "before", "after", "after / before"],
    );
    for pair in pairs(before, after) {
        table.row(&[
            pair.name,
            optional_rate(pair.before),
            optional_rate(pair.after),
            ratio_text(pair.before, pair.after),
        ]);
    }
    body += &table.end();
    html::page(&title, &body)
}

/// What lost more than a tenth of its sustained rate, in sentences.
pub fn regressions(before: &RunRecord, after: &RunRecord) -> Vec<String> {
    let lost = pairs(before, after).into_iter().filter_map(|pair| {
        let before = pair.before?;
        let is_lost = pair.after.is_none_or(|after| after < before * REGRESSION);
        let after = pair.after.map_or_else(|| "nothing known".to_owned(), rate_text);
        is_lost.then(|| format!("{}: {after} after {}", pair.name, rate_text(before)))
    });
    lost.collect()
}

/// A phase or flow of two runs, with its sustained rates.
struct RatePair {
    name: String,
    before: Option<f64>,
    after: Option<f64>,
}

/// Phases and flows that one of the runs has, by name.
fn pairs(before: &RunRecord, after: &RunRecord) -> Vec<RatePair> {
    let mut pairs = Vec::new();
    for phase in &after.phases {
        let old = before.phases.iter().find(|old| old.name == phase.name);
        pairs.push(RatePair { name: phase.name.clone(), before: old.and_then(phase_rate), after: phase_rate(phase) });
        for flow in &phase.flows {
            let old = old.and_then(|old| old.flows.iter().find(|old| old.name == flow.name));
            pairs.push(RatePair { name: flow.name.clone(), before: old.and_then(flow_rate), after: flow_rate(flow) });
        }
        let gone =
            old.iter().flat_map(|old| &old.flows).filter(|old| phase.flows.iter().all(|flow| flow.name != old.name));
        pairs.extend(gone.map(|old| RatePair { name: old.name.clone(), before: flow_rate(old), after: None }));
    }
    let gone = before.phases.iter().filter(|old| !after.phases.iter().any(|phase| phase.name == old.name));
    pairs.extend(gone.map(|old| RatePair { name: old.name.clone(), before: phase_rate(old), after: None }));
    pairs
}

fn phase_rate(phase: &PhaseRecord) -> Option<f64> {
    PhaseGrade::of(phase).attained.map(|attained| attained.sustained)
}

fn flow_rate(flow: &FlowRecord) -> Option<f64> {
    FlowGrade::of(flow).attained.map(|attained| attained.sustained)
}

fn ratio_text(before: Option<f64>, after: Option<f64>) -> String {
    match (before, after) {
        (Some(before), Some(after)) if before > 0.0 => format!("{:.2}", after / before),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn a_flow_that_lost_rate_is_a_regression_and_one_that_is_gone_is_shown() {
        let (before, mut after) = (run(), run());
        assert_eq!(regressions(&before, &after), Vec::<String>::new());
        after.phases[0].flows[1].rates_bit_s = vec![Some(2e8); 30];
        let found = regressions(&before, &after);
        assert!(found.contains(&"two: 200 Mbit/s after 300 Mbit/s".to_owned()), "{found:?}");
        after.phases[0].flows.truncate(1);
        assert!(regressions(&before, &after).contains(&"two: nothing known after 300 Mbit/s".to_owned()));
        after.phases[0].name = "another".into();
        let page = comparison(&before, &after);
        assert!(page.contains("push &amp; pull") && page.contains("another"));
    }
}

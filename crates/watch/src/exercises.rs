//! Regressions of exercises that are repeated: what a flow sustained against the median of the runs before.
//!
//! Does not know: how an exercise is run, or where its rates are kept.

use std::collections::BTreeMap;

use model::units::BitRate;
use model::v1::exercise::ExerciseOutcome;
use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind, Health};

use crate::judge::Finding;

/// Runs before the present one that it is compared with: with fewer there is no median worth the name.
const RUNS_MIN: usize = 3;
/// The most: older runs had other software, hosts and paths.
const RUNS_MAX: usize = 7;
/// A flow that sustains less than this part of the median is worth a warning; less than the second is critical.
const WARNING_PART: f64 = 0.9;
const CRITICAL_PART: f64 = 0.5;
/// The longest name of an exercise or of a flow, characters.
pub const NAME_CHARS_MAX: usize = 200;
/// The most flows of an outcome.
pub const FLOWS_MAX: usize = 1_000;

/// The name of the series of a flow: `exercise NAME: FLOW`.
pub fn series_name(exercise: &str, flow: &str) -> String {
    format!("{SERIES_PREFIX}{exercise}: {flow}")
}

/// What the names of the series of exercises begin with.
pub const SERIES_PREFIX: &str = "exercise ";

/// Checks an outcome that a controller sends.
///
/// # Errors
/// Why it is not plausible.
pub fn check(outcome: &ExerciseOutcome) -> Result<(), String> {
    let is_name =
        |text: &str| !text.is_empty() && text.chars().count() <= NAME_CHARS_MAX && !text.contains(char::is_control);
    if !is_name(&outcome.exercise) {
        return Err(format!("the exercise has no name of 1 to {NAME_CHARS_MAX} characters"));
    }
    if outcome.flows.is_empty() || outcome.flows.len() > FLOWS_MAX {
        return Err(format!("it has {} flows; it may have 1 to {FLOWS_MAX}", outcome.flows.len()));
    }
    for flow in &outcome.flows {
        if ![&flow.name, &flow.from, &flow.to].into_iter().all(|text| is_name(text)) {
            return Err(format!("the flow {:?} needs a name and two sites", flow.name));
        }
        let is_rate = |rate: f64| rate.is_finite() && (0.0..1e13).contains(&rate);
        if !is_rate(flow.sustained_bit_s) || !flow.goal_bit_s.is_none_or(is_rate) {
            return Err(format!("the flow {:?} has an impossible rate", flow.name));
        }
    }
    Ok(())
}

/// The regression of a flow: what it sustained, and the rates of the runs before, the oldest first. None if there is no regression, or if
/// there are too few runs.
fn regression(sustained_bit_s: f64, before: &[f64]) -> Option<(Health, f64)> {
    let mut compared = before[before.len().saturating_sub(RUNS_MAX)..].to_vec();
    if compared.len() < RUNS_MIN {
        return None;
    }
    compared.sort_by(f64::total_cmp);
    let median = compared[compared.len() / 2];
    if sustained_bit_s >= median * WARNING_PART {
        return None;
    }
    let severity = if sustained_bit_s < median * CRITICAL_PART { Health::Critical } else { Health::Warning };
    Some((severity, median))
}

/// The runs that were no regressions themselves: a bad rate must not become the measure by lasting.
fn good(rates: &[f64]) -> Vec<f64> {
    let mut good: Vec<f64> = Vec::new();
    for rate in rates {
        if regression(*rate, &good).is_none() {
            good.push(*rate);
        }
    }
    good
}

/// What the flows of an outcome show: a finding, or none, for each pair of sites. `before` has the rates of earlier runs of each flow.
pub fn findings(outcome: &ExerciseOutcome, before: &[Vec<f64>]) -> BTreeMap<(String, String), Option<Finding>> {
    let mut found: BTreeMap<(String, String), Option<Finding>> = BTreeMap::new();
    for (flow, before) in outcome.flows.iter().zip(before) {
        let of_pair = found.entry((flow.from.clone(), flow.to.clone())).or_default();
        let before = good(before);
        let Some((severity, median)) = regression(flow.sustained_bit_s, &before) else { continue };
        let rate = |bit_s: f64| BitRate(bit_s.round() as u64);
        let evidence = format!(
            "{} sustained {}, and {} was the median of the {} good runs before",
            flow.name,
            rate(flow.sustained_bit_s),
            rate(median),
            before.len().min(RUNS_MAX)
        );
        match of_pair {
            Some(known) => {
                known.evidence = format!("{}; {evidence}", known.evidence);
                known.severity = known.severity.worse(severity);
            }
            None => {
                *of_pair = Some(Finding {
                    kind: AlarmKind::Exercise,
                    direction: Some(Direction::Forward),
                    severity,
                    evidence,
                    cause: CauseKind::Unknown,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use model::v1::exercise::ExerciseFlowOutcome;

    use super::*;

    fn outcome(rates: &[f64]) -> ExerciseOutcome {
        let flow = |(at, rate): (usize, &f64)| ExerciseFlowOutcome {
            name: format!("flow {at}"),
            from: "a".into(),
            to: "b".into(),
            sustained_bit_s: *rate,
            goal_bit_s: None,
        };
        let flows = rates.iter().enumerate().map(flow).collect();
        ExerciseOutcome { exercise: "nightly".into(), began: String::new(), flows }
    }

    #[test]
    fn a_flow_is_compared_with_the_median_of_at_least_three_runs() {
        assert_eq!(regression(1.0, &[9.0, 9.0]), None);
        assert_eq!(regression(8.2, &[9.0, 1.0, 9.0]), None, "one bad run before is not the measure");
        assert_eq!(regression(8.0, &[9.0, 9.0, 10.0]), Some((Health::Warning, 9.0)));
        assert_eq!(regression(4.0, &[9.0, 9.0, 10.0]), Some((Health::Critical, 9.0)));
        let long_ago = [vec![90.0; 20], vec![9.0; 7]].concat();
        assert_eq!(regression(9.0, &long_ago), None, "only the last seven runs count");
    }

    #[test]
    fn a_bad_rate_does_not_become_the_measure_by_lasting() {
        let before = [vec![9e9; 7], vec![5e9; 20]].concat();
        assert_eq!(good(&before), vec![9e9; 7]);
        let found = findings(&outcome(&[5e9]), &[before]);
        assert!(found[&("a".to_owned(), "b".to_owned())].is_some());
    }

    #[test]
    fn flows_of_a_pair_make_one_finding_with_the_worst_severity() {
        let found = findings(&outcome(&[8e9, 2e9, 1e9]), &[vec![9e9; 3], vec![9e9; 3], vec![1e9; 3]]);
        let finding = found[&("a".to_owned(), "b".to_owned())].as_ref().unwrap();
        assert_eq!(finding.severity, Health::Critical);
        assert!(
            finding.evidence.starts_with(
                "flow 0 sustained 8.00 Gbit/s, and 9.00 Gbit/s was the median of the 3 good runs before; flow 1"
            ),
            "{finding:?}"
        );
        let found = findings(&outcome(&[9e9]), &[vec![9e9; 3]]);
        assert_eq!(found[&("a".to_owned(), "b".to_owned())], None);
    }

    #[test]
    fn impossible_outcomes_are_refused() {
        assert_eq!(check(&outcome(&[1.0])), Ok(()));
        for rate in [f64::NAN, -1.0, 1e14] {
            assert!(check(&outcome(&[rate])).unwrap_err().contains("impossible rate"));
        }
        assert!(check(&outcome(&[])).unwrap_err().contains("0 flows"));
        let mut unnamed = outcome(&[1.0]);
        unnamed.flows[0].to.clear();
        assert!(check(&unnamed).unwrap_err().contains("two sites"));
        unnamed.exercise = "x\n".into();
        assert!(check(&unnamed).unwrap_err().contains("no name"));
    }
}

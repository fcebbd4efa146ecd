//! The slots of a search: one setting of the parameters in each.

use super::{Runner, phase};
use crate::file::{ExerciseFlow, ExercisePhase, Search};
use crate::record::{FlowRecord, PhaseRecord, TrialRecord};
use crate::search::{SearchHints, Setting, SlotSearch, SlotTrial};

/// The part of a slot that is its ramp.
const RAMP_PART: f64 = 0.2;
/// Seconds between rates that count as independent: the time constant of a transfer's rate is about as long.
const INDEPENDENT_S: f64 = 2.0;

/// Runs the slots. Their flows are recorded as phases; the trials are returned.
pub(super) fn run(runner: &Runner<'_>, search: &Search, phases: &mut Vec<PhaseRecord>) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    let mut slots = match SlotSearch::new(&search.parameters, search.slots) {
        Ok(slots) => slots.with_hints(&hints(runner, search)),
        Err(error) => {
            runner.observe(&format!("no search: {error}"), Vec::new());
            return trials;
        }
    };
    while let Some(setting) = slots.next() {
        if runner.is_stopped() {
            break;
        }
        let phase = slot(search, &setting, trials.len() + 1);
        let record = phase::run(runner, &phase);
        let trial = trial(record.flows.first());
        trials.push(TrialRecord {
            setting: setting.values().map(|(name, value)| (name.word().to_owned(), value)).collect(),
            rate_bit_s: trial.rate_bit_s,
            error_bit_s: trial.error_bit_s,
            failed: trial.failed,
        });
        phases.push(record);
        if slots.record(setting, trial).is_err() {
            break;
        }
    }
    trials
}

/// What is known before: the capacity that the file states. The round trip of the path is not that of the controller's requests.
fn hints(runner: &Runner<'_>, search: &Search) -> SearchHints {
    let link = runner.inputs.exercise.links.iter().find(|link| link.joins(&search.flow.from, &search.flow.to));
    SearchHints { capacity_bit_s: link.and_then(|link| link.capacity_bit_s), ..SearchHints::default() }
}

/// The phase of one slot.
fn slot(search: &Search, setting: &Setting, number: usize) -> ExercisePhase {
    let flow = ExerciseFlow { class: search.class_with(setting), ..search.flow.clone() };
    ExercisePhase {
        name: format!("slot {number}"),
        lasts: Some(search.slot),
        flows: vec![flow],
        faults: Vec::new(),
        site_goals: Vec::new(),
    }
}

/// The rate of a slot after its ramp, and its standard error.
fn trial(flow: Option<&FlowRecord>) -> SlotTrial {
    let failed = SlotTrial { rate_bit_s: 0.0, error_bit_s: 0.0, failed: true };
    let Some(flow) = flow else { return failed };
    let ramp = (flow.rates_bit_s.len() as f64 * RAMP_PART) as usize;
    let rates: Vec<f64> = flow.rates_bit_s[ramp..].iter().copied().flatten().collect();
    if rates.is_empty() || flow.rounds.iter().all(|round| round.bytes == 0) {
        return failed;
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    let independent = (count / INDEPENDENT_S).max(1.0);
    SlotTrial { rate_bit_s: mean, error_bit_s: (variance / independent).sqrt(), failed: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RoundRecord;

    #[test]
    fn the_rate_of_a_slot_is_that_after_its_ramp() {
        let rates = [
            vec![Some(1.0); 2],
            vec![Some(4.0), Some(6.0), None, Some(5.0), Some(5.0), Some(5.0), Some(5.0), Some(5.0)],
        ]
        .concat();
        let rounds = vec![RoundRecord { bytes: 1, ..RoundRecord::default() }];
        let found = trial(Some(&FlowRecord { rates_bit_s: rates, rounds, ..FlowRecord::default() }));
        assert!((found.rate_bit_s - 5.0).abs() < 1e-9 && found.error_bit_s > 0.0 && !found.failed, "{found:?}");
    }

    #[test]
    fn a_slot_in_which_nothing_arrived_has_failed() {
        assert!(trial(None).failed);
        let rounds = vec![RoundRecord::default()];
        assert!(trial(Some(&FlowRecord { rates_bit_s: vec![Some(0.0); 9], rounds, ..FlowRecord::default() })).failed);
    }
}

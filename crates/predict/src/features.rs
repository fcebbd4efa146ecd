//! What regression and trees see of an hour that is to be forecast.

use std::f64::consts::TAU;

use crate::history::ScaledHistory;
use crate::{DAY, HORIZON, WEEK};

/// The number of features.
pub(crate) const COUNT: usize = 10;
/// The positions of those that are rates.
pub(crate) const RATES: std::ops::Range<usize> = 1..7;
/// The position of the mean of the last week.
pub(crate) const WEEK_MEAN: usize = 4;
/// The weight of the latest hours falls to 1/e after this many hours ahead.
const FADING_HOURS: f64 = 6.0;
/// Hours whose mean is the present state.
const PRESENT: usize = 6;

/// A past hour: its features as they were known before it, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Example {
    pub features: [f64; COUNT],
    pub value: f64,
}

/// The features of the hour `ahead` (from 0) after a history of two weeks or more.
pub(crate) fn features(history: ScaledHistory, ahead: usize) -> [f64; COUNT] {
    let values = history.values;
    let end = history.len();
    let at = end + ahead;
    let mean = |hours: usize| values[end - hours..].iter().sum::<f64>() / hours as f64;
    let week_before = values[at - WEEK];
    let present_before = values[end - PRESENT - WEEK..end - WEEK].iter().sum::<f64>() / PRESENT as f64;
    let deviation = mean(PRESENT) - present_before;
    let fading = (-(ahead as f64) / FADING_HOURS).exp();
    let angle = TAU * history.hour_of_day(at) as f64 / DAY as f64;
    [
        1.0,
        week_before,
        values[at - DAY],
        mean(DAY),
        mean(WEEK),
        deviation * fading,
        values[end - 1] * fading,
        angle.sin(),
        angle.cos(),
        f64::from(u8::from(history.is_weekend(at))),
    ]
}

/// Examples from a history: all hours of the forecasts that begin at each `step`-th hour.
pub(crate) fn examples(history: ScaledHistory, step: usize) -> Vec<Example> {
    let first = 2 * WEEK;
    let origins = (first..=history.len().saturating_sub(HORIZON)).step_by(step);
    origins
        .flat_map(|origin| {
            let seen = history.until(origin);
            (0..HORIZON)
                .map(move |ahead| Example { features: features(seen, ahead), value: history.values[origin + ahead] })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_known_before_the_hour() {
        let values: Vec<f64> = (0..3 * WEEK).map(|at| at as f64).collect();
        let history = ScaledHistory { first_hour: 0, values: &values };
        for ahead in 0..HORIZON {
            let features = features(history, ahead);
            assert_eq!(features[1], (2 * WEEK + ahead) as f64, "a week before");
            assert!(features[1..5].iter().all(|value| *value < values.len() as f64), "{features:?}");
        }
        let examples = examples(history, 24);
        assert!(examples.iter().all(|example| example.features[1] + WEEK as f64 == example.value));
    }
}

//! Linear quantile regression (Koenker and Bassett, 1978): for each quantile the linear function of the features with the least pinball loss,
//! found by a linear program.

use microlp::{ComparisonOp, OptimizationDirection, Problem};

use crate::band::QUANTILES;
use crate::features::{self, COUNT, Example};
use crate::forecaster::Forecaster;
use crate::history::ScaledHistory;
use crate::{Band, HORIZON, PredictError};

/// Examples begin at each hour that is a multiple of this: a day and an hour, so that each hour of the day is seen at each number of hours
/// ahead.
const STEP: usize = 25;
/// The most examples: the linear program has a row for each, and its time grows with their square.
const EXAMPLES_MAX: usize = 800;

#[derive(Debug)]
pub(super) struct QuantileRegression {
    /// For each quantile the weights of the features.
    weights: [[f64; COUNT]; QUANTILES.len()],
}

impl QuantileRegression {
    /// Fits the quantiles to a history.
    ///
    /// # Errors
    /// A linear program has no solution.
    pub fn fit(history: ScaledHistory) -> Result<QuantileRegression, PredictError> {
        let all = features::examples(history, STEP);
        let step = all.len().div_ceil(EXAMPLES_MAX).max(1);
        // A step that divides the hours of a forecast would leave some numbers of hours ahead out.
        let step = if step > 1 && HORIZON.is_multiple_of(step) { step + 1 } else { step };
        let examples: Vec<Example> = all.into_iter().step_by(step).collect();
        let mut weights = [[0.0; COUNT]; QUANTILES.len()];
        for (weights, quantile) in weights.iter_mut().zip(QUANTILES) {
            *weights = fit_quantile(&examples, quantile)?;
        }
        Ok(QuantileRegression { weights })
    }
}

impl Forecaster for QuantileRegression {
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<Band>, PredictError> {
        let band = |ahead: usize| {
            let features = features::features(history, ahead);
            let value =
                |weights: &[f64; COUNT]| weights.iter().zip(features).map(|(weight, value)| weight * value).sum();
            Band::sorted(self.weights.each_ref().map(value))
        };
        Ok((0..HORIZON).map(band).collect())
    }
}

/// The weights of one quantile. For each example, the part of its value above the function costs `quantile`, the part below `1 - quantile`.
fn fit_quantile(examples: &[Example], quantile: f64) -> Result<[f64; COUNT], PredictError> {
    let mut program = Problem::new(OptimizationDirection::Minimize);
    let weights: Vec<_> = (0..COUNT).map(|_| program.add_var(0.0, (f64::NEG_INFINITY, f64::INFINITY))).collect();
    for example in examples {
        let above = program.add_var(quantile, (0.0, f64::INFINITY));
        let below = program.add_var(1.0 - quantile, (0.0, f64::INFINITY));
        let function = weights.iter().zip(example.features).map(|(weight, feature)| (*weight, feature));
        let row: Vec<_> = function.chain([(above, 1.0), (below, -1.0)]).collect();
        program.add_constraint(row, ComparisonOp::Eq, example.value);
    }
    let solution = program
        .solve()
        .map_err(|error| PredictError::NotFitted { method: "quantile-regression", reason: error.to_string() })?;
    let mut found = [0.0; COUNT];
    for (found, weight) in found.iter_mut().zip(&weights) {
        *found = solution[*weight];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_has_its_share_of_values_below() {
        let mut random = fastrand::Rng::with_seed(1);
        let examples: Vec<Example> = (0..400)
            .map(|at| {
                let mut features = [0.0; COUNT];
                (features[0], features[1]) = (1.0, f64::from(at) / 400.0);
                Example { features, value: 1.0 + 2.0 * features[1] + random.f64() }
            })
            .collect();
        let weights = fit_quantile(&examples, 0.9).unwrap();
        let below = examples.iter().filter(|it| it.value < weights[0] + weights[1] * it.features[1] + 1e-9).count();
        assert!((355..=365).contains(&below), "{below}");
        assert!((weights[1] - 2.0).abs() < 0.2 && (weights[0] - 1.9).abs() < 0.1, "{weights:?}");
    }
}

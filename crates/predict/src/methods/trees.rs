//! Gradient-boosted regression trees (Chen and Guestrin, 2016) on the features.

use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

use crate::features::{self, COUNT, RATES, WEEK_MEAN};
use crate::forecaster::MedianForecast;
use crate::history::ScaledHistory;
use crate::{HORIZON, PredictError};

/// Examples begin at each hour that is a multiple of this.
const STEP: usize = 11;
const TREES: usize = 60;
const DEPTH: u16 = 4;
const LEARNING_RATE: f64 = 0.1;
/// The fewest examples of a leaf, as the sum of second derivatives, which are 1 each.
const LEAF_MIN: usize = 10;
/// The least level, as a part of the mean of the history: a week without traffic has none.
const LEVEL_MIN: f64 = 0.01;
/// The part of the examples that each tree sees.
const SAMPLE: f64 = 0.7;

pub(super) struct Trees {
    forest: XGRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>,
}

impl Trees {
    /// Fits the trees to a history.
    ///
    /// # Errors
    /// The library refuses the examples.
    pub fn fit(history: ScaledHistory, seed: u64) -> Result<Trees, PredictError> {
        let examples = features::examples(history, STEP);
        let rows = examples.iter().map(|example| relative(example.features)).collect();
        let values: Vec<f64> = examples.iter().map(|example| example.value / level(&example.features)).collect();
        let parameters = XGRegressorParameters::default()
            .with_n_estimators(TREES)
            .with_max_depth(DEPTH)
            .with_learning_rate(LEARNING_RATE)
            .with_min_child_weight(LEAF_MIN)
            .with_subsample(SAMPLE)
            .with_base_score(1.0)
            .with_seed(seed);
        let matrix = DenseMatrix::from_2d_vec(&rows).map_err(not_fitted)?;
        let forest = XGRegressor::fit(&matrix, &values, parameters).map_err(not_fitted)?;
        Ok(Trees { forest })
    }
}

impl MedianForecast for Trees {
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<f64>, PredictError> {
        let all: Vec<_> = (0..HORIZON).map(|ahead| features::features(history, ahead)).collect();
        let rows = all.iter().map(|features| relative(*features)).collect();
        let matrix = DenseMatrix::from_2d_vec(&rows).map_err(not_fitted)?;
        let values = self.forest.predict(&matrix).map_err(not_fitted)?;
        Ok(values.iter().zip(&all).map(|(value, features)| value * level(features)).collect())
    }
}

/// The mean of the last week. Trees know no values beyond those that they were fitted to, so that growing traffic would leave them behind: they
/// see and forecast ratios to this mean.
fn level(features: &[f64; COUNT]) -> f64 {
    features[WEEK_MEAN].max(LEVEL_MIN)
}

/// Features as ratios to the mean of the last week.
fn relative(mut features: [f64; COUNT]) -> Vec<f64> {
    let level = level(&features);
    for at in RATES {
        features[at] /= level;
    }
    features.to_vec()
}

fn not_fitted(error: smartcore::error::Failed) -> PredictError {
    PredictError::NotFitted { method: "trees", reason: error.to_string() }
}

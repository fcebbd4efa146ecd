//! Gradient-boosted regression trees (Chen and Guestrin, 2016) on the features.

use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

use super::MedianForecast;
use crate::features;
use crate::history::History;
use crate::{HORIZON, PredictError};

/// Examples begin at each hour that is a multiple of this.
const STEP: usize = 11;
const TREES: usize = 60;
const DEPTH: u16 = 4;
const LEARNING_RATE: f64 = 0.1;
/// The fewest examples of a leaf, as the sum of second derivatives, which are 1 each.
const LEAF_MIN: usize = 10;
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
    pub fn fit(history: History, seed: u64) -> Result<Trees, PredictError> {
        let examples = features::examples(history, STEP);
        let rows = examples.iter().map(|example| example.features.to_vec()).collect();
        let values: Vec<f64> = examples.iter().map(|example| example.value).collect();
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
    fn forecast(&self, history: History) -> Result<Vec<f64>, PredictError> {
        let rows = (0..HORIZON).map(|ahead| features::features(history, ahead).to_vec()).collect();
        let matrix = DenseMatrix::from_2d_vec(&rows).map_err(not_fitted)?;
        self.forest.predict(&matrix).map_err(not_fitted)
    }
}

fn not_fitted(error: smartcore::error::Failed) -> PredictError {
    PredictError::NotFitted { method: "trees", reason: error.to_string() }
}

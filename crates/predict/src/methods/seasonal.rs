//! The seasonal naive forecast: each hour will be as it was a week before. Every other method must be better than this one to be worth its
//! cost.

use crate::forecaster::MedianForecast;
use crate::history::ScaledHistory;
use crate::{HORIZON, PredictError, WEEK};

#[derive(Debug)]
pub(super) struct SeasonalNaive;

impl MedianForecast for SeasonalNaive {
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<f64>, PredictError> {
        let first = history.len() - WEEK;
        Ok(history.values[first..first + HORIZON].to_vec())
    }
}

//! Exponential smoothing: days and weeks are taken out by MSTL (Bandara and others, 2021), and what is left is continued by the best of the
//! ETS models (Hyndman and others, 2008). It is fitted again for each forecast, so that it knows the latest hours.

use augurs_core::{Fit, Predict};
use augurs_ets::AutoETS;
use augurs_mstl::MSTLModel;

use crate::forecaster::MedianForecast;
use crate::history::ScaledHistory;
use crate::{DAY, HORIZON, PredictError, WEEK};

/// The hours that it sees: more weeks make it slower, and the seasons drift.
const WINDOW: usize = 6 * WEEK;

#[derive(Debug)]
pub(super) struct Smoothing;

impl MedianForecast for Smoothing {
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<f64>, PredictError> {
        let window = &history.values[history.len().saturating_sub(WINDOW)..];
        let trend = AutoETS::non_seasonal().into_trend_model();
        let fitted = MSTLModel::new(vec![DAY, WEEK], trend).fit(window).map_err(|error| not_fitted(&error))?;
        let forecast = fitted.predict(HORIZON, None).map_err(|error| not_fitted(&error))?;
        Ok(forecast.point)
    }
}

fn not_fitted(error: &dyn std::error::Error) -> PredictError {
    PredictError::NotFitted { method: "smoothing", reason: error.to_string() }
}

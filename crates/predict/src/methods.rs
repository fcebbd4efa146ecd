//! The methods, under one interface.

mod network;
mod regression;
mod seasonal;
mod smoothing;
mod trees;

use std::fmt;

use self::network::RecurrentNetwork;
use self::regression::QuantileRegression;
use self::seasonal::SeasonalNaive;
use self::smoothing::Smoothing;
use self::trees::Trees;
use crate::calibration::{CALIBRATION, Calibrated};
use crate::forecaster::Forecaster;
use crate::history::{ScaledValues, scale};
use crate::{Band, HourlySeries, PredictError};
use model::traffic::ForecastMethod;

/// A method that was fitted to a history.
pub struct Model {
    mean: f64,
    forecaster: Box<dyn Forecaster>,
}

impl Model {
    /// Fits a method to a history. `seed` determines the first weights of the network and the samples of the trees.
    ///
    /// # Errors
    /// The history is too short or has no traffic, or the library of the method cannot fit it.
    pub fn fit(method: ForecastMethod, series: &HourlySeries, seed: u64) -> Result<Model, PredictError> {
        let mean = scale(series)?;
        let values = ScaledValues::new(series, mean);
        let history = values.history();
        // The weeks that calibrate the band are left out of the training.
        let training = history.until(history.len() - CALIBRATION);
        let forecaster: Box<dyn Forecaster> = match method {
            ForecastMethod::SeasonalNaive => Box::new(Calibrated::new(SeasonalNaive, history)?),
            ForecastMethod::Smoothing => Box::new(Calibrated::new(Smoothing, history)?),
            ForecastMethod::QuantileRegression => Box::new(QuantileRegression::fit(history)?),
            ForecastMethod::Trees => Box::new(Calibrated::new(Trees::fit(training, seed)?, history)?),
            ForecastMethod::Network => Box::new(Calibrated::new(RecurrentNetwork::fit(training, seed), history)?),
        };
        Ok(Model { mean, forecaster })
    }

    /// Forecasts the next [`crate::HORIZON`] hours after a series, which is the history of the fit or goes on from it.
    ///
    /// # Errors
    /// The series is too short, or the library of the method cannot forecast from it.
    pub fn forecast(&self, series: &HourlySeries) -> Result<Vec<Band>, PredictError> {
        scale(series)?;
        let values = ScaledValues::new(series, self.mean);
        let bands = self.forecaster.forecast(values.history())?;
        Ok(bands.into_iter().map(|band| band.scaled(self.mean)).collect())
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("mean", &self.mean).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

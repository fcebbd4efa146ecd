//! What a fitted method does.

use crate::history::ScaledHistory;
use crate::{Band, PredictError};

/// Forecasts medians from a history.
pub(crate) trait MedianForecast {
    /// The medians of the next [`crate::HORIZON`] hours after a history.
    ///
    /// # Errors
    /// The library of the method cannot forecast from this history.
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<f64>, PredictError>;
}

/// Forecasts bands from a history.
pub(crate) trait Forecaster {
    /// The bands of the next [`crate::HORIZON`] hours after a history.
    ///
    /// # Errors
    /// The library of the method cannot forecast from this history.
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<Band>, PredictError>;
}

//! Forecasts of traffic from its history, with a band; the scores of forecasts on days that they have not seen; and early signs of faults in
//! values that drift.
//!
//! Pure: no clock, no files, no threads. The same history and seed give the same forecast.
//!
//! Does not know: links, transfers, where a history comes from.

mod band;
mod calibration;
mod early;
mod features;
mod forecaster;
mod history;
mod methods;
mod score;
mod series;
pub mod synthetic;

pub use band::Band;
pub use early::{DriftLimit, EarlySign, early_sign};
pub use methods::Model;
pub use score::{DayScore, Estimate, Score, score};
pub use series::{HourlySeries, SeriesError};

/// Hours of a day.
pub const DAY: usize = 24;
/// Hours of a week.
pub const WEEK: usize = 168;
/// The hours that a forecast reaches.
pub const HORIZON: usize = 24;
/// The least history that a forecast needs: a method learns from some weeks, and its band is set by the two weeks after them.
pub const HISTORY_MIN: usize = 4 * WEEK;

/// Why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// Too few hours.
    #[error("{hours} hours of history are too few: a forecast needs {min}, four weeks", min = HISTORY_MIN)]
    TooShort {
        /// The hours that there are.
        hours: usize,
    },
    /// Nothing to learn from.
    #[error("the history has no traffic: all of its values are zero or missing")]
    NoTraffic,
    /// A library could not fit its model.
    #[error("{method} cannot be fitted to this history: {reason}")]
    NotFitted {
        /// The name of the method.
        method: &'static str,
        /// What its library said.
        reason: String,
    },
}

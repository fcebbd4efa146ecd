//! A history as methods see it: without gaps, divided by its mean, so that a method sees no units.

use crate::series::is_weekend;
use crate::{DAY, HISTORY_MIN, HourlySeries, PredictError};

/// Values by hour, without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaledHistory<'a> {
    /// Hours since 1970 of the first value.
    pub first_hour: i64,
    /// The values.
    pub values: &'a [f64],
}

/// The filled and scaled values of a series.
#[derive(Clone, Debug)]
pub(crate) struct ScaledValues {
    first_hour: i64,
    values: Vec<f64>,
}

impl ScaledValues {
    /// Divides a series by `mean`, and fills its gaps.
    pub fn new(series: &HourlySeries, mean: f64) -> ScaledValues {
        let values = series.filled().into_iter().map(|value| value / mean).collect();
        ScaledValues { first_hour: series.first_hour, values }
    }

    /// All values as a history.
    pub fn history(&self) -> ScaledHistory<'_> {
        ScaledHistory { first_hour: self.first_hour, values: &self.values }
    }
}

/// The mean that a history is divided by.
///
/// # Errors
/// The history is too short, or has no traffic.
pub(crate) fn scale(series: &HourlySeries) -> Result<f64, PredictError> {
    let hours = series.values.len();
    if hours < HISTORY_MIN {
        return Err(PredictError::TooShort { hours });
    }
    let mean = series.mean();
    if mean > 0.0 { Ok(mean) } else { Err(PredictError::NoTraffic) }
}

impl<'a> ScaledHistory<'a> {
    /// The number of hours.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The first `end` hours.
    pub fn until(&self, end: usize) -> ScaledHistory<'a> {
        ScaledHistory { values: &self.values[..end], ..*self }
    }

    /// The hour of the day of a position, also after the end.
    pub fn hour_of_day(&self, at: usize) -> usize {
        (self.first_hour + at as i64).rem_euclid(DAY as i64) as usize
    }

    /// Whether a position is on a Saturday or Sunday (UTC), also after the end.
    pub fn is_weekend(&self, at: usize) -> bool {
        is_weekend(self.first_hour + at as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_hours_are_those_of_utc() {
        // 2026-11-27 00:00 UTC is a Friday, 1,795,737,600 s after 1970.
        let history = ScaledHistory { first_hour: 1_795_737_600 / 3600, values: &[] };
        assert_eq!(history.hour_of_day(25), 1);
        assert!(!history.is_weekend(23));
        assert!(history.is_weekend(24) && history.is_weekend(71));
        assert!(!history.is_weekend(72));
    }
}

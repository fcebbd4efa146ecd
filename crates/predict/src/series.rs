//! A value for each hour. Hours without a measurement stay empty.
//!
//! Does not know: what the values mean.

use std::collections::BTreeMap;

use crate::{DAY, WEEK};

const HOUR_S: i64 = 3600;
/// The longest series, hours: ten years.
const HOURS_MAX: i64 = 10 * 366 * 24;

/// Values by hour.
#[derive(Clone, Debug, PartialEq)]
pub struct HourlySeries {
    /// The hour of the first value, in hours since 1970 (UTC).
    pub first_hour: i64,
    /// The values; none for an hour without a measurement.
    pub values: Vec<Option<f64>>,
}

/// Why samples make no series.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SeriesError {
    /// There are no samples.
    #[error("there are no values")]
    Empty,
    /// A value is not a number, or is negative.
    #[error("the value {value} at {at_s} s since 1970 is no rate: write a number from 0")]
    NoRate {
        /// Its time.
        at_s: i64,
        /// The value.
        value: f64,
    },
    /// The samples span too long a time.
    #[error("the values span {hours} hours, more than ten years: check the times (seconds since 1970, or RFC 3339)")]
    TooLong {
        /// From the first to the last.
        hours: i64,
    },
}

impl HourlySeries {
    /// The means of rates by hour. Each sample is a time in seconds since 1970 and a rate.
    ///
    /// # Errors
    /// There are no samples, one is no rate, or they span more than ten years.
    pub fn from_rates(samples: &[(i64, f64)]) -> Result<HourlySeries, SeriesError> {
        match samples.iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((at_s, value)) => Err(SeriesError::NoRate { at_s: *at_s, value: *value }),
            None => HourlySeries::from_values(samples),
        }
    }

    /// The means of values by hour, which may be negative, like optical power in dBm. Each sample is a time in seconds since 1970 and a value.
    ///
    /// # Errors
    /// There are no samples, or they span more than ten years.
    pub fn from_values(samples: &[(i64, f64)]) -> Result<HourlySeries, SeriesError> {
        let mut hours: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (at_s, value) in samples.iter().filter(|(_, value)| value.is_finite()) {
            let (sum, count) = hours.entry(at_s.div_euclid(HOUR_S)).or_default();
            *sum += value;
            *count += 1.0;
        }
        let (Some((first_hour, _)), Some((last_hour, _))) = (hours.first_key_value(), hours.last_key_value()) else {
            return Err(SeriesError::Empty);
        };
        let (first_hour, span) = (*first_hour, last_hour - first_hour + 1);
        if span > HOURS_MAX {
            return Err(SeriesError::TooLong { hours: span });
        }
        let values = (first_hour..first_hour + span).map(|hour| hours.get(&hour).map(|(sum, count)| sum / count));
        Ok(HourlySeries { first_hour, values: values.collect() })
    }

    /// The mean of the known values; 0 without any.
    pub fn mean(&self) -> f64 {
        let known: Vec<f64> = self.values.iter().flatten().copied().collect();
        known.iter().sum::<f64>() / (known.len().max(1)) as f64
    }

    /// The series up to an hour, by its position.
    pub fn until(&self, end: usize) -> HourlySeries {
        HourlySeries { first_hour: self.first_hour, values: self.values[..end].to_vec() }
    }

    /// All values, with gaps filled by the same hour of the week before, else of the day before, else by the mean.
    pub fn filled(&self) -> Vec<f64> {
        let mean = self.mean();
        let mut filled: Vec<f64> = Vec::with_capacity(self.values.len());
        for (at, value) in self.values.iter().enumerate() {
            let before = |hours: usize| at.checked_sub(hours).map(|at| filled[at]);
            filled.push(value.or_else(|| before(WEEK)).or_else(|| before(DAY)).unwrap_or(mean));
        }
        filled
    }
}

/// Whether an hour since 1970 is on a Saturday or Sunday (UTC). 1 January 1970 was a Thursday.
pub(crate) fn is_weekend(hour: i64) -> bool {
    matches!((hour.div_euclid(DAY as i64) + 4).rem_euclid(7), 0 | 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_an_hour_are_averaged_and_gaps_stay_gaps() {
        let series = HourlySeries::from_rates(&[(7200, 1.0), (7260, 3.0), (14_400, 8.0)]).unwrap();
        assert_eq!(series, HourlySeries { first_hour: 2, values: vec![Some(2.0), None, Some(8.0)] });
        assert_eq!(series.mean(), 5.0);
        assert_eq!(series.filled(), [2.0, 5.0, 8.0]);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        assert_eq!(HourlySeries::from_rates(&[]), Err(SeriesError::Empty));
        let error = HourlySeries::from_rates(&[(0, f64::NAN)]).unwrap_err();
        assert_eq!(error.to_string(), "the value NaN at 0 s since 1970 is no rate: write a number from 0");
        let error = HourlySeries::from_rates(&[(0, 1.0), (i64::MAX / 2, 1.0)]).unwrap_err();
        assert!(error.to_string().contains("more than ten years"), "{error}");
    }
}

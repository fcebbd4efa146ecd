//! How good forecasts are on days that a method has not seen.

use model::traffic::ForecastMethod;

use crate::band::QUANTILES;
use crate::{Band, DAY, HORIZON, HourlySeries, Model, PredictError};

/// Hours with less traffic than this part of the mean are left out of the mean absolute percentage error, which divides by them.
const MAPE_MIN: f64 = 0.1;

/// A mean over days, with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

/// The score of one day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayScore {
    /// The mean absolute error of the medians, percent of the mean of all held-out days.
    pub error_percent: f64,
    /// The mean absolute percentage error (MAPE) of the hours that have at least a tenth of the mean.
    pub mape_percent: f64,
    /// The mean pinball loss of the three quantiles, percent of the mean of all held-out days.
    pub pinball_percent: f64,
    /// The share of hours inside the band; 80 % is right.
    pub covered_percent: f64,
}

/// The score of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The method.
    pub method: ForecastMethod,
    /// In the order of the days.
    pub days: Vec<DayScore>,
}

/// Fits a method to a series without its last days, and forecasts each of these days from all that was known before it.
///
/// # Errors
/// What is left of the series is too short or has no traffic, or the method cannot be fitted.
pub fn score(
    method: ForecastMethod,
    series: &HourlySeries,
    held_out_days: usize,
    seed: u64,
) -> Result<Score, PredictError> {
    let hours = series.values.len();
    let first = hours.saturating_sub(held_out_days * DAY);
    let model = Model::fit(method, &series.until(first), seed)?;
    let held_out = HourlySeries { first_hour: 0, values: series.values[first..].to_vec() };
    let mean = held_out.mean();
    let mut days = Vec::new();
    for origin in (first..=hours.saturating_sub(HORIZON)).step_by(HORIZON) {
        let bands = model.forecast(&series.until(origin))?;
        days.extend(day_score(&bands, &series.values[origin..origin + HORIZON], mean));
    }
    Ok(Score { method, days })
}

/// The score of a day; none without a measurement.
fn day_score(bands: &[Band], values: &[Option<f64>], mean: f64) -> Option<DayScore> {
    let known: Vec<(Band, f64)> =
        bands.iter().zip(values).filter_map(|(band, value)| value.map(|value| (*band, value))).collect();
    if known.is_empty() || mean <= 0.0 {
        return None;
    }
    let average =
        |of_hour: &dyn Fn(&(Band, f64)) -> f64| known.iter().map(of_hour).sum::<f64>() / known.len() as f64 * 100.0;
    let large: Vec<f64> = known
        .iter()
        .filter(|(_, value)| *value >= MAPE_MIN * mean)
        .map(|(band, value)| (value - band.median).abs() / value * 100.0)
        .collect();
    Some(DayScore {
        error_percent: average(&|(band, value)| (value - band.median).abs() / mean),
        mape_percent: large.iter().sum::<f64>() / large.len().max(1) as f64,
        pinball_percent: average(&|(band, value)| pinball(band, *value) / mean),
        covered_percent: average(&|(band, value)| f64::from(u8::from((band.low..=band.high).contains(value)))),
    })
}

/// The mean pinball loss of the quantiles of a band.
fn pinball(band: &Band, value: f64) -> f64 {
    let of_quantile = |(quantile, part): (f64, f64)| {
        let above = value - quantile;
        (part * above).max((part - 1.0) * above)
    };
    [band.low, band.median, band.high].into_iter().zip(QUANTILES).map(of_quantile).sum::<f64>() / 3.0
}

impl Score {
    /// The mean of a number over the days.
    pub fn estimate(&self, of_day: impl Fn(&DayScore) -> f64) -> Estimate {
        Estimate::of(self.days.iter().map(of_day))
    }

    /// How much larger the error is than that of another score of the same days, percent of the mean of these days; negative if it is smaller.
    pub fn error_over(&self, other: &Score) -> Estimate {
        Estimate::of(self.days.iter().zip(&other.days).map(|(own, other)| own.error_percent - other.error_percent))
    }
}

impl Estimate {
    /// The mean of some values, with its standard error.
    pub fn of(values: impl Iterator<Item = f64>) -> Estimate {
        let values: Vec<f64> = values.collect();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Estimate { mean, error: (variance / count).sqrt() }
    }

    /// Whether the mean is above zero by more than two standard errors.
    pub fn is_above_zero(self) -> bool {
        self.mean > 2.0 * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_forecast_has_no_error_and_a_wrong_one_has_its_own() {
        let band = Band { low: 1.0, median: 2.0, high: 3.0 };
        let score = day_score(&[band, band], &[Some(2.0), Some(4.0)], 2.0).unwrap();
        assert_eq!((score.error_percent, score.mape_percent, score.covered_percent), (50.0, 25.0, 50.0));
        // At 2: (0.1 × 1 + 0 + 0.1 × 1) / 3; at 4: (0.1 × 3 + 0.5 × 2 + 0.9 × 1) / 3.
        assert!((score.pinball_percent - (0.2 / 3.0 + 2.2 / 3.0) / 4.0 * 100.0).abs() < 1e-9, "{score:?}");
        assert_eq!(day_score(&[band], &[None], 2.0), None);
    }

    #[test]
    fn an_estimate_has_the_error_of_its_mean() {
        let estimate = Estimate::of([1.0, 3.0].into_iter());
        assert_eq!((estimate.mean, estimate.error), (2.0, 1.0));
        assert!(!estimate.is_above_zero());
    }
}

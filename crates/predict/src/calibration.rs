//! Bands of methods that forecast medians: from their own errors on weeks that they were not fitted to. Split conformal prediction (Lei and others,
//! Distribution-free predictive inference for regression, 2018).

use crate::band::{Band, QUANTILES, quantile};
use crate::forecaster::{Forecaster, MedianForecast};
use crate::history::ScaledHistory;
use crate::{HORIZON, PredictError, WEEK};

/// The hours at the end of a history whose errors set the band.
pub(crate) const CALIBRATION: usize = 2 * WEEK;
/// Hours between two forecasts of the calibration: a day and five hours, so that they begin at different hours of the day.
const CALIBRATION_STEP: usize = 29;
/// Errors are collected for blocks of so many hours of a forecast: later hours have larger errors.
const BLOCK: usize = 6;
/// What is added to values before their ratio is taken, so that hours without traffic count: a tenth of the mean.
const OFFSET: f64 = 0.1;

/// A method of medians, with a band by its errors.
#[derive(Debug)]
pub(crate) struct Calibrated<M> {
    method: M,
    /// For each block of hours: the quantiles of `ln(value / median)`, low and high.
    ratios: [(f64, f64); HORIZON / BLOCK],
}

impl<M: MedianForecast> Calibrated<M> {
    /// Measures the errors of a method on the end of a history, which it was not fitted to.
    ///
    /// # Errors
    /// The method cannot forecast from some hour of the history.
    pub fn new(method: M, history: ScaledHistory) -> Result<Calibrated<M>, PredictError> {
        let mut errors: [Vec<f64>; HORIZON / BLOCK] = Default::default();
        for origin in (history.len() - CALIBRATION..=history.len() - HORIZON).step_by(CALIBRATION_STEP) {
            let medians = method.forecast(history.until(origin))?;
            for (ahead, median) in medians.into_iter().enumerate() {
                let value = history.values[origin + ahead];
                errors[ahead / BLOCK].push(((value + OFFSET) / (median.max(0.0) + OFFSET)).ln());
            }
        }
        let ratios = errors.map(|mut errors| {
            errors.sort_by(f64::total_cmp);
            (quantile(&errors, QUANTILES[0]), quantile(&errors, QUANTILES[2]))
        });
        Ok(Calibrated { method, ratios })
    }
}

impl<M: MedianForecast> Forecaster for Calibrated<M> {
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<Band>, PredictError> {
        let medians = self.method.forecast(history)?;
        let band = |(ahead, median): (usize, f64)| {
            let (low, high) = self.ratios[ahead / BLOCK];
            let median = median.max(0.0);
            let at = |ratio: f64| (median + OFFSET) * ratio.exp() - OFFSET;
            Band::sorted([at(low.min(0.0)), median, at(high.max(0.0))])
        };
        Ok(medians.into_iter().enumerate().map(band).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same;

    impl MedianForecast for Same {
        fn forecast(&self, _: ScaledHistory) -> Result<Vec<f64>, PredictError> {
            Ok(vec![1.0; HORIZON])
        }
    }

    #[test]
    fn the_band_holds_eight_of_ten_errors() {
        let values: Vec<f64> = (0..4 * WEEK).map(|at| 0.5 + (at % 11) as f64 / 10.0).collect();
        let history = ScaledHistory { first_hour: 0, values: &values };
        let bands = Calibrated::new(Same, history).unwrap().forecast(history).unwrap();
        let inside = values.iter().filter(|value| (bands[0].low..=bands[0].high).contains(*value)).count();
        let share = inside as f64 / values.len() as f64;
        assert!((0.7..0.95).contains(&share), "{share}: {:?}", bands[0]);
    }
}

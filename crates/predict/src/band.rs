//! The band of a forecast. Methods without quantiles get it from their own errors on weeks that they were not fitted to: split conformal
//! prediction (Lei and others, Distribution-free predictive inference for regression, 2018).

use crate::history::History;
use crate::methods::{Forecaster, MedianForecast};
use crate::{HORIZON, PredictError, WEEK};

/// The forecast of one hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// In one of ten hours the value is below this.
    pub low: f64,
    /// In five of ten hours the value is below this.
    pub median: f64,
    /// In nine of ten hours the value is below this.
    pub high: f64,
}

/// The quantiles of a band.
pub(crate) const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];
/// The hours at the end of a history whose errors set the band.
pub(crate) const CALIBRATION: usize = 2 * WEEK;
/// Hours between two forecasts of the calibration: a day and five hours, so that they begin at different hours of the day.
const CALIBRATION_STEP: usize = 29;
/// Errors are collected for blocks of so many hours of a forecast: later hours have larger errors.
const BLOCK: usize = 6;
/// What is added to values before their ratio is taken, so that hours without traffic count: a tenth of the mean.
const OFFSET: f64 = 0.1;

impl Band {
    /// Three quantiles in their order, none negative: regressions for several quantiles may cross.
    pub fn sorted(mut quantiles: [f64; 3]) -> Band {
        quantiles.sort_by(f64::total_cmp);
        let [low, median, high] = quantiles.map(|value| value.max(0.0));
        Band { low, median, high }
    }

    /// The band times a factor.
    pub fn scaled(self, factor: f64) -> Band {
        Band { low: self.low * factor, median: self.median * factor, high: self.high * factor }
    }
}

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
    pub fn new(method: M, history: History) -> Result<Calibrated<M>, PredictError> {
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
    fn forecast(&self, history: History) -> Result<Vec<Band>, PredictError> {
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

/// A quantile of sorted values, linear between two of them.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let position = part * (sorted.len().max(1) - 1) as f64;
    let below = position.floor() as usize;
    let (Some(low), Some(high)) = (sorted.get(below), sorted.get(below + 1).or(sorted.last())) else { return 0.0 };
    low + (high - low) * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same;

    impl MedianForecast for Same {
        fn forecast(&self, _: History) -> Result<Vec<f64>, PredictError> {
            Ok(vec![1.0; HORIZON])
        }
    }

    #[test]
    fn the_band_holds_eight_of_ten_errors() {
        let values: Vec<f64> = (0..4 * WEEK).map(|at| 0.5 + (at % 11) as f64 / 10.0).collect();
        let history = History { first_hour: 0, values: &values };
        let bands = Calibrated::new(Same, history).unwrap().forecast(history).unwrap();
        let inside = values.iter().filter(|value| (bands[0].low..=bands[0].high).contains(*value)).count();
        let share = inside as f64 / values.len() as f64;
        assert!((0.7..0.95).contains(&share), "{share}: {:?}", bands[0]);
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}

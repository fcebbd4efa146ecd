//! All methods on synthetic traffic.

use model::traffic::{ForecastMethod, TrafficShape};

use crate::synthetic::SyntheticTraffic;
use crate::{HORIZON, HourlySeries, Model, PredictError, WEEK, score};

const FIRST_HOUR: i64 = 495_000;

fn traffic(shape: TrafficShape, weeks: usize) -> HourlySeries {
    SyntheticTraffic { mean: 4e10, later_hours: 0, seed: 3, ..SyntheticTraffic::new(shape) }
        .series(FIRST_HOUR, weeks * WEEK)
}

#[test]
fn each_method_follows_the_hours_of_a_day_with_a_band_that_holds() {
    let series = traffic(TrafficShape::Daily, 8);
    for method in ForecastMethod::ALL {
        let score = score(method, &series, 7, 1).unwrap();
        assert_eq!(score.days.len(), 7);
        let error = score.estimate(|day| day.error_percent).mean;
        let covered = score.estimate(|day| day.covered_percent).mean;
        assert!(error < 20.0, "{}: {error:.1} %", method.name());
        assert!((55.0..=98.0).contains(&covered), "{}: {covered:.0} % in the band", method.name());
    }
}

#[test]
fn learning_is_better_than_the_week_before_where_noise_is_all_that_differs() {
    let series = traffic(TrafficShape::Daily, 12);
    let naive = score(ForecastMethod::SeasonalNaive, &series, 42, 1).unwrap();
    for method in [ForecastMethod::QuantileRegression, ForecastMethod::Trees] {
        let over = score(method, &series, 42, 1).unwrap().error_over(&naive);
        assert!(over.mean + 2.0 * over.error < 0.0, "{}: {over:?}", method.name());
    }
}

#[test]
fn the_same_seed_gives_the_same_forecast() {
    let series = traffic(TrafficShape::Bursts, 6);
    for method in ForecastMethod::ALL {
        let forecast = |seed: u64| Model::fit(method, &series, seed).unwrap().forecast(&series).unwrap();
        let first = forecast(5);
        assert_eq!(first, forecast(5), "{}", method.name());
        assert_eq!(first.len(), HORIZON);
        assert!(first.iter().all(|band| 0.0 <= band.low && band.low <= band.median && band.median <= band.high));
    }
}

#[test]
fn a_history_that_teaches_nothing_is_refused() {
    let error = Model::fit(ForecastMethod::Trees, &traffic(TrafficShape::Daily, 3), 1).unwrap_err();
    assert_eq!(error.to_string(), "504 hours of history are too few: a forecast needs 672, four weeks");
    let silent = HourlySeries { first_hour: 0, values: vec![Some(0.0); 8 * WEEK] };
    assert!(matches!(Model::fit(ForecastMethod::Smoothing, &silent, 1), Err(PredictError::NoTraffic)));
}

#[test]
fn constant_traffic_is_forecast_by_all_methods() {
    let series = HourlySeries { first_hour: 0, values: vec![Some(5.0); 6 * WEEK] };
    for method in ForecastMethod::ALL {
        let bands = Model::fit(method, &series, 1).unwrap().forecast(&series).unwrap();
        assert!(bands.iter().all(|band| (band.median - 5.0).abs() < 0.5), "{}: {bands:?}", method.name());
    }
}

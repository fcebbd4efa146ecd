//! Synthetic traffic in the shapes that research networks publish: days and weeks, growth, noise that lasts, campaigns, changes of habit,
//! gaps. The same seed gives the same traffic.
//!
//! Does not know: any real network.

use std::f64::consts::TAU;

use model::traffic::TrafficShape;

use crate::series::is_weekend;
use crate::{DAY, HourlySeries, WEEK};

/// How much of an hour's noise the next hour keeps.
const NOISE_KEPT: f64 = 0.8;
/// The standard deviation of the logarithm of the noise.
const NOISE: f64 = 0.15;
/// The growth in a week, a fraction: 60 % a year.
const GROWTH: f64 = 0.009;
/// The share of hours without a measurement.
const GAPS: f64 = 0.01;

/// Synthetic traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticTraffic {
    /// Its shape.
    pub shape: TrafficShape,
    /// Its mean in the first week, roughly.
    pub mean: f64,
    /// By how many hours its day is later than UTC.
    pub later_hours: i64,
    /// The hour of the series at which the habits of [`TrafficShape::Shifted`] change.
    pub habits_change_at: usize,
    /// The seed.
    pub seed: u64,
}

impl SyntheticTraffic {
    /// Traffic with a mean of 1 whose habits never change.
    pub fn new(shape: TrafficShape) -> SyntheticTraffic {
        SyntheticTraffic { shape, mean: 1.0, later_hours: 0, habits_change_at: usize::MAX, seed: 0 }
    }

    /// The traffic of `hours` hours from `first_hour` on, which counts hours since 1970.
    pub fn series(&self, first_hour: i64, hours: usize) -> HourlySeries {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut noise = 0.0;
        let mut burst = Burst::default();
        let values = (0..hours).map(|at| {
            noise = NOISE_KEPT * noise + NOISE * (1.0 - NOISE_KEPT * NOISE_KEPT).sqrt() * normal(&mut random);
            let is_shifted = self.shape == TrafficShape::Shifted && at >= self.habits_change_at;
            let later_hours = self.later_hours + if is_shifted { 8 } else { 0 };
            let hour = first_hour + at as i64 - later_hours;
            let level = match self.shape {
                TrafficShape::Daily => daily(hour),
                TrafficShape::Shifted if is_shifted => 1.5 * daily(hour),
                TrafficShape::Shifted => daily(hour),
                TrafficShape::Nightly => nightly(hour),
                TrafficShape::Bursts => 0.5 + burst.next(&mut random),
            };
            let growth = (1.0 + GROWTH).powf(at as f64 / WEEK as f64);
            let value = self.mean * level * growth * f64::exp(noise);
            (random.f64() >= GAPS).then_some(value)
        });
        HourlySeries { first_hour, values: values.collect() }
    }
}

/// A campaign, while it lasts.
#[derive(Default)]
struct Burst {
    hours_left: u32,
    level: f64,
}

impl Burst {
    /// The level of the next hour. A campaign begins each 50 hours on average.
    fn next(&mut self, random: &mut fastrand::Rng) -> f64 {
        if self.hours_left == 0 {
            if random.f64() >= 1.0 / 50.0 {
                return 0.0;
            }
            self.hours_left = random.u32(4..=48);
            self.level = 0.5 + 1.5 * random.f64();
        }
        self.hours_left -= 1;
        self.level
    }
}

fn daily(hour: i64) -> f64 {
    // The peak is at 15:00.
    let day = 1.0 + 0.5 * (TAU * (hour - 9).rem_euclid(DAY as i64) as f64 / DAY as f64).sin();
    if is_weekend(hour) { 0.65 * day } else { 1.1 * day }
}

fn nightly(hour: i64) -> f64 {
    match hour.rem_euclid(DAY as i64) {
        0..6 if is_weekend(hour) => 4.5,
        0..6 => 2.5,
        _ => 0.4,
    }
}

/// A draw of the standard normal distribution (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_has_its_mean_and_repeats_by_its_seed() {
        for shape in TrafficShape::ALL {
            let traffic =
                |seed: u64| SyntheticTraffic { mean: 10.0, seed, ..SyntheticTraffic::new(shape) }.series(0, 8 * WEEK);
            assert_eq!(traffic(1), traffic(1), "{shape:?}");
            assert_ne!(traffic(1), traffic(2), "{shape:?}");
            assert!((7.0..16.0).contains(&traffic(1).mean()), "{shape:?}: {}", traffic(1).mean());
            assert!(traffic(1).values.contains(&None), "{shape:?} has gaps");
        }
    }
}

//! SyntheticTraffic of others in the simulator: each hour takes a part of the links of a path. Its history reaches eight weeks back, for forecasts.
//!
//! Does not know: transfers.

use std::collections::BTreeMap;

use predict::synthetic::SyntheticTraffic;
use predict::{HourlySeries, WEEK};
use scenario::{Background, Scenario};

use super::outages::{Disturbance, Effect};
use super::resources::{Resources, SharedResource};
use crate::network::Network;

/// The hours before the simulation that forecasts learn from.
const HISTORY: usize = 8 * WEEK;
/// The hour at which all histories begin, in hours since 1970: a Monday, 0:00 UTC.
const FIRST_HOUR: i64 = 4 * 24 + 2_900 * WEEK as i64;
/// SyntheticTraffic of others never takes a link as a whole: congestion control leaves something to each flow.
const LEFT_MIN: f64 = 0.01;

/// The traffic of others on a path.
#[derive(Clone, Debug)]
pub(super) struct PathTraffic {
    /// The links of the path.
    pub links: Vec<usize>,
    /// What a measurement would know of it, bit/s by hour, history included; hours without a measurement are gaps.
    measured: HourlySeries,
    /// The actual rates, bit/s by hour, without gaps.
    rates_bit_s: Vec<f64>,
}

/// The traffic of others on all paths, by the numbers of the paths.
pub(super) fn all(scenario: &Scenario, network: &Network) -> BTreeMap<usize, PathTraffic> {
    let hours = HISTORY + scenario.simulation.duration.as_secs().div_ceil(3600) as usize + 1;
    let mut paths: BTreeMap<usize, PathTraffic> = BTreeMap::new();
    for (number, background) in scenario.background.iter().enumerate() {
        let seed = scenario.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let series = series(background, hours, seed);
        let rates = series.filled();
        match paths.get_mut(&background.path) {
            None => {
                let links = network.links_of_path(background.path).collect();
                paths.insert(background.path, PathTraffic { links, measured: series, rates_bit_s: rates });
            }
            Some(traffic) => traffic.add(&series, &rates),
        }
    }
    paths
}

fn series(background: &Background, hours: usize, seed: u64) -> HourlySeries {
    let traffic = SyntheticTraffic {
        mean: background.mean.0 as f64,
        later_hours: (background.later.as_secs() / 3600) as i64,
        habits_change_at: HISTORY,
        seed,
        ..SyntheticTraffic::new(background.shape)
    };
    traffic.series(FIRST_HOUR, hours)
}

impl PathTraffic {
    fn add(&mut self, series: &HourlySeries, rates: &[f64]) {
        for (sum, value) in self.measured.values.iter_mut().zip(&series.values) {
            *sum = sum.zip(*value).map(|(sum, value)| sum + value);
        }
        for (sum, rate) in self.rates_bit_s.iter_mut().zip(rates) {
            *sum += rate;
        }
    }

    /// What was measured until a simulated time: whole hours before it.
    pub fn measured_until(&self, now_s: f64) -> HourlySeries {
        self.measured.until(HISTORY + (now_s / 3600.0) as usize)
    }

    /// The part of a capacity that each hour of the simulation leaves, by the number of the hour.
    fn left_parts(&self, capacity_bit_s: f64) -> impl Iterator<Item = (usize, f64)> {
        let left = move |rate: &f64| left_part(*rate, capacity_bit_s);
        self.rates_bit_s[HISTORY..].iter().map(left).enumerate()
    }
}

/// The part of a capacity that traffic of others leaves.
pub(super) fn left_part(rate_bit_s: f64, capacity_bit_s: f64) -> f64 {
    (1.0 - rate_bit_s / capacity_bit_s).max(LEFT_MIN)
}

/// The hourly changes of the capacities of links.
pub(super) fn disturbances(
    paths: &BTreeMap<usize, PathTraffic>,
    network: &Network,
    resources: &Resources,
) -> Vec<Disturbance> {
    let mut all = Vec::new();
    for traffic in paths.values() {
        for link in &traffic.links {
            let Some(resource) = resources.number(SharedResource::Link(*link)) else { continue };
            let parts = traffic.left_parts(network.links[*link].capacity_bit_s);
            all.extend(parts.map(|(hour, fraction)| Disturbance {
                at_s: hour as f64 * 3600.0,
                effect: Effect::Background { resource, fraction },
            }));
        }
    }
    all
}

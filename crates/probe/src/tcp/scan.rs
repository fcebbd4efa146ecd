//! Scans: one test repeated with one value changed, and the conclusion from the results. The caller runs the tests; this
//! module is pure.

use model::laws;
use model::v1::probe::tcp::{Order, Report, Scan, ScanPoint, ScanReport};

use super::order::STREAMS_MAX;
use crate::error::{Error, Result};

/// A point at this share of the best rate is as good as the best.
const AS_GOOD: f64 = 0.97;
/// A processor with less than this share of the median rate is a bad one.
const BAD: f64 = 0.9;
/// The smallest buffer of a scan, and the largest.
const WINDOW_MIN: u64 = 64 << 10;
const WINDOW_MAX: u64 = 1 << 30;
/// Most points of a scan.
const POINTS_MAX: usize = 256;

/// The default values of a scan.
pub fn values(scan: Scan, processors: (u32, u32)) -> Vec<u64> {
    let doubling =
        |from: u64, to: u64| std::iter::successors(Some(from), move |value| Some(value * 2).filter(|v| *v <= to));
    match scan {
        Scan::Streams => doubling(1, 32).collect(),
        // From a window that is too small for any long path to one that suffices for 10 Gbit/s over 100 ms.
        Scan::Window => doubling(WINDOW_MIN << 2, WINDOW_MAX >> 3).collect(),
        Scan::NearCores => (0..processors.0.into()).collect(),
        Scan::FarCores => (0..processors.1.into()).collect(),
    }
}

/// The orders of a scan.
///
/// # Errors
/// [`Error::Order`]: no values, more than 256, or a value that [`check`](super::check) refuses.
pub fn orders(scan: Scan, values: &[u64], order: &Order) -> Result<Vec<(u64, Order)>> {
    if values.is_empty() || values.len() > POINTS_MAX {
        return Err(Error::Order(format!("a scan over {} values: 1 to {POINTS_MAX}", values.len())));
    }
    let one = |value: &u64| {
        let small = || u32::try_from(*value).map_err(|_| Error::Order(format!("{value} is too large for a scan")));
        let order = match scan {
            Scan::Streams if *value > u64::from(STREAMS_MAX) => {
                return Err(Error::Order(format!("{value} streams: {STREAMS_MAX} at most")));
            }
            Scan::Streams => Order { streams: small()?, ..order.clone() },
            Scan::Window => Order { window_bytes: *value, ..order.clone() },
            Scan::NearCores => Order { near_cores: vec![small()?], ..order.clone() },
            Scan::FarCores => Order { far_cores: vec![small()?], ..order.clone() },
        };
        super::check(&order)?;
        Ok((*value, order))
    };
    values.iter().map(one).collect()
}

/// The point of a test's report.
pub fn point(value: u64, report: &Report) -> ScanPoint {
    let directions = &report.directions;
    let rtt = report.near.totals.iter().chain(&report.far.totals).filter_map(|total| total.flow.kernel);
    let rtt = rtt.map(|kernel| kernel.min_rtt_s).filter(|rtt| *rtt > 0.0).fold(f64::INFINITY, f64::min);
    ScanPoint {
        value,
        rate_bit_s: directions.iter().map(|direction| direction.rate_bit_s).sum(),
        resent: directions.iter().map(|direction| direction.resent).fold(0.0, f64::max),
        cpu_s_per_gb: directions
            .iter()
            .map(|direction| direction.cpu_s_per_gb.0 + direction.cpu_s_per_gb.1)
            .sum::<f64>()
            / directions.len().max(1) as f64,
        min_rtt_s: if rtt.is_finite() { rtt } else { 0.0 },
        limit: directions.first().map(|direction| direction.limit.clone()).unwrap_or_default(),
        failed: String::new(),
    }
}

/// A point whose test failed.
pub fn failed(value: u64, error: &Error) -> ScanPoint {
    ScanPoint { value, failed: error.to_string(), ..ScanPoint::default() }
}

/// The conclusion from the points of a scan.
pub fn judge(scan: Scan, points: Vec<ScanPoint>) -> ScanReport {
    let succeeded: Vec<&ScanPoint> = points.iter().filter(|point| point.failed.is_empty()).collect();
    let best = succeeded.iter().map(|point| point.rate_bit_s).max().unwrap_or(0);
    let good = |point: &&&ScanPoint| point.rate_bit_s as f64 >= best as f64 * AS_GOOD;
    let knee = succeeded.iter().filter(good).map(|point| point.value).min();
    let rtt = succeeded.iter().map(|point| point.min_rtt_s).filter(|rtt| *rtt > 0.0).fold(f64::INFINITY, f64::min);
    let bdp_bytes = if rtt.is_finite() { laws::bdp_bytes(best as f64, rtt) as u64 } else { 0 };
    let bad = if matches!(scan, Scan::NearCores | Scan::FarCores) { bad(&succeeded) } else { Vec::new() };
    ScanReport { scan, knee, best_bit_s: best, bdp_bytes, bad, points }
}

/// Values whose rate is much lower than the median.
fn bad(points: &[&ScanPoint]) -> Vec<u64> {
    let mut rates: Vec<u64> = points.iter().map(|point| point.rate_bit_s).collect();
    rates.sort_unstable();
    let Some(median) = rates.get(rates.len() / 2) else { return Vec::new() };
    let is_bad = |point: &&&ScanPoint| (point.rate_bit_s as f64) < *median as f64 * BAD;
    points.iter().filter(is_bad).map(|point| point.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(scan: Scan, rates: &[(u64, u64)]) -> ScanReport {
        let point = |(value, rate_bit_s): &(u64, u64)| ScanPoint {
            value: *value,
            rate_bit_s: *rate_bit_s,
            min_rtt_s: 0.1,
            ..ScanPoint::default()
        };
        judge(scan, rates.iter().map(point).collect())
    }

    #[test]
    fn the_knee_is_the_least_value_with_about_the_best_rate() {
        let streams = report(Scan::Streams, &[(1, 300), (2, 600), (4, 990), (8, 1_000), (16, 980)]);
        assert_eq!((streams.knee, streams.best_bit_s), (Some(4), 1_000));
        // The plateau of buffers is at the bandwidth-delay product.
        let mib = 1 << 20;
        let window = report(
            Scan::Window,
            &[(mib, 84_000_000), (4 * mib, 335_000_000), (16 * mib, 950_000_000), (32 * mib, 952_000_000)],
        );
        assert_eq!(window.knee, Some(16 * mib));
        assert!(window.bdp_bytes < 16 * mib && window.bdp_bytes > 8 * mib, "{window:?}");
        assert_eq!(report(Scan::Streams, &[]).knee, None);
    }

    #[test]
    fn bad_processors_are_named() {
        assert_eq!(report(Scan::FarCores, &[(0, 900), (1, 910), (2, 500), (3, 905)]).bad, [2]);
        assert!(report(Scan::Streams, &[(1, 100), (2, 900), (4, 900)]).bad.is_empty());
    }

    #[test]
    fn a_scan_with_values_out_of_bounds_is_refused() {
        let order = Order::default();
        assert!(orders(Scan::Streams, &[1, 2, 500], &order).unwrap_err().to_string().contains("128"));
        assert!(orders(Scan::Window, &[], &order).is_err());
        assert_eq!(orders(Scan::Window, &values(Scan::Window, (2, 2)), &order).unwrap().len(), 10);
        assert_eq!(orders(Scan::FarCores, &values(Scan::FarCores, (2, 4)), &order).unwrap()[3].1.far_cores, [3]);
    }
}

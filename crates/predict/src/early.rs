//! Early signs: a value that drifts towards a limit. The drift is the median of the slopes between all pairs of hours (Theil, 1950; Sen,
//! 1968), and counts only if the order of the values is very unlikely without one (Mann, 1945; Kendall, 1975).
//!
//! Does not know: what the values mean, or what happens beyond the limit.

use crate::DAY;
use crate::band::quantile;

/// The hours that are examined.
const WINDOW: usize = DAY;
/// The fewest of them that have a value.
const KNOWN_MIN: usize = WINDOW / 2;
/// The least standard score of the Mann–Kendall test. By chance it is exceeded in one of 2,000 windows, which seldom lead to the limit.
const SCORE_MIN: f64 = 3.5;

/// A limit of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DriftLimit {
    /// The value must not fall below this.
    AtLeast(f64),
    /// The value must not rise above this.
    AtMost(f64),
}

/// A drift that leads to a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlySign {
    /// The change in an hour.
    pub slope: f64,
    /// Hours until the limit is reached, if the drift lasts.
    pub hours_left: f64,
}

/// Looks at the last day of values by hour; returns the drift if it leads to the limit within some hours.
pub fn early_sign(values: &[Option<f64>], limit: DriftLimit, within_hours: f64) -> Option<EarlySign> {
    let window = &values[values.len().saturating_sub(WINDOW)..];
    let known: Vec<(f64, f64)> =
        window.iter().enumerate().filter_map(|(at, value)| value.map(|value| (at as f64, value))).collect();
    if known.len() < KNOWN_MIN {
        return None;
    }
    let pairs: Vec<(f64, f64)> = (1..known.len())
        .flat_map(|later| (0..later).map(move |earlier| (earlier, later)))
        .map(|(earlier, later)| (known[later].0 - known[earlier].0, known[later].1 - known[earlier].1))
        .collect();
    // The statistic S of Mann and Kendall: the number of rises less the number of falls.
    let statistic: f64 =
        pairs.iter().map(|(_, change)| change.partial_cmp(&0.0).map_or(0.0, |ordering| ordering as i8 as f64)).sum();
    let count = known.len() as f64;
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    if (statistic / deviation).abs() < SCORE_MIN {
        return None;
    }
    let mut slopes: Vec<f64> = pairs.iter().map(|(hours, change)| change / hours).collect();
    slopes.sort_by(f64::total_cmp);
    let slope = quantile(&slopes, 0.5);
    // The line through the medians gives the present value with less noise than the last hour.
    let mut levels: Vec<f64> = known.iter().map(|(at, value)| value - slope * at).collect();
    levels.sort_by(f64::total_cmp);
    let present = quantile(&levels, 0.5) + slope * (window.len() - 1) as f64;
    let distance = match limit {
        DriftLimit::AtLeast(limit) => present - limit,
        DriftLimit::AtMost(limit) => limit - present,
    };
    let approach = match limit {
        DriftLimit::AtLeast(_) => -slope,
        DriftLimit::AtMost(_) => slope,
    };
    let hours_left = (distance / approach).max(0.0);
    (approach > 0.0 && hours_left <= within_hours).then_some(EarlySign { slope, hours_left })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn light(slope: f64, hours: usize, seed: u64) -> Vec<Option<f64>> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..hours).map(|at| Some(-8.0 + slope * at as f64 + 0.1 * (random.f64() - 0.5))).collect()
    }

    #[test]
    fn fading_light_is_seen_before_it_is_too_weak() {
        let sign = early_sign(&light(-0.2, 30, 1), DriftLimit::AtLeast(-18.0), 48.0).unwrap();
        assert!((sign.slope + 0.2).abs() < 0.01 && (sign.hours_left - 21.0).abs() < 2.0, "{sign:?}");
        assert_eq!(early_sign(&light(-0.2, 30, 1), DriftLimit::AtLeast(-18.0), 12.0), None, "there is time");
        assert_eq!(early_sign(&light(-0.2, 8, 1), DriftLimit::AtLeast(-18.0), 48.0), None, "too few hours");
        assert_eq!(early_sign(&light(0.2, 30, 1), DriftLimit::AtLeast(-18.0), 48.0), None, "it grows");
        assert!(early_sign(&light(0.2, 30, 1), DriftLimit::AtMost(0.0), 48.0).is_some());
    }

    #[test]
    fn a_year_of_steady_light_gives_no_sign() {
        let values = light(0.0, 366 * DAY, 7);
        let signs =
            (DAY..values.len()).filter(|end| early_sign(&values[..*end], DriftLimit::AtLeast(-18.0), 48.0).is_some());
        assert_eq!(signs.count(), 0);
    }
}

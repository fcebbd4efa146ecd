//! The band of a forecast: three quantiles.

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

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn quantiles_that_cross_are_put_in_order() {
        assert_eq!(Band::sorted([2.0, 1.0, -1.0]), Band { low: 0.0, median: 1.0, high: 2.0 });
    }
}

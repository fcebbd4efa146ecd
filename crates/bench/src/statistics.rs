//! Medians of a few runs. Does not know: what was measured.

/// The median, the smallest and the largest of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value; the mean of the middle two where their count is even.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

/// The spread of values, if there are any.
pub fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
    Some(Spread { median, least, most })
}

/// The median of values, if there are any.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    spread(values).map(|s| s.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let spread_of = |values: &[f64]| spread(values.iter().copied());
        assert_eq!(spread_of(&[]), None);
        assert_eq!(spread_of(&[3.0]), Some(Spread { median: 3.0, least: 3.0, most: 3.0 }));
        assert_eq!(spread_of(&[9.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 9.0 }));
        assert_eq!(spread_of(&[4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, least: 1.0, most: 9.0 }));
    }
}

//! Max-min fairness over one resource: no share can grow unless a share that is not larger shrinks (Bertsekas and Gallager, Data
//! Networks, section 6.5.2).

/// Divides a capacity among demands; the shares are in the order of the demands. Demands up to the fair share are met in full. The
/// others divide the rest evenly. Capacity and demands have one unit; negative ones count as 0.
pub fn max_min(capacity: f64, demands: &[f64]) -> Vec<f64> {
    let mut smallest_first: Vec<usize> = (0..demands.len()).collect();
    smallest_first.sort_by(|a, b| demands[*a].total_cmp(&demands[*b]));
    let mut given = vec![0.0; demands.len()];
    let mut left = capacity.max(0.0);
    for (rank, at) in smallest_first.into_iter().enumerate() {
        let fair = left / (demands.len() - rank) as f64;
        given[at] = demands[at].clamp(0.0, fair);
        left -= given[at];
    }
    given
}

/// The max-min share of one more party with unlimited demand, beside parties with these demands.
pub fn left_for_one_more(capacity: f64, others: &[f64]) -> f64 {
    let demands: Vec<f64> = others.iter().copied().chain([f64::INFINITY]).collect();
    max_min(capacity, &demands)[others.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_demands_are_met_and_the_rest_is_divided_evenly() {
        assert_eq!(max_min(100.0, &[]), []);
        assert_eq!(max_min(100.0, &[80.0, 10.0, 60.0]), [45.0, 10.0, 45.0]);
        assert_eq!(max_min(100.0, &[20.0, 30.0]), [20.0, 30.0], "nobody is given more than it asked for");
        assert_eq!(max_min(-1.0, &[20.0]), [0.0]);
    }

    #[test]
    fn one_more_takes_what_is_left() {
        assert_eq!(left_for_one_more(100.0, &[]), 100.0);
        assert_eq!(left_for_one_more(100.0, &[100.0]), 50.0);
        assert_eq!(left_for_one_more(100.0, &[10.0]), 90.0);
        assert_eq!(left_for_one_more(100.0, &[10.0, 80.0]), 45.0);
        assert!((left_for_one_more(100.0, &[40.0, 40.0]) - 100.0 / 3.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn nobody_can_be_given_more_without_taking_from_who_has_less(
            capacity in 0.0..1e12f64,
            demands in proptest::collection::vec(0.0..1e12f64, 1..40),
        ) {
            let given = max_min(capacity, &demands);
            let used: f64 = given.iter().sum();
            let wanted: f64 = demands.iter().sum();
            prop_assert!((used - capacity.min(wanted)).abs() <= 1e-6 * (1.0 + capacity), "{used} of {capacity}");
            let most = given.iter().copied().fold(0.0, f64::max);
            for (given, demand) in given.iter().zip(&demands) {
                prop_assert!(given <= demand);
                // Whoever is not satisfied has as much as anybody.
                prop_assert!(*given >= demand * (1.0 - 1e-9) || *given >= most * (1.0 - 1e-9));
            }
        }
    }
}

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

/// Divides a capacity among parties, each a weight and a demand. A party whose demand is not met has at least as large a share per weight
/// as any other. Weights are positive; negative demands count as 0.
pub fn weighted_max_min(capacity: f64, parties: &[(f64, f64)]) -> Vec<f64> {
    let level = |at: &usize| parties[*at].1 / parties[*at].0;
    let mut lowest_first: Vec<usize> = (0..parties.len()).collect();
    lowest_first.sort_by(|a, b| level(a).total_cmp(&level(b)));
    let mut weights_left: f64 = parties.iter().map(|(weight, _)| weight).sum();
    let mut given = vec![0.0; parties.len()];
    let mut left = capacity.max(0.0);
    for at in lowest_first {
        let (weight, demand) = parties[at];
        // The last party gets all that is left: rounding may leave `weights_left` a little above or below its weight.
        let fair = left * (weight / weights_left).clamp(0.0, 1.0);
        given[at] = demand.max(0.0).min(fair);
        left -= given[at];
        weights_left -= weight;
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
        assert!(max_min(100.0, &[]).is_empty());
        assert_eq!(max_min(100.0, &[80.0, 10.0, 60.0]), [45.0, 10.0, 45.0]);
        assert_eq!(max_min(100.0, &[20.0, 30.0]), [20.0, 30.0], "nobody is given more than it asked for");
        assert_eq!(max_min(-1.0, &[20.0]), [0.0]);
    }

    #[test]
    fn one_more_party_has_its_max_min_share() {
        assert_eq!(left_for_one_more(100.0, &[]), 100.0);
        assert_eq!(left_for_one_more(100.0, &[100.0]), 50.0);
        assert_eq!(left_for_one_more(100.0, &[10.0]), 90.0);
        assert_eq!(left_for_one_more(100.0, &[10.0, 80.0]), 45.0);
        assert!((left_for_one_more(100.0, &[40.0, 40.0]) - 100.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn weights_count_where_demands_are_not_met() {
        let all = f64::INFINITY;
        assert_eq!(weighted_max_min(70.0, &[(1.0, all), (2.0, all), (4.0, all)]), [10.0, 20.0, 40.0]);
        assert_eq!(weighted_max_min(70.0, &[(1.0, all), (2.0, 10.0), (4.0, all)]), [12.0, 10.0, 48.0]);
        assert!(weighted_max_min(70.0, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn equal_weights_change_nothing(capacity in 0.0..1e9f64, demands in proptest::collection::vec(0.0..1e9f64, 1..20)) {
            let parties: Vec<(f64, f64)> = demands.iter().map(|demand| (3.0, *demand)).collect();
            for (weighted, plain) in weighted_max_min(capacity, &parties).iter().zip(max_min(capacity, &demands)) {
                prop_assert!((weighted - plain).abs() <= 1e-6 * (1.0 + plain));
            }
        }

        #[test]
        fn no_share_can_grow_unless_a_share_that_is_not_larger_shrinks(
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
                // A share below its demand is the largest share.
                prop_assert!(*given >= demand * (1.0 - 1e-9) || *given >= most * (1.0 - 1e-9));
            }
        }
    }
}

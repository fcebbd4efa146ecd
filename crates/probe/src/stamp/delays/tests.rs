//! Delays computed from known times.

use proptest::prelude::*;

use super::*;

/// The far clock is ahead of the near real-time clock by this; the code under test does not know it.
const AHEAD: i64 = 123_456_789;
const OFFSET: i64 = 1_700_000_000_000_000_000;

/// The times of a packet that leaves at `at`, with these delays and this residence time, nanoseconds.
fn times(at: i64, forward: i64, residence: i64, reverse: i64) -> Times {
    let received_ns = at + forward + OFFSET + AHEAD;
    Times {
        sent_ns: at,
        received_ns,
        answered_ns: received_ns + residence,
        returned_ns: at + forward + residence + reverse,
    }
}

#[test]
fn round_trips_do_not_include_the_residence_time() {
    let mut delays = Delays::new(OFFSET, 10, 10.0);
    for (n, residence) in [1_000_000, 50_000_000, 3_000].into_iter().enumerate() {
        delays.record(n as u64, &times(n as i64 * 1_000_000_000, 7_000_000, residence, 5_000_000));
    }
    let round_trip = delays.round_trip.delay().unwrap();
    assert_eq!((round_trip.min_s, round_trip.median_s, round_trip.max_s), (0.012, 0.012, 0.012));
    let residence = delays.residence.delay().unwrap();
    assert_eq!((residence.min_s, residence.max_s), (3e-6, 0.05));
    assert_eq!(delays.forward.least_ns(), Some(7_000_000 + AHEAD as u64));
    assert_eq!((delays.impossible, delays.nonsense), (3, 0), "the reverse delay is negative");
}

#[test]
fn variation_is_between_neighbours_and_does_not_depend_on_clocks() {
    let mut delays = Delays::new(OFFSET, 10, 10.0);
    // 3 is missing: 4 has no neighbour before it.
    for (n, forward, reverse) in [(0, 100, 50), (1, 130, 50), (2, 110, 90), (4, 900, 900), (5, 905, 890)] {
        delays.record(n, &times(n as i64 * 1_000, forward * 1_000, 0, reverse * 1_000));
    }
    let forward = delays.variation_forward.variation().unwrap();
    assert_eq!((forward.pairs, forward.p99_s), (3, 30e-6));
    assert!((20e-6..20.02e-6).contains(&forward.p50_s), "{forward:?}");
    let reverse = delays.variation_reverse.variation().unwrap();
    assert_eq!((reverse.pairs, reverse.p99_s), (3, 40e-6));
    assert!((10e-6..10.01e-6).contains(&reverse.p50_s), "{reverse:?}");
}

#[test]
fn an_impossible_residence_time_is_counted() {
    let mut delays = Delays::new(OFFSET, 10, 10.0);
    delays.record(0, &Times { sent_ns: 0, received_ns: 500, answered_ns: 400, returned_ns: 1_000 });
    delays.record(1, &Times { sent_ns: 0, received_ns: 500, answered_ns: 9_000, returned_ns: 1_000 });
    assert_eq!(delays.nonsense, 2);
    let round_trip = delays.round_trip.delay().unwrap();
    assert_eq!((round_trip.min_s, round_trip.max_s), (0.0, 1e-6));
}

#[test]
fn buckets_are_ten_to_a_decade() {
    let mut histogram = DelayHistogram::default();
    [1_000_000, 1_100_000, 1_300_000, 99_000_000].into_iter().for_each(|ns| histogram.record(ns));
    let buckets = histogram.buckets();
    assert_eq!(buckets.iter().map(|b| b.count).collect::<Vec<_>>(), [2, 1, 1]);
    assert!((buckets[0].from_s - 1e-3).abs() < 1e-9 && (buckets[2].to_s - 0.1).abs() < 1e-9, "{buckets:?}");
    assert!((buckets[0].to_s / buckets[0].from_s - 1.2589).abs() < 1e-3);
    assert_eq!(DelayHistogram::default().buckets(), []);
    assert_eq!((DelayHistogram::default().delay(), DelayHistogram::default().variation()), (None, None));
}

proptest! {
    #[test]
    fn percentiles_are_those_of_a_sorted_list(mut values in proptest::collection::vec(0i64..60_000_000_000, 1..300)) {
        let mut histogram = DelayHistogram::default();
        values.iter().for_each(|ns| histogram.record(*ns));
        values.sort_unstable();
        let delay = histogram.delay().unwrap();
        prop_assert_eq!((delay.min_s, delay.max_s), (values[0] as f64 / 1e9, values[values.len() - 1] as f64 / 1e9));
        for (quantile, got) in [(0.5, delay.median_s), (0.95, delay.p95_s), (0.99, delay.p99_s)] {
            // Where the rank is a whole number, its last bit decides between two neighbours.
            let rank = values.len() as f64 * quantile;
            let exact = |rank: f64| values[(rank.ceil() as usize).clamp(1, values.len()) - 1] as f64 / 1e9;
            let least = exact(rank - 1e-9);
            let most = exact(rank + 1e-9);
            prop_assert!(got >= least * 0.999 && got <= most * 1.001 + 1e-9, "{} at {}", got, quantile);
        }
        let mean = values.iter().map(|ns| *ns as f64).sum::<f64>() / values.len() as f64 / 1e9;
        prop_assert!((delay.mean_s - mean).abs() <= 1e-9 * mean.max(1.0));
        prop_assert_eq!(histogram.buckets().iter().map(|b| b.count).sum::<u64>(), values.len() as u64);
    }

    #[test]
    fn any_times_are_counted(times in proptest::collection::vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>()), 0..50)) {
        let mut delays = Delays::new(OFFSET, 50, 10.0);
        for (n, (sent_ns, received_ns, answered_ns, returned_ns)) in times.iter().copied().enumerate() {
            delays.record(n as u64, &Times { sent_ns, received_ns, answered_ns, returned_ns });
        }
        prop_assert_eq!(delays.round_trip.count(), times.len() as u64);
        let _ = (delays.far_step_ns(), delays.forward.delay(), delays.variation_forward.variation());
    }
}

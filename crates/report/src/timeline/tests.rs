//! Timelines of many lengths: sums are kept, and the number of cells is bounded.

use std::time::Duration;

use model::account::Stage;
use proptest::prelude::*;

use super::*;

fn add_sent(timeline: &mut TransferTimeline, from_s: f64, to_s: f64, stream: u32, bytes: f64) {
    timeline.add_sample(from_s, to_s, &[Flow { stream: Some(stream), from_s, bytes: [bytes, 0.0] }]);
}

#[test]
fn rates_are_means_with_their_extremes() {
    let mut timeline = TransferTimeline::default();
    // A second at 8 Mbit/s, of which the third quarter has nothing.
    for (at, bytes) in [250_000.0, 250_000.0, 0.0, 250_000.0].into_iter().enumerate() {
        add_sent(&mut timeline, at as f64 * 0.25, (at + 1) as f64 * 0.25, 1, bytes);
    }
    let rates = timeline.rates();
    assert_eq!(rates.iter().map(|mean| mean.mean / 1e6).collect::<Vec<_>>(), [8.0, 8.0, 0.0, 8.0]);
    assert_eq!((rates[3].from_s, rates[3].to_s, timeline.end_s()), (0.75, 1.0, 1.0));
    // The time goes on until each cell has eight seconds.
    add_sent(&mut timeline, 1.0, 1600.0, 1, 0.0);
    assert_eq!((timeline.step_s(), timeline.rates().len()), (8.0, CELLS_MAX));
    let first = timeline.rates()[0];
    assert_eq!((first.low, first.high, first.mean), (0.0, 8e6, 750_000.0));
    assert!(timeline.sends() && timeline.bytes() == [750_000.0, 0.0]);
}

#[test]
fn received_bytes_count_at_the_receiving_end() {
    let mut timeline = TransferTimeline::default();
    timeline.add_sample(0.0, 0.5, &[Flow { stream: Some(1), from_s: 0.25, bytes: [10.0, 1_000_000.0] }]);
    assert!(!timeline.sends());
    let rates = timeline.rates();
    // Bytes of a quarter of a second are shown in that quarter.
    assert_eq!((rates[0].mean, rates[1].mean, rates[1].high), (0.0, 32e6, 32e6));
    assert_eq!(timeline.rates_of(&[1]).len(), 1);
    assert!(timeline.round_trips().is_empty(), "the other end's are not known");
}

#[test]
fn the_number_of_streams_is_bounded() {
    let mut timeline = TransferTimeline::default();
    for id in 0..5000 {
        add_sent(&mut timeline, 0.0, 0.25, id, 1.0);
    }
    assert!(timeline.is_crowded() && timeline.streams().count() == STREAMS_MAX);
    assert_eq!(timeline.bytes()[0], 5000.0);
    let all: Vec<u32> = timeline.streams().map(|(id, _)| id).collect();
    assert_eq!(timeline.rates_of(&all)[0].mean, STREAMS_MAX as f64 * 32.0);
    assert!(timeline.rates_of(&[9999]).is_empty());
}

fn times(wall: [u64; 5], cpu: [u64; 5]) -> Times {
    let spans = |of: [u64; 5]| of.map(Duration::from_millis);
    Times::from(&StageTimes { wall: spans(wall), cpu: spans(cpu), ..StageTimes::default() })
}

#[test]
fn moments_have_the_limiting_part() {
    let mut timeline = TransferTimeline::default();
    add_sent(&mut timeline, 0.0, 0.5, 1, 1e6);
    add_sent(&mut timeline, 0.5, 1.0, 1, 1e6);
    // First the source's disk limits, then the path; the other end reports for both at once.
    timeline.threads(Side::Near, 0.0, 0.5, &times([450, 25, 25, 0, 0], [0, 25, 5, 0, 0]));
    timeline.threads(Side::Near, 0.5, 1.0, &times([10, 25, 465, 0, 0], [10, 25, 5, 0, 0]));
    timeline.threads(Side::Far, 0.0, 1.0, &times([0, 50, 950, 0, 0], [0, 50, 10, 0, 0]));
    timeline.tcp(0.0, 1.0, &Tcp { stream_s: 1.0, busy_s: 0.6, receive_window_s: 0.2, ..Tcp::default() });
    let moments = timeline.moments();
    let limits: Vec<Option<LimitingPart>> = moments.iter().map(|moment| moment.limit).collect();
    let expected = [LimitingPart::Source, LimitingPart::Source, LimitingPart::Network, LimitingPart::Network];
    assert_eq!(limits, expected.map(Some));
    assert!((moments[0].sender.unwrap().storage - 0.9).abs() < 1e-9);
    assert!((moments[3].receiver.unwrap().socket - 0.94).abs() < 1e-9);
    assert!(moments.iter().all(|moment| (moment.tcp.busy_s - 0.15).abs() < 1e-9));
    assert_eq!(Stage::Storage as usize, 0, "the order above");
}

#[test]
fn round_trips_are_means_with_their_extremes() {
    let mut timeline = TransferTimeline::default();
    add_sent(&mut timeline, 0.0, 0.5, 1, 1.0);
    for (from_s, to_s, rtt_s) in [(0.0, 0.25, 0.3), (0.25, 0.25, 0.5), (0.25, 0.5, 0.4)] {
        timeline.round_trip(from_s, to_s, rtt_s);
    }
    let trips: Vec<(f64, f64, f64)> =
        timeline.round_trips().iter().map(|mean| (mean.mean, mean.low, mean.high)).collect();
    assert_eq!(trips, [(0.4, 0.3, 0.5), (0.4, 0.4, 0.4)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sums_are_kept_and_the_number_of_cells_is_bounded(samples in prop::collection::vec((0.0..1e4f64, 0u32..20, 0.0..1e9f64, 0.0..1.0f64), 1..300)) {
        let mut timeline = TransferTimeline::default();
        let (mut now_s, mut bytes, mut most) = (0.0, 0.0, 0.0f64);
        for (gap_s, stream, moved, worked) in &samples {
            let before_s = now_s;
            now_s += gap_s;
            add_sent(&mut timeline, before_s, now_s, *stream, *moved);
            let times = Times::from(&StageTimes { wall: [Duration::from_secs_f64(gap_s * worked); 5], ..StageTimes::default() });
            timeline.threads(Side::Near, before_s, now_s, &times);
            timeline.round_trip(before_s, now_s, *worked);
            bytes += moved;
            if now_s > before_s {
                most = most.max(moved * 8.0 / (now_s - before_s));
            }
        }
        let rates = timeline.rates();
        prop_assert!(timeline.cells.len() <= CELLS_MAX && rates.len() <= CELLS_MAX);
        prop_assert!((timeline.bytes()[0] - bytes).abs() <= bytes * 1e-9);
        for mean in &rates {
            prop_assert!(mean.low <= mean.mean && mean.mean <= mean.high && mean.from_s < mean.to_s, "{:?}", mean);
        }
        let highest = rates.iter().map(|mean| mean.high).fold(0.0, f64::max);
        prop_assert!(rates.is_empty() || highest >= most * (1.0 - 1e-9), "{} of {}", highest, most);
        let moved: f64 = timeline.streams().map(|(_, facts)| facts.bytes[0]).sum();
        prop_assert!((moved - bytes).abs() <= bytes * 1e-9);
        let covered_s: f64 = timeline.moments().iter().map(|moment| moment.to_s - moment.from_s).sum();
        prop_assert!(covered_s <= timeline.end_s() * (1.0 + 1e-9) + 1e-9);
    }
}

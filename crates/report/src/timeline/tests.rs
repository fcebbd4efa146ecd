//! Timelines of many lengths: nothing gets lost, and none gets long.

use std::time::Duration;

use model::account::Stage;
use proptest::prelude::*;

use super::*;

fn sends(course: &mut TransferTimeline, from_s: f64, to_s: f64, stream: u32, bytes: f64) {
    course.look(from_s, to_s, &[Flow { stream: Some(stream), from_s, bytes: [bytes, 0.0] }]);
}

#[test]
fn rates_are_means_with_their_extremes() {
    let mut course = TransferTimeline::default();
    // A second of 8 Mbit/s with a quarter of nothing in it.
    for (at, bytes) in [250_000.0, 250_000.0, 0.0, 250_000.0].into_iter().enumerate() {
        sends(&mut course, at as f64 * 0.25, (at + 1) as f64 * 0.25, 1, bytes);
    }
    let rates = course.rates();
    assert_eq!(rates.iter().map(|mean| mean.mean / 1e6).collect::<Vec<_>>(), [8.0, 8.0, 0.0, 8.0]);
    assert_eq!((rates[3].from_s, rates[3].to_s, course.end_s()), (0.75, 1.0, 1.0));
    // Until its cells are of eight seconds each.
    sends(&mut course, 1.0, 1600.0, 1, 0.0);
    assert_eq!((course.step_s(), course.rates().len()), (8.0, CELLS_MAX));
    let first = course.rates()[0];
    assert_eq!((first.low, first.high, first.mean), (0.0, 8e6, 750_000.0));
    assert!(course.sends() && course.bytes() == [750_000.0, 0.0]);
}

#[test]
fn what_was_received_counts_where_more_was_received() {
    let mut course = TransferTimeline::default();
    course.look(0.0, 0.5, &[Flow { stream: Some(1), from_s: 0.25, bytes: [10.0, 1_000_000.0] }]);
    assert!(!course.sends());
    let rates = course.rates();
    // Bytes of a quarter of a second are shown in that quarter.
    assert_eq!((rates[0].mean, rates[1].mean, rates[1].high), (0.0, 32e6, 32e6));
    assert_eq!(course.rates_of(&[1]).len(), 1);
    assert!(course.round_trips().is_empty(), "the other end's are not known");
}

#[test]
fn streams_are_told_apart_up_to_a_bound() {
    let mut course = TransferTimeline::default();
    for id in 0..5000 {
        sends(&mut course, 0.0, 0.25, id, 1.0);
    }
    assert!(course.is_crowded() && course.streams().count() == STREAMS_MAX);
    assert_eq!(course.bytes()[0], 5000.0);
    let all: Vec<u32> = course.streams().map(|(id, _)| id).collect();
    assert_eq!(course.rates_of(&all)[0].mean, STREAMS_MAX as f64 * 32.0);
    assert!(course.rates_of(&[9999]).is_empty());
}

fn times(wall: [u64; 5], cpu: [u64; 5]) -> Times {
    let spans = |of: [u64; 5]| of.map(Duration::from_millis);
    Times::from(&Spent { wall: spans(wall), cpu: spans(cpu), ..Spent::default() })
}

#[test]
fn moments_say_what_held_the_job() {
    let mut course = TransferTimeline::default();
    sends(&mut course, 0.0, 0.5, 1, 1e6);
    sends(&mut course, 0.5, 1.0, 1, 1e6);
    // First the source's disk limits, then the path; the other end reports for both at once.
    course.threads(Side::Near, 0.0, 0.5, &times([450, 25, 25, 0, 0], [0, 25, 5, 0, 0]));
    course.threads(Side::Near, 0.5, 1.0, &times([10, 25, 465, 0, 0], [10, 25, 5, 0, 0]));
    course.threads(Side::Far, 0.0, 1.0, &times([0, 50, 950, 0, 0], [0, 50, 10, 0, 0]));
    course.tcp(0.0, 1.0, &Tcp { stream_s: 1.0, busy_s: 0.6, receive_window_s: 0.2, ..Tcp::default() });
    let moments = course.moments();
    let held: Vec<Option<LimitingPart>> = moments.iter().map(|moment| moment.held).collect();
    let expected = [LimitingPart::Source, LimitingPart::Source, LimitingPart::Network, LimitingPart::Network];
    assert_eq!(held, expected.map(Some));
    assert!((moments[0].sender.unwrap().storage - 0.9).abs() < 1e-9);
    assert!((moments[3].receiver.unwrap().socket - 0.94).abs() < 1e-9);
    assert!(moments.iter().all(|moment| (moment.tcp.busy_s - 0.15).abs() < 1e-9));
    assert_eq!(Stage::Storage as usize, 0, "the order above");
}

#[test]
fn round_trips_have_their_extremes_too() {
    let mut course = TransferTimeline::default();
    sends(&mut course, 0.0, 0.5, 1, 1.0);
    for (from_s, to_s, rtt_s) in [(0.0, 0.25, 0.3), (0.25, 0.25, 0.5), (0.25, 0.5, 0.4)] {
        course.round_trip(from_s, to_s, rtt_s);
    }
    let trips: Vec<(f64, f64, f64)> =
        course.round_trips().iter().map(|mean| (mean.mean, mean.low, mean.high)).collect();
    assert_eq!(trips, [(0.4, 0.3, 0.5), (0.4, 0.4, 0.4)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_and_nothing_is_long(looks in prop::collection::vec((0.0..1e4f64, 0u32..20, 0.0..1e9f64, 0.0..1.0f64), 1..300)) {
        let mut course = TransferTimeline::default();
        let (mut now_s, mut bytes, mut most) = (0.0, 0.0, 0.0f64);
        for (gap_s, stream, moved, worked) in &looks {
            let before_s = now_s;
            now_s += gap_s;
            sends(&mut course, before_s, now_s, *stream, *moved);
            let times = Times::from(&Spent { wall: [Duration::from_secs_f64(gap_s * worked); 5], ..Spent::default() });
            course.threads(Side::Near, before_s, now_s, &times);
            course.round_trip(before_s, now_s, *worked);
            bytes += moved;
            if now_s > before_s {
                most = most.max(moved * 8.0 / (now_s - before_s));
            }
        }
        let rates = course.rates();
        prop_assert!(course.cells.len() <= CELLS_MAX && rates.len() <= CELLS_MAX);
        prop_assert!((course.bytes()[0] - bytes).abs() <= bytes * 1e-9);
        for mean in &rates {
            prop_assert!(mean.low <= mean.mean && mean.mean <= mean.high && mean.from_s < mean.to_s, "{:?}", mean);
        }
        let highest = rates.iter().map(|mean| mean.high).fold(0.0, f64::max);
        prop_assert!(rates.is_empty() || highest >= most * (1.0 - 1e-9), "{} of {}", highest, most);
        let moved: f64 = course.streams().map(|(_, facts)| facts.bytes[0]).sum();
        prop_assert!((moved - bytes).abs() <= bytes * 1e-9);
        let held: f64 = course.moments().iter().map(|moment| moment.to_s - moment.from_s).sum();
        prop_assert!(held <= course.end_s() * (1.0 + 1e-9) + 1e-9);
    }
}

//! The tally compared with one that stores every number.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Keeps every number it has seen.
#[derive(Default)]
struct Naive {
    seen: BTreeSet<u64>,
    duplicates: u64,
    distances: BTreeMap<u64, u64>,
}

impl Naive {
    fn take(&mut self, number: u64) -> Arrival {
        let highest = self.seen.last().copied();
        if !self.seen.insert(number) {
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        match highest.filter(|highest| number < *highest) {
            Some(highest) => {
                *self.distances.entry(highest - number).or_default() += 1;
                Arrival::Late { distance: highest - number }
            }
            None => Arrival::Ahead,
        }
    }

    fn runs(&self, sent: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for number in (0..sent).filter(|number| !self.seen.contains(number)) {
            match runs.last_mut().filter(|(first, length)| first + length == number) {
                Some((_, length)) => *length += 1,
                None => runs.push((number, 1)),
            }
        }
        runs
    }
}

fn bins(counts: impl IntoIterator<Item = (u64, u64)>) -> Vec<UdpBin> {
    let mut lengths = Lengths::default();
    for (length, count) in counts {
        (0..count).for_each(|_| lengths.record(length));
    }
    lengths.bins()
}

/// Numbers from 0 to `sent`, some lost, some twice, in almost ascending order.
fn arrivals() -> impl Strategy<Value = (u64, Vec<u64>)> {
    let fates = prop::collection::vec((0..4u8, 0..60u64, 0..60u64), 1..300);
    fates.prop_map(|fates| {
        let sent = fates.len() as u64;
        let mut due: Vec<(u64, u64)> = Vec::new();
        for (number, (fate, late, later)) in (0..).zip(fates) {
            let copies = match fate {
                0 => vec![],
                1 => vec![late],
                2 => vec![0],
                _ => vec![late, later],
            };
            due.extend(copies.into_iter().map(|delay| (number + delay, number)));
        }
        due.sort_by_key(|(at, _)| *at);
        (sent, due.into_iter().map(|(_, number)| number).collect())
    })
}

#[test]
fn losses_duplicates_and_late_numbers_are_counted() {
    let mut tally = NumberCounts::new(20);
    let arrivals: Vec<Arrival> = [0, 1, 4, 3, 4, 1, 9, 20].iter().map(|number| tally.take(*number)).collect();
    use Arrival::{Ahead, Duplicate, Late, OutOfRange};
    assert_eq!(arrivals, [Ahead, Ahead, Ahead, Late { distance: 1 }, Duplicate, Duplicate, Ahead, OutOfRange]);
    assert_eq!((tally.received(), tally.duplicates(), tally.missing(), tally.next()), (5, 2, 5, 10));
    let missing = tally.missing_of(None, 10);
    assert_eq!((missing.lost, missing.runs), (5, vec![(2, 1), (5, 4)]));
    let missing = tally.missing_of(Some(12), 10);
    assert_eq!((missing.lost, missing.runs), (7, vec![(2, 1), (5, 4), (10, 2)]));
    assert_eq!(missing.lengths, bins([(1, 1), (2, 1), (4, 1)]));
    let missing = tally.missing_of(Some(12), 1);
    assert_eq!((missing.runs, missing.runs_total), (vec![(2, 1)], 3));
    assert!(!tally.is_bounded());
}

#[test]
fn a_run_without_arrivals_is_lost_entirely() {
    let missing = NumberCounts::new(100).missing_of(Some(100), 10);
    assert_eq!((missing.lost, missing.runs), (100, vec![(0, 100)]));
    assert_eq!(NumberCounts::new(100).missing_of(None, 10), Missing::default());
}

#[test]
fn the_highest_numbers_do_not_overflow() {
    let mut tally = NumberCounts::new(u64::MAX);
    assert_eq!(tally.take(u64::MAX), Arrival::OutOfRange);
    assert_eq!(tally.take(u64::MAX - 1), Arrival::Ahead);
    assert_eq!(tally.take(0), Arrival::Late { distance: u64::MAX - 1 });
    assert_eq!(tally.missing_of(Some(u64::MAX), 10).lost, u64::MAX - 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_tally_counts_as_one_that_stores_every_number((sent, arrived) in arrivals()) {
        let (mut tally, mut naive) = (NumberCounts::new(sent), Naive::default());
        for number in arrived {
            prop_assert_eq!(tally.take(number), naive.take(number));
        }
        prop_assert_eq!(tally.received(), naive.seen.len() as u64);
        prop_assert_eq!(tally.duplicates(), naive.duplicates);
        prop_assert_eq!(tally.reordered().bins(), bins(naive.distances.clone()));
        let missing = tally.missing_of(Some(sent), usize::MAX);
        prop_assert_eq!(missing.lost, sent - naive.seen.len() as u64);
        prop_assert_eq!(&missing.runs, &naive.runs(sent));
        prop_assert_eq!(missing.runs_total, missing.runs.len() as u64);
        prop_assert_eq!(missing.lengths, bins(missing.runs.iter().map(|(_, length)| (*length, 1))));
        let highest = naive.seen.last().map_or(0, |highest| highest + 1);
        prop_assert_eq!(tally.missing_of(None, usize::MAX).runs, naive.runs(highest));
        prop_assert_eq!(tally.missing(), tally.missing_of(None, 0).lost);
    }

    #[test]
    fn a_tally_that_gives_gaps_up_bounds_the_loss((sent, arrived) in arrivals(), gaps_max in 0..5usize) {
        let (mut tally, mut naive) = (NumberCounts::with_gaps(sent, gaps_max), Naive::default());
        for number in arrived {
            let (judged, truth) = (tally.take(number), naive.take(number));
            prop_assert!(judged == truth || judged == Arrival::Unjudged, "{:?} is {:?}", judged, truth);
        }
        let missing = tally.missing_of(Some(sent), usize::MAX);
        let truth = sent - naive.seen.len() as u64;
        prop_assert!(tally.gaps.len() <= gaps_max);
        prop_assert!(missing.lost >= truth && missing.lost <= truth + tally.unjudged());
        prop_assert!(tally.is_bounded() || missing.lost == truth);
        prop_assert_eq!(tally.received() + missing.lost, sent);
    }
}

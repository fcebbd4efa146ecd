//! What happens on the wire: loss in all its forms, duplicates, reordering, damage, jitter.

use super::*;
use crate::packet::Damage;
use crate::scenario::Loss;

const MILLION: u64 = 1_000_000;

/// Whether a count is within four standard deviations of its expected value.
fn is_likely(count: u64, draws: u64, probability: f64) -> bool {
    let mean = draws as f64 * probability;
    (count as f64 - mean).abs() < 4.0 * (mean * (1.0 - probability)).sqrt()
}

#[test]
fn each_disturbance_has_its_probability() {
    for (seed, probability) in [(1, 0.0001), (2, 0.01), (3, 0.3), (4, 0.97)] {
        let one = |words: fn(&mut LinkSettings, f64)| {
            let mut link = seeded(seed, |settings| words(settings, probability));
            send_many(&mut link, MILLION);
            assert!(is_conserved(&link.counts()));
            link.counts()
        };
        let found = [
            one(|settings, p| settings.loss = Loss::Random(p)).lost,
            one(|settings, p| settings.duplicate = p).duplicated,
            one(|settings, p| settings.reorder = p).reordered,
            one(|settings, p| settings.corrupt = p).corrupted,
            one(|settings, p| settings.corrupt_silent = p).corrupted_silently,
        ];
        assert!(found.iter().all(|count| is_likely(*count, MILLION, probability)), "{probability}: {found:?}");
    }
}

#[test]
fn probabilities_of_one_and_zero_are_exact() {
    let mut link = link(|settings| (settings.loss, settings.reorder) = (Loss::Random(1.0), 0.0));
    assert_eq!(send_many(&mut link, 4_000).len(), 0);
    assert_eq!((link.counts().lost, link.counts().reordered), (4_000, 0));
}

fn missing(link: &mut Link, segments: u64) -> Vec<u64> {
    let arrived: std::collections::HashSet<u64> = send_many(link, segments).into_iter().map(|(n, _)| n).collect();
    (0..segments).filter(|n| !arrived.contains(n)).map(|n| n + 1).collect()
}

#[test]
fn every_nth_segment_is_lost() {
    let mut thousandth = link(|settings| settings.loss = Loss::Every(1_000));
    assert_eq!(missing(&mut thousandth, 10_000), (1..=10).map(|n| n * 1_000).collect::<Vec<_>>());
    let mut seventh = link(|settings| settings.loss = Loss::Every(7));
    assert_eq!(missing(&mut seventh, 400), (1..=57).map(|n| n * 7).collect::<Vec<_>>());
    let mut each = link(|settings| settings.loss = Loss::Every(1));
    assert_eq!(missing(&mut each, 400).len(), 400);
}

#[test]
fn a_list_is_lost_to_the_segment() {
    // The first, the ends of rows, two in succession, and one that never comes.
    let list = vec![1, 40, 41, 80, 120, 121, 122, 3_999, 1_000_000];
    let mut link = link(|settings| settings.loss = Loss::List(list.clone()));
    assert_eq!(missing(&mut link, 4_000), list[..8]);
    assert_eq!(link.counts().lost, 8);
}

/// The list counts what comes past the bottleneck, also when it is set later or set again.
#[test]
fn a_list_continues_to_count_after_a_change() {
    let list = Loss::List(vec![10, 100, 500]);
    let mut link = link(|settings| settings.loss = list.clone());
    assert_eq!(missing(&mut link, 200), [10, 100]);
    link.set(0, &[crate::scenario::Word::Loss(list)]);
    assert_eq!(missing(&mut link, 400), [300], "500 in all");
}

#[test]
fn bursts_have_the_configured_length() {
    let (begins, ends) = (0.001, 0.2);
    let mut link = link(|settings| settings.loss = Loss::Burst(begins, ends));
    let lost = missing(&mut link, MILLION);
    let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let length = lost.len() as f64 / bursts as f64;
    // Geometric: the standard deviation of one is sqrt(1 - r) / r. Two bursts may touch, which is rarer than 1 in 1,000.
    let deviation = (1.0f64 - ends).sqrt() / ends / (bursts as f64).sqrt();
    assert!((length - 1.0 / ends).abs() < 4.0 * deviation, "{length} in {bursts} bursts");
    let good = (MILLION - lost.len() as u64) as f64;
    assert!((bursts as f64 - good * begins).abs() < 4.0 * (good * begins).sqrt(), "{bursts} bursts");
}

#[test]
fn duplicates_are_equal_to_their_originals() {
    let mut link = link(|settings| (settings.duplicate, settings.rate) = (0.05, Some(BitRate(100_000_000_000))));
    let all = send_many(&mut link, 40_000);
    let twice: Vec<_> = all.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert_eq!(twice.len() as u64, link.counts().duplicated);
    assert!(twice.len() > 1_500, "{}", twice.len());
    assert_eq!(all.len(), 40_000 + twice.len());
    assert_eq!(link.counts().out_bytes, all.len() as u64 * 1_500);
}

#[test]
fn a_reordered_segment_is_overtaken() {
    let mut link = link(|settings| {
        (settings.delay, settings.reorder, settings.reorder_by) =
            (Duration::from_millis(5), 0.001, Duration::from_micros(50));
    });
    let all = send_many(&mut link, 400_000);
    let on_time = |number: u64| 5 * MS + number / 40 * US;
    let (reordered, others): (Vec<_>, Vec<_>) = all.iter().partition(|(number, run)| run.due > on_time(*number));
    assert_eq!(reordered.len() as u64, link.counts().reordered);
    assert!(reordered.len() > 300, "{}", reordered.len());
    assert!(reordered.iter().all(|(number, run)| run.due == on_time(*number) + 50 * US));
    assert!(others.iter().all(|(number, run)| run.due == on_time(*number)));
    let overtaken =
        |(number, run): &(u64, SegmentRun)| others.iter().any(|(n, other)| n > number && other.due < run.due);
    assert!(reordered.iter().filter(|one| one.0 < 399_000).all(|one| overtaken(one)));
}

#[test]
fn damage_is_counted_as_often_as_it_is_done() {
    let mut link = link(|settings| (settings.corrupt, settings.corrupt_silent) = (0.01, 0.02));
    let all = send_many(&mut link, 200_000);
    let with = |wanted: Damage| {
        let has_damage = |run: &SegmentRun| run.damage.is_some_and(|(damage, _)| damage == wanted);
        all.iter().filter(|(_, run)| has_damage(run)).count() as u64
    };
    let counts = link.counts();
    assert_eq!((with(Damage::Seen), with(Damage::Silent)), (counts.corrupted, counts.corrupted_silently));
    assert!(is_likely(counts.corrupted, 200_000, 0.01));
    assert!(is_likely(counts.corrupted_silently, 200_000, 0.02 * 0.99), "detectable damage is not also silent");
    let bits: std::collections::HashSet<u64> = all.iter().filter_map(|(_, run)| Some(run.damage?.1)).collect();
    assert_eq!(bits.len() as u64, counts.corrupted + counts.corrupted_silently, "another bit each time");
}

/// A packet without payload has no bit that could be damaged silently.
#[test]
fn a_segment_that_cannot_be_damaged_is_not_counted() {
    let mut link = link(|settings| settings.corrupt_silent = 1.0);
    let runs = send(&mut link, 0, &super_packet(1, 28));
    assert_eq!((runs[0].damage, link.counts().corrupted_silently), (None, 0));
    let runs = send(&mut link, 0, &super_packet(2, 29));
    assert!(runs.len() == 2 && runs.iter().all(|run| run.damage.is_some()));
}

/// Only the first of two equal segments is damaged.
#[test]
fn a_duplicate_of_a_damaged_segment_is_intact() {
    let mut link = link(|settings| (settings.corrupt, settings.duplicate) = (1.0, 1.0));
    let runs = send(&mut link, 0, &super_packet(10, 1_500));
    let damaged: Vec<bool> = runs.iter().map(|run| run.damage.is_some()).collect();
    assert_eq!(damaged, [true, false].repeat(10));
}

#[test]
fn a_lost_segment_has_no_other_disturbance() {
    let mut link = link(|settings| {
        (settings.loss, settings.duplicate, settings.corrupt, settings.reorder) = (Loss::Random(0.5), 0.5, 0.5, 0.5);
    });
    let all = send_many(&mut link, 40_000);
    let counts = link.counts();
    assert_eq!(all.len() as u64, 40_000 - counts.lost + counts.duplicated);
    for count in [counts.duplicated, counts.corrupted, counts.reordered] {
        assert!(is_likely(count, 40_000, 0.25), "{counts:?}");
    }
}

#[test]
fn jitter_keeps_the_order_and_its_bounds() {
    let mut link = link(|settings| {
        (settings.delay, settings.jitter) = (Duration::from_millis(10), Duration::from_millis(3));
    });
    let mut last = 0;
    let mut travels = Vec::new();
    // A packet each 10 ms: no packet is delayed by the one before.
    for number in 0..10_000 {
        let due = send(&mut link, number * 10 * MS, &super_packet(1, 1_500))[0].due;
        travels.push((due - number * 10 * MS) as f64 / 1e6);
        last = due;
    }
    assert!(travels.iter().all(|ms| (7.0..=13.0).contains(ms)));
    let mean = travels.iter().sum::<f64>() / 1e4;
    // Uniform: the standard deviation of one is 6 / sqrt(12) = 1.73.
    assert!((mean - 10.0).abs() < 4.0 * 0.0173, "{mean}");
    for (bound, side) in [(7.6, -1.0), (12.4, 1.0)] {
        let beyond = travels.iter().filter(|ms| (*ms - bound) * side > 0.0).count() as u64;
        assert!(is_likely(beyond, 10_000, 0.1), "{beyond} beyond {bound}");
    }
    // And a packet each 10 us: in order, and none later than the largest jitter makes it.
    for number in 0..10_000 {
        let now = 200 * S + number * 10 * US;
        let due = send(&mut link, now, &super_packet(1, 1_500))[0].due;
        assert!(due >= last && (now + 7 * MS..=now + 13 * MS).contains(&due));
        last = due;
    }
}

#[test]
fn more_jitter_than_delay_never_makes_the_delay_negative() {
    let mut link =
        link(|settings| (settings.delay, settings.jitter) = (Duration::from_millis(1), Duration::from_millis(5)));
    for number in 0..1_000 {
        let now = number * S;
        let due = send(&mut link, now, &super_packet(1, 1_500))[0].due;
        assert!((now..=now + 6 * MS).contains(&due));
    }
}

#[test]
fn the_same_seed_gives_the_same_disturbances() {
    let words = |settings: &mut LinkSettings| {
        (settings.loss, settings.duplicate, settings.corrupt, settings.reorder) = (Loss::Random(0.1), 0.1, 0.1, 0.1);
        (settings.jitter, settings.rate, settings.cross_traffic) =
            (Duration::from_millis(1), Some(BitRate(100_000_000_000)), Some(BitRate(1_000_000_000)));
    };
    let sent = |seed: u64| send_many(&mut seeded(seed, words), 4_000);
    assert_eq!(sent(1), sent(1));
    assert_ne!(sent(1), sent(2));
}

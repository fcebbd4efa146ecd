//! Words that change while packets flow.

use super::*;
use crate::scenario::{Loss, Policer, Word};

#[test]
fn a_queue_stays_when_the_rate_changes() {
    for (before, after) in [(80_000_000, 8_000_000), (8_000_000, 80_000_000), (80_000_000, 99_999_999_977)] {
        let mut link = link(|settings| (settings.rate, settings.queue) = (Some(BitRate(before)), bytes(1 << 30)));
        (0..2).for_each(|_| drop(send(&mut link, 0, &super_packet(40, 1_500))));
        let queued = link.backlog(MS);
        assert_eq!(queued, 120_000 - before / 8_000);
        link.set(MS, &[Word::Rate(Some(BitRate(after)))]);
        assert!(queued.abs_diff(link.backlog(MS)) <= 1, "{queued}, then {}", link.backlog(MS));
        let later = queued.saturating_sub(after / 8_000);
        assert!(later.abs_diff(link.backlog(2 * MS)) <= 1, "a millisecond of the new rate has gone");
    }
}

/// A faster bottleneck, or none, does not overtake the queue of the slow one.
#[test]
fn a_better_rate_keeps_the_order() {
    for after in [Some(BitRate(1_000_000_000)), None] {
        let mut link = link(|settings| (settings.rate, settings.queue) = (BYTE_PER_US, bytes(1_000_000)));
        let first = send(&mut link, 0, &super_packet(40, 1_500)).last().unwrap().due;
        assert_eq!(first, 60 * MS);
        link.set(MS, &[Word::Rate(after)]);
        let second = send(&mut link, 2 * MS, &super_packet(10, 1_500))[0].due;
        assert!(second >= first, "{second} is before {first}");
        let third = send(&mut link, 70 * MS, &super_packet(10, 1_500)).last().unwrap().due;
        assert!(third <= 70 * MS + 120 * US, "and then the old one is forgotten: {third}");
    }
}

#[test]
fn jitter_that_begins_keeps_the_order() {
    for seed in 0..20 {
        let mut link = seeded(seed, |settings| settings.delay = Duration::from_millis(50));
        let first = send(&mut link, 0, &super_packet(1, 1_500))[0].due;
        link.set(US, &[Word::Jitter(Duration::from_millis(40))]);
        assert!(send(&mut link, US, &super_packet(1, 1_500))[0].due >= first, "seed {seed}");
    }
}

/// The former policer would need minutes to refill its bucket; the new one takes over the missing tokens, and refills them quickly.
#[test]
fn a_new_policer_keeps_the_spent_tokens() {
    let slow = Policer { rate: BitRate(8_000), burst: Bytes(150_000) };
    let quick = Policer { rate: BitRate(800_000_000), burst: Bytes(150_000) };
    let mut link = link(|settings| settings.policer = Some(slow));
    (0..3).for_each(|_| drop(send(&mut link, 0, &super_packet(40, 1_500))));
    assert_eq!(link.counts().policed, 20, "empty, and full again after 150 s");
    link.set(MS, &[Word::Policer(Some(quick))]);
    // 100 bytes per microsecond fill it in 1.5 ms.
    assert_eq!(send(&mut link, 3 * MS, &super_packet(40, 1_500)).len(), 1);
    assert_eq!(link.counts().policed, 20);
    // And back: the tokens spent since are still owed.
    link.set(3 * MS, &[Word::Policer(Some(slow))]);
    send(&mut link, 3 * MS, &super_packet(43, 1_500));
    send(&mut link, 3 * MS, &super_packet(43, 1_500));
    assert_eq!(link.counts().policed, 20 + 26, "90,000 of 150,000 bytes were left");
}

#[test]
fn a_change_returns_its_reversal() {
    let mut link = link(|settings| (settings.rate, settings.delay) = (BYTE_PER_US, Duration::from_millis(5)));
    let before = link.settings().clone();
    let words = [
        Word::Delay(Duration::from_millis(9)),
        Word::Loss(Loss::Every(3)),
        Word::Rate(None),
        Word::Down(true),
        Word::Delay(Duration::from_millis(1)),
        Word::CrossTraffic(Some(BitRate(1_000))),
        Word::Duplicate(0.5),
        Word::Policer(Some(Policer { rate: BitRate(1_000), burst: Bytes(2_000) })),
        Word::Queue(Queue::Time(RTT)),
        Word::MtuBlackHole(Some(700)),
    ];
    let back = link.set(0, &words);
    assert_eq!(back[0], Word::MtuBlackHole(None), "the last change is the first to go");
    assert_eq!(back.last(), Some(&Word::Delay(Duration::from_millis(5))), "also where a word stands twice");
    assert_eq!(link.settings().delay, Duration::from_millis(1));
    link.set(0, &back);
    assert_eq!(*link.settings(), before);
    assert_eq!(send(&mut link, 0, &super_packet(1, 1_000))[0].due, 6 * MS);
}

#[test]
fn disturbances_come_and_go() {
    let mut link = link(|_| ());
    let count = |link: &mut Link| {
        let before = link.counts();
        send_many(link, 4_000);
        let now = link.counts().since(&before);
        [now.lost, now.duplicated, now.reordered, now.corrupted, now.corrupted_silently]
    };
    assert_eq!(count(&mut link), [0; 5]);
    let words = [
        (Word::Loss(Loss::Random(1.0)), 0),
        (Word::Duplicate(1.0), 1),
        (Word::Reorder(1.0), 2),
        (Word::Corrupt(1.0), 3),
        (Word::CorruptSilent(1.0), 4),
    ];
    for (word, position) in words {
        let back = link.set(0, &[word]);
        let mut wanted = [0; 5];
        wanted[position] = 4_000;
        assert_eq!(count(&mut link), wanted);
        link.set(0, &back);
        assert_eq!(count(&mut link), [0; 5]);
    }
}

#[test]
fn cross_traffic_that_begins_later_has_no_backlog() {
    let mut link = link(|settings| settings.rate = Some(BitRate(1_000_000_000)));
    send(&mut link, 100 * S, &super_packet(1, 1_500));
    link.set(100 * S, &[Word::CrossTraffic(Some(BitRate(400_000_000)))]);
    send(&mut link, 100 * S + MS, &super_packet(1, 1_500));
    // 33 packets in a millisecond, and chance.
    let others = link.counts().cross_bytes / 1_500;
    assert!((10..70).contains(&others), "{others}");
}

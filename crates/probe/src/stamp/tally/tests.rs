//! Counts against an injected truth: a path that loses, copies and swaps packets by direction, and says how many.

use proptest::prelude::*;

use super::*;

/// What happens to one packet on one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketFate {
    Passes,
    Lost,
    Copied,
    /// Overtaken by the next one.
    Overtaken,
}
use PacketFate::{Copied, Lost, Overtaken, Passes};

/// What comes out of a way, of what went in.
fn pass<T: Copy>(packets: &[T], fate: impl Fn(T) -> PacketFate) -> Vec<T> {
    let mut out = Vec::new();
    let mut held: Option<T> = None;
    for packet in packets {
        let fate = fate(*packet);
        match fate {
            Lost => continue,
            Overtaken if held.is_none() => {
                held = Some(*packet);
                continue;
            }
            _ => out.push(*packet),
        }
        out.extend((fate == Copied).then_some(*packet));
        out.extend(held.take());
    }
    out.extend(held);
    out
}

/// Which of the numbers stand behind a larger one.
fn behind(numbers: &[u64]) -> u64 {
    (0..numbers.len()).filter(|at| numbers[..*at].iter().any(|earlier| *earlier > numbers[*at])).count() as u64
}

fn first_ones(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut seen = Vec::new();
    numbers.for_each(|n| {
        if !seen.contains(&n) {
            seen.push(n)
        }
    });
    seen
}

/// Numbers, and how often.
type Runs = Vec<(u64, u32)>;

/// A test of `forward.len()` packets with a reflector that counts from `start`, or copies the sender's numbers.
struct Path<'a> {
    forward: &'a [PacketFate],
    reverse: &'a [PacketFate],
    start: u32,
    counts: bool,
}

impl Path<'_> {
    /// Fate of the answer to a packet; of a copied packet, to both copies.
    fn run(&self) -> (Packets, Runs, Runs) {
        let count = self.forward.len() as u64;
        let mut tally = Tally::new(8);
        (0..count).for_each(|_| tally.sent());
        let sent: Vec<u64> = (0..count).collect();
        let at_reflector = pass(&sent, |n| self.forward[n as usize]);
        let numbered = at_reflector.iter().zip(self.start..);
        let answers: Vec<(u64, u32)> =
            numbered.map(|(n, number)| (*n, if self.counts { number } else { *n as u32 })).collect();
        let came = pass(&answers, |(n, _)| self.reverse[n as usize]);
        for (sequence, number) in &came {
            assert_ne!(tally.answer(*sequence as u32, *number, true), Verdict::Stranger);
        }
        if tally.wants_closing() {
            let sequence = tally.next_closer();
            tally.closer_sent();
            let number = if self.counts { self.start + at_reflector.len() as u32 } else { sequence };
            assert_eq!(tally.answer(sequence, number, true), Verdict::First);
            assert!(!tally.wants_closing(), "one that is answered is enough");
        }
        (tally.packets(), answers, came)
    }
}

fn count(fates: &[PacketFate], fate: PacketFate) -> u64 {
    fates.iter().filter(|f| **f == fate).count() as u64
}

proptest! {
    #[test]
    fn every_loss_copy_and_swap_is_found_on_its_way(
        fates in proptest::collection::vec((0u8..20, 0u8..20), 2..150),
    ) {
        let fate = |n| [Lost, Lost, Copied, Overtaken].get(usize::from(n)).copied().unwrap_or(Passes);
        let forward: Vec<PacketFate> = fates.iter().map(|(f, _)| fate(*f)).collect();
        let mut reverse: Vec<PacketFate> = fates.iter().map(|(_, b)| fate(*b)).collect();
        // What nobody can see: the answer of a copied packet, or of a lost one, that does anything of its own.
        for (f, b) in forward.iter().zip(&mut reverse) {
            if *f != Passes && *f != Overtaken {
                *b = Passes;
            }
        }
        let path = Path { forward: &forward, reverse: &reverse, start: 0, counts: true };
        let (packets, answers, came) = path.run();
        prop_assume!(packets.received > 0);
        let (there, back) = (count(&forward, Lost), count(&reverse, Lost));
        prop_assert_eq!(packets.lost, there + back);
        if packets.stateful == Some(true) {
            prop_assert_eq!((packets.lost_forward, packets.lost_reverse), (Some(there), Some(back)));
            prop_assert_eq!(packets.duplicates_forward, Some(count(&forward, Copied)));
            prop_assert_eq!(packets.duplicates_reverse, Some(count(&reverse, Copied)));
        } else {
            // Nothing was odd but what cannot be: then nothing is to be told apart.
            prop_assert_eq!((there, back, packets.duplicates, packets.reordered), (0, 0, 0, 0));
        }
        prop_assert_eq!(packets.lost_unplaced, 0);
        prop_assert_eq!(packets.reordered, behind(&first_ones(came.iter().map(|c| c.0))));
        let by_number = answers.iter().filter(|a| came.contains(a)).map(|a| a.0);
        prop_assert_eq!(packets.reordered_forward, Some(behind(&first_ones(by_number))));
        prop_assert_eq!(packets.reordered_reverse, Some(behind(&first_ones(came.iter().map(|c| c.1.into())))));
    }

    #[test]
    fn any_answers_are_counted_within_bounds(
        answers in proptest::collection::vec((0u32..40, prop_oneof![0u32..60, any::<u32>()], any::<bool>()), 0..200),
        sent in 0u64..30,
        closers in 0u64..3,
    ) {
        let mut tally = Tally::new(1);
        (0..sent).for_each(|_| tally.sent());
        (0..closers).for_each(|_| tally.closer_sent());
        for (sequence, number, in_time) in answers {
            let verdict = tally.answer(sequence, number, in_time);
            prop_assert_eq!(verdict == Verdict::Stranger, sequence as u64 == sent || sequence as u64 > sent + closers
                || (closers == 0 && sequence as u64 >= sent));
        }
        let packets = tally.packets();
        prop_assert_eq!(packets.sent, packets.received + packets.lost);
        let placed = packets.lost_forward.unwrap_or(0) + packets.lost_reverse.unwrap_or(0);
        prop_assert_eq!(packets.lost, placed + packets.lost_unplaced);
        prop_assert_eq!(packets.lost_forward.is_none(), packets.direction_unknown.is_some());
    }
}

#[test]
fn a_reflector_that_copies_is_found_out() {
    let forward = [Passes, Lost, Passes, Passes];
    let path = Path { forward: &forward, reverse: &[Passes; 4], start: 0, counts: false };
    let (packets, ..) = path.run();
    assert_eq!((packets.stateful, packets.lost, packets.lost_unplaced), (Some(false), 1, 1));
    assert!(packets.direction_unknown.unwrap().contains("stateful mode"));
}

#[test]
fn losses_on_the_way_back_alone_need_the_gap_in_the_closing_numbers() {
    let reverse = [Passes, Lost, Passes, Lost];
    let path = Path { forward: &[Passes; 4], reverse: &reverse, start: 0, counts: true };
    let (packets, ..) = path.run();
    assert_eq!((packets.stateful, packets.lost_forward, packets.lost_reverse), (Some(true), Some(0), Some(2)));
}

#[test]
fn a_reflector_that_had_counted_before() {
    let forward = [Passes, Passes, Lost, Passes, Passes];
    let reverse = [Lost, Passes, Passes, Lost, Passes];
    let (packets, ..) = Path { forward: &forward, reverse: &reverse, start: 4_000_000_000, counts: true }.run();
    assert_eq!((packets.lost, packets.lost_unplaced), (3, 1), "nobody knows where the first one went");
    assert_eq!((packets.lost_forward, packets.lost_reverse), (Some(1), Some(1)));
}

#[test]
fn what_is_lost_at_the_end_of_a_peer_that_vanishes_is_not_placed() {
    let mut tally = Tally::new(8);
    (0..10).for_each(|_| tally.sent());
    // The third was lost on the way there; four answers in all.
    for (sequence, number) in [(0, 0), (1, 1), (3, 2), (4, 3)] {
        tally.answer(sequence, number, true);
    }
    assert!(tally.wants_closing());
    (0..3).for_each(|_| tally.closer_sent());
    assert!(tally.wants_closing());
    let packets = tally.packets();
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.lost_unplaced), (Some(1), Some(0), 5));
    assert_eq!((packets.lost, packets.direction_unknown), (6, None));
}

#[test]
fn a_lost_closing_packet_leaves_one_in_doubt() {
    // Six sent, the last two unanswered: one lost each way. The first closing packet is lost too, on the way back.
    let mut tally = Tally::new(8);
    (0..6).for_each(|_| tally.sent());
    (0..4).for_each(|n| assert_eq!(tally.answer(n, n, true), Verdict::First));
    (0..2).for_each(|_| tally.closer_sent());
    tally.answer(8, 6, true);
    let packets = tally.packets();
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.lost_unplaced), (Some(0), Some(1), 1));
}

#[test]
fn late_answers_are_told_and_not_placed() {
    let mut tally = Tally::new(8);
    (0..3).for_each(|_| tally.sent());
    tally.answer(0, 0, true);
    tally.answer(2, 2, true);
    tally.answer(1, 1, false);
    assert_eq!(tally.answer(1, 1, false), Verdict::Copy);
    let closer = tally.next_closer();
    assert_eq!(closer, 4, "3 is left out");
    tally.closer_sent();
    tally.answer(closer, 3, true);
    let packets = tally.packets();
    assert_eq!((packets.received, packets.lost, packets.late, packets.duplicates), (2, 1, 1, 1));
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.lost_unplaced), (Some(0), Some(0), 1));
}

#[test]
fn a_reflector_that_begins_again_says_nothing_about_directions() {
    let mut tally = Tally::new(8);
    (0..6).for_each(|_| tally.sent());
    for (sequence, number) in [(0, 0), (1, 1), (3, 2), (4, 0), (5, 1)] {
        tally.answer(sequence, number, true);
    }
    let packets = tally.packets();
    assert!(packets.direction_unknown.unwrap().contains("do not follow"));
    assert_eq!((packets.lost_forward, packets.lost_unplaced, packets.stateful), (None, 1, None));
}

#[test]
fn nothing_at_all() {
    let packets = Tally::new(8).packets();
    assert_eq!((packets.sent, packets.lost_forward, packets.direction_unknown), (0, Some(0), None));
    let mut tally = Tally::new(8);
    tally.sent();
    assert!(!tally.wants_closing());
    assert_eq!(tally.packets().direction_unknown.as_deref(), Some("no answer came back in time"));
}

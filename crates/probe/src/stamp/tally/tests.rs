//! The tally on a simulated path that loses, copies and reorders packets in each direction, and knows how many.

use proptest::prelude::*;

use super::*;

/// What happens to one packet in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketFate {
    Passes,
    Lost,
    Copied,
    /// Overtaken by the next one.
    Overtaken,
}
use PacketFate::{Copied, Lost, Overtaken, Passes};

/// The packets that leave one direction of the path, of those that entered it.
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

/// How many of the numbers follow a larger one.
fn reordered(numbers: &[u64]) -> u64 {
    (0..numbers.len()).filter(|at| numbers[..*at].iter().any(|earlier| *earlier > numbers[*at])).count() as u64
}

fn without_repeats(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut seen = Vec::new();
    numbers.for_each(|n| {
        if !seen.contains(&n) {
            seen.push(n)
        }
    });
    seen
}

/// Packets, and the reflector's number of each answer.
type Answers = Vec<(u64, u32)>;

/// A test of `forward.len()` packets with a reflector that counts from `start`, or copies the sender's numbers.
struct Path<'a> {
    forward: &'a [PacketFate],
    reverse: &'a [PacketFate],
    start: u32,
    counts: bool,
}

impl Path<'_> {
    /// Runs the test. Returns its result, the answers that were sent, and those that arrived.
    fn run(&self) -> (Packets, Answers, Answers) {
        let count = self.forward.len() as u64;
        let mut tally = PacketCounts::new(8);
        (0..count).for_each(|_| tally.sent());
        let sent: Vec<u64> = (0..count).collect();
        let at_reflector = pass(&sent, |n| self.forward[n as usize]);
        let numbered = at_reflector.iter().zip(self.start..);
        let answers: Vec<(u64, u32)> =
            numbered.map(|(n, number)| (*n, if self.counts { number } else { *n as u32 })).collect();
        let arrived = pass(&answers, |(n, _)| self.reverse[n as usize]);
        for (sequence, number) in &arrived {
            assert_ne!(tally.answer(*sequence as u32, *number, true), AnswerKind::Stranger);
        }
        if tally.wants_closing() {
            let sequence = tally.next_closer();
            tally.closer_sent();
            let number = if self.counts { self.start + at_reflector.len() as u32 } else { sequence };
            assert_eq!(tally.answer(sequence, number, true), AnswerKind::First);
            assert!(!tally.wants_closing(), "one that is answered is enough");
        }
        (tally.packets(), answers, arrived)
    }
}

fn count(fates: &[PacketFate], fate: PacketFate) -> u64 {
    fates.iter().filter(|f| **f == fate).count() as u64
}

proptest! {
    #[test]
    fn every_loss_copy_and_swap_is_found_in_its_direction(
        fates in proptest::collection::vec((0u8..20, 0u8..20), 2..150),
    ) {
        let fate = |n| [Lost, Lost, Copied, Overtaken].get(usize::from(n)).copied().unwrap_or(Passes);
        let forward: Vec<PacketFate> = fates.iter().map(|(f, _)| fate(*f)).collect();
        let mut reverse: Vec<PacketFate> = fates.iter().map(|(_, b)| fate(*b)).collect();
        // The fate of an answer to a copied or a lost packet cannot be observed, so these answers pass.
        for (f, b) in forward.iter().zip(&mut reverse) {
            if *f != Passes && *f != Overtaken {
                *b = Passes;
            }
        }
        let path = Path { forward: &forward, reverse: &reverse, start: 0, counts: true };
        let (packets, answers, arrived) = path.run();
        prop_assume!(packets.received > 0);
        let lost_forward = count(&forward, Lost);
        let lost_reverse = count(&reverse, Lost);
        prop_assert_eq!(packets.lost, lost_forward + lost_reverse);
        if packets.stateful == Some(true) {
            prop_assert_eq!((packets.lost_forward, packets.lost_reverse), (Some(lost_forward), Some(lost_reverse)));
            prop_assert_eq!(packets.duplicates_forward, Some(count(&forward, Copied)));
            prop_assert_eq!(packets.duplicates_reverse, Some(count(&reverse, Copied)));
        } else {
            // Only where nothing was lost, copied or reordered can the reflector's state stay unknown.
            prop_assert_eq!((lost_forward, lost_reverse, packets.duplicates, packets.reordered), (0, 0, 0, 0));
        }
        prop_assert_eq!(packets.lost_unplaced, 0);
        prop_assert_eq!(packets.reordered, reordered(&without_repeats(arrived.iter().map(|a| a.0))));
        let by_number = answers.iter().filter(|a| arrived.contains(a)).map(|a| a.0);
        prop_assert_eq!(packets.reordered_forward, Some(reordered(&without_repeats(by_number))));
        prop_assert_eq!(packets.reordered_reverse, Some(reordered(&without_repeats(arrived.iter().map(|a| a.1.into())))));
    }

    #[test]
    fn any_answers_are_counted_within_bounds(
        answers in proptest::collection::vec((0u32..40, prop_oneof![0u32..60, any::<u32>()], any::<bool>()), 0..200),
        sent in 0u64..30,
        closers in 0u64..3,
    ) {
        let mut tally = PacketCounts::new(1);
        (0..sent).for_each(|_| tally.sent());
        (0..closers).for_each(|_| tally.closer_sent());
        for (sequence, number, in_time) in answers {
            let kind = tally.answer(sequence, number, in_time);
            prop_assert_eq!(kind == AnswerKind::Stranger, sequence as u64 == sent || sequence as u64 > sent + closers
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
fn a_reflector_that_copies_is_recognised() {
    let forward = [Passes, Lost, Passes, Passes];
    let path = Path { forward: &forward, reverse: &[Passes; 4], start: 0, counts: false };
    let (packets, ..) = path.run();
    assert_eq!((packets.stateful, packets.lost, packets.lost_unplaced), (Some(false), 1, 1));
    assert!(packets.direction_unknown.unwrap().contains("stateful mode"));
}

#[test]
fn losses_in_reverse_alone_are_placed_by_the_gap_in_the_closing_numbers() {
    let reverse = [Passes, Lost, Passes, Lost];
    let path = Path { forward: &[Passes; 4], reverse: &reverse, start: 0, counts: true };
    let (packets, ..) = path.run();
    assert_eq!((packets.stateful, packets.lost_forward, packets.lost_reverse), (Some(true), Some(0), Some(2)));
}

#[test]
fn a_loss_before_the_first_answer_of_a_stale_count_has_no_direction() {
    let forward = [Passes, Passes, Lost, Passes, Passes];
    let reverse = [Lost, Passes, Passes, Lost, Passes];
    let (packets, ..) = Path { forward: &forward, reverse: &reverse, start: 4_000_000_000, counts: true }.run();
    assert_eq!((packets.lost, packets.lost_unplaced), (3, 1), "the direction of the first one is unknown");
    assert_eq!((packets.lost_forward, packets.lost_reverse), (Some(1), Some(1)));
}

#[test]
fn losses_after_the_last_answer_of_a_vanished_peer_have_no_direction() {
    let mut tally = PacketCounts::new(8);
    (0..10).for_each(|_| tally.sent());
    // The third packet was lost forward; there are four answers.
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
fn a_lost_closing_packet_leaves_one_loss_without_direction() {
    // Six packets, the last two unanswered: one was lost in each direction. The first closing packet is lost in reverse, too.
    let mut tally = PacketCounts::new(8);
    (0..6).for_each(|_| tally.sent());
    (0..4).for_each(|n| assert_eq!(tally.answer(n, n, true), AnswerKind::First));
    (0..2).for_each(|_| tally.closer_sent());
    tally.answer(8, 6, true);
    let packets = tally.packets();
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.lost_unplaced), (Some(0), Some(1), 1));
}

#[test]
fn a_late_answer_is_counted_and_has_no_direction() {
    let mut tally = PacketCounts::new(8);
    (0..3).for_each(|_| tally.sent());
    tally.answer(0, 0, true);
    tally.answer(2, 2, true);
    tally.answer(1, 1, false);
    assert_eq!(tally.answer(1, 1, false), AnswerKind::Copy);
    let closer = tally.next_closer();
    assert_eq!(closer, 4, "3 is left out");
    tally.closer_sent();
    tally.answer(closer, 3, true);
    let packets = tally.packets();
    assert_eq!((packets.received, packets.lost, packets.late, packets.duplicates), (2, 1, 1, 1));
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.lost_unplaced), (Some(0), Some(0), 1));
}

#[test]
fn a_reflector_that_restarts_its_count_leaves_losses_without_direction() {
    let mut tally = PacketCounts::new(8);
    (0..6).for_each(|_| tally.sent());
    for (sequence, number) in [(0, 0), (1, 1), (3, 2), (4, 0), (5, 1)] {
        tally.answer(sequence, number, true);
    }
    let packets = tally.packets();
    assert!(packets.direction_unknown.unwrap().contains("do not follow"));
    assert_eq!((packets.lost_forward, packets.lost_unplaced, packets.stateful), (None, 1, None));
}

#[test]
fn a_test_without_answers_has_no_directions() {
    let packets = PacketCounts::new(8).packets();
    assert_eq!((packets.sent, packets.lost_forward, packets.direction_unknown), (0, Some(0), None));
    let mut tally = PacketCounts::new(8);
    tally.sent();
    assert!(!tally.wants_closing());
    assert_eq!(tally.packets().direction_unknown.as_deref(), Some("no answer came back in time"));
}

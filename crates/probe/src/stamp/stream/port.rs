//! One source port of a stream: its packets in flight, and the direction in which packets were lost.
//!
//! The reflector numbers its answers to each port. Between two answered packets the sender's numbers grew by all packets, the
//! reflector's by those that arrived there: packets that the reflector counted were lost in reverse, the others forward.

use std::collections::VecDeque;

use model::v1::node::PortLoss;

use super::Reply;
use super::minute::{Direction, Minute, Sample};
use crate::stamp::clock::Reading;

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    pub minute: u64,
    pub left: Reading,
    pub answer: Option<FirstAnswer>,
}

/// The first answer to a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstAnswer {
    reply: Reply,
    back: Reading,
    /// It arrived after an answer that left later.
    is_overtaken: bool,
}

/// How an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    First,
    /// A duplicate, of a packet of this minute.
    Copy(u64),
    /// The packet was never sent, counts as lost, or is no longer known.
    Stranger,
}

/// Answers overtake each other by this many at most; a larger distance means that the reflector began a new count.
const REORDER_MAX: u32 = 64;
/// Settled packets whose duplicates are recognised.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub(super) struct Port {
    pub name: u64,
    /// Its UDP port; 0 until it is bound.
    pub number: u16,
    /// It sends no more, and is removed when none of its packets is in flight.
    pub is_retiring: bool,
    next: u32,
    /// The number of the first of `flight`.
    first: u32,
    flight: VecDeque<SentPacket>,
    /// For each of the last settled packets, the latest first: its minute, if it was answered.
    settled: VecDeque<Option<u64>>,
    /// The last settled packet that was answered: its number, and the reflector's number.
    anchor: Option<(u32, u32)>,
    /// Numbers of the reflector below the anchor's that no answer has had yet.
    unseen: u64,
    /// Packets lost since the anchor, by minute.
    pending: Vec<(u64, u64)>,
    /// The largest number of the reflector so far, in the order in which answers came.
    highest: Option<u32>,
    /// Sent and lost, by minute.
    by_minute: Vec<(u64, PortLoss)>,
}

impl Port {
    pub fn new(name: u64) -> Port {
        Port {
            name,
            number: 0,
            is_retiring: false,
            next: 1,
            first: 1,
            flight: VecDeque::new(),
            settled: VecDeque::new(),
            anchor: None,
            unseen: 0,
            pending: Vec::new(),
            highest: None,
            by_minute: Vec::new(),
        }
    }

    /// Whether no packet is in flight.
    pub fn is_empty(&self) -> bool {
        self.flight.is_empty()
    }

    /// Counts a packet that leaves; returns its number.
    pub fn send(&mut self, sent: SentPacket) -> u32 {
        self.tally(sent.minute).sent += 1;
        self.flight.push_back(sent);
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        sequence
    }

    /// Removes the last packet, which could not be sent.
    pub fn take_back(&mut self, sequence: u32) -> Option<SentPacket> {
        if self.next.wrapping_sub(1) != sequence {
            return None;
        }
        let sent = self.flight.pop_back()?;
        self.next = sequence;
        let tally = self.tally(sent.minute);
        tally.sent = tally.sent.saturating_sub(1);
        Some(sent)
    }

    fn tally(&mut self, minute: u64) -> &mut PortLoss {
        let at = self.by_minute.iter().position(|(known, _)| *known == minute).unwrap_or_else(|| {
            self.by_minute.push((minute, PortLoss::default()));
            self.by_minute.len() - 1
        });
        &mut self.by_minute[at].1
    }

    /// Takes an answer.
    pub fn reply(&mut self, reply: &Reply, back: &Reading) -> ReplyKind {
        let is_overtaken = reply
            .number
            .zip(self.highest)
            .is_some_and(|(number, highest)| number < highest && highest - number <= REORDER_MAX);
        let Some(sent) = self.flight.get_mut(reply.asked.wrapping_sub(self.first) as usize) else {
            let ago = self.first.wrapping_sub(reply.asked).wrapping_sub(1) as usize;
            let minute = self.settled.get(ago).copied().flatten();
            return minute.map_or(ReplyKind::Stranger, ReplyKind::Copy);
        };
        if sent.answer.is_some() {
            return ReplyKind::Copy(sent.minute);
        }
        sent.answer = Some(FirstAnswer { reply: *reply, back: *back, is_overtaken });
        if !is_overtaken {
            self.highest = reply.number;
        }
        ReplyKind::First
    }

    /// Settles packets that are answered or overdue, in the order of their numbers.
    pub fn settle(&mut self, now_ns: i64, timeout_ns: i64, minutes: &mut VecDeque<Minute>) {
        while let Some(sent) = self.flight.front().copied() {
            let is_overdue = now_ns.saturating_sub(sent.left.mono_ns) >= timeout_ns;
            if sent.answer.is_none() && !is_overdue {
                return;
            }
            let sequence = self.first;
            self.flight.pop_front();
            self.first = self.first.wrapping_add(1);
            self.settled.push_front(sent.answer.map(|_| sent.minute));
            self.settled.truncate(REMEMBERED);
            match &sent.answer {
                Some(answer) => self.answered(sequence, &sent, answer, minutes),
                None => self.overdue(sent.minute),
            }
        }
    }

    fn overdue(&mut self, minute: u64) {
        self.tally(minute).lost += 1;
        match self.pending.iter_mut().find(|(known, _)| *known == minute) {
            Some((_, count)) => *count += 1,
            None => self.pending.push((minute, 1)),
        }
    }

    fn answered(&mut self, sequence: u32, sent: &SentPacket, answer: &FirstAnswer, minutes: &mut VecDeque<Minute>) {
        let is_overtaken_forward = answer.reply.number.is_some_and(|number| self.place(sequence, number, minutes));
        let Some(minute) = minutes.iter_mut().find(|minute| minute.number == sent.minute) else { return };
        minute.report.reordered_forward += u64::from(is_overtaken_forward);
        minute.report.reordered_reverse += u64::from(answer.is_overtaken);
        minute.received(sample(sent, &answer.reply, &answer.back));
    }

    /// Places the packets that were lost before this answer; returns whether its packet was overtaken in forward direction.
    fn place(&mut self, sequence: u32, number: u32, minutes: &mut VecDeque<Minute>) -> bool {
        let lost: u64 = self.pending.iter().map(|(_, count)| count).sum();
        if number == sequence {
            // The reflector copies the sender's numbers, which then tell nothing.
            self.give_up(minutes);
            return false;
        }
        let between = match self.anchor {
            // A reflector counts from 0 for a port that it has not seen before.
            None => Some(u64::from(number)).filter(|before| *before <= lost),
            Some((_, last)) if number > last => Some(u64::from(number - last - 1)),
            Some(_) if self.unseen > 0 => {
                self.unseen -= 1;
                self.spread(lost, minutes);
                return true;
            }
            // The reflector began a new count.
            Some(_) => None,
        };
        self.anchor = Some((sequence, number));
        match between {
            Some(between) => {
                self.unseen += between.saturating_sub(lost);
                self.spread(lost.saturating_sub(between), minutes);
            }
            None => {
                self.unseen = 0;
                self.give_up(minutes);
            }
        }
        false
    }

    /// Places the pending packets: the first `forward` of them were lost forward, the rest in reverse.
    fn spread(&mut self, mut forward: u64, minutes: &mut VecDeque<Minute>) {
        for (number, count) in std::mem::take(&mut self.pending) {
            let there = count.min(forward);
            forward -= there;
            self.tally(number).lost_reverse += (count - there) as u32;
            if let Some(minute) = minutes.iter_mut().find(|minute| minute.number == number) {
                minute.lost(there, Direction::Forward);
                minute.lost(count - there, Direction::Reverse);
            }
        }
    }

    /// Leaves the pending packets unplaced: their direction cannot be known any more.
    pub fn give_up(&mut self, minutes: &mut VecDeque<Minute>) {
        for (number, count) in std::mem::take(&mut self.pending) {
            if let Some(minute) = minutes.iter_mut().find(|minute| minute.number == number) {
                minute.lost(count, Direction::Unplaced);
            }
        }
    }

    /// Closes a minute that is reported: its pending packets stay unplaced.
    pub fn leave(&mut self, minute: &mut Minute) {
        self.pending.retain(|(number, count)| {
            let is_its = *number <= minute.number;
            if is_its {
                minute.lost(*count, Direction::Unplaced);
            }
            !is_its
        });
        let port = self.number;
        self.by_minute.retain(|(number, loss)| {
            let is_its = *number <= minute.number;
            if is_its {
                minute.port(PortLoss { port, ..*loss });
            }
            !is_its
        });
    }
}

fn sample(sent: &SentPacket, reply: &Reply, back: &Reading) -> Sample {
    let away_ns = back.mono_ns - sent.left.mono_ns;
    let held_ns = reply.there.map_or(0, |(came, answered)| answered.saturating_sub(came));
    // A residence time longer than the round trip cannot be true.
    let held_ns = if (0..=away_ns).contains(&held_ns) { held_ns } else { 0 };
    let one_way = reply.there.map(|(came, answered)| {
        (came.saturating_sub(sent.left.real_ns) / 1_000, back.real_ns.saturating_sub(answered) / 1_000)
    });
    Sample { round_trip_us: (away_ns - held_ns) / 1_000, one_way_us: one_way }
}

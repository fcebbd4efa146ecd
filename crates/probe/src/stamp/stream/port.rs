//! One source port of a stream: its packets in flight, and the direction in which packets were lost.
//!
//! The reflector numbers its answers to each port. Between two answered packets, the sender's numbers grow by all packets, the
//! reflector's by those that arrived there. Lost packets that the reflector counted were lost in reverse, the others forward.

use std::collections::VecDeque;

use model::v1::node::PortLoss;

use super::Reply;
use super::minute::{Direction, Minute, Sample};
use crate::stamp::clock::Reading;

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    pub minute: u64,
    pub clocks: Reading,
    pub answer: Option<FirstAnswer>,
}

/// The first answer to a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstAnswer {
    reply: Reply,
    arrived: Reading,
    /// It arrived after an answer that was sent later.
    is_overtaken: bool,
}

/// How an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    First,
    /// A duplicate, of a packet of this minute.
    Copy(u64),
    /// The packet was never sent, counts as lost, or is no longer stored.
    Stranger,
}

/// Most answers by which one may be overtaken; a larger distance means that the reflector began a new count.
const REORDER_MAX: u32 = 64;
/// Settled packets whose duplicates are recognised.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub(super) struct Port {
    pub id: u64,
    /// The number of its UDP port; 0 until it is bound.
    pub number: u16,
    /// It sends no more packets, and is removed when none of its packets is in flight.
    pub is_retiring: bool,
    next: u32,
    /// The number of the first of `flight`.
    first: u32,
    flight: VecDeque<SentPacket>,
    /// For each of the last settled packets, the latest first: its minute, if it was answered.
    settled: VecDeque<Option<u64>>,
    /// The last settled packet that was answered: its number, and the reflector's number.
    anchor: Option<(u32, u32)>,
    /// Numbers of the reflector below the anchor's that no answer has carried yet.
    unseen: u64,
    /// Packets lost since the anchor, by minute.
    pending: Vec<(u64, u64)>,
    /// The largest number of the reflector so far, in the order of arrival.
    highest: Option<u32>,
    /// Sent and lost, by minute.
    by_minute: Vec<(u64, PortLoss)>,
}

impl Port {
    pub fn new(id: u64) -> Port {
        Port {
            id,
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

    /// Counts a packet that is sent; returns its number.
    pub fn send(&mut self, sent: SentPacket) -> u32 {
        self.counts(sent.minute).sent += 1;
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
        let counts = self.counts(sent.minute);
        counts.sent = counts.sent.saturating_sub(1);
        Some(sent)
    }

    /// This port's counts of a minute.
    fn counts(&mut self, minute: u64) -> &mut PortLoss {
        let at = self.by_minute.iter().position(|(known, _)| *known == minute).unwrap_or_else(|| {
            self.by_minute.push((minute, PortLoss::default()));
            self.by_minute.len() - 1
        });
        &mut self.by_minute[at].1
    }

    /// Takes an answer.
    pub fn reply(&mut self, reply: &Reply, arrived: &Reading) -> ReplyKind {
        let is_overtaken = reply
            .number
            .zip(self.highest)
            .is_some_and(|(number, highest)| number < highest && highest - number <= REORDER_MAX);
        let Some(sent) = self.flight.get_mut(reply.question_sequence.wrapping_sub(self.first) as usize) else {
            let index = self.first.wrapping_sub(reply.question_sequence).wrapping_sub(1) as usize;
            let minute = self.settled.get(index).copied().flatten();
            return minute.map_or(ReplyKind::Stranger, ReplyKind::Copy);
        };
        if sent.answer.is_some() {
            return ReplyKind::Copy(sent.minute);
        }
        sent.answer = Some(FirstAnswer { reply: *reply, arrived: *arrived, is_overtaken });
        if !is_overtaken {
            self.highest = reply.number;
        }
        ReplyKind::First
    }

    /// Settles packets that are answered or overdue, in the order of their numbers.
    pub fn settle(&mut self, now_ns: i64, timeout_ns: i64, minutes: &mut VecDeque<Minute>) {
        while let Some(sent) = self.flight.front().copied() {
            let is_overdue = now_ns.saturating_sub(sent.clocks.mono_ns) >= timeout_ns;
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
        self.counts(minute).lost += 1;
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
        minute.received(sample(sent, &answer.reply, &answer.arrived));
    }

    /// Assigns directions to the packets that were lost before this answer; returns whether its packet was overtaken in forward
    /// direction.
    fn place(&mut self, sequence: u32, number: u32, minutes: &mut VecDeque<Minute>) -> bool {
        let lost: u64 = self.pending.iter().map(|(_, count)| count).sum();
        if number == sequence {
            // The reflector copies the sender's numbers, which show no direction.
            self.lose_direction(minutes);
            return false;
        }
        let between = match self.anchor {
            // A reflector counts from 0 for a port that it has not seen before.
            None => Some(u64::from(number)).filter(|before| *before <= lost),
            Some((_, last)) if number > last => Some(u64::from(number - last - 1)),
            Some(_) if self.unseen > 0 => {
                self.unseen -= 1;
                self.place_pending(lost, minutes);
                return true;
            }
            // The reflector began a new count.
            Some(_) => None,
        };
        self.anchor = Some((sequence, number));
        match between {
            Some(between) => {
                self.unseen += between.saturating_sub(lost);
                self.place_pending(lost.saturating_sub(between), minutes);
            }
            None => {
                self.unseen = 0;
                self.lose_direction(minutes);
            }
        }
        false
    }

    /// Counts the first `forward` pending packets as lost forward, the rest as lost in reverse.
    fn place_pending(&mut self, mut forward: u64, minutes: &mut VecDeque<Minute>) {
        for (number, count) in std::mem::take(&mut self.pending) {
            let lost_forward = count.min(forward);
            forward -= lost_forward;
            self.counts(number).lost_reverse += (count - lost_forward) as u32;
            if let Some(minute) = minutes.iter_mut().find(|minute| minute.number == number) {
                minute.lost(lost_forward, Direction::Forward);
                minute.lost(count - lost_forward, Direction::Reverse);
            }
        }
    }

    /// Counts the pending packets as lost without a direction: it cannot be found any more.
    fn lose_direction(&mut self, minutes: &mut VecDeque<Minute>) {
        for (number, count) in std::mem::take(&mut self.pending) {
            if let Some(minute) = minutes.iter_mut().find(|minute| minute.number == number) {
                minute.lost(count, Direction::Unplaced);
            }
        }
    }

    /// Ends the port: the minutes that are still open get its counts.
    pub fn close(&mut self, minutes: &mut VecDeque<Minute>) {
        self.lose_direction(minutes);
        for (number, loss) in std::mem::take(&mut self.by_minute) {
            if let Some(minute) = minutes.iter_mut().find(|minute| minute.number == number) {
                minute.add_port(PortLoss { port: self.number, ..loss });
            }
        }
    }

    /// Closes a minute that is about to be reported: its pending packets count as lost without a direction.
    pub fn close_minute(&mut self, minute: &mut Minute) {
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
                minute.add_port(PortLoss { port, ..*loss });
            }
            !is_its
        });
    }
}

fn sample(sent: &SentPacket, reply: &Reply, arrived: &Reading) -> Sample {
    let elapsed_ns = arrived.mono_ns - sent.clocks.mono_ns;
    let residence_ns = reply.far_ns.map_or(0, |(received, answered)| answered.saturating_sub(received));
    // A residence time longer than the round trip cannot be true.
    let residence_ns = if (0..=elapsed_ns).contains(&residence_ns) { residence_ns } else { 0 };
    let one_way = reply.far_ns.map(|(received, answered)| {
        (received.saturating_sub(sent.clocks.real_ns) / 1_000, arrived.real_ns.saturating_sub(answered) / 1_000)
    });
    Sample { round_trip_us: (elapsed_ns - residence_ns) / 1_000, one_way_us: one_way }
}

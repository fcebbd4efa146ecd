//! Loss, duplicates and reordering by direction, from sequence numbers alone.
//!
//! The sender numbers its packets; a stateful reflector numbers its answers. A packet lost in forward direction leaves a gap
//! in the sender's numbers only, an answer lost in reverse a gap in both. Two facts stay unknown, and are resolved by a few
//! closing packets after the test, which do not count otherwise:
//!
//! - the fate of packets after the last answer: the number of the next answer shows it;
//! - whether a reflector whose numbers equal the sender's counts for itself, or copies: the closing packets leave out one
//!   number. For a reflector that counts, that number is a lost packet; one that copies, copies the gap.

use std::collections::BTreeMap;

use model::v1::probe::latency::Packets;

/// Most packets of a test: 18 hours at 1,000 a second. The sets below take three bits for each packet, up to six if the
/// reflector's numbers are invalid: 48 MiB in all.
pub const PACKETS_MAX: u64 = 1 << 26;

/// A set of small numbers, in a bit for each number up to the largest.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// Adds a number; returns whether it is new.
    fn insert(&mut self, number: u64) -> bool {
        let word = (number / 64) as usize;
        let bit = 1 << (number % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

/// How an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// The first answer to its packet.
    First,
    /// A duplicate: the packet was answered before.
    Copy,
    /// The packet was never sent.
    Stranger,
}

/// The reflector's numbers so far.
#[derive(Debug)]
struct Numbers {
    /// The number that counts as 0.
    base: u32,
    /// The reflector had counted before this test: the direction of packets lost before the first answer is unknown.
    is_stale: bool,
    seen: Bits,
    /// Counted from `base`.
    least: u64,
    most: u64,
    /// The packet of each number of the reflector; drained in order, which is the order of arrival at the reflector.
    order: BTreeMap<u64, u64>,
}

/// Counts packets and answers.
#[derive(Debug)]
pub struct PacketCounts {
    /// Packets of the test that left.
    sent: u64,
    /// Closing packets that left, and the set of those that were answered.
    closers: u64,
    closers_answered: Bits,
    answered: Bits,
    /// First answers: in time, too late, and to closing packets.
    received: u64,
    late: u64,
    closers_answered_count: u64,
    duplicates: u64,
    /// Duplicates with a number of their own: the packet arrived at the reflector twice. Includes closing packets.
    copies_at_reflector: u64,
    /// The same, without closing packets.
    duplicates_forward: u64,
    reordered: u64,
    reordered_forward: u64,
    reordered_reverse: u64,
    /// The first and the last answered packet, in the order in which they were sent.
    first: u64,
    last: u64,
    /// The highest packet of the test that was answered, in time or late.
    last_of_test: Option<u64>,
    numbers: Option<Numbers>,
    /// An answer had another number than its packet: the reflector counts its answers.
    counts: bool,
    /// The answer to a closing packet had that packet's number: the reflector copies numbers.
    copies: bool,
    is_incoherent: bool,
    /// Packets that reached the reflector, and the last of them.
    reached: Bits,
    reached_last: Option<u64>,
    window: usize,
}

impl PacketCounts {
    /// A tally that waits for `window` further answers before it takes the order at the reflector as known.
    pub fn new(window: usize) -> PacketCounts {
        PacketCounts {
            sent: 0,
            closers: 0,
            closers_answered: Bits::default(),
            answered: Bits::default(),
            received: 0,
            late: 0,
            closers_answered_count: 0,
            duplicates: 0,
            copies_at_reflector: 0,
            duplicates_forward: 0,
            reordered: 0,
            reordered_forward: 0,
            reordered_reverse: 0,
            first: u64::MAX,
            last: 0,
            last_of_test: None,
            numbers: None,
            counts: false,
            copies: false,
            is_incoherent: false,
            reached: Bits::default(),
            reached_last: None,
            window: window.max(64),
        }
    }

    /// The number of the next packet of the test.
    pub fn next_packet(&self) -> u32 {
        self.sent as u32
    }

    /// Counts a packet of the test that was sent.
    pub fn sent(&mut self) {
        self.sent += 1;
    }

    /// The number of the next closing packet: one is left out before the first.
    pub fn next_closer(&self) -> u32 {
        (self.sent + 1 + self.closers) as u32
    }

    /// Counts a closing packet that was sent. No packet of the test may follow.
    pub fn closer_sent(&mut self) {
        self.closers += 1;
    }

    /// Packets that were sent, closing ones included.
    pub fn sent_with_closers(&self) -> u64 {
        self.sent + self.closers
    }

    /// Packets that were answered in time.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether all packets of the test are answered.
    pub fn is_whole(&self) -> bool {
        self.received == self.sent
    }

    /// Counts an answer to packet `sequence`, with the reflector's `number`. `in_time`: early enough for the packet to count as
    /// answered.
    pub fn answer(&mut self, sequence: u32, number: u32, in_time: bool) -> AnswerKind {
        let sequence = u64::from(sequence);
        let ordinal = match sequence {
            s if s < self.sent => s,
            // The number that was left out is never answered.
            s if s > self.sent && s - 1 < self.sent + self.closers => s - 1,
            _ => return AnswerKind::Stranger,
        };
        let is_closer = ordinal >= self.sent;
        let is_first =
            if is_closer { self.closers_answered.insert(ordinal - self.sent) } else { self.answered.insert(ordinal) };
        self.counts |= u64::from(number) != sequence;
        self.copies |= is_closer && u64::from(number) == sequence;
        let is_new_number = self.take_number(number, ordinal, is_first);
        if is_first {
            self.first_answer(ordinal, is_closer, in_time);
            return AnswerKind::First;
        }
        self.duplicates += u64::from(!is_closer);
        self.copies_at_reflector += u64::from(is_new_number);
        self.duplicates_forward += u64::from(is_new_number && !is_closer);
        AnswerKind::Copy
    }

    fn first_answer(&mut self, ordinal: u64, is_closer: bool, in_time: bool) {
        self.first = self.first.min(ordinal);
        self.last = self.last.max(ordinal);
        if is_closer {
            self.closers_answered_count += 1;
            return;
        }
        match self.last_of_test {
            Some(last) if last > ordinal => self.reordered += 1,
            _ => self.last_of_test = Some(ordinal),
        }
        if in_time {
            self.received += 1;
        } else {
            self.late += 1;
        }
    }

    /// Takes the reflector's number of an answer; returns whether it is new.
    fn take_number(&mut self, number: u32, ordinal: u64, is_first: bool) -> bool {
        let departed = self.sent_with_closers();
        let numbers = self.numbers.get_or_insert_with(|| {
            // A reflector whose count began with this test cannot have sent more answers than there were packets.
            let is_stale = u64::from(number) >= departed;
            let base = if is_stale { number.wrapping_sub(departed as u32) } else { 0 };
            Numbers { base, is_stale, seen: Bits::default(), least: u64::MAX, most: 0, order: BTreeMap::new() }
        });
        let at = u64::from(number.wrapping_sub(numbers.base));
        // Far more answers than packets: this is no count. The bound also keeps the set below small.
        if at > 4 * departed + 1_024 {
            self.is_incoherent = true;
            return false;
        }
        let is_new = numbers.seen.insert(at);
        if !is_new {
            // One number for two packets: the reflector restarted its count, or does not count.
            self.is_incoherent |= is_first;
            return false;
        }
        if numbers.least != u64::MAX && at < numbers.most && ordinal < self.sent {
            self.reordered_reverse += 1;
        }
        numbers.least = numbers.least.min(at);
        numbers.most = numbers.most.max(at);
        numbers.order.insert(at, ordinal);
        if numbers.order.len() > self.window {
            self.drain(self.window);
        }
        true
    }

    /// Evaluates all but the last `keep` answers, in the order in which the reflector sent them.
    fn drain(&mut self, keep: usize) {
        let Some(numbers) = &mut self.numbers else { return };
        while numbers.order.len() > keep {
            let Some((_, ordinal)) = numbers.order.pop_first() else { return };
            if !self.reached.insert(ordinal) {
                continue;
            }
            match self.reached_last {
                Some(last) if last > ordinal => self.reordered_forward += u64::from(ordinal < self.sent),
                _ => self.reached_last = Some(ordinal),
            }
        }
    }

    /// Whether closing packets would show more: something is lost, or directions depend on whether the reflector counts. They would
    /// not if no answer has arrived at all.
    pub fn wants_closing(&self) -> bool {
        let has_faults = self.received < self.sent || self.duplicates > 0 || self.reordered > 0;
        let is_placed = self.counts && (self.closers_answered_count > 0 || self.received == self.sent);
        self.received > 0 && has_faults && !(self.copies || self.is_incoherent || is_placed)
    }

    /// The result: all counts of the test.
    pub fn packets(&mut self) -> Packets {
        self.drain(0);
        let lost = self.sent - self.received;
        let mut packets = Packets {
            sent: self.sent,
            received: self.received,
            lost,
            duplicates: self.duplicates,
            reordered: self.reordered,
            late: self.late,
            ..Packets::default()
        };
        let has_faults = lost > 0 || self.duplicates > 0 || self.reordered > 0;
        packets.stateful = match (self.is_incoherent, self.counts, self.copies) {
            (true, ..) | (_, false, false) => None,
            (_, counts, _) => Some(counts),
        };
        packets.direction_unknown = self.why_unknown(packets.stateful, has_faults).map(Into::into);
        if packets.direction_unknown.is_none() {
            let (forward, reverse) = self.lost_by_direction();
            packets.lost_forward = Some(forward);
            packets.lost_reverse = Some(reverse);
            packets.duplicates_forward = Some(self.duplicates_forward);
            packets.duplicates_reverse = Some(self.duplicates - self.duplicates_forward);
            packets.reordered_forward = Some(self.reordered_forward);
            packets.reordered_reverse = Some(self.reordered_reverse);
            packets.lost_unplaced = lost - forward - reverse;
        } else {
            packets.lost_unplaced = lost;
        }
        packets
    }

    fn why_unknown(&self, stateful: Option<bool>, has_faults: bool) -> Option<&'static str> {
        match stateful {
            Some(true) => None,
            _ if self.received == 0 && has_faults => Some("no answer came back in time"),
            _ if self.is_incoherent => Some("the reflector's numbers do not follow from one another"),
            _ if !has_faults => None,
            Some(false) => Some("the reflector does not count for itself: switch its stateful mode on, if it has one"),
            None => Some("whether the reflector counts for itself cannot be seen: no closing packet was answered"),
        }
    }

    /// Packets of the test that were lost forward, and in reverse.
    fn lost_by_direction(&self) -> (u64, u64) {
        let Some(numbers) = &self.numbers else { return (0, 0) };
        // Both counts are complete between the first answer and the last; with a reflector that began with the test, from 0 on.
        let (from, from_number) = if numbers.is_stale { (self.first, numbers.least) } else { (0, 0) };
        let departed = self.last + 1 - from;
        let reached = (numbers.most + 1 - from_number).saturating_sub(self.copies_at_reflector);
        let lost = departed - (self.received + self.late + self.closers_answered_count).min(departed);
        let forward = departed.saturating_sub(reached).min(lost);
        let reverse = lost - forward;
        // Lost closing packets may be among them, in either direction.
        let closers_lost = (self.last + 1).saturating_sub(self.sent).saturating_sub(self.closers_answered_count);
        (forward.saturating_sub(closers_lost), reverse.saturating_sub(closers_lost))
    }
}

#[cfg(test)]
mod tests;

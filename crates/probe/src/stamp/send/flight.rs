//! Packets in flight: each is kept until its timeout, so that duplicates of its answer are recognised.

use std::collections::VecDeque;

use crate::stamp::clock::Reading;
use crate::stamp::delays::Times;
use crate::stamp::packet::Timestamp;

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The time in the packet.
    pub question_sent: Timestamp,
    /// The clocks at that time.
    pub clocks: Reading,
    /// When it left: by this process at first, by the kernel once it has reported the departure.
    pub sent_ns: i64,
    /// Its first answer.
    pub answer: Option<Times>,
}

/// Packets in the order of their numbers, without gaps.
#[derive(Debug, Default)]
pub struct Flight {
    slots: VecDeque<Slot>,
    /// The number of the first packet.
    first: u64,
}

impl Flight {
    /// Adds the next packet.
    pub fn push(&mut self, slot: Slot) {
        self.slots.push_back(slot);
    }

    /// The packet of this number, if its timeout is not over.
    pub fn get(&self, sequence: u64) -> Option<&Slot> {
        let at = sequence.checked_sub(self.first)?;
        self.slots.get(usize::try_from(at).ok()?)
    }

    /// The same, mutable.
    pub fn get_mut(&mut self, sequence: u64) -> Option<&mut Slot> {
        let at = sequence.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(at).ok()?)
    }

    /// Whether no packet is in flight.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// When the timeout of the first packet ends.
    pub fn deadline_ns(&self, timeout_ns: i64) -> i64 {
        self.slots.front().map_or(i64::MAX, |slot| slot.clocks.mono_ns.saturating_add(timeout_ns))
    }

    /// Removes the first packet if its timeout is over; returns it with its number.
    pub fn retire(&mut self, now_ns: i64, timeout_ns: i64) -> Option<(u64, Slot)> {
        if self.is_empty() || self.deadline_ns(timeout_ns) > now_ns {
            return None;
        }
        let slot = self.slots.pop_front()?;
        self.first += 1;
        Some((self.first - 1, slot))
    }
}

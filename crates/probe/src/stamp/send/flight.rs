//! Packets on their way: what was said in each, until it is answered and its time is over.

use std::collections::VecDeque;

use crate::stamp::clock::Reading;
use crate::stamp::delays::Times;
use crate::stamp::packet::Timestamp;

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The time that stands in it.
    pub asked_at: Timestamp,
    /// The clocks at that time.
    pub left: Reading,
    /// When it left: by this process at first, by the kernel as soon as that tells.
    pub left_ns: i64,
    /// Its first answer.
    pub answer: Option<Times>,
}

/// Packets in the order of their numbers, without gaps.
#[derive(Debug, Default)]
pub struct Flight {
    slots: VecDeque<Slot>,
    /// The number of the first.
    first: u64,
}

impl Flight {
    /// The next one leaves.
    pub fn push(&mut self, slot: Slot) {
        self.slots.push_back(slot);
    }

    /// The packet of this number, if it is still waited for.
    pub fn get(&self, sequence: u64) -> Option<&Slot> {
        let at = sequence.checked_sub(self.first)?;
        self.slots.get(usize::try_from(at).ok()?)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, sequence: u64) -> Option<&mut Slot> {
        let at = sequence.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(at).ok()?)
    }

    /// Nothing is waited for.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// When the time of the first one is over.
    pub fn deadline_ns(&self, timeout_ns: i64) -> i64 {
        self.slots.front().map_or(i64::MAX, |slot| slot.left.mono_ns.saturating_add(timeout_ns))
    }

    /// The first one, if its time is over, with its number.
    pub fn retire(&mut self, now_ns: i64, timeout_ns: i64) -> Option<(u64, Slot)> {
        if self.is_empty() || self.deadline_ns(timeout_ns) > now_ns {
            return None;
        }
        let slot = self.slots.pop_front()?;
        self.first += 1;
        Some((self.first - 1, slot))
    }
}

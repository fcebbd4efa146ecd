//! A fair queue: each party has a queue of its own (first in, first out), and the parties take turns, however long their queues are.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Entries that wait, in one queue for each party.
#[derive(Debug)]
pub struct FairQueue<P, T> {
    queues: HashMap<P, VecDeque<T>>,
    /// The parties with entries, each once, in the order of their turns.
    turns: VecDeque<P>,
}

impl<P, T> Default for FairQueue<P, T> {
    fn default() -> FairQueue<P, T> {
        FairQueue { queues: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<P: Clone + Eq + Hash, T> FairQueue<P, T> {
    /// Puts an entry at the end of its party's queue.
    pub fn push(&mut self, party: P, entry: T) {
        let queue = self.queues.entry(party.clone()).or_default();
        queue.push_back(entry);
        if queue.len() == 1 {
            self.turns.push_back(party);
        }
    }

    /// Removes the first entry of the first party in turn for which `may_go` is true. The party goes to the end of the turns.
    pub fn pop(&mut self, may_go: impl FnMut(&P) -> bool) -> Option<(P, T)> {
        let at = self.turns.iter().position(may_go)?;
        let party = self.turns.remove(at)?;
        let queue = self.queues.get_mut(&party)?;
        let entry = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&party);
        } else {
            self.turns.push_back(party.clone());
        }
        Some((party, entry))
    }

    /// Removes entries from the front of every queue as long as `is_expired` is true for them. The order of turns stays.
    pub fn drain_fronts(&mut self, mut is_expired: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut drained = Vec::new();
        for queue in self.queues.values_mut() {
            while queue.front().is_some_and(&mut is_expired) {
                drained.extend(queue.pop_front());
            }
        }
        if !drained.is_empty() {
            self.queues.retain(|_, queue| !queue.is_empty());
            self.turns.retain(|party| self.queues.contains_key(party));
        }
        drained
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }

    /// Whether no entry waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parties_take_turns() {
        let mut queue = FairQueue::default();
        for (party, entry) in [("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)] {
            queue.push(party, entry);
        }
        assert_eq!(queue.len(), 6);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(|_| true)).map(|(_, entry)| entry).collect();
        assert_eq!(order, [1, 10, 20, 2, 11, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_party_that_may_not_go_keeps_its_turn() {
        let mut queue = FairQueue::default();
        queue.push("a", 1);
        queue.push("b", 2);
        assert_eq!(queue.pop(|party| *party != "a"), Some(("b", 2)));
        assert_eq!(queue.pop(|_| false), None);
        queue.push("b", 3);
        assert_eq!(queue.pop(|_| true), Some(("a", 1)));
    }

    #[test]
    fn expired_entries_are_removed_from_the_front_of_every_queue() {
        let mut queue = FairQueue::default();
        [("a", 1), ("a", 9), ("a", 2), ("b", 3)].into_iter().for_each(|(party, entry)| queue.push(party, entry));
        let mut gone = queue.drain_fronts(|entry| *entry < 5);
        gone.sort_unstable();
        assert_eq!(gone, [1, 3]);
        assert_eq!(queue.pop(|_| true), Some(("a", 9)));
        assert_eq!((queue.len(), queue.pop(|_| true)), (1, Some(("a", 2))));
    }

    proptest! {
        /// No party is served twice while another one that was there before waits.
        #[test]
        fn no_party_is_passed_over(pushes in proptest::collection::vec((0u8..5, any::<u16>()), 0..60)) {
            let mut queue = FairQueue::default();
            pushes.iter().for_each(|(party, entry)| queue.push(*party, *entry));
            let mut waiting: HashMap<u8, usize> = HashMap::new();
            pushes.iter().for_each(|(party, _)| *waiting.entry(*party).or_default() += 1);
            let mut served: HashMap<u8, usize> = HashMap::new();
            while let Some((party, _)) = queue.pop(|_| true) {
                *served.entry(party).or_default() += 1;
                *waiting.get_mut(&party).unwrap() -= 1;
                for (other, left) in &waiting {
                    prop_assert!(*left == 0 || served[&party] <= served.get(other).copied().unwrap_or(0) + 1);
                }
            }
            prop_assert!(waiting.values().all(|left| *left == 0));
        }
    }
}

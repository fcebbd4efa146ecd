//! The changes of a lab over time: the events of a scenario, and the ends of changes that last for a while.
//!
//! Pure: time comes in as an argument, in nanoseconds since the lab came up.

#[cfg(test)]
mod tests;

use std::mem::discriminant;
use std::time::Duration;

use crate::fabric::Fabric;
use crate::scenario::{Change, Event, Word};

enum TimedAction {
    Begin(Change, Option<Duration>),
    End(Reversal),
}

/// The words that take a change back.
struct Reversal {
    /// The number of the change; later changes have larger ones.
    number: u64,
    /// Each word once for each link.
    words: Vec<(usize, Word)>,
}

impl Reversal {
    fn position(&self, link: usize, word: &Word) -> Option<usize> {
        self.words
            .iter()
            .position(|(other_link, other)| *other_link == link && discriminant(other) == discriminant(word))
    }
}

/// The actions that are still to come.
pub struct Timeline {
    /// Latest first.
    actions: Vec<(u64, TimedAction)>,
    changes: u64,
}

impl Timeline {
    /// The events of a scenario.
    pub fn new(events: &[Event]) -> Timeline {
        let mut timeline = Timeline { actions: Vec::new(), changes: 0 };
        for event in events {
            timeline.add(event.at.as_nanos() as u64, TimedAction::Begin(event.change.clone(), event.lasts));
        }
        timeline
    }

    /// Adds an action. Actions of one time keep the order in which they were added.
    fn add(&mut self, at: u64, action: TimedAction) {
        let position = self.actions.partition_point(|(other, _)| *other > at);
        self.actions.insert(position, (at, action));
    }

    /// The time of the next action.
    pub fn next(&self) -> Option<u64> {
        self.actions.last().map(|(at, _)| *at)
    }

    /// Carries out the actions that are due by now.
    pub fn run_due(&mut self, now: u64, fabric: &mut Fabric) {
        while self.next().is_some_and(|at| at <= now) {
            let Some((at, action)) = self.actions.pop() else { return };
            match action {
                TimedAction::Begin(change, lasts) => self.change(at, &change, lasts, fabric),
                TimedAction::End(reversal) => self.end(at, reversal, fabric),
            }
        }
    }

    /// The reversals that are still to come.
    fn reversals(&mut self) -> impl Iterator<Item = &mut Reversal> {
        self.actions.iter_mut().filter_map(|(_, action)| match action {
            TimedAction::End(reversal) => Some(reversal),
            TimedAction::Begin(..) => None,
        })
    }

    /// Begins a change.
    pub fn change(&mut self, now: u64, change: &Change, lasts: Option<Duration>, fabric: &mut Fabric) {
        let links = fabric.topology().changed(change);
        let mut reversal = Reversal { number: self.changes, words: Vec::new() };
        self.changes += 1;
        for (link, words) in fabric.set(now, &links, &change.words) {
            // A word that is given twice is taken back to its first value, which comes last.
            for word in words {
                match reversal.position(link, &word) {
                    Some(position) => reversal.words[position].1 = word,
                    None => reversal.words.push((link, word)),
                }
            }
        }
        match lasts {
            Some(lasts) => {
                let lasts = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
                self.add(now.saturating_add(lasts), TimedAction::End(reversal));
            }
            // A change that stays is not taken back by the end of an earlier change.
            None => self
                .reversals()
                .for_each(|other| other.words.retain(|(link, word)| reversal.position(*link, word).is_none())),
        }
    }

    /// Ends a change. If a later change of the same word is still in force, that one will be taken back to the value from before both.
    fn end(&mut self, at: u64, reversal: Reversal, fabric: &mut Fabric) {
        for (link, word) in reversal.words {
            let later = self.reversals().filter(|other| other.number > reversal.number);
            let next = later
                .filter_map(|other| Some((other.position(link, &word)?, other)))
                .min_by_key(|(_, other)| other.number);
            match next {
                Some((position, other)) => other.words[position].1 = word,
                None => drop(fabric.set(at, &[link], &[word])),
            }
        }
    }
}

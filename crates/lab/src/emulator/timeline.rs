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
    fn place(&self, link: usize, word: &Word) -> Option<usize> {
        self.words.iter().position(|(its, other)| *its == link && discriminant(other) == discriminant(word))
    }
}

/// The actions that are still to come.
pub struct Timeline {
    /// Latest first.
    acts: Vec<(u64, TimedAction)>,
    changes: u64,
}

impl Timeline {
    /// The events of a scenario.
    pub fn new(events: &[Event]) -> Timeline {
        let mut timeline = Timeline { acts: Vec::new(), changes: 0 };
        for event in events {
            timeline.add(event.at.as_nanos() as u64, TimedAction::Begin(event.change.clone(), event.lasts));
        }
        timeline
    }

    /// Adds an action. Actions of one time keep the order in which they were added.
    fn add(&mut self, at: u64, act: TimedAction) {
        let place = self.acts.partition_point(|(other, _)| *other > at);
        self.acts.insert(place, (at, act));
    }

    /// The time of the next action.
    pub fn next(&self) -> Option<u64> {
        self.acts.last().map(|(at, _)| *at)
    }

    /// Carries out the actions that are due by now.
    pub fn act(&mut self, now: u64, fabric: &mut Fabric) {
        while self.next().is_some_and(|at| at <= now) {
            let Some((at, act)) = self.acts.pop() else { return };
            match act {
                TimedAction::Begin(change, lasts) => self.change(at, &change, lasts, fabric),
                TimedAction::End(back) => self.end(at, back, fabric),
            }
        }
    }

    fn ends(&mut self) -> impl Iterator<Item = &mut Reversal> {
        self.acts.iter_mut().filter_map(|(_, act)| match act {
            TimedAction::End(back) => Some(back),
            TimedAction::Begin(..) => None,
        })
    }

    /// Begins a change.
    pub fn change(&mut self, now: u64, change: &Change, lasts: Option<Duration>, fabric: &mut Fabric) {
        let links = fabric.topology().changed(change);
        let mut back = Reversal { number: self.changes, words: Vec::new() };
        self.changes += 1;
        for (link, words) in fabric.set(now, &links, &change.words) {
            // A word that is given twice is taken back to its first value, which comes last.
            for word in words {
                match back.place(link, &word) {
                    Some(place) => back.words[place].1 = word,
                    None => back.words.push((link, word)),
                }
            }
        }
        match lasts {
            Some(lasts) => {
                let lasts = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
                self.add(now.saturating_add(lasts), TimedAction::End(back));
            }
            // A change that stays is not taken back by the end of an earlier change.
            None => self.ends().for_each(|end| end.words.retain(|(link, word)| back.place(*link, word).is_none())),
        }
    }

    /// Ends a change. If a later change of the same word goes on, that one will be taken back to the value from before both.
    fn end(&mut self, at: u64, back: Reversal, fabric: &mut Fabric) {
        for (link, word) in back.words {
            let later = self.ends().filter(|end| end.number > back.number);
            let next = later.filter_map(|end| Some((end.place(link, &word)?, end))).min_by_key(|(_, end)| end.number);
            match next {
                Some((place, end)) => end.words[place].1 = word,
                None => drop(fabric.set(at, &[link], &[word])),
            }
        }
    }
}

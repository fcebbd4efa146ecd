//! What changes when: the events of a scenario, and the ends of changes that last for a while.
//!
//! Pure: time comes in as an argument, in nanoseconds since the lab came up.

use std::time::Duration;

use crate::fabric::Fabric;
use crate::scenario::{Change, Event, Word};

enum Act {
    Begin(Change, Option<Duration>),
    /// Words that take a change back, by link.
    End(Vec<(usize, Vec<Word>)>),
}

/// Acts that are still to come.
pub struct Timeline {
    /// Latest first.
    acts: Vec<(u64, Act)>,
}

impl Timeline {
    /// The events of a scenario.
    pub fn new(events: &[Event]) -> Timeline {
        let mut timeline = Timeline { acts: Vec::new() };
        for event in events {
            timeline.add(event.at.as_nanos() as u64, Act::Begin(event.change.clone(), event.lasts));
        }
        timeline
    }

    /// Acts at one time keep the order in which they were added.
    fn add(&mut self, at: u64, act: Act) {
        let place = self.acts.partition_point(|(other, _)| *other > at);
        self.acts.insert(place, (at, act));
    }

    /// When the next one is.
    pub fn next(&self) -> Option<u64> {
        self.acts.last().map(|(at, _)| *at)
    }

    /// Does what is due by now.
    pub fn act(&mut self, now: u64, fabric: &mut Fabric) {
        while self.next().is_some_and(|at| at <= now) {
            let Some((at, act)) = self.acts.pop() else { return };
            match act {
                Act::Begin(change, lasts) => self.change(at, &change, lasts, fabric),
                Act::End(back) => back.iter().for_each(|(link, words)| drop(fabric.set(at, &[*link], words))),
            }
        }
    }

    /// A change begins.
    pub fn change(&mut self, now: u64, change: &Change, lasts: Option<Duration>, fabric: &mut Fabric) {
        let links = fabric.topology().changed(change);
        let back = fabric.set(now, &links, &change.words);
        if let Some(lasts) = lasts {
            self.add(now + lasts.as_nanos() as u64, Act::End(back));
        }
    }
}

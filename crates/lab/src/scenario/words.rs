//! The words that describe one direction of a path: read from TOML, in a scenario, in an event, or from a command line.

use std::time::Duration;

use model::units::BitRate;

use super::{Loss, Policer, Queue, Target, Way};

/// One word with its value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of Way, by name")]
pub enum Word {
    Delay(Duration),
    Jitter(Duration),
    Rate(Option<BitRate>),
    Queue(Queue),
    Policer(Option<Policer>),
    Loss(Loss),
    Reorder(f64),
    ReorderBy(Duration),
    Duplicate(f64),
    Corrupt(f64),
    CorruptSilent(f64),
    CrossTraffic(Option<BitRate>),
    MtuBlackHole(Option<u16>),
    Down(bool),
}

/// Words for a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What changes.
    pub target: Target,
    /// To what.
    pub words: Vec<Word>,
}

impl Way {
    /// Takes a word over; the word that takes it back.
    pub fn set(&mut self, word: Word) -> Word {
        use std::mem::replace;
        match word {
            Word::Delay(value) => Word::Delay(replace(&mut self.delay, value)),
            Word::Jitter(value) => Word::Jitter(replace(&mut self.jitter, value)),
            Word::Rate(value) => Word::Rate(replace(&mut self.rate, value)),
            Word::Queue(value) => Word::Queue(replace(&mut self.queue, value)),
            Word::Policer(value) => Word::Policer(replace(&mut self.policer, value)),
            Word::Loss(value) => Word::Loss(replace(&mut self.loss, value)),
            Word::Reorder(value) => Word::Reorder(replace(&mut self.reorder, value)),
            Word::ReorderBy(value) => Word::ReorderBy(replace(&mut self.reorder_by, value)),
            Word::Duplicate(value) => Word::Duplicate(replace(&mut self.duplicate, value)),
            Word::Corrupt(value) => Word::Corrupt(replace(&mut self.corrupt, value)),
            Word::CorruptSilent(value) => Word::CorruptSilent(replace(&mut self.corrupt_silent, value)),
            Word::CrossTraffic(value) => Word::CrossTraffic(replace(&mut self.cross_traffic, value)),
            Word::MtuBlackHole(value) => Word::MtuBlackHole(replace(&mut self.mtu_black_hole, value)),
            Word::Down(value) => Word::Down(replace(&mut self.down, value)),
        }
    }
}

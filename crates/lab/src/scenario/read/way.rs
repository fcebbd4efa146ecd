//! One direction while its words are read, one after another, the later ones on top.
//!
//! Does not know: which tables the words come from.

use std::time::Duration;

use super::super::problem::Problem;
use super::super::source::{Entry, Table};
use super::super::words::WORDS;
use super::super::{Queue, Way, Word, quantity};

/// What was said of a way so far, and where.
#[derive(Clone, Default)]
pub(super) struct Draft {
    way: Way,
    /// The last place of each word that says something.
    said: Vec<(String, usize)>,
}

impl Draft {
    /// Takes over a word from an entry.
    pub fn say(&mut self, entry: &Entry) -> Result<(), Problem> {
        let word = Word::read(entry)?;
        self.forget(&entry.key);
        if let Word::Rate(None) = word {
            // What was said about the bottleneck goes with it.
            self.forget("queue");
            self.forget("cross_traffic");
            self.way.cross_traffic = None;
        }
        self.said.push((entry.key.clone(), entry.line));
        self.way.set(word);
        Ok(())
    }

    /// Takes over the words among a table's entries.
    pub fn say_all(&mut self, table: &Table) -> Result<(), Problem> {
        words(table).try_for_each(|entry| self.say(entry))
    }

    /// Takes over half of a round trip.
    pub fn half_of(&mut self, rtt: &Entry) -> Result<(), Problem> {
        self.way.delay = half(rtt)?;
        Ok(())
    }

    fn forget(&mut self, word: &str) {
        self.said.retain(|(said, _)| said != word);
    }

    fn line(&self, word: &str) -> Option<usize> {
        self.said.iter().find(|(said, _)| said == word).map(|(_, line)| *line)
    }

    /// The way, if its words make sense together.
    pub fn finish(&self) -> Result<Way, Problem> {
        let way = &self.way;
        if let (None, Some(line)) = (way.rate, self.line("queue")) {
            let remedy = "add a rate, or leave the queue out: nothing waits without a bottleneck";
            return Err(Problem::new(line, "a queue without a rate", remedy));
        }
        if let (Some(rate), Queue::Bytes(bytes)) = (way.rate, way.queue)
            && quantity::takes_too_long(bytes, rate)
        {
            let line = self.line("queue").unwrap_or(0);
            return Err(Problem::new(line, "the queue is more than one hour of the rate", "write a smaller one"));
        }
        if way.cross_traffic.is_some() && way.rate.is_none() {
            let line = self.line("cross_traffic").unwrap_or(0);
            let remedy = "add a rate that it takes its share of, or leave it out";
            return Err(Problem::new(line, "cross_traffic without a bottleneck", remedy));
        }
        if way.jitter > way.delay {
            let line = self.line("jitter").unwrap_or(0);
            let what = format!("a jitter of {:?} is more than the delay of {:?} one way", way.jitter, way.delay);
            return Err(Problem::new(line, what, "write a smaller jitter, or a longer rtt or delay"));
        }
        Ok(way.clone())
    }
}

/// The directional words among a table's entries.
pub(super) fn words(table: &Table) -> impl Iterator<Item = &Entry> {
    table.entries.iter().filter(|entry| WORDS.contains(&entry.key.as_str()))
}

/// Half of a round trip.
pub(super) fn half(rtt: &Entry) -> Result<Duration, Problem> {
    Ok(quantity::delay(rtt)? / 2)
}

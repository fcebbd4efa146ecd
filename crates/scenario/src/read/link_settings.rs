//! One direction while its words are read, one after another; later words override earlier ones.
//!
//! Does not know: which tables the words come from.

use std::time::Duration;

use super::super::problem::Problem;
use super::super::source::{Entry, Table};
use super::super::words::WORDS;
use super::super::{LinkSettings, Queue, Word, quantity};

/// The settings of a direction so far, and the lines of its words.
#[derive(Clone, Default)]
pub(super) struct Draft {
    settings: LinkSettings,
    /// The last line of each word in force.
    lines: Vec<(String, usize)>,
}

impl Draft {
    /// Sets a word from an entry.
    pub fn set(&mut self, entry: &Entry) -> Result<(), Problem> {
        let word = Word::read(entry)?;
        self.forget(&entry.key);
        if let Word::Rate(None) = word {
            // The words about the bottleneck are dropped with it.
            self.forget("queue");
            self.forget("cross_traffic");
            self.settings.cross_traffic = None;
        }
        self.lines.push((entry.key.clone(), entry.line));
        self.settings.set(word);
        Ok(())
    }

    /// Sets the words among a table's entries.
    pub fn set_all(&mut self, table: &Table) -> Result<(), Problem> {
        words(table).try_for_each(|entry| self.set(entry))
    }

    /// Sets the delay to half of a round trip.
    pub fn set_delay_from(&mut self, rtt: &Entry) -> Result<(), Problem> {
        self.settings.delay = half(rtt)?;
        Ok(())
    }

    fn forget(&mut self, word: &str) {
        self.lines.retain(|(known, _)| known != word);
    }

    fn line(&self, word: &str) -> Option<usize> {
        self.lines.iter().find(|(known, _)| known == word).map(|(_, line)| *line)
    }

    /// The settings, if the words do not contradict each other.
    pub fn finish(&self) -> Result<LinkSettings, Problem> {
        let settings = &self.settings;
        if let (None, Some(line)) = (settings.rate, self.line("queue")) {
            return Err(Problem::new(line, IDLE_QUEUE.0, IDLE_QUEUE.1));
        }
        match settings.contradiction() {
            None => Ok(settings.clone()),
            Some((word, what, remedy)) => Err(Problem::new(self.line(word).unwrap_or(0), what, remedy)),
        }
    }
}

/// The problem of a withdrawn uplink: it is the only link of its site.
pub(super) fn uplink_withdrawn(entry: &Entry) -> Problem {
    entry.problem(
        "an uplink cannot be withdrawn: it is the only link of its site",
        "withdraw a path, or write down = true",
    )
}

const IDLE_QUEUE: (&str, &str) =
    ("a queue without a rate", "add a rate, or leave the queue out: nothing waits without a bottleneck");

impl LinkSettings {
    /// The contradiction in the settings, if there is one: the word, the fault, and the remedy.
    pub fn contradiction(&self) -> Option<(&'static str, String, &'static str)> {
        if self.rate.is_none() && self.queue != Queue::Bdp {
            return Some(("queue", IDLE_QUEUE.0.to_owned(), IDLE_QUEUE.1));
        }
        if let (Some(rate), Queue::Bytes(bytes)) = (self.rate, self.queue)
            && quantity::takes_too_long(bytes, rate)
        {
            let what = "the queue is more than one hour of the rate";
            return Some(("queue", what.to_owned(), "write a smaller one"));
        }
        if self.cross_traffic.is_some() && self.rate.is_none() {
            let remedy = "add a rate that it takes its share of, or leave it out";
            return Some(("cross_traffic", "cross_traffic without a rate".to_owned(), remedy));
        }
        if self.jitter > self.delay {
            let what = format!("a jitter of {:?} is more than the delay of {:?} one way", self.jitter, self.delay);
            return Some(("jitter", what, "write a smaller jitter, or a longer rtt or delay"));
        }
        None
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

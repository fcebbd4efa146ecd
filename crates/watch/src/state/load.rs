//! The load that the watch itself makes: tests of TCP fill queues, and what streams lose meanwhile says nothing of the network.
//!
//! A test is told when it is over, and a minute of a stream may be told before that: so minutes wait for as long as a test may last.

use std::collections::{HashMap, VecDeque};

use model::v1::node::{ProbeTest, Repeat, ScheduledTest};

use crate::config::Config;
use crate::mesh::Test;
use crate::observation::Observation;

/// Between the end of a test and its arrival here, milliseconds.
const LATE: f64 = 10_000.0;
/// Queues drain for so long after a test, and clocks of nodes differ by so much, milliseconds.
const MARGIN: f64 = 2_000.0;
/// Tests are remembered for so long, milliseconds: a watch that was down fetches a day at once.
const REMEMBERED: i64 = 26 * 3_600_000;
/// Tests of one site that are remembered: a mesh of a thousand sites makes 8,658 in that time.
const TESTS_MAX: usize = 10_000;
/// Minutes of one path that wait.
const WAITING_MAX: usize = 1_000;

/// When sites were tested with TCP.
#[derive(Debug, Default)]
pub(super) struct Load {
    by_site: HashMap<String, VecDeque<(i64, i64)>>,
}

impl Load {
    /// A site was tested from one time to another.
    pub fn note(&mut self, site: &str, begin: i64, end: i64) {
        let tests = self.by_site.entry(site.to_owned()).or_default();
        tests.push_back((begin, end));
        while tests.len() > TESTS_MAX || tests.front().is_some_and(|(_, old)| *old < end - REMEMBERED) {
            tests.pop_front();
        }
    }

    /// Whether one of two sites was tested at a time.
    pub fn was_there(&self, sites: [&str; 2], begin: i64, end: i64) -> bool {
        let overlaps = |(from, to): &(i64, i64)| *from < end && *to > begin;
        // The newest are at the back, and are mostly asked for.
        sites.iter().filter_map(|site| self.by_site.get(*site)).any(|tests| tests.iter().rev().any(overlaps))
    }
}

/// A minute of a stream that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub observation: Observation,
    pub begin: i64,
    pub seconds: f64,
}

impl Waiting {
    pub fn end(&self) -> i64 {
        self.begin + (self.seconds * 1e3) as i64
    }
}

/// How long minutes wait, and by how much tests are longer than they say, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patience {
    pub hold: i64,
    pub margin: i64,
}

impl Patience {
    /// As long as the longest test of a configuration; none where there are no tests of TCP.
    pub fn of(config: &Config) -> Patience {
        let lasts = config.groups.iter().filter_map(|group| group.throughput.as_ref()).map(|test| test.lasts).max();
        let Some(lasts) = lasts else { return Patience::default() };
        let scaled = |span: f64| (span * config.judge.scale) as i64;
        Patience { hold: lasts.as_millis() as i64 + scaled(LATE), margin: scaled(MARGIN) }
    }
}

/// Puts a minute behind those that wait; the oldest comes back where there are too many.
pub(super) fn push(waiting: &mut VecDeque<Waiting>, one: Waiting) -> Option<Waiting> {
    waiting.push_back(one);
    if waiting.len() > WAITING_MAX { waiting.pop_front() } else { None }
}

/// How long a test of TCP lasts, milliseconds.
pub(super) fn lasts(test: &Test) -> i64 {
    match &test.order {
        ScheduledTest::Repeat(Repeat { test: ProbeTest::Tcp(tcp), .. }) => {
            ((tcp.seconds.unwrap_or_default() + tcp.omit_s) * 1e3) as i64
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_loaded_while_it_is_tested_and_old_tests_go() {
        let mut load = Load::default();
        load.note("a", 1_000, 3_000);
        let was_there = |load: &Load, begin, end| load.was_there(["b", "a"], begin, end);
        assert!(was_there(&load, 2_000, 60_000) && was_there(&load, 0, 1_001));
        assert!(!was_there(&load, 3_000, 60_000) && !was_there(&load, 0, 1_000));
        assert!(!load.was_there(["b", "c"], 0, 60_000));
        load.note("a", REMEMBERED, REMEMBERED + 4_000);
        assert!(!was_there(&load, 0, 60_000), "a day later nobody asks");
        (0..2 * TESTS_MAX).for_each(|_| load.note("a", REMEMBERED, REMEMBERED + 4_000));
        assert_eq!(load.by_site["a"].len(), TESTS_MAX, "whoever makes more tests than that is no site");
    }
}

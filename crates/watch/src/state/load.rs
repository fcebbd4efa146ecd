//! The load that the watch itself makes: tests of TCP fill queues, and losses of streams meanwhile do not count.
//!
//! A test of TCP is reported only at its end, and the report of a stream that it disturbed may arrive before: so reports of streams wait
//! for as long as such a test may last.

use std::collections::{HashMap, VecDeque};

use model::v1::node::{ProbeTest, Repeat, ScheduledTest};

use crate::config::Config;
use crate::mesh::Test;
use crate::observation::Observation;

/// The time between the end of a test and the arrival of its result, milliseconds.
const ARRIVAL_MS: f64 = 10_000.0;
/// The margin around a test, milliseconds: queues drain after it, and clocks of nodes differ.
const MARGIN_MS: f64 = 2_000.0;
/// How long tests are remembered, milliseconds: a watch that was down fetches a day at once.
const REMEMBERED_MS: i64 = 26 * 3_600_000;
/// The largest number of tests that are remembered for a site: a mesh of a thousand sites makes 8,658 in that time.
const TESTS_MAX: usize = 10_000;
/// The largest number of reports of one path that wait.
const WAITING_MAX: usize = 1_000;

/// When sites were tested with TCP.
#[derive(Debug, Default)]
pub(super) struct Load {
    by_site: HashMap<String, VecDeque<(i64, i64)>>,
}

impl Load {
    /// Records that a site was tested from one time to another.
    pub fn add(&mut self, site: &str, begin: i64, end: i64) {
        let tests = self.by_site.entry(site.to_owned()).or_default();
        tests.push_back((begin, end));
        while tests.len() > TESTS_MAX || tests.front().is_some_and(|(_, old)| *old < end - REMEMBERED_MS) {
            tests.pop_front();
        }
    }

    /// Whether one of two sites was tested at some time between `begin` and `end`.
    pub fn was_loaded(&self, sites: [&str; 2], begin: i64, end: i64) -> bool {
        let overlaps = |(from, to): &(i64, i64)| *from < end && *to > begin;
        // The newest tests are at the back, and are needed most often.
        sites.iter().filter_map(|site| self.by_site.get(*site)).any(|tests| tests.iter().rev().any(overlaps))
    }
}

/// A report of a stream that waits.
#[derive(Debug)]
pub(super) struct WaitingReport {
    pub observation: Observation,
    pub begin: i64,
    pub seconds: f64,
}

impl WaitingReport {
    pub fn end(&self) -> i64 {
        self.begin + (self.seconds * 1e3) as i64
    }
}

/// How long reports wait, and the margin around tests, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HoldTimes {
    pub hold: i64,
    pub margin: i64,
}

impl HoldTimes {
    /// The times for the longest test of a configuration; zero without tests of TCP.
    pub fn of(config: &Config) -> HoldTimes {
        let lasts = config.groups.iter().filter_map(|group| group.throughput.as_ref()).map(|test| test.lasts).max();
        let Some(lasts) = lasts else { return HoldTimes::default() };
        let scaled = |span: f64| (span * config.judge.scale) as i64;
        HoldTimes { hold: lasts.as_millis() as i64 + scaled(ARRIVAL_MS), margin: scaled(MARGIN_MS) }
    }
}

/// Queues a report; returns the oldest one if too many wait.
pub(super) fn queue_report(waiting: &mut VecDeque<WaitingReport>, report: WaitingReport) -> Option<WaitingReport> {
    waiting.push_back(report);
    if waiting.len() > WAITING_MAX { waiting.pop_front() } else { None }
}

/// The length of a test of TCP, milliseconds.
pub(super) fn length_ms(test: &Test) -> i64 {
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
    fn a_site_is_loaded_while_it_is_tested_and_old_tests_are_dropped() {
        let mut load = Load::default();
        load.add("a", 1_000, 3_000);
        let was_loaded = |load: &Load, begin, end| load.was_loaded(["b", "a"], begin, end);
        assert!(was_loaded(&load, 2_000, 60_000) && was_loaded(&load, 0, 1_001));
        assert!(!was_loaded(&load, 3_000, 60_000) && !was_loaded(&load, 0, 1_000));
        assert!(!load.was_loaded(["b", "c"], 0, 60_000));
        load.add("a", REMEMBERED_MS, REMEMBERED_MS + 4_000);
        assert!(!was_loaded(&load, 0, 60_000), "tests of the day before are dropped");
        (0..2 * TESTS_MAX).for_each(|_| load.add("a", REMEMBERED_MS, REMEMBERED_MS + 4_000));
        assert_eq!(load.by_site["a"].len(), TESTS_MAX, "the number of tests is bounded");
    }
}

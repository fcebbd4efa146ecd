//! Counts the sequence numbers that arrive: the exact sets of lost, late and duplicate ones, in bounded memory.
//!
//! Pure. It stores the gaps: runs of numbers below the highest one that have not arrived. A number in a gap is late
//! (RFC 4737: less than the next expected), and closes or splits the gap; one outside of all gaps is a duplicate. This distinguishes
//! duplicates from late numbers without a bit for each number, and a number in order costs one comparison.

mod lengths;

use std::collections::BTreeMap;

pub use lengths::Lengths;
use model::v1::probe::udp::UdpBin;

/// Most gaps that are stored: some 40 MB.
pub const GAPS_MAX: usize = 1_000_000;

/// What the arrival of a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Higher than all earlier numbers.
    Ahead,
    /// Below the highest, and new.
    Late {
        /// By how many numbers.
        distance: u64,
    },
    /// A duplicate.
    Duplicate,
    /// Late or a duplicate: its gap was given up, as there were too many.
    Unjudged,
    /// No such number was sent.
    OutOfRange,
}

/// Counts numbers in the order of their arrival.
#[derive(Clone, Debug)]
pub struct NumberCounts {
    /// The first number that is not sent.
    end: u64,
    gaps_max: usize,
    /// One more than the highest number seen.
    next: u64,
    /// From the first missing number of each gap to the one after the last missing.
    gaps: BTreeMap<u64, u64>,
    missing: u64,
    received: u64,
    duplicates: u64,
    unjudged: u64,
    reordered: Lengths,
    /// Gaps below this number were given up.
    floor: u64,
    /// Runs that were given up, by length.
    given_up: Lengths,
}

/// The missing numbers at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Missing numbers.
    pub lost: u64,
    /// Runs of missing numbers: the first number and the length, lowest first, without those given up.
    pub runs: Vec<(u64, u64)>,
    /// Number of runs, including those that are given up or left out.
    pub runs_total: u64,
    /// Runs by length.
    pub lengths: Vec<UdpBin>,
}

impl NumberCounts {
    /// A tally of numbers below `end`.
    pub fn new(end: u64) -> NumberCounts {
        NumberCounts::with_gaps(end, GAPS_MAX)
    }

    fn with_gaps(end: u64, gaps_max: usize) -> NumberCounts {
        NumberCounts {
            end,
            gaps_max,
            next: 0,
            gaps: BTreeMap::new(),
            missing: 0,
            received: 0,
            duplicates: 0,
            unjudged: 0,
            reordered: Lengths::default(),
            floor: 0,
            given_up: Lengths::default(),
        }
    }

    /// Counts a number that has arrived.
    pub fn take(&mut self, number: u64) -> Arrival {
        if number >= self.end {
            return Arrival::OutOfRange;
        }
        if number >= self.next {
            if number > self.next {
                self.open_gap(self.next, number);
            }
            self.next = number + 1;
            self.received += 1;
            return Arrival::Ahead;
        }
        let gap = self.gaps.range(..=number).next_back().map(|(from, to)| (*from, *to));
        match gap.filter(|(_, to)| number < *to) {
            Some((from, to)) => {
                self.fill(from, to, number);
                let distance = self.next - 1 - number;
                self.reordered.record(distance);
                self.received += 1;
                Arrival::Late { distance }
            }
            None if number < self.floor => {
                self.unjudged += 1;
                Arrival::Unjudged
            }
            None => {
                self.duplicates += 1;
                Arrival::Duplicate
            }
        }
    }

    fn open_gap(&mut self, from: u64, to: u64) {
        self.gaps.insert(from, to);
        self.missing += to - from;
        self.give_up();
    }

    fn fill(&mut self, from: u64, to: u64, number: u64) {
        self.missing -= 1;
        if from == number {
            self.gaps.remove(&from);
        } else {
            self.gaps.insert(from, number);
        }
        if number + 1 < to {
            self.gaps.insert(number + 1, to);
            self.give_up();
        }
    }

    /// Gives up the oldest gap if there are too many.
    fn give_up(&mut self) {
        if self.gaps.len() > self.gaps_max
            && let Some((from, to)) = self.gaps.pop_first()
        {
            self.floor = to;
            self.given_up.record(to - from);
        }
    }

    /// Different numbers that arrived, without those that could not be judged.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Numbers below the highest that have not arrived.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// One more than the highest number seen; 0 where none has arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Arrivals of numbers that had arrived before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Numbers that arrived late, by their distance to the highest one.
    pub fn reordered(&self) -> &Lengths {
        &self.reordered
    }

    /// Numbers that are either late or duplicates.
    pub fn unjudged(&self) -> u64 {
        self.unjudged
    }

    /// Whether gaps were given up: then the missing numbers are an upper bound.
    pub fn is_bounded(&self) -> bool {
        self.floor > 0
    }

    /// The missing numbers of the `sent` ones, or, if that is not known, of all up to the highest; with the first `runs_max` runs.
    pub fn missing_of(&self, sent: Option<u64>, runs_max: usize) -> Missing {
        let tail = sent.filter(|sent| *sent > self.next).map(|sent| (self.next, sent));
        let mut lengths = self.given_up.clone();
        let mut runs = Vec::new();
        let mut total = self.given_up.count();
        for (from, to) in self.gaps.iter().map(|(from, to)| (*from, *to)).chain(tail) {
            total += 1;
            lengths.record(to - from);
            if runs.len() < runs_max {
                runs.push((from, to - from));
            }
        }
        let lost = self.missing + tail.map_or(0, |(from, to)| to - from);
        Missing { lost, runs, runs_total: total, lengths: lengths.bins() }
    }
}

#[cfg(test)]
mod tests;

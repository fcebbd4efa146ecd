//! The results of a simulation: of each work, of each resource, and over time.
//!
//! Does not know: how the results came about.

use hdrhistogram::Histogram;

use super::files::SimulatedFile;
use super::queue::{Done, NO_TIME_S};

/// Points of a curve over the simulated time.
pub const POINTS: usize = 288;
/// The longest time that a histogram holds: 100 years in milliseconds.
const LONGEST_MS: u64 = 3_155_760_000_000;

/// The results of one work.
#[derive(Clone, Debug)]
pub struct WorkOutcome {
    /// Its name.
    pub name: String,
    /// Files that it has: with several copies, each copy is a file.
    pub files: u64,
    /// Files that arrived at their targets.
    pub done: u64,
    /// Their bytes.
    pub bytes: f64,
    /// Files among them that a cache at the target had.
    pub from_cache: u64,
    /// Attempts that failed and were repeated.
    pub failed: u64,
    /// Files that arrived after the deadline of the work.
    pub late: u64,
    /// When the last file was complete, seconds.
    pub last_s: f64,
    /// Milliseconds from the arrival of a file to the begin of its last attempt.
    pub waited_ms: Histogram<u64>,
    /// Milliseconds from the arrival of a file to its completion.
    pub took_ms: Histogram<u64>,
}

/// The results of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceOutcome {
    /// Its name.
    pub name: String,
    /// What transfers may use of it, bit/s.
    pub usable_bit_s: f64,
    /// The mean rate, bit/s.
    pub mean_bit_s: f64,
    /// The highest mean rate of one round, bit/s.
    pub peak_bit_s: f64,
    /// The share of the queues' active time in which it was what bound them.
    pub bound: f64,
}

/// The state at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoursePoint {
    /// The time, seconds.
    pub at_s: f64,
    /// The rate of all transfers, bit/s, on average since the point before.
    pub rate_bit_s: f64,
    /// Files that are there and not moving.
    pub waiting: u64,
    /// Bytes at their sources that are not at their targets: the buffers that sources need.
    pub buffered_bytes: f64,
}

/// The results of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The simulated time, seconds.
    pub simulated_s: f64,
    /// Whether it was stopped before the end.
    pub stopped: bool,
    /// Whether everything was done before the end.
    pub complete: bool,
    /// Begins and ends of files.
    pub events: u64,
    /// Rounds of the scheduler.
    pub rounds: u64,
    /// In the order of the scenario.
    pub work: Vec<WorkOutcome>,
    /// All that were used, the most used first.
    pub resources: Vec<ResourceOutcome>,
    /// Over time.
    pub course: Vec<CoursePoint>,
    /// The events of the scenario that the simulator ignores.
    pub ignored: Vec<String>,
}

impl WorkOutcome {
    /// The results of work that has not begun.
    pub fn new(name: &str, files: u64) -> WorkOutcome {
        // Three significant digits.
        #[expect(clippy::expect_used, reason = "the bounds are constants that the library accepts")]
        let histogram = || Histogram::new_with_bounds(1, LONGEST_MS, 3).expect("bounds of the histogram");
        WorkOutcome {
            name: name.to_owned(),
            files,
            done: 0,
            bytes: 0.0,
            from_cache: 0,
            failed: 0,
            late: 0,
            last_s: 0.0,
            waited_ms: histogram(),
            took_ms: histogram(),
        }
    }

    /// Counts a file that a cache at the target had: it is there when it is asked for.
    pub fn answered(&mut self, file: &SimulatedFile) {
        self.from_cache += 1;
        self.record(
            &Done { file: *file, begun_s: file.arrived_s, ended_s: file.arrived_s, failed: false },
            f64::INFINITY,
        );
    }

    /// Counts an attempt that ended.
    pub fn record(&mut self, done: &Done, deadline_s: f64) {
        if done.failed {
            self.failed += 1;
            return;
        }
        self.done += 1;
        self.bytes += done.file.bytes;
        self.last_s = self.last_s.max(done.ended_s);
        // Sums of times are rounded.
        self.late += u64::from(done.ended_s > deadline_s + NO_TIME_S);
        let ms = |seconds: f64| ((seconds * 1e3) as u64).min(LONGEST_MS);
        self.waited_ms.saturating_record(ms(done.begun_s - done.file.arrived_s));
        self.took_ms.saturating_record(ms(done.ended_s - done.file.arrived_s));
    }
}

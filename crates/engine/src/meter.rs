//! Where the time of a stream's thread goes, stage by stage: the evidence for what limits a job.
//!
//! A thread reports when it enters a stage; other threads may read the meter at any time. Processor time is measured beside wall time:
//! a stage that took long and computed little was waiting; one that only computes, and took longer than its processor time, had to share
//! the processor.

use std::time::{Duration, Instant};

pub use model::account::{Stage, StageTimes};
use parking_lot::{Mutex, MutexGuard};

#[derive(Debug)]
struct Laps {
    stage: Stage,
    entered: Instant,
    cpu: Duration,
    spent: StageTimes,
}

/// The meter of one thread.
#[derive(Debug)]
pub struct Meter(Mutex<Laps>);

impl Default for Meter {
    fn default() -> Meter {
        let entered = Instant::now();
        let cpu = sys::clock::thread_cpu();
        Meter(Mutex::new(Laps { stage: Stage::Idle, entered, cpu, spent: StageTimes::default() }))
    }
}

impl Meter {
    fn laps(&self) -> MutexGuard<'_, Laps> {
        self.0.lock()
    }

    /// Enters a stage; called by the thread that owns this meter. Returns the stage before.
    pub fn enter(&self, stage: Stage) -> Stage {
        let now = Instant::now();
        let cpu = sys::clock::thread_cpu();
        let mut laps = self.laps();
        let was = laps.stage;
        let wall = now - laps.entered;
        let at = was as usize;
        laps.spent.wall[at] += wall;
        laps.spent.longest[at] = laps.spent.longest[at].max(wall);
        // A meter that another thread made began with the processor time of that thread.
        let worked = cpu.checked_sub(laps.cpu).unwrap_or_default().min(wall);
        laps.spent.cpu[at] += worked;
        laps.stage = stage;
        laps.entered = now;
        laps.cpu = cpu;
        was
    }

    /// Does some work in a stage, then enters the stage before again.
    pub fn within<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let was = self.enter(stage);
        let out = work();
        self.enter(was);
        out
    }

    /// Counts a record.
    pub fn count_record(&self) {
        self.laps().spent.records += 1;
    }

    /// The time spent so far, the running stage included.
    pub fn read(&self) -> StageTimes {
        let laps = self.laps();
        let mut spent = laps.spent;
        spent.wall[laps.stage as usize] += laps.entered.elapsed();
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_add_up_and_nest() {
        let began = Instant::now();
        let meter = Meter::default();
        meter.enter(Stage::Compute);
        meter.within(Stage::Storage, || std::thread::sleep(Duration::from_millis(20)));
        meter.count_record();
        assert_eq!(meter.enter(Stage::Socket), Stage::Compute);
        std::thread::sleep(Duration::from_millis(5));
        let spent = meter.read();
        assert!(spent.wall_in(Stage::Storage) >= Duration::from_millis(20));
        assert!(spent.cpu_in(Stage::Storage) < Duration::from_millis(15), "it slept: {spent:?}");
        assert!(spent.wall_in(Stage::Socket) >= Duration::from_millis(5), "the running stage counts");
        // However slow the machine is, the time slept belongs to the other two stages.
        let others = Duration::from_millis(20 + 5);
        assert!(spent.wall_in(Stage::Compute) + others <= began.elapsed(), "{spent:?}");
        assert_eq!(spent.records, 1);
        let mut sum = spent;
        sum.add(&spent);
        assert_eq!(sum.total(), spent.total() * 2);
        assert_eq!(sum.since(&spent).wall, spent.wall);
    }
}

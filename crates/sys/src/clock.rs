//! The processor time of threads, and the use of the host's processors.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that the calling thread has used.
pub fn thread_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs() as u32)
}

/// Processor time that this process has used.
pub fn process_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs() as u32)
}

/// Time of all processors together since the host started, in ticks of the kernel's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// Busy time of all programs; it includes the time that a hypervisor took away.
    pub busy: u64,
    /// The part of `busy` that a hypervisor took away.
    pub steal: u64,
    /// Busy and idle time together.
    pub total: u64,
}

impl Processors {
    /// Reads `/proc/stat`; zeros where there is none.
    pub fn read() -> Processors {
        std::fs::read_to_string("/proc/stat").map_or_else(|_| Processors::default(), |text| Processors::parse(&text))
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal, … (proc_stat(5)); guests' time is part of
    /// the first two.
    fn parse(text: &str) -> Processors {
        let numbers = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
        let total = ticks.iter().sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Processors { busy: total - idle, steal: ticks.get(7).copied().unwrap_or(0), total }
    }

    /// The time of all processors since `before`, in seconds: USER_HZ is 100 for all programs (time(7)).
    pub fn seconds_since(&self, before: &Processors) -> f64 {
        self.total.saturating_sub(before.total) as f64 / 100.0
    }

    /// The share of the processors that a hypervisor took away since `before`; none where no time has passed.
    pub fn steal_since(&self, before: &Processors) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|t| *t > 0)?;
        Some(self.steal.saturating_sub(before.steal) as f64 / total as f64)
    }

    /// The share of the processors that was busy since `before`, from 0 to 1; none where no time has passed.
    pub fn busy_since(&self, before: &Processors) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|t| *t > 0)?;
        // The kernel's counts may go back a little (proc_stat(5)).
        Some((self.busy.saturating_sub(before.busy) as f64 / total as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_time() {
        let before = thread_cpu();
        let mut sum = 0u64;
        while thread_cpu() - before < Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let waited = thread_cpu();
        std::thread::sleep(Duration::from_millis(20));
        assert!(thread_cpu() - waited < Duration::from_millis(10), "sleep is not work");
    }

    #[test]
    fn the_counts_of_the_manual_page_are_read() {
        let read = Processors::parse("cpu  100 10 50 800 40 3 7 5 90 0\ncpu0 1 2 3\n");
        assert_eq!(read, Processors { busy: 175, steal: 5, total: 1015 });
        let later = Processors { busy: 225, steal: 15, total: 1115 };
        assert_eq!((later.busy_since(&read), later.steal_since(&read)), (Some(0.5), Some(0.1)));
        assert_eq!(read.busy_since(&read), None);
        assert!(Processors::read().total > 0);
    }
}

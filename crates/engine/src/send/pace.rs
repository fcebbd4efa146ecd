//! The rate of a job's payload, over all its streams: a schedule that every record waits for.
//!
//! The schedule keeps the limit: it counts payload, and after a delay at most a fifth of a second's worth is sent faster to make up for
//! it. The kernel's pacing (SO_MAX_PACING_RATE), a little above each stream's share ([`pilot`]), prevents bursts; alone it would not keep
//! the limit, since it counts headers, and streams do not take equal parts.

use parking_lot::{Condvar, Mutex, MutexGuard};

use std::time::{Duration, Instant};

/// The time that may be made up for after a delay: 2 % of ten seconds.
const SLACK: Duration = Duration::from_millis(200);
/// The time that a block takes at the limit, so that a limit far below the path's rate is kept evenly.
const BLOCK: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Schedule {
    bytes_s: u64,
    paused: bool,
    over: bool,
    /// When the next byte is due.
    due: Instant,
}

/// The pace of one job.
#[derive(Debug)]
pub(crate) struct Pace {
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

impl Default for Pace {
    fn default() -> Pace {
        let schedule = Schedule { bytes_s: 0, paused: false, over: false, due: Instant::now() };
        Pace { schedule: Mutex::new(schedule), changed: Condvar::new() }
    }
}

impl Pace {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock()
    }

    /// Sets the limit (bytes per second, 0 for none) and the pause.
    pub(crate) fn set(&self, bytes_s: u64, paused: bool) {
        let mut schedule = self.schedule();
        if (schedule.bytes_s, schedule.paused) != (bytes_s, paused) {
            schedule.bytes_s = bytes_s;
            schedule.paused = paused;
            schedule.due = Instant::now();
            self.changed.notify_all();
        }
    }

    /// Ends all waits: the job is over.
    pub(crate) fn close(&self) {
        self.schedule().over = true;
        self.changed.notify_all();
    }

    /// The length of blocks that suits the limit, bytes.
    pub(crate) fn block_bytes(&self) -> u64 {
        let bytes_s = self.schedule().bytes_s;
        let even = bytes_s / (1000 / BLOCK.as_millis() as u64);
        if bytes_s == 0 { wire::limits::BLOCK_BYTES } else { (even & !4095).clamp(16 << 10, wire::limits::BLOCK_BYTES) }
    }

    /// Waits until `bytes` more bytes are due. Returns `false` once the job is over.
    pub(crate) fn wait(&self, bytes: u64) -> bool {
        let mut schedule = self.schedule();
        loop {
            let now = Instant::now();
            if schedule.over {
                return false;
            } else if schedule.paused {
                self.changed.wait(&mut schedule);
            } else if schedule.bytes_s == 0 {
                return true;
            } else if schedule.due <= now {
                let from = schedule.due.max(now.checked_sub(SLACK).unwrap_or(now));
                schedule.due = from + Duration::from_secs_f64(bytes as f64 / schedule.bytes_s as f64);
                return true;
            } else {
                let wait = schedule.due - now;
                self.changed.wait_for(&mut schedule, wait);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn several_threads_keep_one_rate() {
        let pace = Arc::new(Pace::default());
        pace.set(10_000_000, false);
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let pace = Arc::clone(&pace);
                scope.spawn(move || (0..25).for_each(|_| assert!(pace.wait(25_000))));
            }
        });
        // 2.5 MB at 10 MB/s; the first is free, and a machine may be slow, never fast.
        assert!(started.elapsed() >= Duration::from_millis(220), "{:?}", started.elapsed());
    }

    #[test]
    fn a_pause_ends_with_the_job_or_the_pause() {
        let pace = Arc::new(Pace::default());
        assert!(pace.wait(u64::MAX), "no limit");
        pace.set(0, true);
        let waiting = Arc::clone(&pace);
        let waiter = std::thread::spawn(move || waiting.wait(1));
        pace.set(0, false);
        assert!(waiter.join().unwrap());
        pace.set(1, true);
        let waiting = Arc::clone(&pace);
        let waiter = std::thread::spawn(move || waiting.wait(1));
        pace.close();
        assert!(!waiter.join().unwrap());
    }

    #[test]
    fn blocks_suit_the_limit() {
        let pace = Pace::default();
        assert_eq!(pace.block_bytes(), 1 << 20);
        pace.set(12_500_000, false);
        assert!((200_000..=250_000).contains(&pace.block_bytes()));
        pace.set(1, false);
        assert_eq!(pace.block_bytes(), 16 << 10);
    }
}

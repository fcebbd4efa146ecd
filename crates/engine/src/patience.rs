//! The pauses between attempts: they grow, and start over whenever something has moved.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::Progress;

/// The patience of one command.
pub struct Patience {
    limit: Duration,
    /// When something last moved.
    moved_at: Instant,
    /// The highest bytes and files of all attempts.
    highest: (u64, u64),
    pause: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

impl Patience {
    /// Patience that ends once nothing has moved for `limit`.
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, moved_at: Instant::now(), highest: (0, 0), pause: FIRST_PAUSE }
    }

    /// Takes the numbers of a running attempt. A new attempt starts at zero: only more than in all earlier attempts
    /// is progress, so that a job which always breaks at the same place is given up.
    pub fn record_progress(&mut self, progress: &Progress) {
        if progress.bytes_arrived > self.highest.0 || progress.files_settled > self.highest.1 {
            self.moved_at = Instant::now();
            self.pause = FIRST_PAUSE;
        }
        self.highest.0 = self.highest.0.max(progress.bytes_arrived);
        self.highest.1 = self.highest.1.max(progress.files_settled);
    }

    /// The pause before the next attempt; none where there is to be no further one.
    pub fn pause(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (pause * 2).min(LAST_PAUSE);
        (self.moved_at.elapsed() + pause < self.limit).then_some(pause)
    }

    /// Waits for a pause, unless the user stops it. Returns `false` where it was stopped.
    pub fn wait(pause: Duration, cancel: &AtomicBool) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if cancel.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_start_over() {
        let mut patience = Patience::new(Duration::from_secs(900));
        let seconds = |p: Option<Duration>| p.map(|p| p.as_secs());
        let grown: Vec<_> = (0..7).map(|_| seconds(patience.pause())).collect();
        assert_eq!(grown, [Some(1), Some(2), Some(4), Some(8), Some(16), Some(30), Some(30)]);
        patience.record_progress(&Progress { bytes_arrived: 1, ..Progress::default() });
        assert_eq!(seconds(patience.pause()), Some(1));
        // The next attempt gets as far as the one before, and no further.
        patience.record_progress(&Progress::default());
        patience.record_progress(&Progress { bytes_arrived: 1, ..Progress::default() });
        assert_eq!(seconds(patience.pause()), Some(2));
        assert_eq!(Patience::new(Duration::ZERO).pause(), None);
    }

    #[test]
    fn a_wait_can_be_stopped() {
        let started = Instant::now();
        assert!(!Patience::wait(Duration::from_secs(60), &AtomicBool::new(true)));
        assert!(started.elapsed() < Duration::from_secs(5));
        assert!(Patience::wait(Duration::ZERO, &AtomicBool::new(true)));
    }
}

//! What follows a failure: which files are tried again and when, and when an endpoint is left in peace.

use std::time::Duration;

use model::Fault;

/// What a failure means for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// The path, or a server that was busy: try again after a pause.
    Later,
    /// This source does not have the file, or has other bytes: try another source at once, and none again that failed so.
    OtherSource,
    /// The target has no room: everything queued to it waits.
    QueueWaits,
    /// Trying again would end alike: whoever asked for it has to change something.
    Never,
}

/// The remedy of a fault, where `is_full` says that the target has no room.
pub fn remedy(fault: Fault, is_full: bool) -> Remedy {
    match fault {
        _ if is_full => Remedy::QueueWaits,
        Fault::Path | Fault::Storage | Fault::Local | Fault::Peer | Fault::Bug => Remedy::Later,
        Fault::Missing | Fault::Integrity => Remedy::OtherSource,
        Fault::Config | Fault::Auth | Fault::Interrupted => Remedy::Never,
    }
}

/// Pauses between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after so many failed attempts: it doubles, and `dice` (0 to 1) takes up to half of it away, so that what failed together
    /// does not come back together.
    pub fn pause(&self, failed: u32, dice: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << failed.saturating_sub(1).min(20));
        doubled.min(self.longest).mul_f64(1.0 - 0.5 * dice.clamp(0.0, 1.0))
    }
}

/// A circuit breaker of an endpoint (Nygard, Release It!, chapter 5): after [`TRIPS`] failures within [`WINDOW`] nothing is sent there until a
/// pause is over; then one transfer tries.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// When the last failures were, oldest first, and no success since.
    failures: Vec<Duration>,
    /// It is open until then.
    open_until: Option<Duration>,
    /// How often it has opened since the last success.
    opened: u32,
    /// A transfer tries.
    is_trying: bool,
}

/// Failures in a row that open a breaker.
pub const TRIPS: usize = 5;
/// Failures that are older do not count.
pub const WINDOW: Duration = Duration::from_secs(60);
/// How long it stays open.
pub const OPEN: Backoff = Backoff { first: Duration::from_secs(15), longest: Duration::from_secs(600) };

impl Breaker {
    /// Whether nothing may be sent to the endpoint now: the pause is not over, or a transfer tries.
    pub fn is_open(&self, now: Duration) -> bool {
        self.open_until.is_some_and(|until| now < until || self.is_trying)
    }

    /// A transfer to the endpoint begins. Where it was open and the pause is over, this is the one that tries.
    pub fn began(&mut self) {
        self.is_trying = self.open_until.is_some();
    }

    /// Until when nothing is sent there.
    pub fn open_until(&self) -> Option<Duration> {
        self.open_until
    }

    /// A transfer there went well.
    pub fn succeeded(&mut self) {
        *self = Breaker::default();
    }

    /// A transfer there failed for a reason that is the endpoint's.
    pub fn failed(&mut self, now: Duration) {
        self.failures.retain(|at| now.saturating_sub(*at) < WINDOW);
        self.failures.push(now);
        if self.is_trying || self.failures.len() >= TRIPS {
            self.opened += 1;
            self.open_until = Some(now + OPEN.pause(self.opened, 0.0));
            self.is_trying = false;
            self.failures.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_fault_has_a_remedy() {
        assert_eq!(remedy(Fault::Path, false), Remedy::Later);
        assert_eq!(remedy(Fault::Missing, false), Remedy::OtherSource);
        assert_eq!(remedy(Fault::Integrity, false), Remedy::OtherSource);
        assert_eq!(remedy(Fault::Auth, false), Remedy::Never);
        assert_eq!(remedy(Fault::Storage, true), Remedy::QueueWaits);
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: s(10), longest: s(60) };
        let pauses: Vec<Duration> = (1..6).map(|failed| backoff.pause(failed, 0.0)).collect();
        assert_eq!(pauses, [s(10), s(20), s(40), s(60), s(60)]);
        assert_eq!(backoff.pause(2, 1.0), s(10));
        assert_eq!(backoff.pause(4_000_000_000, 0.0), s(60));
    }

    #[test]
    fn an_endpoint_that_fails_is_left_in_peace_and_tried_by_one() {
        let mut breaker = Breaker::default();
        (0..TRIPS as u64).for_each(|at| {
            assert!(!breaker.is_open(s(at)));
            breaker.began();
            breaker.failed(s(at));
        });
        assert!(breaker.is_open(s(5)));
        assert!(!breaker.is_open(s(20)), "the pause is over");
        breaker.began();
        assert!(breaker.is_open(s(20)), "one tries, and one only");
        breaker.failed(s(21));
        assert!(breaker.is_open(s(45)), "the next pause is longer");
        assert!(!breaker.is_open(s(51)));
        breaker.began();
        breaker.succeeded();
        assert!(!breaker.is_open(s(52)));
    }

    #[test]
    fn failures_that_are_far_apart_open_nothing() {
        let mut breaker = Breaker::default();
        (0..50).for_each(|at| breaker.failed(s(at * 30)));
        assert!(!breaker.is_open(s(1500)));
    }
}

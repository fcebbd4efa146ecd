//! The reaction to a failure: which files are tried again and when, and how long nothing is sent to an endpoint that fails.

use std::time::Duration;

use model::Fault;

/// The remedy for a file after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// The path failed, or a server was busy: try again after a pause.
    Later,
    /// This source lacks the file, or has other bytes: try another source at once, and this one never again.
    OtherSource,
    /// The target has no room: everything queued to it waits.
    QueueWaits,
    /// Another attempt would fail in the same way: the request itself must change.
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
    /// The pause after `failed` failed attempts. It doubles each time; `jitter` (0 to 1) takes up to half of it away, so that transfers
    /// that failed together do not come back together.
    pub fn pause(&self, failed: u32, jitter: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << failed.saturating_sub(1).min(20));
        doubled.min(self.longest).mul_f64(1.0 - 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// A circuit breaker of an endpoint (Nygard, Release It!, chapter 5): after [`TRIPS`] failures within [`WINDOW`] nothing is sent to the
/// endpoint until a pause is over; then one transfer tries.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// The times of the last failures since the last success, oldest first.
    failures: Vec<Duration>,
    /// The breaker is open until then.
    open_until: Option<Duration>,
    /// How often it has opened since the last success.
    opened: u32,
    /// A transfer tries whether the endpoint works again.
    is_trying: bool,
}

/// Failures in a row that open a breaker.
pub const TRIPS: usize = 5;
/// Failures that are older do not count.
pub const WINDOW: Duration = Duration::from_secs(60);
/// How long a breaker stays open.
pub const OPEN: Backoff = Backoff { first: Duration::from_secs(15), longest: Duration::from_secs(600) };

impl Breaker {
    /// Whether nothing may be sent to the endpoint now: the pause is not over, or a transfer tries.
    pub fn is_open(&self, now: Duration) -> bool {
        self.open_until.is_some_and(|until| now < until || self.is_trying)
    }

    /// Notes that a transfer to the endpoint begins. If the breaker was open and its pause is over, this transfer is the trial.
    pub fn began(&mut self) {
        self.is_trying = self.open_until.is_some();
    }

    /// The time until which nothing is sent to the endpoint.
    pub fn open_until(&self) -> Option<Duration> {
        self.open_until
    }

    /// Notes that a transfer to the endpoint succeeded.
    pub fn succeeded(&mut self) {
        *self = Breaker::default();
    }

    /// Notes that a transfer failed through the endpoint's fault.
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
    fn after_a_pause_one_transfer_tries_a_failing_endpoint() {
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

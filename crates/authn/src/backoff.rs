//! Backoff of clients that guess credentials: the answer to each further failure is delayed longer, and no other client is delayed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use model::client_prefix;

/// The failures that are answered without a wait: people make typing errors.
const FAILURES_WITHOUT_WAIT: u32 = 5;
/// The wait after the first failure beyond these; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait: it bounds the rate of guesses, and is short enough that a client with a stale token still reads its answer.
const LONGEST: Duration = Duration::from_secs(2);
/// The most threads that wait at once. Further failures are refused at once, since a waiting thread serves no client.
const WAITING_MAX: usize = 128;
/// Failures are forgotten this long after the last one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// The most client prefixes whose failures are remembered.
const REMEMBERED_MAX: usize = 65_536;

/// Failures to authenticate, by client prefix: how many, and when the last one was.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    waiting: AtomicUsize,
}

/// The wait after this number of failures.
fn wait(failures: u32) -> Duration {
    match failures.checked_sub(FAILURES_WITHOUT_WAIT + 1) {
        None => Duration::ZERO,
        Some(beyond) => FIRST.saturating_mul(1 << beyond.min(16)).min(LONGEST),
    }
}

impl Backoff {
    /// Counts a failure. Returns the wait before its answer.
    fn failed(&self, address: IpAddr, now: Instant) -> Duration {
        let mut known = self.failures.lock();
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, (_, last)| now.saturating_duration_since(*last) < FORGOTTEN_AFTER);
        }
        // An attacker with that many networks is not slowed by remembering them.
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        let (failures, last) = known.entry(client_prefix(address)).or_insert((0, now));
        if now.saturating_duration_since(*last) >= FORGOTTEN_AFTER {
            *failures = 0;
        }
        (*failures, *last) = (failures.saturating_add(1), now);
        wait(*failures)
    }

    /// Delays the answer to a client with an invalid credential. Returns `false` at once if too many threads wait already.
    pub fn delay(&self, address: IpAddr) -> bool {
        let wait = self.failed(address, Instant::now());
        if wait.is_zero() {
            return true;
        }
        let has_room = self.waiting.fetch_add(1, Ordering::AcqRel) < WAITING_MAX;
        if has_room {
            std::thread::sleep(wait);
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        has_room
    }

    /// Forgets the failures of a client that presented a valid credential.
    pub fn succeeded(&self, address: IpAddr) {
        let mut known = self.failures.lock();
        if !known.is_empty() {
            known.remove(&client_prefix(address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_costs_more_and_more_and_is_forgiven() {
        let (backoff, now) = (Backoff::default(), Instant::now());
        let (guesser, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let waits: Vec<Duration> = (0..20).map(|_| backoff.failed(guesser, now)).collect();
        assert!(waits[..FAILURES_WITHOUT_WAIT as usize].iter().all(Duration::is_zero), "{waits:?}");
        assert_eq!(waits[FAILURES_WITHOUT_WAIT as usize], FIRST);
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(waits[19], LONGEST);
        assert_eq!(backoff.failed(other, now), Duration::ZERO);
        assert_eq!(backoff.failed(guesser, now + FORGOTTEN_AFTER), Duration::ZERO);
        backoff.failed(guesser, now);
        backoff.succeeded(guesser);
        assert_eq!(backoff.failed(guesser, now), Duration::ZERO);
    }
}

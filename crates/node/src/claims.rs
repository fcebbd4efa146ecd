//! Claims of tests that must not run beside others: one test at a time holds the node. Tests from this node and tests with this
//! node claim it here, so that no party needs a list of all tests of all collaborations.

use std::time::{Duration, Instant};

use model::v1::probe::{Claim, ClaimLine, Token};
use parking_lot::{Condvar, Mutex};

use crate::shutdown::Shutdown;

/// The longest duration of a claim, seconds.
pub(crate) const SECONDS_MAX: f64 = 900.0;
/// How often a waiting thread checks whether the node stops.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The claim that holds the node, if any.
#[derive(Debug, Default)]
pub(crate) struct TestClaims {
    held: Mutex<Option<HeldClaim>>,
    freed: Condvar,
}

#[derive(Debug)]
struct HeldClaim {
    token: Token,
    until: Instant,
}

impl TestClaims {
    /// Takes or prolongs a claim; a claim of 0 s ends it. `obstacle` names other work on this node that the test would disturb.
    pub fn claim(&self, claim: &Claim, obstacle: Option<String>) -> ClaimLine {
        let mut held = self.held.lock();
        let now = Instant::now();
        let is_same = held.as_ref().is_some_and(|held| held.token == claim.token);
        if claim.seconds <= 0.0 {
            if is_same {
                *held = None;
                self.freed.notify_all();
            }
            return ClaimLine::Granted;
        }
        if let Some(other) = held.as_ref().filter(|held| held.until > now && !is_same) {
            let left_s = (other.until - now).as_secs_f64().ceil();
            return ClaimLine::Busy { why: format!("another test has this node, for {left_s} s at most") };
        }
        if let Some(why) = obstacle {
            return ClaimLine::Busy { why };
        }
        let until = now + Duration::from_secs_f64(claim.seconds.clamp(0.0, SECONDS_MAX));
        *held = Some(HeldClaim { token: claim.token, until });
        ClaimLine::Granted
    }

    /// Waits until no other claim holds the node, and takes it; `false` if the node stops first.
    pub fn wait(&self, claim: &Claim, shutdown: &Shutdown) -> bool {
        while !shutdown.has_begun() {
            if self.claim(claim, None) == ClaimLine::Granted {
                return true;
            }
            let mut held = self.held.lock();
            self.freed.wait_for(&mut held, CHECK_EVERY);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(token: u8, seconds: f64) -> Claim {
        Claim { token: [token; 16], seconds, waits_for_transfers: false }
    }

    #[test]
    fn one_claim_holds_the_node_at_a_time_and_expires() {
        let claims = TestClaims::default();
        let busy = |line| matches!(line, ClaimLine::Busy { .. });
        assert_eq!(claims.claim(&claim(1, 10.0), None), ClaimLine::Granted);
        assert!(busy(claims.claim(&claim(2, 10.0), None)));
        assert_eq!(claims.claim(&claim(1, 10.0), None), ClaimLine::Granted, "it is prolonged");
        assert_eq!(claims.claim(&claim(2, 0.0), None), ClaimLine::Granted, "a claim that does not exist can be ended");
        assert!(busy(claims.claim(&claim(2, 10.0), None)), "the claim of another client stays");
        assert_eq!(claims.claim(&claim(1, 0.0), None), ClaimLine::Granted);
        assert!(busy(claims.claim(&claim(2, 10.0), Some("a transfer runs".into()))));
        assert_eq!(claims.claim(&claim(2, 0.02), None), ClaimLine::Granted);
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(claims.claim(&claim(3, 1e300), None), ClaimLine::Granted, "it has ended by itself");
        let until = claims.held.lock().as_ref().map(|held| held.until).unwrap();
        assert!(until <= Instant::now() + Duration::from_secs_f64(SECONDS_MAX));
    }

    #[test]
    fn a_waiting_claim_is_granted_when_the_other_ends() {
        let claims = TestClaims::default();
        claims.claim(&claim(1, 600.0), None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| claims.wait(&claim(2, 10.0), &Shutdown::default()));
            claims.claim(&claim(1, 0.0), None);
            assert!(waiting.join().unwrap());
        });
        let over = Shutdown::default();
        over.begin();
        assert!(!claims.wait(&claim(3, 10.0), &over));
    }
}

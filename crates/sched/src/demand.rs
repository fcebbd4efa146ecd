//! The demand of a party, estimated from its use, so that others get the share that it does not use.
//!
//! A party that uses nearly all of its share may want more: its demand is unlimited. A party that uses much less for [`PATIENCE`] is
//! limited by something else (a disk, a receiver, a path that is not described), and keeps some room above its use. When it fills that
//! room, the room doubles.

use std::time::Duration;

/// How long use must be lower before it counts.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// The part of a share from which on it counts as fully used.
const NEARLY_ALL: f64 = 0.8;
/// The room that a party keeps, as a multiple of its use.
const ROOM: f64 = 1.25;
/// The least room of any party, bytes per second: 1 Mbit/s.
const LEAST: f64 = 125e3;

/// The demand of one party.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemandEstimate {
    cap: f64,
    low_since: Option<Duration>,
}

impl Default for DemandEstimate {
    fn default() -> DemandEstimate {
        DemandEstimate { cap: f64::INFINITY, low_since: None }
    }
}

impl DemandEstimate {
    /// The demand as it was returned last, bytes per second; infinite before the first call.
    pub fn cap(&self) -> f64 {
        self.cap
    }

    /// Takes the use and the share since the last call, in bytes per second, and returns the demand.
    pub fn step(&mut self, now: Duration, used: f64, given: f64) -> f64 {
        if used >= given * NEARLY_ALL {
            self.low_since = None;
            // The share may have been limited by the cap, or by others: the cap grows until it no longer limits.
            self.cap = if given >= self.cap * NEARLY_ALL { (self.cap * 2.0).max(LEAST) } else { f64::INFINITY };
            return self.cap;
        }
        let since = *self.low_since.get_or_insert(now);
        if now.saturating_sub(since) >= PATIENCE {
            self.cap = (used * ROOM).max(LEAST);
        }
        self.cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The rate in each second of a party that can use `most`, where its fair share is `fair`.
    fn run(most: f64, fair: f64, seconds: u64) -> Vec<f64> {
        let mut demand = DemandEstimate::default();
        let mut given = fair;
        (0..seconds)
            .map(|at| {
                given = fair.min(demand.step(s(at), most.min(given), given));
                given
            })
            .collect()
    }

    #[test]
    fn a_party_that_uses_its_share_keeps_it() {
        assert!(run(1e9, 1e8, 60).iter().all(|given| *given == 1e8));
    }

    #[test]
    fn the_unused_part_of_a_share_goes_to_others_after_a_while() {
        let given = run(1e7, 1e8, 60);
        assert_eq!(given[1], 1e8, "not at once");
        let mean = given[10..].iter().sum::<f64>() / 50.0;
        assert!((1.0e7..2.6e7).contains(&mean), "{mean}");
        assert!(given.iter().all(|given| *given >= 1e7), "it always has what it uses");
    }

    #[test]
    fn a_party_whose_use_grows_has_its_share_within_seconds() {
        let mut demand = DemandEstimate::default();
        (0..20).for_each(|at| {
            demand.step(s(at), 0.0, 1e8_f64.min(1e8));
        });
        let mut given = 1e8_f64.min(demand.step(s(20), 0.0, 1e8));
        assert_eq!(given, LEAST);
        let seconds = (21..60).take_while(|at| {
            given = 1e8_f64.min(demand.step(s(*at), given, given));
            given < 1e8
        });
        assert!(seconds.count() < 12);
    }
}

//! Scripts in virtual time, against a network that a test makes up.

use std::time::Duration;

use super::drive::{Next, Pace, Script};
use super::flow::{ProbeEvent, Shot};

/// Runs a script to its end; returns the time that took and the number of probes. `network` is given each probe with its
/// number and says what will be heard of it, and how long after.
pub fn run(
    script: &mut impl Script,
    pace: &Pace,
    mut network: impl FnMut(usize, Shot) -> Vec<(Duration, ProbeEvent)>,
) -> (Duration, usize) {
    let (mut now, mut free, mut shots) = (Duration::ZERO, Duration::ZERO, 0);
    let mut coming: Vec<(Duration, ProbeEvent)> = Vec::new();
    for _ in 0..1_000_000 {
        coming.sort_by_key(|(at, _)| *at);
        while coming.first().is_some_and(|(at, _)| *at <= now) {
            let (_, heard) = coming.remove(0);
            script.heard(now, &heard);
        }
        let wake = if now < free {
            free
        } else {
            match script.next(now) {
                Next::Shoot(shot) => {
                    coming.extend(network(shots, shot).into_iter().map(|(after, heard)| (now + after, heard)));
                    shots += 1;
                    free = now + pace.pause(shot);
                    continue;
                }
                Next::Wait(until) => until,
                Next::Done => return (now, shots),
            }
        };
        assert!(now < pace.lasts, "not done after {now:?} and {shots} probes");
        let next = coming.first().map_or(wake, |(at, _)| wake.min(*at));
        assert!(next > now, "it waits for {wake:?}, which is not to come: it is {now:?}");
        now = next;
    }
    panic!("it goes on for ever");
}

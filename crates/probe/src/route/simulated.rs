//! Runs scripts in virtual time, against a network that a test simulates.

use std::time::Duration;

use super::drive::{Next, Pace, Script};
use super::flow::{ProbeEvent, ProbeSpec};

/// Runs a script to its end; returns the time and the number of probes. `network` takes each probe with its number, and returns the
/// probe's events, each with its delay.
pub fn run(
    script: &mut impl Script,
    pace: &Pace,
    mut network: impl FnMut(usize, ProbeSpec) -> Vec<(Duration, ProbeEvent)>,
) -> (Duration, usize) {
    let mut now = Duration::ZERO;
    let mut free = Duration::ZERO;
    let mut sent = 0;
    let mut pending: Vec<(Duration, ProbeEvent)> = Vec::new();
    for _ in 0..1_000_000 {
        pending.sort_by_key(|(at, _)| *at);
        while pending.first().is_some_and(|(at, _)| *at <= now) {
            let (_, event) = pending.remove(0);
            script.handle(now, &event);
        }
        let wake = if now < free {
            free
        } else {
            match script.next(now) {
                Next::Send(spec) => {
                    pending.extend(network(sent, spec).into_iter().map(|(after, event)| (now + after, event)));
                    sent += 1;
                    free = now + pace.pause(spec);
                    continue;
                }
                Next::Wait(until) => until,
                Next::Done => return (now, sent),
            }
        };
        assert!(now < pace.lasts, "not done after {now:?} and {sent} probes");
        let next = pending.first().map_or(wake, |(at, _)| wake.min(*at));
        assert!(next > now, "the script waits for {wake:?}, which is over: it is {now:?}");
        now = next;
    }
    panic!("the script does not end");
}

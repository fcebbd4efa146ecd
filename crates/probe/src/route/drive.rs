//! Sends the probes of scripts and passes the answers to them, for several flows at once, at a bounded pace.
//!
//! This module does not know the purpose of a script.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::flow::{ProbeEvent, ProbeFlow, ProbeSpec};
use crate::{Error, Result, Stop};

/// The next action of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send a probe. Its number is the number of probes before it.
    Send(ProbeSpec),
    /// Wait until this time, or until an answer arrives.
    Wait(Duration),
    /// The script is finished.
    Done,
}

/// Chooses the probes of one flow and evaluates the answers. Pure: times count from the start.
pub trait Script {
    /// The next action at `now`. A probe that it returns counts as sent.
    fn next(&mut self, now: Duration) -> Next;
    /// Takes an event of a probe.
    fn handle(&mut self, now: Duration, event: &ProbeEvent);
}

/// Bounds on the pace and the time of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Least time from one probe to the next, over all flows.
    pub interval: Duration,
    /// The highest rate, which bounds large probes.
    pub rate_bit_s: u64,
    /// Time after which probing ends.
    pub lasts: Duration,
}

impl Pace {
    /// Time from a probe to the next one.
    pub fn pause(&self, spec: ProbeSpec) -> Duration {
        let bits = u64::from(spec.bytes) * 8;
        self.interval.max(Duration::from_nanos(bits * 1_000_000_000 / self.rate_bit_s.max(1)))
    }
}

/// Why probing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All scripts are done.
    Done,
    /// The time was over.
    OutOfTime,
    /// It was stopped.
    Stopped,
}

/// The longest wait before the stop is checked.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// One flow and its script.
pub struct ScriptedFlow<'a, S> {
    /// The flow.
    pub flow: ProbeFlow<'a>,
    /// The script.
    pub script: S,
}

/// Runs all scripts until they are finished, or until the time is over.
///
/// # Errors
/// [`Error::Host`]: a socket fails.
pub fn drive<S: Script>(runs: &mut [ScriptedFlow<'_, S>], pace: &Pace, stop: &Stop) -> Result<Ending> {
    let start = Instant::now();
    // No probe is sent before this time.
    let mut free = Duration::ZERO;
    loop {
        let now = start.elapsed();
        if stop.is_stopped() {
            return Ok(Ending::Stopped);
        }
        if now >= pace.lasts {
            return Ok(Ending::OutOfTime);
        }
        let wake = if now < free {
            free
        } else {
            match step(runs, now)? {
                Step::Sent(spec) => {
                    free = now + pace.pause(spec);
                    free
                }
                Step::Wait(until) => until,
                Step::Done => return Ok(Ending::Done),
            }
        };
        let wait = wake.min(pace.lasts).saturating_sub(start.elapsed()).min(WAIT_MAX);
        for number in ready(runs, wait)? {
            let Some(ScriptedFlow { flow, script }) = runs.get_mut(number) else { continue };
            let now = start.elapsed();
            flow.drain_events(|event| script.handle(now, event))?;
        }
    }
}

/// The outcome of [`step`].
enum Step {
    Sent(ProbeSpec),
    Wait(Duration),
    Done,
}

/// Sends one probe, of a random flow among those that are ready, so that periodic effects in the network do not always affect
/// the same flow.
fn step<S: Script>(runs: &mut [ScriptedFlow<'_, S>], now: Duration) -> Result<Step> {
    let mut wake = Duration::MAX;
    let mut is_done = true;
    let first = fastrand::usize(..runs.len().max(1));
    let after = first..runs.len();
    let before = 0..first;
    for number in after.chain(before) {
        let Some(ScriptedFlow { flow, script }) = runs.get_mut(number) else { continue };
        match script.next(now) {
            Next::Send(spec) => {
                flow.send(spec)?;
                // Events that arrived during the call are not announced again.
                flow.drain_events(|event| script.handle(now, event))?;
                return Ok(Step::Sent(spec));
            }
            Next::Wait(until) => {
                wake = wake.min(until);
                is_done = false;
            }
            Next::Done => {}
        }
    }
    Ok(if is_done { Step::Done } else { Step::Wait(wake) })
}

/// Waits for events, at most for `wait`; returns the flows that have some.
fn ready<S>(runs: &[ScriptedFlow<'_, S>], wait: Duration) -> Result<Vec<usize>> {
    let mut descriptors: Vec<_> = runs.iter().map(|run| PollFd::new(run.flow.socket(), PollFlags::IN)).collect();
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    match poll(&mut descriptors, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Error::Host { doing: "wait for answers to probes", source: error.into() }),
    }
    // ICMP reports are announced as errors, which poll always returns.
    let ready = descriptors.iter().enumerate().filter(|(_, descriptor)| !descriptor.revents().is_empty());
    Ok(ready.map(|(number, _)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_probes_are_sent_more_slowly() {
        let pace = Pace { interval: Duration::from_millis(2), rate_bit_s: 8_000_000, lasts: Duration::MAX };
        let pause = |bytes| pace.pause(ProbeSpec { ttl: 1, bytes }).as_micros();
        assert_eq!((pause(60), pause(2_000), pause(9_000)), (2_000, 2_000, 9_000));
    }
}

//! Sends the probes of scripts and passes them the answers, for several flows at once, at a bounded pace.
//!
//! Does not know the purpose of a script.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::flow::{ProbeEvent, ProbeFlow, Shot};
use crate::{Error, Result, Stop};

/// The next action of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send a probe. Its number is the number of probes before it.
    Shoot(Shot),
    /// Wait until this time, or until an answer arrives.
    Wait(Duration),
    /// The script is finished.
    Done,
}

/// Chooses the probes of one flow and evaluates the answers. Pure: times count from the start.
pub trait Script {
    /// The action now. A probe that it returns counts as sent.
    fn next(&mut self, now: Duration) -> Next;
    /// Takes an event of a probe.
    fn heard(&mut self, now: Duration, heard: &ProbeEvent);
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
    pub fn pause(&self, shot: Shot) -> Duration {
        let bits = u64::from(shot.bytes) * 8;
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
const NAP: Duration = Duration::from_millis(100);

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
                Step::Shot(shot) => {
                    free = now + pace.pause(shot);
                    free
                }
                Step::Wait(until) => until,
                Step::Done => return Ok(Ending::Done),
            }
        };
        let nap = wake.min(pace.lasts).saturating_sub(start.elapsed()).min(NAP);
        for number in ready(runs, nap)? {
            let Some(ScriptedFlow { flow, script }) = runs.get_mut(number) else { continue };
            let now = start.elapsed();
            flow.hear(|heard| script.heard(now, heard))?;
        }
    }
}

/// What [`step`] did, or waits for.
enum Step {
    Shot(Shot),
    Wait(Duration),
    Done,
}

/// Sends one probe, of a random flow among those that are ready, so that periodic effects in the network do not always meet
/// the same flow.
fn step<S: Script>(runs: &mut [ScriptedFlow<'_, S>], now: Duration) -> Result<Step> {
    let (mut wake, mut is_done) = (Duration::MAX, true);
    let first = fastrand::usize(..runs.len().max(1));
    let (after, before) = (first..runs.len(), 0..first);
    for number in after.chain(before) {
        let Some(ScriptedFlow { flow, script }) = runs.get_mut(number) else { continue };
        match script.next(now) {
            Next::Shoot(shot) => {
                flow.send(shot)?;
                // Events that arrived while sending are not announced again.
                flow.hear(|heard| script.heard(now, heard))?;
                return Ok(Step::Shot(shot));
            }
            Next::Wait(until) => (wake, is_done) = (wake.min(until), false),
            Next::Done => {}
        }
    }
    Ok(if is_done { Step::Done } else { Step::Wait(wake) })
}

/// Waits; returns the flows that have events.
fn ready<S>(runs: &[ScriptedFlow<'_, S>], nap: Duration) -> Result<Vec<usize>> {
    let mut descriptors: Vec<_> = runs.iter().map(|run| PollFd::new(run.flow.socket(), PollFlags::IN)).collect();
    let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: nap.subsec_nanos().into() };
    match poll(&mut descriptors, Some(&nap)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Error::Host { doing: "wait for answers to probes", source: error.into() }),
    }
    // ICMP reports are announced as errors, which poll always returns.
    let heard = descriptors.iter().enumerate().filter(|(_, one)| !one.revents().is_empty());
    Ok(heard.map(|(number, _)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_probes_leave_slowly() {
        let pace = Pace { interval: Duration::from_millis(2), rate_bit_s: 8_000_000, lasts: Duration::MAX };
        let pause = |bytes| pace.pause(Shot { ttl: 1, bytes }).as_micros();
        assert_eq!((pause(60), pause(2_000), pause(9_000)), (2_000, 2_000, 9_000));
    }
}

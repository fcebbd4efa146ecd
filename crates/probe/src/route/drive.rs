//! Sends what scripts want sent and tells them what was heard, for several flows at once, at a bounded pace.
//!
//! Does not know: what a script is after.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::flow::{Flow, Heard, Shot};
use crate::{Error, Result, Stop};

/// What a script wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A probe to be sent: its number is the number of probes before it.
    Shoot(Shot),
    /// Nothing before this time, unless something is heard.
    Wait(Duration),
    /// No more.
    Done,
}

/// What probes of one flow are for. Pure: times are since the start.
pub trait Script {
    /// What to do now. A probe that it asks for counts as sent.
    fn next(&mut self, now: Duration) -> Next;
    /// Something was heard.
    fn heard(&mut self, now: Duration, heard: &Heard);
}

/// How fast, and how long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one probe to the next, over all flows.
    pub interval: Duration,
    /// Large probes leave no faster than this.
    pub rate_bit_s: u64,
    /// All of it ends then.
    pub lasts: Duration,
}

impl Pace {
    /// How long after a probe the next may leave.
    pub fn pause(&self, shot: Shot) -> Duration {
        let bits = u64::from(shot.bytes) * 8;
        self.interval.max(Duration::from_nanos(bits * 1_000_000_000 / self.rate_bit_s.max(1)))
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All scripts are done.
    Done,
    /// There was no more time.
    OutOfTime,
    /// Somebody ended it.
    Stopped,
}

/// How long it sleeps before it looks whether it is to end.
const NAP: Duration = Duration::from_millis(100);

/// One flow and its script.
pub struct Run<'a, S> {
    /// The flow.
    pub flow: Flow<'a>,
    /// The script.
    pub script: S,
}

/// Runs all scripts to their ends.
///
/// # Errors
/// A socket fails.
pub fn drive<S: Script>(runs: &mut [Run<'_, S>], pace: &Pace, stop: &Stop) -> Result<Ending> {
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
            match turn(runs, now)? {
                Turn::Shot(shot) => {
                    free = now + pace.pause(shot);
                    free
                }
                Turn::Wait(until) => until,
                Turn::Done => return Ok(Ending::Done),
            }
        };
        let nap = wake.min(pace.lasts).saturating_sub(start.elapsed()).min(NAP);
        for number in ready(runs, nap)? {
            let Some(Run { flow, script }) = runs.get_mut(number) else { continue };
            let now = start.elapsed();
            flow.hear(|heard| script.heard(now, heard))?;
        }
    }
}

enum Turn {
    Shot(Shot),
    Wait(Duration),
    Done,
}

/// Sends one probe, of a flow chosen by chance among those that want to: what the network does in turns must not meet
/// the same flow each time.
fn turn<S: Script>(runs: &mut [Run<'_, S>], now: Duration) -> Result<Turn> {
    let (mut wake, mut is_done) = (Duration::MAX, true);
    let first = fastrand::usize(..runs.len().max(1));
    let (after, before) = (first..runs.len(), 0..first);
    for number in after.chain(before) {
        let Some(Run { flow, script }) = runs.get_mut(number) else { continue };
        match script.next(now) {
            Next::Shoot(shot) => {
                flow.send(shot)?;
                // What was heard while sending is not announced again.
                flow.hear(|heard| script.heard(now, heard))?;
                return Ok(Turn::Shot(shot));
            }
            Next::Wait(until) => (wake, is_done) = (wake.min(until), false),
            Next::Done => {}
        }
    }
    Ok(if is_done { Turn::Done } else { Turn::Wait(wake) })
}

/// Waits; which flows have heard something.
fn ready<S>(runs: &[Run<'_, S>], nap: Duration) -> Result<Vec<usize>> {
    let mut descriptors: Vec<_> = runs.iter().map(|run| PollFd::new(run.flow.socket(), PollFlags::IN)).collect();
    let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: nap.subsec_nanos().into() };
    match poll(&mut descriptors, Some(&nap)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Error::Host { doing: "wait for answers to probes", source: error.into() }),
    }
    // Reports are announced as errors, asked for or not.
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

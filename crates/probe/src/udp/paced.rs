//! The sender that keeps a spacing: one system call for each datagram, at its due time or later, never earlier.
//!
//! The next due time counts from the start of the last send. A stall therefore delays all later datagrams, and appears as
//! one long spacing; a sender that caught up would turn each of its own stalls into a burst on the network.

use std::io;

use model::v1::probe::udp::UdpSent;

use super::clock::Clock;
use super::datagram::{FlowId, Head, Kind, random_payload};
use super::histogram::TimeHistogram;
use super::order::{Mode, Plan};
use super::sent::SendFaults;
use super::{RunProgress, seconds};
use crate::{Result, Stop};

/// A longer wait begins with sleep.
const NAP_ABOVE_NS: u64 = 200_000;
/// The sender spins at the end of a wait: a sleep ends up to 50 µs late by the kernel's timer slack, and then a processor has
/// to wake up.
const SPIN_NS: u64 = 120_000;
/// The longest sleep before the sender checks whether to end.
const NAP_NS_MAX: u64 = 50_000_000;
/// A host keeps a spacing if 99 % of the measured spacings are below twice the ordered one, and their mean is at most 5 % above it.
/// Beyond that, the host determines the rate and not the order.
const P99_LATE: f64 = 2.0;
const MEAN_LATE: f64 = 1.05;

/// Sends the plan's datagrams through `out`. [`Mode::Max`] is a spacing of 0.
///
/// # Errors
/// A lasting error of `out`, or a temporary one that lasted for 10 s.
pub fn paced(
    plan: &Plan,
    flow: FlowId,
    to: &str,
    clock: &mut impl Clock,
    mut out: impl FnMut(&[u8]) -> io::Result<usize>,
    stop: &Stop,
    watch: &RunProgress,
) -> Result<UdpSent> {
    let mut datagram = random_payload(plan.bytes);
    Head { flow, kind: Kind::Data, number: 0, sent_ns: 0 }.write(&mut datagram);
    let mut faults = SendFaults::new(to, plan.bytes);
    let mut pace = Pace::new(plan, clock.now());
    while pace.sent < plan.count && !stop.is_stopped() {
        if plan.length_ns.is_some_and(|length| pace.due.saturating_sub(pace.begun) >= length) {
            break;
        }
        let Some(start) = wait(clock, pace.due, stop) else { break };
        // The run may have ended during a stall.
        if plan.length_ns.is_some_and(|length| start - pace.begun >= length) {
            break;
        }
        Head::renumber(&mut datagram, pace.sent, clock.real());
        match out(&datagram) {
            Ok(_) => {
                faults.clear_stuck();
                pace.record(start);
                watch.set(pace.sent, 0);
            }
            Err(error) => faults.judge(error, clock)?,
        }
    }
    let ended = clock.now();
    let mut sent = pace.result(plan, ended);
    faults.add_to(&mut sent);
    sent.interrupted = stop.is_stopped();
    Ok(sent)
}

/// Waits until `due`; returns the time, or none if the test is to end. The end of the wait spins on the clock without the
/// processor's pause hint, which on a virtual machine causes an exit that takes longer than the wait itself.
fn wait(clock: &mut impl Clock, due: u64, stop: &Stop) -> Option<u64> {
    loop {
        let now = clock.now();
        if now >= due {
            return Some(now);
        }
        if due - now > NAP_ABOVE_NS {
            if stop.is_stopped() {
                return None;
            }
            clock.nap((due - now - SPIN_NS).min(NAP_NS_MAX));
        }
    }
}

/// The due time of the next datagram, and how well the earlier ones kept theirs.
struct Pace {
    spacing_ns: u64,
    /// Datagrams of a burst, and the pause after it.
    burst: Option<(u64, u64)>,
    begun: u64,
    due: u64,
    sent: u64,
    /// When the last datagram began to leave.
    last: Option<u64>,
    spacings: TimeHistogram,
    gaps: TimeHistogram,
}

impl Pace {
    fn new(plan: &Plan, now: u64) -> Pace {
        let (spacing_ns, burst) = match plan.mode {
            Mode::Spaced { spacing_ns } => (spacing_ns, None),
            Mode::Bursts { length, spacing_ns, gap_ns } => (spacing_ns, Some((length, gap_ns))),
            Mode::Max => (0, None),
        };
        let spacings = TimeHistogram::default();
        let gaps = TimeHistogram::default();
        Pace { spacing_ns, burst, begun: now, due: now, sent: 0, last: None, spacings, gaps }
    }

    /// Whether the last datagram completed a burst.
    fn burst_is_over(&self) -> bool {
        self.burst.is_some_and(|(length, _)| self.sent.is_multiple_of(length))
    }

    /// Counts a datagram that began to leave at `start`.
    fn record(&mut self, start: u64) {
        match self.last {
            Some(last) if self.burst_is_over() => self.gaps.record(start - last),
            Some(last) => self.spacings.record(start - last),
            None => self.begun = start,
        }
        self.last = Some(start);
        self.sent += 1;
        let gap = self.burst.filter(|_| self.burst_is_over()).map_or(0, |(_, gap)| gap);
        self.due = start.saturating_add(self.spacing_ns).saturating_add(gap);
    }

    fn result(&self, plan: &Plan, ended: u64) -> UdpSent {
        // The last spacing belongs to the run, as each one before it; a gap after the last burst does not.
        let end = self.last.map_or(self.begun, |last| ended.max(last + self.spacing_ns));
        let spaced = plan.mode != Mode::Max;
        let sent = UdpSent {
            datagrams: self.sent,
            spacing_target_s: spaced.then(|| seconds(self.spacing_ns)),
            spacing: self.spacings.spread().filter(|_| spaced),
            gap: self.gaps.spread(),
            host_limited: self.host_limited(),
            train_datagrams: 1,
            ..UdpSent::default()
        };
        super::sent::with_rates(sent, plan, end - self.begun)
    }

    /// How the host failed to keep the spacing, in words: by much now and then, or by a little always. None where it kept it.
    fn host_limited(&self) -> Option<String> {
        let [p99, mean, target] =
            [self.spacings.quantile(0.99) as f64, self.spacings.mean(), self.spacing_ns as f64].map(|ns| ns / 1e3);
        let is_late = p99 > P99_LATE * target || mean > MEAN_LATE * target;
        (target > 0.0 && is_late).then(|| {
            format!(
                "the spacings were {mean:.1} µs on average, 1 % of them {p99:.1} µs or more, where {target:.1} µs were \
                 asked for"
            )
        })
    }
}

#[cfg(test)]
mod tests;

//! The result of a test, and the reasons to withhold one-way delays.

use std::time::Duration;

use model::v1::probe::latency::{self, ClockStep, Hops, Latency};

use super::Sender;
use crate::stamp::packet::Answer;
use crate::{Error, Result};

/// Summary of the far end's clock and distance, from its answers.
#[derive(Debug)]
pub struct FarEndSummary {
    answers: u64,
    synchronised: bool,
    ptp: bool,
    /// The largest error; none where an answer had the forbidden error 0.
    error: Option<Duration>,
    hops_forward: Option<Hops>,
    hops_reverse: Option<Hops>,
}

impl Default for FarEndSummary {
    fn default() -> FarEndSummary {
        let error = Some(Duration::ZERO);
        FarEndSummary { answers: 0, synchronised: true, ptp: false, error, hops_forward: None, hops_reverse: None }
    }
}

/// Initial TTLs of packets: those of operating systems, and the one that RFC 5357 requires.
const USUAL_TTLS: [u8; 4] = [32, 64, 128, 255];

fn widen(hops: &mut Option<Hops>, count: u8) {
    let seen = hops.get_or_insert(Hops { least: count, most: count });
    *seen = Hops { least: seen.least.min(count), most: seen.most.max(count) };
}

impl FarEndSummary {
    /// Adds an answer, and its TTL on arrival. The question left with 255.
    pub fn record(&mut self, answer: &Answer, ttl: Option<u8>) {
        self.answers += 1;
        self.synchronised &= answer.error.synchronised;
        self.ptp |= answer.error.ptp;
        self.error = self.error.zip(answer.error.error()).map(|(most, error)| most.max(error));
        if answer.ttl != 0 {
            widen(&mut self.hops_forward, 255 - answer.ttl);
        }
        let initial = |ttl: u8| USUAL_TTLS.into_iter().find(|usual| *usual >= ttl);
        if let Some(count) = ttl.filter(|ttl| *ttl != 0).and_then(|ttl| Some(initial(ttl)? - ttl)) {
            widen(&mut self.hops_reverse, count);
        }
    }

    fn clock(&self) -> Option<latency::Clock> {
        let error_s = self.error.map_or(0.0, |error| error.as_secs_f64());
        let clock = latency::Clock { synchronised: self.synchronised, error_s, ptp: self.ptp };
        (self.answers > 0).then_some(clock)
    }
}

impl Sender<'_> {
    /// The result of the test.
    ///
    /// # Errors
    /// [`Error::Connect`]: no packet could be sent, or none was answered and the peer refused some.
    pub fn result(mut self) -> Result<Latency> {
        let mut packets = self.tally.packets();
        packets.ignored = self.ignored;
        packets.refused = self.refused;
        packets.not_sent = self.not_sent;
        if let Some(source) =
            self.failure.take().filter(|_| packets.sent == 0 || packets.received == 0 && self.refused > 0)
        {
            return Err(Error::Connect { to: self.peer, source });
        }
        let step = |end: &str, ns: i64| ClockStep { end: end.into(), step_s: ns as f64 / 1e9 };
        let clock_step = match (self.near.step_ns(), self.delays.far_step_ns()) {
            (Some(ns), _) => Some(step("near", ns)),
            (None, far) => far.map(|ns| step("far", ns)),
        };
        let one_way_refused = self.why_no_one_way(clock_step.as_ref());
        let is_allowed = one_way_refused.is_none() && packets.received > 0;
        let lateness = self.lateness.delay();
        let tolerable_s = (0.5 / self.order.rate_packets_s).max(1e-3);
        let times = if self.kernel_times { "kernel" } else { "process" };
        Ok(Latency {
            seconds: (self.clock.read().mono_ns - self.started_ns) as f64 / 1e9,
            rate_packets_s: self.order.rate_packets_s,
            packet_bytes: self.order.packet_bytes as u32,
            interrupted: self.interrupted,
            packets,
            round_trip: self.delays.round_trip.delay(),
            histogram: self.delays.round_trip.buckets(),
            residence: self.delays.residence.delay(),
            forward: self.delays.forward.delay().filter(|_| is_allowed),
            reverse: self.delays.reverse.delay().filter(|_| is_allowed),
            one_clock: self.order.one_clock,
            one_way_refused,
            variation_forward: self.delays.variation_forward.variation(),
            variation_reverse: self.delays.variation_reverse.variation(),
            hops_forward: self.far.hops_forward,
            hops_reverse: self.far.hops_reverse,
            clock: self.near.worst(),
            far_clock: self.far.clock(),
            clock_step,
            times: times.into(),
            host_limited: lateness.is_some_and(|late| late.p99_s > tolerable_s),
            lateness,
            peer: self.peer,
        })
    }

    /// Why one-way delays are withheld because of the clocks, in words; none if they are valid.
    fn why_no_one_way(&self, step: Option<&ClockStep>) -> Option<String> {
        let least_s = self.delays.round_trip.least_ns()? as f64 / 1e9;
        let (near, far) = (self.near.worst(), self.far.clock().unwrap_or_default());
        let errors_s = near.error_s + far.error_s;
        let remedy = "let chrony or another NTP client synchronise it";
        if let Some(ClockStep { end, step_s }) = step {
            return Some(format!("the clock of the {end} end was set by {:.3} ms during the test", step_s * 1e3));
        }
        // One clock's error is the same at both ends, and cancels.
        if self.order.one_clock {
            return None;
        }
        let why = if !self.near.is_known {
            "this host does not report the quality of its clock (adjtimex is forbidden)".to_owned()
        } else if !near.synchronised {
            format!("the clock of this host is not synchronised: {remedy}")
        } else if far.ptp {
            "the far clock counts in PTP's scale, whose offset from UTC it does not report".to_owned()
        } else if !far.synchronised {
            format!("the clock of the far end is not synchronised: {remedy}")
        } else if self.far.error.is_none() {
            "the far end does not report the quality of its clock".to_owned()
        } else if errors_s >= least_s / 10.0 {
            format!(
                "the clocks may be off by {:.3} ms together, more than a tenth of the round trip of {:.3} ms",
                errors_s * 1e3,
                least_s * 1e3
            )
        } else if self.delays.impossible > 0 {
            let packets = self.delays.impossible;
            format!("{packets} packets have a negative delay in one direction: a clock is worse than its host reports")
        } else if self.delays.nonsense > 0 {
            format!(
                "the far end reports for {} packets that they were answered before they arrived, or that their residence \
                 time exceeds their round trip",
                self.delays.nonsense
            )
        } else {
            return None;
        };
        Some(why)
    }
}

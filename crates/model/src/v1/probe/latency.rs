//! The result of a latency test.
//!
//! Forward is from the sending end to the answering end; reverse is the other direction. A number that could not be determined is
//! absent, and a text field beside it says why.

use serde::{Deserialize, Serialize};

/// A latency test: round trips, and each direction where the two can be distinguished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Address and port of the end that answers.
    pub peer: String,
    /// The time from the first packet until the test stopped waiting for the last answer.
    pub seconds: f64,
    /// The packets per second that were ordered.
    pub rate_packets_s: f64,
    /// The UDP payload of each packet, bytes.
    pub packet_bytes: u32,
    /// The test was ended early.
    pub interrupted: bool,
    /// Packets and answers.
    pub packets: Packets,
    /// The round-trip time without the time that the other end held the packet; absent if no answer arrived.
    pub round_trip: Option<Delay>,
    /// The distribution of the round trips; empty buckets are left out.
    pub histogram: Vec<Bucket>,
    /// How long the other end held a packet: the difference of its two time stamps.
    pub residence: Option<Delay>,
    /// The one-way delay forward, if both clocks allow it.
    pub forward: Option<Delay>,
    /// The one-way delay in reverse, if both clocks allow it.
    pub reverse: Option<Delay>,
    /// Both ends read the same clock, because they are on one machine.
    #[serde(default)]
    pub one_clock: bool,
    /// Why there are no one-way delays, and what would make them possible.
    pub one_way_refused: Option<String>,
    /// The delay variation of consecutive packets, forward. It needs no synchronised clocks.
    pub variation_forward: Option<Variation>,
    /// The delay variation of consecutive packets, in reverse.
    pub variation_reverse: Option<Variation>,
    /// Routers of the forward path; absent if the other end does not report the TTL that it received.
    pub hops_forward: Option<Hops>,
    /// Routers of the reverse path, if the answers were sent with a usual TTL (32, 64, 128 or 255).
    pub hops_reverse: Option<Hops>,
    /// The clock of the sending end.
    pub clock: Clock,
    /// The clock of the answering end, from its answers; absent if no answer arrived.
    pub far_clock: Option<Clock>,
    /// A clock that was set during the test.
    pub clock_step: Option<ClockStep>,
    /// Where this end takes its time stamps: `kernel` (software time stamps of the socket) or `process`.
    pub times: String,
    /// How late packets were sent, compared with their schedule.
    pub lateness: Option<Delay>,
    /// The host sent more than 1 % of the packets late by more than half an interval (at least 1 ms). The delays may be those of the host
    /// itself.
    pub host_limited: bool,
}

/// Packets sent and answers received. `lost` is `lost_forward` + `lost_reverse` + `lost_unplaced`, if the first two are present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were answered in time, without duplicates.
    pub received: u64,
    /// Packets that were not answered in time.
    pub lost: u64,
    /// Packets lost in forward direction.
    pub lost_forward: Option<u64>,
    /// Packets lost in reverse direction.
    pub lost_reverse: Option<u64>,
    /// Packets lost in an unknown direction: after the last answer, or before the first answer of a reflector whose counter did not
    /// start with this test.
    pub lost_unplaced: u64,
    /// Answers beyond the first to the same packet.
    pub duplicates: u64,
    /// Packets that reached the reflector more than once: it numbers each of its answers.
    pub duplicates_forward: Option<u64>,
    /// Answers that arrived more than once.
    pub duplicates_reverse: Option<u64>,
    /// Answers that arrived after the answer to a later packet (RFC 4737, type P reordered).
    pub reordered: u64,
    /// Packets that reached the reflector after a later packet.
    pub reordered_forward: Option<u64>,
    /// Answers that arrived after an answer that was sent later.
    pub reordered_reverse: Option<u64>,
    /// Answers that arrived after the timeout. Their packets count as lost.
    pub late: u64,
    /// Packets that are not answers to this test: another session, number, time or format.
    pub ignored: u64,
    /// The number of ICMP messages that the port is closed.
    pub refused: u64,
    /// Packets that this host could not send.
    pub not_sent: u64,
    /// Whether the reflector counts packets by itself; absent if no answer shows it.
    pub stateful: Option<bool>,
    /// Why the directions cannot be distinguished.
    pub direction_unknown: Option<String>,
}

/// The distribution of a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// The smallest value.
    pub min_s: f64,
    /// The median.
    pub median_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The largest value.
    pub max_s: f64,
}

/// The absolute difference of delay between consecutive packets (RFC 3393).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Pairs of consecutive packets that were both answered.
    pub pairs: u64,
    /// The median.
    pub p50_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
}

/// Round trips of similar length. Ten buckets to a decade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// The lower bound, inclusive.
    pub from_s: f64,
    /// The upper bound, exclusive.
    pub to_s: f64,
    /// The number of round trips.
    pub count: u64,
}

/// The number of routers, from the TTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hops {
    /// The number on the shortest path seen.
    pub least: u8,
    /// The number on the longest path seen. If it differs from `least`, the route changed, or there are several routes.
    pub most: u8,
}

/// The quality of a clock, as the clock states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The clock was synchronised to UTC during the whole test.
    pub synchronised: bool,
    /// The largest error during the test, as the kernel estimates it.
    pub error_s: f64,
    /// The clock uses PTP's time scale, which is ahead of UTC by the leap seconds.
    pub ptp: bool,
}

/// A clock was set while the test ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockStep {
    /// `near` or `far`.
    pub end: String,
    /// The size of the step; positive if the clock was set forward.
    pub step_s: f64,
}

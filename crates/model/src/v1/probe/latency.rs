//! The result of a latency test.
//!
//! Forward is from the end that asks to the end that answers, reverse the other direction. A number that could not be determined
//! is absent, and a sentence beside it says why.

use serde::{Deserialize, Serialize};

/// A latency test: round trips, and each direction as far as it can be told apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Address and port of the end that answers.
    pub peer: String,
    /// From the first packet to the end of waiting for the last answer.
    pub seconds: f64,
    /// Packets per second that were asked for.
    pub rate_packets_s: f64,
    /// Octets of each packet above UDP.
    pub packet_bytes: u32,
    /// The test was ended before its time.
    pub interrupted: bool,
    /// Packets and answers.
    pub packets: Packets,
    /// There and back without the time that the other end held the packet; absent where nothing came back.
    pub round_trip: Option<Delay>,
    /// The distribution of the round trips; empty buckets are left out.
    pub histogram: Vec<Bucket>,
    /// How long the other end held a packet: its own two times, subtracted.
    pub residence: Option<Delay>,
    /// One-way delay forward, where both clocks allow it.
    pub forward: Option<Delay>,
    /// One-way delay in reverse, where both clocks allow it.
    pub reverse: Option<Delay>,
    /// Both ends read one clock: they are on one machine.
    #[serde(default)]
    pub one_clock: bool,
    /// Why there is no delay by direction, and what would give it.
    pub one_way_refused: Option<String>,
    /// Between neighbours, forward; needs no synchronised clocks.
    pub variation_forward: Option<Variation>,
    /// Between neighbours, in reverse.
    pub variation_reverse: Option<Variation>,
    /// Routers of the forward path; absent where the other end does not tell the TTL it saw.
    pub hops_forward: Option<Hops>,
    /// Routers of the reverse path, if the answers set out with a usual TTL (32, 64, 128 or 255).
    pub hops_reverse: Option<Hops>,
    /// The clock of the end that asks.
    pub clock: Clock,
    /// The clock of the end that answers, as its answers say; absent where nothing came back.
    pub far_clock: Option<Clock>,
    /// A clock that was set during the test.
    pub clock_step: Option<ClockStep>,
    /// Where the times of this end are taken: `kernel` (the socket's software time stamps) or `process`.
    pub times: String,
    /// How late packets left, against their schedule.
    pub lateness: Option<Delay>,
    /// The host sent later than half an interval (at least 1 ms) more than once in a hundred times: its delays may be
    /// its own.
    pub host_limited: bool,
}

/// What was sent and what came back. `lost` is `lost_forward` + `lost_reverse` + `lost_unplaced` where the first two
/// are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that were sent.
    pub sent: u64,
    /// Of those, answered in time; copies do not count.
    pub received: u64,
    /// Of those, not answered in time.
    pub lost: u64,
    /// Lost forward.
    pub lost_forward: Option<u64>,
    /// Lost in reverse.
    pub lost_reverse: Option<u64>,
    /// Lost after the last answer that came, or before the first answer of a reflector that had counted before: the direction is unknown.
    pub lost_unplaced: u64,
    /// Answers beyond the first to the same packet.
    pub duplicates: u64,
    /// Packets that came to the reflector more than once: it answered each with a number of its own.
    pub duplicates_forward: Option<u64>,
    /// Answers that came more than once.
    pub duplicates_reverse: Option<u64>,
    /// Answered packets that came back behind a later one (RFC 4737, type P reordered).
    pub reordered: u64,
    /// Packets that reached the reflector behind a later one.
    pub reordered_forward: Option<u64>,
    /// Answers that were sent before one that came earlier.
    pub reordered_reverse: Option<u64>,
    /// Answers that came after the time a packet is waited for. The packet counts as lost.
    pub late: u64,
    /// Packets that are no answer to this test: other session, number, time or shape.
    pub ignored: u64,
    /// ICMP messages that the port is closed.
    pub refused: u64,
    /// Packets that this host could not send.
    pub not_sent: u64,
    /// Whether the reflector counts for itself; absent where no answer shows it.
    pub stateful: Option<bool>,
    /// Why directions are not told apart.
    pub direction_unknown: Option<String>,
}

/// How long something took, over many times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// The least.
    pub min_s: f64,
    /// Half were shorter.
    pub median_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// 95 % were shorter.
    pub p95_s: f64,
    /// 99 % were shorter.
    pub p99_s: f64,
    /// The most.
    pub max_s: f64,
}

/// The difference of delay between neighbours, without its sign (RFC 3393, consecutive packets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Pairs of neighbours that both came back.
    pub pairs: u64,
    /// Half were smaller.
    pub p50_s: f64,
    /// 95 % were smaller.
    pub p95_s: f64,
    /// 99 % were smaller.
    pub p99_s: f64,
}

/// Round trips of similar length. Ten buckets to a decade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// From here.
    pub from_s: f64,
    /// Up to here, exclusive.
    pub to_s: f64,
    /// How many.
    pub count: u64,
}

/// The number of routers, from the TTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hops {
    /// On the shortest path that was seen.
    pub least: u8,
    /// On the longest. If it differs from `least`, the route changed, or there are several.
    pub most: u8,
}

/// How good a clock says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// It was synchronised to UTC during the whole test.
    pub synchronised: bool,
    /// Its largest error during the test, as the kernel estimates it.
    pub error_s: f64,
    /// It counts in PTP's time scale, which is ahead of UTC by the leap seconds.
    pub ptp: bool,
}

/// A clock was set while the test ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockStep {
    /// `near` or `far`.
    pub end: String,
    /// By how much; forward is positive.
    pub step_s: f64,
}

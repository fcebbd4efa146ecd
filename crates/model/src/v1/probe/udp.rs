//! UDP tests: the order and the result.
//!
//! Numbers of datagrams count from 0 in each run. A rate is of payload unless it is a wire rate, which adds
//! [`WIRE_BYTES`] to each datagram, as udpmon does.

use serde::{Deserialize, Serialize};

/// What Ethernet, IPv4 and UDP add to a datagram, bytes: gap 12, preamble 8, header 14, checksum 4, IP 20, UDP 8
/// (udpmon's wire rate).
pub const WIRE_BYTES: u64 = 66;

/// When datagrams leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum UdpPace {
    /// One at a time, each so long after the start of the one before; 0 is one system call after another.
    Spacing {
        /// From start to start.
        spacing_s: f64,
    },
    /// The same, the spacing told as a rate of payload.
    Rate {
        /// Payload.
        rate_bit_s: u64,
    },
    /// So many in a row, then a pause, and again.
    Bursts {
        /// Datagrams of a burst.
        length: u32,
        /// Within a burst, from start to start.
        spacing_s: f64,
        /// From the end of a burst's last spacing to the next burst.
        gap_s: f64,
    },
    /// As many as the host can, in trains that the kernel or the interface cuts: spacing means nothing.
    Max,
}

/// One run: what is sent. At least one of `count` and `seconds`; where both are given, whichever is over first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpOrder {
    /// Payload of each datagram, the test's own header included.
    pub bytes: u32,
    /// When they leave.
    pub pace: UdpPace,
    /// Datagrams.
    #[serde(default)]
    pub count: Option<u64>,
    /// For how long.
    #[serde(default)]
    pub seconds: Option<f64>,
}

/// Runs in a row: every size with every spacing, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpSweep {
    /// Payloads.
    pub sizes_bytes: Vec<u32>,
    /// From start to start.
    pub spacings_s: Vec<f64>,
    /// Datagrams of each run.
    #[serde(default)]
    pub count: Option<u64>,
    /// Length of each run.
    #[serde(default)]
    pub seconds: Option<f64>,
}

/// How a time was distributed; from a histogram, within 0.1 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSpread {
    /// Values.
    pub count: u64,
    /// The least.
    pub min_s: f64,
    /// Their mean.
    pub mean_s: f64,
    /// Their standard deviation.
    pub sigma_s: f64,
    /// A quarter is below.
    pub p25_s: f64,
    /// Half is below.
    pub p50_s: f64,
    /// Three quarters are below.
    pub p75_s: f64,
    /// 95 % are below.
    pub p95_s: f64,
    /// 99 % are below.
    pub p99_s: f64,
    /// 99.9 % are below.
    pub p999_s: f64,
    /// The largest.
    pub max_s: f64,
    /// Its shape: bins of a quarter octave, empty ones left out.
    pub bins: Vec<UdpTimeBin>,
}

/// Values of a time between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpTimeBin {
    /// From here.
    pub from_s: f64,
    /// Below this.
    pub to_s: f64,
    /// So many.
    pub count: u64,
}

/// Values of a number between two bounds, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpBin {
    /// From here.
    pub from: u64,
    /// To here.
    pub to: u64,
    /// So many.
    pub count: u64,
}

/// What the sending end counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Their payload.
    pub bytes: u64,
    /// From the start of the first to the end of the last one's spacing.
    pub seconds: f64,
    /// Payload.
    pub rate_bit_s: u64,
    /// On an Ethernet.
    pub wire_rate_bit_s: u64,
    /// What was asked for; none at maximum rate.
    pub spacing_target_s: Option<f64>,
    /// What was achieved, from start to start; within bursts where there are bursts, none at maximum rate.
    pub spacing: Option<UdpSpread>,
    /// Between bursts, from the last start of one to the first of the next.
    pub gap: Option<UdpSpread>,
    /// Why the spacing says more about this host than about the order, where it does.
    pub host_limited: Option<String>,
    /// Datagrams in each train that was handed over to be cut; 1 where each went by itself.
    pub train_datagrams: u32,
    /// Times that the socket's buffer was full (EAGAIN); the datagram was offered again.
    pub would_block: u64,
    /// Times that the kernel had no memory or no queue (ENOBUFS); the datagram was offered again.
    pub no_buffers: u64,
    /// What this host dropped and did not say so: `SndbufErrors` of all programs, less what is told above. Counted in
    /// `datagrams`. An estimate.
    #[serde(default)]
    pub host_dropped: u64,
    /// Times that the other end's host said that nobody listens (ICMP port unreachable).
    pub refused: u64,
    /// Somebody ended it early.
    pub interrupted: bool,
}

/// What the receiving host says it dropped itself during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpDrops {
    /// Of this very socket: its buffer was full, or a checksum was wrong. Trains where `in_trains`. None where the
    /// kernel does not say (before Linux 4.12).
    pub socket: Option<u64>,
    /// Pieces that arrived joined (GRO) are counted as one where they are dropped.
    pub in_trains: bool,
    /// Datagrams of an average train.
    pub train_datagrams: f64,
    /// Of all programs: `InErrors` of /proc/net/snmp and snmp6, which includes the next two.
    pub udp_errors: u64,
    /// Of all programs: `RcvbufErrors`.
    pub udp_buffer_errors: u64,
    /// Of all programs: `InCsumErrors`. These were spoilt on their way.
    pub udp_checksum_errors: u64,
    /// Of all programs: what a processor's queue had no room for (second column of /proc/net/softnet_stat).
    pub backlog: u64,
    /// Of all programs: what interfaces had no buffer for (`rx_missed_errors`; `rx_out_of_buffer` of some drivers).
    pub interfaces: u64,
}

/// What the receiving end counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpReceived {
    /// Different datagrams of this run.
    pub datagrams: u64,
    /// Their payload.
    pub bytes: u64,
    /// From the first arrival to the last.
    pub seconds: f64,
    /// Payload over `seconds`.
    pub rate_bit_s: u64,
    /// On an Ethernet.
    pub wire_rate_bit_s: u64,
    /// How many were sent, as the sender said; none where it could not be heard.
    pub expected: Option<u64>,
    /// Of `expected`, or of all up to the highest number seen.
    pub lost: u64,
    /// Runs of lost numbers: the first one and how many; at most 10,000 of them.
    pub lost_runs: Vec<(u64, u64)>,
    /// How many runs there are.
    pub lost_runs_total: u64,
    /// Runs by their length.
    pub lost_run_lengths: Vec<UdpBin>,
    /// Came again.
    pub duplicates: u64,
    /// Came after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// By how many numbers they were behind the highest.
    pub reorder_distances: Vec<UdpBin>,
    /// Too many gaps to keep: `lost` is a bound from above, and `unjudged` were either late or came again.
    pub bounded: bool,
    /// See `bounded`.
    pub unjudged: u64,
    /// Not of this run: another token, run, size or number. Not counted anywhere else.
    pub foreign: u64,
    /// Who took the time of arrival: `kernel` or `program`.
    pub stamps: String,
    /// From arrival to arrival, in the order of arrival; none at maximum rate.
    pub inter_arrival: Option<UdpSpread>,
    /// Arrival less sending, the least of it taken off: variation, with whatever one clock runs faster than the other.
    /// At maximum rate, of the first datagram of each train.
    pub one_way: Option<UdpSpread>,
    /// What this host lost.
    pub drops: UdpDrops,
    /// What the kernel granted the socket.
    pub receive_buffer_bytes: u64,
    /// Why it ended: `complete`, `told` (some were missing), `silence`, `deadline` or `interrupted`.
    pub ended: String,
}

/// One run, both ends put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpPoint {
    /// What was asked for.
    pub order: UdpOrder,
    /// By the sending end.
    pub sent: UdpSent,
    /// By the receiving end.
    pub received: UdpReceived,
    /// Sent less received.
    pub lost: u64,
    /// Of those sent, from 0 to 1.
    pub lost_share: f64,
    /// Of `lost`, what the receiving host dropped, by its own counters.
    pub lost_in_host: u64,
    /// `lost_in_host` counts datagrams that were of this socket, one by one; otherwise it is an estimate.
    pub lost_in_host_exact: bool,
    /// The rest, less what the sending host dropped (`host_dropped` in `sent`).
    pub lost_in_network: u64,
    /// Of those sent, from 0 to 1.
    pub lost_in_network_share: f64,
    /// Why this run says more about a host than about the network, where it does.
    pub host_limited: Option<String>,
}

/// Questions of one size, answers of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpRequestOrder {
    /// Payload of a question.
    pub request_bytes: u32,
    /// Payloads of answers, one after the other.
    pub answer_bytes: Vec<u32>,
    /// Questions for each size.
    pub count: u64,
    /// How long an answer may take.
    pub timeout_s: f64,
}

/// Round trips with answers of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRoundTrips {
    /// Payload of an answer.
    pub answer_bytes: u32,
    /// Questions.
    pub asked: u64,
    /// Answers in time.
    pub answered: u64,
    /// Answers after their time, or to something else.
    pub late: u64,
    /// From question to answer.
    pub round_trip: UdpSpread,
}

/// A straight line through latencies: `intercept_s` + `slope_s_per_byte` × bytes of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpLine {
    /// The fixed cost.
    pub intercept_s: f64,
    /// The cost of a byte: the sum over all copies and links of its way.
    pub slope_s_per_byte: f64,
}

/// Latency of request and response against size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRequests {
    /// One entry for each size.
    pub sizes: Vec<UdpRoundTrips>,
    /// Through the least of each size, by least squares; none with fewer than two sizes that were answered.
    pub line_of_min: Option<UdpLine>,
    /// Through the mean of each size.
    pub line_of_mean: Option<UdpLine>,
    /// Somebody ended it early.
    pub interrupted: bool,
}

/// What the answering end counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpAnswered {
    /// Questions that were answered.
    pub answered: u64,
    /// Questions whose answer would have been larger than allowed, or than a datagram.
    pub too_large: u64,
    /// Answers that the kernel did not take.
    pub not_sent: u64,
    /// Of another flow, or not questions.
    pub foreign: u64,
}

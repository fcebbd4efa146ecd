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
    /// One at a time, each `spacing_s` after the start of the one before; 0 is one system call after another.
    Spacing {
        /// The time from the start of one datagram to the start of the next, seconds.
        spacing_s: f64,
    },
    /// The same, with the spacing given as a rate of payload.
    Rate {
        /// Payload.
        rate_bit_s: u64,
    },
    /// A burst of datagrams, then a pause, repeatedly.
    Bursts {
        /// The number of datagrams in a burst.
        length: u32,
        /// Within a burst, from start to start.
        spacing_s: f64,
        /// From the end of a burst's last spacing to the next burst.
        gap_s: f64,
    },
    /// As fast as the host can, in trains that the kernel or the interface cuts: there is no defined spacing.
    Max,
}

/// The order for one run. At least one of `count` and `seconds` is given; with both, the run ends when the first of them is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpOrder {
    /// Payload of each datagram, the test's own header included.
    pub bytes: u32,
    /// When the datagrams are sent.
    pub pace: UdpPace,
    /// Datagrams.
    #[serde(default)]
    pub count: Option<u64>,
    /// The duration, seconds.
    #[serde(default)]
    pub seconds: Option<f64>,
}

/// Runs in a row: every size with every spacing, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpSweep {
    /// Payloads.
    pub sizes_bytes: Vec<u32>,
    /// The time from the start of one datagram to the start of the next, seconds.
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
    /// The 25th percentile.
    pub p25_s: f64,
    /// The median.
    pub p50_s: f64,
    /// The 75th percentile.
    pub p75_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The 99.9th percentile.
    pub p999_s: f64,
    /// The largest.
    pub max_s: f64,
    /// Its shape: bins of a quarter octave, empty ones left out.
    pub bins: Vec<UdpTimeBin>,
}

/// Values of a time between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpTimeBin {
    /// The lower bound, inclusive.
    pub from_s: f64,
    /// The upper bound, exclusive.
    pub to_s: f64,
    /// The number of values.
    pub count: u64,
}

/// Values of a number between two bounds, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpBin {
    /// The lower bound, inclusive.
    pub from: u64,
    /// The upper bound, inclusive.
    pub to: u64,
    /// The number of values.
    pub count: u64,
}

/// What the sending end counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSent {
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Their payload.
    pub bytes: u64,
    /// From the start of the first to the end of the last one's spacing.
    pub seconds: f64,
    /// Payload.
    pub rate_bit_s: u64,
    /// On an Ethernet.
    pub wire_rate_bit_s: u64,
    /// The spacing that was ordered; none at maximum rate.
    pub spacing_target_s: Option<f64>,
    /// The spacing that was achieved, from start to start; with bursts, the spacing within them; none at maximum rate.
    pub spacing: Option<UdpSpread>,
    /// Between bursts, from the last start of one to the first of the next.
    pub gap: Option<UdpSpread>,
    /// Why this host could not keep the spacing of the order, if it could not.
    pub host_limited: Option<String>,
    /// Datagrams in each train that was handed over to be cut; 1 where each went by itself.
    pub train_datagrams: u32,
    /// Times that the socket's buffer was full (EAGAIN); the datagram was offered again.
    pub would_block: u64,
    /// Times that the kernel had no memory or no queue (ENOBUFS); the datagram was offered again.
    pub no_buffers: u64,
    /// Datagrams that this host dropped without an error: `SndbufErrors` of all programs, less the two counts above. They are counted in
    /// `datagrams`. An estimate.
    #[serde(default)]
    pub host_dropped: u64,
    /// The number of ICMP messages from the other host that the port is closed (port unreachable).
    pub refused: u64,
    /// The test was ended early.
    pub interrupted: bool,
}

/// What the receiving host itself dropped during a run, by its own counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpDrops {
    /// Datagrams dropped at this socket: its buffer was full, or a checksum was wrong. With `in_trains`, the number of trains. None if the
    /// kernel does not report it (before Linux 4.12).
    pub socket: Option<u64>,
    /// Pieces that arrived joined (GRO) are counted as one where they are dropped.
    pub in_trains: bool,
    /// Datagrams of an average train.
    pub train_datagrams: f64,
    /// Of all programs: `InErrors` of /proc/net/snmp and snmp6, which includes the next two.
    pub udp_errors: u64,
    /// Of all programs: `RcvbufErrors`.
    pub udp_buffer_errors: u64,
    /// Of all programs: `InCsumErrors`. These datagrams were damaged on the path.
    pub udp_checksum_errors: u64,
    /// Of all programs: packets that a processor's queue had no room for (second column of /proc/net/softnet_stat).
    pub backlog: u64,
    /// Of all programs: packets that interfaces had no buffer for (`rx_missed_errors`; `rx_out_of_buffer` of some drivers).
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
    /// The number of datagrams sent, as the sender reported; none if its report did not arrive.
    pub expected: Option<u64>,
    /// Datagrams that are missing of `expected`, or of all up to the highest number seen.
    pub lost: u64,
    /// Runs of lost numbers: the first one and how many; at most 10,000 of them.
    pub lost_runs: Vec<(u64, u64)>,
    /// How many runs there are.
    pub lost_runs_total: u64,
    /// Runs by their length.
    pub lost_run_lengths: Vec<UdpBin>,
    /// Datagrams that arrived again.
    pub duplicates: u64,
    /// Datagrams that arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// How far their numbers were behind the highest number.
    pub reorder_distances: Vec<UdpBin>,
    /// There were too many gaps to keep: `lost` is an upper bound, and `unjudged` datagrams were either late or duplicates.
    pub bounded: bool,
    /// See `bounded`.
    pub unjudged: u64,
    /// Not of this run: another token, run, size or number. Not counted anywhere else.
    pub foreign: u64,
    /// What took the time of arrival: `kernel` or `program`.
    pub stamps: String,
    /// From arrival to arrival, in the order of arrival; none at maximum rate.
    pub inter_arrival: Option<UdpSpread>,
    /// One-way delay less the smallest one-way delay: the variation, including the drift between the two clocks. At maximum rate, of the
    /// first datagram of each train.
    pub one_way: Option<UdpSpread>,
    /// What this host dropped.
    pub drops: UdpDrops,
    /// What the kernel granted the socket.
    pub receive_buffer_bytes: u64,
    /// Why the run ended: `complete`, `told` (the sender reported its end, some datagrams were missing), `silence`, `deadline` or
    /// `interrupted`.
    pub ended: String,
}

/// One run, both ends put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpPoint {
    /// The order.
    pub order: UdpOrder,
    /// What the sending end counted.
    pub sent: UdpSent,
    /// What the receiving end counted.
    pub received: UdpReceived,
    /// Sent less received.
    pub lost: u64,
    /// Of those sent, from 0 to 1.
    pub lost_share: f64,
    /// Of `lost`, what the receiving host dropped, by its own counters.
    pub lost_in_host: u64,
    /// `lost_in_host` is an exact count of the datagrams of this socket; otherwise it is an estimate.
    pub lost_in_host_exact: bool,
    /// The rest of `lost`, less what the sending host dropped (`host_dropped` in `sent`).
    pub lost_in_network: u64,
    /// Of those sent, from 0 to 1.
    pub lost_in_network_share: f64,
    /// Why a host limited this run rather than the network, if it did.
    pub host_limited: Option<String>,
}

/// The order for a test with requests of one size and answers of several sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpRequestOrder {
    /// Payload of a request, bytes.
    pub request_bytes: u32,
    /// Payloads of the answers, bytes, one after the other.
    pub answer_bytes: Vec<u32>,
    /// The number of requests for each size.
    pub count: u64,
    /// How long to wait for an answer, seconds.
    pub timeout_s: f64,
}

/// Round trips with answers of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRoundTrips {
    /// Payload of an answer.
    pub answer_bytes: u32,
    /// The number of requests.
    pub asked: u64,
    /// Answers in time.
    pub answered: u64,
    /// Answers after the timeout, or to something else.
    pub late: u64,
    /// The time from request to answer.
    pub round_trip: UdpSpread,
}

/// A straight line through latencies: `intercept_s` + `slope_s_per_byte` × bytes of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpLine {
    /// The fixed cost.
    pub intercept_s: f64,
    /// The cost of a byte: the sum over all copies and links on the path.
    pub slope_s_per_byte: f64,
}

/// Latency of request and response against size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRequests {
    /// One entry for each size.
    pub sizes: Vec<UdpRoundTrips>,
    /// The line through the minimum of each size, by least squares; none if fewer than two sizes were answered.
    pub line_of_min: Option<UdpLine>,
    /// The line through the mean of each size.
    pub line_of_mean: Option<UdpLine>,
    /// The test was ended early.
    pub interrupted: bool,
}

/// What the answering end counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpAnswered {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests whose answer would have been larger than allowed, or larger than a datagram.
    pub too_large: u64,
    /// Answers that the kernel did not accept.
    pub not_sent: u64,
    /// Datagrams of another flow, or datagrams that are not requests.
    pub foreign: u64,
}

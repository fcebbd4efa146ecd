//! TCP tests: the order and the result.

use serde::{Deserialize, Serialize};

use super::Direction;
use super::host::Use;

/// Which directions are tested, seen from where the command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// To the other end.
    #[default]
    Forward,
    /// From the other end.
    Reverse,
    /// Both at once.
    Both,
}

impl Directions {
    /// The word in JSON and in output.
    pub fn word(self) -> &'static str {
        match self {
            Directions::Forward => Direction::Forward.word(),
            Directions::Reverse => Direction::Reverse.word(),
            Directions::Both => "both",
        }
    }
}

impl From<Direction> for Directions {
    fn from(direction: Direction) -> Directions {
        match direction {
            Direction::Forward => Directions::Forward,
            Direction::Reverse => Directions::Reverse,
        }
    }
}

/// The order for a TCP test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// Streams in each direction.
    pub streams: u32,
    /// The directions that are tested.
    pub direction: Directions,
    /// How long the test sends, seconds, without `omit_s` at its start; 0 if `bytes` limits it.
    pub seconds: f64,
    /// The bytes that each direction sends, over all its streams; 0 if `seconds` limits it.
    pub bytes: u64,
    /// Seconds at the start that are not counted.
    pub omit_s: f64,
    /// The length of a reporting interval, seconds.
    pub interval_s: f64,
    /// Bytes of one write and one read.
    pub block_bytes: u32,
    /// The congestion control; default: the host's own.
    pub congestion: Option<String>,
    /// Socket buffers of both ends, bytes; 0 leaves them to the kernel.
    pub window_bytes: u64,
    /// The largest TCP segment, bytes; 0 leaves it to the path.
    pub mss_bytes: u32,
    /// The highest rate of each direction, over all its streams, bit/s; 0 for no limit.
    pub pace_bit_s: u64,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// The processors that the threads of the near end run on, in turn; empty for all.
    pub near_cores: Vec<u32>,
    /// The processors that the threads of the far end run on, in turn; empty for all.
    pub far_cores: Vec<u32>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            streams: 1,
            direction: Directions::Forward,
            seconds: 10.0,
            bytes: 0,
            omit_s: 0.0,
            interval_s: 1.0,
            block_bytes: 512 << 10,
            congestion: None,
            window_bytes: 0,
            mss_bytes: 0,
            pace_bit_s: 0,
            dscp: 0,
            near_cores: Vec::new(),
            far_cores: Vec::new(),
        }
    }
}

/// The kernel's statistics of a stream at the sending end (`TCP_INFO`). Counts are for the interval or the test that contains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Smoothed round-trip time.
    pub rtt_s: f64,
    /// Smallest round-trip time.
    pub min_rtt_s: f64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// The window that the receiver advertises.
    pub window_bytes: u64,
    /// Segment size.
    pub mss_bytes: u32,
    /// The path MTU that the kernel assumes.
    pub path_mtu_bytes: u32,
    /// Bytes sent, those sent again included.
    pub sent_bytes: u64,
    /// Bytes sent again.
    pub resent_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Segments that were sent again needlessly: the receiver reports that they arrived twice.
    pub spurious: u64,
    /// The kernel's estimate of the delivery rate.
    pub delivery_rate_bit_s: u64,
    /// Time with data in flight or waiting.
    pub busy_s: f64,
    /// The part of `busy_s` that was limited by the receive window.
    pub receive_window_limited_s: f64,
    /// The part of `busy_s` that was limited by the send buffer.
    pub send_buffer_limited_s: f64,
    /// Both ends scale windows (RFC 7323).
    pub window_scaling: bool,
}

/// One stream in one interval, seen from one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Its number, from 1.
    pub stream: u32,
    /// The direction of its data.
    pub direction: Direction,
    /// Payload that this end wrote, or read.
    pub bytes: u64,
    /// The same as a rate.
    pub rate_bit_s: u64,
    /// The kernel's statistics, at the sending end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
}

/// One interval, seen from one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, after the start of the test.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// The interval is not counted.
    pub omitted: bool,
    /// Its streams.
    pub flows: Vec<Flow>,
}

/// One stream over the whole test, seen from one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// The stream: all bytes, those sent during `omit_s` included.
    #[serde(flatten)]
    pub flow: Flow,
    /// Bytes without those sent during `omit_s`.
    pub counted_bytes: u64,
    /// The time in which `counted_bytes` were sent.
    pub counted_s: f64,
    /// Its congestion control.
    pub congestion: String,
    /// Processor time of its thread.
    pub cpu_s: f64,
}

/// One end of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Its streams, in the order of their numbers.
    pub totals: Vec<Total>,
    /// Its host during the test.
    pub host: Use,
    /// Settings that the host did not accept, and the values in force instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One bound of the rate that may be expected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// `link`, `receive_window`, `send_buffer`, `loss`, `cpu_near`, `cpu_far`, `pace`.
    pub name: String,
    /// The rate that it permits, over all streams.
    pub rate_bit_s: u64,
    /// The measurement that shows it.
    pub evidence: String,
}

/// One direction of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionReport {
    /// The direction.
    pub direction: Direction,
    /// The bytes that the sending end wrote.
    pub sent_bytes: u64,
    /// The bytes that the receiving end read.
    pub received_bytes: u64,
    /// The rate of the data that arrived, bit/s, without `omit_s`.
    pub rate_bit_s: u64,
    /// Share of the bytes that were sent again.
    pub resent: f64,
    /// Processor seconds for 1e9 bytes, of the sending end and the receiving end.
    pub cpu_s_per_gb: (f64, f64),
    /// The bounds of the rate to expect, smallest first.
    pub expected: Vec<Term>,
    /// The name of the bound that the rate reached. Empty if it reached none: then the path is the limit.
    #[serde(default)]
    pub binding: String,
    /// What limited it, in a sentence.
    pub limit: String,
}

/// A TCP test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The order.
    pub order: Order,
    /// Its directions.
    pub directions: Vec<DirectionReport>,
    /// Intervals as the near end saw them.
    pub intervals: Vec<Interval>,
    /// Intervals as the far end saw them.
    pub far_intervals: Vec<Interval>,
    /// The near end.
    pub near: End,
    /// The far end.
    pub far: End,
}

/// A line of the far end's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpSampleLine {
    /// All streams are open: the test begins now.
    Ready,
    /// An interval.
    Interval(Interval),
    /// The test is over.
    End(Box<End>),
    /// The test failed.
    Failed(super::Failure),
}

/// What changes from point to point of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    /// How many streams.
    #[default]
    Streams,
    /// The socket buffers, bytes.
    Window,
    /// The processor of the near end's threads.
    NearCores,
    /// The processor of the far end's threads.
    FarCores,
}

/// One point of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanPoint {
    /// Streams, bytes, or a processor's number.
    pub value: u64,
    /// The rate of the data that arrived, in all directions of the test together.
    pub rate_bit_s: u64,
    /// Share of the bytes that were sent again.
    pub resent: f64,
    /// Processor seconds for 1e9 bytes, of both ends.
    pub cpu_s_per_gb: f64,
    /// Smallest round-trip time.
    pub min_rtt_s: f64,
    /// What limited it, in a sentence.
    pub limit: String,
    /// Why there is no result; empty where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

/// A scan and its conclusions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanReport {
    /// What changed.
    pub scan: Scan,
    /// The smallest value whose result is within 3 % of the best.
    pub knee: Option<u64>,
    /// The best result.
    pub best_bit_s: u64,
    /// Bytes in flight at the best rate: where the plateau of a scan of buffers is expected.
    pub bdp_bytes: u64,
    /// Processors whose result is less than 90 % of the median.
    pub bad: Vec<u64>,
    /// All points, in the order in which they were run.
    pub points: Vec<ScanPoint>,
}

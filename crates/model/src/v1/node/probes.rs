//! Tests that a client orders from a node: from that node to another one.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::Uuid;
use crate::v1::probe::tcp::Directions;

/// An order for a test from the node that receives the order to another node.
///
/// The client chooses the id. The same order sent twice is one test. The comparison ignores the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeOrder {
    /// The id, chosen by the client: a UUID, best of version 7.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The other node: `lh://HOST[:PORT]`.
    pub target: String,
    /// The test and its settings; default: TCP for 10 seconds.
    #[serde(default)]
    pub test: ProbeTest,
    /// The fingerprint of the other node. An access key contains it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The credentials for the other node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ProbeKey>,
}

impl ProbeOrder {
    /// A test as by default.
    pub fn new(id: Uuid, target: impl Into<String>) -> ProbeOrder {
        ProbeOrder { id, target: target.into(), test: ProbeTest::default(), node: None, credentials: None }
    }

    /// The same without secrets.
    #[must_use]
    pub fn without_credentials(&self) -> ProbeOrder {
        ProbeOrder { credentials: None, ..self.clone() }
    }
}

/// Credentials for the other node. The node never returns them. Those of a test are kept in memory until the test has ended.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProbeKey {
    /// An access key of the other node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub key: Option<String>,
}

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProbeKey {{ key: {} }}", if self.key.is_some() { "…" } else { "none" })
    }
}

/// The tests between two nodes, the same as in `longhaul probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeTest {
    /// Rate of TCP, and its limit.
    Tcp(TcpProbe),
    /// Round trips, loss and variation.
    Latency(LatencyProbe),
    /// One run of datagrams.
    Udp(UdpProbe),
    /// Hops, other paths and MTU of both directions.
    Path(PathProbe),
    /// No test: returns the limits of the other node on tests.
    Limits(LimitsProbe),
}

impl Default for ProbeTest {
    fn default() -> ProbeTest {
        ProbeTest::Tcp(TcpProbe::default())
    }
}

impl ProbeTest {
    /// Its name, in orders and in reports.
    pub fn word(&self) -> &'static str {
        match self {
            ProbeTest::Tcp(_) => "tcp",
            ProbeTest::Latency(_) => "latency",
            ProbeTest::Udp(_) => "udp",
            ProbeTest::Path(_) => "path",
            ProbeTest::Limits(_) => "limits",
        }
    }
}

/// A test of TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpProbe {
    /// Streams in each direction.
    pub streams: u32,
    /// `forward` (to the other node), `reverse` or `both`.
    #[schema(value_type = String)]
    pub direction: Directions,
    /// The duration, seconds, without `omit_s`; default: 10, or until `bytes` are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The bytes to send in each direction, instead of a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Seconds at the start that are not counted.
    pub omit_s: f64,
    /// The length of a reporting interval, seconds.
    pub interval_s: f64,
    /// Bytes of one write and one read.
    pub block_bytes: u32,
    /// The congestion control; default: the host's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Socket buffers of both ends, bytes; 0 leaves them to the kernel.
    pub window_bytes: u64,
    /// The largest TCP segment, bytes; 0 leaves it to the path.
    pub mss_bytes: u32,
    /// The highest rate of each direction, over all its streams, bit/s; 0 for no limit.
    pub pace_bit_s: u64,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
}

impl Default for TcpProbe {
    fn default() -> TcpProbe {
        let crate::v1::probe::tcp::Order { streams, direction, interval_s, block_bytes, .. } = Default::default();
        TcpProbe {
            streams,
            direction,
            seconds: None,
            bytes: None,
            omit_s: 0.0,
            interval_s,
            block_bytes,
            congestion: None,
            window_bytes: 0,
            mss_bytes: 0,
            pace_bit_s: 0,
            dscp: 0,
        }
    }
}

/// A test of latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LatencyProbe {
    /// Packets per second.
    pub rate_packets_s: f64,
    /// The duration, seconds; default: 10.
    pub seconds: f64,
    /// The number of packets, instead of a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The UDP payload of a packet, bytes.
    pub packet_bytes: u32,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// How long to wait for an answer, seconds.
    pub timeout_s: f64,
}

impl Default for LatencyProbe {
    fn default() -> LatencyProbe {
        LatencyProbe { rate_packets_s: 10.0, seconds: 10.0, count: None, packet_bytes: 44, dscp: 0, timeout_s: 2.0 }
    }
}

/// One run of datagrams: evenly at `rate_bit_s` (default: 100 Mbit/s), or `spacing_s` apart, or in bursts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UdpProbe {
    /// `forward` (to the other node) or `reverse`.
    #[schema(value_type = String)]
    pub direction: Directions,
    /// Payload of each datagram, bytes.
    pub bytes: u32,
    /// The rate of payload, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<u64>,
    /// The time from the start of one datagram to the start of the next, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spacing_s: Option<f64>,
    /// The number of datagrams in a burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The time between two bursts, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
    /// The duration, seconds; default: 10.
    pub seconds: f64,
    /// The most datagrams: the run ends after this number, if that comes before `seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Default for UdpProbe {
    fn default() -> UdpProbe {
        let (rate_bit_s, spacing_s, burst, gap_s) = (None, None, None, None);
        UdpProbe {
            direction: Directions::Forward,
            bytes: 1_472,
            rate_bit_s,
            spacing_s,
            burst,
            gap_s,
            seconds: 10.0,
            count: None,
        }
    }
}

/// A test of both directions of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathProbe {
    /// The number of flows, each with its own source port. With more than one, the test looks for parallel paths.
    pub flows: u16,
    /// With several flows: the probes that each flow sends to the far end.
    pub probes: u32,
    /// The highest TTL.
    pub ttl_max: u8,
    /// The largest packet that is tried, bytes; 0 skips the test of the MTU.
    pub mtu_bytes_max: u32,
}

impl Default for PathProbe {
    fn default() -> PathProbe {
        let crate::v1::probe::route::RouteOrder { flows, probes, ttl_max, mtu_bytes_max, .. } = Default::default();
        PathProbe { flows, probes, ttl_max, mtu_bytes_max: mtu_bytes_max.unwrap_or(0) }
    }
}

/// A query for the other node's limits on tests. It has no fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsProbe {}

/// The state of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStage {
    /// The test waits: one test runs at a time.
    #[default]
    Queued,
    /// The test runs.
    Running,
    /// The test has succeeded; its report is available.
    Done,
    /// The test failed; `error` says why.
    Failed,
    /// A client cancelled the test.
    Cancelled,
}

impl ProbeStage {
    /// All of them.
    pub const ALL: [ProbeStage; 5] =
        [ProbeStage::Queued, ProbeStage::Running, ProbeStage::Done, ProbeStage::Failed, ProbeStage::Cancelled];

    /// Whether nothing comes after it.
    pub fn is_last(self) -> bool {
        matches!(self, ProbeStage::Done | ProbeStage::Failed | ProbeStage::Cancelled)
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            ProbeStage::Queued => "queued",
            ProbeStage::Running => "running",
            ProbeStage::Done => "done",
            ProbeStage::Failed => "failed",
            ProbeStage::Cancelled => "cancelled",
        }
    }
}

/// A test, for the principal that ordered it. It has no field for secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Probe {
    /// The id of the test.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The state of the test.
    pub state: ProbeStage,
    /// The other node.
    pub target: String,
    /// The test and its settings.
    pub test: ProbeTest,
    /// When the test was ordered (RFC 3339).
    pub created: String,
    /// When the test began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When the test ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whose fault the failure is: `config`, `auth`, `path`, `peer`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The report: the `result` line of `longhaul probe --json`. Lists do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub report: Option<serde_json::Value>,
}

/// A page of tests, oldest first, without their reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Probes {
    /// The tests.
    pub probes: Vec<Probe>,
    /// Where the next page begins (`?after=`), if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub next: Option<Uuid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_says_little_and_hides_its_key() {
        let text = format!("{{\"id\":\"{}\",\"target\":\"lh://h\",\"credentials\":{{\"key\":\"k3y\"}}}}", Uuid::nil());
        let order: ProbeOrder = serde_json::from_str(&text).unwrap();
        assert_eq!(order.without_credentials(), ProbeOrder::new(Uuid::nil(), "lh://h"));
        assert!(!format!("{order:?}").contains("k3y"));
        let test = |text: &str| serde_json::from_str::<ProbeTest>(text);
        assert_eq!(test("{\"tcp\":{}}").unwrap(), ProbeTest::default());
        assert_eq!(test("{\"limits\":{}}").unwrap().word(), "limits");
        assert!(test("{\"tcp\":{\"stream\":2}}").is_err() && test("{\"disk\":{}}").is_err());
    }

    #[test]
    fn stages_have_one_word() {
        for stage in ProbeStage::ALL {
            assert_eq!(stage.word(), format!("{stage:?}").to_lowercase());
        }
    }
}

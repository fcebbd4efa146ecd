//! Tests that a client orders from a node: from that node to another one.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::Uuid;
use crate::v1::probe::tcp::Directions;

/// A test to be made, from the node that is asked to another one.
///
/// The client chooses the id. The same order sent twice is one test; the key does not count when two are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeOrder {
    /// Chosen by whoever orders, best a UUID of version 7.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// The other node: `lh://HOST[:PORT]`.
    pub target: String,
    /// Which test, and how; TCP for ten seconds unless said.
    #[serde(default)]
    pub test: ProbeTest,
    /// The fingerprint of the other node. An access key says it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who one is there.
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

/// Who one is at the other node. Kept in memory until the test has ended, and never told again.
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

/// Tests between two nodes, as `longhaul probe` has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeTest {
    /// What TCP gets, and what limits it.
    Tcp(TcpProbe),
    /// Round trips, loss and variation.
    Latency(LatencyProbe),
    /// One run of datagrams.
    Udp(UdpProbe),
    /// Hops, other paths and MTU of both directions.
    Path(PathProbe),
    /// No test: within which bounds the other node runs tests.
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
    /// `up`, to the other node; `down`; or `both`.
    #[schema(value_type = String)]
    pub direction: Directions,
    /// How long is sent, without what is left out at the start; 10 unless said, or until `bytes` are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// How much is sent in each direction, instead of for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Seconds at the start that do not count.
    pub omit_s: f64,
    /// Length of an interval.
    pub interval_s: f64,
    /// Bytes of one write and one read.
    pub block_bytes: u32,
    /// Congestion control; the host's own unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Socket buffers of both ends; 0 leaves them to the kernel.
    pub window_bytes: u64,
    /// Largest segment; 0 leaves it to the path.
    pub mss_bytes: u32,
    /// What each direction may send, over all its streams; 0 for no bound.
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
    /// For how long; 10 unless said.
    pub seconds: f64,
    /// So many packets, instead of for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Octets of a packet above UDP.
    pub packet_bytes: u32,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// How long an answer is waited for, seconds.
    pub timeout_s: f64,
}

impl Default for LatencyProbe {
    fn default() -> LatencyProbe {
        LatencyProbe { rate_packets_s: 10.0, seconds: 10.0, count: None, packet_bytes: 44, dscp: 0, timeout_s: 2.0 }
    }
}

/// One run of datagrams: evenly at `rate_bit_s` (100 Mbit/s unless said), or `spacing_s` apart, or in bursts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UdpProbe {
    /// `up`, to the other node, or `down`.
    #[schema(value_type = String)]
    pub direction: Directions,
    /// Payload of each datagram.
    pub bytes: u32,
    /// Payload per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<u64>,
    /// From the start of one to the start of the next, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spacing_s: Option<f64>,
    /// Datagrams of a burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Between two bursts, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
    /// For how long; 10 unless said.
    pub seconds: f64,
    /// So many datagrams, if that is over first.
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

/// A test of both ways of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathProbe {
    /// Flows, each of its own source port: with more than one, other paths are looked for.
    pub flows: u16,
    /// Then, probes to the far end for each flow.
    pub probes: u32,
    /// The highest TTL.
    pub ttl_max: u8,
    /// No larger packets are tried; 0 leaves the MTU alone.
    pub mtu_bytes_max: u32,
}

impl Default for PathProbe {
    fn default() -> PathProbe {
        let crate::v1::probe::route::RouteOrder { flows, probes, ttl_max, mtu_bytes_max, .. } = Default::default();
        PathProbe { flows, probes, ttl_max, mtu_bytes_max: mtu_bytes_max.unwrap_or(0) }
    }
}

/// A question for the other node's bounds; there is nothing to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsProbe {}

/// What a test is doing, or what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStage {
    /// It waits for other tests to end: there is one at a time.
    #[default]
    Queued,
    /// It runs.
    Running,
    /// Its report is there.
    Done,
    /// It came to nothing; `error` says why.
    Failed,
    /// Somebody ended it.
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

/// A test, as whoever ordered it sees it. It holds no secrets: there is no field for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Probe {
    /// Its id.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// What it is doing, or what became of it.
    pub state: ProbeStage,
    /// The other node.
    pub target: String,
    /// Which test, and how.
    pub test: ProbeTest,
    /// When it was ordered (RFC 3339).
    pub created: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whose fault it is that it failed: `config`, `auth`, `path`, `peer`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it found: the line `result` of `longhaul probe --json`. Not in lists.
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

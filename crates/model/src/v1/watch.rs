//! Responses of a hub's watch (`/api/v1/watch`): the health of paths, their expected results, and alarms.
//!
//! Forward is from `from` to `to`. A path without recent measurements is unknown, never good.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::probe::Direction;

/// The health of a path or a direction, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The result is as expected.
    Ok,
    /// The result is worse than expected.
    Warning,
    /// The result is much worse than expected, or nothing arrives.
    Critical,
    /// There are no recent measurements.
    #[default]
    Unknown,
}

impl Health {
    /// The name.
    pub fn word(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Warning => "warning",
            Health::Critical => "critical",
            Health::Unknown => "unknown",
        }
    }

    /// The worse of two; what is unknown is worse than good and better than bad.
    #[must_use]
    pub fn worse(self, other: Health) -> Health {
        let rank = |health: Health| match health {
            Health::Ok => 0,
            Health::Unknown => 1,
            Health::Warning => 2,
            Health::Critical => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// All pairs that are tested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Grid {
    /// The time of this answer (RFC 3339).
    pub at: String,
    /// The names of rows and columns.
    pub names: Vec<String>,
    /// A cell for each pair and test.
    pub cells: Vec<Cell>,
}

/// The health of a pair in one test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cell {
    /// One end of the path.
    pub from: String,
    /// The other end.
    pub to: String,
    /// `latency`, `throughput` or `path`.
    pub test: String,
    /// From `from` to `to`.
    pub forward: Half,
    /// From `to` to `from`.
    pub reverse: Half,
}

/// A direction of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Half {
    /// The health.
    pub health: Health,
    /// The measurement as text: `0.012 % lost, 151.2 ms`.
    pub text: String,
    /// The measured number: share of packets lost, rate in bit/s, or MTU in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The age of the measurement, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
}

/// The kind of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// Nothing answers.
    Silent,
    /// More packets are lost than the expected rate of the path allows.
    Loss,
    /// Throughput is lower than before, or than expected.
    Throughput,
    /// The two directions give different rates.
    Asymmetry,
    /// Packets wait in queues longer than before.
    Queue,
    /// Packets overtake each other.
    Reordering,
    /// The smallest delay has changed, because the route has changed.
    Delay,
    /// The routers of the path have changed.
    Route,
    /// Large packets no longer pass.
    Mtu,
    /// The clock of a node was set, or is not synchronised.
    Clock,
    /// A host loses packets, or limits the result.
    Host,
    /// The last measurement is too old.
    Stale,
    /// A repeated exercise sustained less than it did before.
    Exercise,
}

impl AlarmKind {
    /// All of them.
    pub const ALL: [AlarmKind; 13] = [
        AlarmKind::Silent,
        AlarmKind::Loss,
        AlarmKind::Throughput,
        AlarmKind::Asymmetry,
        AlarmKind::Queue,
        AlarmKind::Reordering,
        AlarmKind::Delay,
        AlarmKind::Route,
        AlarmKind::Mtu,
        AlarmKind::Clock,
        AlarmKind::Host,
        AlarmKind::Stale,
        AlarmKind::Exercise,
    ];

    /// The name.
    pub fn word(self) -> &'static str {
        match self {
            AlarmKind::Silent => "silent",
            AlarmKind::Loss => "loss",
            AlarmKind::Throughput => "throughput",
            AlarmKind::Asymmetry => "asymmetry",
            AlarmKind::Queue => "queue",
            AlarmKind::Reordering => "reordering",
            AlarmKind::Delay => "delay",
            AlarmKind::Route => "route",
            AlarmKind::Mtu => "mtu",
            AlarmKind::Clock => "clock",
            AlarmKind::Host => "host",
            AlarmKind::Stale => "stale",
            AlarmKind::Exercise => "exercise",
        }
    }
}

/// The probable cause of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Packets are lost at any rate: a cable, an optic, a line card.
    RandomLoss,
    /// One member of a bundle loses packets.
    LossyMember,
    /// Queues are full: others use the path.
    Congestion,
    /// A queue is too short for bursts.
    ShallowQueue,
    /// A policer drops packets above a rate at once.
    Policer,
    /// A link gives less than before.
    NarrowLink,
    /// The receiving host is too slow, or its windows are too small.
    SlowReceiver,
    /// The sending host is too slow, or its windows are too small.
    SlowSender,
    /// Large packets are lost without an ICMP message.
    MtuHole,
    /// Packets take another path.
    RouteChange,
    /// A clock was set.
    ClockStep,
    /// No packets pass.
    Outage,
    /// An interface shows errors or weak light.
    Optics,
    /// The cause is unknown.
    Unknown,
}

impl CauseKind {
    /// The name.
    pub fn word(self) -> &'static str {
        match self {
            CauseKind::RandomLoss => "random_loss",
            CauseKind::LossyMember => "lossy_member",
            CauseKind::Congestion => "congestion",
            CauseKind::ShallowQueue => "shallow_queue",
            CauseKind::Policer => "policer",
            CauseKind::NarrowLink => "narrow_link",
            CauseKind::SlowReceiver => "slow_receiver",
            CauseKind::SlowSender => "slow_sender",
            CauseKind::MtuHole => "mtu_hole",
            CauseKind::RouteChange => "route_change",
            CauseKind::ClockStep => "clock_step",
            CauseKind::Outage => "outage",
            CauseKind::Optics => "optics",
            CauseKind::Unknown => "unknown",
        }
    }
}

/// An alarm: something that is or was wrong with a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// The number of the alarm.
    pub id: i64,
    /// One end of the path.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The kind of an alarm.
    pub kind: AlarmKind,
    /// The direction; absent for both directions, or if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub direction: Option<Direction>,
    /// The severity.
    pub severity: Health,
    /// When the alarm began (RFC 3339).
    pub since: String,
    /// When the alarm ended; absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The evidence, with numbers.
    pub evidence: String,
    /// The probable cause.
    pub cause: CauseKind,
    /// The segment that is probably to blame: `link NAME`, `SITE`, `network`; for a repeated exercise `exercise NAME`.
    pub segment: String,
    /// What to do.
    pub remedy: String,
    /// An annotation of about the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The acknowledgement, if there is one. An acknowledged alarm sends no more notices until it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

/// An acknowledgement of an alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acknowledgement {
    /// The person who acknowledges; if empty, the member that sends the request.
    pub by: String,
    /// A note.
    #[serde(default)]
    pub note: String,
}

/// Alarms, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alarms {
    /// The alarms.
    pub alarms: Vec<Alarm>,
}

/// The rate to expect of a path, and the bound that determines it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Expectation {
    /// The expected rate: the smallest of all terms, bit/s; absent if no term is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<f64>,
    /// The name of the smallest term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<String>,
    /// All terms.
    pub terms: Vec<Term>,
    /// The largest share of lost packets, 0 to 1, with which half of the expected rate can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_allowed: Option<f64>,
}

/// A bound on a path's rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Term {
    /// `link`, `window`, `loss`, `history`.
    pub name: String,
    /// The rate that the bound permits, bit/s.
    pub rate_bit_s: f64,
    /// The source of the bound.
    pub text: String,
}

/// Explanation of one direction of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// The health.
    pub health: Health,
    /// The rate to expect.
    pub expectation: Expectation,
    /// The rate of the last TCP test, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_bit_s: Option<f64>,
    /// The share of packets lost in the last six hours, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_6h: Option<f64>,
    /// The share of packets lost in the last 24 hours, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_24h: Option<f64>,
    /// The number of packets that `loss_24h` is computed from.
    pub packets_24h: u64,
    /// The routers of the path, nearest first.
    #[serde(default)]
    pub hops: Vec<String>,
    /// The largest packet that passes, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
}

/// An interface of a router or a host, with its counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interface {
    /// The name.
    pub name: String,
    /// The segment whose packets it receives.
    pub segment_in: String,
    /// The segment whose packets it sends.
    pub segment_out: String,
    /// When the counters were read last (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The capacity, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bit_s: Option<f64>,
    /// The recent rate of incoming traffic, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_bit_s: Option<f64>,
    /// The recent rate of outgoing traffic, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_bit_s: Option<f64>,
    /// The share of the capacity that incoming traffic uses, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_utilisation: Option<f64>,
    /// The share of the capacity that outgoing traffic uses, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_utilisation: Option<f64>,
    /// The number of errors in both directions in the last six hours.
    pub errors_6h: u64,
    /// The received light, dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_in_dbm: Option<f64>,
    /// Why the counters cannot be read at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Interfaces whose counters are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interfaces {
    /// The interfaces, in the order of the configuration.
    pub interfaces: Vec<Interface>,
}

/// The addresses that moved most bytes through all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Talkers {
    /// The time of this answer (RFC 3339).
    pub at: String,
    /// The time window: `minute`, `hour` or `start` (since each node started).
    pub window: String,
    /// Addresses, fastest first. Traffic between two nodes of the watch counts at both of them.
    pub talkers: Vec<Talker>,
    /// The bytes that each node moved.
    pub nodes: Vec<NodeTraffic>,
}

/// An address that exchanged data with nodes of the watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Talker {
    /// The address.
    pub address: String,
    /// Bytes of files that it sent.
    pub bytes_sent: u64,
    /// Bytes of files that it received.
    pub bytes_received: u64,
    /// The mean rate in the window, both directions together, bit/s.
    pub rate_bit_s: u64,
    /// The nodes that it exchanged data with.
    pub nodes: Vec<String>,
}

/// The bytes that a node moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeTraffic {
    /// The name.
    pub node: String,
    /// The length of the window at this node, seconds.
    pub seconds: f64,
    /// Bytes of files that came in; 0 if the node shows the watch only its own traffic.
    pub bytes_in: u64,
    /// Bytes of files that went out.
    pub bytes_out: u64,
}

/// The nodes that a domain publishes. The directory is returned signed, as a compact JWS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Directory {
    /// Always 1.
    pub v: u32,
    /// The domain; empty if the watch has none configured.
    pub domain: String,
    /// When the validity of the directory begins (RFC 3339).
    pub issued: String,
    /// When the validity ends (RFC 3339).
    pub expires: String,
    /// The nodes that may be tested.
    pub places: Vec<DirectoryPlace>,
}

/// A node that other domains may test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DirectoryPlace {
    /// The name of the node in its domain.
    pub name: String,
    /// The address of the node: `lh://HOST[:PORT]`.
    pub url: String,
    /// The site.
    pub site: String,
    /// Latitude and longitude, degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<[f64; 2]>,
}

/// The explanation of a path's health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// One end of the path.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The time of this answer (RFC 3339).
    pub at: String,
    /// The round-trip time with empty queues, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_s: Option<f64>,
    /// From `from` to `to`.
    pub forward: Explained,
    /// From `to` to `from`.
    pub reverse: Explained,
    /// The current alarms of the path.
    pub alarms: Vec<Alarm>,
    /// The tests that run on the path, and how often they run.
    pub tests: Vec<String>,
    /// Annotations that concern the path.
    pub annotations: Vec<Annotation>,
}

/// An annotation: an event that an operator noted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Annotation {
    /// The time of the event (RFC 3339); default: now.
    pub at: String,
    /// The event, in words: "firewall update".
    pub text: String,
    /// The site, node or link; empty for everywhere.
    pub place: String,
    /// The member who noted it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// Measurements over time, in columns. A time without measurements has no row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// One end of the path.
    pub from: String,
    /// The other end.
    pub to: String,
    /// `latency`, `throughput`, `path`, or an interface's `counters`.
    pub test: String,
    /// The time that one row covers, seconds.
    pub step_s: f64,
    /// The names of the columns. The first column is the beginning of the row, seconds since 1970.
    pub columns: Vec<String>,
    /// The rows, oldest first. Unknown values are null.
    #[schema(value_type = Vec<Vec<Option<f64>>>)]
    pub rows: Vec<Vec<Option<f64>>>,
    /// Annotations in this time.
    pub annotations: Vec<Annotation>,
    /// Alarms in this time.
    pub alarms: Vec<Alarm>,
}

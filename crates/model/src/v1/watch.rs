//! Responses of a hub's watch (`/api/v1/watch`): the health of paths, their expected results, and alarms.
//!
//! Forward is from `from` to `to`. A path that was not measured lately is unknown, never good.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::probe::Direction;

/// How something fares, the better first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// As it should be.
    Ok,
    /// Less than it should be.
    Warning,
    /// Much less, or nothing.
    Critical,
    /// Nobody has measured it lately.
    #[default]
    Unknown,
}

impl Health {
    /// Its name.
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
    /// When (RFC 3339).
    pub at: String,
    /// The names of rows and columns.
    pub names: Vec<String>,
    /// What is known of each pair.
    pub cells: Vec<Cell>,
}

/// A pair and a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cell {
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// `latency`, `throughput` or `path`.
    pub test: String,
    /// From `from` to `to`.
    pub forward: Half,
    /// Back.
    pub reverse: Half,
}

/// A direction of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Half {
    /// How it fares.
    pub health: Health,
    /// What was measured, in words: `0.012 % lost, 151.2 ms`.
    pub text: String,
    /// The number behind it: share of loss, bit/s, bytes of MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// How old it is, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
}

/// What kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// Nothing answers.
    Silent,
    /// More is lost than the path's rate allows.
    Loss,
    /// Throughput is lower than it was, or than it should be.
    Throughput,
    /// The two directions give different rates.
    Asymmetry,
    /// Packets wait in queues longer than they did.
    Queue,
    /// Packets overtake each other.
    Reordering,
    /// The least delay is another one: the route changed.
    Delay,
    /// The routers are others.
    Route,
    /// Large packets do not pass any more.
    Mtu,
    /// A clock was set, or is not synchronised.
    Clock,
    /// A host loses, or is the limit.
    Host,
    /// Nobody has measured it for too long.
    Stale,
}

impl AlarmKind {
    /// All of them.
    pub const ALL: [AlarmKind; 12] = [
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
    ];

    /// Its name.
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
        }
    }
}

/// What causes trouble, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Packets are lost whatever is sent: a medium, an optic, a line card.
    RandomLoss,
    /// One member of a bundle loses.
    LossyMember,
    /// Queues are full: others use the path.
    Congestion,
    /// A queue is too short for bursts.
    ShallowQueue,
    /// What exceeds a rate is dropped at once.
    Policer,
    /// A link gives less than it did.
    NarrowLink,
    /// The receiving host is too slow, or its windows are too small.
    SlowReceiver,
    /// The sending host is.
    SlowSender,
    /// Large packets vanish.
    MtuHole,
    /// Packets take another path.
    RouteChange,
    /// A clock was set.
    ClockStep,
    /// Nothing passes.
    Outage,
    /// Errors of an interface or its light say so.
    Optics,
    /// It cannot be told.
    Unknown,
}

impl CauseKind {
    /// Its name.
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

/// Something that is wrong, or was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// Its number.
    pub id: i64,
    /// One end of the path.
    pub from: String,
    /// The other end.
    pub to: String,
    /// What kind of trouble.
    pub kind: AlarmKind,
    /// Which direction; none for both, or where it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub direction: Option<Direction>,
    /// How bad.
    pub severity: Health,
    /// Since when (RFC 3339).
    pub since: String,
    /// Until when; none while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What says so, with numbers.
    pub evidence: String,
    /// What causes it.
    pub cause: CauseKind,
    /// Where: `link NAME`, `SITE`, `network`.
    pub segment: String,
    /// What to do.
    pub remedy: String,
    /// What happened at about that time, as somebody noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Who has seen it, and until when nobody is told of it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

/// Somebody has seen an alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// What they say.
    #[serde(default)]
    pub note: String,
}

/// Alarms, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alarms {
    /// Some of them.
    pub alarms: Vec<Alarm>,
}

/// What a path should give, and by which term.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Expectation {
    /// The least of all terms; none where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bit_s: Option<f64>,
    /// Which term that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<String>,
    /// All terms.
    pub terms: Vec<Term>,
    /// The share of packets that may be lost for half of that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_allowed: Option<f64>,
}

/// A bound on a path's rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Term {
    /// `link`, `window`, `loss`, `history`.
    pub name: String,
    /// At most this much.
    pub rate_bit_s: f64,
    /// Where it comes from.
    pub text: String,
}

/// A direction of a path, explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// How it fares.
    pub health: Health,
    /// What it should give.
    pub expectation: Expectation,
    /// What TCP got last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_bit_s: Option<f64>,
    /// Share of packets lost over six hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_6h: Option<f64>,
    /// And over a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_24h: Option<f64>,
    /// Packets behind the latter.
    pub packets_24h: u64,
    /// Routers, nearest first.
    #[serde(default)]
    pub hops: Vec<String>,
    /// The largest packet that passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
}

/// An interface of a router or a host, as its counters say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The segment whose packets it receives.
    pub segment_in: String,
    /// The segment whose packets it sends.
    pub segment_out: String,
    /// When it was read last (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it can carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bit_s: Option<f64>,
    /// What came in lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_bit_s: Option<f64>,
    /// What went out lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_bit_s: Option<f64>,
    /// Share of the capacity that came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_utilisation: Option<f64>,
    /// Share of the capacity that went out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_utilisation: Option<f64>,
    /// Errors in both directions over six hours.
    pub errors_6h: u64,
    /// Received light.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_in_dbm: Option<f64>,
    /// Why it cannot be read just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Interfaces whose counters are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interfaces {
    /// In the order of the configuration.
    pub interfaces: Vec<Interface>,
}

/// Who moves most through all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Talkers {
    /// When (RFC 3339).
    pub at: String,
    /// `minute`, `hour` or `start`, as nodes keep them.
    pub window: String,
    /// Addresses, the fastest first. What goes between two of our nodes counts at both of them.
    pub talkers: Vec<Talker>,
    /// What each node moved.
    pub nodes: Vec<NodeTraffic>,
}

/// An address at the other end of our nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Talker {
    /// The address.
    pub address: String,
    /// Bytes of files that it sent.
    pub bytes_sent: u64,
    /// Bytes of files that it received.
    pub bytes_received: u64,
    /// The mean of the window, both directions together.
    pub rate_bit_s: u64,
    /// With which nodes.
    pub nodes: Vec<String>,
}

/// What a node moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeTraffic {
    /// Its name.
    pub node: String,
    /// How long the window is there, seconds.
    pub seconds: f64,
    /// Bytes of files that came in; 0 where the node shows us only ourselves.
    pub bytes_in: u64,
    /// Bytes of files that went out.
    pub bytes_out: u64,
}

/// What a domain shows of its nodes; it is told signed (a compact JWS).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Directory {
    /// Always 1.
    pub v: u32,
    /// The domain; empty where its watch says none.
    pub domain: String,
    /// From when on it is valid (RFC 3339).
    pub issued: String,
    /// Until when (RFC 3339).
    pub expires: String,
    /// Nodes that may be tested.
    pub places: Vec<DirectoryPlace>,
}

/// A node that others may test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DirectoryPlace {
    /// What its domain calls it.
    pub name: String,
    /// Where it is: `lh://HOST[:PORT]`.
    pub url: String,
    /// Its site.
    pub site: String,
    /// Latitude and longitude, degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<[f64; 2]>,
}

/// Why a path fares as it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// When (RFC 3339).
    pub at: String,
    /// Round trip with nothing in the queues, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_s: Option<f64>,
    /// From `from` to `to`.
    pub forward: Explained,
    /// Back.
    pub reverse: Explained,
    /// What is wrong with it now.
    pub alarms: Vec<Alarm>,
    /// What is measured on it, and how often.
    pub tests: Vec<String>,
    /// What was noted of it.
    pub annotations: Vec<Annotation>,
}

/// Something that happened, as somebody noted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Annotation {
    /// When (RFC 3339); now unless said.
    pub at: String,
    /// What: "firewall update".
    pub text: String,
    /// At which site, node or link; everywhere where it is empty.
    pub place: String,
    /// Who noted it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// What was measured over a time, in columns. A gap stays a gap: there is no row for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// `latency`, `throughput`, `path`, or an interface's `counters`.
    pub test: String,
    /// Seconds of a row.
    pub step_s: f64,
    /// What each number of a row is; the first is its beginning, seconds since 1970.
    pub columns: Vec<String>,
    /// Rows, oldest first. What is not known is null.
    #[schema(value_type = Vec<Vec<Option<f64>>>)]
    pub rows: Vec<Vec<Option<f64>>>,
    /// What happened meanwhile.
    pub annotations: Vec<Annotation>,
    /// What was wrong meanwhile.
    pub alarms: Vec<Alarm>,
}

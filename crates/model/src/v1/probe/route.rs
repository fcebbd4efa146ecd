//! The result of a path test: hops, other paths to the same target, MTU, and changes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What to measure of a route. A field that is left out has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteOrder {
    /// The highest TTL; 1 to 64.
    pub ttl_max: u8,
    /// The trace ends after so many hops in a row without an answer; 1 to 64.
    pub gap: u8,
    /// Probes for each hop; 1 to 16.
    pub queries: u8,
    /// A probe without an answer for so long is lost; up to 60.
    pub patience_s: f64,
    /// Flows, each of its own source port, 1 to 64: with more than one, other paths are looked for.
    pub flows: u16,
    /// With several flows, probes to the far end for each of them; up to 10,000.
    pub probes: u32,
    /// The largest packet that is tried, in bytes of IP; 576 to 65,535. None: the MTU is not measured.
    pub mtu_bytes_max: Option<u32>,
    /// The longest time of each part; up to 3,600.
    pub lasts_s: f64,
}

impl Default for RouteOrder {
    fn default() -> RouteOrder {
        RouteOrder {
            ttl_max: 30,
            gap: 5,
            queries: 3,
            patience_s: 1.0,
            flows: 1,
            probes: 200,
            mtu_bytes_max: Some(9_216),
            lasts_s: 120.0,
        }
    }
}

/// The route from one end to the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Its hops.
    pub path: Path,
    /// How large a packet may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Mtu>,
    /// Its other paths, where they were looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// The routes of both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Routes {
    /// From here to there.
    pub forward: Route,
    /// From there to here, as the far end found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Route>,
    /// In what the two differ.
    #[serde(default)]
    pub asymmetries: Vec<Change>,
}

/// The hops of one flow, in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Address and port that the probes came from.
    pub source: String,
    /// Address and port that they were for.
    pub target: String,
    /// From the first router on; the last is the target, if it was reached. Those behind the last that answered are
    /// left out.
    pub hops: Vec<Hop>,
    /// Why there are no more hops.
    pub end: End,
    /// Hops to the target, itself included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u8>,
    /// Hops of the reverse path, as the TTL of the target's answers says. Only where the target is a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_reverse: Option<u8>,
    /// Answers that could not be matched to a probe, because the router quotes too little of it. Probes are then sent one at a time.
    #[serde(default)]
    pub anonymous: u32,
    /// Wall time.
    pub seconds: f64,
}

/// Why a trace ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// At the target.
    Reached,
    /// A router lets nothing through; its hop says why.
    Blocked,
    /// No further hop answered.
    #[default]
    Silent,
    /// The target is farther than the highest TTL.
    TooFar,
    /// There was no more time.
    OutOfTime,
    /// It was interrupted.
    Interrupted,
}

/// One hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// The TTL (hop limit) of its probes, from 1.
    pub ttl: u8,
    /// The routers that answered: several where packets of one flow take several paths, none where no router did.
    pub routers: Vec<Router>,
    /// Probes.
    pub sent: u32,
    /// Answered ones. Routers answer when they have time: loss here that later hops do not have is no loss of the path.
    pub answered: u32,
    /// Least round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_s: Option<f64>,
    /// Median round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_median_s: Option<f64>,
}

/// A router that answered at a hop, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    /// Its address.
    pub address: String,
    /// Its answer.
    pub said: RouterReply,
    /// ICMP type and code of that; none for a node's own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp: Option<[u8; 2]>,
    /// How often.
    pub answers: u32,
    /// TTL of its last answer, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_reverse: Option<u8>,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterReply {
    /// The target's own answer.
    Answered,
    /// The TTL ended there: an ordinary hop.
    TimeExceeded,
    /// Nothing listens at that port of the target: it was reached.
    PortUnreachable,
    /// The target's network cannot be reached from there.
    NetworkUnreachable,
    /// The target cannot be reached from there.
    HostUnreachable,
    /// The target does not speak UDP.
    ProtocolUnreachable,
    /// A filter forbids it.
    AdminProhibited,
    /// Too large for the next link.
    TooBig,
    /// Something else; type and code say what.
    Other,
}

impl fmt::Display for RouterReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RouterReply::Answered => "answered",
            RouterReply::TimeExceeded => "time exceeded",
            RouterReply::PortUnreachable => "port unreachable",
            RouterReply::NetworkUnreachable => "network unreachable",
            RouterReply::HostUnreachable => "host unreachable",
            RouterReply::ProtocolUnreachable => "protocol unreachable",
            RouterReply::AdminProhibited => "prohibited by a filter",
            RouterReply::TooBig => "packet too big",
            RouterReply::Other => "something else",
        })
    }
}

/// The paths that flows with different source ports take (ECMP, link aggregation).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// All flows, by source port.
    pub flows: Vec<SweepFlow>,
    /// The paths that differ in their hops, from the one with most flows.
    pub paths: Vec<SweepPath>,
    /// Flows that fare worse than the others, the surest first.
    pub suspects: Vec<Suspect>,
    /// Whether loss was judged: only where the far end is a node, because other hosts limit the rate of their answers.
    pub judged: bool,
    /// How it ended: `reached` if all was done, `silent` where no flow was answered.
    pub end: End,
    /// Wall time.
    pub seconds: f64,
}

/// One flow of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepFlow {
    /// Its source port.
    pub port: u16,
    /// Its path: the index in `paths`, from 0.
    pub path: usize,
    /// Probes to the target; without those whose answer may have been on its way when the sweep was ended.
    pub sent: u32,
    /// Answered ones.
    pub answered: u32,
    /// Least round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_s: Option<f64>,
    /// Median round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_median_s: Option<f64>,
}

/// A path that some flows take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPath {
    /// Source ports of its flows.
    pub ports: Vec<u16>,
    /// Addresses at each hop, from the first; empty where no router answered.
    pub hops: Vec<Vec<String>>,
    /// Probes to the target, of all its flows; without those that may have been on their way at the end.
    pub sent: u32,
    /// Answered ones.
    pub answered: u32,
    /// Least round trip of all its flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_s: Option<f64>,
}

/// Flows that fare worse than the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// The property in which they are worse.
    pub by: SuspectBy,
    /// Their source ports.
    pub ports: Vec<u16>,
    /// Their probes to the target.
    pub sent: u32,
    /// Lost ones: probes, or answers.
    pub lost: u32,
    /// Of these, lost forward, as the far end's count says.
    #[serde(default)]
    pub lost_forward: u32,
    /// The probes of the flows that they were compared with.
    pub others_sent: u32,
    /// Lost ones.
    pub others_lost: u32,
    /// The probability of so much loss if all flows were alike, times the number of comparisons. Only for loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
    /// By how much longer their least round trip is. Only for delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_s: Option<f64>,
    /// The first hop that all of them pass and none of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<u8>,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The same as a sentence.
    pub text: String,
}

/// The property in which flows are worse than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectBy {
    /// More of their probes are lost.
    Loss,
    /// Their round trip is longer.
    Delay,
}

/// How large a packet may be on the path, in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mtu {
    /// The largest IP packet that arrived, header included.
    pub mtu_bytes: u32,
    /// What bounds it.
    pub bound: MtuBound,
    /// A router answers larger packets with its limit (ICMP: fragmentation needed, packet too big), and probes confirmed the limit.
    pub icmp: bool,
    /// Larger packets are lost without an ICMP message: TCP learns it from timeouts, or never.
    pub black_hole: bool,
    /// At the end, packets of this size were still answered and larger ones still not.
    pub confirmed: bool,
    /// MTU of this end's interface, where larger probes were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_bytes: Option<u32>,
    /// The limits that routers reported.
    pub said: Vec<MtuSaid>,
    /// Sizes that were tried, from the least.
    pub tried: Vec<MtuTried>,
    /// Wall time.
    pub seconds: f64,
}

/// What bounds packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MtuBound {
    /// This end's own interface: the path may carry more.
    Interface,
    /// The path.
    #[default]
    Path,
    /// The largest size that was to be tried: the path may carry more.
    Limit,
}

/// The size that a router reports to fit its next link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuSaid {
    /// Its address.
    pub by: String,
    /// The size; 0 from routers that do not report it (older than RFC 1191).
    pub mtu_bytes: u32,
    /// Probes found the same size.
    pub confirmed: bool,
}

/// A size that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuTried {
    /// IP packet, header included.
    pub bytes: u32,
    /// Probes.
    pub sent: u32,
    /// Answered ones.
    pub answered: u32,
    /// Those that a router reported as too big.
    pub refused: u32,
}

/// What differs between two routes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The property that differs.
    pub what: ChangeOf,
    /// The hop, as a TTL of the first route (of the second route, for a hop that only it has).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u8>,
    /// How it was, or is forward: addresses, bytes, hops or seconds.
    pub before: String,
    /// How it is, or is in reverse.
    pub after: String,
    /// The same as a sentence.
    pub text: String,
}

/// The property in which two routes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOf {
    /// Other routers stand in the place of some.
    Replaced,
    /// Routers that were not there.
    Inserted,
    /// Routers that are there no more.
    Removed,
    /// The trace ends for another reason.
    End,
    /// Round trips are longer or shorter from a hop on.
    Rtt,
    /// The MTU.
    Mtu,
    /// The number of hops.
    Distance,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

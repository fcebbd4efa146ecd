//! The result of a path test: hops, other paths to the same target, MTU, and changes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What to measure of a route. A field that is left out has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteOrder {
    /// The highest TTL; 1 to 64.
    pub ttl_max: u8,
    /// The number of consecutive hops without an answer after which the trace ends; 1 to 64.
    pub gap: u8,
    /// Probes for each hop; 1 to 16.
    pub queries: u8,
    /// A probe without an answer counts as lost after this time, seconds; up to 60.
    pub patience_s: f64,
    /// The number of flows, each with its own source port, 1 to 64. With more than one, the test looks for parallel paths.
    pub flows: u16,
    /// With several flows: the probes that each flow sends to the far end; up to 10,000.
    pub probes: u32,
    /// The largest IP packet that is tried, bytes; 576 to 65,535. None: the MTU is not measured.
    pub mtu_bytes_max: Option<u32>,
    /// The longest time of each part, seconds; up to 3,600.
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
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Mtu>,
    /// The parallel paths, if the test looked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// The routes of both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Routes {
    /// From the near end to the far end.
    pub forward: Route,
    /// From the far end to the near end, as the far end found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Route>,
    /// The differences of the two.
    #[serde(default)]
    pub asymmetries: Vec<Change>,
}

/// The hops of one flow, in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Address and port that the probes came from.
    pub source: String,
    /// Address and port that the probes were sent to.
    pub target: String,
    /// The hops, from the first router on. The last hop is the target, if it was reached. Hops after the last one that answered are left
    /// out.
    pub hops: Vec<Hop>,
    /// Why there are no more hops.
    pub end: End,
    /// The number of hops to the target, the target included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u8>,
    /// The number of hops of the reverse path, from the TTL of the target's answers. Only if the target is a node.
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
    /// The target was reached.
    Reached,
    /// A router blocks the probes; its hop says why.
    Blocked,
    /// No further hop answered.
    #[default]
    Silent,
    /// The target is farther than the highest TTL.
    TooFar,
    /// The time of the test was over.
    OutOfTime,
    /// The test was interrupted.
    Interrupted,
}

/// One hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// The TTL (hop limit) of its probes, from 1.
    pub ttl: u8,
    /// The routers that answered: several if packets of one flow take several paths, none if no router answered.
    pub routers: Vec<Router>,
    /// The number of probes sent.
    pub sent: u32,
    /// The number of probes answered. Routers answer only when they have time: loss at this hop that later hops do not show is not loss
    /// of the path.
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
    /// ICMP type and code of the answer; absent for a node's own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp: Option<[u8; 2]>,
    /// The number of answers.
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
    /// The packet is too large for the next link.
    TooBig,
    /// Another answer; type and code say which.
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
    /// The paths that differ in their hops, those with most flows first.
    pub paths: Vec<SweepPath>,
    /// Flows with more loss or delay than the others, the most certain first.
    pub suspects: Vec<Suspect>,
    /// Whether loss was judged: only where the far end is a node, because other hosts limit the rate of their answers.
    pub judged: bool,
    /// How the sweep ended: `reached` if all probes were made, `silent` if no flow was answered.
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
    /// The number of probes answered.
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
    /// The number of probes answered.
    pub answered: u32,
    /// Least round trip of all its flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_s: Option<f64>,
}

/// Flows with more loss or delay than the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// The property in which they are worse.
    pub by: SuspectBy,
    /// Their source ports.
    pub ports: Vec<u16>,
    /// Their probes to the target.
    pub sent: u32,
    /// The number of probes lost: the probe itself or its answer.
    pub lost: u32,
    /// The part of `lost` that was lost forward, by the count of the far end.
    #[serde(default)]
    pub lost_forward: u32,
    /// The probes of the flows that they were compared with.
    pub others_sent: u32,
    /// The number of those probes that were lost.
    pub others_lost: u32,
    /// The probability of this loss if all flows had equal loss, times the number of comparisons. Only for loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
    /// By how much their smallest round-trip time is longer. Only for delay.
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

/// The MTU of a path in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mtu {
    /// The largest IP packet that arrived, header included.
    pub mtu_bytes: u32,
    /// What bounds it.
    pub bound: MtuBound,
    /// A router answers larger packets with its limit (ICMP: fragmentation needed, packet too big), and probes confirmed the limit.
    pub icmp: bool,
    /// Larger packets are lost without an ICMP message. TCP learns the MTU from timeouts, or never.
    pub black_hole: bool,
    /// At the end of the test, packets of this size were still answered, and larger ones were still lost.
    pub confirmed: bool,
    /// The MTU of this end's interface, if larger probes were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_bytes: Option<u32>,
    /// The limits that routers reported.
    pub said: Vec<MtuReport>,
    /// Sizes that were tried, from the least.
    pub tried: Vec<MtuTried>,
    /// Wall time.
    pub seconds: f64,
}

/// What limits the size of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MtuBound {
    /// This end's own interface: the path may carry more.
    Interface,
    /// The path.
    #[default]
    Path,
    /// The largest size that the order allows: the path may carry more.
    Limit,
}

/// The size that a router reports to fit its next link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuReport {
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
    /// The number of probes sent.
    pub sent: u32,
    /// The number of probes answered.
    pub answered: u32,
    /// The number of probes that a router reported as too big.
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
    /// The former value, or the forward value: addresses, bytes, hops or seconds.
    pub before: String,
    /// The present value, or the reverse value.
    pub after: String,
    /// The same as a sentence.
    pub text: String,
}

/// The property in which two routes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOf {
    /// Some routers were replaced by others.
    Replaced,
    /// There are additional routers.
    Inserted,
    /// Some routers are no longer on the path.
    Removed,
    /// The trace ends for another reason.
    End,
    /// From a hop on, round trips are longer or shorter.
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

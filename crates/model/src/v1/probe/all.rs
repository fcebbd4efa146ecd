//! `probe all`: the results of every test of a path, and the causes that follow from them.

use serde::{Deserialize, Serialize};

use super::host::Use;
use super::latency::Latency;
use super::route::Routes;
use super::udp::UdpPoint;
use super::{Direction, Limits, tcp};

/// The results of all tests, in the order in which they ran. A test that could not run has no result; `left_out` says why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The rate that the path should give, as the user states it; 0 where it was not stated.
    pub link_bit_s: u64,
    /// The bounds that the node sets on tests.
    pub limits: Option<Limits>,
    /// Hops, paths and MTU of both directions.
    pub routes: Option<Routes>,
    /// Round trips without other traffic of the test on the path.
    pub latency: Option<Latency>,
    /// Small datagrams at a modest rate, forward and reverse: loss, order, copies.
    pub datagrams: PerDirection<UdpPoint>,
    /// Bursts at a low mean rate, forward and reverse: what a queue holds, and how fast it empties.
    pub bursts: PerDirection<UdpPoint>,
    /// TCP, forward and reverse.
    pub tcp: PerDirection<tcp::Report>,
    /// TCP with a congestion control that treats loss as congestion; measured if the sender's own (BBR) does not.
    #[serde(default)]
    pub loss_based: PerDirection<tcp::Report>,
    /// Round trips while TCP runs.
    pub loaded: Option<Latency>,
    /// The tests that could not run, with reasons.
    pub left_out: Vec<String>,
}

/// The same in both directions, seen from where the command runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// To the other end.
    pub forward: Option<T>,
    /// From the other end.
    pub reverse: Option<T>,
}

impl<T> Default for PerDirection<T> {
    fn default() -> Self {
        Self { forward: None, reverse: None }
    }
}

impl<T> PerDirection<T> {
    /// The value of one direction.
    pub fn of(&self, direction: Direction) -> Option<&T> {
        match direction {
            Direction::Forward => self.forward.as_ref(),
            Direction::Reverse => self.reverse.as_ref(),
        }
    }

    /// Both, by their names.
    pub fn each(&self) -> [(Direction, Option<&T>); 2] {
        [(Direction::Forward, self.forward.as_ref()), (Direction::Reverse, self.reverse.as_ref())]
    }
}

/// Where a cause lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Segment {
    /// The host where the command runs.
    NearHost,
    /// The network between the hosts; where in it is unknown.
    Network,
    /// The network, at or before this router.
    Hop {
        /// Its TTL, counted from the sending end.
        ttl: u8,
        /// Its address.
        address: String,
    },
    /// The other host.
    FarHost,
}

/// The kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Packets larger than the MTU of the path are lost without an ICMP message.
    MtuHole,
    /// One of several parallel paths loses packets.
    LossyMember,
    /// Packets are lost at any rate and size.
    Loss,
    /// A policer drops packets above a rate at once.
    Policer,
    /// The bottleneck's queue is too short for bursts.
    ShallowQueue,
    /// Windows or buffers are too small for the round trip.
    SmallWindow,
    /// A processor is the limit.
    Processor,
    /// Packets overtake each other.
    Reordering,
    /// Packets arrive twice.
    Duplicates,
    /// Traffic of others uses the path.
    CrossTraffic,
    /// A link of the path, or a shaper, gives less than `link_bit_s`.
    NarrowLink,
    /// The two directions take different paths.
    AsymmetricRoute,
    /// The bottleneck's queue is so long that it delays everything.
    Bufferbloat,
}

/// A reason why the path gives less than it could.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind.
    pub kind: Kind,
    /// The direction; absent for both.
    pub direction: Option<Direction>,
    /// Where the cause lies.
    pub segment: Segment,
    /// The importance of the cause, from 0 to 1. Causes are ranked by it.
    pub weight: f64,
    /// The measurements that show it, with numbers.
    pub evidence: String,
    /// The remedy.
    pub remedy: String,
}

/// The complete report of `probe all`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Support {
    /// The measurements.
    pub findings: Findings,
    /// The causes that follow from the measurements, most important first; empty if nothing is wrong.
    pub causes: Vec<Cause>,
    /// The near host during all tests.
    pub near: Use,
}

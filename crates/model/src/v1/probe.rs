//! The public JSON of tests. Rates are bit/s, sizes bytes, times seconds.

pub mod all;
pub mod direction;
pub mod disk;
pub mod host;
pub mod latency;
pub mod route;
pub mod tcp;
pub mod udp;

pub use direction::Direction;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// A line of a test's JSON output: the name of the test, and its result.
#[derive(Debug, Serialize)]
pub struct ProbeDocument<'a, T> {
    v: u8,
    event: &'static str,
    test: &'static str,
    target: &'a str,
    /// Both hosts, for tests whose results do not contain them.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<&'a host::Hosts>,
    #[serde(flatten)]
    what: &'a T,
}

impl<'a, T> ProbeDocument<'a, T> {
    /// `event` is `interval`, `point` or `result`.
    pub fn of(event: &'static str, test: &'static str, target: &'a str, what: &'a T) -> ProbeDocument<'a, T> {
        ProbeDocument { v: 1, event, test, target, hosts: None, what }
    }

    /// Adds both hosts, if they are known.
    #[must_use]
    pub fn on(self, hosts: Option<&'a host::Hosts>) -> ProbeDocument<'a, T> {
        ProbeDocument { hosts, ..self }
    }
}

/// The request to a node to run the far end of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestRequest {
    /// The number of the test's first stream in its session; the others follow.
    pub first_stream: u32,
    /// The test.
    pub test: Test,
}

/// Tests with two ends, and questions about the node itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// TCP.
    Tcp(tcp::Order),
    /// A test over flows of datagrams.
    Flows(Flows),
    /// The disk below an export.
    Disk(Disk),
    /// No test: asks for the node's bounds on tests.
    Limits,
    /// No test: asks for an audit of the host's settings.
    Audit(super::tune::AuditRequest),
    /// No test: begins or ends a claim. While a claim lasts, no other test with a claim runs.
    Claim(Claim),
}

/// A claim on a node for a test that must not run at the same time as others. It expires by itself, so that no client holds a node for
/// ever.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its name: random.
    pub token: Token,
    /// How long the claim lasts, seconds; 0 ends it.
    pub seconds: f64,
    /// The claim is also refused while transfers of the node run.
    #[serde(rename = "is_shy_of_transfers")]
    pub waits_for_transfers: bool,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimLine {
    /// The node is claimed, or free again.
    Granted,
    /// The claim is refused.
    Busy {
        /// The test or transfer that prevents it.
        why: String,
    },
}

/// The name of a test over flows: random, known to its two ends alone.
pub type Token = [u8; 16];

/// A test over flows of datagrams: which flows, and what the far end does with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// Its name.
    pub token: Token,
    /// Flows, from 1.
    pub flows: u32,
    /// The far end's part.
    pub task: Task,
}

/// What the far end of flows does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Answers STAMP packets, until the test is over.
    Reflect {
        /// The longest time of this task, seconds.
        seconds: f64,
    },
    /// Receives one run.
    Receive {
        /// Its number, which is in each datagram.
        run: u32,
        /// What the near end sends.
        order: udp::UdpOrder,
    },
    /// Sends one run.
    Send {
        /// Its number.
        run: u32,
        /// What is sent.
        order: udp::UdpOrder,
    },
    /// Answers requests with as many bytes as each asks for.
    Answer {
        /// Number of the run.
        run: u32,
        /// The longest answer, bytes.
        answer_bytes_max: u32,
        /// The longest time of this task, seconds.
        seconds: f64,
    },
    /// Answers the probes of the near end, which traces the path to here.
    Echo {
        /// The longest time of this task, seconds.
        seconds: f64,
    },
    /// Traces the path to the near end, which answers.
    Explore(route::RouteOrder),
}

/// Why a far end could not do its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose fault that is.
    pub fault: Fault,
    /// The reason, in words.
    pub why: String,
}

/// A line of the far end of flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowLine {
    /// The far end knows the token: flows may be opened.
    Waiting,
    /// All flows have arrived.
    Ready,
    /// The test makes progress.
    Progress {
        /// Datagrams so far.
        datagrams: u64,
        /// Datagrams that are missing so far.
        missing: u64,
    },
    /// The test is over.
    Done(Box<FlowsDone>),
    /// The test failed.
    Failed(Failure),
}

/// The result of the far end's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowsDone {
    /// The far end's host.
    pub host: host::Use,
    /// What it received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<udp::UdpReceived>,
    /// What it sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<udp::UdpSent>,
    /// What it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<udp::UdpAnswered>,
    /// The route that it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<route::Route>,
}

/// A test of the disk below an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Export and path of the directory, as in a locator.
    pub place: String,
    /// What to measure.
    pub order: disk::Order,
}

/// A line of a disk test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskLine {
    /// The test still runs. Sent between the other lines, so that the end that measures notices when the reader has gone.
    Working,
    /// A point is done.
    Point(Box<disk::Point>),
    /// The test is over.
    Done(Box<disk::Report>),
    /// The test failed.
    Failed(Failure),
}

/// The bounds that a node sets on the tests of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The longest test, seconds.
    pub seconds: f64,
    /// The most tests of one client at once.
    pub tests: u32,
    /// The most bytes that the tests of one address may move in a day, both directions together.
    pub bytes_a_day: u64,
    /// The part of `bytes_a_day` that the client has left.
    pub bytes_left: u64,
    /// The highest rate of datagrams for anonymous clients, bit/s; 0 for no limit.
    pub anonymous_udp_bit_s: u64,
    /// A number for the clock that the node reads: two ends on one machine have the same number until it is started again; 0 where it
    /// is unknown.
    #[serde(default)]
    pub clock: u32,
}

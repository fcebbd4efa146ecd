//! Why files wait, and the shares of communities.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::node::Problem;

/// Why a file waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The number of the file.
    pub file: i64,
    /// The source of the file.
    pub source: String,
    /// The target of the file.
    pub target: String,
    /// The state of the file.
    pub state: String,
    /// The number of files before it in its queue.
    pub position: u64,
    /// The constraint that the file waits for.
    pub constraint: Constraint,
    /// The users of the resource that the file waits for: communities and activities with their rates, or transfers.
    pub held_by: Vec<String>,
    /// When the transfer of the file is expected to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<String>,
    /// When the transfer of the file is expected to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<String>,
}

/// A constraint that a file waits for, or that limits a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Constraint {
    /// The kind of the constraint.
    pub kind: ConstraintKind,
    /// The name of the link, endpoint or community.
    pub name: String,
    /// The constraint in one sentence, with numbers.
    pub text: String,
}

/// Kinds of constraints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintKind {
    /// No constraint: the file is being transferred, or begins when the hub next assigns transfers.
    #[default]
    None,
    /// A link is used up to its mark.
    Link,
    /// An endpoint has reached its rate limit.
    Endpoint,
    /// An endpoint has reached its limit of transfers.
    Transfers,
    /// The space reserved at the target endpoint is used up.
    Space,
    /// The community has reached its rate limit.
    Community,
    /// The job has a rate limit.
    Limit,
    /// A part of the collaboration that the file needs is stopped.
    Stopped,
    /// The endpoint failed; the hub tries it again after a while.
    Broken,
    /// The file is being staged from tape.
    Staging,
    /// An attempt failed; the next attempt waits for its time.
    Retry,
    /// No endpoint of the collaboration has this URL.
    NoEndpoint,
    /// The file waits for another source to fail, or for the previous hop.
    Standby,
    /// The file waits for the files before it in its queue.
    Turn,
}

/// A queue: files with the same pair of endpoints, community, activity, owner, priority and deadline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueLine {
    /// The number of the queue.
    pub number: i64,
    /// The source endpoint.
    pub source: String,
    /// The target endpoint.
    pub target: String,
    /// The community.
    pub community: String,
    /// The activity.
    pub activity: String,
    /// The member who submitted the files.
    pub owner: String,
    /// The priority, 1 to 5.
    pub priority: u8,
    /// The number of files that wait.
    pub queued: u64,
    /// The bytes of the files that wait.
    pub queued_bytes: u64,
    /// The number of files that are being transferred.
    pub running: u64,
    /// The rate that the queue may use now, bit/s; absent if nothing limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bit_s: Option<u64>,
    /// The rate that the queue uses now, bit/s.
    pub used_bit_s: u64,
    /// The constraint that limits the queue.
    pub constraint: Constraint,
    /// The deadline that is promised for the files; absent if none is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The rate that the queue gets at least, so that the deadline is met, bit/s; 0 while there is time to begin later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_bit_s: Option<u64>,
    /// Bytes that can no longer arrive before the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_bytes: Option<u64>,
}

/// The queues that have files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// The queues.
    pub queues: Vec<QueueLine>,
}

/// A shared resource, and how much of it is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceLine {
    /// `link NAME`, `endpoint NAME out`, `community NAME`, …
    pub name: String,
    /// The part that may be used now, bit/s.
    pub usable_bit_s: u64,
    /// The part that is allocated to queues, bit/s.
    pub allocated_bit_s: u64,
    /// The part that is used now, bit/s.
    pub used_bit_s: u64,
}

/// The use of the shared resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shares {
    /// The resources that limit a queue, or could.
    pub resources: Vec<ResourceLine>,
}

/// What the hub could promise instead of a deadline that it cannot promise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// The time by which all bytes could arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The bytes that could arrive by the deadline of the order.
    pub bytes: u64,
}

/// A refusal of a deadline, with what could be promised (RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotPromised {
    /// The problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// What could be promised instead.
    pub offer: Offer,
}

//! Why files wait, and which share each community has.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::node::Problem;

/// Why a file that waits does not move.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The number of the file.
    pub file: i64,
    /// Where its bytes come from.
    pub source: String,
    /// Where they go.
    pub target: String,
    /// Its state.
    pub state: String,
    /// How many files of its queue are before it.
    pub position: u64,
    /// What holds it.
    pub constraint: Constraint,
    /// Who has what it waits for: communities and activities with their rates, or transfers.
    pub held_by: Vec<String>,
    /// When it is expected to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<String>,
    /// When it is expected to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<String>,
}

/// What holds a file, or a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Constraint {
    /// Of which kind it is.
    pub kind: ConstraintKind,
    /// Its name: of the link, the endpoint, the community.
    pub name: String,
    /// One sentence with the numbers.
    pub text: String,
}

/// Kinds of constraints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintKind {
    /// None: it moves, or begins with the next look.
    #[default]
    None,
    /// A link is full to its mark.
    Link,
    /// An endpoint gives or takes no more.
    Endpoint,
    /// An endpoint has as many transfers as it may have.
    Transfers,
    /// The space that is reserved for it at the target is taken.
    Space,
    /// The community has its cap.
    Community,
    /// Somebody has limited the job.
    Limit,
    /// Somebody stopped it.
    Stopped,
    /// The endpoint failed, and is left in peace for a while.
    Broken,
    /// Its files are being brought from tape.
    Staging,
    /// An attempt failed, and the next one waits.
    Retry,
    /// No endpoint of the collaboration has such URLs.
    NoEndpoint,
    /// It is for another source, or another hop.
    Standby,
    /// It waits for the files of its own queue before it.
    Turn,
}

/// A queue: files of one path and one owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueLine {
    /// Its number.
    pub number: i64,
    /// The endpoint that is read.
    pub source: String,
    /// The endpoint that is written.
    pub target: String,
    /// The community.
    pub community: String,
    /// The activity.
    pub activity: String,
    /// Who submitted.
    pub owner: String,
    /// 1 to 5.
    pub priority: u8,
    /// Files that wait.
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Files that move.
    pub running: u64,
    /// What it may use now, bit/s; none where nothing bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bit_s: Option<u64>,
    /// What it uses, bit/s.
    pub used_bit_s: u64,
    /// What keeps it from more.
    pub constraint: Constraint,
    /// By when its files are promised to be there; none where nothing is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// What it does not go below now so that they are, bit/s; 0 as long as later is early enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_bit_s: Option<u64>,
    /// Bytes that do not fit before the deadline any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_bytes: Option<u64>,
}

/// The queues that have something.
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
    /// What may be used of it now, bit/s.
    pub usable_bit_s: u64,
    /// What is given out of it, bit/s.
    pub allocated_bit_s: u64,
    /// What is used, bit/s.
    pub used_bit_s: u64,
}

/// Who has what of the shared resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shares {
    /// The resources that bound somebody, or could.
    pub resources: Vec<ResourceLine>,
}

/// What could be promised instead of a deadline that cannot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// All of it, by this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// So many bytes by the deadline that was asked for.
    pub bytes: u64,
}

/// Why a deadline is not promised, and what could be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotPromised {
    /// The problem, as of any other refusal.
    #[serde(flatten)]
    pub problem: Problem,
    /// What could be promised instead.
    pub offer: Offer,
}

//! What the scheduler decided last: who has which rate, what binds, and why.

use std::collections::HashMap;

use model::v1::hub::{Constraint, ResourceLine};
use uuid::Uuid;

use crate::promises::Standing;

/// A source endpoint and a target endpoint.
pub type Pair = (String, String);

/// A look of the scheduler.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When, milliseconds since 1970; 0 before the first look.
    pub at: i64,
    /// By the number of the queue.
    pub queues: HashMap<i64, Decision>,
    /// The shared resources.
    pub resources: Vec<ResourceLine>,
    /// What is known of pairs of endpoints on which something moves, or did within a day.
    pub pairs: HashMap<Pair, SeenPair>,
    /// What this hub has carried just now, by the ids of the transfers.
    pub moving: HashMap<Uuid, Moving>,
}

/// How a transfer moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moving {
    /// Bytes per second.
    pub rate: f64,
    /// Bytes that have arrived.
    pub bytes: u64,
}

/// What was decided for a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What it may use, bytes per second; infinity where nothing bounds it.
    pub rate: f64,
    /// What it uses, bytes per second.
    pub used: f64,
    /// A shared resource keeps it from more, and not what it was seen to use.
    pub is_bound: bool,
    /// What keeps it from more.
    pub constraint: Constraint,
    /// Who has what it waits for.
    pub held_by: Vec<String>,
    /// How its promise stands, where it has a deadline.
    pub promised: Option<Standing>,
}

/// What is known of a pair of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeenPair {
    /// How fast it was when something moved there last, bytes per second.
    pub rate: Option<f64>,
    /// Bytes that wait for it.
    pub queued_bytes: f64,
}

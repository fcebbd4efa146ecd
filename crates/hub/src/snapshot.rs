//! The last decisions of the scheduler: the rates of the queues, and what bounds them.

use std::collections::HashMap;

use model::v1::hub::{Constraint, ResourceLine};
use uuid::Uuid;

use crate::promises::PromiseStatus;

/// A source endpoint and a target endpoint.
pub type Pair = (String, String);

/// The decisions of one round of the scheduler.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When they were made, milliseconds since 1970; 0 before the first round.
    pub at: i64,
    /// The decisions, by the number of the queue.
    pub queues: HashMap<i64, Decision>,
    /// The shared resources.
    pub resources: Vec<ResourceLine>,
    /// Pairs of endpoints with transfers now, or within a day.
    pub pairs: HashMap<Pair, SeenPair>,
    /// The progress of the running transfers of this hub, by id.
    pub progress: HashMap<Uuid, TransferProgress>,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferProgress {
    /// Bytes per second.
    pub rate: f64,
    /// Bytes that have arrived.
    pub bytes: u64,
}

/// The decision for a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The rate that it may use, bytes per second; infinite if nothing bounds it.
    pub rate: f64,
    /// The rate that it uses, bytes per second.
    pub used: f64,
    /// Whether a shared resource bounds it, rather than the rate that it can use.
    pub is_bound: bool,
    /// What bounds it.
    pub constraint: Constraint,
    /// The other users of the resource that bounds it.
    pub held_by: Vec<String>,
    /// The state of its promise, if it has a deadline.
    pub promised: Option<PromiseStatus>,
}

/// The last rate and the waiting bytes of a pair of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeenPair {
    /// Its last rate, bytes per second.
    pub rate: Option<f64>,
    /// Bytes that wait for it.
    pub queued_bytes: f64,
}

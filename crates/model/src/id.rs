//! Typed identities: one type per kind of thing, so that a file id cannot be passed for a job id.

use std::fmt;

pub use uuid::Uuid;

/// The id of a job, unique everywhere (UUID version 7, so that ids sort by time).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub Uuid);

impl JobId {
    /// A new id from the current time and randomness.
    pub fn random() -> JobId {
        JobId(Uuid::now_v7())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! Typed identities: one type per kind of thing, so that a file id cannot be passed for a job id.

use std::fmt;

pub use uuid::Uuid;

/// A job, told apart from all others anywhere (UUID version 7, so that they sort by time).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub Uuid);

impl JobId {
    /// A new id from the current time and randomness.
    pub fn random() -> JobId {
        JobId(Uuid::now_v7())
    }

    /// Eight hexadecimal digits that tell jobs apart in file names. The tail is the random part of the UUID.
    pub fn short(&self) -> String {
        let bytes = self.0.as_bytes();
        format!("{:02x}{:02x}{:02x}{:02x}", bytes[12], bytes[13], bytes[14], bytes[15])
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

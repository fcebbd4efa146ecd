//! What is told of a transfer that is carried, and what is wanted of it meanwhile.

use model::v1::Limit;

/// What is wanted of a transfer that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steer {
    /// What it may use, bytes per second; infinity for no limit.
    pub limit: f64,
    /// It is to end.
    pub is_cancelled: bool,
}

/// What is told of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It moves.
    Moving {
        /// Its number.
        transfer: i64,
        /// Bytes per second.
        rate: f64,
        /// Bytes that have arrived so far.
        bytes: u64,
    },
    /// It has ended, and its node says what held it back.
    Limited {
        /// Its number.
        transfer: i64,
        /// What did.
        by: Limit,
    },
    /// Some of its files have ended.
    Files {
        /// Its number.
        transfer: i64,
        /// By the numbers of their rows.
        files: Vec<(i64, Finished)>,
    },
    /// It has ended, and so have those of its files that were not told of.
    Ended {
        /// Its number.
        transfer: i64,
        /// How.
        finished: Finished,
    },
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Everything is there, verified. Of a transfer of several files the bytes are those of all.
    Done {
        /// Bytes that are there.
        bytes: u64,
    },
    /// It failed, or was refused.
    Failed {
        /// Whose fault.
        fault: String,
        /// One sentence.
        reason: String,
    },
    /// Somebody ended it.
    Cancelled,
    /// Nobody could be asked to carry it.
    Unreachable {
        /// One sentence.
        reason: String,
    },
}

/// Whether a sentence says that the target is there already, and may not be replaced: another attempt would meet it again.
pub fn is_taken(reason: &str) -> bool {
    ["exists already", "already exists", "is there already"].iter().any(|said| reason.contains(said))
}

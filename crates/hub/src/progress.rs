//! The reports of a running transfer to the scheduler, and the control that it gets from there.

use model::v1::Limit;

/// What the scheduler wants of a running transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferControl {
    /// Its limit, bytes per second; infinity for none.
    pub limit: f64,
    /// It is to be cancelled.
    pub is_cancelled: bool,
}

/// A report on a transfer.
#[derive(Clone, Debug, PartialEq)]
pub enum TransferReport {
    /// It moves.
    Moving {
        /// Its number.
        transfer: i64,
        /// Bytes per second.
        rate: f64,
        /// Bytes that have arrived so far.
        bytes: u64,
    },
    /// It has ended, and its receipt says what limited it.
    Limited {
        /// Its number.
        transfer: i64,
        /// What limited it.
        by: Limit,
    },
    /// Some of its files have ended.
    Files {
        /// Its number.
        transfer: i64,
        /// The files, by the numbers of their rows.
        files: Vec<(i64, Finished)>,
    },
    /// It has ended, and with it the files that were not reported before.
    Ended {
        /// Its number.
        transfer: i64,
        /// The result of these files.
        finished: Finished,
    },
}

/// The result of a transfer, or of one of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Everything has arrived and is verified. The bytes are those of all files of the transfer.
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
    /// It was cancelled.
    Cancelled,
    /// The carrier could not be reached.
    Unreachable {
        /// One sentence.
        reason: String,
    },
}

/// Whether a reason says that the target exists and may not be replaced: another attempt would fail in the same way.
pub fn is_taken(reason: &str) -> bool {
    ["exists already", "already exists", "is there already"].iter().any(|said| reason.contains(said))
}

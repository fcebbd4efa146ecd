//! The reports of a running transfer to the scheduler, and the scheduler's control of the transfer.

use model::v1::Limit;

/// The limit that the scheduler sets for a running transfer, and whether it cancels the transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferControl {
    /// Its limit, bytes per second; infinity for none.
    pub limit: f64,
    /// Whether the transfer is to be cancelled.
    pub is_cancelled: bool,
}

/// A report on a transfer.
#[derive(Clone, Debug, PartialEq)]
pub enum TransferReport {
    /// The transfer moves bytes.
    Moving {
        /// Its number.
        transfer: i64,
        /// The rate, bytes per second.
        rate: f64,
        /// Bytes that have arrived so far.
        bytes: u64,
    },
    /// The transfer has ended, and its receipt says what limited it.
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
        files: Vec<(i64, TransferResult)>,
    },
    /// The transfer has ended, and with it the files that were not reported before.
    Ended {
        /// Its number.
        transfer: i64,
        /// The result of these files.
        result: TransferResult,
    },
}

/// The result of a transfer, or of one of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferResult {
    /// All files have arrived and are verified.
    Done {
        /// The bytes of all these files.
        bytes: u64,
    },
    /// It failed, or was refused.
    Failed {
        /// Whose fault it was, in the word that receipts use (`peer`, `path`, …).
        fault: String,
        /// The reason, one sentence.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
    /// The carrier could not be reached.
    Unreachable {
        /// The reason, one sentence.
        reason: String,
    },
}

/// Whether a reason says that the target exists and may not be replaced: another attempt would fail in the same way.
pub fn is_taken(reason: &str) -> bool {
    ["exists already", "already exists", "is there already"].iter().any(|phrase| reason.contains(phrase))
}

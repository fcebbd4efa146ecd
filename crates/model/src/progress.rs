//! The progress of a transfer.

use crate::locator::ENDLESS;

/// The files and bytes of a transfer so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of files offered.
    pub bytes_offered: u64,
    /// Files offered.
    pub files_offered: u64,
    /// Bytes that the receiver has taken in, skipped files included.
    pub bytes_arrived: u64,
    /// Files settled.
    pub files_settled: u64,
    /// Of `bytes_arrived`: bytes that the target had already, skipped or resumed. They took no time on the path.
    pub bytes_in_place: u64,
    /// Of `bytes_arrived`: holes, which take no time on the path either.
    pub bytes_of_holes: u64,
    /// Of `files_settled`: skipped.
    pub files_in_place: u64,
    /// The tree has been offered in full.
    pub scanned: bool,
}

impl Progress {
    /// Payload that crossed the path: `bytes_arrived` without bytes in place and holes.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_arrived.saturating_sub(self.bytes_in_place).saturating_sub(self.bytes_of_holes)
    }

    /// Whether the transfer goes on until it is stopped.
    pub fn is_endless(&self) -> bool {
        self.bytes_offered >= ENDLESS.0
    }
}

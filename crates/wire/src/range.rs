//! Ranges of files, which are read and built into records. The sender deals them to its own streams and to movers.

use model::checksum::BlockSum;
use model::entry::Timestamp;
use model::name::RelPath;

/// A range of a file to read, and all that is needed to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The file's id.
    pub file: u64,
    /// The index of its source.
    pub source: u32,
    /// Its path below that source's root.
    pub path: RelPath,
    /// Its size when it was offered; [`UNKNOWN_SIZE`](crate::frame::UNKNOWN_SIZE) for a pipe.
    pub size: u64,
    /// Its modification time when it was offered.
    pub mtime: Timestamp,
    /// Its time of change (ctime) when it was offered, where that is known. It is not sent.
    pub changed: Option<Timestamp>,
    /// The offset of the range, bytes.
    pub offset: u64,
    /// Its length, bytes; for a pipe, the highest.
    pub len: u64,
    /// Nothing of the file is left to deal after this.
    pub last: bool,
}

impl Range {
    /// Whether this range is the whole file.
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && self.len == self.size
    }
}

/// A part of a record that was built for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// The file.
    pub file: u64,
    /// The offset of the range, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub len: u64,
    /// Its checksum.
    pub sum: BlockSum,
    /// A hole: it has no payload.
    pub hole: bool,
    /// The part is marked as the whole file, so that its checksum is the file's.
    pub whole: bool,
}

//! Ranges of files: to be read, and built into records. The sender deals them out, to its own streams and to movers.

use model::checksum::BlockSum;
use model::entry::Timestamp;
use model::name::RelPath;

/// A range of a file to read, and all that is needed to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The file's id.
    pub file: u64,
    /// Which source it belongs to.
    pub source: u32,
    /// Its path below that source's root.
    pub path: RelPath,
    /// The size it had when it was offered; [`UNKNOWN_SIZE`](crate::frame::UNKNOWN_SIZE) for a pipe.
    pub size: u64,
    /// The modification time it had when it was offered.
    pub mtime: Timestamp,
    /// Its last change of any kind when it was offered, where that is known. It never travels.
    pub changed: Option<Timestamp>,
    /// Where to start.
    pub offset: u64,
    /// How much; for a pipe, at most.
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

/// A record that was built for a stream: what it covers, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// The file.
    pub file: u64,
    /// Where the range starts.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
    /// Its checksum.
    pub sum: BlockSum,
    /// A hole: nothing of it was carried.
    pub hole: bool,
    /// The part is marked as the whole file, so that its checksum is the file's.
    pub whole: bool,
}

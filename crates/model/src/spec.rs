//! What a user asks of a transfer, apart from how it is said on a command line or the wire.

use crate::checksum::Algorithm;

/// When an existing target counts as already there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Never: always send.
    None,
    /// A target of that name is enough.
    Exists,
    /// Equal size.
    Size,
    /// Equal size and modification time.
    #[default]
    Mtime,
    /// Equal size and digest: reads both sides in full.
    Digest,
}

impl Sync {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Sync::None => "none",
            Sync::Exists => "exists",
            Sync::Size => "size",
            Sync::Mtime => "mtime",
            Sync::Digest => "digest",
        }
    }

    /// All levels, weakest first.
    pub const ALL: [Sync; 5] = [Sync::None, Sync::Exists, Sync::Size, Sync::Mtime, Sync::Digest];
}

/// How a job treats what it meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directories may be copied.
    pub recursive: bool,
    /// The target is a directory to copy into, even with a single source (it ended in `/`, or there are several).
    pub into: bool,
    /// When an existing target counts as already there.
    pub sync: Sync,
    /// An existing target that differs is an error.
    pub no_overwrite: bool,
    /// Data reaches stable storage before a file counts as done.
    pub durable: bool,
    /// Whole-file digests beside the block digests; empty for none at all (memory ends only).
    pub checksums: Vec<Algorithm>,
}

//! The options of a transfer, independent of their forms on a command line or the wire.

use std::time::Duration;

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

/// How many entries that the source lacks may be removed at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delete {
    /// None.
    #[default]
    No,
    /// All of them, unless they are more than half of a target of more than [`Delete::CAREFUL_FROM`] entries: then none.
    Careful,
    /// All of them, unless they are more than this number: then none.
    AtMost(u64),
    /// All of them.
    All,
}

impl Delete {
    /// A target of at most this many entries may be replaced as a whole.
    pub const CAREFUL_FROM: u64 = 100;

    /// The rule that the options `delete`, `max_delete` and `force` of a command line or an order stand for.
    pub fn from_options(delete: bool, max: Option<u64>, force: bool) -> Delete {
        match (delete, force, max) {
            (false, ..) => Delete::No,
            (true, true, _) => Delete::All,
            (true, false, Some(max)) => Delete::AtMost(max),
            (true, false, None) => Delete::Careful,
        }
    }

    /// Whether any entry may be removed.
    pub fn is_allowed(self) -> bool {
        self != Delete::No
    }

    /// The most entries that may be removed from a target that has `present`.
    pub fn max_removals(self, present: u64) -> u64 {
        match self {
            Delete::No => 0,
            Delete::Careful if present > Delete::CAREFUL_FROM => present / 2,
            Delete::AtMost(max) => max,
            Delete::Careful | Delete::All => u64::MAX,
        }
    }
}

/// Options of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directories may be copied.
    pub recursive: bool,
    /// A symbolic link at the source is copied as what it leads to.
    pub copy_links: bool,
    /// The target is a directory to copy into, even with a single source (it ended in `/`, or there are several).
    pub into: bool,
    /// When an existing target counts as already there.
    pub sync: Sync,
    /// An existing target that differs is an error.
    pub no_overwrite: bool,
    /// Data reaches stable storage before a file counts as done.
    pub durable: bool,
    /// Whole-file digests in addition to the block digests; empty for none at all (only if one end is `null:` or `zero:`).
    pub checksums: Vec<Algorithm>,
    /// Entries that the source lacks are removed at the target, when everything else is done.
    pub delete: Delete,
    /// Nothing is changed; the changes that would be made are reported.
    pub dry_run: bool,
    /// Owners are kept.
    pub owner: bool,
    /// Extended attributes and ACLs are kept.
    pub xattrs: bool,
    /// How long a full target is waited for.
    pub wait_space: Duration,
    /// The rules on which entries take part, in order: the first that matches decides; entries that match none take part.
    pub filters: Vec<Filter>,
}

/// A rule on which entries take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Whether matching entries take part, or are left out.
    pub include: bool,
    /// The pattern, as typed.
    pub pattern: String,
}

/// A step that a transfer in dry run would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send a file that the target lacks, or that differs.
    Copy,
    /// Make a directory.
    MakeDir,
    /// Make a symbolic or hard link.
    Link,
    /// Remove an entry that the source lacks.
    Delete,
}

impl Step {
    /// The word that people and scripts see.
    pub fn word(self) -> &'static str {
        match self {
            Step::Copy => "copy",
            Step::MakeDir => "mkdir",
            Step::Link => "link",
            Step::Delete => "delete",
        }
    }

    /// All steps, in the order of their numbers on the wire.
    pub const ALL: [Step; 4] = [Step::Copy, Step::MakeDir, Step::Link, Step::Delete];
}

/// The settings that can be changed while a transfer runs. Both ends hold the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSettings {
    /// The limit on the payload rate of all streams together, bit/s; 0 for none.
    pub limit_bit_s: u64,
    /// How many streams; 0 leaves it to the client.
    pub streams: u32,
    /// Nothing is sent until the transfer is resumed.
    pub paused: bool,
}

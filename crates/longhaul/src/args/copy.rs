//! The arguments of `longhaul cp`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use model::units::BitRate;
use model::{Algorithm, spec};

use crate::copy_defaults::{Checksums, CopyDefaults, checksums, limit};

/// Copy files and trees to, from or within nodes.
///
/// `cp -r S T` makes T the copy of S (S/a becomes T/a), whether T exists or not, so the same command run again goes on
/// where it stopped and never nests. A T that ends in a slash, or several sources, copy into T. Every block is
/// verified; a file appears under its name only when it is complete. Symbolic links are copied as they are.
///
/// Between two nodes the source's node carries the job by itself: the client may leave, and come back with
/// `longhaul job show ID --node`. HOST:PATH starts the other end over ssh.
///
/// From zero: to null: it tests the path, and says once a second how fast that is; zero: without a size goes on until it
/// is stopped. With a file at one end it tests that end's disk as well.
#[derive(Debug, Clone, ClapArgs)]
pub struct Cp {
    /// What to copy, then where to
    #[arg(required = true, num_args = 2.., value_name = "LOCATOR")]
    pub locators: Vec<OsString>,
    /// Copy directories with all that is in them
    #[arg(long, short)]
    pub recursive: bool,
    /// The whole of a tree: --recursive and --xattrs, and --owner where this runs as root
    #[arg(long, short)]
    pub archive: bool,
    /// Copy what symbolic links lead to, instead of the links; one that leads nowhere is named, and is no copy
    #[arg(long, short = 'L')]
    pub copy_links: bool,
    /// A line for every file, with what became of it; not between two nodes
    #[arg(long, short)]
    pub verbose: bool,
    /// The same as --verbose, by the name that scripts know
    #[arg(long, value_name = "WHAT", value_parser = ["files"], hide = true)]
    pub report: Option<String>,
    /// When an existing target counts as already there
    #[arg(long, value_name = "LEVEL", default_value = "mtime")]
    pub sync: SyncLevel,
    /// An existing target that differs is an error
    #[arg(long)]
    pub no_overwrite: bool,
    /// Remove at the target what the source lacks (with -r), when all the rest is there; look first with --dry-run
    ///
    /// What --exclude leaves out stays. Nothing is removed where the source is empty or could not be read in full, nor where it
    /// would be more than half of a target of more than 100 entries.
    #[arg(long, conflicts_with_all = ["files_from", "no_overwrite"])]
    pub delete: bool,
    /// With --delete: remove nothing where it would be more than N entries, instead of more than half of them
    #[arg(long, value_name = "N", requires = "delete", conflicts_with = "force")]
    pub max_delete: Option<u64>,
    /// With --delete: remove it, however many entries that are
    #[arg(long, requires = "delete")]
    pub force: bool,
    /// Change nothing; list what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Leave out what fits this pattern; with --include, the first that fits in the order given decides
    ///
    /// A pattern with a slash inside is anchored at the source; one without fits names at any depth; a slash at the end
    /// fits directories only; * stops at slashes, ** does not.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Let what fits this pattern take part, whatever later patterns say
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Copy what this file lists: one path below the source per line, or PATH, a tab, and its path below the target
    ///
    /// Behind another tab ALGORITHM:VALUE may follow: what arrives must have it.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
    /// A further source of the same bytes; ranges come from all of them. May be given again
    #[arg(long, value_name = "LOCATOR")]
    pub mirror: Vec<OsString>,
    /// Keep owners and groups, by name where the target knows the name (needs root there)
    #[arg(long)]
    pub owner: bool,
    /// Keep extended attributes (user.*) and ACLs
    #[arg(long)]
    pub xattrs: bool,
    /// Flush every file to stable storage before it counts as done
    #[arg(long)]
    pub durable: bool,
    /// Whole-file digests to verify at both ends, separated by commas; `none` only for null: and zero:
    ///
    /// crc32c is always made block by block and costs next to nothing, as does adler32. md5 (0.7 GB/s per file),
    /// sha256 (2 GB/s) and blake3 (10 GB/s) must see a file in order, which keeps each file on one stream.
    #[arg(long, value_name = "LIST", value_parser = checksums)]
    pub checksum: Option<Checksums>,
    /// TCP streams
    ///
    /// Default: as few as reach what the path gives, found out while the job runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub streams: Option<u32>,
    /// The most to send, all streams together: 200Mbit/s, 25MB/s, 2Gbit/s; `none` for no limit
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub limit: Option<BitRate>,
    /// Congestion control of the data streams, for example bbr or cubic
    ///
    /// Default: chosen by round-trip time and loss among those that the sending host allows.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Payload in clear, where the node allows it; handshake, keys and metadata stay encrypted
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", hide_possible_values = true)]
    pub plain: Option<bool>,
    /// Keep trying this long without progress once the node has been reached
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = model::duration::parse)]
    pub retry_for: Duration,
    /// How long to wait for space at a full target before giving up
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = model::duration::parse)]
    pub wait_space: Duration,
    /// The command that starts the other end of HOST:PATH; the host and its command line are added
    #[arg(long, value_name = "CMD", default_value = "ssh")]
    pub ssh: String,
    /// Write the receipt (JSON) to this file as well; - for standard output, where nothing else is then written
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
    /// Write the job's course to this file as CSV, four rows a second for each stream
    ///
    /// Where the threads' time went per record, what the kernel says about the stream (TCP_INFO), and how full queues are.
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// --include and --exclude in the order in which they were given.
    #[arg(skip)]
    pub filters: Vec<spec::Filter>,
}

impl Cp {
    /// The options with the defaults of the user's configuration for those that were not typed. Options that stand for others, like
    /// `--archive`, are replaced by these.
    pub fn with_defaults(&self, defaults: &CopyDefaults) -> Cp {
        let is_root = rustix::process::geteuid().is_root();
        Cp {
            recursive: self.recursive || self.archive,
            verbose: self.verbose || self.report.is_some(),
            xattrs: self.xattrs || self.archive,
            owner: self.owner || self.archive && is_root,
            limit: self.limit.or(defaults.limit),
            plain: self.plain.or(Some(defaults.plain)),
            checksum: self.checksum.clone().or_else(|| defaults.checksum.clone()),
            ..self.clone()
        }
    }

    /// Whether payload may be sent unencrypted.
    pub fn is_plain(&self) -> bool {
        self.plain.unwrap_or(false)
    }

    /// Digests of whole files; empty for none.
    pub fn checksums(&self) -> &[Algorithm] {
        self.checksum.as_ref().map_or(&[Algorithm::Crc32c], |list| &list.0)
    }
}

/// The patterns of `--include` and `--exclude` in the order in which they were typed. Derived arguments keep the order within each
/// option only.
pub(super) fn ordered_filters(matches: &clap::ArgMatches) -> Vec<spec::Filter> {
    let of = |name: &str, include| {
        let patterns = matches.get_many::<String>(name).into_iter().flatten().cloned();
        let at = matches.indices_of(name).into_iter().flatten();
        at.zip(patterns).map(|(at, pattern)| (at, spec::Filter { include, pattern })).collect::<Vec<_>>()
    };
    let mut all = of("include", true);
    all.extend(of("exclude", false));
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, filter)| filter).collect()
}

/// When an existing target counts as already there.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SyncLevel {
    /// Never: always send
    None,
    /// A file of that name is enough
    Exists,
    /// Equal size
    Size,
    /// Equal size and modification time
    Mtime,
    /// Equal size and digest (reads both in full)
    Digest,
}

impl From<SyncLevel> for spec::Sync {
    fn from(level: SyncLevel) -> spec::Sync {
        match level {
            SyncLevel::None => spec::Sync::None,
            SyncLevel::Exists => spec::Sync::Exists,
            SyncLevel::Size => spec::Sync::Size,
            SyncLevel::Mtime => spec::Sync::Mtime,
            SyncLevel::Digest => spec::Sync::Digest,
        }
    }
}

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
/// `cp -r S T` makes T a copy of S (S/a becomes T/a), whether T exists or not. So the same command, run again, continues where
/// it stopped and never makes T/S. If T ends in a slash, or if there are several sources, cp copies into T. Every block is
/// verified. A file appears under its name only when it is complete. Symbolic links are copied as links.
///
/// Between two nodes, the node of the source runs the job by itself. The client may disconnect, and see the job later with
/// `longhaul job show ID --node`. HOST:PATH starts the other end over ssh.
///
/// A copy from zero: to null: tests the path, and prints the rate once a second. zero: without a size continues until it is
/// stopped. With a file at one end, the copy tests the disk of that end as well.
#[derive(Debug, Clone, ClapArgs)]
pub struct Cp {
    /// The sources, then the target
    #[arg(required = true, num_args = 2.., value_name = "LOCATOR")]
    pub locators: Vec<OsString>,
    /// Copy directories with everything in them
    #[arg(long, short)]
    pub recursive: bool,
    /// Copy a tree with its metadata: --recursive and --xattrs, and --owner if this command runs as root
    #[arg(long, short)]
    pub archive: bool,
    /// Copy the files that symbolic links point to, instead of the links; a dangling link is reported and not copied
    #[arg(long, short = 'L')]
    pub copy_links: bool,
    /// Print a line for every file with its outcome; not between two nodes
    #[arg(long, short)]
    pub verbose: bool,
    /// The same as --verbose, for scripts
    #[arg(long, value_name = "WHAT", value_parser = ["files"], hide = true)]
    pub report: Option<String>,
    /// When to skip a file that exists at the target
    #[arg(long, value_name = "LEVEL", default_value = "mtime")]
    pub sync: SyncLevel,
    /// Fail if a file exists at the target and differs
    #[arg(long)]
    pub no_overwrite: bool,
    /// After copying, remove files from the target that the source does not have (with -r); try with --dry-run first
    ///
    /// Entries that --exclude leaves out stay. Nothing is removed unless everything else has been copied; nor if the source is empty
    /// or could not be read in full; nor if more than half of a target of more than 100 entries would go.
    #[arg(long, conflicts_with_all = ["files_from", "no_overwrite"])]
    pub delete: bool,
    /// With --delete: remove nothing if more than N entries would go (default: more than half of them)
    #[arg(long, value_name = "N", requires = "delete", conflicts_with = "force")]
    pub max_delete: Option<u64>,
    /// With --delete: remove any number of entries
    #[arg(long, requires = "delete")]
    pub force: bool,
    /// Change nothing; list what cp would do
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Leave out files that match this pattern; the first matching --include or --exclude decides
    ///
    /// A pattern with a slash inside is relative to the source. A pattern without a slash matches names at any depth. A pattern
    /// that ends in a slash matches directories only. * does not match slashes; ** does.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Copy files that match this pattern, even if a later --exclude matches them
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Copy the files in this list, one per line: a path below the source; or that path, a tab, and a path below the target
    ///
    /// Each line may end in a further tab and ALGORITHM:VALUE, the digest that the file must have at the target.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
    /// Read from this source of the same bytes as well; ranges come from all sources. Can be repeated
    #[arg(long, value_name = "LOCATOR")]
    pub mirror: Vec<OsString>,
    /// The source is a Metalink (RFC 5854): copy the files that it describes below the target, from all places that it names
    ///
    /// Each file must have the digest that the Metalink states. Its places may be on nodes and servers, never on this host.
    #[arg(long, conflicts_with_all = ["files_from", "mirror", "delete"])]
    pub metalink: bool,
    /// Keep owners and groups, by name if the target knows the name (needs root at the target)
    #[arg(long)]
    pub owner: bool,
    /// Keep extended attributes (user.*) and ACLs
    #[arg(long)]
    pub xattrs: bool,
    /// Flush every file to stable storage before it counts as copied
    #[arg(long)]
    pub durable: bool,
    /// Verify these digests of whole files at both ends, separated by commas (default: crc32c); `none` only for null: and zero:
    ///
    /// crc32c is always computed, block by block; crc32c and adler32 cost next to nothing. md5 (0.7 GB/s per file), sha256 (2 GB/s)
    /// and blake3 (10 GB/s) must read a file in order, so each file is sent on one stream.
    #[arg(long, value_name = "LIST", value_parser = checksums)]
    pub checksum: Option<Checksums>,
    /// Use this number of TCP streams
    ///
    /// Default: the smallest number that reaches the capacity of the path; cp finds it while the job runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub streams: Option<u32>,
    /// Limit the rate of all streams together: 200Mbit/s, 25MB/s, 2Gbit/s; `none` for no limit
    #[arg(long, value_name = "RATE", value_parser = limit)]
    pub limit: Option<BitRate>,
    /// Use this congestion control for the data streams, for example bbr or cubic
    ///
    /// Default: chosen by round-trip time and loss, among those that the sending host allows.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Send payload unencrypted, if the node allows it; handshake, keys and metadata stay encrypted
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", hide_possible_values = true)]
    pub plain: Option<bool>,
    /// After the first contact, retry until there has been no progress for this time
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = model::duration::parse)]
    pub retry_for: Duration,
    /// Wait this long for space at a full target before giving up
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = model::duration::parse)]
    pub wait_space: Duration,
    /// The command that starts the other end of HOST:PATH; cp appends the host and the command to run there
    #[arg(long, value_name = "CMD", default_value = "ssh")]
    pub ssh: String,
    /// Write the receipt (JSON) to this file as well; - for stdout, which then has nothing else
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
    /// Write a time series of the job to this file: CSV, four rows a second for each stream
    ///
    /// The columns are the time that threads spent on each record, the kernel's numbers for the stream (TCP_INFO), and how full
    /// the queues are.
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// --include and --exclude in the order in which they were given.
    #[arg(skip)]
    pub filters: Vec<spec::Filter>,
}

impl Cp {
    /// The options, with the defaults of the user's configuration for options that were not typed. An option that stands for others,
    /// like `--archive`, is replaced by these.
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
    let filters_of = |name: &str, include| {
        let patterns = matches.get_many::<String>(name).into_iter().flatten().cloned();
        let indices = matches.indices_of(name).into_iter().flatten();
        indices.zip(patterns).map(|(index, pattern)| (index, spec::Filter { include, pattern })).collect::<Vec<_>>()
    };
    let mut all = filters_of("include", true);
    all.extend(filters_of("exclude", false));
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, filter)| filter).collect()
}

/// When a file that exists at the target is skipped.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SyncLevel {
    /// Never skip: always send
    None,
    /// Skip a file if one of that name exists
    Exists,
    /// Skip a file of equal size
    Size,
    /// Skip a file of equal size and modification time
    Mtime,
    /// Skip a file of equal size and digest (reads both in full)
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

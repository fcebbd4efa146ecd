//! What can be typed. Validation only; what it means is [`crate::settings`]'s and the commands'.
//!
//! The texts here are the help, the manual page and the completions.

mod bound;
mod help;
mod lab;
mod probe;
mod report;
mod serve;
mod support;
mod tune;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use model::units::BitRate;
use model::{Algorithm, spec};

pub use bound::{Bound, Measure};
pub use lab::{Lab, LabAction, LabDirection, LabFile};
pub use probe::{
    Probe, ProbeAll, ProbeCheck, ProbeDisk, ProbeDiskTest, ProbeDiskWay, ProbeLatency, ProbeLimits, ProbePath,
    ProbeScan, ProbeTcp, ProbeTest, ProbeUdp,
};
pub use report::Report;
pub use serve::{Anonymous, Serve};
pub use support::Support;
pub use tune::{
    RATE_MAX, RTT_MAX, Tune, TuneAction, TuneApply, TuneAudit, TuneCalc, TuneCompare, TunePlan, TunePurpose, TuneRole,
    TuneTarget, TuneUndo, TuneVerify, TuneWatch,
};

/// Moves science data between sites: one job fills the path, verified and encrypted.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, max_term_width = 100, after_help = help::AFTER)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct Common {
    /// State directory: identity, grants, pinned nodes, unfinished jobs
    ///
    /// Default: LONGHAUL_STATE, else /var/lib/longhaul for root, else $XDG_STATE_HOME/longhaul.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Common options")]
    pub state: Option<PathBuf>,
    /// Read access keys from this file, one per line, in addition to LONGHAUL_KEY
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub key_file: Option<PathBuf>,
    /// Trust nodes that the authorities in this PEM file vouch for, instead of pinned identities
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub cacert: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct Output {
    /// One JSON object per line on stdout; the last is the receipt
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// Errors only
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy files and trees to, from, between or within nodes
    Cp(Cp),
    /// List, show, change and end running jobs
    Job(Job),
    /// Measure a path or a host, and say what limits it
    Probe(Probe),
    /// Audit a data transfer node: explain its settings, change them, take that back
    Tune(Tune),
    /// Show jobs and tests as a page: rates, limits, streams, verdict
    Report(Report),
    /// Run a node: offer directories to others
    Serve(Serve),
    /// Hand out, list and revoke access keys
    Grant(Grant),
    /// A wide-area network on this machine, to try things on
    Lab(Lab),
    /// List a directory, or a node's exports
    Ls(Ls),
    /// Show facts about one file, link or directory
    Stat(At),
    /// Make a directory and its parents
    Mkdir(At),
    /// Remove a file, link or directory
    Rm(Rm),
    /// Rename within one export, or here
    Mv(Mv),
    /// Print digests, computed where the files are
    Digest(DigestArgs),
    /// Print the manual page (roff), or write all of them into a directory
    #[command(hide = true)]
    Man(Man),
    /// Collect what somebody needs who is to help with this host, and no secrets
    Support(Support),
    /// Print completions for a shell
    Completions(Completions),
    /// The other end of a copy over ssh
    #[command(hide = true)]
    FarEnd,
}

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
#[derive(Debug, ClapArgs)]
pub struct Cp {
    /// What to copy, then where to
    #[arg(required = true, num_args = 2.., value_name = "LOCATOR")]
    pub locators: Vec<OsString>,
    /// Copy directories with all that is in them
    #[arg(long, short)]
    pub recursive: bool,
    /// When an existing target counts as already there
    #[arg(long, value_name = "LEVEL", default_value = "mtime")]
    pub sync: SyncLevel,
    /// An existing target that differs is an error
    #[arg(long)]
    pub no_overwrite: bool,
    /// Remove at the target what the source lacks (with -r); look first with --dry-run
    ///
    /// What --exclude leaves out stays. Nothing is removed from a directory that could not be read in full.
    #[arg(long, requires = "recursive", conflicts_with_all = ["files_from", "no_overwrite"])]
    pub delete: bool,
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
    #[arg(long, value_name = "LIST", default_value = "crc32c", value_parser = checksums)]
    pub checksum: Checksums,
    /// TCP streams
    ///
    /// Default: as few as reach what the path gives, found out while the job runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub streams: Option<u32>,
    /// The most to send, all streams together: 200Mbit/s, 25MB/s, 2Gbit/s
    #[arg(long, value_name = "RATE")]
    pub limit: Option<BitRate>,
    /// Congestion control of the data streams, for example bbr or cubic
    ///
    /// Default: chosen by round-trip time and loss among those that the sending host allows.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Payload in clear, where the node allows it; handshake, keys and metadata stay encrypted
    #[arg(long)]
    pub plain: bool,
    /// Keep trying this long without progress once the node has been reached
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = model::duration::parse)]
    pub retry_for: Duration,
    /// How long to wait for space at a full target before giving up
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = model::duration::parse)]
    pub wait_space: Duration,
    /// The command that starts the other end of HOST:PATH; the host and its command line are added
    #[arg(long, value_name = "CMD", default_value = "ssh")]
    pub ssh: String,
    /// Write the receipt (JSON) to this file as well
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

/// Parses the command line.
pub fn parse() -> Result<Args, clap::Error> {
    let matches = <Args as clap::CommandFactory>::command().try_get_matches()?;
    let mut args = <Args as clap::FromArgMatches>::from_arg_matches(&matches)?;
    if let (Command::Cp(cp), Some(matches)) = (&mut args.command, matches.subcommand_matches("cp")) {
        cp.filters = ordered_filters(matches);
    }
    Ok(args)
}

/// The order between two options is all that derived arguments forget.
fn ordered_filters(matches: &clap::ArgMatches) -> Vec<spec::Filter> {
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

/// List, show, change and end running jobs.
///
/// Without --node: the jobs of this user on this host (copies and nodes with the same state directory). With --node:
/// those of that node which the access key began.
#[derive(Debug, ClapArgs)]
pub struct Job {
    #[command(subcommand)]
    pub action: JobAction,
    /// Ask this node instead of this host
    #[arg(long, global = true, value_name = "lh://HOST")]
    pub node: Option<OsString>,
}

#[derive(Debug, Subcommand)]
pub enum JobAction {
    /// List jobs
    List,
    /// Show one job, and its receipt once it has ended
    Show(JobId),
    /// Change a running job
    Set {
        #[command(flatten)]
        job: JobId,
        /// The most to send: 200Mbit/s, 25MB/s; `none` lifts the limit
        #[arg(long, value_name = "RATE", value_parser = limit)]
        limit: Option<BitRate>,
        /// TCP streams
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
        streams: Option<u32>,
    },
    /// Send nothing until `resume`
    Pause(JobId),
    /// Go on
    Resume(JobId),
    /// End a job; what arrived is not sent again by the same command
    Cancel(JobId),
}

#[derive(Debug, ClapArgs)]
pub struct JobId {
    /// The job's id, or the end or start of it that no other has
    pub id: String,
}

fn limit(text: &str) -> Result<BitRate, String> {
    if text == "none" { Ok(BitRate(0)) } else { text.parse().map_err(|e: model::units::UnitError| e.to_string()) }
}

/// The checksums of a job; empty for none.
#[derive(Debug, Clone)]
pub struct Checksums(pub Vec<Algorithm>);

fn checksums(text: &str) -> Result<Checksums, String> {
    if text == "none" {
        return Ok(Checksums(Vec::new()));
    }
    let mut list: Vec<Algorithm> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    // Blocks are always guarded by CRC32C, so its digest of the whole comes for nothing.
    if !list.contains(&Algorithm::Crc32c) {
        list.insert(0, Algorithm::Crc32c);
    }
    list.dedup();
    Ok(Checksums(list))
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

/// Hand out, list and revoke access keys.
///
/// Edits the state directory; no node needs to run, and running nodes take notice at the next login. Without a
/// subcommand it makes a key: the last line on stdout is the key alone. On stderr stands a link for browsers and other HTTP
/// clients, https://HOST:PORT/EXPORT/PATH?authz=KEY; whoever has the link has the key.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Grant {
    #[command(subcommand)]
    pub action: Option<GrantAction>,
    #[command(flatten)]
    pub new: NewGrant,
}

#[derive(Debug, Subcommand)]
pub enum GrantAction {
    /// List grants
    List,
    /// Revoke a grant; running transfers finish
    Revoke {
        /// Its id, as listed
        id: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct NewGrant {
    /// The export that the key opens
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
    /// Confine the key to this path below the export
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub path: OsString,
    /// Allow to read, create and modify (default: read)
    #[arg(long)]
    pub write: bool,
    /// Allow to create only: not to read, not to change what is there
    #[arg(long, conflicts_with = "write")]
    pub create: bool,
    /// Let the key end after this time, for example 7d
    #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
    pub lasting: Option<Duration>,
    /// What to call it in lists and logs
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub name: String,
    /// How clients call the node, for the link (default: this host's name, and the port of the node that started last)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub at: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct At {
    /// The file or directory
    pub locator: OsString,
}

#[derive(Debug, ClapArgs)]
pub struct Ls {
    /// The directory, or lh://HOST/ for the exports
    pub locator: OsString,
    /// Kind, mode, size and time of every entry
    #[arg(long, short)]
    pub long: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Rm {
    /// The file or directory
    pub locator: OsString,
    /// Remove a directory with all that is in it
    #[arg(long, short)]
    pub recursive: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Mv {
    /// What to rename
    pub from: OsString,
    /// The new name, or a directory to move it into
    pub to: OsString,
}

#[derive(Debug, ClapArgs)]
pub struct DigestArgs {
    /// A file, or a directory for every file below it
    pub locator: OsString,
    /// Which digests, separated by commas: crc32c, adler32, md5, sha256, blake3
    #[arg(long, value_name = "LIST", default_value = "crc32c", value_delimiter = ',')]
    pub checksum: Vec<Algorithm>,
}

#[derive(Debug, ClapArgs)]
pub struct Man {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

//! The command line: commands, options and their validation. [`crate::settings`] and the commands decide what they mean.
//!
//! The doc comments of the types here are the texts of the help, the manual pages and the completions.

mod bound;
mod copy;
mod data;
mod demo;
mod doctor;
mod exercise;
mod help;
mod hub;
mod lab;
mod plan;
mod probe;
mod queue;
mod report;
mod serve;
mod support;
mod tune;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};
use model::Algorithm;
use model::units::BitRate;

use crate::copy_defaults::limit;

pub use bound::{Bound, Measure};
pub use copy::Cp;
pub use data::{
    Data, DataAction, DataAuditAction, DataFind, DataGet, DataImport, DataKindWord, DataPut, DataRuleAction,
    DataRuleAdd, DataSubscriptionAction, DataWebhookAction, GroupingWord,
};
pub use demo::Demo;
pub use doctor::Doctor;
pub use exercise::{
    ExerciseAction, ExerciseAgent, ExerciseArgs, ExerciseBoardArgs, ExerciseList, ExerciseReport, ExerciseRun,
    ExerciseScorecard, ExerciseStopArgs,
};
pub use hub::{
    CommunityFacts, EndpointFacts, EndpointKindWord, Hub, HubAction, HubGrant, HubGrantAction, HubOption, HubServe,
    HubStop, LinkFacts, Named, NamedAction, RoleWord, SiteFacts, StorageFacts,
};
pub use lab::{Lab, LabAction, LabDirection, LabFile};
pub use plan::{
    PlanAction, PlanArgs, PlanCompare, PlanCost, PlanDemand, PlanForwarding, PlanLinks, PlanOverlay, PlanPredict,
    PlanReport, PlanScenario, PlanScenarios, PlanSimulate,
};
pub use probe::{
    Probe, ProbeAll, ProbeCheck, ProbeDisk, ProbeDiskMode, ProbeDiskTest, ProbeLatency, ProbeLimits, ProbePath,
    ProbeScan, ProbeTcp, ProbeTest, ProbeUdp,
};
pub use queue::{EveryWord, Queue, QueueAction, Share, ShareAction, Submit};
pub use report::Report;
pub use serve::{Anonymous, Serve};
pub use support::{Support, SupportAction, SupportDump};
pub use tune::{
    RATE_MAX, RTT_MAX, Tune, TuneAction, TuneApply, TuneAudit, TuneCalc, TuneCompare, TunePlan, TunePurpose, TuneRole,
    TuneTarget, TuneUndo, TuneVerify, TuneWatch,
};
pub use watch::{Watch, WatchAction, WatchServe};

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
    /// Use this state directory: identity, grants, pinned nodes, unfinished jobs
    ///
    /// Default: the directory that LONGHAUL_STATE names. If it is not set: /var/lib/longhaul for root,
    /// $XDG_STATE_HOME/longhaul for other users.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Common options")]
    pub state: Option<PathBuf>,
    /// Read access keys from this file, one per line, in addition to LONGHAUL_KEY
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub key_file: Option<PathBuf>,
    /// Trust nodes whose certificate is from an authority in this PEM file, instead of pinned identities
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub cacert: Option<PathBuf>,
    /// Use only ciphers that FIPS 140-3 approves: AES-GCM for data streams and TLS, with keys agreed over P-256 or P-384
    #[arg(long, global = true, help_heading = "Common options")]
    pub fips: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct Output {
    /// Print one JSON object per line on stdout; the last is the receipt
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// Print errors only
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy files and trees to, from, between or within nodes
    #[command(visible_alias = "copy")]
    Cp(Cp),
    /// Copy a directory with everything in it: the same as `cp --recursive`
    Sync(Cp),
    /// List, show, change and end running jobs
    Job(Job),
    /// Measure a path or a host, and report what limits it
    Probe(Probe),
    /// Audit a data transfer node: explain its settings, change them, undo the changes
    Tune(Tune),
    /// Write an HTML page about jobs and tests: rates, limits, streams, verdict
    Report(Report),
    /// Plan a network: its load, its costs, the effect of failures, and how long work takes
    Plan(PlanArgs),
    /// Run a node: offer directories to other hosts
    Serve(Serve),
    /// Create, list and revoke access keys
    Grant(Grant),
    /// Run a hub, describe a collaboration, create keys for it
    Hub(Hub),
    /// Watch paths: run regular tests, keep an archive, raise alarms with their causes
    Watch(Watch),
    /// Exercise a collaboration: load from one file, score cards, data challenges
    Exercise(ExerciseArgs),
    /// Submit a job to a hub
    Submit(Submit),
    /// Show and change the queue of a hub: which jobs wait, why, and which are moving
    Queue(Queue),
    /// Create, list and end links to files and folders, for people without an account
    Share(Share),
    /// Manage data of a collaboration by name: store it, fetch it, keep as many copies as wanted
    Data(Data),
    /// Emulate a wide-area network on this machine, for experiments
    Lab(Lab),
    /// Run a whole collaboration on this machine, as a demonstration: nodes, hub, watch and portal
    Demo(Demo),
    /// List a directory, or the exports of a node
    Ls(Ls),
    /// Show facts about one file, link or directory
    Stat(LocatorArg),
    /// Make a directory and its parents
    Mkdir(LocatorArg),
    /// Remove a file, link or directory
    Rm(Rm),
    /// Rename a file or directory, within one export or on this host
    Mv(Mv),
    /// Print the digests of files; the host that has the files computes them
    Digest(DigestArgs),
    /// Print the manual page (roff), or write all manual pages into a directory
    #[command(hide = true)]
    Man(Man),
    /// Check the node of this host, and say what to do about each problem
    Doctor(Doctor),
    /// Collect what a support desk needs to know about this host, without secrets
    Support(Support),
    /// Print the completion script for a shell
    Completions(Completions),
    /// Run the other end of a copy over ssh
    #[command(hide = true)]
    FarEnd,
    /// Print the nodes that have a name in the user's configuration, for completions
    #[command(hide = true)]
    Names,
}

/// Parses the command line.
///
/// # Errors
/// The command line is wrong, or asks for the help or the version, which are printed like an error.
pub fn parse() -> Result<Args, clap::Error> {
    let matches = <Args as clap::CommandFactory>::command().try_get_matches()?;
    let mut args = <Args as clap::FromArgMatches>::from_arg_matches(&matches)?;
    if let (Command::Cp(cp) | Command::Sync(cp), Some((name, matches))) = (&mut args.command, matches.subcommand()) {
        cp.filters = copy::ordered_filters(matches);
        cp.recursive |= name == "sync";
    }
    Ok(args)
}

/// List, show, change and end running jobs.
///
/// Without --node: the jobs of this user on this host (copies and nodes with the same state directory). With --node: the jobs
/// of that node that were started with your access key.
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
    /// Show one job; with --node also the outcome of a job that has ended
    Show(JobId),
    /// Change a running job
    Set {
        #[command(flatten)]
        job: JobId,
        /// Limit the rate: 200Mbit/s, 25MB/s; `none` removes the limit
        #[arg(long, value_name = "RATE", value_parser = limit)]
        limit: Option<BitRate>,
        /// Use this number of TCP streams
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
        streams: Option<u32>,
    },
    /// Pause a job: it sends nothing until `resume`
    Pause(JobId),
    /// Continue a paused job
    Resume(JobId),
    /// Cancel a job; the same command later continues without sending again what has arrived
    Cancel(JobId),
}

#[derive(Debug, ClapArgs)]
pub struct JobId {
    /// The job's id, or enough of its start or end to be unique
    pub id: String,
}

/// Create, list and revoke access keys.
///
/// Without a subcommand, the command creates a key. The last line on stdout is the key alone. On stderr it prints a link for
/// browsers and other HTTP clients: https://HOST:PORT/EXPORT/PATH?authz=KEY. The link contains the key: share it with care.
///
/// The command edits the state directory. No node needs to run; a running node applies the change at the next login.
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
    /// Revoke a grant; running transfers continue to their end
    Revoke {
        /// The id of the grant, as `list` shows it
        id: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct NewGrant {
    /// The export that the key gives access to
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
    /// Restrict the key to this path below the export (default: the whole export)
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub path: OsString,
    /// Allow reading, creating and changing files (default: reading only)
    #[arg(long)]
    pub write: bool,
    /// Allow creating files only: no reading, no changing of existing files
    #[arg(long, conflicts_with = "write")]
    pub create: bool,
    /// Let the key expire after this time, for example 7d (default: never)
    #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
    pub valid_for: Option<Duration>,
    /// The name of the grant in lists and logs
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub name: String,
    /// The node's address in the link (default: this host's name, and the port of the node that started last)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub at: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct LocatorArg {
    /// The file or directory
    pub locator: OsString,
}

#[derive(Debug, ClapArgs)]
#[command(disable_help_flag = true)]
pub struct Ls {
    /// The directory, or lh://HOST/ to list the exports of a node
    pub locator: OsString,
    /// Show kind, mode, size and time of every entry
    #[arg(long, short)]
    pub long: bool,
    /// With --long: show sizes with units (KiB, MiB)
    #[arg(long, short = 'h')]
    pub human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}

#[derive(Debug, ClapArgs)]
pub struct Rm {
    /// The file or directory
    pub locator: OsString,
    /// Remove a directory with everything in it
    #[arg(long, short)]
    pub recursive: bool,
    /// Do not fail if the file or directory does not exist
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Mv {
    /// The file or directory to rename
    pub from: OsString,
    /// The new name, or an existing directory to move it into
    pub to: OsString,
}

#[derive(Debug, ClapArgs)]
pub struct DigestArgs {
    /// A file; or a directory, for the digests of every file below it
    pub locator: OsString,
    /// Compute these digests, separated by commas: crc32c, adler32, md5, sha1, sha256, sha512, blake3
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

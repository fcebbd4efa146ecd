//! The command line: commands, options and their validation. [`crate::settings`] and the commands decide what they mean.
//!
//! The doc comments of the types here are the texts of the help, the manual pages and the completions.

mod bound;
mod copy;
mod data;
mod demo;
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
pub use hub::{
    CommunityFacts, EndpointFacts, EndpointKindWord, Hub, HubAction, HubGrant, HubGrantAction, HubOption, HubServe,
    HubStop, LinkFacts, Named, NamedAction, RoleWord, SiteFacts, StorageFacts,
};
pub use lab::{Lab, LabAction, LabDirection, LabFile};
pub use plan::{
    PlanAction, PlanArgs, PlanCompare, PlanCost, PlanDemand, PlanLinks, PlanReport, PlanScenario, PlanScenarios,
    PlanSimulate,
};
pub use probe::{
    Probe, ProbeAll, ProbeCheck, ProbeDisk, ProbeDiskMode, ProbeDiskTest, ProbeLatency, ProbeLimits, ProbePath,
    ProbeScan, ProbeTcp, ProbeTest, ProbeUdp,
};
pub use queue::{EveryWord, Queue, QueueAction, Share, ShareAction, Submit};
pub use report::Report;
pub use serve::{Anonymous, Serve};
pub use support::Support;
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
    #[command(visible_alias = "copy")]
    Cp(Cp),
    /// Copy a tree with all that is in it: `cp --recursive`
    Sync(Cp),
    /// List, show, change and end running jobs
    Job(Job),
    /// Measure a path or a host, and say what limits it
    Probe(Probe),
    /// Audit a data transfer node: explain its settings, change them, take that back
    Tune(Tune),
    /// Show jobs and tests as a page: rates, limits, streams, verdict
    Report(Report),
    /// Plan a network: what it carries, costs and survives, and how long work takes
    Plan(PlanArgs),
    /// Run a node: offer directories to others
    Serve(Serve),
    /// Hand out, list and revoke access keys
    Grant(Grant),
    /// Run a hub, describe a collaboration, hand out keys to it
    Hub(Hub),
    /// Watch paths: regular tests, an archive, alarms and their causes
    Watch(Watch),
    /// Submit a job to a hub
    Submit(Submit),
    /// The queue of a hub: what waits, why, and what moves
    Queue(Queue),
    /// Links to files and folders for people without an account
    Share(Share),
    /// Data of a collaboration, by name: put there, fetched, kept at as many places as wanted
    Data(Data),
    /// A wide-area network on this machine, to try things on
    Lab(Lab),
    /// A collaboration on this machine, to look at: nodes, hub, watch and portal
    Demo(Demo),
    /// List a directory, or a node's exports
    Ls(Ls),
    /// Show facts about one file, link or directory
    Stat(LocatorArg),
    /// Make a directory and its parents
    Mkdir(LocatorArg),
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
    /// The nodes that have a name in the user's configuration, for completions
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
    /// Show one job; of one that a node carries (--node) also how it ended
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
pub struct LocatorArg {
    /// The file or directory
    pub locator: OsString,
}

#[derive(Debug, ClapArgs)]
#[command(disable_help_flag = true)]
pub struct Ls {
    /// The directory, or lh://HOST/ for the exports
    pub locator: OsString,
    /// Kind, mode, size and time of every entry
    #[arg(long, short)]
    pub long: bool,
    /// With --long: sizes in units
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
    /// Remove a directory with all that is in it
    #[arg(long, short)]
    pub recursive: bool,
    /// What is not there is removed already
    #[arg(long, short)]
    pub force: bool,
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
    /// Which digests, separated by commas: crc32c, adler32, md5, sha1, sha256, sha512, blake3
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

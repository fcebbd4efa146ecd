//! The arguments of `longhaul submit`, `queue` and `share`: jobs of a hub, and links to files.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use model::BitRate;

use super::hub::HubOption;
use crate::copy_defaults::limit;

/// Submit a job to a hub: it waits there for its turn, and nodes move it.
///
/// The last line on stdout is the job's id alone. Sent again with the same --id it is the same job.
#[derive(Debug, ClapArgs)]
pub struct Submit {
    #[command(flatten)]
    pub at: HubOption,
    /// What to copy, and where to: S T; every further T gets a copy too
    ///
    /// lh://HOST/EXPORT/PATH, https://…, davs://… or s3://BUCKET/KEY.
    #[arg(value_name = "S T", required_unless_present = "files_from")]
    pub places: Vec<String>,
    /// Files from this list, one per line: SOURCE TARGET [BYTES [ALGORITHM:VALUE]]; `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "places")]
    pub files_from: Option<PathBuf>,
    /// Sources may be directories
    #[arg(long, short)]
    pub recursive: bool,
    /// Replace a target that differs
    #[arg(long)]
    pub overwrite: bool,
    /// 1 to 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub priority: Option<u8>,
    /// The most that all of it may use: 200Mbit/s, 25MB/s
    #[arg(long, value_name = "RATE", value_parser = limit, conflicts_with = "deadline")]
    pub limit: Option<BitRate>,
    /// The activity that it is for
    #[arg(long, value_name = "A")]
    pub activity: Option<String>,
    /// The community that it is for
    #[arg(long, value_name = "C")]
    pub community: Option<String>,
    /// By when it is to be there: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// The job's id (a UUID): the same order sent twice is one job
    #[arg(long, value_name = "UUID")]
    pub id: Option<model::id::Uuid>,
    /// Have the job posted to this address as JSON when it has ended
    #[arg(long, value_name = "URL")]
    pub notify: Option<String>,
    /// Wait until it has ended, and exit as `longhaul cp` would have
    #[arg(long)]
    pub wait: bool,
    /// Submit nothing, and say how long it would take
    #[arg(long, conflicts_with_all = ["wait", "id", "every"])]
    pub estimate: bool,
    /// Have it submitted again and again: day or week
    #[arg(long, value_enum, value_name = "day|week", requires = "time", conflicts_with_all = ["wait", "id", "deadline"])]
    pub every: Option<EveryWord>,
    /// At which time of the day, UTC: 02:30
    #[arg(long = "at", id = "time", value_name = "HH:MM", requires = "every")]
    pub time: Option<String>,
}

/// How often a job is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EveryWord {
    Day,
    Week,
}

/// Links to files and folders for people without an account.
#[derive(Debug, ClapArgs)]
pub struct Share {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: ShareAction,
}

#[derive(Debug, Subcommand)]
pub enum ShareAction {
    /// Make a link: the last line on stdout is its address
    Add {
        /// A file, or a folder with a slash at its end, at an endpoint of the hub: lh://HOST/EXPORT/PATH
        url: String,
        /// Whoever has it puts new files into the folder, and sees nothing there
        #[arg(long)]
        drop: bool,
        /// For how long; a week unless said
        #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
        lasting: Option<Duration>,
        /// What whoever has it must know besides: the first line of this file
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// List links, the latest first
    List,
    /// End a link
    End {
        /// Its id
        id: String,
    },
}

/// The queue of a hub: what waits, why, and what moves.
#[derive(Debug, ClapArgs)]
pub struct Queue {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: QueueAction,
}

#[derive(Debug, Subcommand)]
pub enum QueueAction {
    /// List jobs, newest first
    List {
        /// Those that have ended as well
        #[arg(long)]
        all: bool,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Show a job and its files; without an id, the queues and the shares of what they share
    Show {
        /// The job's id
        id: Option<String>,
    },
    /// Say why the files of a job that wait do not move
    Why {
        /// The job's id
        id: String,
    },
    /// Change a job
    Set {
        /// The job's id
        id: String,
        /// The new priority, 1 to 5
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5), required_unless_present = "limit")]
        priority: Option<u8>,
        /// The most that all of it may use from here on: 200Mbit/s, 25MB/s; `none` for no limit
        #[arg(long, value_name = "RATE", value_parser = limit)]
        limit: Option<BitRate>,
    },
    /// Pause a job: nothing more of it begins; what moves arrives
    Pause {
        /// The job's id
        id: String,
    },
    /// Go on with a job that was paused
    Resume {
        /// The job's id
        id: String,
    },
    /// List jobs that are submitted again and again
    Repeats,
    /// End the repetition of a job
    EndRepeat {
        /// Its id
        id: String,
    },
    /// End a job; what has arrived stays
    Cancel {
        /// The job's id
        id: String,
    },
}

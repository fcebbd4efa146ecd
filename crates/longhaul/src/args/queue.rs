//! The arguments of `longhaul submit`, `queue` and `share`: jobs of a hub, and links to files.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use model::BitRate;

use super::hub::HubOption;
use crate::copy_defaults::limit;

/// Submit a job to a hub. The job waits there for its turn; nodes move the files.
///
/// The last line on stdout is the job's id alone. To submit again with the same --id is safe: it is the same job.
#[derive(Debug, ClapArgs)]
pub struct Submit {
    #[command(flatten)]
    pub at: HubOption,
    /// The source and the target: S T; each further T gets a copy as well
    ///
    /// Each is lh://HOST/EXPORT/PATH, https://…, davs://… or s3://BUCKET/KEY.
    #[arg(value_name = "S T", required_unless_present = "files_from")]
    pub places: Vec<String>,
    /// Copy the files in this list, one per line: SOURCE TARGET [BYTES [ALGORITHM:VALUE]]; `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "places")]
    pub files_from: Option<PathBuf>,
    /// Copy directories with everything in them
    #[arg(long, short)]
    pub recursive: bool,
    /// Replace files that exist at the target and differ
    #[arg(long)]
    pub overwrite: bool,
    /// The priority, 1 to 5 (5 is the highest)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub priority: Option<u8>,
    /// Limit the rate of all files of the job together: 200Mbit/s, 25MB/s
    #[arg(long, value_name = "RATE", value_parser = limit, conflicts_with = "deadline")]
    pub limit: Option<BitRate>,
    /// The activity of the job
    #[arg(long, value_name = "A")]
    pub activity: Option<String>,
    /// The community of the job
    #[arg(long, value_name = "C")]
    pub community: Option<String>,
    /// The time by which all files should have arrived: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// Use this id for the job (a UUID); a job that is submitted twice with one id is one job
    #[arg(long, value_name = "UUID")]
    pub id: Option<model::id::Uuid>,
    /// The URL to which the hub posts the job as JSON when it has ended
    #[arg(long, value_name = "URL")]
    pub notify: Option<String>,
    /// Wait until the job has ended, and exit with the code that `longhaul cp` would have
    #[arg(long)]
    pub wait: bool,
    /// Show how long the job would take, and submit nothing
    #[arg(long, conflicts_with_all = ["wait", "id", "every"])]
    pub estimate: bool,
    /// Submit the job again every day or week
    #[arg(long, value_enum, value_name = "day|week", requires = "time", conflicts_with_all = ["wait", "id", "deadline"])]
    pub every: Option<EveryWord>,
    /// With --every: the time of day, UTC: 02:30
    #[arg(long = "at", id = "time", value_name = "HH:MM", requires = "every")]
    pub time: Option<String>,
}

/// How often a job is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EveryWord {
    Day,
    Week,
}

/// Create, list and end links to files and folders, for people without an account.
#[derive(Debug, ClapArgs)]
pub struct Share {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: ShareAction,
}

#[derive(Debug, Subcommand)]
pub enum ShareAction {
    /// Create a link; the last line on stdout is its URL
    Add {
        /// A file or folder at an endpoint of the hub: lh://HOST/EXPORT/PATH; a folder ends in a slash
        url: String,
        /// Make a drop box: people with the link can put new files into the folder, and see nothing there
        #[arg(long)]
        drop: bool,
        /// How long the link is valid (default: a week)
        #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
        valid_for: Option<Duration>,
        /// Protect the link with a password: the first line of this file
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// List links, newest first
    List,
    /// End a link
    End {
        /// The id, as the list shows it
        id: String,
    },
}

/// Show and change the queue of a hub: which jobs wait, why, and which are moving.
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
        /// List jobs that have ended as well
        #[arg(long)]
        all: bool,
        /// List at most this number of jobs
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Show a job and its files; without an id, show the queues and their shares of links and endpoints
    Show {
        /// The job's id
        id: Option<String>,
    },
    /// Explain why the waiting files of a job do not move
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
        /// The new limit of the rate of all its files together: 200Mbit/s, 25MB/s; `none` for no limit
        #[arg(long, value_name = "RATE", value_parser = limit)]
        limit: Option<BitRate>,
    },
    /// Pause a job: no further files begin; files that are moving continue to their end
    Pause {
        /// The job's id
        id: String,
    },
    /// Continue a paused job
    Resume {
        /// The job's id
        id: String,
    },
    /// List repeats: jobs that are submitted every day or week
    Repeats,
    /// End a repeat
    EndRepeat {
        /// The id, as the list shows it
        id: String,
    },
    /// Cancel a job; files that have arrived stay
    Cancel {
        /// The job's id
        id: String,
    },
}

//! The arguments of `longhaul exercise`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::HubOption;

/// Exercise a collaboration: load from one file, score cards, data challenges.
///
/// A file says who sends what to whom, when, and what should be reached. `exercise run` does it and grades it. Exercises that bring a
/// lab run on this machine alone and need root; others need nodes whose operators have agreed (`longhaul serve --exercise`).
/// docs/exercise.md describes the file.
#[derive(Debug, ClapArgs)]
pub struct ExerciseArgs {
    #[command(subcommand)]
    pub action: ExerciseAction,
}

#[derive(Debug, Subcommand)]
pub enum ExerciseAction {
    /// Run an exercise: a file, or one that comes with the program
    Run(ExerciseRun),
    /// Show a run again, or two runs side by side
    Report(ExerciseReport),
    /// Show the runs on the board of a hub
    Board(ExerciseBoardArgs),
    /// Stop a run that is on the board of a hub
    Stop(ExerciseStopArgs),
    /// Grade one node as a source and another as a target by published data sets
    Scorecard(ExerciseScorecard),
    /// List the exercises that come with the program, or print one
    List(ExerciseList),
    Agent(ExerciseAgent),
}

/// Run an exercise.
///
/// The goals are compared with what links, interfaces and disks give, as far as the file says that; nothing begins if they do not fit. The
/// run writes its record, its page and a copy of the file to a directory. Ctrl-C ends the exercise: transfers are cancelled,
/// scratch places are removed, and the report says what was reached until then.
///
/// With --hub (or LONGHAUL_HUB) the run is on the board of that hub, where it can be watched and stopped. With --every it is repeated:
/// each run has a directory of its own, trend.html shows all of them, and the watch of the hub raises an alarm when a flow sustains
/// less than 0.9 of what it did before.
///
/// Exit code 0: all goals were met; 3: some were missed, or something is missing; 130: stopped.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseRun {
    /// A file, or the name of an exercise that comes with the program
    #[arg(value_name = "FILE")]
    pub exercise: String,
    /// Write the record and the page to this directory (default: exercise-NAME)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only check the file and its goals
    #[arg(long)]
    pub dry_run: bool,
    /// Run it although its goals cannot be met
    #[arg(long)]
    pub anyway: bool,
    /// Run it again and again, each time this long after the beginning of the run before: 24h
    #[arg(long, value_name = "TIME", value_parser = model::duration::parse, conflicts_with = "dry_run")]
    pub every: Option<std::time::Duration>,
    #[command(flatten)]
    pub at: HubOption,
}

/// Show the runs on the board of a hub: what their flows achieve, their goals, who is behind and why.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseBoardArgs {
    #[command(flatten)]
    pub at: HubOption,
}

/// Stop a run.
///
/// Its controller learns it with its next report, a second later at most: it cancels all transfers and removes all scratch places, and its
/// report says who stopped it. Only the member whose controller it is, and operators, may do that.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseStopArgs {
    /// The id of the run, as `exercise board` shows it
    #[arg(value_name = "ID", value_parser = model::id::Uuid::try_parse)]
    pub id: model::id::Uuid,
    #[command(flatten)]
    pub at: HubOption,
}

/// Show a run again, or compare two.
///
/// Of two runs the first is the earlier one; the exit code is 1 if a flow or a phase lost more than a tenth of its rate.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseReport {
    /// The directory of a run; a second one to compare with
    #[arg(value_name = "DIR", num_args = 1..=2, required = true)]
    pub runs: Vec<PathBuf>,
    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Grade two nodes by published data sets.
///
/// Three phases of 15 s measure what the path, the disks of the source and the disks of the target give. Then each data set is
/// moved once. The nodes make the files.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseScorecard {
    /// The node that sends: https://HOST:PORT, or a site of --lab
    #[arg(value_name = "A")]
    pub from: String,
    /// The node that receives
    #[arg(value_name = "B")]
    pub to: String,
    /// The key to the export `exercise` of A
    #[arg(long, value_name = "FILE", required_unless_present = "lab")]
    pub from_key: Option<PathBuf>,
    /// The key to the export `exercise` of B
    #[arg(long, value_name = "FILE", required_unless_present = "lab")]
    pub to_key: Option<PathBuf>,
    /// Move this data set; can be repeated (default: the eight of EPOC)
    #[arg(long = "set", value_name = "NAME")]
    pub sets: Vec<String>,
    /// Multiply all sizes by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub scale: f64,
    /// The speed of the slower interface, which decides the class
    #[arg(long, value_name = "RATE", default_value = "10Gbit/s")]
    pub nic: model::units::BitRate,
    /// Compare with these rates: esnet-10g, epoc-log-2020, …
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// A and B are sites of this scenario, which is brought up
    #[arg(long, value_name = "SCENARIO", conflicts_with_all = ["from_key", "to_key"])]
    pub lab: Option<String>,
    /// Write the card as a page to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub at: HubOption,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseList {
    /// Print this exercise, as a start for your own
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Run an agent: clients of other tools on this host, when a controller orders them.
///
/// The agent prints `listening on https://HOST:PORT` on stdout when it is ready, and serves until it is stopped (SIGINT, SIGTERM).
/// The second line is `key lhk1_…`: the key that a controller needs. With --key-file the agent takes the key of this file and
/// prints none.
///
/// A controller says which tool copies which files; the agent makes the arguments itself and runs no shell. Local files are below
/// --work only. The clients of a run are ended within a minute after the controller has stopped renewing it, and at once when the
/// agent is stopped. Files that have arrived stay below --work.
///
/// Clients have the environment of the agent: with X509_USER_PROXY or BEARER_TOKEN_FILE in it they act in your name.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExerciseAgent {
    /// Listen at this address; port 0 selects a free port
    ///
    /// Default: all addresses, port 7420.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Allow this tool only; can be repeated: curl, xrdcp, gfal-copy, globus-url-copy, rsync, iperf3, longhaul
    ///
    /// Default: all of them that are installed.
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// The directory for local files (default: exercise in the state directory)
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// Run at most this number of processes at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients_max: u32,
}

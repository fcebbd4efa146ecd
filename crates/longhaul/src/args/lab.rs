//! The arguments of `longhaul lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// Emulate a wide-area network on this machine: sites, and paths with the delay, rate, queue and loss of a scenario file.
///
/// Needs root. `longhaul lab scenarios` lists the scenarios that come with the program. An example: `longhaul lab run
/// canberra-paris --in canberra -- ping -c 3 paris` shows 303 ms.
#[derive(Debug, ClapArgs)]
pub struct Lab {
    #[command(subcommand)]
    pub action: LabAction,
    /// The lab's name (default: the file's name without .toml, or LONGHAUL_LAB, or the only lab that is up)
    #[arg(long, global = true, value_name = "NAME")]
    pub lab: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Bring a scenario up, measure whether the lab emulates it exactly, and take it down
    ///
    /// The tolerances: RTT 1 % or 0.3 ms, rate 0.5 %, losses exact to the packet. The check also measures how much this machine
    /// can carry at the longest RTT. The exit code is 0 if everything is within its tolerance. The last line is a summary.
    Check(LabFile),
    /// Bring a scenario up, and keep it up until `down`
    Up(LabFile),
    /// Take a lab down, and end the processes at its sites
    Down {
        /// The lab's name
        name: Option<String>,
    },
    /// Run a command at a site
    Exec {
        /// The site
        site: String,
        /// The command, after --
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Change a path while packets flow: loss=1% rate=100Mbit/s down=true
    Set {
        /// A path; or a site, for the site's uplink
        target: String,
        /// Settings as in a scenario file
        #[arg(required = true, value_name = "WORD=VALUE")]
        words: Vec<String>,
        /// Change this direction only (default: both)
        #[arg(long, value_name = "ab|ba")]
        direction: Option<LabDirection>,
        /// Change only this member of a path with ecmp, counted from 1
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
        member: Option<u32>,
        /// Undo the change after this time
        #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
        undo_after: Option<Duration>,
    },
    /// Show counters by direction and cause, of one lab or of all labs
    Status,
    /// Bring a scenario up for one command, and take it down
    ///
    /// The command runs at the site that --in names. Without --in it runs on this host, and can reach the sites with
    /// `longhaul lab exec SITE`. The exit code is that of the command.
    Run {
        #[command(flatten)]
        file: LabFile,
        /// The site where the command runs (default: this host)
        #[arg(long = "in", value_name = "SITE")]
        site: Option<String>,
        /// The command, after --
        #[arg(last = true, required_unless_present = "dry_run", value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// List the scenarios that come with the program, or print one as a start for your own
    Scenarios {
        /// Print this scenario
        name: Option<String>,
    },
    /// Hold a lab; its scenario is read from stdin
    #[command(hide = true)]
    Hold {
        /// End when this process ends; it started the lab
        #[arg(long, value_name = "PID")]
        ends_with_parent: Option<u32>,
    },
}

#[derive(Debug, ClapArgs)]
pub struct LabFile {
    /// A scenario file, or the name of a scenario that comes with the program
    #[arg(value_name = "FILE|NAME")]
    pub file: PathBuf,
    /// Only check that the scenario is valid
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LabDirection {
    /// From the path's first end to its second
    Ab,
    /// From the path's second end to its first
    Ba,
}

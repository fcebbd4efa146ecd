//! The arguments of `longhaul lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// A wide-area network on this machine: sites joined by paths with the delay, rate, queue and loss that a file describes.
///
/// Needs root. `longhaul lab scenarios` lists what comes with the program; `longhaul lab run canberra-paris --in canberra
/// -- ping -c 3 paris` shows 303 ms.
#[derive(Debug, ClapArgs)]
pub struct Lab {
    #[command(subcommand)]
    pub action: LabAction,
    /// The lab's name; default: the file's name without .toml, or LONGHAUL_LAB, or the only lab that is up
    #[arg(long, global = true, value_name = "NAME")]
    pub lab: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Bring a scenario up, measure whether it does what it says, and take it down
    ///
    /// RTT within 1 % or 0.3 ms, rate within 0.5 %, losses to the unit, and what this machine can carry at the longest
    /// RTT. Exit code 0 if all is within its tolerance; the last line is a summary.
    Check(LabFile),
    /// Bring a scenario up, until `down`
    Up(LabFile),
    /// Take a lab down, and end what runs at its sites
    Down {
        /// Its name
        name: Option<String>,
    },
    /// Run a command at a site
    Exec {
        /// Where
        site: String,
        /// What, after --
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Change a path while packets flow: loss=1% rate=100Mbit/s down=true
    Set {
        /// A path, or a site whose uplink is meant
        target: String,
        /// Words as in a scenario
        #[arg(required = true, value_name = "WORD=VALUE")]
        words: Vec<String>,
        /// One direction only
        #[arg(long, value_name = "ab|ba")]
        direction: Option<LabDirection>,
        /// One member of a path with ecmp only, from 1
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
        member: Option<u32>,
        /// Take it back after this time
        #[arg(long = "for", value_name = "TIME", value_parser = model::duration::parse)]
        lasts: Option<Duration>,
    },
    /// Counters by direction and cause, of one lab or of all
    Status,
    /// Bring a scenario up for one command, and take it down
    ///
    /// The command runs at the site that --in names, else here, where `longhaul lab exec SITE` reaches the sites. The
    /// exit code is the command's.
    Run {
        #[command(flatten)]
        file: LabFile,
        /// Where the command runs
        #[arg(long = "in", value_name = "SITE")]
        site: Option<String>,
        /// What, after --
        #[arg(last = true, required_unless_present = "dry_run", value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// List the scenarios that come with the program, or print one: a start for your own
    Scenarios {
        /// Which
        name: Option<String>,
    },
    /// Hold a lab whose scenario comes in on stdin
    #[command(hide = true)]
    Hold {
        /// End with this process, which started it
        #[arg(long, value_name = "PID")]
        tied: Option<u32>,
    },
}

#[derive(Debug, ClapArgs)]
pub struct LabFile {
    /// A scenario's file, or the name of one that comes with the program
    #[arg(value_name = "FILE|NAME")]
    pub file: PathBuf,
    /// Only say whether it makes sense
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LabDirection {
    /// From the path's first end
    Ab,
    /// From its second end
    Ba,
}

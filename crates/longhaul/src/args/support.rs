//! The arguments of `longhaul support`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// Collect what a support desk needs to know about this host, without secrets.
///
/// The command writes a tar.gz that only you can read, and lists its contents: version, system, settings of the kernel and of
/// NICs, routes, the audit of `longhaul tune`, the settings file, names and sizes in the state directory, known facts about
/// paths, running jobs and nodes, the recent log. It leaves out identity, keys, grants, passwords and the query strings of URLs.
/// It does not open journals and data. Look into the archive before you send it to anyone.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Support {
    #[command(subcommand)]
    pub action: Option<SupportAction>,
    #[command(flatten)]
    pub dump: SupportDump,
}

#[derive(Debug, Subcommand)]
pub enum SupportAction {
    /// Save the state directory of a node, hub or watch in one file; the service may be running
    ///
    /// The file holds identity, grants, databases, journals: whoever has it can act as this service. Only you can read it. Databases in
    /// PostgreSQL, settings files and data are not in it.
    Backup {
        /// Write the backup to this file; an existing file is not replaced
        ///
        /// Default: longhaul-backup-HOST-TIME.tar.gz in the current directory.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Restore a state directory, which must be empty or absent, from a backup
    ///
    /// Name the directory by --state. Stop the service that the backup was made of first: two services with one identity take each
    /// other's clients. Files belong to the owner of the directory if it exists.
    Restore {
        /// The file that `longhaul support backup` has written
        file: PathBuf,
    },
}

#[derive(Debug, ClapArgs)]
pub struct SupportDump {
    /// Write the archive to this file; an existing file is not replaced
    ///
    /// Default: longhaul-support-HOST-TIME.tar.gz in the current directory.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The node's settings file
    ///
    /// Default: /etc/longhaul/longhaul.toml, if it exists. Without --state, the state directory is the one that this file names.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The node's systemd unit; the archive contains its log
    #[arg(long, value_name = "UNIT", default_value = "longhaul.service")]
    pub unit: String,
}

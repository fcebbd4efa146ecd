//! The arguments of `longhaul support`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Collect what a support desk needs to know about this host, without secrets.
///
/// The command writes a tar.gz that only you can read, and lists its contents: version, system, settings of the kernel and of
/// NICs, routes, the audit of `longhaul tune`, the settings file, names and sizes in the state directory, known facts about
/// paths, running jobs and nodes, the recent log. It leaves out identity, keys, grants, passwords and the query strings of URLs.
/// It does not open journals and data. Look into the archive before you send it to anyone.
#[derive(Debug, ClapArgs)]
pub struct Support {
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

//! The arguments of `longhaul support`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Collect what somebody needs who is to help with this host, and no secrets.
///
/// Writes a tar.gz that only you can read, and says what is in it: version, system, settings of the kernel and of NICs, routes,
/// the audit of `longhaul tune`, the settings file, names and sizes in the state directory, what is known of paths, jobs and
/// nodes that run, the recent log. Identity, keys, grants, passwords and what follows the question mark of URLs are left out;
/// journals and data are not opened. Look into it before you send it on.
#[derive(Debug, ClapArgs)]
pub struct Support {
    /// Where to write it; what is there is not replaced
    ///
    /// Default: longhaul-support-HOST-TIME.tar.gz, here.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The node's settings file
    ///
    /// Default: /etc/longhaul/longhaul.toml, where it is there. Without --state the state directory that it names is meant.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The node's unit, whose log is taken along where systemd keeps it
    #[arg(long, value_name = "UNIT", default_value = "longhaul.service")]
    pub unit: String,
}

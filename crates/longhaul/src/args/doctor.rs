//! The arguments of `longhaul doctor`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Check the node of this host, and say what to do about each problem.
///
/// The checks: settings, identity, state directory, exports and their space, lifetime of the certificate, clock, firewall, whether the
/// node runs and of which version it is. With --peer also: whether a node elsewhere can be reached, its version, and whether it
/// reaches the node of this host. Run it as the user of the node, or as root. Exit code 1 if there is a problem; warnings are none.
#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// The node's settings file
    ///
    /// Default: /etc/longhaul/longhaul.toml, if it exists. Without --state, the state directory is the one that this file names.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Have this node elsewhere send 1 MB to the node of this host; can be repeated
    ///
    /// It takes a key for that node, unless it admits clients without one, and its permission to connect to others for clients.
    #[arg(long, value_name = "lh://HOST")]
    pub peer: Vec<String>,
    /// The address at which peers reach the node of this host
    ///
    /// Default: the name of this host, and the port of the node.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub at: Option<String>,
}

//! The arguments of `longhaul demo`.

use clap::Args as ClapArgs;

/// Run a whole collaboration on this machine, as a demonstration: three nodes, a hub, a watch and the portal.
///
/// The demonstration needs no configuration and leaves nothing behind: all its files are in a temporary directory. Ctrl-C ends
/// it. If network namespaces can be created (as root), the sites are in an emulated network with long paths. One of these paths
/// loses packets, and the watch finds it. Otherwise the sites communicate over loopback.
#[derive(Debug, ClapArgs)]
pub struct Demo {
    /// The address of the portal; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Use loopback even if an emulated network could be created
    #[arg(long)]
    pub loopback: bool,
}

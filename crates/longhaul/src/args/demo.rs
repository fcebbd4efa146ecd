//! The arguments of `longhaul demo`.

use clap::Args as ClapArgs;

/// A collaboration on this machine, to look at: three nodes, a hub, a watch and the portal.
///
/// Nothing is configured and nothing is left behind: everything is in a temporary directory, and Ctrl-C ends it all. Where network namespaces may
/// be made (as root) the sites are in an emulated network with long paths, one of which loses packets: the watch finds it. Elsewhere they speak
/// over loopback.
#[derive(Debug, ClapArgs)]
pub struct Demo {
    /// Where the portal is to be; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Use plain loopback, also where an emulated network could be made
    #[arg(long)]
    pub loopback: bool,
}

//! Services of Longhaul on a network of this machine, for commands that show or exercise a collaboration: an emulated network with a process at each
//! site, or loopback.
//!
//! Does not know: what the services are for.

mod launcher;
mod network;
mod relay;
mod spawner;

pub use launcher::{Launcher, Process, Service, output_of};
pub use network::SiteNetwork;
pub use relay::Relay;

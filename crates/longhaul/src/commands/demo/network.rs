//! The network of a demo: an emulated one, in which each process runs at a site, or loopback.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lab::{Lab, Scenario};

use crate::emulated::{Relay, SiteNetwork};
use crate::failure::Failure;

/// The sites of the nodes.
pub const SITES: [&str; 3] = ["geneva", "amsterdam", "perth"];
/// The site of the hub.
pub const HUB_SITE: &str = "hub";

/// The scenario of the lab. Addresses are assigned in the order of the sites.
const SCENARIO: &str = r#"
seed = 32
[site.geneva]
[site.amsterdam]
[site.perth]
[site.hub]
[path.geneva-amsterdam]
rtt = "20ms"
rate = "300Mbit/s"
queue = "100ms"
[path.amsterdam-perth]
rtt = "250ms"
rate = "300Mbit/s"
queue = "100ms"
[path.geneva-perth]
rtt = "250ms"
rate = "300Mbit/s"
queue = "100ms"
loss = "1%"
[path.hub-geneva]
rtt = "2ms"
[path.hub-amsterdam]
rtt = "20ms"
[path.hub-perth]
rtt = "250ms"
"#;

/// The network of a demo.
pub struct DemoNetwork(SiteNetwork);

impl DemoNetwork {
    /// Makes an emulated network; or loopback, with the reason, if the user wants that or this machine cannot run a lab.
    ///
    /// # Errors
    /// The lab cannot be started.
    pub fn make(is_loopback: bool, dir: &Path) -> Result<(DemoNetwork, Option<String>), Failure> {
        let loopback = |why: String| Ok((DemoNetwork(SiteNetwork::Loopback), Some(why)));
        if is_loopback {
            return loopback("as asked for".to_owned());
        }
        if let Err(why) = lab::check_prerequisites() {
            return loopback(why.to_string());
        }
        let scenario = Scenario::read(SCENARIO).map_err(|problem| Failure::local(problem.to_string()))?;
        let lab = Arc::new(Lab::up("demo", &scenario, dir)?);
        Ok((DemoNetwork(SiteNetwork::Lab(lab)), None))
    }

    /// Whether the paths are emulated, and one of them loses packets.
    pub fn is_emulated(&self) -> bool {
        matches!(self.0, SiteNetwork::Lab(_))
    }

    /// The sites.
    pub fn sites(&self) -> &SiteNetwork {
        &self.0
    }

    /// A command that runs at a site.
    ///
    /// # Errors
    /// The site cannot be entered.
    pub fn command(&self, site: &str, program: &Path) -> Result<Command, Failure> {
        self.0.command(site, program)
    }

    /// The address for a service at a site.
    ///
    /// # Errors
    /// There is no such site.
    pub fn listen(&self, site: &str, port: u16) -> Result<String, Failure> {
        self.0.listen(site, port)
    }

    /// Relays connections to a loopback address to a service at a site of a lab.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn relay(&self, site: &str, listen: SocketAddr, port: u16) -> Result<Option<Relay>, Failure> {
        self.0.relay(site, listen, port)
    }
}

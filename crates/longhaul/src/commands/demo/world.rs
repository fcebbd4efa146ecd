//! Where the processes of a demo run: at the sites of an emulated network, or all on loopback.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lab::{Lab, Scenario};

use super::relay::Relay;
use crate::failure::Failure;

/// The sites of the nodes.
pub const SITES: [&str; 3] = ["geneva", "amsterdam", "perth"];
/// The site of the hub.
pub const HUB_SITE: &str = "hub";

/// Has the kernel end a process with its parent.
const SETPRIV: &str = "/usr/bin/setpriv";

/// Addresses follow the order of the sites.
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

/// Where processes run.
pub enum World {
    /// In an emulated network.
    Lab(Arc<Lab>),
    /// On this host.
    Loopback,
}

impl World {
    /// An emulated network where one can be had and is wanted; else loopback, and why.
    ///
    /// # Errors
    /// The network could be made, and was not.
    pub fn make(is_loopback: bool, dir: &Path) -> Result<(World, Option<String>), Failure> {
        if is_loopback {
            return Ok((World::Loopback, Some("as asked for".to_owned())));
        }
        if let Err(why) = lab::able() {
            return Ok((World::Loopback, Some(why.to_string())));
        }
        let scenario = Scenario::read(SCENARIO).map_err(|problem| Failure::local(problem.to_string()))?;
        Ok((World::Lab(Arc::new(Lab::up("demo", &scenario, dir)?)), None))
    }

    /// Whether a path loses packets.
    pub fn has_soft_failure(&self) -> bool {
        matches!(self, World::Lab(_))
    }

    /// A command that will run at a site. Should this program be killed, the kernel takes it along, where util-linux is there to ask it to.
    ///
    /// # Errors
    /// The site cannot be entered.
    pub fn command(&self, site: &str, program: &Path) -> Result<Command, Failure> {
        let is_tied = Path::new(SETPRIV).exists();
        let first = if is_tied { Path::new(SETPRIV) } else { program };
        let mut command = match self {
            World::Lab(lab) => lab.command(site, first)?,
            World::Loopback => Command::new(first),
        };
        if is_tied {
            command.args(["--pdeathsig", "KILL"]).arg(program);
        }
        Ok(command)
    }

    /// Where a service at a site listens: on a port of its own address, or on any of loopback.
    pub fn listen(&self, site: &str, port: u16) -> String {
        let place = SITES.iter().chain([&HUB_SITE]).position(|known| *known == site).unwrap_or_default();
        match self {
            World::Lab(_) => format!("10.77.{}.1:{port}", place + 1),
            World::Loopback => "127.0.0.1:0".to_owned(),
        }
    }

    /// Has connections to an address of loopback lead to a service at a site.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn relay(&self, site: &'static str, listen: SocketAddr, port: u16) -> Result<Option<Relay>, Failure> {
        let World::Lab(lab) = self else { return Ok(None) };
        let to: SocketAddr = self
            .listen(site, port)
            .parse()
            .map_err(|error| Failure::local(format!("the address of {site}: {error}")))?;
        let lab = Arc::clone(lab);
        let connect = move || {
            let site = lab.site(site).map_err(std::io::Error::other)?;
            site.within(|| std::net::TcpStream::connect(to)).map_err(std::io::Error::other)?
        };
        let relay = Relay::start(listen, connect);
        relay.map(Some).map_err(|error| Failure::local(format!("cannot listen on {listen}: {error}")))
    }
}

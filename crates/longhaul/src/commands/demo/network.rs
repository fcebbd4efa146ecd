//! The network of a demo: an emulated one, in which each process runs at a site, or loopback.

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

/// The program with which the kernel kills a process when its parent ends (util-linux).
const SETPRIV: &str = "/usr/bin/setpriv";

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

/// The network that the processes run in.
pub enum DemoNetwork {
    /// An emulated network.
    Lab(Arc<Lab>),
    /// The loopback interface of this host.
    Loopback,
}

impl DemoNetwork {
    /// Makes an emulated network; or loopback, with the reason, if the user wants that or this machine cannot run a lab.
    ///
    /// # Errors
    /// The lab cannot be started.
    pub fn make(is_loopback: bool, dir: &Path) -> Result<(DemoNetwork, Option<String>), Failure> {
        if is_loopback {
            return Ok((DemoNetwork::Loopback, Some("as asked for".to_owned())));
        }
        if let Err(why) = lab::check_prerequisites() {
            return Ok((DemoNetwork::Loopback, Some(why.to_string())));
        }
        let scenario = Scenario::read(SCENARIO).map_err(|problem| Failure::local(problem.to_string()))?;
        Ok((DemoNetwork::Lab(Arc::new(Lab::up("demo", &scenario, dir)?)), None))
    }

    /// Whether a path loses packets.
    pub fn has_soft_failure(&self) -> bool {
        matches!(self, DemoNetwork::Lab(_))
    }

    /// A command that runs at a site. If this program is killed, the kernel ends the command as well, where util-linux is installed.
    ///
    /// # Errors
    /// The site cannot be entered.
    pub fn command(&self, site: &str, program: &Path) -> Result<Command, Failure> {
        let ends_with_parent = Path::new(SETPRIV).exists();
        let first = if ends_with_parent { Path::new(SETPRIV) } else { program };
        let mut command = match self {
            DemoNetwork::Lab(lab) => lab.command(site, first)?,
            DemoNetwork::Loopback => Command::new(first),
        };
        if ends_with_parent {
            command.args(["--pdeathsig", "KILL"]).arg(program);
        }
        Ok(command)
    }

    /// The address for a service at a site: that of the site with this port, or loopback with any port.
    pub fn listen(&self, site: &str, port: u16) -> String {
        let index = SITES.iter().chain([&HUB_SITE]).position(|known| *known == site).unwrap_or_default();
        match self {
            DemoNetwork::Lab(_) => format!("10.77.{}.1:{port}", index + 1),
            DemoNetwork::Loopback => "127.0.0.1:0".to_owned(),
        }
    }

    /// Relays connections to a loopback address to a service at a site of a lab.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn relay(&self, site: &'static str, listen: SocketAddr, port: u16) -> Result<Option<Relay>, Failure> {
        let DemoNetwork::Lab(lab) = self else { return Ok(None) };
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

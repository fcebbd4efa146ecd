//! The network that services run in.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lab::Lab;

use super::relay::Relay;
use crate::failure::Failure;

/// The program with which the kernel kills a process when its parent ends (util-linux).
const SETPRIV: &str = "/usr/bin/setpriv";

/// How long a service at the same site may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A network of sites.
pub enum SiteNetwork {
    /// An emulated network, in which each process runs at a site.
    Lab(Arc<Lab>),
    /// The loopback interface of this host.
    Loopback,
}

impl SiteNetwork {
    /// A command that runs at a site. If this program is killed, the kernel ends the command as well, where util-linux is installed.
    ///
    /// # Errors
    /// The site cannot be entered.
    pub fn command(&self, site: &str, program: &Path) -> Result<Command, Failure> {
        let ends_with_parent = Path::new(SETPRIV).exists();
        let first = if ends_with_parent { Path::new(SETPRIV) } else { program };
        let mut command = match self {
            SiteNetwork::Lab(lab) => lab.command(site, first)?,
            SiteNetwork::Loopback => Command::new(first),
        };
        if ends_with_parent {
            command.args(["--pdeathsig", "KILL"]).arg(program);
        }
        Ok(command)
    }

    /// The address for a service at a site: that of the site with this port, or loopback with any port.
    ///
    /// # Errors
    /// The lab has no such site, or the site has no IPv4 address.
    pub fn listen(&self, site: &str, port: u16) -> Result<String, Failure> {
        let SiteNetwork::Lab(lab) = self else { return Ok("127.0.0.1:0".to_owned()) };
        let described = lab.scenario().sites.iter().find(|described| described.name == site);
        let address = described.and_then(|described| described.interfaces.first()?.v4);
        let (address, _) =
            address.ok_or_else(|| Failure::usage(format!("the lab has no site {site} with an IPv4 address")))?;
        Ok(format!("{address}:{port}"))
    }

    /// Whether something answers at an address, seen from a site.
    pub fn answers(&self, site: &str, at: SocketAddr) -> bool {
        let connects = || TcpStream::connect_timeout(&at, ANSWER_MAX).is_ok();
        match self {
            SiteNetwork::Loopback => connects(),
            SiteNetwork::Lab(lab) => lab.site(site).is_ok_and(|site| site.within(connects).unwrap_or(false)),
        }
    }

    /// Relays connections to a loopback address to a service at a site of a lab; none where the service is on loopback itself.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn relay(&self, site: &str, listen: SocketAddr, port: u16) -> Result<Option<Relay>, Failure> {
        let SiteNetwork::Lab(lab) = self else { return Ok(None) };
        let to: SocketAddr = self
            .listen(site, port)?
            .parse()
            .map_err(|error| Failure::local(format!("the address of {site}: {error}")))?;
        let (lab, site) = (Arc::clone(lab), site.to_owned());
        let connect = move || {
            let site = lab.site(&site).map_err(std::io::Error::other)?;
            site.within(|| TcpStream::connect(to)).map_err(std::io::Error::other)?
        };
        let relay = Relay::start(listen, connect);
        relay.map(Some).map_err(|error| Failure::local(format!("cannot listen on {listen}: {error}")))
    }
}

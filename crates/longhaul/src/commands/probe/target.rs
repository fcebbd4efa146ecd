//! The other end of a test: a node, an iperf3 server, a STAMP reflector.

use std::ffi::OsStr;
use std::net::{SocketAddr, ToSocketAddrs};

use client::RemoteNode;
use engine::Timeouts;
use model::locator::NodePlace;
use model::{HostPort, Locator};

use crate::failure::Failure;
use crate::settings::Settings;

/// The port of iperf3.
const IPERF3_PORT: u16 = 5201;
/// The port of STAMP and TWAMP-Light (RFC 8762, section 4.1).
const STAMP_PORT: u16 = 862;

/// The other end of a test.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A node.
    Node(HostPort),
    /// An iperf3 server.
    Iperf3(HostPort),
    /// A STAMP or TWAMP-Light reflector.
    Stamp(HostPort),
}

impl Target {
    /// Reads a target of the command line: a node's name in the user's configuration, or what [`Target::parse`] reads.
    ///
    /// # Errors
    /// The text names no node and no server.
    pub fn new(text: &str, settings: &Settings) -> Result<Target, Failure> {
        settings
            .node_named(text.strip_suffix(':').unwrap_or(text))
            .map_or_else(|| Target::parse(text), |at| Ok(Target::Node(at)))
    }

    /// Reads `lh://HOST[:PORT]`, `HOST[:PORT]`, `iperf3://HOST[:PORT]` or `stamp://HOST[:PORT]`.
    ///
    /// # Errors
    /// The text has none of these forms.
    pub fn parse(text: &str) -> Result<Target, Failure> {
        let wrong = || {
            let forms = "write lh://HOST[:PORT], iperf3://HOST[:PORT] or stamp://HOST[:PORT]";
            Failure::usage(format!("{text} is not a node or server; {forms}"))
        };
        if let Some(rest) = text.strip_prefix("iperf3://") {
            return host_of_protocol(rest, IPERF3_PORT).map(Target::Iperf3).ok_or_else(wrong);
        }
        if let Some(rest) = text.strip_prefix("stamp://") {
            return host_of_protocol(rest, STAMP_PORT).map(Target::Stamp).ok_or_else(wrong);
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("lh://{text}") };
        node(&text).map(Target::Node).ok_or_else(wrong)
    }

    /// Reads the target of a test that needs a node.
    ///
    /// # Errors
    /// The text names no node.
    pub fn node(text: &str, test: &str, settings: &Settings) -> Result<HostPort, Failure> {
        match Target::new(text, settings)? {
            Target::Node(at) => Ok(at),
            _ => Err(Failure::usage(format!("probe {test} is a test with a node: lh://HOST[:PORT]"))),
        }
    }
}

/// Parses the host of another protocol as that of a node, so that the same rules hold for hosts and ports.
fn host_of_protocol(rest: &str, port: u16) -> Option<HostPort> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']') && port.parse::<u16>().is_ok());
    let whole = if has_port { rest.to_owned() } else { format!("{rest}:{port}") };
    node(&format!("lh://{whole}"))
}

fn node(text: &str) -> Option<HostPort> {
    match Locator::parse(OsStr::new(text)).ok()? {
        Locator::Node { at, place: NodePlace::Exports, .. } => Some(at),
        _ => None,
    }
}

/// The first address of a host, in the order of the resolver.
///
/// # Errors
/// The name cannot be resolved.
pub fn resolve(at: &HostPort) -> Result<SocketAddr, Failure> {
    let found = (at.host.as_str(), at.port).to_socket_addrs();
    let first = found.map_err(|source| engine::Error::Resolve { host: at.host.clone(), source })?.next();
    first.ok_or_else(|| Failure::local(format!("{} has no address", at.host)))
}

/// Connects to a node and logs in, for a test with it.
///
/// # Errors
/// The node cannot be reached, or refuses the login.
pub fn connect(at: &HostPort, settings: &Settings) -> Result<RemoteNode, Failure> {
    let session = settings.connect(at, false, Timeouts::default())?;
    let address = session.peer_address().map_or_else(|| resolve(at), Ok)?;
    Ok(RemoteNode::new(session, address, at.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed() {
        let host_port = |host: &str, port| HostPort { host: host.into(), port };
        assert_eq!(
            Target::parse("iperf3://dtn.example.org").unwrap(),
            Target::Iperf3(host_port("dtn.example.org", 5201))
        );
        assert_eq!(Target::parse("iperf3://[2001:db8::1]:7/").unwrap(), Target::Iperf3(host_port("2001:db8::1", 7)));
        assert_eq!(Target::parse("iperf3://[2001:db8::1]").unwrap(), Target::Iperf3(host_port("2001:db8::1", 5201)));
        assert_eq!(Target::parse("stamp://192.0.2.1").unwrap(), Target::Stamp(host_port("192.0.2.1", 862)));
        assert_eq!(Target::parse("dtn.example.org").unwrap(), Target::Node(host_port("dtn.example.org", 7411)));
        assert_eq!(Target::parse("lh://dtn.example.org:9/").unwrap(), Target::Node(host_port("dtn.example.org", 9)));
        for wrong in ["", "lh://host/export/path", "ftp://host", "iperf3://", "host:99999"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! With whom a test is run: a node, or a server of iperf3.

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use engine::Timeouts;
use engine::session::Session;
use model::locator::Place;
use model::v1::probe::tcp::{Line, Order};
use model::v1::probe::{Ask, Test};
use model::{HostPort, Locator};
use probe::tcp::Peer;
use wire::frame::Request;

use crate::failure::Failure;
use crate::settings::Settings;

/// The port of iperf3.
const IPERF3_PORT: u16 = 5201;

/// Who is at the other end.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    Node(HostPort),
    Iperf3(HostPort),
}

impl Target {
    /// `lh://HOST[:PORT]`, `HOST[:PORT]`, `iperf3://HOST[:PORT]`.
    pub fn parse(text: &str) -> Result<Target, Failure> {
        let wrong = || Failure::usage(format!("{text} is not a node or server; write lh://HOST[:PORT] or iperf3://HOST[:PORT]"));
        if let Some(rest) = text.strip_prefix("iperf3://") {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            // As a node, so that hosts and ports are read by one rule; its default port is not iperf3's.
            let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']') && port.parse::<u16>().is_ok());
            let whole = if has_port { rest.to_owned() } else { format!("{rest}:{IPERF3_PORT}") };
            return node(&format!("lh://{whole}")).map(Target::Iperf3).ok_or_else(wrong);
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("lh://{text}") };
        node(&text).map(Target::Node).ok_or_else(wrong)
    }
}

fn node(text: &str) -> Option<HostPort> {
    match Locator::parse(OsStr::new(text)).ok()? {
        Locator::Node { at, place: Place::Exports, .. } => Some(at),
        _ => None,
    }
}

/// The first address of a host, in the order of the resolver.
pub fn resolve(at: &HostPort) -> Result<SocketAddr, Failure> {
    let found = (at.host.as_str(), at.port).to_socket_addrs();
    let first = found.map_err(|source| engine::Error::Resolve { host: at.host.clone(), source })?.next();
    first.ok_or_else(|| Failure::local(format!("{} has no address", at.host)))
}

/// A node as the other end of a test.
pub struct Node {
    session: Session,
    address: SocketAddr,
    name: String,
    /// The number of the test's first stream.
    first: u32,
}

impl Node {
    /// Connects and logs in.
    pub fn connect(at: &HostPort, settings: &Settings) -> Result<Node, Failure> {
        let session = settings.connect(at, false, Timeouts::default())?;
        let address = session.peer_address().map_or_else(|| resolve(at), Ok)?;
        Ok(Node { session, address, name: at.to_string(), first: 0 })
    }

}

/// An error of the session in the words of a test.
fn told(error: engine::Error) -> probe::Error {
    match error {
        engine::Error::Refused { peer, refusal } => probe::Error::Refused { peer, why: refusal.reason },
        engine::Error::Broken { peer, source } => probe::Error::Broken { peer, source },
        engine::Error::Silent { peer, seconds } => probe::Error::Silent { peer, seconds },
        other => probe::Error::Protocol { peer: "the node".into(), protocol: "Longhaul", what: other.to_string() },
    }
}

impl Peer for Node {
    fn dial(&mut self, ids: &[u32], order: &Order) -> probe::Result<Vec<(u32, TcpStream)>> {
        let mut streams = Vec::new();
        for id in ids {
            let socket = probe::dial(self.address, order)?;
            let number = self.session.join(&socket).map_err(told)?;
            if streams.is_empty() {
                self.first = number;
            }
            streams.push((*id, socket));
        }
        Ok(streams)
    }

    fn ask(&mut self, order: &Order, hear: &mut dyn FnMut(Line)) -> probe::Result<()> {
        let ask = Ask { first_stream: self.first, test: Test::Tcp(order.clone()) };
        let text = serde_json::to_string(&ask).map_err(|e| probe::Error::Order(e.to_string()))?;
        let mut garbled = None;
        let heard = self.session.listen(Request::Probe(text), &mut |line| match serde_json::from_str(&line) {
            Ok(line) => hear(line),
            Err(error) => garbled = Some(error),
        });
        heard.map_err(told)?;
        match garbled {
            Some(error) => {
                let what = format!("a line that nobody understands: {error}");
                Err(probe::Error::Protocol { peer: self.name.clone(), protocol: "the test", what })
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_meant() {
        let at = |host: &str, port| HostPort { host: host.into(), port };
        assert_eq!(Target::parse("iperf3://dtn.example.org").unwrap(), Target::Iperf3(at("dtn.example.org", 5201)));
        assert_eq!(Target::parse("iperf3://[2001:db8::1]:7/").unwrap(), Target::Iperf3(at("2001:db8::1", 7)));
        assert_eq!(Target::parse("iperf3://[2001:db8::1]").unwrap(), Target::Iperf3(at("2001:db8::1", 5201)));
        assert_eq!(Target::parse("dtn.example.org").unwrap(), Target::Node(at("dtn.example.org", 7411)));
        assert_eq!(Target::parse("lh://dtn.example.org:9/").unwrap(), Target::Node(at("dtn.example.org", 9)));
        for wrong in ["", "lh://host/export/path", "ftp://host", "iperf3://", "host:99999"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}

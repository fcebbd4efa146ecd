//! With whom a test is run: a node, a server of iperf3, a reflector of STAMP.

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use engine::Timeouts;
use engine::session::Session;
use model::locator::Place;
use model::v1::probe::host::Hosts;
use model::v1::probe::tcp::{Line, Order};
use model::v1::probe::{self as v1, Ask, Disk, DiskLine, FlowLine, Flows, Limits, Test, disk};
use model::v1::tune;
use model::{Fault, HostPort, Locator};
use probe::tcp::Peer;
use probe::{Stop, task};
use serde::de::DeserializeOwned;
use wire::frame::Request;

use crate::failure::Failure;
use crate::settings::Settings;

/// The port of iperf3.
const IPERF3_PORT: u16 = 5201;
/// The port of STAMP and TWAMP-Light (RFC 8762, section 4.1).
const STAMP_PORT: u16 = 862;
/// How often a test that waits for the other end looks for the stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who is at the other end.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    Node(HostPort),
    Iperf3(HostPort),
    Stamp(HostPort),
}

impl Target {
    /// `lh://HOST[:PORT]`, `HOST[:PORT]`, `iperf3://HOST[:PORT]`, `stamp://HOST[:PORT]`.
    pub fn parse(text: &str) -> Result<Target, Failure> {
        let wrong = || {
            let forms = "write lh://HOST[:PORT], iperf3://HOST[:PORT] or stamp://HOST[:PORT]";
            Failure::usage(format!("{text} is not a node or server; {forms}"))
        };
        if let Some(rest) = text.strip_prefix("iperf3://") {
            return foreign(rest, IPERF3_PORT).map(Target::Iperf3).ok_or_else(wrong);
        }
        if let Some(rest) = text.strip_prefix("stamp://") {
            return foreign(rest, STAMP_PORT).map(Target::Stamp).ok_or_else(wrong);
        }
        let text = if text.contains("://") { text.to_owned() } else { format!("lh://{text}") };
        node(&text).map(Target::Node).ok_or_else(wrong)
    }

    /// A node, as the test has it.
    pub fn node(text: &str, test: &str) -> Result<HostPort, Failure> {
        match Target::parse(text)? {
            Target::Node(at) => Ok(at),
            _ => Err(Failure::usage(format!("probe {test} is a test with a node: lh://HOST[:PORT]"))),
        }
    }
}

/// A host of another protocol, read as a node, so that hosts and ports are read by one rule.
fn foreign(rest: &str, port: u16) -> Option<HostPort> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']') && port.parse::<u16>().is_ok());
    let whole = if has_port { rest.to_owned() } else { format!("{rest}:{port}") };
    node(&format!("lh://{whole}"))
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
    /// Both hosts during the last test over flows.
    hosts: Option<Hosts>,
}

impl Node {
    /// Connects and logs in.
    pub fn connect(at: &HostPort, settings: &Settings) -> Result<Node, Failure> {
        let session = settings.connect(at, false, Timeouts::default())?;
        let address = session.peer_address().map_or_else(|| resolve(at), Ok)?;
        Ok(Node { session, address, name: at.to_string(), first: 0, hosts: None })
    }

    /// Both hosts during the last test over flows, if there was one.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref()
    }

    /// Asks for a test, and hands on what the node says until it is over.
    fn listen<T: DeserializeOwned>(
        &mut self,
        first_stream: u32,
        test: Test,
        hear: &mut dyn FnMut(T),
    ) -> probe::Result<()> {
        let ask = Ask { first_stream, test };
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

    /// Within which bounds the node runs tests.
    pub fn limits(&mut self) -> probe::Result<Limits> {
        let mut limits = None;
        self.listen(0, Test::Limits, &mut |line| limits = Some(line))?;
        limits.ok_or_else(|| self.mute())
    }

    /// How the settings of its host stand, a line for each finding after one for the host.
    pub fn audit(&mut self, ask: &tune::Ask) -> probe::Result<Vec<serde_json::Value>> {
        let mut lines = Vec::new();
        self.listen(0, Test::Audit(ask.clone()), &mut |line| lines.push(line))?;
        if lines.is_empty() { Err(self.mute()) } else { Ok(lines) }
    }

    /// A test of the disk below an export. `note` hears of each point. The session listens in a thread of its own: nothing
    /// ends a question before its answer but the end of the session, so a test that is stopped is left to that thread,
    /// which ends with the program; the node notices, and ends the test and tidies up.
    pub fn disk(mut self, ask: Disk, stop: &Stop, note: &mut dyn FnMut(&disk::Point)) -> probe::Result<disk::Report> {
        let (peer, mut found) = (self.name.clone(), Err(self.mute()));
        let (lines, heard) = channel();
        let listen = move || {
            let told = self.listen(0, Test::Disk(ask), &mut |line: DiskLine| drop(lines.send(Ok(line))));
            if let Err(error) = told {
                // Nobody hears it where the test was stopped.
                let _ = lines.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("probe-disk".into()).spawn(listen);
        thread.map_err(|source| probe::Error::Host { doing: "start a thread that listens to the node", source })?;
        while !stop.is_stopped() {
            match heard.recv_timeout(LOOK_EVERY) {
                Ok(Ok(DiskLine::Point(point))) => note(&point),
                Ok(Ok(DiskLine::Done(report))) => found = Ok(*report),
                Ok(Ok(DiskLine::Failed(v1::Failure { fault, why }))) => {
                    found = Err(probe::Error::Far { peer: peer.clone(), fault, why });
                }
                Ok(Ok(DiskLine::Working)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(error)) => return Err(error),
                Err(RecvTimeoutError::Disconnected) => return found,
            }
        }
        Err(probe::Error::Interrupted)
    }

    fn mute(&self) -> probe::Error {
        let what = "it does not say what came of the test".into();
        probe::Error::Protocol { peer: self.name.clone(), protocol: "the test", what }
    }
}

impl task::Peer for Node {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn ask(&mut self, flows: &Flows, hear: &mut dyn FnMut(FlowLine)) -> probe::Result<()> {
        self.listen(0, Test::Flows(flows.clone()), hear)
    }

    fn saw(&mut self, hosts: Hosts) {
        self.hosts = Some(hosts);
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// An error of the session in the words of a test.
fn told(error: engine::Error) -> probe::Error {
    match error {
        engine::Error::Refused { peer, refusal } if refusal.fault == Fault::Auth => {
            probe::Error::Refused { peer, why: refusal.reason }
        }
        engine::Error::Refused { peer, refusal } => {
            probe::Error::Far { peer, fault: refusal.fault, why: refusal.reason }
        }
        engine::Error::Broken { peer, source } => probe::Error::Broken { peer, source },
        engine::Error::Silent { peer, seconds } => probe::Error::Silent { peer, seconds },
        other => probe::Error::Protocol { peer: "the node".into(), protocol: "Longhaul", what: other.to_string() },
    }
}

impl Peer for Node {
    fn dial(&mut self, ids: &[u32], order: &Order) -> probe::Result<Vec<(u32, TcpStream)>> {
        // Streams are a session's once the node has answered in it.
        self.limits()?;
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
        self.listen(self.first, Test::Tcp(order.clone()), hear)
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
        assert_eq!(Target::parse("stamp://192.0.2.1").unwrap(), Target::Stamp(at("192.0.2.1", 862)));
        assert!(Target::node("stamp://192.0.2.1", "path").is_err());
        assert_eq!(Target::parse("dtn.example.org").unwrap(), Target::Node(at("dtn.example.org", 7411)));
        assert_eq!(Target::parse("lh://dtn.example.org:9/").unwrap(), Target::Node(at("dtn.example.org", 9)));
        for wrong in ["", "lh://host/export/path", "ftp://host", "iperf3://", "host:99999"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}

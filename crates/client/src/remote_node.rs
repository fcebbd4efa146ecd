//! A node as the peer of a test: implements the peer traits of `probe` over a session of the engine. The command line and the
//! tests that a node makes for its clients both use it.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use engine::session::Session;
use model::Fault;
use model::v1::probe::host::Hosts;
use model::v1::probe::tcp::{Order, TcpSampleLine};
use model::v1::probe::{self as v1, Claim, ClaimLine, Disk, DiskLine, FlowLine, Flows, Limits, Test, disk};
use model::v1::tune;
use probe::tcp::Peer;
use probe::{Stop, task};
use serde::de::DeserializeOwned;
use wire::frame::Request;

/// How often a test that waits for the node checks whether it was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A node as the peer of a test.
pub struct RemoteNode {
    session: Session,
    address: SocketAddr,
    name: String,
    /// The number of the first stream of the test.
    first_stream: u32,
    /// Load and settings of both hosts during the last test over flows.
    hosts: Option<Hosts>,
    /// Bytes that the node may send in one test, and the connection to shut when it sends more.
    received_max: Option<(usize, TcpStream)>,
}

impl RemoteNode {
    /// A peer over a session that is logged in. Datagrams and streams of the tests go to `address`.
    pub fn new(session: Session, address: SocketAddr, name: String) -> RemoteNode {
        RemoteNode { session, address, name, first_stream: 0, hosts: None, received_max: None }
    }

    /// Limits the bytes that the node may send in one test; the connection is shut when it sends more.
    ///
    /// # Errors
    /// The host cannot duplicate the connection's descriptor.
    pub fn limit_received_bytes(&mut self, bytes: usize) -> std::io::Result<()> {
        self.received_max = Some((bytes, self.session.connection_handle()?));
        Ok(())
    }

    /// Load and settings of both hosts during the last test over flows, if there was one.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref()
    }

    /// Requests a test, and passes each line of the node to `on_line` until the test is over.
    fn run_test<T: DeserializeOwned>(
        &mut self,
        first_stream: u32,
        test: Test,
        on_line: &mut dyn FnMut(T),
    ) -> probe::Result<()> {
        let request = v1::TestRequest { first_stream, test };
        let text = serde_json::to_string(&request).map_err(|e| probe::Error::Order(e.to_string()))?;
        let received_max = &self.received_max;
        let mut received_bytes = 0;
        let mut parse_error = None;
        let result = self.session.query_by_line(Request::Probe(text), &mut |line| {
            received_bytes += line.len();
            match received_max {
                Some((bytes, connection)) if received_bytes > *bytes => drop(connection.shutdown(Shutdown::Both)),
                _ => match serde_json::from_str(&line) {
                    Ok(line) => on_line(line),
                    Err(error) => parse_error = Some(error),
                },
            }
        });
        if let Some((bytes, _)) = received_max.as_ref().filter(|(bytes, _)| received_bytes > *bytes) {
            let what = format!("it sends more than {bytes} bytes in one test; choose longer intervals");
            return Err(probe::Error::Protocol { peer: self.name.clone(), protocol: "the test", what });
        }
        result.map_err(test_error)?;
        match parse_error {
            Some(error) => {
                let what = format!("a line cannot be parsed: {error}");
                Err(probe::Error::Protocol { peer: self.name.clone(), protocol: "the test", what })
            }
            None => Ok(()),
        }
    }

    /// The bounds within which the node runs tests.
    ///
    /// # Errors
    /// The session breaks, or the node refuses or does not answer.
    pub fn limits(&mut self) -> probe::Result<Limits> {
        let mut limits = None;
        self.run_test(0, Test::Limits, &mut |line| limits = Some(line))?;
        limits.ok_or_else(|| self.no_result())
    }

    /// Claims the node for a test, or ends a claim. A node whose version has no claims counts as having granted it.
    ///
    /// # Errors
    /// The session breaks, or the node does not answer.
    pub fn claim(&mut self, claim: Claim) -> probe::Result<ClaimLine> {
        let mut answer = None;
        match self.run_test(0, Test::Claim(claim), &mut |line| answer = Some(line)) {
            Err(probe::Error::Far { fault: Fault::Config, .. }) => Ok(ClaimLine::Granted),
            result => result.and_then(|()| answer.ok_or_else(|| self.no_result())),
        }
    }

    /// Audits the settings of the node's host: one line for the host, then one for each finding.
    ///
    /// # Errors
    /// The session breaks, or the node refuses or does not answer.
    pub fn audit(&mut self, ask: &tune::AuditRequest) -> probe::Result<Vec<serde_json::Value>> {
        let mut lines = Vec::new();
        self.run_test(0, Test::Audit(ask.clone()), &mut |line| lines.push(line))?;
        if lines.is_empty() { Err(self.no_result()) } else { Ok(lines) }
    }

    /// Tests the disk below an export; `note` receives each point. A separate thread reads the session, since a request cannot be
    /// ended before its answer except by the end of the session. A test that is stopped is left to that thread, which ends with the
    /// program; the node then ends the test and removes its files.
    ///
    /// # Errors
    /// The test was stopped or failed, the session breaks, or the host gives no thread.
    pub fn disk(mut self, ask: Disk, stop: &Stop, note: &mut dyn FnMut(&disk::Point)) -> probe::Result<disk::Report> {
        let peer = self.name.clone();
        let mut outcome = Err(self.no_result());
        let (lines, received) = channel();
        let listen = move || {
            let result = self.run_test(0, Test::Disk(ask), &mut |line: DiskLine| drop(lines.send(Ok(line))));
            if let Err(error) = result {
                // There is no receiver any more where the test was stopped.
                let _ = lines.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("probe-disk".into()).spawn(listen);
        thread.map_err(|source| probe::Error::Host { doing: "start a thread that listens to the node", source })?;
        while !stop.is_stopped() {
            match received.recv_timeout(LOOK_EVERY) {
                Ok(Ok(DiskLine::Point(point))) => note(&point),
                Ok(Ok(DiskLine::Done(report))) => outcome = Ok(*report),
                Ok(Ok(DiskLine::Failed(v1::Failure { fault, why }))) => {
                    outcome = Err(probe::Error::Far { peer: peer.clone(), fault, why });
                }
                Ok(Ok(DiskLine::Working)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(error)) => return Err(error),
                Err(RecvTimeoutError::Disconnected) => return outcome,
            }
        }
        Err(probe::Error::Interrupted)
    }

    fn no_result(&self) -> probe::Error {
        let what = "it does not report the result of the test".into();
        probe::Error::Protocol { peer: self.name.clone(), protocol: "the test", what }
    }
}

impl task::Peer for RemoteNode {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn ask(&mut self, flows: &Flows, on_line: &mut dyn FnMut(FlowLine)) -> probe::Result<()> {
        self.run_test(0, Test::Flows(flows.clone()), on_line)
    }

    fn record_hosts(&mut self, hosts: Hosts) {
        self.hosts = Some(hosts);
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Converts an error of the session into one of a test.
fn test_error(error: engine::Error) -> probe::Error {
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

impl Peer for RemoteNode {
    fn dial(&mut self, ids: &[u32], order: &Order) -> probe::Result<Vec<(u32, TcpStream)>> {
        // The node accepts streams only after it has answered a request of the session.
        self.limits()?;
        let mut streams = Vec::new();
        for id in ids {
            let socket = probe::dial(self.address, order)?;
            let number = self.session.join(&socket).map_err(test_error)?;
            if streams.is_empty() {
                self.first_stream = number;
            }
            streams.push((*id, socket));
        }
        Ok(streams)
    }

    fn ask(&mut self, order: &Order, on_line: &mut dyn FnMut(TcpSampleLine)) -> probe::Result<()> {
        self.run_test(self.first_stream, Test::Tcp(order.clone()), on_line)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

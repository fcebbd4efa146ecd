//! A node as the peer of a test: implements what `probe` asks of a peer over a session of the engine. The command line and the
//! tests that a node makes for its clients both use it.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use engine::session::Session;
use model::Fault;
use model::v1::probe::host::Hosts;
use model::v1::probe::tcp::{Order, TcpSampleLine};
use model::v1::probe::{self as v1, Ask, Claim, ClaimLine, Disk, DiskLine, FlowLine, Flows, Limits, Test, disk};
use model::v1::tune;
use probe::tcp::Peer;
use probe::{Stop, task};
use serde::de::DeserializeOwned;
use wire::frame::Request;

/// How often a test that waits for the node checks whether it was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A node as the peer of a test.
pub struct FarNode {
    session: Session,
    address: SocketAddr,
    name: String,
    /// The number of the first stream of the test.
    first: u32,
    /// Load and settings of both hosts during the last test over flows.
    hosts: Option<Hosts>,
    /// Bytes that the node may send in one test, and the connection to shut when it sends more.
    most_words: Option<(usize, TcpStream)>,
}

impl FarNode {
    /// A peer over a session that is logged in. Datagrams and streams of the tests go to `address`.
    pub fn new(session: Session, address: SocketAddr, name: String) -> FarNode {
        FarNode { session, address, name, first: 0, hosts: None, most_words: None }
    }

    /// Limits the bytes that the node may send in one test; the connection is shut when it sends more.
    ///
    /// # Errors
    /// The host cannot duplicate the connection's descriptor.
    pub fn hear_at_most(&mut self, bytes: usize) -> std::io::Result<()> {
        self.most_words = Some((bytes, self.session.hold()?));
        Ok(())
    }

    /// Load and settings of both hosts during the last test over flows, if there was one.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref()
    }

    /// Requests a test, and passes each line of the node to `hear` until the test is over.
    fn listen<T: DeserializeOwned>(
        &mut self,
        first_stream: u32,
        test: Test,
        hear: &mut dyn FnMut(T),
    ) -> probe::Result<()> {
        let ask = Ask { first_stream, test };
        let text = serde_json::to_string(&ask).map_err(|e| probe::Error::Order(e.to_string()))?;
        let (mut garbled, mut words, most) = (None, 0, &self.most_words);
        let heard = self.session.listen(Request::Probe(text), &mut |line| {
            words += line.len();
            match most {
                Some((bytes, connection)) if words > *bytes => drop(connection.shutdown(Shutdown::Both)),
                _ => match serde_json::from_str(&line) {
                    Ok(line) => hear(line),
                    Err(error) => garbled = Some(error),
                },
            }
        });
        if let Some((bytes, _)) = most.as_ref().filter(|(bytes, _)| words > *bytes) {
            let what = format!("it says more than {bytes} bytes in one test; longer intervals make fewer");
            return Err(probe::Error::Protocol { peer: self.name.clone(), protocol: "the test", what });
        }
        heard.map_err(told)?;
        match garbled {
            Some(error) => {
                let what = format!("a line that nobody understands: {error}");
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
        self.listen(0, Test::Limits, &mut |line| limits = Some(line))?;
        limits.ok_or_else(|| self.mute())
    }

    /// Claims the node for a test, or ends a claim. A node of a version that knows no claims grants each.
    ///
    /// # Errors
    /// The session breaks, or the node does not answer.
    pub fn claim(&mut self, claim: Claim) -> probe::Result<ClaimLine> {
        let mut answer = None;
        match self.listen(0, Test::Claim(claim), &mut |line| answer = Some(line)) {
            Err(probe::Error::Far { fault: Fault::Config, .. }) => Ok(ClaimLine::Granted),
            told => told.and_then(|()| answer.ok_or_else(|| self.mute())),
        }
    }

    /// Audits the settings of the node's host: one line for the host, then one for each finding.
    ///
    /// # Errors
    /// The session breaks, or the node refuses or does not answer.
    pub fn audit(&mut self, ask: &tune::Ask) -> probe::Result<Vec<serde_json::Value>> {
        let mut lines = Vec::new();
        self.listen(0, Test::Audit(ask.clone()), &mut |line| lines.push(line))?;
        if lines.is_empty() { Err(self.mute()) } else { Ok(lines) }
    }

    /// Tests the disk below an export; `note` receives each point. A thread of its own reads the session, since only the end of the
    /// session ends a request before its answer. A test that is stopped is left to that thread, which ends with the program;
    /// the node then ends the test and removes its files.
    ///
    /// # Errors
    /// The test was stopped or failed, the session breaks, or the host gives no thread.
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

impl task::Peer for FarNode {
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

/// Converts an error of the session into one of a test.
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

impl Peer for FarNode {
    fn dial(&mut self, ids: &[u32], order: &Order) -> probe::Result<Vec<(u32, TcpStream)>> {
        // The node accepts streams only after it has answered a request of the session.
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

    fn ask(&mut self, order: &Order, hear: &mut dyn FnMut(TcpSampleLine)) -> probe::Result<()> {
        self.listen(self.first, Test::Tcp(order.clone()), hear)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

//! One test, from its session to its report.

use model::Refusal;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use auth::Access;
use client::RemoteNode;
use engine::Session;
use model::fault::{Blame, Fault, with_causes};
use model::v1::node::ProbeOrder;
use model::v1::probe::{Claim, ClaimLine, ProbeDocument};
use probe::{Stop, task, udp};
use serde::Serialize;

use super::order::{self, PlannedTest, TestPlan};
use crate::access::AccessControl;
use crate::secrets::Secrets;
use crate::session_pool::Destination;
use crate::transfers::Transfers;

/// How often a running test is checked.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long a test may last beyond its order: for messages on their way, and streams that drain.
const GRACE: Duration = Duration::from_secs(60);
/// How long a stopped test may take to end, before the connection is closed.
const HANG_UP: Duration = Duration::from_secs(5);
/// Bytes of the other node's messages in one test.
const MESSAGES_BYTES_MAX: usize = 16 << 20;
/// Bytes of a report, and characters of a failure's reason, at most.
const REPORT_BYTES_MAX: usize = 8 << 20;
const WHY_CHARS_MAX: usize = 2_000;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestFailure {
    pub fault: Fault,
    pub why: String,
    /// The test did not begin, because the other node is busy.
    pub is_busy: bool,
}

impl TestFailure {
    pub fn new(fault: Fault, why: String) -> TestFailure {
        TestFailure { fault, why, is_busy: false }
    }

    fn of(error: &(impl Blame + std::error::Error)) -> TestFailure {
        TestFailure::new(error.fault(), with_causes(error))
    }
}

impl From<Refusal> for TestFailure {
    fn from(refusal: Refusal) -> TestFailure {
        TestFailure::new(refusal.fault, refusal.reason)
    }
}

impl From<probe::Error> for TestFailure {
    fn from(error: probe::Error) -> TestFailure {
        TestFailure::of(&error)
    }
}

/// A test that runs.
pub(crate) struct TestRun {
    pub order: Arc<ProbeOrder>,
    pub access: Access,
    pub stop: Stop,
    /// The claim on the other node: meanwhile it refuses other tests that claim it.
    pub claim: Option<Claim>,
}

impl TestRun {
    /// Runs the test to its end. The report or reason is stored and shown, so the key is removed from the other node's texts.
    ///
    /// # Errors
    /// The test failed, or the other node is busy.
    pub fn run(&self, rules: &AccessControl, transfers: &Transfers) -> Result<String, TestFailure> {
        let key = self.order.credentials.as_ref().and_then(|given| given.key.as_ref());
        let secrets = Secrets::of(key.into_iter());
        match self.run_plan(rules, transfers) {
            Ok(report) => Ok(secrets.hide(&report, &[])),
            Err(failed) => {
                let why = secrets.hide(&failed.why, &[]).chars().take(WHY_CHARS_MAX).collect();
                Err(TestFailure { why, ..failed })
            }
        }
    }

    fn run_plan(&self, rules: &AccessControl, transfers: &Transfers) -> Result<String, TestFailure> {
        // The grant may have been revoked while the test waited.
        if !rules.may_continue(&self.access) {
            return Err(Refusal::new(Fault::Auth, "the access that ordered this test is no longer valid").into());
        }
        let plan = order::read(&self.order)?;
        let destination = Destination { to: plan.to.clone(), node: plan.node.0, plain: false, congestion: None };
        let session = transfers.session_for_test(rules, &destination, &plan.keys);
        let session = session.map_err(|error| TestFailure::of(&error))?;
        self.run_over_session(&plan, session)
    }

    /// Runs the test over a session, which is closed if the other node does not end in time.
    fn run_over_session(&self, plan: &TestPlan, session: Session) -> Result<String, TestFailure> {
        let local = |error: std::io::Error| TestFailure::new(Fault::Local, error.to_string());
        let address = session
            .peer_address()
            .ok_or_else(|| TestFailure::new(Fault::Path, format!("the connection to {} failed at once", plan.to)))?;
        let socket = session.connection_handle().map_err(local)?;
        let mut node = RemoteNode::new(session, address, plan.to.to_string());
        node.limit_received_bytes(MESSAGES_BYTES_MAX).map_err(local)?;
        let (ends, over) = channel::<()>();
        std::thread::scope(|scope| {
            let test = scope.spawn(move || {
                // Dropped at the end of this thread, even by a panic, which ends the loop of `watch`.
                let _ends = ends;
                self.run_with_claim(&plan.test, &mut node)
            });
            let is_late = self.watch(&over, &socket, plan.duration + GRACE);
            let outcome = test.join().map_err(|_| TestFailure::new(Fault::Bug, "the test's thread panicked".into()))?;
            match outcome {
                Err(_) if is_late => {
                    let why = format!("the test with {} did not end in time", plan.to);
                    Err(TestFailure::new(Fault::Peer, why))
                }
                outcome => outcome,
            }
        })
    }

    /// Waits until the test is over; returns whether it was late.
    fn watch(&self, over: &Receiver<()>, socket: &TcpStream, within: Duration) -> bool {
        let began = Instant::now();
        let mut stopped_at = None;
        let mut is_late = false;
        while over.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if began.elapsed() >= within && !self.stop.is_stopped() {
                is_late = true;
                self.stop.stop();
            }
            if self.stop.is_stopped() && stopped_at.get_or_insert_with(Instant::now).elapsed() >= HANG_UP {
                // The connection may be closed already.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        is_late
    }

    /// Claims the other node, if the run has a claim, and runs the test.
    fn run_with_claim(&self, what: &PlannedTest, node: &mut RemoteNode) -> Result<String, TestFailure> {
        let Some(claim) = self.claim else { return self.test(what, node) };
        if let ClaimLine::Busy { why } = node.claim(claim)? {
            return Err(TestFailure { is_busy: true, ..TestFailure::new(Fault::Peer, why) });
        }
        let outcome = self.test(what, node);
        // If the session has failed, the claim expires.
        let _ = node.claim(Claim { seconds: 0.0, ..claim });
        outcome
    }

    fn test(&self, what: &PlannedTest, node: &mut RemoteNode) -> Result<String, TestFailure> {
        let stop = &self.stop;
        match what {
            PlannedTest::Tcp(order) => {
                let report = probe::tcp::test(order, node, stop, &mut |_| {})?;
                self.report(&report, None)
            }
            PlannedTest::Latency(order) => {
                let latency = task::latency(node, order, stop)?;
                self.report(&latency, Some(node))
            }
            PlannedTest::Udp { order, is_forward } => {
                let test = if *is_forward { task::send } else { task::receive };
                let point = test(node, order, &udp::RunProgress::default(), stop)?;
                self.report(&point, Some(node))
            }
            PlannedTest::Path(order) => {
                let routes = task::routes(node, order, stop)?;
                self.report(&routes, Some(node))
            }
            PlannedTest::Limits => {
                let limits = node.limits()?;
                self.report(&limits, None)
            }
        }
    }

    /// The line that `longhaul probe --json` would print.
    fn report<T: Serialize>(&self, what: &T, node: Option<&mut RemoteNode>) -> Result<String, TestFailure> {
        let hosts = node.and_then(|node| node.hosts().cloned());
        let document = ProbeDocument::of("result", self.order.test.word(), &self.order.target, what).on(hosts.as_ref());
        let text = serde_json::to_string(&document).map_err(|e| TestFailure::new(Fault::Bug, e.to_string()))?;
        if text.len() > REPORT_BYTES_MAX {
            let why = format!("the report has more than {REPORT_BYTES_MAX} bytes; a shorter test has a shorter one");
            return Err(TestFailure::new(Fault::Config, why));
        }
        Ok(text)
    }
}

//! One test, from its session to its report.

use model::Refusal;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use auth::Access;
use client::FarNode;
use engine::Session;
use model::fault::{Blame, Fault, with_causes};
use model::v1::node::ProbeOrder;
use model::v1::probe::{Claim, ClaimLine, Said};
use probe::{Stop, task, udp};
use serde::Serialize;

use super::order::{self, Plan, What};
use crate::access::AccessControl;
use crate::secrets::Secrets;
use crate::transfers::Transfers;
use crate::warm::Destination;

/// How often one that runs is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// What a test may last beyond its order: words on their way, streams that drain.
const GRACE: Duration = Duration::from_secs(60);
/// How long a test that is to end may take for that, before the other node is hung up on.
const HANG_UP: Duration = Duration::from_secs(5);
/// What the other node may say in one test.
const WORDS_BYTES_MAX: usize = 16 << 20;
/// The longest report, and the longest reason why there is none.
const REPORT_BYTES_MAX: usize = 8 << 20;
const WHY_CHARS_MAX: usize = 2_000;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub fault: Fault,
    pub why: String,
    /// It did not begin: the other node has something else to do.
    pub is_busy: bool,
}

impl Failed {
    pub fn new(fault: Fault, why: String) -> Failed {
        Failed { fault, why, is_busy: false }
    }

    fn of(error: &(impl Blame + std::error::Error)) -> Failed {
        Failed::new(error.fault(), with_causes(error))
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::new(refusal.fault, refusal.reason)
    }
}

impl From<probe::Error> for Failed {
    fn from(error: probe::Error) -> Failed {
        Failed::of(&error)
    }
}

/// A test whose turn it is.
pub(crate) struct Run {
    pub order: Arc<ProbeOrder>,
    pub access: Access,
    pub stop: Stop,
    /// What the other node is asked for first, so that no other test with a claim runs there meanwhile.
    pub claim: Option<Claim>,
}

impl Run {
    /// Runs it to its end. What comes of it is kept and shown: the other node's words in it without the key to it.
    pub fn run(&self, rules: &AccessControl, transfers: &Transfers) -> Result<String, Failed> {
        let key = self.order.credentials.as_ref().and_then(|given| given.key.as_ref());
        let secrets = Secrets::of(key.into_iter());
        match self.found(rules, transfers) {
            Ok(report) => Ok(secrets.hide(&report, &[])),
            Err(failed) => {
                let why = secrets.hide(&failed.why, &[]).chars().take(WHY_CHARS_MAX).collect();
                Err(Failed { why, ..failed })
            }
        }
    }

    fn found(&self, rules: &AccessControl, transfers: &Transfers) -> Result<String, Failed> {
        // Whoever ordered it may have been shut out while it waited.
        if !rules.may_go_on(&self.access) {
            return Err(Refusal::new(Fault::Auth, "what this test was ordered with is not valid any more").into());
        }
        let plan = order::read(&self.order)?;
        let there = Destination { to: plan.to.clone(), node: plan.node.0, plain: false, congestion: None };
        let session = transfers.session_for_test(rules, &there, &plan.keys);
        let session = session.map_err(|error| Failed::of(&error))?;
        self.watched(&plan, session)
    }

    /// Runs it over a session, which is hung up on where the other node does not let it end.
    fn watched(&self, plan: &Plan, session: Session) -> Result<String, Failed> {
        let local = |error: std::io::Error| Failed::new(Fault::Local, error.to_string());
        let address = session
            .peer_address()
            .ok_or_else(|| Failed::new(Fault::Path, format!("the connection to {} broke at once", plan.to)))?;
        let hold = session.hold().map_err(local)?;
        let mut node = FarNode::new(session, address, plan.to.to_string());
        node.hear_at_most(WORDS_BYTES_MAX).map_err(local)?;
        let (ends, over) = channel::<()>();
        std::thread::scope(|scope| {
            let test = scope.spawn(move || {
                // Heard when it goes out of scope, however that comes.
                let _ends = ends;
                self.claimed(&plan.what, &mut node)
            });
            let is_late = self.watch(&over, &hold, plan.lasts + GRACE);
            let found = test.join().map_err(|_| Failed::new(Fault::Bug, "the test broke off".into()))?;
            match found {
                Err(_) if is_late => {
                    let why = format!("the test with {} did not end in time", plan.to);
                    Err(Failed::new(Fault::Peer, why))
                }
                found => found,
            }
        })
    }

    /// Looks on until it is over; whether it was late.
    fn watch(&self, over: &Receiver<()>, hold: &TcpStream, within: Duration) -> bool {
        let (began, mut ends_since, mut is_late) = (Instant::now(), None, false);
        while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if began.elapsed() >= within && !self.stop.is_stopped() {
                is_late = true;
                self.stop.stop();
            }
            if self.stop.is_stopped() && ends_since.get_or_insert_with(Instant::now).elapsed() >= HANG_UP {
                // It may be gone by itself by now.
                let _ = hold.shutdown(Shutdown::Both);
            }
        }
        is_late
    }

    /// Runs it once the other node is claimed, where it is to be.
    fn claimed(&self, what: &What, node: &mut FarNode) -> Result<String, Failed> {
        let Some(claim) = self.claim else { return self.test(what, node) };
        if let ClaimLine::Busy { why } = node.claim(claim)? {
            return Err(Failed { is_busy: true, ..Failed::new(Fault::Peer, why) });
        }
        let found = self.test(what, node);
        // It ends by itself where the session is broken.
        let _ = node.claim(Claim { seconds: 0.0, ..claim });
        found
    }

    fn test(&self, what: &What, node: &mut FarNode) -> Result<String, Failed> {
        let stop = &self.stop;
        match what {
            What::Tcp(order) => {
                let report = probe::tcp::test(order, node, stop, &mut |_| {})?;
                self.report(&report, None)
            }
            What::Latency(order) => {
                let latency = task::latency(node, order, stop)?;
                self.report(&latency, Some(node))
            }
            What::Udp { order, up } => {
                let test = if *up { task::send } else { task::receive };
                let point = test(node, order, &udp::Watch::default(), stop)?;
                self.report(&point, Some(node))
            }
            What::Path(order) => {
                let routes = task::routes(node, order, stop)?;
                self.report(&routes, Some(node))
            }
            What::Limits => {
                let limits = node.limits()?;
                self.report(&limits, None)
            }
        }
    }

    /// The line that `longhaul probe --json` would print.
    fn report<T: Serialize>(&self, what: &T, node: Option<&mut FarNode>) -> Result<String, Failed> {
        let hosts = node.and_then(|node| node.hosts().cloned());
        let said = Said::of("result", self.order.test.word(), &self.order.target, what).on(hosts.as_ref());
        let text = serde_json::to_string(&said).map_err(|e| Failed::new(Fault::Bug, e.to_string()))?;
        if text.len() > REPORT_BYTES_MAX {
            let why = format!("the report has more than {REPORT_BYTES_MAX} bytes; a shorter test has a shorter one");
            return Err(Failed::new(Fault::Config, why));
        }
        Ok(text)
    }
}

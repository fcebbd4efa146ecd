//! Tests from this node to another node that clients order: the half at this end. Tests that clients run with this node are in
//! `crate::test_service`, and the dialling of other nodes in `crate::transfers`.
//!
//! One test runs at a time: two would disturb each other. Everything is in memory, within bounds; a restart of the node forgets
//! all tests.

mod order;
mod run;
mod table;

use model::Refusal;
use std::sync::Arc;

use auth::Access;
use model::fault::Fault;
use model::id::Uuid;
use model::v1::node::{Probe, ProbeOrder, ProbeStage};
use model::v1::probe::Claim;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::order::{SECONDS_MAX, path_order, tcp_order};
pub(crate) use self::run::{TestFailure, TestRun};
use self::table::Table;
pub(crate) use self::table::UNENDED_MAX;
use crate::access::AccessControl;
use crate::claims::TestClaims;
use crate::clock::now_text;
use crate::order_table::PageQuery;
use crate::shutdown::Shutdown;
use crate::transfers::{Transfers, Unaccepted};

/// The test orders of a node.
pub(crate) struct TestOrders {
    access: Arc<AccessControl>,
    transfers: Arc<Transfers>,
    claims: Arc<TestClaims>,
    shutdown: Shutdown,
    table: Mutex<Table>,
}

/// Checks an order of a test without accepting it.
///
/// # Errors
/// The reason why the order would be refused.
pub(crate) fn check(order: &ProbeOrder) -> Result<(), Refusal> {
    order::read(order).map(drop)
}

fn stopping() -> Refusal {
    Refusal::new(Fault::Path, "the node is stopping")
}

impl TestOrders {
    /// No test orders yet; other nodes are dialled as for `transfers`.
    pub fn new(
        access: Arc<AccessControl>,
        transfers: Arc<Transfers>,
        claims: Arc<TestClaims>,
        shutdown: Shutdown,
    ) -> TestOrders {
        TestOrders { access, transfers, claims, shutdown, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Ends all tests, because the node stops.
    pub fn stop(&self) {
        self.table().stop_all();
    }

    /// Accepts an order; returns the test, and whether it is new. The same order again is the same test.
    ///
    /// # Errors
    /// The node stops, the principal lacks a right, the order is invalid, its id is taken, or too many tests wait.
    pub fn accept(self: &Arc<Self>, access: &Access, order: ProbeOrder) -> Result<(Probe, bool), Unaccepted> {
        if self.shutdown.has_begun() {
            return Err(stopping().into());
        }
        self.access.may_order_tests(access)?;
        let plan = order::read(&order)?;
        order::within(&plan, self.access.policy().third_party.max_streams.into())?;
        let id = order.id;
        let mut table = self.table();
        if let Some(known) = table.orders.get(&id) {
            let is_same =
                known.holder == access.holder() && known.order.without_credentials() == order.without_credentials();
            return if is_same { Ok((known.show(), false)) } else { Err(Unaccepted::IdTaken) };
        }
        if table.orders.is_full_for(access.holder()) {
            let why = "too many tests wait on this node; order again when some have ended";
            return Err(Unaccepted::Full(why.to_owned()));
        }
        table.insert(access.clone(), order, now_text());
        drop(table);
        self.start_next();
        let shown = self.get(access.holder(), &id).ok_or_else(stopping)?;
        Ok((shown, true))
    }

    /// Starts the next test, if none runs.
    fn start_next(self: &Arc<Self>) {
        while !self.shutdown.has_begun() {
            let Some((id, run)) = self.table().start_next(now_text()) else { return };
            let orders = Arc::clone(self);
            let work = move || {
                // A test of a schedule that has claimed this node ends first.
                let claim = Claim { token: *id.as_bytes(), seconds: SECONDS_MAX, waits_for_transfers: false };
                orders.claims.wait(&claim, &orders.shutdown);
                let outcome = run.run(&orders.access, &orders.transfers);
                orders.claims.claim(&Claim { seconds: 0.0, ..claim }, None);
                log_end(&run, &outcome);
                orders.table().end(&id, outcome, now_text());
                orders.start_next();
            };
            match std::thread::Builder::new().name("test-order".into()).spawn(work) {
                Ok(_) => return,
                Err(error) => {
                    let why = format!("the node has no thread for it: {error}");
                    self.table().end(&id, Err(TestFailure::new(Fault::Local, why)), now_text());
                }
            }
        }
    }

    /// A test of a holder, with its report.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<Probe> {
        self.table().orders.of(holder, id).map(table::Entry::show)
    }

    /// A page of a holder's tests, and the id that the next page begins after; none if the test that this page begins after is
    /// unknown.
    pub fn page(&self, holder: &str, query: &PageQuery<ProbeStage>) -> Option<(Vec<Probe>, Option<Uuid>)> {
        self.table().page(holder, query)
    }

    /// Ends a test. One that has ended stays as it ended.
    pub fn cancel(&self, holder: &str, id: &Uuid) -> Option<Probe> {
        self.table().cancel(holder, id, now_text())
    }
}

fn log_end(run: &TestRun, result: &Result<String, TestFailure>) {
    let (outcome, error) = match result {
        Ok(_) => ("done", None),
        Err(failed) => ("failed", Some(failed.why.as_str())),
    };
    tracing::info!(
        target: "access", who = run.access.who(), event = "test-order", probe = %run.order.id, test = run.order.test.word(),
        to = run.order.target, outcome, error,
    );
}

#[cfg(test)]
mod tests;

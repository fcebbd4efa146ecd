//! The table of tests: an `OrderTable` that takes holders in turn, with a stop and a report for each test. Time is an argument;
//! threads and sessions are elsewhere.

use std::sync::Arc;

use auth::Access;
use model::id::Uuid;
use model::v1::node::{Probe, ProbeOrder, ProbeStage};
use probe::Stop;

use super::run::{TestFailure, TestRun};
use crate::holder_bound::HolderBound;
use crate::order_table::{OrderEntry, OrderTable, PageQuery};

/// Tests that have not ended: of one holder, and of all.
pub(crate) const UNENDED_MAX: HolderBound = HolderBound { each: 16, all: 64 };
/// Ended tests that are remembered; the oldest of the holder with the most are forgotten first.
const REMEMBERED_MAX: usize = 1_000;
/// Bytes of all their reports, within which they are remembered.
const REPORTS_BYTES_MAX: usize = 64 << 20;

/// A test.
pub(super) struct Entry {
    pub holder: String,
    /// The order, with its secrets until the test has ended.
    pub order: Arc<ProbeOrder>,
    /// The access of the principal that ordered it, until the test has ended.
    access: Option<Access>,
    /// The test as it is shown, without its report.
    base: Probe,
    report: Option<Arc<str>>,
    stop: Stop,
    is_cancelled: bool,
}

impl OrderEntry for Entry {
    const RUNNING_MAX: HolderBound = HolderBound { each: 1, all: 1 };
    const UNENDED_MAX: HolderBound = UNENDED_MAX;

    fn id(&self) -> Uuid {
        self.base.id
    }

    fn holder(&self) -> &str {
        &self.holder
    }
}

impl Entry {
    /// The test as it is shown now.
    pub fn show(&self) -> Probe {
        let report = self.report.as_ref().and_then(|text| serde_json::from_str(text).ok());
        Probe { report, ..self.base.clone() }
    }

    /// Ends the test and removes its secrets.
    fn end(&mut self, state: ProbeStage, at: String) {
        self.base.state = state;
        self.base.ended = Some(at);
        self.order = Arc::new(self.order.without_credentials());
        self.access = None;
    }
}

/// The tests of a node.
#[derive(Default)]
pub(super) struct Table {
    pub orders: OrderTable<Entry>,
    /// The holder whose test ran last.
    last: String,
}

impl Table {
    /// Adds a test behind all others.
    pub fn insert(&mut self, access: Access, order: ProbeOrder, created: String) {
        let (id, target, test) = (order.id, order.target.clone(), order.test.clone());
        self.orders.insert(Entry {
            holder: access.holder().to_owned(),
            order: Arc::new(order),
            access: Some(access),
            base: Probe { id, target, test, created, ..Probe::default() },
            report: None,
            stop: Stop::default(),
            is_cancelled: false,
        });
    }

    /// Starts the next test, if none runs: the first that is not of the last test's holder, or else the first.
    pub fn start_next(&mut self, now: String) -> Option<(Uuid, TestRun)> {
        let id = self.orders.start_next(|entry| entry.holder != self.last)?;
        let entry = self.orders.get_mut(&id)?;
        let access = entry.access.clone()?;
        entry.base.state = ProbeStage::Running;
        entry.base.started = Some(now);
        self.last.clone_from(&entry.holder);
        Some((id, TestRun { order: Arc::clone(&entry.order), access, stop: entry.stop.clone(), claim: None }))
    }

    /// Ends the test that ran.
    pub fn end(&mut self, id: &Uuid, outcome: Result<String, TestFailure>, now: String) {
        let Some(entry) = self.orders.get_mut(id) else { return };
        match outcome {
            Ok(report) => {
                entry.end(ProbeStage::Done, now);
                entry.report = Some(report.into());
            }
            Err(_) if entry.is_cancelled => entry.end(ProbeStage::Cancelled, now),
            Err(TestFailure { fault, why, .. }) => {
                entry.end(ProbeStage::Failed, now);
                entry.base.fault = Some(fault.word().to_owned());
                entry.base.error = Some(why);
            }
        }
        self.remember(id);
    }

    /// Remembers an ended test with its report, and forgets older ones beyond the bounds.
    fn remember(&mut self, id: &Uuid) {
        let report = self.orders.get(id).and_then(|entry| entry.report.as_ref());
        self.orders.end(id, report.map_or(0, |report| report.len()));
        self.orders.forget_beyond(REMEMBERED_MAX, REPORTS_BYTES_MAX);
    }

    /// Cancels a test; one that waits ends at once.
    pub fn cancel(&mut self, holder: &str, id: &Uuid, now: String) -> Option<Probe> {
        let entry = self.orders.of_mut(holder, id)?;
        match entry.base.state {
            ProbeStage::Queued => entry.end(ProbeStage::Cancelled, now),
            ProbeStage::Running => {
                entry.is_cancelled = true;
                entry.stop.stop();
            }
            _ => {}
        }
        let shown = entry.show();
        if shown.state.is_last() {
            self.remember(id);
        }
        Some(shown)
    }

    /// Stops all tests.
    pub fn stop_all(&self) {
        self.orders.unended().for_each(|entry| entry.stop.stop());
    }

    /// A page of a holder's tests, and the id that the next page begins after; none if the test that this page begins after is
    /// unknown.
    pub fn page(&self, holder: &str, query: &PageQuery<ProbeStage>) -> Option<(Vec<Probe>, Option<Uuid>)> {
        let page = self.orders.page(holder, query, |entry| entry.base.clone(), |base| base.state)?;
        Some((page.found, page.next))
    }
}

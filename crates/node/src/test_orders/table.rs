//! The table of tests: an `OrderTable`, and what only tests have. Those are turns that go around among holders, a stop for each, and
//! reports. Time is an argument; threads and sessions are other rooms' affair.

use std::sync::Arc;

use auth::Access;
use model::id::Uuid;
use model::v1::node::{Probe, ProbeOrder, ProbeStage};
use probe::Stop;

use super::run::{Failed, Run};
use crate::order_table::{Asked, OrderEntry, OrderTable};

/// Tests that have not ended: of one who orders, and of all.
pub(crate) const UNENDED_MAX: (usize, usize) = (16, 64);
/// Tests that have ended and are remembered; of whoever has most the oldest go first.
const REMEMBERED_MAX: usize = 1_000;
/// Bytes of all their reports: as soon as there are more, the oldest go as well.
const REPORTS_BYTES_MAX: usize = 64 << 20;

/// One of them.
pub(super) struct Entry {
    pub holder: String,
    /// With its secrets until it has ended.
    pub order: Arc<ProbeOrder>,
    /// Who ordered it, until it has ended.
    access: Option<Access>,
    /// What is told of it, without its report.
    told: Probe,
    report: Option<Arc<str>>,
    stop: Stop,
    is_cancelled: bool,
}

impl OrderEntry for Entry {
    const RUNNING_MAX: (usize, usize) = (1, 1);
    const UNENDED_MAX: (usize, usize) = UNENDED_MAX;

    fn id(&self) -> Uuid {
        self.told.id
    }

    fn holder(&self) -> &str {
        &self.holder
    }
}

impl Entry {
    /// What is told of it now.
    pub fn show(&self) -> Probe {
        let report = self.report.as_ref().and_then(|text| serde_json::from_str(text).ok());
        Probe { report, ..self.told.clone() }
    }

    /// It has ended; its secrets go.
    fn end(&mut self, state: ProbeStage, at: String) {
        (self.told.state, self.told.ended) = (state, Some(at));
        self.order = Arc::new(self.order.without_credentials());
        self.access = None;
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Table {
    pub orders: OrderTable<Entry>,
    /// Whose test ran last.
    last: String,
}

impl Table {
    /// One more, behind all others.
    pub fn insert(&mut self, access: Access, order: ProbeOrder, created: String) {
        let (id, target, test) = (order.id, order.target.clone(), order.test.clone());
        self.orders.insert(Entry {
            holder: access.holder().to_owned(),
            order: Arc::new(order),
            access: Some(access),
            told: Probe { id, target, test, created, ..Probe::default() },
            report: None,
            stop: Stop::default(),
            is_cancelled: false,
        });
    }

    /// Whose turn it is, where none runs: the first that waits of somebody else than the last one, or else the first. It runs from
    /// here on.
    pub fn next_turn(&mut self, now: String) -> Option<(Uuid, Run)> {
        let id = self.orders.next_turn(|entry| entry.holder != self.last)?;
        let entry = self.orders.get_mut(&id)?;
        let access = entry.access.clone()?;
        (entry.told.state, entry.told.started) = (ProbeStage::Running, Some(now));
        self.last.clone_from(&entry.holder);
        Some((id, Run { order: Arc::clone(&entry.order), access, stop: entry.stop.clone(), claim: None }))
    }

    /// The one that ran has ended.
    pub fn end(&mut self, id: &Uuid, found: Result<String, Failed>, now: String) {
        let Some(entry) = self.orders.get_mut(id) else { return };
        match found {
            Ok(report) => {
                entry.end(ProbeStage::Done, now);
                entry.report = Some(report.into());
            }
            Err(_) if entry.is_cancelled => entry.end(ProbeStage::Cancelled, now),
            Err(Failed { fault, why, .. }) => {
                entry.end(ProbeStage::Failed, now);
                (entry.told.fault, entry.told.error) = (Some(fault.word().to_owned()), Some(why));
            }
        }
        self.remember(id);
    }

    /// One that has ended is remembered with its report, and others give way to it.
    fn remember(&mut self, id: &Uuid) {
        let report = self.orders.get(id).and_then(|entry| entry.report.as_ref());
        self.orders.end(id, report.map_or(0, |report| report.len()));
        self.orders.forget_beyond(REMEMBERED_MAX, REPORTS_BYTES_MAX);
    }

    /// Ends one, at once where it waits.
    pub fn cancel(&mut self, holder: &str, id: &Uuid, now: String) -> Option<Probe> {
        let entry = self.orders.of_mut(holder, id)?;
        match entry.told.state {
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

    /// All of them end.
    pub fn stop_all(&self) {
        self.orders.unended().for_each(|entry| entry.stop.stop());
    }

    /// A page of what somebody may know of, and where the next begins; none where the one before it is not known (any more).
    pub fn page(&self, holder: &str, asked: &Asked<ProbeStage>) -> Option<(Vec<Probe>, Option<Uuid>)> {
        let page = self.orders.page(holder, asked, |entry| entry.told.clone(), |told| told.state)?;
        Some((page.found, page.next))
    }
}

//! The table of tests: what waits, what runs, what is remembered, in the order in which they came. It decides whose turn it is.
//! Time is an argument; threads and sessions are other rooms' affair.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use auth::Access;
use model::id::Uuid;
use model::v1::node::{Probe, ProbeOrder, ProbeStage};
use probe::Stop;

use super::run::{Failed, Run};
use crate::remembered::Remembered;
use crate::transfers::Asked;

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

impl Entry {
    fn has_ended(&self) -> bool {
        self.told.state.is_last()
    }

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

/// All of them, by a number that grows in the order in which they came. It is short enough to be looked through.
#[derive(Default)]
pub(super) struct Table {
    entries: BTreeMap<u64, Entry>,
    ids: HashMap<Uuid, u64>,
    numbers: u64,
    is_running: bool,
    /// Whose test ran last.
    last: String,
    ended: Remembered,
}

impl Table {
    pub fn get(&self, id: &Uuid) -> Option<&Entry> {
        self.entries.get(self.ids.get(id)?)
    }

    fn get_mut(&mut self, id: &Uuid) -> Option<&mut Entry> {
        self.entries.get_mut(self.ids.get(id)?)
    }

    /// Whether somebody can order no more for now.
    pub fn is_full_for(&self, holder: &str) -> bool {
        let unended = || self.entries.values().filter(|entry| !entry.has_ended());
        unended().count() >= UNENDED_MAX.1 || unended().filter(|e| e.holder == holder).count() >= UNENDED_MAX.0
    }

    /// One more, behind all others.
    pub fn insert(&mut self, access: Access, order: ProbeOrder, created: String) {
        self.numbers += 1;
        let (id, target, test) = (order.id, order.target.clone(), order.test.clone());
        let entry = Entry {
            holder: access.holder().to_owned(),
            order: Arc::new(order),
            access: Some(access),
            told: Probe { id, target, test, created, ..Probe::default() },
            report: None,
            stop: Stop::default(),
            is_cancelled: false,
        };
        self.ids.insert(id, self.numbers);
        self.entries.insert(self.numbers, entry);
    }

    /// Whose turn it is, where none runs: the first that waits of somebody else than the last one, or else the first. It runs from
    /// here on.
    pub fn next_turn(&mut self, now: String) -> Option<(Uuid, Run)> {
        if self.is_running {
            return None;
        }
        let waits = || self.entries.iter().filter(|(_, entry)| entry.told.state == ProbeStage::Queued);
        let number = *waits().find(|(_, entry)| entry.holder != self.last).or_else(|| waits().next())?.0;
        let entry = self.entries.get_mut(&number)?;
        let access = entry.access.clone()?;
        (entry.told.state, entry.told.started) = (ProbeStage::Running, Some(now));
        self.is_running = true;
        self.last.clone_from(&entry.holder);
        Some((entry.told.id, Run { order: Arc::clone(&entry.order), access, stop: entry.stop.clone() }))
    }

    /// The one that ran has ended.
    pub fn end(&mut self, id: &Uuid, found: Result<String, Failed>, now: String) {
        self.is_running = false;
        let Some(entry) = self.get_mut(id) else { return };
        match found {
            Ok(report) => {
                entry.end(ProbeStage::Done, now);
                entry.report = Some(report.into());
            }
            Err(_) if entry.is_cancelled => entry.end(ProbeStage::Cancelled, now),
            Err(Failed { fault, why }) => {
                entry.end(ProbeStage::Failed, now);
                (entry.told.fault, entry.told.error) = (Some(fault.word().to_owned()), Some(why));
            }
        }
        self.remember(id);
    }

    /// One that has ended counts among those that are remembered, and others give way to it.
    fn remember(&mut self, id: &Uuid) {
        let Some(number) = self.ids.get(id) else { return };
        if let Some(entry) = self.entries.get(number).filter(|entry| entry.has_ended()) {
            self.ended.add(&entry.holder, *number, entry.report.as_ref().map_or(0, |report| report.len()));
        }
        while let Some(number) = self.ended.take_beyond(REMEMBERED_MAX, REPORTS_BYTES_MAX) {
            if let Some(entry) = self.entries.remove(&number) {
                self.ids.remove(&entry.told.id);
            }
        }
    }

    /// Ends one, at once where it waits.
    pub fn cancel(&mut self, holder: &str, id: &Uuid, now: String) -> Option<Probe> {
        let entry = self.get_mut(id).filter(|entry| entry.holder == holder)?;
        match entry.told.state {
            ProbeStage::Queued => entry.end(ProbeStage::Cancelled, now),
            ProbeStage::Running => {
                entry.is_cancelled = true;
                entry.stop.stop();
            }
            _ => {}
        }
        let shown = entry.show();
        self.remember(id);
        Some(shown)
    }

    /// All of them end.
    pub fn stop_all(&self) {
        self.entries.values().for_each(|entry| entry.stop.stop());
    }

    /// A page of what somebody may know of, and where the next begins; none where the one before it is not known (any more).
    pub fn page(&self, holder: &str, asked: &Asked<ProbeStage>) -> Option<(Vec<Probe>, Option<Uuid>)> {
        let from = match &asked.after {
            None => 0,
            Some(id) => *self.ids.get(id).filter(|number| self.entries[number].holder == holder)?,
        };
        let behind = self.entries.range((Bound::Excluded(from), Bound::Unbounded)).map(|(_, entry)| entry);
        let wanted =
            |entry: &&Entry| entry.holder == holder && asked.state.is_none_or(|state| state == entry.told.state);
        let mut found: Vec<Probe> =
            behind.filter(wanted).take(asked.limit.saturating_add(1)).map(|entry| entry.told.clone()).collect();
        let is_more = found.len() > asked.limit;
        found.truncate(asked.limit);
        let next = found.last().filter(|_| is_more).map(|last| last.id);
        Some((found, next))
    }
}

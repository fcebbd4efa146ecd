//! Tests that this node repeats by itself for its guests, until they remove them: streams of packets that never stop, and tests at times. What
//! they find goes to `crate::measurements`. They are in `STATE/schedules`, and go on after a restart.

mod kept;
mod order;
mod repeat;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auth::Access;
use model::fault::Fault;
use model::id::Uuid;
use model::v1::node::{Found, Schedule, ScheduleStatus, ScheduledTest};
use model::{Refusal, Timestamp};
use parking_lot::{Condvar, Mutex, MutexGuard};
use probe::stamp::stream::driver::Streams;
use serde::{Deserialize, Serialize};

use self::kept::Shelf;
use crate::access::AccessControl;
use crate::claims::TestClaims;
use crate::clock::{now_text, unix_seconds};
use crate::config::NodeConfig;
use crate::jobs::Jobs;
use crate::measurements::MeasurementLog;
use crate::shutdown::Shutdown;
use crate::test_service::TestService;
use crate::transfers::{Transfers, Unaccepted};

/// Schedules of one who orders, and in all.
pub(crate) const SCHEDULES_MAX: (usize, usize) = (1_000, 2_000);
/// Packets per second of all streams of one who orders.
pub(crate) const PACKETS_S_MAX: f64 = 5_000.0;
/// Tests at times that run or wait at once, each on a thread.
pub(crate) const RUNS_MAX: usize = 32;
/// How often it is looked whether something is due.
const LOOK: Duration = Duration::from_millis(200);

/// A schedule as it is kept: whose, and what.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    holder: String,
    created: String,
    schedule: Schedule,
}

/// A schedule and how it fares.
struct Entry {
    kept: Arc<Kept>,
    /// The key of its stream on the thread of streams.
    key: u64,
    /// When its next run begins, or its stream is tried again, seconds since 1970.
    due_s: f64,
    /// A run is under way.
    is_running: bool,
    measurements: u64,
    error: Option<String>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<Uuid, Entry>,
    /// Which schedule a stream is of.
    streams: BTreeMap<u64, Uuid>,
    next_key: u64,
    runs: usize,
}

/// What schedules work with.
pub(crate) struct Means {
    pub access: Arc<AccessControl>,
    pub transfers: Arc<Transfers>,
    pub tests: Arc<TestService>,
    pub claims: Arc<TestClaims>,
    pub jobs: Jobs,
    pub shutdown: Shutdown,
}

/// The schedules of a node.
pub(crate) struct Schedules {
    means: Means,
    shelf: Shelf,
    log: Arc<MeasurementLog>,
    table: Mutex<Table>,
    changed: Condvar,
    streams: Mutex<Option<Streams>>,
    on_loopback: bool,
}

impl Schedules {
    /// Of a node that is started like this. Nothing runs before [`Schedules::run`].
    pub fn new(means: Means, config: &NodeConfig) -> Schedules {
        let (state, is_lasting) = (config.state.path(), !config.own_guests);
        let dir = |name: &str| is_lasting.then(|| state.join(name));
        Schedules {
            means,
            shelf: Shelf::new(dir("schedules")),
            log: Arc::new(MeasurementLog::open(dir("measurements"))),
            table: Mutex::default(),
            changed: Condvar::new(),
            streams: Mutex::default(),
            on_loopback: config.listen.ip().is_loopback() || config.own_guests,
        }
    }

    /// What schedules found.
    pub fn log(&self) -> &MeasurementLog {
        &self.log
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Takes a schedule on. The same again is the same one, with the newer key.
    pub fn accept(&self, access: &Access, schedule: Schedule) -> Result<(ScheduleStatus, bool), Unaccepted> {
        if self.means.shutdown.has_begun() {
            return Err(Refusal::new(Fault::Path, "the node is stopping").into());
        }
        if self.means.access.visible(access).is_empty() {
            let reason = "tests from this node are for those who may reach something of it";
            return Err(Refusal::new(Fault::Auth, reason).into());
        }
        self.means.access.may_send_out(access, &schedule.target)?;
        let plan = order::read(&schedule)?;
        let mut table = self.table();
        let known = table.entries.get(&schedule.id).map(|entry| Arc::clone(&entry.kept));
        if let Some(known) = &known {
            let is_same = known.schedule.without_credentials() == schedule.without_credentials();
            if known.holder != access.holder() || !is_same {
                return Err(Unaccepted::Known);
            }
        } else {
            table.check_room(access.holder(), &plan)?;
        }
        let created = known.as_ref().map_or_else(now_text, |known| known.created.clone());
        let kept = Arc::new(Kept { holder: access.holder().to_owned(), created, schedule });
        let failed = |error: std::io::Error| {
            Refusal::new(Fault::Storage, format!("the node cannot write the schedule down: {error}"))
        };
        self.shelf.write(&kept).map_err(failed)?;
        let id = kept.schedule.id;
        match table.entries.get_mut(&id) {
            Some(entry) => entry.kept = kept,
            None => table.insert(kept, &plan),
        }
        let status = table.entries.get(&id).map(Entry::status).ok_or(Unaccepted::Known)?;
        drop(table);
        self.changed.notify_all();
        Ok((status, known.is_none()))
    }

    /// The schedules of a holder.
    pub fn list(&self, holder: &str) -> Vec<ScheduleStatus> {
        let table = self.table();
        table.entries.values().filter(|entry| entry.kept.holder == holder).map(Entry::status).collect()
    }

    /// One of them.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<ScheduleStatus> {
        self.table().entries.get(id).filter(|entry| entry.kept.holder == holder).map(Entry::status)
    }

    /// Removes one; what it has found stays until it makes room.
    pub fn remove(&self, holder: &str, id: &Uuid) -> Option<ScheduleStatus> {
        let mut table = self.table();
        let status = table.entries.get(id).filter(|entry| entry.kept.holder == holder).map(Entry::status)?;
        self.drop_entry(&mut table, id);
        Some(status)
    }

    fn drop_entry(&self, table: &mut Table, id: &Uuid) {
        self.shelf.remove(id);
        if let Some(entry) = table.entries.remove(id) {
            table.streams.remove(&entry.key);
            if let Some(streams) = &*self.streams.lock() {
                streams.remove(entry.key);
            }
        }
    }

    /// Takes up what was ordered before a restart, and does what is due until the node stops.
    pub fn run(self: &Arc<Self>) {
        for kept in self.shelf.all() {
            match order::read(&kept.schedule) {
                Ok(plan) => self.table().insert(Arc::new(kept), &plan),
                Err(refusal) => {
                    tracing::warn!(schedule = %kept.schedule.id, why = refusal.reason, "a schedule is left alone");
                }
            }
        }
        while !self.means.shutdown.has_begun() {
            let now_s = unix_seconds_f();
            let due = self.table().take_due(now_s);
            for (id, kept) in due {
                if self.means.access.access_of(&kept.holder).is_none() {
                    self.note(&id, Some("who ordered it is not known here any more".into()));
                    continue;
                }
                match &kept.schedule.test {
                    ScheduledTest::Stream(_) => self.begin_stream(&id, &kept),
                    ScheduledTest::Repeat(_) => self.begin_run(id, kept),
                }
            }
            let mut table = self.table();
            self.changed.wait_for(&mut table, LOOK);
        }
        drop(self.streams.lock().take());
    }

    /// Something was found.
    fn found(&self, id: &Uuid, at_s: f64, seconds: f64, found: Found) {
        let holder = {
            let mut table = self.table();
            let Some(entry) = table.entries.get_mut(id) else { return };
            entry.measurements += 1;
            entry.error = match &found {
                Found::Failed { why, .. } | Found::Missed { why } => Some(why.clone()),
                Found::Silent => Some("nothing answers".into()),
                _ => None,
            };
            entry.kept.holder.clone()
        };
        self.log.append(&holder, *id, at_s, seconds, found);
    }

    fn note(&self, id: &Uuid, error: Option<String>) {
        if let Some(entry) = self.table().entries.get_mut(id) {
            entry.error = error;
        }
    }
}

impl Table {
    fn check_room(&self, holder: &str, plan: &order::Plan) -> Result<(), Unaccepted> {
        let own = || self.entries.values().filter(|entry| entry.kept.holder == holder);
        if own().count() >= SCHEDULES_MAX.0 || self.entries.len() >= SCHEDULES_MAX.1 {
            let (each, all) = SCHEDULES_MAX;
            return Err(Unaccepted::Full(format!(
                "this node repeats {each} tests for one who orders, and {all} in all"
            )));
        }
        let packets_s = plan.packets_s() + own().map(|entry| order::packets_s(&entry.kept.schedule)).sum::<f64>();
        if packets_s > PACKETS_S_MAX {
            let why =
                format!("streams of one who orders may have {PACKETS_S_MAX} packets/s in all, and not {packets_s}");
            return Err(Refusal::new(Fault::Auth, why).into());
        }
        Ok(())
    }

    fn insert(&mut self, kept: Arc<Kept>, plan: &order::Plan) {
        let (id, key) = (kept.schedule.id, self.next_key);
        self.next_key += 1;
        let due_s = plan.next_s(unix_seconds_f());
        let entry = Entry { kept, key, due_s, is_running: false, measurements: 0, error: None };
        self.streams.insert(key, id);
        self.entries.insert(id, entry);
    }

    /// What is due now. Each has its next time from here on.
    fn take_due(&mut self, now_s: f64) -> Vec<(Uuid, Arc<Kept>)> {
        let mut due = Vec::new();
        for (id, entry) in &mut self.entries {
            let Some(plan) = order::read(&entry.kept.schedule).ok().filter(|_| entry.due_s <= now_s) else { continue };
            entry.due_s = plan.next_s(now_s);
            let is_run = matches!(entry.kept.schedule.test, ScheduledTest::Repeat(_));
            if is_run && (entry.is_running || self.runs >= RUNS_MAX) {
                // The one before still waits for its turn: that is told by its own end.
                continue;
            }
            if is_run {
                entry.is_running = true;
                self.runs += 1;
            }
            due.push((*id, Arc::clone(&entry.kept)));
        }
        due
    }
}

impl Entry {
    fn status(&self) -> ScheduleStatus {
        let is_run = matches!(self.kept.schedule.test, ScheduledTest::Repeat(_));
        let next = is_run.then(|| web::date::rfc3339_us(Timestamp { seconds: self.due_s as i64, nanos: 0 }));
        ScheduleStatus {
            schedule: self.kept.schedule.without_credentials(),
            created: self.kept.created.clone(),
            next,
            measurements: self.measurements,
            error: self.error.clone(),
        }
    }
}

fn unix_seconds_f() -> f64 {
    let now = crate::clock::now();
    debug_assert!(now.seconds <= unix_seconds());
    now.seconds as f64 + f64::from(now.nanos) / 1e9
}

#[cfg(test)]
mod tests;

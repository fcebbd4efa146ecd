//! Schedules: tests that this node repeats for its clients until they remove them. A schedule is an endless stream of packets, or a
//! test at intervals. The results go to `crate::measurements`. Schedules are stored in `STATE/schedules` and continue after a restart.

mod order;
mod records;
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

use self::records::ScheduleRecords;
use crate::access::AccessControl;
use crate::claims::TestClaims;
use crate::clock::{now_text, unix_seconds};
use crate::config::NodeConfig;
use crate::holder_bound::HolderBound;
use crate::jobs::Jobs;
use crate::measurements::MeasurementLog;
use crate::shutdown::Shutdown;
use crate::test_service::TestService;
use crate::transfers::{Transfers, Unaccepted};

/// Schedules of one holder, and of all.
pub(crate) const SCHEDULES_MAX: HolderBound = HolderBound { each: 1_000, all: 2_000 };
/// Packets per second of all streams of one holder.
pub(crate) const PACKETS_S_MAX: f64 = 5_000.0;
/// Repeated tests that run or wait at once, each on a thread.
pub(crate) const RUNS_MAX: usize = 32;
/// Why a schedule whose holder has lost access does not run.
const HOLDER_UNKNOWN: &str = "the node no longer knows the principal that ordered it";
/// How often the table is checked for due schedules.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// A schedule as it is stored in the state directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ScheduleRecord {
    holder: String,
    created: String,
    schedule: Schedule,
}

/// A schedule and its state.
struct Entry {
    record: Arc<ScheduleRecord>,
    /// The number by which [`Streams`] knows its stream.
    key: u64,
    /// The time of its next run, or of the next attempt at its stream; seconds since 1970.
    due_s: f64,
    /// A run is under way.
    is_running: bool,
    measurements: u64,
    error: Option<String>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<Uuid, Entry>,
    /// The schedule of each stream, by the stream's key.
    streams: BTreeMap<u64, Uuid>,
    next_key: u64,
    runs: usize,
}

/// The services of the node that schedules use.
pub(crate) struct ScheduleServices {
    pub access: Arc<AccessControl>,
    pub transfers: Arc<Transfers>,
    pub tests: Arc<TestService>,
    pub claims: Arc<TestClaims>,
    pub jobs: Jobs,
    pub shutdown: Shutdown,
}

/// The schedules of a node.
pub(crate) struct Schedules {
    services: ScheduleServices,
    records: ScheduleRecords,
    log: Arc<MeasurementLog>,
    table: Mutex<Table>,
    changed: Condvar,
    streams: Mutex<Option<Streams>>,
    on_loopback: bool,
}

impl Schedules {
    /// The schedules of a node with this configuration. Nothing runs before [`Schedules::run`].
    pub fn new(services: ScheduleServices, config: &NodeConfig) -> Schedules {
        let state = config.state.path();
        let is_lasting = !config.serves_one_copy;
        let dir = |name: &str| is_lasting.then(|| state.join(name));
        Schedules {
            services,
            records: ScheduleRecords::new(dir("schedules")),
            log: Arc::new(MeasurementLog::open(dir("measurements"))),
            table: Mutex::default(),
            changed: Condvar::new(),
            streams: Mutex::default(),
            on_loopback: config.listen.ip().is_loopback() || config.serves_one_copy,
        }
    }

    /// The log of measurements.
    pub fn log(&self) -> &MeasurementLog {
        &self.log
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Accepts a schedule; returns whether it is new. A schedule that is known already gets the newer key.
    ///
    /// # Errors
    /// The node stops, the principal lacks a right, the schedule is invalid or does not fit, or its id is taken.
    pub fn accept(&self, access: &Access, schedule: Schedule) -> Result<(ScheduleStatus, bool), Unaccepted> {
        if self.services.shutdown.has_begun() {
            return Err(Refusal::new(Fault::Path, "the node is stopping").into());
        }
        self.services.access.may_order_tests(access)?;
        self.services.access.may_have_connect(access, &schedule.target)?;
        let plan = order::read(&schedule)?;
        let mut table = self.table();
        let known = table.entries.get(&schedule.id).map(|entry| Arc::clone(&entry.record));
        if let Some(known) = &known {
            let is_same = known.schedule.without_credentials() == schedule.without_credentials();
            if known.holder != access.holder() || !is_same {
                return Err(Unaccepted::IdTaken);
            }
        } else {
            table.check_room(access.holder(), &plan)?;
        }
        let created = known.as_ref().map_or_else(now_text, |known| known.created.clone());
        let record = Arc::new(ScheduleRecord { holder: access.holder().to_owned(), created, schedule });
        let failed = |error: std::io::Error| {
            Refusal::new(Fault::Storage, format!("the node cannot store the schedule: {error}"))
        };
        self.records.write(&record).map_err(failed)?;
        let id = record.schedule.id;
        match table.entries.get_mut(&id) {
            Some(entry) => entry.record = record,
            None => table.insert(record, &plan),
        }
        let status = table.entries.get(&id).map(Entry::status).ok_or(Unaccepted::IdTaken)?;
        drop(table);
        self.changed.notify_all();
        Ok((status, known.is_none()))
    }

    /// The schedules of a holder.
    pub fn list(&self, holder: &str) -> Vec<ScheduleStatus> {
        let table = self.table();
        table.entries.values().filter(|entry| entry.record.holder == holder).map(Entry::status).collect()
    }

    /// A schedule of a holder.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<ScheduleStatus> {
        self.table().entries.get(id).filter(|entry| entry.record.holder == holder).map(Entry::status)
    }

    /// Removes a schedule; its measurements stay until newer ones displace them.
    pub fn remove(&self, holder: &str, id: &Uuid) -> Option<ScheduleStatus> {
        let mut table = self.table();
        let status = table.entries.get(id).filter(|entry| entry.record.holder == holder).map(Entry::status)?;
        self.remove_entry(&mut table, id);
        Some(status)
    }

    fn remove_entry(&self, table: &mut Table, id: &Uuid) {
        self.records.remove(id);
        if let Some(entry) = table.entries.remove(id) {
            table.streams.remove(&entry.key);
            if let Some(streams) = &*self.streams.lock() {
                streams.remove(entry.key);
            }
        }
    }

    /// Loads the schedules of the state directory, and runs what is due until the node stops.
    pub fn run(self: &Arc<Self>) {
        for record in self.records.all() {
            match order::read(&record.schedule) {
                Ok(plan) => self.table().insert(Arc::new(record), &plan),
                Err(refusal) => {
                    tracing::warn!(schedule = %record.schedule.id, why = refusal.reason, "a stored schedule is invalid");
                }
            }
        }
        while !self.services.shutdown.has_begun() {
            let now_s = unix_seconds_f();
            let due = self.table().take_due(now_s);
            for (id, record) in due {
                if self.services.access.access_of(&record.holder).is_none() {
                    self.set_error(&id, Some(HOLDER_UNKNOWN.into()));
                    continue;
                }
                match &record.schedule.test {
                    ScheduledTest::Stream(_) => self.begin_stream(&id, &record),
                    ScheduledTest::Repeat(_) => self.begin_run(id, record),
                }
            }
            let mut table = self.table();
            self.changed.wait_for(&mut table, CHECK_EVERY);
        }
        drop(self.streams.lock().take());
    }

    /// Adds a measurement of a schedule.
    fn add_measurement(&self, id: &Uuid, at_s: f64, seconds: f64, found: Found) {
        let holder = {
            let mut table = self.table();
            let Some(entry) = table.entries.get_mut(id) else { return };
            entry.measurements += 1;
            entry.error = match &found {
                Found::Failed { why, .. } | Found::Missed { why } => Some(why.clone()),
                Found::Silent => Some("nothing answers".into()),
                _ => None,
            };
            entry.record.holder.clone()
        };
        self.log.append(&holder, *id, at_s, seconds, found);
    }

    fn set_error(&self, id: &Uuid, error: Option<String>) {
        if let Some(entry) = self.table().entries.get_mut(id) {
            entry.error = error;
        }
    }
}

impl Table {
    fn check_room(&self, holder: &str, plan: &order::SchedulePlan) -> Result<(), Unaccepted> {
        let own = || self.entries.values().filter(|entry| entry.record.holder == holder);
        if own().count() >= SCHEDULES_MAX.each || self.entries.len() >= SCHEDULES_MAX.all {
            let HolderBound { each, all } = SCHEDULES_MAX;
            return Err(Unaccepted::Full(format!(
                "this node has {each} schedules of one holder at most, and {all} in all"
            )));
        }
        let packets_s = plan.packets_s() + own().map(|entry| order::packets_s(&entry.record.schedule)).sum::<f64>();
        if packets_s > PACKETS_S_MAX {
            let why = format!("the streams of one holder may have {PACKETS_S_MAX} packets/s in all, not {packets_s}");
            return Err(Refusal::new(Fault::Auth, why).into());
        }
        Ok(())
    }

    fn insert(&mut self, record: Arc<ScheduleRecord>, plan: &order::SchedulePlan) {
        let id = record.schedule.id;
        let key = self.next_key;
        self.next_key += 1;
        let due_s = plan.next_s(unix_seconds_f());
        let entry = Entry { record, key, due_s, is_running: false, measurements: 0, error: None };
        self.streams.insert(key, id);
        self.entries.insert(id, entry);
    }

    /// The schedules that are due now; each gets its next time.
    fn take_due(&mut self, now_s: f64) -> Vec<(Uuid, Arc<ScheduleRecord>)> {
        let mut due = Vec::new();
        for (id, entry) in &mut self.entries {
            let Some(plan) = order::read(&entry.record.schedule).ok().filter(|_| entry.due_s <= now_s) else {
                continue;
            };
            entry.due_s = plan.next_s(now_s);
            let is_run = matches!(entry.record.schedule.test, ScheduledTest::Repeat(_));
            if is_run && (entry.is_running || self.runs >= RUNS_MAX) {
                // The former run has not ended, or there are too many: this run is skipped.
                continue;
            }
            if is_run {
                entry.is_running = true;
                self.runs += 1;
            }
            due.push((*id, Arc::clone(&entry.record)));
        }
        due
    }
}

impl Entry {
    fn status(&self) -> ScheduleStatus {
        let is_run = matches!(self.record.schedule.test, ScheduledTest::Repeat(_));
        let next = is_run.then(|| web::date::rfc3339_us(Timestamp { seconds: self.due_s as i64, nanos: 0 }));
        ScheduleStatus {
            schedule: self.record.schedule.without_credentials(),
            created: self.record.created.clone(),
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

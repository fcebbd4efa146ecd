//! Delegated transfers: this node runs them between one of its places and another node or a server, and the client may leave.
//! They are ordered over HTTP (`http::api`) or over the native protocol (a [`DelegationOrder`]). In both cases the order
//! is kept as JSON: it is stored before it is accepted, the transfer continues after a restart of the node, and its receipt is kept.
//!
//! The client's credentials for the other end (a one-time key, a token) are kept with the order while it is under way, never shown,
//! and removed at its end.

mod connector;
mod file_list;
mod native_order;
mod order;
mod queries;
mod records;
mod remote_end;
mod room;
mod run;
mod spent;
mod table;

use std::sync::Arc;

use auth::Access;
use engine::budget::Budget;
use engine::control::{Control, Label};
use model::fault::Fault;
use model::id::Uuid;
use model::locator::NodePlace;
use model::v1::node::{FileResults, Order};
use model::v1::{Change, Stage, Transfer};
use model::{Refusal, v1};
use parking_lot::{Mutex, MutexGuard};
use wire::frame::DelegationOrder;

use self::connector::Connector;
use self::file_list::EndedOutcomes;
use self::order::OtherEnd;
pub(crate) use self::order::{identity_of, locator};
use self::records::{ClaimOutcome, TransferRecords};
use self::run::TransferRun;
use self::spent::SpentIds;
use self::table::{Entry, Table, UNENDED_BYTES_MAX};
pub(crate) use self::table::{REMEMBERED_MAX, RUNNING_MAX, TransferChange, UNENDED_MAX};
use crate::access::AccessControl;
use crate::clock::{now, now_text, now_us};
use crate::config::NodeConfig;
use crate::dialling::Dialling;
use crate::fireflies::Fireflies;
use crate::jobs::{self, Jobs};
pub(crate) use crate::order_table::PageQuery;
use crate::shutdown::Shutdown;
use arc_swap::ArcSwap;

/// The role of a delegated transfer in the list of jobs.
const ROLE: &str = "carry";

/// The answer to an order whose id was used within the last day by a transfer that is no longer remembered.
pub(crate) const ID_USED_TEXT: &str = "a transfer of this id ended here within the last day, and its outcome is no longer remembered; \
                               look at the target, and order again with a new id";

/// The schemes of servers that can be the other end.
pub(crate) use client::remote_store::SCHEMES;

/// The transfers of a node.
pub(crate) struct Transfers {
    access: Arc<AccessControl>,
    jobs: Jobs,
    shutdown: Shutdown,
    connector: Connector,
    /// The records of transfers in the state directory; none on a node that exists for one copy: it does not continue them, and
    /// leaves those of other nodes with the same state directory alone.
    records: Option<TransferRecords>,
    table: Mutex<Table>,
    /// The memory of orders that have not ended.
    budget: Budget,
    /// Ids of transfers that are no longer remembered.
    spent: Mutex<SpentIds>,
    /// Locked while a record is written, so that the last record is the valid one.
    writing: Mutex<()>,
    /// The outcomes of the files of ended transfers.
    ended_outcomes: EndedOutcomes,
}

/// Why an order is not accepted.
#[derive(Debug)]
pub(crate) enum Unaccepted {
    /// The order is invalid, or the principal lacks a right.
    Refused(Refusal),
    /// The id belongs to another order; the answer does not name its holder.
    IdTaken,
    /// The transfer of this id has ended and is no longer remembered.
    IdUsed,
    /// There are too many orders, or they take too much memory.
    Full(String),
}

impl From<Refusal> for Unaccepted {
    fn from(refusal: Refusal) -> Unaccepted {
        Unaccepted::Refused(refusal)
    }
}

fn stopping() -> Refusal {
    Refusal::new(Fault::Path, "the node is stopping")
}

fn now_s() -> u64 {
    now().seconds.unsigned_abs()
}

/// Whether an order writes to this node, and the paths of this node's exports that it names.
///
/// # Errors
/// The order is invalid.
pub(crate) fn places_here(order: &Order) -> Result<(bool, Vec<(String, model::RelPath)>), Refusal> {
    let plan = order::read(order)?;
    let writes = matches!(plan.other_end, OtherEnd::Pull { .. } | OtherEnd::PullFromServer(_));
    let path = |place| match place {
        NodePlace::Path { export, path } => Some((export, path)),
        _ => None,
    };
    Ok((writes, plan.here.into_iter().filter_map(path).collect()))
}

impl Transfers {
    /// The transfers of a node with this configuration.
    pub fn new(access: Arc<AccessControl>, jobs: Jobs, shutdown: Shutdown, config: &NodeConfig) -> Transfers {
        let state = config.state.path();
        let is_lasting = !config.serves_one_copy;
        let spent =
            if is_lasting { SpentIds::open(&state.join("transfers-spent"), now_s()) } else { SpentIds::default() };
        Transfers {
            access,
            jobs,
            shutdown,
            connector: Connector::new(config.timeouts, config.listen, config.serves_one_copy),
            records: is_lasting.then(|| TransferRecords::new(state.join("transfers"))),
            table: Mutex::default(),
            budget: Budget::new(UNENDED_BYTES_MAX.all, UNENDED_BYTES_MAX.each),
            spent: Mutex::new(spent),
            writing: Mutex::default(),
            ended_outcomes: EndedOutcomes::default(),
        }
    }

    /// Sets how servers are dialled on behalf of clients, and where marked flows are reported.
    pub fn set_outbound(&self, dialling: Arc<ArcSwap<Dialling>>, fireflies: Arc<ArcSwap<Fireflies>>) {
        self.connector.set_outbound(dialling, fireflies);
    }

    /// Closes the session pool, because the node stops.
    pub fn stop(&self) {
        self.connector.pool.close();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Accepts an order. Returns the transfer, and whether it is new: a repeated order is the same transfer.
    ///
    /// # Errors
    /// The node stops, the order is invalid, the principal lacks a right, the id is taken or spent, or there is no room.
    pub fn accept(self: &Arc<Self>, access: &Access, order: Order) -> Result<(Arc<Transfer>, bool), Unaccepted> {
        if self.shutdown.has_begun() {
            return Err(stopping().into());
        }
        let plan = order::read(&order)?;
        self.access.may_have_connect(access, &plan.other_address())?;
        if let Some(answer) = self.known(access, &order) {
            return answer;
        }
        // Storage and servers are asked here, which may take time: no lock is held.
        run::check(&self.access, access, &order, &plan)?;
        let writing = self.writing.lock();
        if let Some(answer) = self.known(access, &order) {
            return answer;
        }
        let memory = self.room_for(access.holder(), &order)?;
        let id = order.id;
        let entry = Entry::new(order, access.clone(), now_text(), Some(memory));
        if let Some(records) = &self.records {
            records.write(&entry.record(), None, false).map_err(|error| {
                let reason = format!("the node cannot store the job in its state directory: {error}");
                Refusal::new(Fault::Local, reason)
            })?;
        }
        self.table().insert(entry, now_us());
        drop(writing);
        self.start_waiting();
        let shown = self.table().get(&id).map(Entry::show);
        shown.map(|shown| (shown, true)).ok_or_else(|| stopping().into())
    }

    /// The answer to an order whose id is known; none if it is new.
    fn known(&self, access: &Access, order: &Order) -> Option<Result<(Arc<Transfer>, bool), Unaccepted>> {
        if let Some(known) = self.table().get(&order.id) {
            let is_same = known.holder == access.holder() && known.is_of(order);
            return Some(if is_same { Ok((known.show(), false)) } else { Err(Unaccepted::IdTaken) });
        }
        self.spent().has(&order.id, now_s()).then_some(Err(Unaccepted::IdUsed))
    }

    /// The outcomes of a transfer's files, without the first `after`; none if the holder has no such transfer.
    pub fn outcomes(&self, holder: &str, id: &Uuid, after: u64, limit: usize) -> Option<FileResults> {
        let outcomes = {
            let table = self.table();
            Arc::clone(&table.get(id).filter(|entry| entry.holder == holder)?.outcomes)
        };
        Some(outcomes.page(after, limit))
    }

    /// Accepts an order over the native protocol; a repeated order is the same transfer. Such orders do not wait in the queue, because
    /// their client waits for the answer.
    ///
    /// # Errors
    /// The node runs as many transfers as it may, or the order is refused.
    pub fn accept_native(self: &Arc<Self>, access: &Access, delegation: &DelegationOrder) -> Result<(), Refusal> {
        let order = native_order::order(delegation);
        {
            let table = self.table();
            match table.get(&order.id) {
                Some(known) if known.holder == access.holder() => return Ok(()),
                Some(_) => return Err(Refusal::new(Fault::Auth, "a job of this name belongs to another client")),
                None => {}
            }
            let (own, all) = table.orders.running(access.holder());
            if own >= RUNNING_MAX.each || all >= RUNNING_MAX.all {
                let reason = "this node runs as many jobs as it may; try again when some have ended";
                return Err(Refusal::new(Fault::Path, reason));
            }
        }
        match self.accept(access, order) {
            Ok(_) => Ok(()),
            Err(Unaccepted::Refused(refusal)) => Err(refusal),
            Err(Unaccepted::IdTaken) => Err(Refusal::new(Fault::Auth, "a job of this name belongs to another client")),
            Err(Unaccepted::IdUsed) => Err(Refusal::new(Fault::Config, ID_USED_TEXT)),
            Err(Unaccepted::Full(why)) => Err(Refusal::new(Fault::Path, why)),
        }
    }

    /// Loads the records of an earlier run: continues unfinished transfers, and remembers ended ones.
    pub fn resume(self: &Arc<Self>) {
        let Some(records) = &self.records else { return };
        records.sweep();
        let known = records.all();
        let mut table = self.table();
        for record in known {
            let access = record.ended.is_none().then(|| self.access.access_of(&record.holder)).flatten();
            if record.ended.is_none() {
                tracing::info!(job = %record.order.id, "continuing a job that a restart interrupted");
            }
            table.insert(Entry::from_record(record, access, &self.budget), now_us());
        }
        let forgotten = table.forget_oldest();
        drop(table);
        self.forget(forgotten);
        self.start_waiting();
    }

    /// Starts waiting transfers within the bounds.
    fn start_waiting(self: &Arc<Self>) {
        while !self.shutdown.has_begun() {
            let Some(id) = self.table().start_next() else { return };
            self.start(&id);
        }
    }

    /// Begins a transfer, or ends it if it cannot begin. The caller starts the next one.
    fn start(self: &Arc<Self>, id: &Uuid) {
        // The record must not be replaced between the claim and the beginning, or the lock would be on the former file.
        let writing = self.writing.lock();
        let locked_record = match self.records.as_ref().map(|records| records.claim(id)) {
            None => None,
            Some(Ok(ClaimOutcome::Ours(file))) => Some(file),
            Some(Ok(ClaimOutcome::Ended(record))) => {
                if let Some(ended) = record.ended {
                    let forgotten = self.table().end(id, ended, None, now_us());
                    self.forget(forgotten);
                }
                return;
            }
            Some(Ok(ClaimOutcome::NotOurs)) => return self.table().remove(id),
            Some(Err(error)) => {
                drop(writing);
                return self.fail(id, &format!("the node cannot read the job in its state directory: {error}"));
            }
        };
        let found = self
            .table()
            .get(id)
            .map(|e| (Arc::clone(&e.order), e.changes, e.begun, e.access.clone(), Arc::clone(&e.outcomes)));
        let Some((order, changes, begun, access, outcomes)) = found else { return };
        let Some(access) = access else {
            drop(writing);
            tracing::warn!(job = %id, "a job does not continue: the access of its holder can no longer be checked");
            let reason = "the access of the holder cannot be checked after a restart of the node: the access key was revoked, or \
                          the job was ordered with a token or a certificate; order it again";
            return self.fail(id, reason);
        };
        let plan = match order::read(&order) {
            Ok(plan) if !changes.cancel => plan,
            Ok(_) => {
                drop(writing);
                return self.finish(id, Stage::Cancelled, None, None);
            }
            Err(refusal) => {
                drop(writing);
                return self.fail(id, &refusal.reason);
            }
        };
        let control = control(&order, &changes);
        self.jobs.add_lasting(*id.as_bytes(), ROLE, access.holder(), &control);
        self.table().begin(id, control.clone(), locked_record, now_text(), now_us());
        drop(writing);
        let transfers = Arc::clone(self);
        let id_of_run = *id;
        let never_begun = control.clone();
        let run = move || {
            let transfer = TransferRun {
                access_control: &transfers.access,
                connector: &transfers.connector,
                order: &order,
                plan: &plan,
                access: &access,
                control: &control,
                outcomes: &outcomes,
                begun,
            };
            let receipt = transfer.run();
            log_end(&access, &order, &receipt);
            transfers.ended(&id_of_run, &control, receipt);
        };
        if let Err(error) = std::thread::Builder::new().name("transfer".into()).spawn(run) {
            tracing::warn!(%error, "cannot start a thread for a transfer");
            never_begun.end(None);
            self.fail(id, &format!("the node cannot start a thread for the job: {error}"));
        }
    }

    fn ended(self: &Arc<Self>, id: &Uuid, control: &Control, receipt: v1::Receipt) {
        // The shutdown has interrupted it: the transfer continues after the restart.
        if receipt.state == v1::State::Interrupted && self.shutdown.has_begun() {
            return control.end(Some(receipt));
        }
        let source = order::first_sources(&receipt.source);
        let receipt = v1::Receipt { source, ..receipt };
        control.end(Some(jobs::brief(&receipt)));
        self.finish(id, control.show().state, Some(&receipt), None);
        self.start_waiting();
    }

    /// Ends a transfer that has not begun.
    fn fail(&self, id: &Uuid, reason: &str) {
        self.finish(id, Stage::Failed, None, Some(reason));
    }

    /// Ends a transfer: shows its end and stores it.
    fn finish(&self, id: &Uuid, stage: Stage, receipt: Option<&v1::Receipt>, reason: Option<&str>) {
        let mut table = self.table();
        // Only the first end of a transfer is recorded.
        let Some(entry) = table.get(id).filter(|entry| !entry.has_ended()) else { return };
        let ended = as_ended(&entry.show(), stage, receipt, reason);
        let receipt = receipt.and_then(|receipt| serde_json::to_string(receipt).ok());
        let forgotten = table.end(id, ended, receipt.map(Arc::from), now_us());
        drop(table);
        if let Err(error) = self.write_record(id) {
            tracing::error!(job = %id, %error, "the end of a transfer cannot be stored");
        }
        self.forget(forgotten);
        if let Some(outcomes) = self.table().get(id).map(|entry| Arc::clone(&entry.outcomes)) {
            self.ended_outcomes.push(outcomes);
        }
    }

    /// Writes the current record of a transfer.
    fn write_record(&self, id: &Uuid) -> std::io::Result<()> {
        let Some(records) = &self.records else { return Ok(()) };
        let _writing = self.writing.lock();
        let found = self.table().get(id).map(|e| (e.record(), e.receipt.clone(), e.locked_record.is_some()));
        let Some((record, receipt, is_locked)) = found else { return Ok(()) };
        let has_ended = record.ended.is_some();
        if has_ended && receipt.is_none() && self.table().get(id).is_some_and(|entry| entry.is_stored) {
            // Another thread has written it, with its receipt.
            return Ok(());
        }
        let file = records.write(&record, receipt.as_deref(), is_locked && !has_ended)?;
        if let Some(entry) = self.table().orders.get_mut(id) {
            // Replaces the file that held the lock until now.
            entry.locked_record = Some(file).filter(|_| is_locked && !has_ended);
            entry.receipt = None;
            entry.is_stored = has_ended;
        }
        Ok(())
    }

    /// Changes a transfer; none if the holder has no such transfer that has not ended.
    pub fn change(self: &Arc<Self>, holder: &str, id: &Uuid, change: &Change) -> Option<Arc<Transfer>> {
        let mut table = self.table();
        let entry = table.orders.of_mut(holder, id).filter(|entry| !entry.has_ended())?;
        if change.cancel {
            drop(table);
            return self.cancel(holder, id);
        }
        entry.change(change);
        table.touch(id, now_us());
        let shown = table.get(id).map(Entry::show);
        drop(table);
        if let Err(error) = self.write_record(id) {
            tracing::warn!(job = %id, %error, "a change to a transfer cannot be stored: a restart would undo it");
        }
        shown
    }

    /// Cancels a transfer. One that has ended stays as it is.
    pub fn cancel(self: &Arc<Self>, holder: &str, id: &Uuid) -> Option<Arc<Transfer>> {
        let mut table = self.table();
        let entry = table.orders.of_mut(holder, id)?;
        if entry.has_ended() {
            return Some(entry.show());
        }
        entry.changes.cancel = true;
        let control = entry.control.clone();
        // Removed from the queue at once, so that it is not started while it ends.
        let waited = table.orders.dequeue(id);
        drop(table);
        match control {
            Some(control) => {
                if let Err(error) = self.write_record(id) {
                    tracing::warn!(job = %id, %error, "the cancellation of a transfer cannot be stored yet");
                }
                control.change(&Change { cancel: true, ..Change::default() });
            }
            None if waited => {
                self.finish(id, Stage::Cancelled, None, None);
                self.start_waiting();
            }
            // The transfer is beginning, and checks for a cancellation itself.
            None => {}
        }
        self.get(holder, id)
    }
}

fn control(order: &Order, changes: &Change) -> Control {
    let (source, target) = order::ends(order);
    let label = Label { id: order.id, role: ROLE, source: order::first_sources(&source), target };
    let control = Control::new(label, order::live_settings(order, changes), Arc::default());
    if let Some(seconds) = order.limit_for_s {
        let limit = Change { limit_bit_s: Some(order.limit_bit_s), limit_for_s: Some(seconds), ..Change::default() };
        // Changes that were made before the beginning are applied on top of the order's limit.
        control.change(&limit.then(changes));
    }
    control
}

fn log_end(access: &Access, order: &Order, receipt: &v1::Receipt) {
    let outcome = serde_json::to_value(receipt.state).unwrap_or_default();
    let from = receipt.source.join(" ");
    let to = &receipt.target;
    tracing::info!(
        target: "access", who = access.who(), event = "carry", job = %order.id, from, to, outcome = %outcome,
        bytes = receipt.bytes, files = receipt.files, failed = receipt.failed, seconds = receipt.seconds,
        error = receipt.error.as_deref(),
    );
}

/// A transfer as it is shown once it has ended.
fn as_ended(before: &Transfer, stage: Stage, receipt: Option<&v1::Receipt>, reason: Option<&str>) -> Transfer {
    let mut ended = Transfer {
        state: stage,
        ended: Some(now_text()),
        rate_bit_s: 0,
        streams: 0,
        eta_s: None,
        waiting_for: String::new(),
        error: reason.map(str::to_owned),
        ..before.clone()
    };
    if let Some(receipt) = receipt {
        ended.bytes = receipt.bytes + receipt.skipped_bytes;
        ended.sent_bytes = receipt.sent_bytes;
        ended.files = receipt.files + receipt.skipped;
        ended.bytes_total = ended.bytes_total.max(ended.bytes);
        ended.files_total = ended.files_total.max(ended.files);
        ended.rate_bit_s = receipt.rate_bit_s;
        ended.seconds = receipt.seconds;
        ended.failed = Some(receipt.failed);
        ended.exit = Some(receipt.exit);
        // Without an error of the whole transfer, the first failure is shown.
        let first = receipt.failures.first().filter(|_| stage != Stage::Done);
        ended.error = receipt.error.clone().or_else(|| first.map(|miss| format!("{}: {}", miss.path, miss.reason)));
    }
    ended
}

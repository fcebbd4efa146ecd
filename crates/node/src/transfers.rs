//! Delegated transfers: this node carries them between one of its places and another node or a server, and the client may leave.
//! They are ordered over HTTP (`http::api`) or over the native protocol (an errand). Either way the order is kept as JSON: it is
//! written down before it is accepted and continues after a restart of the node, and its receipt is kept.
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
use wire::frame::Errand;

use self::connector::Connector;
use self::file_list::EndedOutcomes;
use self::order::OtherEnd;
pub(crate) use self::order::{identity_of, locator};
use self::records::{ClaimOutcome, TransferRecords};
use self::run::TransferRun;
use self::spent::Spent;
use self::table::{Entry, Table, UNENDED_BYTES_MAX};
pub(crate) use self::table::{REMEMBERED_MAX, RUNNING_MAX, TransferChange, UNENDED_MAX};
use crate::access::AccessControl;
use crate::clock::{now, now_text, now_us};
use crate::config::NodeConfig;
use crate::dialling::Dialling;
use crate::jobs::{self, Jobs};
pub(crate) use crate::order_table::PageQuery;
use crate::shutdown::Shutdown;
use arc_swap::ArcSwap;

/// The role of a delegated transfer in the list of jobs.
const ROLE: &str = "carry";

/// The answer to an order whose id was used within the last day by a transfer that is not remembered any more.
pub(crate) const SPENT: &str = "a transfer of this id ended here within the last day, and what became of it is not remembered any more; \
                               look at the target, and order anew under an id of its own";

/// The schemes of servers that can be the other end.
pub(crate) use client::remote_store::SCHEMES;

/// The transfers of a node.
pub(crate) struct Transfers {
    access: Arc<AccessControl>,
    jobs: Jobs,
    shutdown: Shutdown,
    connector: Connector,
    /// The records of transfers in the state directory; none on a node that lives for one copy: it does not continue them, and
    /// leaves those of other nodes with the same state directory alone.
    records: Option<TransferRecords>,
    table: Mutex<Table>,
    /// The memory of orders that have not ended.
    budget: Budget,
    /// Ids of transfers that are not remembered any more.
    spent: Mutex<Spent>,
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
    /// The id is that of another order, whose holder is not told.
    Known,
    /// The transfer of this id has ended and is not remembered any more.
    Spent,
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
    let writes = matches!(plan.other_end, OtherEnd::Pull { .. } | OtherEnd::In(_));
    let path = |place| match place {
        NodePlace::Path { export, path } => Some((export, path)),
        _ => None,
    };
    Ok((writes, plan.here.into_iter().filter_map(path).collect()))
}

impl Transfers {
    /// The transfers of a node with this configuration.
    pub fn new(access: Arc<AccessControl>, jobs: Jobs, shutdown: Shutdown, config: &NodeConfig) -> Transfers {
        let (state, is_lasting) = (config.state.path(), !config.own_guests);
        let spent = if is_lasting { Spent::open(&state.join("transfers-spent"), now_s()) } else { Spent::default() };
        Transfers {
            access,
            jobs,
            shutdown,
            connector: Connector::new(config.timeouts, config.listen, config.own_guests),
            records: is_lasting.then(|| TransferRecords::new(state.join("transfers"))),
            table: Mutex::default(),
            budget: Budget::new(UNENDED_BYTES_MAX.1, UNENDED_BYTES_MAX.0),
            spent: Mutex::new(spent),
            writing: Mutex::default(),
            ended_outcomes: EndedOutcomes::default(),
        }
    }

    /// Sets how servers are dialled on behalf of clients.
    pub fn dial_by(&self, dialling: Arc<ArcSwap<Dialling>>) {
        self.connector.dial_by(dialling);
    }

    /// Closes the session pool, because the node stops.
    pub fn stop(&self) {
        self.connector.pool.close();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Accepts an order; returns the transfer, and whether it is new. The same order again is the same transfer.
    ///
    /// # Errors
    /// The node stops, the order is invalid, the principal lacks a right, the id is taken or spent, or there is no room.
    pub fn accept(self: &Arc<Self>, access: &Access, order: Order) -> Result<(Arc<Transfer>, bool), Unaccepted> {
        if self.shutdown.has_begun() {
            return Err(stopping().into());
        }
        let plan = order::read(&order)?;
        self.access.may_send_out(access, &plan.elsewhere())?;
        if let Some(answer) = self.known(access, &order) {
            return answer;
        }
        // Storage and servers are asked here, which may take time: no lock is held.
        run::check(&self.access, access, &order, &plan)?;
        let writing = self.writing.lock();
        if let Some(answer) = self.known(access, &order) {
            return answer;
        }
        let part = self.room_for(access.holder(), &order)?;
        let id = order.id;
        let entry = Entry::new(order, access.clone(), now_text(), Some(part));
        if let Some(records) = &self.records {
            records.write(&entry.keep(), None, false).map_err(|error| {
                let reason = format!("the node cannot write down the job in its state directory: {error}");
                Refusal::new(Fault::Local, reason)
            })?;
        }
        self.table().insert(entry, now_us());
        drop(writing);
        self.start_waiting();
        let shown = self.table().get(&id).map(Entry::show);
        shown.map(|shown| (shown, true)).ok_or_else(|| stopping().into())
    }

    /// The answer to an order whose id is known; none where it is new.
    fn known(&self, access: &Access, order: &Order) -> Option<Result<(Arc<Transfer>, bool), Unaccepted>> {
        if let Some(known) = self.table().get(&order.id) {
            let is_same = known.holder == access.holder() && known.is_of(order);
            return Some(if is_same { Ok((known.show(), false)) } else { Err(Unaccepted::Known) });
        }
        self.spent().has(&order.id, now_s()).then_some(Err(Unaccepted::Spent))
    }

    /// The outcomes of a transfer's files, without the first `after`; none where the holder has no such transfer.
    pub fn outcomes(&self, holder: &str, id: &Uuid, after: u64, limit: usize) -> Option<FileResults> {
        let outcomes = {
            let table = self.table();
            Arc::clone(&table.get(id).filter(|entry| entry.holder == holder)?.outcomes)
        };
        Some(outcomes.page(after, limit))
    }

    /// Accepts an errand; one that is known already is the same errand. Errands do not wait in the queue, because their client waits
    /// for them.
    ///
    /// # Errors
    /// The node carries as many transfers as it may, or the order is refused.
    pub fn accept_errand(self: &Arc<Self>, access: &Access, errand: &Errand) -> Result<(), Refusal> {
        let order = native_order::order(errand);
        {
            let table = self.table();
            match table.get(&order.id) {
                Some(known) if known.holder == access.holder() => return Ok(()),
                Some(_) => return Err(Refusal::new(Fault::Auth, "a job of this name is somebody else's")),
                None => {}
            }
            let (own, all) = table.orders.running(access.holder());
            if own >= RUNNING_MAX.0 || all >= RUNNING_MAX.1 {
                let reason = "this node carries as many jobs as it may already; try again when some have ended";
                return Err(Refusal::new(Fault::Path, reason));
            }
        }
        match self.accept(access, order) {
            Ok(_) => Ok(()),
            Err(Unaccepted::Refused(refusal)) => Err(refusal),
            Err(Unaccepted::Known) => Err(Refusal::new(Fault::Auth, "a job of this name is somebody else's")),
            Err(Unaccepted::Spent) => Err(Refusal::new(Fault::Config, SPENT)),
            Err(Unaccepted::Full(why)) => Err(Refusal::new(Fault::Path, why)),
        }
    }

    /// Loads the records of an earlier run: continues unfinished transfers, and remembers ended ones.
    pub fn go_on(self: &Arc<Self>) {
        let Some(records) = &self.records else { return };
        records.sweep();
        let known = records.all();
        let mut table = self.table();
        for record in known {
            let access = record.ended.is_none().then(|| self.access.access_of(&record.holder)).flatten();
            if record.ended.is_none() {
                tracing::info!(job = %record.order.id, "going on with a job that a restart interrupted");
            }
            table.insert(Entry::from_record(record, access, &self.budget), now_us());
        }
        let gone = table.forget_the_oldest();
        drop(table);
        self.forget(gone);
        self.start_waiting();
    }

    /// Starts the transfers whose turn it is.
    fn start_waiting(self: &Arc<Self>) {
        while !self.shutdown.has_begun() {
            let Some(id) = self.table().next_turn() else { return };
            self.start(&id);
        }
    }

    /// Begins a transfer, or settles how it ends. The caller starts the next one.
    fn start(self: &Arc<Self>, id: &Uuid) {
        // From the claim to the beginning the record is not replaced, or the lock would be on the former file.
        let writing = self.writing.lock();
        let held = match self.records.as_ref().map(|records| records.claim(id)) {
            None => None,
            Some(Ok(ClaimOutcome::Ours(held))) => Some(held),
            Some(Ok(ClaimOutcome::Ended(record))) => {
                if let Some(told) = record.ended {
                    let gone = self.table().end(id, told, None, now_us());
                    self.forget(gone);
                }
                return;
            }
            Some(Ok(ClaimOutcome::Elsewhere)) => return self.table().give_up(id),
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
            tracing::warn!(job = %id, "a job is not gone on with: whoever ordered it cannot be asked for any more");
            let reason = "whoever ordered this cannot be asked for after a restart of the node: the access key was revoked, or \
                          it was ordered with a token or a certificate; order it again";
            return self.fail(id, reason);
        };
        let plan = match order::read(&order) {
            Ok(plan) if !changes.cancel => plan,
            Ok(_) => {
                drop(writing);
                return self.settle(id, Stage::Cancelled, None, None);
            }
            Err(refusal) => {
                drop(writing);
                return self.fail(id, &refusal.reason);
            }
        };
        let control = control(&order, &changes);
        self.jobs.keep(*id.as_bytes(), ROLE, access.holder(), &control);
        self.table().begin(id, control.clone(), held, now_text(), now_us());
        drop(writing);
        let (transfers, id_of_run, never_begun) = (Arc::clone(self), *id, control.clone());
        let run = move || {
            let transfer = TransferRun {
                rules: &transfers.access,
                connector: &transfers.connector,
                order: &order,
                plan: &plan,
                access: &access,
                control: &control,
                outcomes: &outcomes,
                begun,
            };
            let receipt = transfer.run();
            write_to_log(&access, &order, &receipt);
            transfers.ended(&id_of_run, &control, receipt);
        };
        if let Err(error) = std::thread::Builder::new().name("transfer".into()).spawn(run) {
            tracing::warn!(%error, "cannot start a thread for a transfer");
            never_begun.end(None);
            self.fail(id, &format!("the node has no thread for it: {error}"));
        }
    }

    fn ended(self: &Arc<Self>, id: &Uuid, control: &Control, receipt: v1::Receipt) {
        // Interrupted by the shutdown: the transfer continues after the restart.
        if receipt.state == v1::State::Interrupted && self.shutdown.has_begun() {
            return control.end(Some(receipt));
        }
        let source = order::first_sources(&receipt.source);
        let receipt = v1::Receipt { source, ..receipt };
        control.end(Some(jobs::brief(&receipt)));
        self.settle(id, control.show().state, Some(&receipt), None);
        self.start_waiting();
    }

    /// Ends a transfer that has not begun.
    fn fail(&self, id: &Uuid, reason: &str) {
        self.settle(id, Stage::Failed, None, Some(reason));
    }

    /// Ends a transfer: shows its end and writes it down.
    fn settle(&self, id: &Uuid, stage: Stage, receipt: Option<&v1::Receipt>, reason: Option<&str>) {
        let mut table = self.table();
        // The first end counts.
        let Some(entry) = table.get(id).filter(|entry| !entry.has_ended()) else { return };
        let told = told(&entry.show(), stage, receipt, reason);
        let receipt = receipt.and_then(|receipt| serde_json::to_string(receipt).ok());
        let gone = table.end(id, told, receipt.map(Arc::from), now_us());
        drop(table);
        if let Err(error) = self.write_down(id) {
            tracing::error!(job = %id, %error, "a transfer has ended, and that cannot be written down");
        }
        self.forget(gone);
        if let Some(outcomes) = self.table().get(id).map(|entry| Arc::clone(&entry.outcomes)) {
            self.ended_outcomes.push(outcomes);
        }
    }

    /// Writes the present record of a transfer.
    fn write_down(&self, id: &Uuid) -> std::io::Result<()> {
        let Some(records) = &self.records else { return Ok(()) };
        let _writing = self.writing.lock();
        let found = self.table().get(id).map(|e| (e.keep(), e.receipt.clone(), e.held.is_some()));
        let Some((record, receipt, is_held)) = found else { return Ok(()) };
        let has_ended = record.ended.is_some();
        if has_ended && receipt.is_none() && self.table().get(id).is_some_and(|entry| entry.is_settled) {
            // Another thread has written it, with its receipt.
            return Ok(());
        }
        let file = records.write(&record, receipt.as_deref(), is_held && !has_ended)?;
        if let Some(entry) = self.table().orders.get_mut(id) {
            // Replaces the file that held the lock until now.
            entry.held = Some(file).filter(|_| is_held && !has_ended);
            entry.receipt = None;
            entry.is_settled = has_ended;
        }
        Ok(())
    }

    /// Changes a transfer; none where the holder has no such transfer that has not ended.
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
        if let Err(error) = self.write_down(id) {
            tracing::warn!(job = %id, %error, "a change to a transfer cannot be written down: a restart would undo it");
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
        // Out of the queue at once: it must not be started while it ends.
        let waited = table.orders.leave_the_line(id);
        drop(table);
        match control {
            Some(control) => {
                if let Err(error) = self.write_down(id) {
                    tracing::warn!(job = %id, %error, "the end of a transfer cannot be written down yet");
                }
                control.change(&Change { cancel: true, ..Change::default() });
            }
            None if waited => {
                self.settle(id, Stage::Cancelled, None, None);
                self.start_waiting();
            }
            // It is beginning now, and checks for a cancellation itself.
            None => {}
        }
        self.get(holder, id)
    }
}

fn control(order: &Order, changes: &Change) -> Control {
    let (source, target) = order::ends(order);
    let label = Label { id: order.id, role: ROLE, source: order::first_sources(&source), target };
    let control = Control::new(label, order::steer(order, changes), Arc::default());
    if let Some(seconds) = order.limit_for_s {
        let limit = Change { limit_bit_s: Some(order.limit_bit_s), limit_for_s: Some(seconds), ..Change::default() };
        // Later changes count: those from before the beginning are applied again when the transfer begins.
        control.change(&limit.then(changes));
    }
    control
}

fn write_to_log(access: &Access, order: &Order, receipt: &v1::Receipt) {
    let outcome = serde_json::to_value(receipt.state).unwrap_or_default();
    let (from, to) = (receipt.source.join(" "), &receipt.target);
    tracing::info!(
        target: "access", who = access.who(), event = "carry", job = %order.id, from, to, outcome = %outcome,
        bytes = receipt.bytes, files = receipt.files, failed = receipt.failed, seconds = receipt.seconds,
        error = receipt.error.as_deref(),
    );
}

/// A transfer as it is shown once it has ended.
fn told(before: &Transfer, stage: Stage, receipt: Option<&v1::Receipt>, reason: Option<&str>) -> Transfer {
    let mut told = Transfer {
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
        told.bytes = receipt.bytes + receipt.skipped_bytes;
        told.sent_bytes = receipt.sent_bytes;
        told.files = receipt.files + receipt.skipped;
        told.bytes_total = told.bytes_total.max(told.bytes);
        told.files_total = told.files_total.max(told.files);
        told.rate_bit_s = receipt.rate_bit_s;
        told.seconds = receipt.seconds;
        told.failed = Some(receipt.failed);
        told.exit = Some(receipt.exit);
        // Without an error of the whole transfer, the first failure is shown.
        let first = receipt.failures.first().filter(|_| stage != Stage::Done);
        told.error = receipt.error.clone().or_else(|| first.map(|miss| format!("{}: {}", miss.path, miss.reason)));
    }
    told
}

//! Transfers: what this node carries by itself between one of its places and another node or a server, for a guest who may leave.
//! They are ordered over HTTP (`http::api`) or over the native protocol (an errand); either way it is an order in JSON that is
//! written down before it is accepted, is gone on with after a restart of the node, and whose receipt is kept.
//!
//! What a guest gives of itself to the other end (a one-time key, a token) is kept with the order while it is under way, told to
//! nobody, and removed with its end.

mod asked;
mod errand;
mod file_list;
mod kept;
mod order;
mod remote_end;
mod room;
mod run;
mod spent;
mod table;
mod ways;

use std::sync::Arc;

use auth::Access;
use engine::budget::Budget;
use engine::control::{Control, Label};
use model::fault::Fault;
use model::id::Uuid;
use model::locator::Place;
use model::v1::node::{FileResults, Order};
use model::v1::{Change, Stage, Transfer};
use model::{Refusal, v1};
use parking_lot::{Mutex, MutexGuard};
use wire::frame::Errand;

use self::file_list::EndedOutcomes;
use self::kept::{Claim, Shelf};
use self::order::Way;
pub(crate) use self::order::{identity_of, locator};
use self::run::Carried;
use self::spent::Spent;
pub(crate) use self::table::{Changed, REMEMBERED_MAX, RUNNING_MAX, UNENDED_MAX};
use self::table::{Entry, Table, UNENDED_BYTES_MAX};
use self::ways::Ways;
use crate::access::AccessControl;
use crate::clock::{now, now_text, now_us};
use crate::config::NodeConfig;
use crate::dialling::Dialling;
use crate::jobs::{self, Jobs};
pub(crate) use crate::order_table::Asked;
use crate::shutdown::Shutdown;
use arc_swap::ArcSwap;

/// What a node shows as the role of such a job.
const ROLE: &str = "carry";

/// To whoever orders again what nothing is remembered of.
pub(crate) const SPENT: &str = "a transfer of this id ended here within the last day, and what became of it is not remembered any more; \
                               look at the target, and order anew under an id of its own";

/// Schemes of servers that can be the other end.
pub(crate) use client::remote_store::SCHEMES;

/// The transfers of a node.
pub(crate) struct Transfers {
    access: Arc<AccessControl>,
    jobs: Jobs,
    shutdown: Shutdown,
    ways: Ways,
    /// Where they are written down; nowhere on a node that lives for a single copy: it does not come back, and leaves those of
    /// others with the same state directory alone.
    shelf: Option<Shelf>,
    table: Mutex<Table>,
    /// What orders that have not ended take.
    budget: Budget,
    /// Ids of which nothing else is known any more.
    spent: Mutex<Spent>,
    /// Held while something is written down, so that what is written last is what holds.
    writing: Mutex<()>,
    /// What became of the files of transfers that have ended.
    ended_outcomes: EndedOutcomes,
}

/// Why an order is not taken on.
#[derive(Debug)]
pub(crate) enum Unaccepted {
    /// What it asks for cannot be, or may not.
    Refused(Refusal),
    /// The id is that of another order; whose is not told.
    Known,
    /// It ended here, and what became of it is not remembered any more.
    Spent,
    /// There are too many already, or they take too much.
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

/// Whether an order writes here, and the paths of exports that it names here.
pub(crate) fn places_here(order: &Order) -> Result<(bool, Vec<(String, model::RelPath)>), Refusal> {
    let plan = order::read(order)?;
    let writes = matches!(plan.way, Way::Pull { .. } | Way::In(_));
    let path = |place| match place {
        Place::Path { export, path } => Some((export, path)),
        _ => None,
    };
    Ok((writes, plan.here.into_iter().filter_map(path).collect()))
}

impl Transfers {
    /// Of a node that is started like this.
    pub fn new(access: Arc<AccessControl>, jobs: Jobs, shutdown: Shutdown, config: &NodeConfig) -> Transfers {
        let (state, is_lasting) = (config.state.path(), !config.own_guests);
        let spent = if is_lasting { Spent::open(&state.join("transfers-spent"), now_s()) } else { Spent::default() };
        Transfers {
            access,
            jobs,
            shutdown,
            ways: Ways::new(config.timeouts, config.listen, config.own_guests),
            shelf: is_lasting.then(|| Shelf::new(state.join("transfers"))),
            table: Mutex::default(),
            budget: Budget::new(UNENDED_BYTES_MAX.1, UNENDED_BYTES_MAX.0),
            spent: Mutex::new(spent),
            writing: Mutex::default(),
            ended_outcomes: EndedOutcomes::default(),
        }
    }

    /// Servers are dialled like this on behalf of guests.
    pub fn dial_by(&self, dialling: Arc<ArcSwap<Dialling>>) {
        self.ways.dial_by(dialling);
    }

    /// The node stops: no session is kept any longer.
    pub fn stop(&self) {
        self.ways.warm.close();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Takes an order on. The same order again is the same transfer: whether it is a new one comes back with what is told of it.
    pub fn accept(self: &Arc<Self>, access: &Access, order: Order) -> Result<(Arc<Transfer>, bool), Unaccepted> {
        if self.shutdown.has_begun() {
            return Err(stopping().into());
        }
        let plan = order::read(&order)?;
        self.access.may_send_out(access, &plan.elsewhere())?;
        if let Some(answer) = self.known(access, &order) {
            return answer;
        }
        // Storage and servers are asked here, which may take its time: nobody else waits for it.
        run::check(&self.access, access, &order, &plan)?;
        let writing = self.writing.lock();
        if let Some(answer) = self.known(access, &order) {
            return answer;
        }
        let part = self.room_for(access.holder(), &order)?;
        let id = order.id;
        let entry = Entry::new(order, access.clone(), now_text(), Some(part));
        if let Some(shelf) = &self.shelf {
            shelf.write(&entry.keep(), None, false).map_err(|error| {
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

    /// The answer where an order's id is known.
    fn known(&self, access: &Access, order: &Order) -> Option<Result<(Arc<Transfer>, bool), Unaccepted>> {
        if let Some(known) = self.table().get(&order.id) {
            let is_same = known.holder == access.holder() && known.is_of(order);
            return Some(if is_same { Ok((known.show(), false)) } else { Err(Unaccepted::Known) });
        }
        self.spent().has(&order.id, now_s()).then_some(Err(Unaccepted::Spent))
    }

    /// What became of the files of a transfer, behind the first `after`; none where there is no such transfer of this holder.
    pub fn outcomes(&self, holder: &str, id: &Uuid, after: u64, limit: usize) -> Option<FileResults> {
        let outcomes = {
            let table = self.table();
            Arc::clone(&table.get(id).filter(|entry| entry.holder == holder)?.outcomes)
        };
        Some(outcomes.page(after, limit))
    }

    /// Takes an errand on. One that is known already is the same errand, and there is no line for errands to wait in: who orders
    /// one looks on.
    pub fn accept_errand(self: &Arc<Self>, access: &Access, errand: &Errand) -> Result<(), Refusal> {
        let order = errand::order(errand);
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

    /// Goes on with what an earlier run of the node left, and remembers what had ended by then.
    pub fn go_on(self: &Arc<Self>) {
        let Some(shelf) = &self.shelf else { return };
        shelf.sweep();
        let known = shelf.all();
        let mut table = self.table();
        for kept in known {
            let access = kept.ended.is_none().then(|| self.access.access_of(&kept.holder)).flatten();
            if kept.ended.is_none() {
                tracing::info!(job = %kept.order.id, "going on with a job that a restart interrupted");
            }
            table.insert(Entry::kept(kept, access, &self.budget), now_us());
        }
        let gone = table.forget_the_oldest();
        drop(table);
        self.forget(gone);
        self.start_waiting();
    }

    /// Starts those whose turn it is.
    fn start_waiting(self: &Arc<Self>) {
        while !self.shutdown.has_begun() {
            let Some(id) = self.table().next_turn() else { return };
            self.start(&id);
        }
    }

    /// Begins one, or settles what becomes of it; who calls goes on with the line.
    fn start(self: &Arc<Self>, id: &Uuid) {
        // From the claim to the beginning what is written down stays as it is, or the lock would be on a file that was replaced.
        let writing = self.writing.lock();
        let held = match self.shelf.as_ref().map(|shelf| shelf.claim(id)) {
            None => None,
            Some(Ok(Claim::Ours(held))) => Some(held),
            Some(Ok(Claim::Ended(kept))) => {
                if let Some(told) = kept.ended {
                    let gone = self.table().end(id, told, None, now_us());
                    self.forget(gone);
                }
                return;
            }
            Some(Ok(Claim::Elsewhere)) => return self.table().give_up(id),
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
            let carried = Carried {
                rules: &transfers.access,
                ways: &transfers.ways,
                order: &order,
                plan: &plan,
                access: &access,
                control: &control,
                outcomes: &outcomes,
                begun,
            };
            let receipt = carried.run();
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
        // Stopped with the node: it goes on when the node does.
        if receipt.state == v1::State::Interrupted && self.shutdown.has_begun() {
            return control.end(Some(receipt));
        }
        let source = order::first_sources(&receipt.source);
        let receipt = v1::Receipt { source, ..receipt };
        control.end(Some(jobs::brief(&receipt)));
        self.settle(id, control.show().state, Some(&receipt), None);
        self.start_waiting();
    }

    /// It ends before it has begun.
    fn fail(&self, id: &Uuid, reason: &str) {
        self.settle(id, Stage::Failed, None, Some(reason));
    }

    /// It has ended: told, written down, and no more of it under way.
    fn settle(&self, id: &Uuid, stage: Stage, receipt: Option<&v1::Receipt>, reason: Option<&str>) {
        let mut table = self.table();
        // How it ended first is how it ended.
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

    /// Writes down what holds of a transfer now.
    fn write_down(&self, id: &Uuid) -> std::io::Result<()> {
        let Some(shelf) = &self.shelf else { return Ok(()) };
        let _writing = self.writing.lock();
        let found = self.table().get(id).map(|e| (e.keep(), e.receipt.clone(), e.held.is_some()));
        let Some((kept, receipt, is_held)) = found else { return Ok(()) };
        let has_ended = kept.ended.is_some();
        if has_ended && receipt.is_none() && self.table().get(id).is_some_and(|entry| entry.is_settled) {
            // Written down by somebody else, with its receipt.
            return Ok(());
        }
        let file = shelf.write(&kept, receipt.as_deref(), is_held && !has_ended)?;
        if let Some(entry) = self.table().orders.get_mut(id) {
            // The one that held the lock until now is replaced.
            entry.held = Some(file).filter(|_| is_held && !has_ended);
            entry.receipt = None;
            entry.is_settled = has_ended;
        }
        Ok(())
    }

    /// Changes a transfer; none where the holder has no such one that has not ended.
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

    /// Ends a transfer. One that has ended stays as it ended.
    pub fn cancel(self: &Arc<Self>, holder: &str, id: &Uuid) -> Option<Arc<Transfer>> {
        let mut table = self.table();
        let entry = table.orders.of_mut(holder, id)?;
        if entry.has_ended() {
            return Some(entry.show());
        }
        entry.changes.cancel = true;
        let control = entry.control.clone();
        // Out of the line at once: its turn must not come while it ends.
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
            // It begins just now, and looks whether it was ended by then.
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
        // What is said later counts; what was said before it began is said again when it begins.
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

/// What is told of a transfer once it has ended.
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
        // Where the job as a whole had nothing to say, what did not arrive has.
        let first = receipt.failures.first().filter(|_| stage != Stage::Done);
        told.error = receipt.error.clone().or_else(|| first.map(|miss| format!("{}: {}", miss.path, miss.reason)));
    }
    told
}

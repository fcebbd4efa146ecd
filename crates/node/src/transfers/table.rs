//! The table of transfers: an `OrderTable` with the numbers of the transfers' changes, which subscribers follow over restarts, and
//! with their records. Time is an argument; files, threads and sessions are elsewhere.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::sync::Arc;

use auth::Access;
use engine::budget::{Budget, Part};
use engine::control::Control;
use model::id::Uuid;
use model::v1::node::Order;
use model::v1::{Change, Stage, Transfer};
use sha2::{Digest, Sha256};

use super::file_list::Outcomes;
use super::order::{bare, ends, first_sources, live_settings};
use super::records::TransferRecord;
use crate::holder_bound::HolderBound;
use crate::order_table::{OrderEntry, OrderTable, Page, PageQuery};

/// Transfers under way at once: of one holder, and of all.
pub(crate) const RUNNING_MAX: HolderBound = HolderBound { each: 64, all: 256 };
/// Transfers that have not ended: of one holder, and of all.
pub(crate) const UNENDED_MAX: HolderBound = HolderBound { each: 10_000, all: 20_000 };
/// Bytes of their orders: of one holder, and of all.
pub(crate) const UNENDED_BYTES_MAX: HolderBound = HolderBound { each: 32 << 20, all: 128 << 20 };
/// Ended transfers that are remembered; the oldest of the holder with the most are forgotten first.
pub(crate) const REMEMBERED_MAX: usize = 10_000;
/// Bytes of ended transfers, with their receipts on disk.
pub(crate) const REMEMBERED_BYTES_MAX: usize = 128 << 20;
/// Bytes of an order besides its texts: for its entry, and for each text.
const ENTRY_BYTES: usize = 1024;
const TEXT_BYTES: usize = 64;

/// A transfer.
pub(super) struct Entry {
    pub holder: String,
    /// The order, with its secrets until the transfer has ended.
    pub order: Arc<Order>,
    pub changes: Change,
    /// An earlier run of this node may have begun it.
    pub begun: bool,
    /// The transfer as it is shown, apart from what its control knows.
    base: Arc<Transfer>,
    /// Its receipt, until that is written down.
    pub receipt: Option<Arc<str>>,
    /// The length of its receipt.
    receipt_bytes: usize,
    /// Its end is written down.
    pub is_stored: bool,
    /// Its control while it is under way.
    pub control: Option<Control>,
    /// The outcomes of its files, if they were named one by one; lost with the process.
    pub outcomes: Arc<Outcomes>,
    /// The locked record, while the transfer is under way.
    pub locked_record: Option<File>,
    /// The access of the principal that ordered it, until it has ended.
    pub access: Option<Access>,
    /// The memory of its order, until it has ended.
    part: Option<Part>,
    /// A digest of the original order, by which a repeated order is recognised.
    order_digest: String,
    revision: u64,
}

/// Bytes of an order in memory; fewer on disk. Source and target count twice: as ordered, and as shown.
pub(super) fn footprint(order: &Order) -> usize {
    let files = order.files.iter().flat_map(|file| [&file.source, &file.target]);
    let texts = order.source.iter().chain([&order.target]).chain(files).map(|text| 2 * text.len());
    let patterns = order.options.filters.iter().map(|filter| filter.pattern.len());
    let given = order
        .credentials
        .as_ref()
        .map_or(0, |given| [&given.key, &given.token, &given.certificate].into_iter().flatten().map(String::len).sum());
    ENTRY_BYTES + given + texts.chain(patterns).map(|bytes| bytes + TEXT_BYTES).sum::<usize>()
}

/// A digest of an order without its secrets.
pub(super) fn order_digest(order: &Order) -> String {
    // An order that cannot be written equals no other.
    let text = serde_json::to_vec(&bare(order)).unwrap_or_default();
    model::hex::encode(&Sha256::digest(text))
}

/// The part of an order that is kept once it has ended: source and target. Its receipt holds the options.
fn ended_order(order: &Order) -> Order {
    let mut bare = bare(order);
    bare.options.filters.clear();
    let (source, target) = ends(order);
    bare.source = first_sources(&source);
    bare.target = target;
    bare.files.clear();
    bare
}

impl Entry {
    /// A transfer that was ordered now.
    pub fn new(order: Order, access: Access, created: String, part: Option<Part>) -> Entry {
        let order_digest = order_digest(&order);
        let settings = live_settings(&order, &Change::default());
        let (source, target) = ends(&order);
        let base = Transfer {
            id: order.id,
            source,
            target,
            created,
            limit_bit_s: settings.limit_bit_s,
            ..Transfer::default()
        };
        Entry {
            holder: access.holder().to_owned(),
            order: Arc::new(order),
            changes: Change::default(),
            begun: false,
            base: Arc::new(base),
            receipt: None,
            receipt_bytes: 0,
            is_stored: false,
            control: None,
            outcomes: Arc::default(),
            locked_record: None,
            access: Some(access),
            part,
            order_digest,
            revision: 0,
        }
    }

    /// A transfer of an earlier record. An ended one needs no access.
    pub fn from_record(record: TransferRecord, access: Option<Access>, budget: &Budget) -> Entry {
        let TransferRecord {
            holder,
            created,
            revision,
            order,
            order_digest,
            receipt_bytes,
            changes,
            cancelled,
            ended,
            ..
        } = record;
        let changes = Change { cancel: changes.cancel || cancelled, ..changes };
        let order_digest = order_digest.unwrap_or_else(|| self::order_digest(&order));
        let base = ended.unwrap_or_else(|| Transfer {
            id: order.id,
            source: ends(&order).0,
            target: ends(&order).1,
            created,
            limit_bit_s: live_settings(&order, &changes).limit_bit_s,
            ..Transfer::default()
        });
        let is_stored = base.state.is_last();
        let part = (!is_stored).then(|| {
            let mut part = budget.part(&holder);
            // It has been accepted, and stays so even if the budget is smaller now.
            let _ = part.grow(footprint(&order));
            part
        });
        let order = Arc::new(order);
        let base = Arc::new(base);
        Entry {
            holder,
            order,
            changes,
            begun: true,
            base,
            receipt: None,
            receipt_bytes,
            is_stored,
            control: None,
            outcomes: Arc::default(),
            locked_record: None,
            access,
            part,
            order_digest,
            revision,
        }
    }

    /// Whether an order is the same as this transfer's.
    pub fn is_of(&self, order: &Order) -> bool {
        self.order_digest == order_digest(order)
    }

    /// Its bytes among the remembered ones.
    fn bytes(&self) -> usize {
        footprint(&self.order) + self.receipt_bytes
    }

    /// Changes limit, streams, pause or cancellation.
    pub fn change(&mut self, change: &Change) {
        self.changes = self.changes.then(change);
        match &self.control {
            Some(control) => {
                control.change(change);
            }
            None => {
                let limit_bit_s = live_settings(&self.order, &self.changes).limit_bit_s;
                self.base = Arc::new(Transfer { limit_bit_s, ..(*self.base).clone() });
            }
        }
    }

    pub fn has_ended(&self) -> bool {
        self.base.state.is_last()
    }

    /// Its record.
    pub fn record(&self) -> TransferRecord {
        TransferRecord {
            v: 1,
            holder: self.holder.clone(),
            created: self.base.created.clone(),
            revision: self.revision,
            order: (*self.order).clone(),
            order_digest: Some(self.order_digest.clone()),
            receipt_bytes: self.receipt_bytes,
            changes: self.changes,
            cancelled: false,
            ended: self.has_ended().then(|| (*self.base).clone()),
        }
    }

    /// The transfer as it is shown now.
    pub fn show(&self) -> Arc<Transfer> {
        let Some(control) = &self.control else { return Arc::clone(&self.base) };
        let shown = control.show();
        // It is shown as ended only once its end has been recorded.
        let state = if shown.state.is_last() { Stage::Running } else { shown.state };
        let Transfer { id, source, target, created, started, ended, failed, exit, error, .. } = (*self.base).clone();
        let receipt = None;
        Arc::new(Transfer { id, state, source, target, created, started, ended, failed, exit, error, receipt, ..shown })
    }
}

impl OrderEntry for Entry {
    const RUNNING_MAX: HolderBound = RUNNING_MAX;
    const UNENDED_MAX: HolderBound = UNENDED_MAX;

    fn id(&self) -> Uuid {
        self.order.id
    }

    fn holder(&self) -> &str {
        &self.holder
    }
}

/// A transfer that has changed, and the number of its change.
pub(crate) struct TransferChange {
    pub revision: u64,
    pub transfer: Arc<Transfer>,
}

/// The transfers of a node, and the last change of each.
#[derive(Default)]
pub(super) struct Table {
    pub orders: OrderTable<Entry>,
    changes: BTreeMap<u64, Uuid>,
    revision: u64,
}

impl Table {
    pub fn get(&self, id: &Uuid) -> Option<&Entry> {
        self.orders.get(id)
    }

    /// The number of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Adds a transfer behind all others. An ended one keeps the number of its last change.
    pub fn insert(&mut self, mut entry: Entry, now_us: u64) {
        let id = entry.order.id;
        let ended_bytes = entry.has_ended().then(|| entry.bytes());
        if ended_bytes.is_none() {
            entry.revision = 0;
        }
        let revision = entry.revision;
        self.revision = self.revision.max(revision);
        self.orders.insert(entry);
        if let Some(bytes) = ended_bytes {
            self.orders.end(&id, bytes);
        }
        match revision {
            0 => self.touch(&id, now_us),
            known => drop(self.changes.insert(known, id)),
        }
    }

    /// Counts a change of a transfer. Numbers of changes grow over restarts: they are times in microseconds, unless the clock goes
    /// back.
    pub fn touch(&mut self, id: &Uuid, now_us: u64) {
        let Some(entry) = self.orders.get_mut(id) else { return };
        self.revision = now_us.max(self.revision + 1);
        self.changes.remove(&entry.revision);
        entry.revision = self.revision;
        self.changes.insert(self.revision, *id);
    }

    /// Starts the first waiting transfer of a holder below its bound. It counts as under way from here on.
    pub fn start_next(&mut self) -> Option<Uuid> {
        self.orders.start_next(|_| true)
    }

    /// Begins a transfer.
    pub fn begin(&mut self, id: &Uuid, control: Control, locked_record: Option<File>, started: String, now_us: u64) {
        if let Some(entry) = self.orders.get_mut(id) {
            let base = Transfer { state: Stage::Running, started: Some(started), ..(*entry.base).clone() };
            // Changes since the transfer was taken from the queue.
            control.change(&entry.changes);
            entry.base = Arc::new(base);
            entry.control = Some(control);
            entry.locked_record = locked_record;
        }
        self.touch(id, now_us);
    }

    /// Ends a transfer, which is shown as `ended` from now on, and removes its secrets. Returns the transfers that are forgotten, with
    /// their holders.
    pub fn end(&mut self, id: &Uuid, ended: Transfer, receipt: Option<Arc<str>>, now_us: u64) -> Vec<(Uuid, String)> {
        let Some(entry) = self.orders.get_mut(id) else { return Vec::new() };
        entry.order = Arc::new(ended_order(&entry.order));
        entry.base = Arc::new(Transfer { source: entry.order.source.clone(), ..ended });
        entry.receipt_bytes = receipt.as_ref().map_or(0, |receipt| receipt.len());
        entry.receipt = receipt;
        entry.control = None;
        entry.access = None;
        entry.part = None;
        let bytes = entry.bytes();
        self.orders.end(id, bytes);
        self.touch(id, now_us);
        self.forget_oldest()
    }

    /// Removes ended transfers beyond the bounds; returns their ids and holders.
    pub fn forget_oldest(&mut self) -> Vec<(Uuid, String)> {
        let forgotten = self.orders.forget_beyond(REMEMBERED_MAX, REMEMBERED_BYTES_MAX);
        for entry in &forgotten {
            self.changes.remove(&entry.revision);
        }
        forgotten.into_iter().map(|entry| (entry.order.id, entry.holder)).collect()
    }

    /// Removes a transfer that another node with the same state directory runs.
    pub fn remove(&mut self, id: &Uuid) {
        if let Some(entry) = self.orders.remove(id) {
            self.changes.remove(&entry.revision);
        }
    }

    /// A page of a holder's transfers; none if the transfer that it begins after is unknown.
    pub fn page(&self, holder: &str, query: &PageQuery<Stage>) -> Option<Page<Arc<Transfer>>> {
        self.orders.page(holder, query, Entry::show, |shown| shown.state)
    }

    /// A holder's transfers that changed after `mark`, in the order of the changes.
    pub fn changed_since(&self, mark: u64, holder: &str, only: Option<&Uuid>) -> Vec<TransferChange> {
        let after = self.changes.range((Bound::Excluded(mark), Bound::Unbounded));
        shown_of(after.filter_map(|(_, id)| self.get(id)), holder, only)
    }

    /// A holder's transfers that have not ended, in the order of their last changes.
    pub fn unended_of(&self, holder: &str, only: Option<&Uuid>) -> Vec<TransferChange> {
        let mut found = shown_of(self.orders.unended(), holder, only);
        found.sort_by_key(|changed| changed.revision);
        found
    }

    /// A holder's transfers under way: few, however long the table is.
    pub fn under_way_of(&self, holder: &str, only: Option<&Uuid>) -> Vec<TransferChange> {
        shown_of(self.orders.under_way(), holder, only)
    }
}

fn shown_of<'a>(entries: impl Iterator<Item = &'a Entry>, holder: &str, only: Option<&Uuid>) -> Vec<TransferChange> {
    let wanted = entries.filter(|e| e.holder == holder && only.is_none_or(|id| e.order.id == *id));
    wanted.map(|entry| TransferChange { revision: entry.revision, transfer: entry.show() }).collect()
}

#[cfg(test)]
mod tests;

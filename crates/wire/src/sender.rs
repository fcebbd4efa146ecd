//! The sending machine: offers a tree, receives verdicts, and deals out ranges of files to streams.
//!
//! A file's life: offered -> (sent inline | wanted -> dealt out range by range) -> ended -> settled. The machine keeps
//! an entry until the receiver settles it, and never more than [`limits::ENTRIES_IN_FLIGHT_MAX`].
//!
//! What it does not know: how bytes are read, sealed or sent. It orders which ranges go on which stream, and the engine reports which
//! records were built; the unacknowledged ranges of a lost stream are dealt again.

mod deal;
mod open;
mod outgoing;
mod reports;
mod settle;

use std::collections::{BTreeMap, HashMap, VecDeque};

use model::checksum::Digest;
use model::entry::{Attributes, Timestamp};
use model::name::{Name, RelPath};
use model::{Algorithm, Expected, Progress, Refusal};

use crate::error::WireError;
use crate::frame::{Claim, End, Entry, Offered, Plan, Removal, Totals, UNKNOWN_SIZE};
use crate::ledger::{Added, Ledger};
use crate::limits;
use crate::settled_files::SettledFiles;

use open::OpenDirs;
use outgoing::attribute_bytes;

pub use crate::limits::MISSES_NAMED_MAX;
pub use crate::range::{Built, Range};
pub use deal::Order;

/// An entry that failed, for the receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Path below the source root, the root's name first.
    pub path: RelPath,
    /// Why.
    pub refusal: Refusal,
}

/// An entry that was offered and is not settled.
#[derive(Debug)]
struct OfferedEntry {
    source: u32,
    parent: u64,
    path: RelPath,
    cost: usize,
    file: Option<FileSend>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Offered; there is no verdict yet.
    Offered,
    /// Sent on the control connection before a verdict.
    Inlined,
    /// Wanted unless it equals the receiver's file: it is compared first.
    Compare,
    /// Wanted; ranges are dealt out.
    Wanted,
    /// Given up: the receiver will settle it.
    Dropped,
}

#[derive(Debug)]
struct FileSend {
    size: u64,
    /// A pipe: its size was not known when it was offered.
    pipe: bool,
    mtime: Timestamp,
    changed: Option<Timestamp>,
    phase: Phase,
    /// The ranges (offset, length) that are not dealt yet.
    todo: VecDeque<(u64, u64)>,
    /// Ranges that the receiver claims to have and that are not checked yet.
    unchecked: usize,
    /// It goes on the control connection: see [`limits::INLINE_BYTES_MAX`].
    inline: bool,
    /// The one stream that carries it, where its digest needs the bytes in order, or it is a pipe.
    owner: Option<u32>,
    ledger: Ledger,
    serial: Vec<Digest>,
    expected: Expected,
    ended: bool,
    arrived: u64,
}

#[derive(Debug, Default)]
struct StreamSend {
    unacknowledged: VecDeque<Vec<(u64, u64, u64)>>,
    acknowledged: u64,
}

/// The sending machine.
#[derive(Debug)]
pub struct Sender {
    checksums: Vec<Algorithm>,
    roots: Vec<Name>,
    next_id: u64,
    dirs: OpenDirs,
    items: HashMap<u64, OfferedEntry>,
    item_bytes: usize,
    /// The files that have ranges to deal, in the order of their offers.
    ready: VecDeque<u64>,
    /// The ranges (file, offset, length) that must be sent again.
    again: VecDeque<(u64, u64, u64)>,
    /// How many ranges the receiver has requested again, because they arrived damaged.
    bad_blocks: u64,
    compare: VecDeque<(u64, Digest)>,
    /// Claims of the receiver, to be checked against the source.
    checks: VecDeque<(u64, Claim)>,
    /// The length of blocks that are cut from now on, bytes.
    block_bytes: u64,
    orders: u64,
    streams: BTreeMap<u32, StreamSend>,
    inline_candidates: VecDeque<u64>,
    inline_bytes: u64,
    out_entries: VecDeque<Entry>,
    out_inline: VecDeque<Vec<u8>>,
    out_held: Vec<(u64, u64, u64)>,
    out_ends: Vec<End>,
    out_drops: Vec<(u64, Refusal)>,
    out_same: Vec<u64>,
    scan_end: ScanEnd,
    finished: Option<Totals>,
    progress: Progress,
    misses: Vec<Miss>,
    settled: Totals,
    resent_bytes: u64,
    last_digests: Vec<Digest>,
    plans: Vec<Plan>,
    removal: Option<Removal>,
    settled_files: SettledFiles,
    dry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanEnd {
    Scanning,
    Due,
    Sent,
}

impl Sender {
    /// A machine for a job with these source roots, by name.
    pub fn new(checksums: Vec<Algorithm>, roots: Vec<Name>) -> Sender {
        Sender {
            checksums,
            roots,
            next_id: 1,
            dirs: OpenDirs::default(),
            items: HashMap::new(),
            item_bytes: 0,
            ready: VecDeque::new(),
            again: VecDeque::new(),
            bad_blocks: 0,
            compare: VecDeque::new(),
            checks: VecDeque::new(),
            block_bytes: limits::BLOCK_BYTES,
            orders: 0,
            streams: BTreeMap::new(),
            inline_candidates: VecDeque::new(),
            inline_bytes: 0,
            out_entries: VecDeque::new(),
            out_inline: VecDeque::new(),
            out_held: Vec::new(),
            out_ends: Vec::new(),
            out_drops: Vec::new(),
            out_same: Vec::new(),
            scan_end: ScanEnd::Scanning,
            finished: None,
            progress: Progress::default(),
            misses: Vec::new(),
            settled: Totals::default(),
            resent_bytes: 0,
            last_digests: Vec::new(),
            plans: Vec::new(),
            removal: None,
            settled_files: SettledFiles::default(),
            dry: false,
        }
    }

    /// Makes it a dry run: no file is sent before the receiver wants it, and it wants none.
    pub fn dry(mut self) -> Sender {
        self.inline_bytes = limits::INLINE_BYTES_MAX;
        self.dry = true;
        self
    }

    /// Whether this is a dry run.
    pub fn is_dry(&self) -> bool {
        self.dry
    }

    /// Cuts blocks of `bytes` bytes from now on, so that a limit far below the path's rate is kept evenly.
    pub fn set_block_bytes(&mut self, bytes: u64) {
        self.block_bytes = bytes.clamp(1, limits::BLOCK_BYTES);
    }

    /// Whether the scanner may offer more now.
    pub fn has_room(&self) -> bool {
        self.items.len() < limits::ENTRIES_IN_FLIGHT_MAX
            && self.item_bytes < limits::ENTRY_BYTES_IN_FLIGHT_MAX
            && self.dirs.has_room()
    }

    /// Offers an entry of source `source` at `path` below its root. Directories stay open until
    /// [`Sender::leave`]. Returns the entry's id.
    pub fn offer(&mut self, source: u32, path: RelPath, name: Name, what: Offered) -> u64 {
        self.offer_with(source, path, name, what, None)
    }

    /// As [`Sender::offer`], with the entry's further attributes.
    pub fn offer_with(
        &mut self,
        source: u32,
        path: RelPath,
        name: Name,
        what: Offered,
        attributes: Option<Box<Attributes>>,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let parent = self.dirs.offered(id, matches!(what, Offered::Dir { .. }));
        let file = match &what {
            Offered::File { mtime, size, .. } => Some(self.new_file(id, *size, *mtime)),
            _ => None,
        };
        let extra = match &what {
            Offered::Symlink { target, .. } => target.len(),
            Offered::HardLink { path, .. } => path.as_bytes().len(),
            Offered::Failed(refusal) => refusal.reason.len(),
            _ => 0,
        };
        let extra = extra + attributes.as_deref().map_or(0, attribute_bytes);
        let cost = path.as_bytes().len() + name.as_bytes().len() + extra + size_of::<OfferedEntry>();
        self.item_bytes += cost;
        self.items.insert(id, OfferedEntry { source, parent, path, cost, file });
        self.out_entries.push_back(Entry::New { id, parent, name, what, attributes });
        id
    }

    /// Sets the time of change (ctime) of a file that was just offered: the reader of its ranges compares it.
    pub fn note_changed(&mut self, id: u64, changed: Timestamp) {
        if let Some(file) = self.items.get_mut(&id).and_then(|item| item.file.as_mut()) {
            file.changed = Some(changed);
        }
    }

    /// Sets the expected size and digests of a file that was just offered. The job must have a digest besides CRC-32C: a CRC-32C alone is
    /// sent with the last block, and the receiver would put the file in place before it was compared.
    pub fn set_expected(&mut self, id: u64, expected: Expected) {
        if let Some(file) = self.items.get_mut(&id).and_then(|item| item.file.as_mut()) {
            file.expected = expected;
        }
    }

    /// The expected size and digests of a file.
    pub fn expected(&self, id: u64) -> Expected {
        self.items.get(&id).and_then(|item| item.file.as_ref()).map(|file| file.expected).unwrap_or_default()
    }

    fn new_file(&mut self, id: u64, size: u64, mtime: Timestamp) -> FileSend {
        self.progress.files_offered += 1;
        if size != UNKNOWN_SIZE {
            self.progress.bytes_offered = self.progress.bytes_offered.saturating_add(size);
        }
        let inline = limits::fits_inline(&mut self.inline_bytes, size);
        if inline {
            self.inline_candidates.push_back(id);
        }
        FileSend {
            size,
            pipe: size == UNKNOWN_SIZE,
            mtime,
            changed: None,
            phase: Phase::Offered,
            todo: VecDeque::new(),
            unchecked: 0,
            inline,
            owner: None,
            ledger: Ledger::default(),
            serial: Vec::new(),
            expected: Expected::default(),
            ended: false,
            arrived: 0,
        }
    }

    /// Leaves the innermost open directory: all its entries have been offered.
    pub fn leave(&mut self) {
        if let Some(id) = self.dirs.leave() {
            self.out_entries.push_back(Entry::Leave(id));
        }
    }

    /// Ends the scan: all entries have been offered.
    pub fn scan_end(&mut self) {
        self.scan_end = ScanEnd::Due;
        self.progress.scanned = true;
    }

    /// Adds a stream, which may get orders.
    pub fn stream_joined(&mut self, stream: u32) {
        self.streams.entry(stream).or_default();
    }

    /// Removes a stream. Its unacknowledged ranges are sent again on others.
    pub fn stream_lost(&mut self, stream: u32) {
        let Some(lost) = self.streams.remove(&stream) else { return };
        for range in lost.unacknowledged.into_iter().flatten() {
            self.send_again(range);
        }
        for item in self.items.values_mut() {
            if let Some(file) = item.file.as_mut().filter(|f| f.owner == Some(stream)) {
                file.owner = None;
            }
        }
    }

    /// Takes back ranges that were dealt, or claimed as holes, and will not be sent: they are dealt again.
    pub fn not_sent(&mut self, ranges: impl IntoIterator<Item = (u64, u64, u64)>) {
        ranges.into_iter().for_each(|range| self.send_again(range));
    }

    /// Queues a range to be sent again. It is cut into blocks only when it is dealt.
    fn send_again(&mut self, (id, offset, len): (u64, u64, u64)) {
        let alive = self.items.get(&id).and_then(|i| i.file.as_ref()).is_some_and(|f| f.phase != Phase::Dropped);
        if alive {
            self.again.push_back((id, offset, len));
        }
    }

    /// Whether there is work that only streams can do, or probably will be: streams that are dialled before the verdicts arrive save a
    /// round trip.
    pub fn wants_streams(&self) -> bool {
        let likely = !self.dry && self.progress.bytes_offered > limits::INLINE_BYTES_MAX;
        likely || !(self.ready.is_empty() && self.again.is_empty() && self.compare.is_empty() && self.checks.is_empty())
    }

    /// Reports a record that is about to be sent on a stream.
    ///
    /// # Errors
    /// A part overlaps another one in part: the engine's state is inconsistent.
    pub fn built(&mut self, stream: u32, parts: &[Built]) -> Result<(), WireError> {
        if let Some(state) = self.streams.get_mut(&stream) {
            state.unacknowledged.push_back(parts.iter().map(|p| (p.file, p.offset, p.len)).collect());
        } else {
            // A stream that was lost while the record was built counts like one that is lost after it.
            for part in parts {
                self.send_again((part.file, part.offset, part.len));
            }
        }
        parts.iter().try_for_each(|part| self.enter(part))
    }

    /// Queues a record for the control connection.
    ///
    /// # Errors
    /// As for [`Sender::built`].
    pub fn built_inline(&mut self, record: Vec<u8>, parts: &[Built]) -> Result<(), WireError> {
        self.out_inline.push_back(record);
        parts.iter().try_for_each(|part| self.enter(part))
    }

    fn enter(&mut self, part: &Built) -> Result<(), WireError> {
        let Some(file) = self.items.get_mut(&part.file).and_then(|i| i.file.as_mut()) else { return Ok(()) };
        if file.ledger.add(part.offset, part.len, part.sum)? == Added::New && part.hole {
            self.progress.bytes_of_holes = self.progress.bytes_of_holes.saturating_add(part.len);
        }
        if part.whole && self.checksums.iter().all(|a| *a == Algorithm::Crc32c) {
            file.ended = true;
            self.last_digests.clear();
            self.last_digests.extend(self.checksums.iter().map(|_| Digest::crc32c(part.sum.crc32c)));
        }
        self.end_if_complete(part.file);
        Ok(())
    }

    /// Reports the serial digests of a file.
    pub fn digested(&mut self, id: u64, digests: Vec<Digest>) {
        if let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) {
            file.serial = digests;
            self.end_if_complete(id);
        }
    }

    /// Reports the size of a file of unknown size, once its end was read.
    pub fn found_end(&mut self, id: u64, size: u64) {
        if let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) {
            file.size = size;
            file.todo.clear();
            self.progress.bytes_offered = self.progress.bytes_offered.saturating_add(size);
            self.ready.retain(|ready| *ready != id);
            self.end_if_complete(id);
        }
    }

    fn needs_serial(&self) -> bool {
        self.checksums.iter().any(|a| a.is_serial())
    }

    /// Reports to the receiver that a file has been sent in full. A small file that is one part, with no digest but CRC32C,
    /// needs no such message: its part is marked.
    fn end_if_complete(&mut self, id: u64) {
        let serial_due = self.needs_serial();
        let checksums = &self.checksums;
        let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { return };
        if file.ended || file.phase == Phase::Dropped || !file.todo.is_empty() || file.size == UNKNOWN_SIZE {
            return;
        }
        let Some(sum) = file.ledger.whole(file.size).filter(|_| !serial_due || !file.serial.is_empty()) else { return };
        let mut digests = file.serial.clone();
        digests.extend(checksums.iter().filter_map(|a| match a {
            Algorithm::Crc32c => Some(Digest::crc32c(sum.crc32c)),
            Algorithm::Adler32 => Digest::new(*a, &sum.adler32?.to_be_bytes()),
            _ => None,
        }));
        if let Err(refusal) = file.expected.check_digests(&digests) {
            return self.drop_file(id, refusal);
        }
        file.ended = true;
        self.last_digests.clone_from(&digests);
        self.out_ends.push(End { id, size: file.size, digests });
    }

    /// Gives a file up: it is unreadable, has changed, or is gone.
    pub fn drop_file(&mut self, id: u64, refusal: Refusal) {
        if let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut())
            && file.phase != Phase::Dropped
        {
            file.phase = Phase::Dropped;
            file.todo.clear();
            self.ready.retain(|ready| *ready != id);
            self.out_drops.push((id, refusal));
        }
    }

    /// Steps of a dry run that the receiver has reported since the last call.
    pub fn take_plans(&mut self) -> Vec<Plan> {
        std::mem::take(&mut self.plans)
    }

    /// An entry's path: its root's name, and what is below it.
    fn display_path(&self, item: &OfferedEntry) -> RelPath {
        match self.roots.get(item.source as usize) {
            Some(root) => RelPath::root().join(root).join_path(&item.path),
            None => item.path.clone(),
        }
    }

    /// The removal of entries that the source lacks, which the receiver is about to begin; once.
    pub fn take_removal(&mut self) -> Option<Removal> {
        self.removal.take()
    }

    /// The number of records of a stream that the receiver has not acknowledged yet.
    pub fn unacknowledged(&self, stream: u32) -> usize {
        self.streams.get(&stream).map_or(0, |s| s.unacknowledged.len())
    }

    /// Whether a record of an open stream has been acknowledged.
    pub fn has_carried(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|s| s.acknowledged > 0)
    }

    /// The receiver's totals, once it has reported that everything is settled.
    pub fn finished(&self) -> Option<&Totals> {
        self.finished.as_ref()
    }

    /// The numbers of its progress.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The entries that failed, by name.
    pub fn misses(&self) -> &[Miss] {
        &self.misses
    }

    /// The files that the receiver has settled so far, for a job that fails before its end. Other kinds of entries are not counted.
    pub fn settled(&self) -> &Totals {
        &self.settled
    }

    /// The digests of the file that ended last.
    pub fn last_digests(&self) -> &[Digest] {
        &self.last_digests
    }

    /// Bytes that were sent more than once.
    pub fn resent_bytes(&self) -> u64 {
        self.resent_bytes
    }
}

//! The receiving machine: sends verdicts on offered files, keeps the ledgers of their blocks, and decides when a file, a
//! directory and the job are complete.
//!
//! What it does not know: file systems. It returns actions ([`Action`]) in the order in which they must be done, and the engine
//! reports the result of each. The engine writes blocks, and reports each that is written.

mod arrive;
mod extras;
mod missed;
mod reports;
mod tree;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use model::checksum::{BlockSum, Digest};
use model::entry::{Attributes, Timestamp};
use model::name::{Name, RelPath};
use model::{Algorithm, Expected, Refusal};

use crate::error::WireError;
use crate::frame::{Frame, Outcome, Plan, Removal, Totals, Verdict};
use crate::ledger::Ledger;
use crate::limits;
use crate::sender::Miss;
use crate::settled_files::SettledFiles;

use extras::Extras;

pub use arrive::Stored;

/// The target of a job's source roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The target's path in its store.
    pub path: RelPath,
    /// Every root keeps its own name below the target.
    pub into: bool,
    /// The target is a directory already, so a file goes into it.
    pub is_dir: bool,
}

/// A file to be judged, or being received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its id.
    pub id: u64,
    /// Its path in the target's store.
    pub path: RelPath,
    /// Its length, bytes; [`crate::frame::UNKNOWN_SIZE`] for a pipe.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change.
    pub mtime: Timestamp,
    /// Its further attributes.
    pub attributes: Option<Box<Attributes>>,
    /// The digest by which an existing file is compared with it.
    pub compare_by: Algorithm,
}

/// A file whose bytes have all arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// Its id.
    pub id: u64,
    /// Its length.
    pub size: u64,
    /// The digests that both ends must agree on. CRC32C and Adler-32 have been compared already.
    pub serial: Vec<Digest>,
    /// The digest of the whole, from its blocks.
    pub sum: Option<BlockSum>,
}

/// Work on the target's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a directory, then call [`Receiver::dir_made`].
    MakeDir {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
    },
    /// Judge a file by comparison with the existing entry, then call [`Receiver::judged`].
    Judge(Wanted),
    /// Make a symbolic link, then call [`Receiver::settled`].
    Symlink {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
        /// Its target.
        target: Vec<u8>,
        /// Last change.
        mtime: Timestamp,
        /// Its further attributes.
        attributes: Option<Box<Attributes>>,
    },
    /// Make another name for a file that is in place, then call [`Receiver::settled`].
    HardLink {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
        /// The file's path.
        to: RelPath,
    },
    /// Process a record that came on the control connection.
    Record(Vec<u8>),
    /// Put a file in place, then call [`Receiver::settled`].
    Commit(Complete),
    /// Remove the received part of a file.
    Discard(u64),
    /// Give a directory its final mode and time, then call [`Receiver::dir_finished`].
    FinishDir {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
        /// Permission bits.
        mode: u32,
        /// Last change.
        mtime: Timestamp,
        /// Its further attributes.
        attributes: Option<Box<Attributes>>,
    },
    /// Note the entries of a directory that were not offered.
    NoteExtras {
        /// Its path.
        path: RelPath,
        /// Its path in messages: the source root's name, and the path below the root.
        display_path: RelPath,
        /// [`name_key`] of each entry that was offered.
        offered: HashSet<u64>,
    },
    /// All other actions are done. Remove the noted extras, call [`Receiver::removed`] or [`Receiver::not_removed`] for each,
    /// then [`Receiver::extras_settled`].
    RemoveExtras {
        /// Entries of the source that could not be read: what seems to be extra may exist there.
        unread: u64,
    },
}

/// A name as a key of eight bytes, so that a directory of a million files takes little memory. If two names share a key, an extra
/// entry is kept; nothing else happens.
pub fn name_key(name: &Name) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    name.as_bytes().hash(&mut hasher);
    hasher.finish()
}

/// The judgement of an offered file, by comparison with the target's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The target has no such file, or a different one: it is wanted.
    Want,
    /// An earlier attempt left these ranges (offset, length, checksum): the rest is wanted.
    WantRest(Vec<(u64, u64, BlockSum)>),
    /// The target has a file with this digest: it is wanted if the source's digest differs.
    WantUnless(Digest),
    /// The target has the file already.
    Skip,
    /// The file cannot be put in place.
    Refuse(Refusal),
}

#[derive(Debug)]
struct Dir {
    path: RelPath,
    display_path: RelPath,
    parent: u64,
    mode: u32,
    mtime: Timestamp,
    /// Children not settled yet.
    pending: u64,
    /// The sender has offered all of its entries.
    is_left: bool,
    state: DirState,
    attributes: Option<Box<Attributes>>,
    /// The entries that were offered in it, where extras are to be removed. None once an entry of the source could not be read: an
    /// entry that was not offered may exist at the source.
    offered: Option<HashSet<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DirState {
    Making,
    Open,
    Failed,
    Finishing,
}

#[derive(Debug)]
struct FileReceive {
    path: RelPath,
    size: u64,
    /// It is sent on the control connection.
    inline: bool,
    /// The sender has the digest of the existing file, and may report that the file is the same.
    compared: bool,
    ledger: Ledger,
    /// Ranges of an earlier attempt, until the sender has confirmed them or sends them.
    claims: BTreeMap<u64, (u64, BlockSum)>,
    /// The source's digests, once the sender has sent all of the file.
    ended: Option<Vec<Digest>>,
    expected: Expected,
    /// A part was marked as the whole file.
    marked_whole: bool,
    state: FileState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    Judging,
    Receiving,
    Committing,
}

#[derive(Debug)]
struct Unsettled {
    parent: u64,
    name: Name,
    file: Option<FileReceive>,
    links: Vec<(u64, RelPath)>,
    kind: EntryKind,
}

/// What an unsettled entry counts as in the totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Dir,
    File,
    Link,
    Other,
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamReceive {
    records: u64,
    reported: u64,
}

/// The receiving machine.
#[derive(Debug)]
pub struct Receiver {
    target: Target,
    checksums: Vec<Algorithm>,
    next_id: u64,
    dirs: HashMap<u64, Dir>,
    /// Directories that wait only for the store.
    dirs_finishing: usize,
    unsettled: HashMap<u64, Unsettled>,
    actions: VecDeque<Action>,
    verdicts: Vec<(u64, Verdict)>,
    outcomes: Vec<(u64, Outcome)>,
    again: Vec<(u64, u64, u64)>,
    streams: BTreeMap<u32, StreamReceive>,
    report_all: bool,
    inline_bytes: u64,
    inline_taken: u64,
    failed_files: HashSet<u64>,
    /// A file waits, or has waited, for blocks that only streams carry.
    streams_due: bool,
    bad_blocks: u64,
    scan_end: Option<u64>,
    totals: Totals,
    bytes_of_holes: u64,
    bytes_arrived: u64,
    bytes_offered: u64,
    files_offered: u64,
    files_settled: u64,
    files_in_place: u64,
    misses: Vec<Miss>,
    /// Those of `misses` that have not been sent to the sender yet.
    unsent_misses: VecDeque<Miss>,
    last_digests: Vec<Digest>,
    specials: Vec<RelPath>,
    /// [`Frame::Finished`] has been returned.
    finished_sent: bool,
    extras: Extras,
    /// Entries that the sender could not read.
    unread: u64,
    /// The removal that has not been reported yet.
    removal: Option<Removal>,
    settled_files: SettledFiles,
    dry: bool,
    plans: VecDeque<Plan>,
    /// The expected sizes and digests of files, by their paths below the target.
    expected: HashMap<RelPath, Expected>,
}

impl Receiver {
    /// A machine for a job into `target` with these checksums.
    pub fn new(target: Target, checksums: Vec<Algorithm>) -> Receiver {
        Receiver {
            target,
            checksums,
            next_id: 1,
            dirs: HashMap::new(),
            dirs_finishing: 0,
            unsettled: HashMap::new(),
            actions: VecDeque::new(),
            verdicts: Vec::new(),
            outcomes: Vec::new(),
            again: Vec::new(),
            streams: BTreeMap::new(),
            report_all: false,
            inline_bytes: 0,
            inline_taken: 0,
            failed_files: HashSet::new(),
            streams_due: false,
            bad_blocks: 0,
            scan_end: None,
            totals: Totals::default(),
            bytes_of_holes: 0,
            bytes_arrived: 0,
            bytes_offered: 0,
            files_offered: 0,
            files_settled: 0,
            files_in_place: 0,
            misses: Vec::new(),
            unsent_misses: VecDeque::new(),
            last_digests: Vec::new(),
            specials: Vec::new(),
            finished_sent: false,
            extras: Extras::Stay,
            unread: 0,
            removal: None,
            settled_files: SettledFiles::default(),
            dry: false,
            plans: VecDeque::new(),
            expected: HashMap::new(),
        }
    }

    /// Sets the expected sizes and digests of files, by their paths below the target.
    pub fn set_expected(&mut self, expected: HashMap<RelPath, Expected>) {
        self.expected = expected;
    }

    /// Makes it a dry run: no file is sent on the control connection.
    pub fn dry(mut self) -> Receiver {
        self.inline_bytes = limits::INLINE_BYTES_MAX;
        self.dry = true;
        self
    }

    /// Handles a message from the sender. The caller handles those of the session (pings, aborts).
    ///
    /// # Errors
    /// The message breaks the protocol.
    pub fn handle_frame(&mut self, frame: Frame) -> Result<(), WireError> {
        match frame {
            Frame::Entries(entries) => entries.into_iter().try_for_each(|entry| self.handle_entry(entry)),
            Frame::Inline(record) => {
                // The inline records of an honest sender are smaller than the charge of their files.
                self.inline_taken = self.inline_taken.saturating_add(record.len() as u64);
                if self.inline_taken > limits::INLINE_BYTES_MAX {
                    let (got, limit) = (self.inline_taken, limits::INLINE_BYTES_MAX);
                    return Err(WireError::TooLarge { what: "number of inline bytes", got, limit });
                }
                self.actions.push_back(Action::Record(record));
                Ok(())
            }
            Frame::Ends(ends) => ends.into_iter().try_for_each(|end| self.handle_end(end)),
            Frame::Drops(drops) => {
                drops.into_iter().for_each(|(id, refusal)| self.handle_drop(id, refusal));
                Ok(())
            }
            Frame::Held(ranges) => ranges.into_iter().try_for_each(|range| self.handle_confirmed(range)),
            Frame::Same(ids) => ids.into_iter().try_for_each(|id| self.handle_same(id)),
            Frame::ScanEnd(count) => {
                if self.scan_end.is_some() || count != self.next_id - 1 {
                    return Err(WireError::Unexpected("the count of entries does not match those offered"));
                }
                self.scan_end = Some(count);
                Ok(())
            }
            _ => Err(WireError::Unexpected("a message that only a receiver sends came from the sender")),
        }
    }

    /// The next action on the store.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.extras_due())
    }

    /// The next message for the sender.
    pub fn poll_frame(&mut self) -> Option<Frame> {
        const ITEMS: usize = 2048;
        if !self.verdicts.is_empty() {
            let end = self.verdicts.len().min(ITEMS);
            // Lists of ranges are long: each is sent alone.
            let alone = self.verdicts.iter().take(end).position(|(_, v)| matches!(v, Verdict::WantRest(_)));
            let end = alone.map_or(end, |at| at.max(1));
            return Some(Frame::Verdicts(self.verdicts.drain(..end).collect()));
        }
        if !self.again.is_empty() {
            let end = self.again.len().min(ITEMS);
            return Some(Frame::Again(self.again.drain(..end).collect()));
        }
        if let Some(acknowledgements) = self.acknowledgements() {
            return Some(acknowledgements);
        }
        if !self.outcomes.is_empty() {
            let mut bytes = 0;
            let fits = |(_, o): &&(u64, Outcome)| {
                bytes += match o {
                    Outcome::Failed(r) => 16 + r.reason.len(),
                    _ => 8,
                };
                bytes < limits::FRAME_BYTES_AIM
            };
            let end = self.outcomes.iter().take_while(fits).count().max(1);
            return Some(Frame::Outcomes(self.outcomes.drain(..end).collect()));
        }
        if let Some(Miss { path, refusal }) = self.unsent_misses.pop_front() {
            return Some(Frame::Missed(vec![(path, refusal)]));
        }
        if !self.finished_sent && self.all_settled() {
            self.finished_sent = true;
            return Some(Frame::Finished(self.totals));
        }
        None
    }

    /// Acknowledgements, in batches: when a stream has many new records, or when [`Receiver::tick`] asked for all.
    fn acknowledgements(&mut self) -> Option<Frame> {
        const BATCH: u64 = 16;
        let all = std::mem::take(&mut self.report_all);
        let due = |s: &StreamReceive| s.records > s.reported && (all || s.records - s.reported >= BATCH);
        let mut counts = Vec::new();
        for (id, state) in self.streams.iter_mut().filter(|(_, s)| due(s)) {
            state.reported = state.records;
            counts.push((*id, state.records));
        }
        (!counts.is_empty()).then_some(Frame::Received(counts))
    }

    /// Sends the acknowledgements that wait for a batch. Called about ten times a second.
    pub fn tick(&mut self) {
        self.report_all = true;
    }

    /// Whether everything is settled. Computed at every poll, not noted when the last entry is settled: actions may be left then, such as a
    /// record of a file that the target had already.
    fn all_settled(&self) -> bool {
        self.all_in_place() && self.plans.is_empty() && matches!(self.extras, Extras::Stay | Extras::Settled)
    }

    /// Whether all offered entries are settled.
    fn all_in_place(&self) -> bool {
        self.scan_end.is_some() && self.unsettled.is_empty() && self.dirs.is_empty() && self.actions.is_empty()
    }

    /// Whether everything is settled, and [`Frame::Finished`] has been returned.
    pub fn is_finished(&self) -> bool {
        self.finished_sent
    }

    /// The totals so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The digests of the file that was completed last.
    pub fn last_digests(&self) -> &[Digest] {
        &self.last_digests
    }

    /// The numbers of its progress.
    pub fn progress(&self) -> model::Progress {
        model::Progress {
            bytes_offered: self.bytes_offered,
            files_offered: self.files_offered,
            bytes_arrived: self.bytes_arrived,
            files_settled: self.files_settled,
            bytes_in_place: self.totals.skipped_bytes.saturating_add(self.totals.resumed_bytes),
            bytes_of_holes: self.bytes_of_holes,
            files_in_place: self.files_in_place,
            scanned: self.scan_end.is_some(),
        }
    }

    /// The entries that failed, by name.
    pub fn misses(&self) -> &[Miss] {
        &self.misses
    }

    /// FIFOs, sockets and devices that were left out, by name.
    pub fn specials(&self) -> &[RelPath] {
        &self.specials
    }

    /// Whether some file waits, or has waited, for blocks that only streams carry.
    pub fn wants_streams(&self) -> bool {
        self.streams_due
    }
}

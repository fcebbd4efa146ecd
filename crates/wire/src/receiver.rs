//! The receiving machine: judges what is offered, keeps the ledger of what arrived, and knows when a file, a
//! directory and the job are complete.
//!
//! What it does not know: file systems. It asks for actions ([`Action`]) in the order in which they must be done and
//! is told how each ended; blocks are written by whoever received them, who then says so.

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

/// Where source roots go.
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
    /// Length; [`crate::frame::UNKNOWN_SIZE`] for a pipe.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change.
    pub mtime: Timestamp,
    /// What else there is to say about it.
    pub attributes: Option<Box<Attributes>>,
    /// The digest by which what is there is compared with it.
    pub compare_by: Algorithm,
}

/// A file whose bytes are all there.
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
    /// Make a directory, then say [`Receiver::dir_made`].
    MakeDir {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
    },
    /// Judge a file against what is there, then say [`Receiver::judged`].
    Judge(Wanted),
    /// Make a symbolic link, then say [`Receiver::settled`].
    Symlink {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
        /// Where it points.
        target: Vec<u8>,
        /// Last change.
        mtime: Timestamp,
        /// What else there is to say about it.
        attributes: Option<Box<Attributes>>,
    },
    /// Make another name for a file that is in place, then say [`Receiver::settled`].
    HardLink {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
        /// The file's path.
        to: RelPath,
    },
    /// Take in a record that came on the control connection.
    Record(Vec<u8>),
    /// Put a file in place, then say [`Receiver::settled`].
    Commit(Complete),
    /// Remove the received part of a file.
    Discard(u64),
    /// Give a directory its final mode and time, then say [`Receiver::dir_finished`].
    FinishDir {
        /// Its id.
        id: u64,
        /// Its path.
        path: RelPath,
        /// Permission bits.
        mode: u32,
        /// Last change.
        mtime: Timestamp,
        /// What else there is to say about it.
        attributes: Option<Box<Attributes>>,
    },
    /// Note the entries of a directory that were not offered.
    NoteExtras {
        /// Its path.
        path: RelPath,
        /// The path people know it by: below its source root, the root's name first.
        shown: RelPath,
        /// [`name_key`] of each entry that was offered.
        offered: HashSet<u64>,
    },
    /// All else is done. Remove the extras that were noted, call [`Receiver::removed`] or [`Receiver::not_removed`] for each,
    /// then say [`Receiver::extras_settled`].
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

/// What the target has in the place of an offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Not there, or different: send it.
    Want,
    /// These ranges (offset, length, checksum) are there from before; send the rest.
    WantRest(Vec<(u64, u64, BlockSum)>),
    /// There, with this digest: send it if the source's differs.
    WantUnless(Digest),
    /// There already.
    Skip,
    /// Cannot be put there.
    Refuse(Refusal),
}

#[derive(Debug)]
struct Dir {
    path: RelPath,
    shown: RelPath,
    parent: u64,
    mode: u32,
    mtime: Timestamp,
    /// Children not settled yet.
    pending: u64,
    /// The sender has offered all of it.
    left: bool,
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
    /// It comes on the control connection.
    inline: bool,
    /// The sender knows the digest of what is here, and may say that the file is the same.
    compared: bool,
    ledger: Ledger,
    /// Ranges that are there from before, until the sender has found them to be the source's, or sends them.
    claims: BTreeMap<u64, (u64, BlockSum)>,
    ended: Option<Vec<Digest>>,
    expected: Expected,
    said_whole: bool,
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
    /// Of `misses`: those that the sender cannot know of yet.
    untold: VecDeque<Miss>,
    last_digests: Vec<Digest>,
    specials: Vec<RelPath>,
    told_finished: bool,
    extras: Extras,
    /// Entries that the sender could not read.
    unread: u64,
    /// To be told of.
    removal: Option<Removal>,
    told: SettledFiles,
    dry: bool,
    plans: VecDeque<Plan>,
    /// What files must be, by their paths below the target.
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
            untold: VecDeque::new(),
            last_digests: Vec::new(),
            specials: Vec::new(),
            told_finished: false,
            extras: Extras::Stay,
            unread: 0,
            removal: None,
            told: SettledFiles::default(),
            dry: false,
            plans: VecDeque::new(),
            expected: HashMap::new(),
        }
    }

    /// What files must be, by their paths below the target.
    pub fn set_expected(&mut self, expected: HashMap<RelPath, Expected>) {
        self.expected = expected;
    }

    /// For a dry run: no file comes on the control connection.
    pub fn dry(mut self) -> Receiver {
        self.inline_bytes = limits::INLINE_BYTES_MAX;
        self.dry = true;
        self
    }

    /// A message from the sender. Those of the session (pings, aborts) are the caller's.
    pub fn handle_frame(&mut self, frame: Frame) -> Result<(), WireError> {
        match frame {
            Frame::Entries(entries) => entries.into_iter().try_for_each(|entry| self.offered(entry)),
            Frame::Inline(record) => {
                // An honest sender's inline records are smaller than what their files count for.
                self.inline_taken = self.inline_taken.saturating_add(record.len() as u64);
                if self.inline_taken > limits::INLINE_BYTES_MAX {
                    let (got, limit) = (self.inline_taken, limits::INLINE_BYTES_MAX);
                    return Err(WireError::TooLarge { what: "number of inline bytes", got, limit });
                }
                self.actions.push_back(Action::Record(record));
                Ok(())
            }
            Frame::Ends(ends) => ends.into_iter().try_for_each(|end| self.ended(end)),
            Frame::Drops(drops) => {
                drops.into_iter().for_each(|(id, refusal)| self.dropped(id, refusal));
                Ok(())
            }
            Frame::Held(ranges) => ranges.into_iter().try_for_each(|range| self.held(range)),
            Frame::Same(ids) => ids.into_iter().try_for_each(|id| self.same(id)),
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

    /// The next thing to do on the store.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.extras_due())
    }

    /// The next message for the sender.
    pub fn poll_frame(&mut self) -> Option<Frame> {
        const ITEMS: usize = 2048;
        if !self.verdicts.is_empty() {
            let end = self.verdicts.len().min(ITEMS);
            // Range lists are long; they travel alone.
            let alone = self.verdicts.iter().take(end).position(|(_, v)| matches!(v, Verdict::WantRest(_)));
            let end = alone.map_or(end, |at| at.max(1));
            return Some(Frame::Verdicts(self.verdicts.drain(..end).collect()));
        }
        if !self.again.is_empty() {
            let end = self.again.len().min(ITEMS);
            return Some(Frame::Again(self.again.drain(..end).collect()));
        }
        if let Some(received) = self.received() {
            return Some(received);
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
        if let Some(Miss { path, refusal }) = self.untold.pop_front() {
            return Some(Frame::Missed(vec![(path, refusal)]));
        }
        if !self.told_finished && self.all_settled() {
            self.told_finished = true;
            return Some(Frame::Finished(self.totals));
        }
        None
    }

    /// Acknowledgements, in batches: when a stream has many new records, or when [`Receiver::tick`] asked for all.
    fn received(&mut self) -> Option<Frame> {
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

    /// Some time has passed: what was held back for a batch goes out.
    pub fn tick(&mut self) {
        self.report_all = true;
    }

    /// Asked anew at every poll, not noted when the last entry is settled: actions may be left over then, such as a
    /// record of a file that turned out to be there already.
    fn all_settled(&self) -> bool {
        self.all_in_place() && self.plans.is_empty() && matches!(self.extras, Extras::Stay | Extras::Settled)
    }

    /// Whether all that was offered is settled.
    fn all_in_place(&self) -> bool {
        self.scan_end.is_some() && self.unsettled.is_empty() && self.dirs.is_empty() && self.actions.is_empty()
    }

    /// Whether everything is settled and the sender has been told.
    pub fn is_finished(&self) -> bool {
        self.told_finished
    }

    /// What was done.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The digests of the file that was completed last: of the file, where the job was one file.
    pub fn last_digests(&self) -> &[Digest] {
        &self.last_digests
    }

    /// Numbers for progress.
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

    /// What did not make it, by name.
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

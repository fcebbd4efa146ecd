//! The target store, in memory: carries out the receiver's actions, or fails those that the test names.

use model::Refusal;
use std::collections::{BTreeMap, HashMap, HashSet};

use model::checksum::{BlockSum, Digest, crc32c, crc32c_zeros};
use model::entry::Timestamp;
use model::fault::Fault;
use model::name::{Name, RelPath};
use wire::frame::{Outcome, UNKNOWN_SIZE};
use wire::receiver::{Action, Complete, Judgement, Receiver, Stored, Wanted, name_key};
use wire::record::{self, HEAD_BYTES, Head, Part};
use wire::{WireError, limits};

use crate::partial_file::{PartialFile, Rows, add_row};
use crate::rng::Rng;

/// An entry of the target store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredEntry {
    Dir { finished: Option<(u32, Timestamp)> },
    File { bytes: Vec<u8>, mode: u32, mtime: Timestamp },
    Symlink { target: Vec<u8>, mtime: Timestamp },
}

/// The paths at which each action fails, as the store names them.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    pub make: HashSet<RelPath>,
    pub judge: HashSet<RelPath>,
    /// Fails at the first block at or behind this offset.
    pub write: HashMap<RelPath, u64>,
    pub commit: HashSet<RelPath>,
    pub link: HashSet<RelPath>,
    pub finish: HashSet<RelPath>,
}

#[derive(Debug)]
pub struct Staged {
    wanted: Wanted,
    bytes: Vec<u8>,
    /// The journal rows of its blocks.
    rows: Rows,
}

#[derive(Debug, Default)]
pub struct Store {
    pub entries: BTreeMap<RelPath, StoredEntry>,
    pub failures: Failures,
    /// Directories that were made and could not be finished.
    pub unfinished: HashSet<RelPath>,
    /// Judgements that the store returns without looking at the file.
    pub judgements: HashMap<RelPath, Judgement>,
    /// Bytes that an earlier run left behind, for [`Judgement::WantRest`].
    pub partial: HashMap<RelPath, Vec<u8>>,
    /// Keeps only counts.
    pub counting: bool,
    pub with_adler32: bool,
    /// The digests that serial ones must equal, by path.
    pub serial: HashMap<RelPath, Vec<Digest>>,
    pub files_committed: u64,
    pub payload_bytes: u64,
    pub flip_per_mille: u64,
    pub flips: u64,
    /// Files that are being received.
    pub staged: HashMap<u64, Staged>,
    /// Existing files are compared by digest, as in every attempt but a job's first.
    pub by_digest: bool,
    /// The large files that earlier attempts left unfinished, with their journal rows. `None`: the store has no journals.
    pub journaled: Option<HashMap<RelPath, PartialFile>>,
    /// Bytes of unfinished files that were claimed.
    pub claimed_bytes: u64,
    /// The bytes of payload after which the device is full.
    pub room: Option<u64>,
    /// The device was full: the job cannot continue.
    pub full: bool,
    /// Directories that may have extras, and the names that were offered in them.
    pub may_have_extras: Vec<(RelPath, HashSet<u64>)>,
}

fn refusal(what: &str) -> Refusal {
    Refusal::new(Fault::Storage, what)
}

impl Store {
    fn has_parent(&self, path: &RelPath) -> bool {
        let parent = path.parent();
        self.counting || parent.is_root() || matches!(self.entries.get(&parent), Some(StoredEntry::Dir { .. }))
    }

    fn put(&mut self, path: RelPath, what: StoredEntry) {
        if !self.counting {
            self.entries.insert(path, what);
        }
    }

    /// Carries out one action, and tells the receiver its outcome.
    pub fn act(&mut self, action: Action, receiver: &mut Receiver, rng: &mut Rng) -> Result<(), WireError> {
        match action {
            Action::MakeDir { id, path } => {
                let made = self.make_dir(path);
                receiver.dir_made(id, made);
            }
            Action::Judge(wanted) => {
                let id = wanted.id;
                let judgement = self.judge(wanted);
                receiver.judged(id, judgement);
            }
            Action::Symlink { id, path, target, mtime, .. } => {
                let outcome = self.link(&path, StoredEntry::Symlink { target, mtime });
                receiver.settled(id, outcome);
            }
            Action::HardLink { id, path, to } => {
                let outcome = match self.entries.get(&to).cloned() {
                    Some(first @ StoredEntry::File { .. }) => self.link(&path, first),
                    _ if self.counting => Outcome::Done,
                    _ => Outcome::Failed(refusal("the first name is not there")),
                };
                receiver.settled(id, outcome);
            }
            Action::Record(record) => {
                let head = Head::decode(record.first_chunk::<HEAD_BYTES>().unwrap())?;
                self.take_record(&head, &mut record[HEAD_BYTES..].to_vec(), receiver, rng)?;
            }
            Action::Commit(complete) => self.commit(complete, receiver),
            Action::Discard(id) => {
                self.staged.remove(&id);
            }
            Action::FinishDir { id, path, mode, mtime, .. } => {
                let result = self.finish_dir(&path, mode, mtime);
                receiver.dir_finished(id, result);
            }
            Action::NoteExtras { path, offered, .. } => self.may_have_extras.push((path, offered)),
            Action::RemoveExtras { .. } => {
                for (path, offered) in std::mem::take(&mut self.may_have_extras) {
                    (0..self.remove_extras(&path, &offered)).for_each(|_| receiver.removed());
                }
                receiver.extras_settled();
            }
        }
        Ok(())
    }

    fn make_dir(&mut self, path: RelPath) -> Result<(), Refusal> {
        if self.failures.make.contains(&path) || !self.has_parent(&path) {
            return Err(refusal("no such directory here"));
        }
        if !matches!(self.entries.get(&path), Some(StoredEntry::Dir { .. })) {
            self.put(path, StoredEntry::Dir { finished: None });
        }
        Ok(())
    }

    fn remove_extras(&mut self, path: &RelPath, offered: &HashSet<u64>) -> u64 {
        let stays = |at: &RelPath| {
            let below = at.below(path).filter(|below| !below.is_root());
            let first = below.and_then(|b| b.as_bytes().split(|b| *b == b'/').next().and_then(|n| Name::new(n).ok()));
            first.is_none_or(|name| offered.contains(&name_key(&name)))
        };
        let before = self.entries.len();
        self.entries.retain(|at, _| stays(at));
        (before - self.entries.len()) as u64
    }

    fn finish_dir(&mut self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<(), Refusal> {
        if self.failures.finish.contains(path) {
            self.unfinished.insert(path.clone());
            return Err(refusal("its mode cannot be set"));
        }
        if !self.counting {
            let Some(StoredEntry::Dir { finished }) = self.entries.get_mut(path) else {
                panic!("{path} is no directory")
            };
            assert_eq!(finished.replace((mode, mtime)), None, "{path} was finished twice");
        }
        Ok(())
    }

    fn link(&mut self, path: &RelPath, what: StoredEntry) -> Outcome {
        if self.failures.link.contains(path) || !self.has_parent(path) {
            return Outcome::Failed(refusal("the link cannot be made"));
        }
        self.put(path.clone(), what);
        Outcome::Done
    }

    fn judge(&mut self, wanted: Wanted) -> Judgement {
        let path = wanted.path.clone();
        if self.failures.judge.contains(&path) || !self.has_parent(&path) {
            return Judgement::Refuse(refusal("it cannot be put there"));
        }
        let found = match self.entries.get(&path) {
            Some(StoredEntry::File { bytes, mtime, .. }) => {
                bytes.len() as u64 == wanted.size && *mtime == wanted.mtime && wanted.size != UNKNOWN_SIZE
            }
            _ => false,
        };
        let judgement = match self.judgements.get(&path) {
            Some(preset) => preset.clone(),
            None if found && self.by_digest => self.compared(&path),
            None if found => Judgement::Skip,
            None => Judgement::Want,
        };
        let partial = self.journaled.as_mut().and_then(|files| files.remove(&path));
        let partial = partial.filter(|file| judgement == Judgement::Want && file.belongs_to(&wanted));
        if let Some(mut partial) = partial {
            let claims = partial.verified(self.with_adler32);
            self.claimed_bytes += claims.iter().map(|(_, len, _)| len).sum::<u64>();
            self.staged.insert(wanted.id, Staged { wanted, bytes: partial.bytes, rows: partial.rows });
            return if claims.is_empty() { Judgement::Want } else { Judgement::WantRest(claims) };
        }
        if !matches!(judgement, Judgement::Skip | Judgement::Refuse(_)) {
            let bytes = self.partial.get(&path).cloned().unwrap_or_default();
            self.staged.insert(wanted.id, Staged { wanted, bytes, rows: Rows::new() });
        }
        judgement
    }

    fn compared(&self, path: &RelPath) -> Judgement {
        let Some(StoredEntry::File { bytes, .. }) = self.entries.get(path) else { panic!("{path} is no file") };
        Judgement::WantUnless(Digest::crc32c(crc32c(bytes)))
    }

    /// Ends the session: files with journal rows stay for the next attempt, others are discarded.
    pub fn end_session(&mut self) {
        self.failures = Failures::default();
        self.unfinished.clear();
        self.room = None;
        self.full = false;
        for entry in self.entries.values_mut() {
            if let StoredEntry::Dir { finished } = entry {
                *finished = None;
            }
        }
        for (_, staged) in self.staged.drain() {
            if let Some(journaled) = &mut self.journaled
                && !staged.rows.is_empty()
            {
                let partial = PartialFile::new(&staged.wanted, staged.bytes, staged.rows);
                journaled.insert(staged.wanted.path, partial);
            }
        }
    }

    /// Takes in a record: its table, then part by part. `body` may be damaged first.
    pub fn take_record(
        &mut self,
        head: &Head,
        body: &mut [u8],
        receiver: &mut Receiver,
        rng: &mut Rng,
    ) -> Result<(), WireError> {
        if head.payload_len() > 0 && rng.chance(self.flip_per_mille) {
            let at = head.table_len() + rng.below(head.payload_len() as u64) as usize;
            body[at] ^= 1 << rng.below(8);
            self.flips += 1;
        }
        assert!(head.payload_len() <= limits::RECORD_PAYLOAD_BYTES_MAX);
        let parts = record::decode_table(head, body)?;
        let mut at = head.table_len();
        for part in parts {
            let len = if part.hole { 0 } else { part.len as usize };
            self.take_part(&part, &body[at..at + len], receiver)?;
            at += len;
        }
        Ok(())
    }

    fn take_part(&mut self, part: &Part, bytes: &[u8], receiver: &mut Receiver) -> Result<(), WireError> {
        if !receiver.expects(part)? {
            return Ok(());
        }
        let sum = if part.hole {
            BlockSum::of_zeros(part.len, self.with_adler32)
        } else {
            BlockSum::of(bytes, self.with_adler32)
        };
        if sum.crc32c != part.crc32c {
            assert!(!part.hole || sum.crc32c == crc32c_zeros(part.len));
            return receiver.damaged(part);
        }
        let Some(staged) = self.staged.get_mut(&part.file) else { panic!("file {} was not judged", part.file) };
        self.payload_bytes += bytes.len() as u64;
        let fails_at = self.failures.write.get(&staged.wanted.path);
        if fails_at.is_some_and(|at| part.offset + part.len >= *at) {
            self.staged.remove(&part.file);
            receiver.settled(part.file, Outcome::Failed(refusal("no space left")));
            return Ok(());
        }
        self.room = self.room.map(|room| room.saturating_sub(bytes.len() as u64));
        if self.room == Some(0) {
            self.full = true;
            return Ok(());
        }
        if !self.counting {
            let end = (part.offset + part.len) as usize;
            let len = staged.bytes.len().max(end);
            staged.bytes.resize(len, 0);
            let range = &mut staged.bytes[part.offset as usize..end];
            // The range may hold an earlier attempt's bytes.
            if part.hole { range.fill(0) } else { range.copy_from_slice(bytes) }
        }
        if self.journaled.is_some() && staged.wanted.size > limits::BLOCK_BYTES && staged.wanted.size != UNKNOWN_SIZE {
            add_row(&mut staged.rows, part, sum);
        }
        if let Stored::Complete(complete) = receiver.stored(part, sum)? {
            self.commit(complete, receiver);
        }
        Ok(())
    }

    fn commit(&mut self, complete: Complete, receiver: &mut Receiver) {
        let staged = self.staged.remove(&complete.id).unwrap();
        let Wanted { path, mode, mtime, .. } = staged.wanted;
        if self.failures.commit.contains(&path) {
            return receiver.settled(complete.id, Outcome::Failed(refusal("it cannot be renamed")));
        }
        if !self.counting {
            assert_eq!(staged.bytes.len() as u64, complete.size, "{path}");
            if let Some(sum) = complete.sum {
                assert_eq!(sum.crc32c, model::checksum::crc32c(&staged.bytes), "{path}: the ledger's checksum");
            }
            if let Some(digests) = self.serial.get(&path) {
                assert_eq!(&complete.serial, digests, "{path}: serial digests");
            }
        }
        self.files_committed += 1;
        self.put(path, StoredEntry::File { bytes: staged.bytes, mode, mtime });
        receiver.settled(complete.id, Outcome::Done);
    }

    /// Forgets the files that the source found equal: the receiver does not report them, but no longer receives them.
    pub fn forget_compared(&mut self, receiver: &Receiver) {
        self.staged.retain(|id, staged| {
            let is_preset = matches!(self.judgements.get(&staged.wanted.path), Some(Judgement::WantUnless(_)));
            !(is_preset || self.by_digest) || receiver.is_receiving(*id)
        });
    }

    /// The number of files that were neither committed nor discarded.
    pub fn staged_count(&self) -> usize {
        self.staged.len()
    }
}

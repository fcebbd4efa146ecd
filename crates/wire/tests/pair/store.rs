//! The target store, in memory: carries out the receiving machine's actions, or fails them where the test says so.

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

use crate::kept::{PartialFile, Rows, note};
use crate::rng::Rng;

/// An entry of the target store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredEntry {
    Dir { finished: Option<(u32, Timestamp)> },
    File { bytes: Vec<u8>, mode: u32, mtime: Timestamp },
    Symlink { target: Vec<u8>, mtime: Timestamp },
}

/// Where the store says no. Paths are those of the store.
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
    pub there: BTreeMap<RelPath, StoredEntry>,
    pub failures: Failures,
    /// Directories that were made and could not be finished.
    pub unfinished: HashSet<RelPath>,
    /// Judgements that the store returns without looking at the file.
    pub judgements: HashMap<RelPath, Judgement>,
    /// Bytes that an earlier run left behind, for [`Judgement::WantRest`].
    pub partial: HashMap<RelPath, Vec<u8>>,
    /// Keep nothing but counts.
    pub counting: bool,
    pub with_adler32: bool,
    /// The digests that serial ones must equal, by path.
    pub serial: HashMap<RelPath, Vec<Digest>>,
    pub files_committed: u64,
    pub payload_bytes: u64,
    pub flip_per_mille: u64,
    pub flips: u64,
    pub held: HashMap<u64, Staged>,
    /// Files that are there are compared by digest, as in every attempt but a job's first.
    pub by_digest: bool,
    /// Where it is written down what arrived of large files, and what earlier attempts left; none without journals.
    pub kept: Option<HashMap<RelPath, PartialFile>>,
    /// Claims made from what was kept, in bytes.
    pub claimed_bytes: u64,
    /// So many bytes of payload, and the device is full.
    pub room: Option<u64>,
    /// It was full: the job cannot go on.
    pub full: bool,
    /// Directories that may have extras, and what was offered in them.
    pub noted: Vec<(RelPath, HashSet<u64>)>,
}

fn no(what: &str) -> Refusal {
    Refusal::new(Fault::Storage, what)
}

impl Store {
    fn has_parent(&self, path: &RelPath) -> bool {
        let parent = path.parent();
        self.counting || parent.is_root() || matches!(self.there.get(&parent), Some(StoredEntry::Dir { .. }))
    }

    fn put(&mut self, path: RelPath, what: StoredEntry) {
        if !self.counting {
            self.there.insert(path, what);
        }
    }

    /// Does one thing and tells the machine how it ended.
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
                let outcome = match self.there.get(&to).cloned() {
                    Some(first @ StoredEntry::File { .. }) => self.link(&path, first),
                    _ if self.counting => Outcome::Done,
                    _ => Outcome::Failed(no("the first name is not there")),
                };
                receiver.settled(id, outcome);
            }
            Action::Record(record) => {
                let head = Head::decode(record.first_chunk::<HEAD_BYTES>().unwrap())?;
                self.take_record(&head, &mut record[HEAD_BYTES..].to_vec(), receiver, rng)?;
            }
            Action::Commit(complete) => self.commit(complete, receiver),
            Action::Discard(id) => {
                self.held.remove(&id);
            }
            Action::FinishDir { id, path, mode, mtime, .. } => {
                let result = self.finish_dir(&path, mode, mtime);
                receiver.dir_finished(id, result);
            }
            Action::NoteExtras { path, offered, .. } => self.noted.push((path, offered)),
            Action::RemoveExtras { .. } => {
                for (path, offered) in std::mem::take(&mut self.noted) {
                    (0..self.remove_extras(&path, &offered)).for_each(|_| receiver.removed());
                }
                receiver.extras_settled();
            }
        }
        Ok(())
    }

    fn make_dir(&mut self, path: RelPath) -> Result<(), Refusal> {
        if self.failures.make.contains(&path) || !self.has_parent(&path) {
            return Err(no("no such directory here"));
        }
        if !matches!(self.there.get(&path), Some(StoredEntry::Dir { .. })) {
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
        let before = self.there.len();
        self.there.retain(|at, _| stays(at));
        (before - self.there.len()) as u64
    }

    fn finish_dir(&mut self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<(), Refusal> {
        if self.failures.finish.contains(path) {
            self.unfinished.insert(path.clone());
            return Err(no("its mode cannot be set"));
        }
        if !self.counting {
            let Some(StoredEntry::Dir { finished }) = self.there.get_mut(path) else {
                panic!("{path} is no directory")
            };
            assert_eq!(finished.replace((mode, mtime)), None, "{path} was finished twice");
        }
        Ok(())
    }

    fn link(&mut self, path: &RelPath, what: StoredEntry) -> Outcome {
        if self.failures.link.contains(path) || !self.has_parent(path) {
            return Outcome::Failed(no("the link cannot be made"));
        }
        self.put(path.clone(), what);
        Outcome::Done
    }

    fn judge(&mut self, wanted: Wanted) -> Judgement {
        let path = wanted.path.clone();
        if self.failures.judge.contains(&path) || !self.has_parent(&path) {
            return Judgement::Refuse(no("it cannot be put there"));
        }
        let found = match self.there.get(&path) {
            Some(StoredEntry::File { bytes, mtime, .. }) => {
                bytes.len() as u64 == wanted.size && *mtime == wanted.mtime && wanted.size != UNKNOWN_SIZE
            }
            _ => false,
        };
        let judgement = match self.judgements.get(&path) {
            Some(told) => told.clone(),
            None if found && self.by_digest => self.compared(&path),
            None if found => Judgement::Skip,
            None => Judgement::Want,
        };
        let kept = self.kept.as_mut().and_then(|kept| kept.remove(&path));
        let kept = kept.filter(|kept| judgement == Judgement::Want && kept.is_of(&wanted));
        if let Some(mut kept) = kept {
            let claims = kept.verified(self.with_adler32);
            self.claimed_bytes += claims.iter().map(|(_, len, _)| len).sum::<u64>();
            self.held.insert(wanted.id, Staged { wanted, bytes: kept.bytes, rows: kept.rows });
            return if claims.is_empty() { Judgement::Want } else { Judgement::WantRest(claims) };
        }
        if !matches!(judgement, Judgement::Skip | Judgement::Refuse(_)) {
            let bytes = self.partial.get(&path).cloned().unwrap_or_default();
            self.held.insert(wanted.id, Staged { wanted, bytes, rows: Rows::new() });
        }
        judgement
    }

    fn compared(&self, path: &RelPath) -> Judgement {
        let Some(StoredEntry::File { bytes, .. }) = self.there.get(path) else { panic!("{path} is no file") };
        Judgement::WantUnless(Digest::crc32c(crc32c(bytes)))
    }

    /// The session is over: what is written down stays for the next attempt, the rest goes.
    pub fn end_session(&mut self) {
        self.failures = Failures::default();
        self.unfinished.clear();
        (self.room, self.full) = (None, false);
        for there in self.there.values_mut() {
            if let StoredEntry::Dir { finished } = there {
                *finished = None;
            }
        }
        for (_, staged) in self.held.drain() {
            if let Some(kept) = &mut self.kept
                && !staged.rows.is_empty()
            {
                kept.insert(staged.wanted.path.clone(), PartialFile::of(&staged.wanted, staged.bytes, staged.rows));
            }
        }
    }

    /// Takes in a record: table, then part by part; `body` may be damaged on the way in.
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
        let sum = match part.hole {
            true => BlockSum::of_zeros(part.len, self.with_adler32),
            false => BlockSum::of(bytes, self.with_adler32),
        };
        if sum.crc32c != part.crc32c {
            assert!(!part.hole || sum.crc32c == crc32c_zeros(part.len));
            return receiver.damaged(part);
        }
        let Some(staged) = self.held.get_mut(&part.file) else { panic!("file {} was not judged", part.file) };
        self.payload_bytes += bytes.len() as u64;
        let fails_at = self.failures.write.get(&staged.wanted.path);
        if fails_at.is_some_and(|at| part.offset + part.len >= *at) {
            self.held.remove(&part.file);
            receiver.settled(part.file, Outcome::Failed(no("no space left")));
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
            let there = &mut staged.bytes[part.offset as usize..end];
            // What an earlier attempt left there is not the hole's zeros.
            if part.hole { there.fill(0) } else { there.copy_from_slice(bytes) }
        }
        if self.kept.is_some() && staged.wanted.size > limits::BLOCK_BYTES && staged.wanted.size != UNKNOWN_SIZE {
            note(&mut staged.rows, part, sum);
        }
        if let Stored::Complete(complete) = receiver.stored(part, sum)? {
            self.commit(complete, receiver);
        }
        Ok(())
    }

    fn commit(&mut self, complete: Complete, receiver: &mut Receiver) {
        let staged = self.held.remove(&complete.id).unwrap();
        let Wanted { path, mode, mtime, .. } = staged.wanted;
        if self.failures.commit.contains(&path) {
            return receiver.settled(complete.id, Outcome::Failed(no("it cannot be renamed")));
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

    /// Files found equal at the source: the machine does not say so, but no longer receives them.
    pub fn forget_compared(&mut self, receiver: &Receiver) {
        self.held.retain(|id, staged| {
            let told = matches!(self.judgements.get(&staged.wanted.path), Some(Judgement::WantUnless(_)));
            !(told || self.by_digest) || receiver.is_receiving(*id)
        });
    }

    /// Files of which bytes are held and which nobody committed or discarded.
    pub fn staged(&self) -> usize {
        self.held.len()
    }
}

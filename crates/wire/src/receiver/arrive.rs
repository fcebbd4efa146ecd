//! The life of a file at the receiver: judged, received block by block, complete.

use model::checksum::{BlockSum, Digest};
use model::fault::Fault;
use model::name::RelPath;
use model::spec::Step;
use model::{Algorithm, Refusal};

use super::{Action, Complete, FileReceive, FileState, Judgement, Receiver};
use crate::error::WireError;
use crate::frame::{Claim, End, Outcome, Plan, UNKNOWN_SIZE, Verdict};
use crate::ledger::Added;
use crate::limits::{BAD_BLOCKS_MAX, RANGES_MAX, STREAMS_MAX};
use crate::record::Part;

/// The state of a file after a block has been stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Blocks are missing.
    Open,
    /// The file is complete: put it in place, then call [`Receiver::settled`].
    Complete(Complete),
    /// The file is not wanted, or no longer.
    Unwanted,
}

impl Receiver {
    /// Reports the judgement of a file.
    pub fn judged(&mut self, id: u64, judgement: Judgement) {
        let Some(file) = self.unsettled.get_mut(&id).and_then(|u| u.file.as_mut()) else { return };
        let verdict = match judgement {
            Judgement::Want => Verdict::Want,
            // The existing file does not have the expected digest, or cannot be compared with it.
            Judgement::WantUnless(digest) if file.expected.check_digests(&[digest]).is_err() => Verdict::Want,
            Judgement::WantUnless(digest) => {
                file.compared = !file.inline;
                Verdict::WantUnless(digest)
            }
            Judgement::WantRest(ranges) => claim(file, ranges),
            Judgement::Skip => return self.settled(id, Outcome::Skipped),
            Judgement::Refuse(refusal) => return self.settled(id, Outcome::Failed(refusal)),
        };
        file.state = FileState::Receiving;
        self.streams_due |= !file.inline;
        self.verdicts.push((id, verdict));
    }

    /// Whether a part is to be written: its file is being received, and its range has not arrived yet.
    ///
    /// # Errors
    /// The part breaks the protocol: its file was never offered, or it lies beyond the end of the file.
    pub fn expects(&mut self, part: &Part) -> Result<bool, WireError> {
        if part.file >= self.next_id {
            return Err(WireError::Unexpected("a block of a file that was never offered"));
        }
        let Some(file) = self.unsettled.get(&part.file).and_then(|u| u.file.as_ref()) else { return Ok(false) };
        if part.offset.checked_add(part.len).is_none_or(|end| file.size != UNKNOWN_SIZE && end > file.size) {
            return Err(WireError::Unexpected("a block lies beyond the end of its file"));
        }
        if part.whole && part.len != file.size {
            return Err(WireError::Unexpected("a block says that it is the whole file, and is not"));
        }
        // A long hole that was lost is sent again in blocks; if the first hole arrives after all, some of these blocks are entered already.
        let is_known = file.ledger.covers(part.offset, part.len);
        if part.len > 0 && (is_known || part.hole && file.ledger.overlaps(part.offset, part.len)) {
            self.totals.resent_bytes = self.totals.resent_bytes.saturating_add(part.len);
            return Ok(false);
        }
        Ok(file.state == FileState::Receiving)
    }

    /// Reports that a part has been checked and written.
    ///
    /// # Errors
    /// The part overlaps another one in part, or there are too many ranges that do not touch.
    pub fn stored(&mut self, part: &Part, sum: BlockSum) -> Result<Stored, WireError> {
        let Some(file) = self.unsettled.get_mut(&part.file).and_then(|u| u.file.as_mut()) else {
            return Ok(Stored::Unwanted);
        };
        if file.state != FileState::Receiving {
            return Ok(Stored::Unwanted);
        }
        self.settled_files.latest = part.file;
        let is_known = file.ledger.covers(part.offset, part.len);
        if part.hole && !is_known && file.ledger.overlaps(part.offset, part.len) {
            self.totals.resent_bytes = self.totals.resent_bytes.saturating_add(part.len);
            return Ok(Stored::Open);
        }
        // The sender sends a range that was claimed: the claim is wrong.
        let end = part.offset + part.len;
        let before = file.claims.range(..end).next_back().filter(|(at, (len, _))| *at + len > part.offset);
        if let Some((&stale, _)) = before.filter(|_| part.len > 0) {
            file.claims.remove(&stale);
        }
        match file.ledger.add(part.offset, part.len, sum)? {
            Added::New => {
                self.bytes_arrived = self.bytes_arrived.saturating_add(part.len);
                let hole = if part.hole { part.len } else { 0 };
                self.bytes_of_holes = self.bytes_of_holes.saturating_add(hole);
            }
            Added::Known => self.totals.resent_bytes = self.totals.resent_bytes.saturating_add(part.len),
        }
        file.marked_whole |= part.whole;
        self.complete(part.file)
    }

    /// Reports that a part has arrived damaged: it is requested again.
    ///
    /// # Errors
    /// More blocks have arrived damaged than [`BAD_BLOCKS_MAX`].
    pub fn damaged(&mut self, part: &Part) -> Result<(), WireError> {
        self.bad_blocks += 1;
        self.streams_due = true;
        self.totals.resent_bytes = self.totals.resent_bytes.saturating_add(part.len);
        if self.bad_blocks > BAD_BLOCKS_MAX {
            let (got, limit) = (self.bad_blocks, BAD_BLOCKS_MAX);
            return Err(WireError::TooLarge { what: "number of damaged blocks", got, limit });
        }
        self.again.push((part.file, part.offset, part.len));
        Ok(())
    }

    /// Counts a record of a stream that has been processed, whatever the results of its parts.
    pub fn record_done(&mut self, stream: u32) {
        if stream != 0 && stream <= STREAMS_MAX {
            self.streams.entry(stream).or_default().records += 1;
        }
    }

    /// Whether blocks of a file may still arrive.
    pub fn is_receiving(&self, id: u64) -> bool {
        self.unsettled.get(&id).and_then(|u| u.file.as_ref()).is_some_and(|f| f.state == FileState::Receiving)
    }

    /// Handles a claimed range that equals the source's.
    pub(super) fn handle_confirmed(&mut self, (id, offset, len): (u64, u64, u64)) -> Result<(), WireError> {
        if id >= self.next_id {
            return Err(WireError::Unexpected("a range of a file that was never offered"));
        }
        let Some(file) = self.unsettled.get_mut(&id).and_then(|u| u.file.as_mut()) else { return Ok(()) };
        let Some((_, sum)) = file.claims.remove(&offset).filter(|(claimed, _)| *claimed == len) else {
            return Err(WireError::Unexpected("a range was confirmed that was not claimed"));
        };
        file.ledger.add(offset, len, sum)?;
        self.bytes_arrived = self.bytes_arrived.saturating_add(len);
        self.totals.resumed_bytes = self.totals.resumed_bytes.saturating_add(len);
        if let Stored::Complete(complete) = self.complete(id)? {
            self.actions.push_back(Action::Commit(complete));
        }
        Ok(())
    }

    pub(super) fn handle_end(&mut self, end: End) -> Result<(), WireError> {
        if end.id >= self.next_id {
            return Err(WireError::Unexpected("the end of a file that was never offered"));
        }
        let Some(file) = self.unsettled.get_mut(&end.id).and_then(|u| u.file.as_mut()) else { return Ok(()) };
        if file.size == UNKNOWN_SIZE {
            if end.size > i64::MAX as u64 || file.ledger.end() > end.size {
                return Err(WireError::Unexpected("a file of unknown size ended where it cannot"));
            }
            file.size = end.size;
            self.bytes_offered = self.bytes_offered.saturating_add(end.size);
        } else if file.size != end.size {
            return Err(WireError::Unexpected("a file ended with another size than it was offered with"));
        }
        file.ended = Some(end.digests);
        if let Stored::Complete(complete) = self.complete(end.id)? {
            self.actions.push_back(Action::Commit(complete));
        }
        Ok(())
    }

    /// Handles a file that the sender has found equal to the target's.
    pub(super) fn handle_same(&mut self, id: u64) -> Result<(), WireError> {
        let Some(entry) = self.unsettled.get(&id) else {
            // Failed here meanwhile, or never offered.
            return if id < self.next_id {
                Ok(())
            } else {
                Err(WireError::Unexpected("an equal file was never offered"))
            };
        };
        let is_compared = entry.file.as_ref().is_some_and(|f| f.compared && f.state == FileState::Receiving);
        if !is_compared {
            return Err(WireError::Unexpected("a file was found equal that was not to be compared"));
        }
        self.settled(id, Outcome::Skipped);
        Ok(())
    }

    pub(super) fn handle_drop(&mut self, id: u64, refusal: Refusal) {
        let Some(file) = self.unsettled.get(&id).and_then(|u| u.file.as_ref()) else { return };
        if self.dry && file.compared {
            // The file differs: in a dry run that is its result.
            let bytes = file.size;
            let path = file.path.below(&self.target.path).filter(|below| !below.is_root());
            let path = path.or_else(|| file.path.name().map(|name| RelPath::root().join(&name))).unwrap_or_default();
            self.planned(Plan { step: Step::Copy, path, bytes });
            return self.settled(id, Outcome::Done);
        }
        if file.state != FileState::Committing {
            self.actions.push_back(Action::Discard(id));
            self.settled(id, Outcome::Failed(refusal));
        }
    }

    /// Completes a file that has all its blocks and digests: compares the digests that its blocks add up to.
    fn complete(&mut self, id: u64) -> Result<Stored, WireError> {
        let checksums = self.checksums.clone();
        let crc_only = checksums.iter().all(|a| *a == Algorithm::Crc32c);
        let Some(file) = self.unsettled.get_mut(&id).and_then(|u| u.file.as_mut()) else {
            return Ok(Stored::Unwanted);
        };
        if file.state != FileState::Receiving || file.size == UNKNOWN_SIZE {
            return Ok(Stored::Open);
        }
        let sum = file.ledger.whole(file.size);
        if sum.is_none() {
            return Ok(Stored::Open);
        }
        let expected = match (&file.ended, file.marked_whole && crc_only) {
            (Some(digests), _) => digests.clone(),
            // A single part that is the whole file: its checksum, already checked, is the file's.
            (None, true) => sum.map(|s| vec![Digest::crc32c(s.crc32c)]).unwrap_or_default(),
            (None, false) => return Ok(Stored::Open),
        };
        self.last_digests.clone_from(&expected);
        let ordered = file.expected.check_digests(&expected);
        let serial = match ordered.and_then(|()| agree(sum, &checksums, expected)) {
            Ok(serial) => serial,
            Err(refusal) => {
                self.actions.push_back(Action::Discard(id));
                self.settled(id, Outcome::Failed(refusal));
                return Ok(Stored::Unwanted);
            }
        };
        let size = file.size;
        file.state = FileState::Committing;
        Ok(Stored::Complete(Complete { id, size, serial, sum }))
    }
}

/// Claims the ranges of an earlier attempt; none where the file is sent whole in any case (inline, a pipe).
fn claim(file: &mut FileReceive, ranges: Vec<(u64, u64, BlockSum)>) -> Verdict {
    if file.inline || file.size == UNKNOWN_SIZE {
        return Verdict::Want;
    }
    let mut end = 0;
    let mut claims = Vec::new();
    for (offset, len, sum) in ranges {
        let past = offset.checked_add(len).filter(|past| len > 0 && *past <= file.size && offset >= end);
        // A range that does not fit the file, or exceeds the bound of a verdict, is sent again.
        if let Some(past) = past.filter(|_| claims.len() < RANGES_MAX) {
            end = past;
            claims.push(Claim { offset, len, crc32c: sum.crc32c });
            file.claims.insert(offset, (len, sum));
        }
    }
    if claims.is_empty() { Verdict::Want } else { Verdict::WantRest(claims) }
}

/// Compares the source's digests with those that the blocks add up to. Returns those that only the store can check.
fn agree(sum: Option<BlockSum>, checksums: &[Algorithm], expected: Vec<Digest>) -> Result<Vec<Digest>, Refusal> {
    for algorithm in checksums {
        if !expected.iter().any(|d| d.algorithm() == *algorithm) {
            return Err(Refusal::new(Fault::Peer, format!("the source gave no {algorithm} for it")));
        }
    }
    let mut serial = Vec::new();
    for digest in expected {
        let ours = match digest.algorithm() {
            Algorithm::Crc32c => sum.map(|s| s.crc32c),
            Algorithm::Adler32 => sum.and_then(|s| s.adler32),
            _ => {
                serial.push(digest);
                continue;
            }
        };
        let known = checksums.contains(&digest.algorithm());
        if known && ours.is_some_and(|ours| ours.to_be_bytes() != digest.bytes()) {
            let reason = format!("its {} is not that of the source ({})", digest.algorithm(), digest.hex());
            return Err(Refusal::new(Fault::Integrity, reason));
        }
    }
    Ok(serial)
}

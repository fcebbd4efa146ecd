//! Deals ranges of files to streams.
//!
//! Order of preference: ranges that must be sent again, files that must be compared, then wanted files in the order of their offers.
//! Small files are packed; a large file is cut into blocks that any stream may carry, unless a serial digest (or a
//! pipe) keeps it on one.

use model::Refusal;
use std::collections::VecDeque;

use model::checksum::{BlockSum, Digest};
use model::fault::Fault;

use super::{FileSend, OfferedEntry, Phase, Sender};
use crate::frame::{Claim, UNKNOWN_SIZE};
use crate::limits::{BLOCK_BYTES, PACK_BYTES, PACK_FILES_MAX, RECORDS_UNACKNOWLEDGED_MAX};
use crate::range::Range;

/// Work for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Read these ranges and send them as one record.
    Send(Vec<Range>),
    /// Digest this file, and report whether it equals the receiver's.
    Compare {
        /// The whole file.
        range: Range,
        /// The digest of the receiver's file.
        known: Digest,
    },
    /// Read this range, and report whether it equals the range that the receiver has from an earlier attempt.
    Check {
        /// The range, of any length.
        range: Range,
        /// The CRC-32C of the receiver's range.
        crc32c: u32,
    },
}

/// While there are ranges to send, every eighth order is a check: the path stays busy, and changed ranges are found early.
const CHECK_EVERY: u64 = 8;

/// How many files a stream looks at to find one that no other stream owns.
const OWNED_LOOKAHEAD: usize = 64;

impl Sender {
    /// The next work for a stream, if there is any now.
    pub fn next_order(&mut self, stream: u32) -> Option<Order> {
        if self.streams.get(&stream)?.unacknowledged.len() >= RECORDS_UNACKNOWLEDGED_MAX {
            return None;
        }
        self.orders += 1;
        while let Some((id, offset, len)) = self.again.pop_front() {
            // Cut at the same places as before: a range that counts as lost may still arrive, and must match the one sent again.
            let step = len.min(BLOCK_BYTES);
            if let Some(range) = self.range(id, offset, step) {
                self.resent_bytes = self.resent_bytes.saturating_add(step);
                if len > step {
                    self.again.push_front((id, offset + step, len - step));
                }
                return Some(Order::Send(vec![range]));
            }
        }
        while let Some((id, known)) = self.compare.pop_front() {
            let size = self.items.get(&id).and_then(|i| i.file.as_ref()).map(|f| f.size);
            if let Some(range) = size.and_then(|size| self.range(id, 0, size)) {
                return Some(Order::Compare { range, known });
            }
        }
        if self.orders.is_multiple_of(CHECK_EVERY)
            && let Some(check) = self.next_check()
        {
            return Some(check);
        }
        let Some(first) = self.deal_one(stream, self.block_bytes) else { return self.next_check() };
        self.settled_files.latest = first.file;
        let pack = self.block_bytes.min(PACK_BYTES);
        let mut bytes = first.len;
        let small = first.is_whole() && first.len < pack && first.size != UNKNOWN_SIZE;
        let mut ranges = vec![first];
        while small && ranges.len() < PACK_FILES_MAX {
            let Some(more) = self.deal_small(pack - bytes) else { break };
            bytes += more.len;
            ranges.push(more);
        }
        Some(Order::Send(ranges))
    }

    fn next_check(&mut self) -> Option<Order> {
        while let Some((id, claim)) = self.checks.pop_front() {
            if let Some(range) = self.range(id, claim.offset, claim.len) {
                return Some(Order::Check { range, crc32c: claim.crc32c });
            }
        }
        None
    }

    /// Reports the result of an [`Order::Check`]: the range's checksum if it equals the receiver's, none if it must be sent. Returns
    /// whether nothing of the file is left to deal or to check.
    pub fn checked(&mut self, id: u64, range: (u64, u64), same: Result<Option<BlockSum>, Refusal>) -> bool {
        let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { return false };
        file.unchecked = file.unchecked.saturating_sub(1);
        match same {
            Ok(Some(sum)) => {
                // The receiver's ranges do not overlap each other or the rest: this cannot fail.
                let _ = file.ledger.add(range.0, range.1, sum);
                let counted = range.1.min(file.size.saturating_sub(file.arrived));
                file.arrived += counted;
                self.progress.bytes_arrived = self.progress.bytes_arrived.saturating_add(counted);
                self.progress.bytes_in_place = self.progress.bytes_in_place.saturating_add(counted);
                self.out_held.push((id, range.0, range.1));
            }
            Ok(None) => {
                let idle = file.todo.is_empty();
                file.todo.push_back(range);
                if idle {
                    self.ready.push_back(id);
                }
            }
            Err(refusal) => {
                self.drop_file(id, refusal);
                return false;
            }
        }
        let done = self.is_dealt(id);
        self.end_if_complete(id);
        done
    }

    /// A small file to send on the control connection without waiting for a verdict. So a job of a few small files ends within three round
    /// trips.
    pub fn next_inline(&mut self) -> Option<Range> {
        while let Some(id) = self.inline_candidates.pop_front() {
            // It may have been skipped meanwhile, or dropped.
            let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { continue };
            let size = file.size;
            if file.phase == Phase::Offered {
                file.phase = Phase::Inlined;
            }
            if let Some(range) = self.range(id, 0, size) {
                return Some(range);
            }
        }
        None
    }

    /// The first ready file, if all of it fits into the rest of a pack.
    fn deal_small(&mut self, bytes_left: u64) -> Option<Range> {
        let id = *self.ready.front()?;
        let file = self.items.get_mut(&id)?.file.as_mut()?;
        let fits = file.size <= bytes_left && file.todo.front() == Some(&(0, file.size));
        if !fits {
            return None;
        }
        file.todo.clear();
        self.ready.pop_front();
        let size = self.items.get(&id)?.file.as_ref()?.size;
        self.range(id, 0, size)
    }

    fn deal_one(&mut self, stream: u32, bytes_max: u64) -> Option<Range> {
        let serial = self.needs_serial();
        for at in 0..self.ready.len().min(OWNED_LOOKAHEAD) {
            let id = self.ready[at];
            let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { continue };
            if file.owner.is_some_and(|owner| owner != stream) {
                continue;
            }
            let Some((offset, len)) = file.todo.pop_front() else { continue };
            let step = len.min(bytes_max);
            if len > step {
                file.todo.push_front((offset + step, len - step));
            }
            if serial || file.size == UNKNOWN_SIZE {
                file.owner = Some(stream);
            }
            if file.todo.is_empty() {
                self.ready.remove(at);
            }
            return self.range(id, offset, step);
        }
        None
    }

    fn range(&self, id: u64, offset: u64, len: u64) -> Option<Range> {
        let OfferedEntry { source, path, file, .. } = self.items.get(&id)?;
        let file = file.as_ref().filter(|f| f.phase != Phase::Dropped)?;
        Some(Range {
            file: id,
            source: *source,
            path: path.clone(),
            // Also after its end was found: a part of a pipe is never marked as the whole file, because the receiver
            // may get it before it knows the end of the pipe.
            size: if file.pipe { UNKNOWN_SIZE } else { file.size },
            mtime: file.mtime,
            changed: file.changed,
            offset,
            len,
            last: file.is_dealt(),
        })
    }

    /// Claims a part of the hole from `from` to `to` that the reader of a sparse file has found: the part that has not been dealt
    /// yet, or that must be sent again. Returns that part; the caller must report it to the receiver as a hole.
    pub fn claim_hole(&mut self, id: u64, from: u64, to: u64) -> Option<(u64, u64)> {
        self.claim_again(id, from, to).or_else(|| self.claim_todo(id, from, to))
    }

    /// Claims a part that must be sent again. It may be a hole of terabytes, which would take hours block by block.
    fn claim_again(&mut self, id: u64, from: u64, to: u64) -> Option<(u64, u64)> {
        let (_, offset, len) = *self.again.front().filter(|(file, ..)| *file == id)?;
        if offset < from || offset >= to {
            return None;
        }
        self.again.pop_front();
        let end = (offset + len).min(to);
        if end < offset + len {
            self.again.push_front((id, end, offset + len - end));
        }
        self.resent_bytes = self.resent_bytes.saturating_add(end - offset);
        Some((offset, end - offset))
    }

    fn claim_todo(&mut self, id: u64, from: u64, to: u64) -> Option<(u64, u64)> {
        let file = self.items.get_mut(&id).and_then(|i| i.file.as_mut())?;
        let FileSend { todo, .. } = file;
        let (offset, len) = *todo.front()?;
        let end = (offset + len).min(to);
        if offset < from || offset >= to {
            return None;
        }
        todo.pop_front();
        if end < offset + len {
            todo.push_front((end, offset + len - end));
        } else if todo.is_empty() {
            self.ready.retain(|ready| *ready != id);
        }
        Some((offset, end - offset))
    }

    /// Whether nothing of a file is left to deal.
    pub fn is_dealt(&self, id: u64) -> bool {
        self.items.get(&id).and_then(|i| i.file.as_ref()).is_none_or(FileSend::is_dealt)
    }

    /// Reports the result of an [`Order::Compare`].
    pub fn compared(&mut self, id: u64, equal: Result<bool, Refusal>) {
        match equal {
            Ok(true) => self.out_same.push(id),
            Ok(false) if self.dry => self.drop_file(id, Refusal::new(Fault::Storage, "it differs")),
            Ok(false) => self.make_ready(id, Vec::new()),
            Err(refusal) => self.drop_file(id, refusal),
        }
    }

    /// Makes a wanted file ready to be dealt, except for the ranges that the receiver claims to have: these are checked first.
    pub(super) fn make_ready(&mut self, id: u64, claims: Vec<Claim>) {
        let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { return };
        if !matches!(file.phase, Phase::Offered | Phase::Compare) || file.inline {
            return;
        }
        file.phase = Phase::Wanted;
        file.todo = rest(&claims, file.size);
        file.unchecked = claims.len();
        if !file.todo.is_empty() {
            self.ready.push_back(id);
        }
        self.checks.extend(claims.into_iter().map(|claim| (id, claim)));
    }
}

impl FileSend {
    /// Whether nothing of it is left to deal or to check.
    fn is_dealt(&self) -> bool {
        self.todo.is_empty() && self.unchecked == 0
    }
}

/// The ranges between claims. A file without claims is one range, also where it is empty or of unknown size.
fn rest(claims: &[Claim], size: u64) -> VecDeque<(u64, u64)> {
    if claims.is_empty() {
        return VecDeque::from([(0, size)]);
    }
    let mut out = VecDeque::new();
    let mut at = 0;
    for claim in claims {
        if claim.offset > at {
            out.push_back((at, claim.offset - at));
        }
        at = claim.offset + claim.len;
    }
    if at < size {
        out.push_back((at, size - at));
    }
    out
}

//! Dealing out work: which ranges of which files go on which stream.
//!
//! Order of preference: what must go again, what must be compared, then wanted files in the order they were offered.
//! Small files are packed; a large file is cut into blocks that any stream may carry, unless a serial digest (or a
//! pipe) keeps it on one.

use model::checksum::Digest;
use model::entry::Timestamp;
use model::name::RelPath;

use super::{FileSend, Item, Phase, Sender};
use crate::frame::{Refusal, UNKNOWN_SIZE};
use crate::limits::{BLOCK_BYTES, PACK_BYTES, PACK_FILES_MAX, RECORDS_UNACKNOWLEDGED_MAX};

/// A range of a file to read, and all that is needed to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The file's id.
    pub file: u64,
    /// Which source it belongs to.
    pub source: u32,
    /// Its path below that source's root.
    pub path: RelPath,
    /// The size it had when it was offered; [`UNKNOWN_SIZE`] for a pipe.
    pub size: u64,
    /// The modification time it had when it was offered.
    pub mtime: Timestamp,
    /// Where to start.
    pub offset: u64,
    /// How much; for a pipe, at most.
    pub len: u64,
    /// Nothing of the file is left to deal after this.
    pub last: bool,
}

impl Range {
    /// Whether this range is the whole file.
    pub fn is_whole(&self) -> bool {
        self.offset == 0 && self.len == self.size
    }
}

/// Work for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Read these and send them as one record.
    Send(Vec<Range>),
    /// Digest this file and say whether it equals the receiver's.
    Compare {
        /// The file, in full.
        range: Range,
        /// What the receiver has.
        known: Digest,
    },
}

/// How far into the list a stream looks for a file that no other stream owns.
const OWNED_LOOKAHEAD: usize = 64;

impl Sender {
    /// The next work for a stream, if there is any now.
    pub fn next_order(&mut self, stream: u32) -> Option<Order> {
        if self.streams.get(&stream)?.unacknowledged.len() >= RECORDS_UNACKNOWLEDGED_MAX {
            return None;
        }
        while let Some((id, offset, len)) = self.again.pop_front() {
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
        let first = self.deal_one(stream, BLOCK_BYTES)?;
        let mut bytes = first.len;
        let small = first.is_whole() && first.len < PACK_BYTES && first.size != UNKNOWN_SIZE;
        let mut ranges = vec![first];
        while small && ranges.len() < PACK_FILES_MAX {
            let Some(more) = self.deal_small(PACK_BYTES - bytes) else { break };
            bytes += more.len;
            ranges.push(more);
        }
        Some(Order::Send(ranges))
    }

    /// A small file to send on the control connection, without waiting for a verdict: this is what lets a job of a few
    /// small files end within three round trips.
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

    /// The front file, if all of it fits into what is left of a pack.
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
        let Item { source, path, file, .. } = self.items.get(&id)?;
        let file = file.as_ref().filter(|f| f.phase != Phase::Dropped)?;
        Some(Range {
            file: id,
            source: *source,
            path: path.clone(),
            // Also after its end was found: a part of a pipe is never marked as the whole file, because the receiver
            // may see it before it knows where the pipe ended.
            size: if file.pipe { UNKNOWN_SIZE } else { file.size },
            mtime: file.mtime,
            offset,
            len,
            last: file.todo.is_empty(),
        })
    }

    /// The reader of a sparse file found a hole from `from` to `to`: takes the part of it that nobody has been dealt
    /// yet off the list. Returns that part, which the caller now owes the receiver as a hole.
    pub fn claim_hole(&mut self, id: u64, from: u64, to: u64) -> Option<(u64, u64)> {
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
        self.items.get(&id).and_then(|i| i.file.as_ref()).is_none_or(|f| f.todo.is_empty())
    }

    /// The outcome of an [`Order::Compare`].
    pub fn compared(&mut self, id: u64, equal: Result<bool, Refusal>) {
        match equal {
            Ok(true) => self.out_same.push(id),
            Ok(false) => self.make_ready(id, None),
            Err(refusal) => self.drop_file(id, refusal),
        }
    }

    pub(super) fn make_ready(&mut self, id: u64, ranges: Option<Vec<(u64, u64)>>) {
        let Some(file) = self.items.get_mut(&id).and_then(|i| i.file.as_mut()) else { return };
        if !matches!(file.phase, Phase::Offered | Phase::Compare) || file.inline {
            return;
        }
        file.phase = Phase::Wanted;
        file.complete = ranges.is_none();
        file.todo = ranges.unwrap_or_else(|| vec![(0, file.size)]).into();
        if file.todo.is_empty() {
            self.end_if_complete(id);
        } else {
            self.ready.push_back(id);
        }
    }
}

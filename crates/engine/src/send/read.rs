//! Reads ranges of files into a record: data and holes, with their checksums. Detects files that change while they are read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::checksum::BlockSum;
use model::fault::Fault;
use model::name::RelPath;
use model::{Algorithm, Refusal, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use store::digest::SerialDigests;
use store::{Extent, Source, Stat};
use wire::frame::UNKNOWN_SIZE;
use wire::limits::{BLOCK_BYTES, RECORD_PARTS_MAX};
use wire::record::Part;
use wire::sender::{Built, Range};

use crate::meter::{Meter, Stage};
use crate::scan::SourceRoot;
use crate::stream::RecordBuffer;

/// Bytes that are read and digested at a time: well within a core's second-level cache, together with their buffer.
const PIECE_BYTES: usize = 256 << 10;

/// The number of fully dealt, unread files that are kept open: a stream may still be about to read a range that it was dealt earlier.
/// Opening a file again is cheap on a disk; on a remote server the data that was read ahead would be fetched again.
const DEALT_OPEN_MAX: usize = 8;

/// What a reader asks the protocol machine about dealt ranges. The machine runs at this node, or at the coordinator.
pub(crate) trait RangeDealer {
    /// Claims the undealt part of a hole that goes on from `from` to `to`. Returns the part (offset, length), and whether the file is then
    /// fully dealt.
    fn claim_hole(&self, file: u64, from: u64, to: u64) -> Option<((u64, u64), bool)>;
    /// Whether a file is fully dealt.
    fn is_dealt(&self, file: u64) -> bool;
    /// Notes the size of a file of unknown size, once its end was read.
    fn found_end(&self, file: u64, size: u64);
    /// Ends a file whose last range has been read.
    ///
    /// # Errors
    /// The digests of the whole file cannot be made.
    fn end_file(&self, range: &Range, file: &OpenFile, size: u64) -> Result<(), Refusal>;
}

/// The files of a job's sources that are being read.
pub(crate) struct OpenFiles {
    pub roots: Vec<SourceRoot>,
    pub checksums: Vec<Algorithm>,
    table: Mutex<FileTable>,
}

/// Files of several ranges that are open.
#[derive(Default)]
struct FileTable {
    /// Each file, and how many threads read it.
    files: HashMap<u64, (Arc<OpenFile>, u32)>,
    /// Files that were fully dealt when their last reader was done, oldest first.
    dealt: VecDeque<u64>,
}

impl FileTable {
    /// Adds a fully dealt file that no stream reads. Closes the oldest of such files beyond [`DEALT_OPEN_MAX`].
    fn note_dealt(&mut self, file: u64) {
        self.dealt.retain(|other| *other != file);
        self.dealt.push_back(file);
        while self.dealt.len() > DEALT_OPEN_MAX {
            let oldest = self.dealt.pop_front();
            // A file that is read again is added again when its reader is done.
            if let Some(oldest) = oldest.filter(|oldest| self.files.get(oldest).is_some_and(|(_, users)| *users == 0)) {
                self.files.remove(&oldest);
            }
        }
    }
}

/// A file open for reading.
pub(crate) struct OpenFile {
    pub source: Arc<dyn Source>,
    pub path: RelPath,
    /// It takes less space than its length: it may have holes.
    sparse: bool,
    /// Its last change of any kind when it was opened.
    changed: Option<Timestamp>,
    serial: Mutex<SerialDigests>,
}

impl OpenFile {
    /// Takes the state of the digests that need the file in order.
    pub fn take_serial(&self) -> SerialDigests {
        std::mem::take(&mut *self.serial.lock())
    }
}

/// A record being put together.
pub(crate) struct Pending<'m> {
    pub parts: Vec<Part>,
    pub built: Vec<Built>,
    /// Files whose last range is in the record: the receiver may need their digests.
    pub last: Vec<u64>,
    meter: &'m Meter,
}

impl<'m> Pending<'m> {
    pub fn new(meter: &'m Meter) -> Pending<'m> {
        Pending { parts: Vec::new(), built: Vec::new(), last: Vec::new(), meter }
    }

    pub fn mark(&self) -> usize {
        self.parts.len()
    }

    /// Removes the parts that were added since the mark.
    pub fn rewind(&mut self, mark: usize, buffer: &mut RecordBuffer) {
        self.parts.truncate(mark);
        self.built.truncate(mark);
        buffer.clear();
        let kept: u64 = self.parts.iter().filter(|p| !p.hole).map(|p| p.len).sum();
        buffer.take(kept as usize);
    }

    fn push(&mut self, part: Part, sum: BlockSum) {
        let Part { file, offset, len, hole, whole, .. } = part;
        self.parts.push(part);
        self.built.push(Built { file, offset, len, sum, hole, whole });
    }
}

pub(super) fn storage(error: &store::Error) -> Refusal {
    let mut refusal = Refusal::from_error(error);
    if error.is_not_found() {
        refusal.reason = format!("{} (it vanished after it was listed)", refusal.reason);
    }
    refusal
}

fn changed(path: &RelPath) -> Refusal {
    let reason = format!("{path} changed while it was being copied; run the same command again when it is at rest");
    Refusal::new(Fault::Storage, reason)
}

/// Whether a file is still the one that was offered; or the one that was opened, where the offer has no time of change (a mover's). A
/// writer can restore size and modification time, but not the time of change. The loss of its last name also changes that time, but
/// not its bytes.
fn is_same(range: &Range, opened: Option<Timestamp>, now: &Stat) -> bool {
    let is_unchanged = range.changed.or(opened).zip(now.changed).is_none_or(|(then, now)| then == now);
    now.meta.size == range.size && now.meta.mtime == range.mtime && (is_unchanged || now.names == 0)
}

impl OpenFiles {
    pub fn new(roots: Vec<SourceRoot>, checksums: Vec<Algorithm>) -> OpenFiles {
        OpenFiles { roots, checksums, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, FileTable> {
        self.table.lock()
    }

    fn with_adler32(&self) -> bool {
        self.checksums.contains(&Algorithm::Adler32)
    }

    /// Opens the file of a range.
    ///
    /// # Errors
    /// The file cannot be opened, or has changed since it was offered.
    pub fn open_file(&self, range: &Range) -> Result<Arc<OpenFile>, Refusal> {
        let root = &self.roots[range.source as usize];
        let path = root.path.join_path(&range.path);
        let source = root.store.open(&path).map_err(|e| storage(&e))?;
        let mut sparse = false;
        let mut opened = None;
        if range.size != UNKNOWN_SIZE {
            let stat = source.stat().map_err(|e| storage(&e))?;
            opened = stat.changed;
            if !is_same(range, opened, &stat) {
                return Err(changed(&path));
            }
            sparse = root.store.capabilities().sparse && stat.allocated < stat.meta.size;
        }
        let serial = Mutex::new(SerialDigests::new(&self.checksums));
        Ok(Arc::new(OpenFile { source, path, sparse, changed: opened, serial }))
    }

    /// The open file of a range; files of several ranges stay open in between.
    fn file(&self, range: &Range) -> Result<Arc<OpenFile>, Refusal> {
        if range.is_whole() {
            return self.open_file(range);
        }
        let mut table = self.table();
        if let Some((file, users)) = table.files.get_mut(&range.file) {
            *users += 1;
            return Ok(Arc::clone(file));
        }
        let file = self.open_file(range)?;
        table.files.insert(range.file, (Arc::clone(&file), 1));
        Ok(file)
    }

    /// Releases the file of a range that has been read. It may be closed once no stream reads it and it is fully dealt.
    fn release(&self, dealer: &dyn RangeDealer, range: &Range) {
        if range.is_whole() {
            return;
        }
        let mut table = self.table();
        let Some((_, users)) = table.files.get_mut(&range.file) else { return };
        *users -= 1;
        if *users == 0 && dealer.is_dealt(range.file) {
            table.note_dealt(range.file);
        }
    }

    /// Checks that the file that was read is still the one that was offered. Called after every range, so that a change is noticed
    /// whichever stream has read the range.
    fn check_unchanged(range: &Range, file: &OpenFile) -> Result<(), Refusal> {
        if range.size == UNKNOWN_SIZE {
            return Ok(());
        }
        let stat = file.source.stat().map_err(|e| storage(&e))?;
        if is_same(range, file.changed, &stat) { Ok(()) } else { Err(changed(&file.path)) }
    }

    /// Closes files that no stream reads now, except for `kept` of them.
    pub fn close_idle(&self, kept: usize) {
        let mut table = self.table();
        let idle: Vec<u64> = table.files.iter().filter(|(_, (_, users))| *users == 0).map(|(file, _)| *file).collect();
        for file in idle.into_iter().skip(kept) {
            table.files.remove(&file);
        }
    }

    /// Reads one range, and appends it to the record.
    ///
    /// # Errors
    /// The file cannot be read, or has changed since it was offered.
    pub fn read_range(
        &self,
        dealer: &dyn RangeDealer,
        range: &Range,
        ranges_left: usize,
        buffer: &mut RecordBuffer,
        pending: &mut Pending<'_>,
    ) -> Result<(), Refusal> {
        let file = pending.meter.within(Stage::Storage, || self.file(range))?;
        let read = self
            .read_open(dealer, range, &file, ranges_left, buffer, pending)
            .and_then(|()| Self::check_unchanged(range, &file));
        self.release(dealer, range);
        read
    }

    fn read_open(
        &self,
        dealer: &dyn RangeDealer,
        range: &Range,
        file: &OpenFile,
        ranges_left: usize,
        buffer: &mut RecordBuffer,
        pending: &mut Pending<'_>,
    ) -> Result<(), Refusal> {
        let end = range.offset + range.len;
        let mut at = range.offset;
        let mut last = range.last;
        if range.len == 0 {
            self.read_data(range, file, at, 0, buffer, pending)?;
        }
        while at < end {
            // Rows are kept for the other files of the pack, and one for a hole beyond this range.
            let rows_free = RECORD_PARTS_MAX.saturating_sub(pending.parts.len() + ranges_left + 1) > 0;
            let extent = if file.sparse && rows_free {
                file.source.extent(at, range.size).map_err(|e| storage(&e))?
            } else {
                Extent::Data(end)
            };
            match extent {
                Extent::Hole(to) => {
                    let stop = to.min(end);
                    self.push_hole(range, file, at, stop - at, pending);
                    at = stop;
                    if to > end {
                        last |= self.claim_hole(dealer, range, file, (end, to), pending);
                    }
                }
                Extent::Data(to) => {
                    let want = (to.min(end) - at) as usize;
                    let got = self.read_data(range, file, at, want, buffer, pending)?;
                    at += got as u64;
                    if got < want && range.size == UNKNOWN_SIZE {
                        dealer.found_end(range.file, at);
                        pending.last.push(range.file);
                        return dealer.end_file(range, file, at);
                    }
                    if got < want {
                        return Err(changed(&file.path));
                    }
                }
            }
        }
        if last && range.size != UNKNOWN_SIZE {
            pending.last.push(range.file);
            return dealer.end_file(range, file, range.size);
        }
        Ok(())
    }

    /// Appends data to the record, piece by piece: each is digested while it is in the core's own cache. Returns fewer bytes than wanted
    /// only at the end of the file.
    fn read_data(
        &self,
        range: &Range,
        file: &OpenFile,
        offset: u64,
        want: usize,
        buffer: &mut RecordBuffer,
        pending: &mut Pending<'_>,
    ) -> Result<usize, Refusal> {
        let mut got = 0;
        let mut sum = BlockSum::of_zeros(0, self.with_adler32());
        while got < want {
            let piece = (want - got).min(PIECE_BYTES);
            let at = offset + got as u64;
            let bytes = match file.source.zeros_at(at, piece) {
                Some(zeros) => buffer.take_zeros(zeros),
                None => {
                    let free = &mut buffer.free()[..piece];
                    let read = pending.meter.within(Stage::Storage, || file.source.read_at(free, at));
                    let read = read.map_err(|e| storage(&e))?;
                    buffer.take(read)
                }
            };
            let read = bytes.len();
            if !self.checksums.is_empty() {
                sum = sum.then(BlockSum::of(bytes, self.with_adler32()), read as u64);
                file.serial.lock().feed(at, bytes);
            }
            got += read;
            if read < piece {
                break;
            }
        }
        if self.checksums.is_empty() {
            sum.crc32c = 0;
        }
        let whole = range.is_whole() && got as u64 == range.size;
        let part = Part { file: range.file, offset, len: got as u64, crc32c: sum.crc32c, hole: false, whole };
        pending.push(part, sum);
        Ok(got)
    }

    fn push_hole(&self, range: &Range, file: &OpenFile, offset: u64, len: u64, pending: &mut Pending<'_>) {
        let sum = BlockSum::of_zeros(len, self.with_adler32());
        file.serial.lock().feed_hole(offset, len);
        let whole = range.is_whole() && len == range.size;
        pending.push(Part { file: range.file, offset, len, crc32c: sum.crc32c, hole: true, whole }, sum);
    }

    /// Claims the undealt part of a hole that goes on behind the range in one step, so that a hole of terabytes costs nothing. Returns
    /// whether the file is then fully dealt.
    fn claim_hole(
        &self,
        dealer: &dyn RangeDealer,
        range: &Range,
        file: &OpenFile,
        (from, to): (u64, u64),
        pending: &mut Pending<'_>,
    ) -> bool {
        let Some(((offset, len), last)) = dealer.claim_hole(range.file, from, to) else { return false };
        self.push_hole(range, file, offset, len, pending);
        last
    }

    pub fn serial(&self) -> Vec<Algorithm> {
        self.checksums.iter().copied().filter(|a| a.is_serial()).collect()
    }

    /// The checksum of a range, if its CRC32C is the receiver's; none where they differ or the job is over.
    ///
    /// # Errors
    /// The file cannot be read, or has changed since it was offered.
    pub fn check(
        &self,
        dealer: &dyn RangeDealer,
        range: &Range,
        crc32c: u32,
        buffer: &mut RecordBuffer,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<BlockSum>, Refusal> {
        buffer.clear();
        let file = self.file(range)?;
        let sum = self.sum_of(range, &file, buffer, is_over);
        let sum = sum.and_then(|sum| Self::check_unchanged(range, &file).map(|()| sum));
        self.release(dealer, range);
        Ok(sum?.filter(|sum| sum.crc32c == crc32c))
    }

    /// The checksum of a range of any length; none once the job is over.
    fn sum_of(
        &self,
        range: &Range,
        file: &OpenFile,
        buffer: &mut RecordBuffer,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<BlockSum>, Refusal> {
        let mut sum = BlockSum::of_zeros(0, self.with_adler32());
        let (mut at, end) = (range.offset, range.offset + range.len);
        while at < end {
            if is_over() {
                return Ok(None);
            }
            let extent = if file.sparse {
                file.source.extent(at, range.size).map_err(|e| storage(&e))?
            } else {
                Extent::Data(end)
            };
            let (len, next) = match extent {
                Extent::Hole(to) => (to.min(end) - at, BlockSum::of_zeros(to.min(end) - at, self.with_adler32())),
                Extent::Data(to) => {
                    let want = (to.min(end) - at).min(BLOCK_BYTES) as usize;
                    let bytes = &mut buffer.free()[..want];
                    if file.source.read_at(bytes, at).map_err(|e| storage(&e))? < want {
                        return Err(changed(&file.path));
                    }
                    (want as u64, BlockSum::of(bytes, self.with_adler32()))
                }
            };
            sum = sum.then(next, len);
            at += len;
        }
        Ok(Some(sum))
    }
}

#[cfg(test)]
mod tests;

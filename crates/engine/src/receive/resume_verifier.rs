//! The resume verifier: judges the files that take long to judge, on its own thread, so that other files need not wait.
//!
//! These are the files of which an earlier attempt left a part, which is read and compared with its journal before it is claimed,
//! and the files for which there is no free space yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::checksum::BlockSum;
use model::fault::Fault;
use model::id::{JobId, Uuid};
use model::units::Bytes;
use model::{Algorithm, Digest, Refusal};
use store::{Extent, Source, Writes};
use wire::frame::UNKNOWN_SIZE;
use wire::limits::BLOCK_BYTES;
use wire::receiver::{Judgement, Wanted};

use super::Receiving;
use super::file::{Incoming, subject};
use crate::error::Error;
use crate::journal::{Journal, Journals, Row};

/// A file that takes long to judge.
pub(super) struct SlowFile {
    pub wanted: Wanted,
    /// The digest of the existing file, where that decides whether blocks are needed.
    pub existing: Option<Digest>,
}

/// An unfinished file, and the journal of its blocks.
type JournalledFile = (Arc<dyn store::Sink>, Journal);

impl Receiving {
    /// Whether the blocks of a file are journalled. A file of one block is not worth a journal.
    pub(super) fn is_journalled(&self, wanted: &Wanted) -> bool {
        let large = wanted.size != UNKNOWN_SIZE && wanted.size > BLOCK_BYTES;
        large && self.policy.journals.is_some() && self.store.capabilities().writes == Writes::Anywhere
    }

    /// Whether an earlier attempt left a part of a file.
    pub(super) fn has_partial(&self, wanted: &Wanted) -> bool {
        self.is_journalled(wanted) && self.policy.journals.as_ref().is_some_and(|j| j.knows(&wanted.path))
    }

    /// Removes the part that an earlier attempt left of a file: the file is complete, or has become too small to resume.
    pub(super) fn remove_partial(&self, wanted: &Wanted) {
        if let Some(journals) = &self.policy.journals {
            journals.give_up(&*self.store, &wanted.path);
        }
    }

    pub(super) fn hand_to_verifier(&self, slow: SlowFile) {
        self.slow.lock().push_back(slow);
        self.slow_work.notify_one();
    }

    /// Works until the job is over.
    pub(super) fn run_resume_verifier(&self) {
        loop {
            let mut slow = self.slow.lock();
            let next = loop {
                if self.is_over() {
                    return;
                }
                match slow.pop_front() {
                    Some(next) => break next,
                    None => self.slow_work.wait(&mut slow),
                }
            };
            drop(slow);
            self.judge_slow(next);
            self.waker.wake();
        }
    }

    fn judge_slow(&self, SlowFile { wanted, existing }: SlowFile) {
        let id = wanted.id;
        let (kept, rows) = if self.has_partial(&wanted) && existing.is_none() {
            self.take_partial(&wanted).unzip()
        } else {
            (None, None)
        };
        let rows: Vec<Row> = rows.unwrap_or_default();
        // Space that an earlier attempt reserved needs no further promise.
        let stat = kept.as_ref().and_then(|(sink, _)| sink.as_source().ok()?.stat().ok());
        let allocated_bytes = stat.map_or(0, |stat| stat.allocated);
        let promise = loop {
            match self.promise(&wanted, allocated_bytes) {
                Ok(promise) => break promise,
                Err(full) if !full.is_too_large && self.wait_for_room(&full.reason()) => {}
                Err(full) => {
                    if self.is_over() {
                        return;
                    }
                    let refusal = Refusal::new(Fault::Storage, full.reason());
                    if !full.is_too_large {
                        self.fail(Error::Full { why: full.reason() });
                    }
                    return self.state().machine.judged(id, Judgement::Refuse(refusal));
                }
            }
        };
        self.note_room();
        let judgement = match existing {
            Some(digest) => Judgement::WantUnless(digest),
            None if rows.is_empty() => Judgement::Want,
            None => Judgement::WantRest(rows.iter().map(|row| (row.offset, row.len, row.sum)).collect()),
        };
        let incoming = Incoming::new(self, wanted, existing, promise);
        let incoming = match kept {
            Some((sink, journal)) => incoming.resumed(sink, journal),
            None => incoming,
        };
        self.expect_file(incoming);
        self.state().machine.judged(id, judgement);
    }

    /// Takes the unfinished file of an earlier attempt, and the rows of its journal that its bytes match. None where there is no such file,
    /// or another attempt still uses it.
    fn take_partial(&self, wanted: &Wanted) -> Option<(JournalledFile, Vec<Row>)> {
        let journals = self.policy.journals.as_ref()?;
        let (mut journal, rows) = self.take_journal(journals, wanted)?;
        let sink = if rows.is_empty() { None } else { self.store.resume(&wanted.path, journal.tag()).ok().flatten() };
        let Some(sink) = sink else {
            // Removed before space is checked: a useless unfinished file may take that space.
            let _ = self.store.forget(&wanted.path, journal.tag());
            return None;
        };
        sink.drop_cache();
        let verified_rows = self.verified(wanted, &*sink.as_source().ok()?, rows);
        self.set_busy(String::new());
        if self.is_over() {
            // Rows that were not verified may be right: the journal stays as it is.
            sink.keep();
            return None;
        }
        journal.restart(journals, &wanted.path, subject(wanted), &verified_rows).ok()?;
        if !wanted.attributes.as_ref().is_some_and(|a| a.sparse) {
            self.with_room(|| sink.reserve(wanted.size)).ok()?;
        }
        Some(((sink, journal), verified_rows))
    }

    /// The journal of a file and its rows, once no other job has it; none where another job keeps it for too long.
    pub(super) fn take_journal(&self, journals: &Journals, wanted: &Wanted) -> Option<(Journal, Vec<Row>)> {
        let own = self.job.get().map(|job| JobId(Uuid::from_bytes(*job)).to_string()).unwrap_or_default();
        let mut is_waiting = false;
        let mut waits = |other: Option<String>| {
            if !std::mem::replace(&mut is_waiting, true) {
                self.begin_wait();
            }
            let other = other.map_or_else(|| "another job".to_owned(), |job| format!("job {job}"));
            self.set_busy(format!("waiting for {other}, which is writing {}", wanted.path));
        };
        let taken = journals.take(&wanted.path, subject(wanted), &own, &mut waits);
        if is_waiting {
            self.end_wait();
        }
        taken.ok().flatten()
    }

    /// Begins a wait for another job that writes a file. Several files may wait at once: the time counts once.
    fn begin_wait(&self) {
        let (count, since) = &mut *self.others_write.lock();
        *count += 1;
        since.get_or_insert_with(Instant::now);
    }

    fn end_wait(&self) {
        let (count, since) = &mut *self.others_write.lock();
        *count -= 1;
        if *count == 0 {
            let waited = since.take().map_or(Duration::ZERO, |since| since.elapsed());
            self.note_wait(|all| all.writer += waited);
            self.set_busy(String::new());
        }
    }

    /// The rows that the bytes of the unfinished file match.
    fn verified(&self, wanted: &Wanted, source: &dyn Source, rows: Vec<Row>) -> Vec<Row> {
        let with_adler32 = self.policy.options.checksums.contains(&Algorithm::Adler32);
        let total: u64 = rows.iter().map(|row| row.len).sum();
        let size = source.stat().map_or(0, |stat| stat.meta.size);
        let mut done = 0;
        let mut buffer = vec![0; BLOCK_BYTES as usize];
        let mut out = Vec::new();
        for row in rows {
            let sum = sum_of(source, size, &row, &mut buffer, with_adler32, &mut |len| {
                done += len;
                let (done, total) = (Bytes(done), Bytes(total));
                self.set_busy(format!("verifying what is there of {}: {done} of {total}", wanted.path));
                !self.is_over()
            });
            match sum {
                Some(sum) if sum.crc32c == row.sum.crc32c => out.push(Row { sum, ..row }),
                _ if self.is_over() => return out,
                _ => {}
            }
        }
        out
    }
}

/// The checksum of a range of an unfinished file whose present length is `size`; none where it cannot be read in full, or
/// `continues` returns false. The range beyond its present end was never written, and will read as zeros once the file has its length:
/// a hole at the end of a file takes no bytes.
fn sum_of(
    source: &dyn Source,
    size: u64,
    row: &Row,
    buffer: &mut [u8],
    with_adler32: bool,
    continues: &mut dyn FnMut(u64) -> bool,
) -> Option<BlockSum> {
    let mut sum = BlockSum::of_zeros(0, with_adler32);
    let (mut at, end) = (row.offset, row.offset + row.len);
    while at < end {
        let extent = if at < size { source.extent(at, end.min(size)).ok()? } else { Extent::Hole(end) };
        let (len, next) = match extent {
            Extent::Hole(to) => (to.min(end) - at, BlockSum::of_zeros(to.min(end) - at, with_adler32)),
            Extent::Data(to) => {
                let want = (to.min(end) - at).min(buffer.len() as u64) as usize;
                if source.read_at(&mut buffer[..want], at).ok()? < want {
                    return None;
                }
                (want as u64, BlockSum::of(&buffer[..want], with_adler32))
            }
        };
        sum = sum.then(next, len);
        at += len;
        if !continues(len) {
            return None;
        }
    }
    Some(sum)
}

//! The resume verifier: judges the files that take long to judge, on a thread of its own, so that other files need not wait.
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
    /// The digest of what is there already, where that decides.
    pub there: Option<Digest>,
}

/// An unfinished file, and the journal of its blocks.
type Unfinished = (Arc<dyn store::Sink>, Journal);

impl Receiving {
    /// Whether the blocks of a file are journalled. A file of one block is not worth a journal.
    pub(super) fn is_journalled(&self, wanted: &Wanted) -> bool {
        let large = wanted.size != UNKNOWN_SIZE && wanted.size > BLOCK_BYTES;
        large && self.policy.journals.is_some() && self.store.capabilities().writes == Writes::Anywhere
    }

    /// Whether an earlier attempt left a part of a file.
    pub(super) fn has_rest(&self, wanted: &Wanted) -> bool {
        self.is_journalled(wanted) && self.policy.journals.as_ref().is_some_and(|j| j.knows(&wanted.path))
    }

    /// Removes the part that an earlier attempt left of a file: the file is complete, or has become too small to resume.
    pub(super) fn give_up_rest(&self, wanted: &Wanted) {
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
            self.carry(next);
            self.waker.wake();
        }
    }

    fn carry(&self, SlowFile { wanted, there }: SlowFile) {
        let id = wanted.id;
        let (kept, rest) = match self.has_rest(&wanted) && there.is_none() {
            true => self.take_rest(&wanted).unzip(),
            false => (None, None),
        };
        let rest: Vec<Row> = rest.unwrap_or_default();
        // What an earlier attempt reserved is as good as written.
        let reserved = kept.as_ref().and_then(|(sink, _)| sink.as_source().ok()?.stat().ok());
        let bytes_there = reserved.map_or(0, |stat| stat.allocated);
        let promise = loop {
            match self.promise(&wanted, bytes_there) {
                Ok(promise) => break promise,
                Err(full) if !full.never && self.wait_for_room(&full.reason()) => {}
                Err(full) => {
                    if self.is_over() {
                        return;
                    }
                    let refusal = Refusal::new(Fault::Storage, full.reason());
                    if !full.never {
                        self.fail(Error::Full { why: full.reason() });
                    }
                    return self.state().machine.judged(id, Judgement::Refuse(refusal));
                }
            }
        };
        self.has_room();
        let judgement = match there {
            Some(digest) => Judgement::WantUnless(digest),
            None if rest.is_empty() => Judgement::Want,
            None => Judgement::WantRest(rest.iter().map(|row| (row.offset, row.len, row.sum)).collect()),
        };
        let incoming = Incoming::new(self, wanted, there, promise);
        let incoming = match kept {
            Some((sink, journal)) => incoming.going_on(sink, journal),
            None => incoming,
        };
        self.expect_file(incoming);
        self.state().machine.judged(id, judgement);
    }

    /// What an earlier attempt left of a file, as far as it is what its journal says. None where nothing is, or where
    /// another attempt is still at it.
    fn take_rest(&self, wanted: &Wanted) -> Option<(Unfinished, Vec<Row>)> {
        let journals = self.policy.journals.as_ref()?;
        let (mut journal, rows) = self.take_journal(journals, wanted)?;
        let sink = match rows.is_empty() {
            true => None,
            false => self.store.resume(&wanted.path, journal.tag()).ok().flatten(),
        };
        let Some(sink) = sink else {
            // Before room is asked for: what is of no use may be what takes it.
            let _ = self.store.forget(&wanted.path, journal.tag());
            return None;
        };
        sink.distrust();
        let true_rows = self.verified(wanted, &*sink.as_source().ok()?, rows);
        self.say_busy(String::new());
        if self.is_over() {
            // Nothing was found wrong with what was not looked at: the journal stays as it is.
            sink.keep();
            return None;
        }
        journal.restart(journals, &wanted.path, subject(wanted), &true_rows).ok()?;
        if !wanted.attributes.as_ref().is_some_and(|a| a.sparse) {
            self.with_room(|| sink.reserve(wanted.size)).ok()?;
        }
        Some(((sink, journal), true_rows))
    }

    /// The journal of a file, once no other job has it; none where one keeps it for too long.
    pub(super) fn take_journal(&self, journals: &Journals, wanted: &Wanted) -> Option<(Journal, Vec<Row>)> {
        let own = self.job.get().map(|job| JobId(Uuid::from_bytes(*job)).to_string()).unwrap_or_default();
        let mut is_waiting = false;
        let mut waits = |other: Option<String>| {
            if !std::mem::replace(&mut is_waiting, true) {
                self.begins_to_wait();
            }
            let other = other.map_or_else(|| "another job".to_owned(), |job| format!("job {job}"));
            self.say_busy(format!("waiting for {other}, which is writing {}", wanted.path));
        };
        let taken = journals.take(&wanted.path, subject(wanted), &own, &mut waits);
        if is_waiting {
            self.ends_to_wait();
        }
        taken.ok().flatten()
    }

    /// Several may wait for other jobs at once, each for a file: the time counts once.
    fn begins_to_wait(&self) {
        let (count, since) = &mut *self.others_write.lock();
        *count += 1;
        since.get_or_insert_with(Instant::now);
    }

    fn ends_to_wait(&self) {
        let (count, since) = &mut *self.others_write.lock();
        *count -= 1;
        if *count == 0 {
            let waited = since.take().map_or(Duration::ZERO, |since| since.elapsed());
            self.note_wait(|all| all.writer += waited);
            self.say_busy(String::new());
        }
    }

    /// The rows that the unfinished file bears out.
    fn verified(&self, wanted: &Wanted, source: &dyn Source, rows: Vec<Row>) -> Vec<Row> {
        let with_adler32 = self.policy.options.checksums.contains(&Algorithm::Adler32);
        let total: u64 = rows.iter().map(|row| row.len).sum();
        let reaches = source.stat().map_or(0, |stat| stat.meta.size);
        let mut done = 0;
        let mut buffer = vec![0; BLOCK_BYTES as usize];
        let mut out = Vec::new();
        for row in rows {
            let sum = sum_of(source, reaches, &row, &mut buffer, with_adler32, &mut |len| {
                done += len;
                let (done, total) = (Bytes(done), Bytes(total));
                self.say_busy(format!("verifying what is there of {}: {done} of {total}", wanted.path));
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

/// The checksum of a range of an unfinished file that `reaches` so far; none where it cannot be read in full, or
/// `goes_on` says no. What lies behind its end was never written, and will read as zeros once the file has its length: a
/// hole at the end is there without a byte.
fn sum_of(
    source: &dyn Source,
    reaches: u64,
    row: &Row,
    buffer: &mut [u8],
    with_adler32: bool,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Option<BlockSum> {
    let mut sum = BlockSum::of_zeros(0, with_adler32);
    let (mut at, end) = (row.offset, row.offset + row.len);
    while at < end {
        let extent = if at < reaches { source.extent(at, end.min(reaches)).ok()? } else { Extent::Hole(end) };
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
        if !goes_on(len) {
            return None;
        }
    }
    Some(sum)
}

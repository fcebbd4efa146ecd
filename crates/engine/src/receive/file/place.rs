//! Verifies a file whose blocks have all arrived, and puts it in place.

use model::checksum::Digest;
use model::fault::Fault;
use model::{Algorithm, Refusal};
use store::digest;
use store::{Finish, Sink};
use wire::frame::Outcome;
use wire::receiver::Complete;

use super::{CommitGate, FileJob, Incoming, Receiving};
use crate::error::Error;

impl Incoming {
    /// Reads a file back that a lost mover had open: the blocks that it wrote may have been only in the memory of its host.
    fn verify_all(&self, job: &impl FileJob, complete: &Complete, sink: &dyn Sink) -> Result<(), PutError> {
        let expected: Vec<Digest> = complete
            .sum
            .map(|sum| Digest::crc32c(sum.crc32c))
            .into_iter()
            .chain(complete.serial.iter().copied())
            .collect();
        let algorithms: Vec<Algorithm> = expected.iter().map(Digest::algorithm).collect();
        let path = &self.wanted.path;
        let _busy = job.busy_with(format!("reading {path} back: a mover was lost that had it open"));
        sink.drop_cache();
        let source = sink.as_source()?;
        let found = digest::of_unfinished(&*source, path, &algorithms, complete.size)?;
        if expected.iter().all(|digest| found.contains(digest)) {
            return Ok(());
        }
        let reason = format!(
            "{path}: blocks that a mover had written were lost with its host; the other blocks are kept, and the lost ones are sent again"
        );
        // The fault of a broken path: another attempt helps.
        Err(PutError::Lost(Refusal::new(Fault::Path, reason)))
    }

    /// Compares the digests that need the whole file in order. One that was not fed in order is read back.
    fn verify(&self, job: &impl FileJob, complete: &Complete, sink: &dyn Sink) -> Result<(), Refusal> {
        if complete.serial.is_empty() {
            return Ok(());
        }
        let in_order = std::mem::take(&mut *self.serial.lock());
        let storage = |e: store::Error| Refusal::from_error(&e);
        let ours = match in_order.finish(complete.size) {
            Some(digests) => digests,
            None => {
                let algorithms: Vec<Algorithm> = complete.serial.iter().map(|d| d.algorithm()).collect();
                let _busy = job.busy_with(format!("reading {} back for its digests", self.wanted.path));
                let source = sink.as_source().map_err(storage)?;
                digest::of_unfinished(&*source, &self.wanted.path, &algorithms, complete.size).map_err(storage)?
            }
        };
        match complete.serial.iter().find(|theirs| !ours.contains(theirs)) {
            None => Ok(()),
            Some(theirs) => {
                let reason =
                    format!("{}: the source has {theirs}; the data that arrived have another digest", self.wanted.path);
                Err(Refusal::new(Fault::Integrity, reason))
            }
        }
    }
}

impl Receiving {
    /// Skips a file: the sender has found that the target's file equals its own.
    pub(in crate::receive) fn skip_unchanged(&self, id: u64) {
        let wanted = self.incoming().get(&id).map(|incoming| incoming.wanted.clone());
        self.discard(id);
        // Metadata that cannot be set do not make the data wrong.
        let _ = wanted.map(|wanted| self.refresh_file(&wanted));
    }

    /// Verifies a complete file and puts it in place.
    pub(in crate::receive) fn complete(&self, complete: &Complete) {
        let Some(incoming) = self.incoming().remove(&complete.id) else { return };
        *incoming.gate.write() = CommitGate::Closed;
        let is_same = |existing: Digest| complete.sum.is_some_and(|sum| existing == Digest::crc32c(sum.crc32c));
        // Small files are sent without waiting for a verdict: the target may have the same file already.
        if incoming.existing.is_some_and(is_same) {
            incoming.discard();
            let refreshed = self.refresh_file(&incoming.wanted);
            return self.settle(complete.id, refreshed.map_or_else(Outcome::Failed, |()| Outcome::Skipped));
        }
        let is_sure = self.fence(complete.id);
        match self.put_in_place(&incoming, complete, is_sure) {
            Ok(()) => self.settle(complete.id, Outcome::Done),
            Err(PutError::Refused(refusal)) => {
                incoming.discard();
                self.settle(complete.id, Outcome::Failed(refusal));
            }
            // The next attempt verifies every journalled block, and requests those that are missing.
            Err(PutError::Lost(refusal)) => {
                incoming.keep(self);
                self.fail(Error::ThisEnd(refusal.clone()));
                self.settle(complete.id, Outcome::Failed(refusal));
            }
            Err(PutError::Store(error)) => {
                if error.keeps_file() {
                    incoming.keep(self);
                } else {
                    incoming.discard();
                }
                self.store_failed(complete.id, error);
            }
        }
    }

    /// Commits a file. It is read back first where a lost mover may have written blocks that are missing now (`is_sure` is false).
    fn put_in_place(&self, incoming: &Incoming, complete: &Complete, is_sure: bool) -> Result<(), PutError> {
        let sink = incoming.sink(self)?;
        if is_sure {
            incoming.verify(self, complete, &*sink)?;
        } else {
            incoming.verify_all(self, complete, &*sink)?;
        }
        let finish = Finish {
            size: complete.size,
            mode: incoming.wanted.mode,
            mtime: incoming.wanted.mtime,
            durable: self.policy.options.durable,
            replace: self.policy.replaces(),
            attributes: incoming.wanted.attributes.clone().filter(|a| a.owner.is_some() || !a.xattrs.is_empty()),
        };
        self.with_room(|| sink.commit(&finish))?;
        incoming.end_journal();
        incoming.settle_promise();
        Ok(())
    }
}

enum PutError {
    Refused(Refusal),
    /// Blocks that a mover had written are missing.
    Lost(Refusal),
    Store(store::Error),
}

impl From<Refusal> for PutError {
    fn from(refusal: Refusal) -> PutError {
        PutError::Refused(refusal)
    }
}

impl From<store::Error> for PutError {
    fn from(error: store::Error) -> PutError {
        PutError::Store(error)
    }
}

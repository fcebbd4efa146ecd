//! A file whose blocks are all there: verified, and put in place.

use model::checksum::Digest;
use model::fault::Fault;
use model::{Algorithm, Refusal};
use store::digest;
use store::{Finish, Sink};
use wire::frame::Outcome;
use wire::receiver::Complete;

use super::{CommitGate, Incoming, Receiving, Sinks};
use crate::error::Error;

impl Incoming {
    /// A mover was lost that had this file open. What it wrote may have been in its host's memory alone: the file is read.
    fn look_at(&self, sinks: &impl Sinks, complete: &Complete, sink: &dyn Sink) -> Result<(), PutError> {
        let expected: Vec<Digest> = complete
            .sum
            .map(|sum| Digest::crc32c(sum.crc32c))
            .into_iter()
            .chain(complete.serial.iter().copied())
            .collect();
        let algorithms: Vec<Algorithm> = expected.iter().map(Digest::algorithm).collect();
        let path = &self.wanted.path;
        let _busy = sinks.busy_with(format!("reading {path} back: a mover was lost that had it open"));
        sink.distrust();
        let source = sink.as_source()?;
        let found = digest::of_unfinished(&*source, path, &algorithms, complete.size)?;
        if expected.iter().all(|digest| found.contains(digest)) {
            return Ok(());
        }
        let reason = format!(
            "{path}: something that a mover had written is not there: it was lost with its host; what is there is kept, and the rest is sent again"
        );
        // As with a path that broke: trying again helps.
        Err(PutError::Lost(Refusal::new(Fault::Path, reason)))
    }

    /// Compares the digests that need the whole file in order. One that was not fed in order is read back.
    fn verify(&self, sinks: &impl Sinks, complete: &Complete, sink: &dyn Sink) -> Result<(), Refusal> {
        if complete.serial.is_empty() {
            return Ok(());
        }
        let in_order = std::mem::take(&mut *self.serial.lock());
        let storage = |e: store::Error| Refusal::from_error(&e);
        let ours = match in_order.finish(complete.size) {
            Some(digests) => digests,
            None => {
                let algorithms: Vec<Algorithm> = complete.serial.iter().map(|d| d.algorithm()).collect();
                let _busy = sinks.busy_with(format!("reading {} back for its digests", self.wanted.path));
                let source = sink.as_source().map_err(storage)?;
                digest::of_unfinished(&*source, &self.wanted.path, &algorithms, complete.size).map_err(storage)?
            }
        };
        match complete.serial.iter().find(|theirs| !ours.contains(theirs)) {
            None => Ok(()),
            Some(theirs) => {
                let reason = format!("{}: its {theirs} at the source is not that of what arrived", self.wanted.path);
                Err(Refusal::new(Fault::Integrity, reason))
            }
        }
    }
}

impl Receiving {
    /// What the target has of a file is what the source has: nothing more of it comes.
    pub(in crate::receive) fn is_there(&self, id: u64) {
        let wanted = self.incoming().get(&id).map(|incoming| incoming.wanted.clone());
        self.discard(id);
        // Facts that cannot be set do not make the data wrong.
        let _ = wanted.map(|wanted| self.refresh_file(&wanted));
    }

    /// Verifies a complete file and puts it in place.
    pub(in crate::receive) fn complete(&self, complete: &Complete) {
        let Some(incoming) = self.incoming().remove(&complete.id) else { return };
        *incoming.gate.write() = CommitGate::Closed;
        let same = |there: Digest| complete.sum.is_some_and(|sum| there == Digest::crc32c(sum.crc32c));
        // Small files come without waiting for a verdict; what came may be what is there.
        if incoming.there.is_some_and(same) {
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
            // The next attempt looks at every block that is written down, and asks for those that are not there.
            Err(PutError::Lost(refusal)) => {
                incoming.keep(self);
                self.fail(Error::ThisEnd(refusal.clone()));
                self.settle(complete.id, Outcome::Failed(refusal));
            }
            Err(PutError::Store(error)) => {
                if error.may_go_on() {
                    incoming.keep(self);
                } else {
                    incoming.discard();
                }
                self.store_failed(complete.id, error);
            }
        }
    }

    /// Where it is not sure that all that was written is there, it is looked at first.
    fn put_in_place(&self, incoming: &Incoming, complete: &Complete, is_sure: bool) -> Result<(), PutError> {
        let sink = incoming.sink(self)?;
        match is_sure {
            true => incoming.verify(self, complete, &*sink)?,
            false => incoming.look_at(self, complete, &*sink)?,
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
    /// What a mover had written is not there.
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

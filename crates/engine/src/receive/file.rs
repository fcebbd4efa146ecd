//! One file on its way in: made when its first block comes, put in place when it is complete and verified.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use model::Algorithm;
use model::checksum::Digest;
use model::fault::Fault;
use store::digest::{self, InOrder};
use store::{Finish, Sink};
use wire::WireError;
use wire::frame::{Outcome, Refusal};
use wire::receiver::{Complete, Stored, Wanted};
use wire::record::Part;

use super::Receiving;
use crate::error::Error;

/// A file that blocks are being written to.
pub(super) struct Incoming {
    wanted: Wanted,
    /// The digest of what is there already, where that decides.
    there: Option<Digest>,
    sink: Mutex<Option<Arc<dyn Sink>>>,
    serial: Mutex<InOrder>,
    /// Held shared while a block is written and entered, alone while the file is put in place: a block that comes
    /// twice must not be written into a file that has its name already.
    gate: RwLock<Gate>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

impl Incoming {
    pub(super) fn new(wanted: Wanted, there: Option<Digest>, checksums: &[Algorithm]) -> Incoming {
        let serial = Mutex::new(InOrder::new(checksums));
        Incoming { wanted, there, sink: Mutex::default(), serial, gate: RwLock::new(Gate::Open) }
    }

    /// Writes a block and enters it, unless the file is on its way to its name already.
    pub(super) fn take(
        &self,
        receiving: &Receiving,
        part: &Part,
        bytes: &[u8],
        enter: impl FnOnce() -> Result<Stored, WireError>,
    ) -> Result<store::Result<Stored>, WireError> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if *gate == Gate::Closed {
            return Ok(Ok(Stored::Unwanted));
        }
        match self.write(receiving, part, bytes) {
            Ok(()) => enter().map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The file, made on first use.
    fn sink(&self, receiving: &Receiving) -> store::Result<Arc<dyn Sink>> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sink) = &*sink {
            return Ok(Arc::clone(sink));
        }
        (receiving.opening)(&self.wanted.path.parent());
        let tag = format!("{}-{:x}", receiving.policy.tag, self.wanted.id);
        let made = receiving.store.create(&self.wanted.path, &tag)?;
        *sink = Some(Arc::clone(&made));
        Ok(made)
    }

    fn write(&self, receiving: &Receiving, part: &Part, bytes: &[u8]) -> store::Result<()> {
        let sink = self.sink(receiving)?;
        let mut serial = self.serial.lock().unwrap_or_else(PoisonError::into_inner);
        if part.hole {
            serial.feed_hole(part.offset, part.len);
            return Ok(());
        }
        serial.feed(part.offset, bytes);
        drop(serial);
        if bytes.is_empty() { Ok(()) } else { sink.write_at(bytes, part.offset) }
    }

    fn discard(&self) {
        if let Some(sink) = self.sink.lock().unwrap_or_else(PoisonError::into_inner).take() {
            sink.discard();
        }
    }

    /// Compares the digests that need the whole file in order. One that was not fed in order is read back.
    fn verify(&self, complete: &Complete, sink: &dyn Sink) -> Result<(), Refusal> {
        if complete.serial.is_empty() {
            return Ok(());
        }
        let in_order = std::mem::take(&mut *self.serial.lock().unwrap_or_else(PoisonError::into_inner));
        let storage = |e: store::Error| Refusal::from_error(&e);
        let ours = match in_order.finish(complete.size) {
            Some(digests) => digests,
            None => {
                let algorithms: Vec<Algorithm> = complete.serial.iter().map(|d| d.algorithm()).collect();
                digest::of_file(&*sink.as_source().map_err(storage)?, &self.wanted.path, &algorithms)
                    .map_err(storage)?
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
    /// Makes room for a file's blocks, before the sender can hear that it is wanted.
    pub(super) fn expect_file(&self, wanted: Wanted, there: Option<Digest>) {
        let incoming = Incoming::new(wanted, there, &self.policy.options.checksums);
        self.incoming().insert(incoming.wanted.id, Arc::new(incoming));
    }

    /// Verifies a complete file and puts it in place.
    pub(super) fn complete(&self, complete: &Complete) {
        let Some(incoming) = self.incoming().remove(&complete.id) else { return };
        *incoming.gate.write().unwrap_or_else(PoisonError::into_inner) = Gate::Closed;
        let same = |there: Digest| complete.sum.is_some_and(|sum| there == Digest::crc32c(sum.crc32c));
        // Small files come without waiting for a verdict; what came may be what is there.
        if incoming.there.is_some_and(same) {
            incoming.discard();
            return self.settle(complete.id, Outcome::Skipped);
        }
        match self.put_in_place(&incoming, complete) {
            Ok(()) => self.settle(complete.id, Outcome::Done),
            Err(PutError::Refused(refusal)) => {
                incoming.discard();
                self.settle(complete.id, Outcome::Failed(refusal));
            }
            Err(PutError::Store(error)) => {
                incoming.discard();
                self.store_failed(complete.id, error);
            }
        }
    }

    fn put_in_place(&self, incoming: &Incoming, complete: &Complete) -> Result<(), PutError> {
        let sink = incoming.sink(self)?;
        incoming.verify(complete, &*sink)?;
        let finish = Finish {
            size: complete.size,
            mode: incoming.wanted.mode,
            mtime: incoming.wanted.mtime,
            durable: self.policy.options.durable,
            replace: !self.policy.options.no_overwrite && self.policy.may_replace.is_ok(),
        };
        Ok(sink.commit(&finish)?)
    }

    /// A file cannot be written.
    pub(super) fn file_failed(&self, id: u64, error: store::Error) {
        self.discard(id);
        self.store_failed(id, error);
    }

    fn store_failed(&self, id: u64, error: store::Error) {
        let refusal = Refusal::from_error(&error);
        // Said before the file is settled: if it was the last one, the job would otherwise end in peace first.
        if error.is_fatal() {
            self.fail(Error::Store(error));
        }
        self.settle(id, Outcome::Failed(refusal));
    }

    pub(super) fn discard(&self, id: u64) {
        let incoming = self.incoming().remove(&id);
        if let Some(incoming) = incoming {
            incoming.discard();
        }
    }

    pub(super) fn settle(&self, id: u64, outcome: Outcome) {
        self.state().machine.settled(id, outcome);
        self.actions.notify_one();
        self.waker.wake();
    }
}

enum PutError {
    Refused(Refusal),
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

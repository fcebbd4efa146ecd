//! A file that is written: under a temporary name until it is closed, whatever happens to its connection. So nobody reads a part of a
//! file, and an update that breaks off leaves the file as it was.
//!
//! Does not know: messages and connections.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Instant;

use model::checksum::BlockSum;
use serve::buffer;
use xroot::ErrorCode;
use xroot::entry::{EntryFacts, entry_flags};

use super::RootService;
use super::failure::{RootOutcome, refuse};
use super::log::LoggedAction;
use super::resolved::{ExportPath, Resolved};
use crate::access::ResolvedPath;
use crate::clock::now;
use crate::fireflies::FlowGuard;
use crate::meters::WorkMeter;
use crate::new_file::{self, FILE_MODE, FileSums, ListedSink};

/// Pages of one request that may have wrong checksums, and those of a file that wait for their repetition.
const DAMAGED_OF_REQUEST_MAX: usize = 128;
const DAMAGED_OF_FILE_MAX: usize = 256;

/// How a file is opened for writing.
pub(super) struct WriteOrder {
    /// `/EXPORT/PATH`, for logs.
    pub shown: String,
    /// The holder of the credential that writes it.
    pub holder: String,
    /// Its size, if the client announces it.
    pub size: Option<u64>,
    pub mode: u32,
    /// It begins with the bytes of the existing file.
    pub copies: bool,
    /// There is a file of this name, which the client may replace.
    pub was_there: bool,
    /// It is opened although another client writes it.
    pub is_forced: bool,
    /// The client wants that nothing stays of it unless it is closed.
    pub persists_on_close: bool,
    pub meter: WorkMeter,
    pub flow: FlowGuard,
}

/// A file that is being written.
pub(super) struct WrittenFile {
    pub place: ExportPath,
    pub shown: String,
    /// The holder of the credential that writes it.
    pub holder: String,
    pub opened: Instant,
    /// Bytes that the client has sent.
    pub received_bytes: u64,
    at: ResolvedPath,
    /// Where its bytes go until it has its name.
    sink: ListedSink,
    /// Its size in the end, if the client announces it.
    announced: Option<u64>,
    size: u64,
    mode: u32,
    was_there: bool,
    persists_on_close: bool,
    /// The sums of the bytes, as long as each write continues the one before.
    sums: Option<BlockSum>,
    /// Pages whose checksums were wrong, until the client has sent them again: the length of each by its offset.
    damaged: BTreeMap<u64, u32>,
    meter: WorkMeter,
    _flow: FlowGuard,
    _writer: WriterGuard,
}

/// Where a file gets its name.
pub(super) struct WriteDestination {
    pub at: ResolvedPath,
    /// The holder of the credential that writes it.
    pub holder: String,
    /// It replaces the file that is there.
    pub replaces: bool,
}

/// The entry of a file among those that are open for writing.
struct WriterGuard {
    service: Weak<RootService>,
    /// None if another client has the entry.
    key: Option<(String, Vec<u8>)>,
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        if let (Some(service), Some(key)) = (self.service.upgrade(), &self.key) {
            service.writers.lock().remove(key);
        }
    }
}

impl WriterGuard {
    fn take(service: &Arc<RootService>, place: &ExportPath, is_forced: bool) -> RootOutcome<WriterGuard> {
        let key = (place.export.clone(), place.path.clone());
        let is_first = service.writers.lock().insert(key.clone());
        if !is_first && !is_forced {
            let reason = "another client is writing this file; wait until it is closed, or insist (-f)";
            return Err(refuse(ErrorCode::FileLocked, reason));
        }
        Ok(WriterGuard { service: Arc::downgrade(service), key: is_first.then_some(key) })
    }
}

impl WrittenFile {
    /// Begins a file; [`WrittenFile::reserve`] reserves its space.
    ///
    /// # Errors
    /// Another client writes it, it does not fit, or the store cannot make it.
    pub fn begin(service: &Arc<RootService>, resolved: Resolved, order: WriteOrder) -> RootOutcome<WrittenFile> {
        let Resolved { place, at, .. } = resolved;
        let writer = WriterGuard::take(service, &place, order.is_forced)?;
        new_file::check_room(&*at.store, &at.path, order.size.unwrap_or(0))?;
        let sink = new_file::begin_unreserved(&service.services.unfinished, &at, order.size)?;
        let mut file = WrittenFile {
            place,
            shown: order.shown,
            holder: order.holder,
            opened: Instant::now(),
            received_bytes: 0,
            at,
            sink,
            announced: order.size,
            size: 0,
            mode: if order.mode == 0 { FILE_MODE } else { order.mode },
            was_there: order.was_there,
            persists_on_close: order.persists_on_close,
            sums: Some(BlockSum::of(&[], true)),
            damaged: BTreeMap::new(),
            meter: order.meter,
            _flow: order.flow,
            _writer: writer,
        };
        if order.copies {
            file.copy_existing()?;
        }
        Ok(file)
    }

    /// Reserves the space that the client has announced.
    ///
    /// # Errors
    /// There is not so much space.
    pub fn reserve(&self) -> RootOutcome<()> {
        Ok(self.sink.reserve(self.announced)?)
    }

    /// Copies the bytes of the existing file, which the client changes.
    fn copy_existing(&mut self) -> RootOutcome<()> {
        let source = self.at.store.open(&self.at.path)?;
        let size = source.stat()?.meta.size;
        new_file::check_room(&*self.at.store, &self.at.path, size)?;
        buffer::with(|buffer| -> RootOutcome<()> {
            while self.size < size {
                let got = source.read_at(buffer, self.size)?;
                if got == 0 {
                    break;
                }
                self.write(&buffer[..got], self.size)?;
            }
            Ok(())
        })
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// The store cannot write them.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> RootOutcome<()> {
        self.sink.0.write_at(bytes, offset)?;
        self.sums = match self.sums {
            Some(sums) if offset == self.size => Some(sums.then(BlockSum::of(bytes, true), bytes.len() as u64)),
            _ => None,
        };
        self.size = self.size.max(offset + bytes.len() as u64);
        Ok(())
    }

    /// Where it gets its name.
    pub fn destination(&self) -> WriteDestination {
        WriteDestination { at: self.at.clone(), holder: self.holder.clone(), replaces: self.was_there }
    }

    /// Its entry in the logs, so far.
    pub fn logged_action(&self) -> LoggedAction<'_> {
        LoggedAction {
            action: "write",
            target: &self.shown,
            other: None,
            status: 200,
            reason: None,
            bytes: self.received_bytes,
            began: self.opened,
        }
    }

    /// Counts bytes of the client.
    pub fn received(&mut self, bytes: u64) {
        self.received_bytes += bytes;
        self.meter.received(bytes);
    }

    /// Its facts so far.
    pub fn facts(&self) -> EntryFacts {
        let unfinished = if self.persists_on_close { entry_flags::UNFINISHED } else { 0 };
        EntryFacts {
            id: 0,
            size: self.size,
            flags: entry_flags::READABLE | entry_flags::WRITABLE | unfinished,
            mtime: now().seconds,
            mode: Some(self.mode),
        }
    }

    /// Flushes what was written.
    ///
    /// # Errors
    /// The store cannot.
    pub fn flush(&self) -> RootOutcome<()> {
        Ok(self.sink.0.flush()?)
    }

    /// Reads back what was written.
    ///
    /// # Errors
    /// The store cannot read an unfinished file.
    pub fn read_back(&self) -> RootOutcome<(Arc<dyn store::Source>, u64)> {
        Ok((self.sink.0.as_source()?, self.size))
    }

    /// Sets its length.
    ///
    /// # Errors
    /// The store cannot make a hole.
    pub fn truncate(&mut self, bytes: u64) -> RootOutcome<()> {
        if bytes < self.size {
            // A file that becomes longer again has zeros there.
            self.sink.0.clear(bytes, self.size - bytes)?;
        }
        if bytes != self.size {
            self.sums = None;
        }
        self.size = bytes;
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Pages are damaged, another client has made a file of this name, or the store cannot commit it.
    pub fn commit(&mut self, service: &RootService) -> RootOutcome<()> {
        if !self.damaged.is_empty() {
            let reason = format!("{} pages have wrong checksums and were not sent again", self.damaged.len());
            service.services.meters.damaged();
            return Err(refuse(ErrorCode::Checksum, reason));
        }
        let services = &service.services;
        let made =
            self.sums.map_or_else(Vec::new, |block| FileSums { size: self.size, block, serial: Vec::new() }.digests());
        let _name_lock = services.unfinished.lock_name(&self.at);
        let finish = new_file::finish(self.size, self.mode, now(), self.was_there);
        new_file::commit(&services.digests, &self.at, &*self.sink.0, &finish, &made)?;
        self.count_file();
        Ok(())
    }

    /// Counts a file that has its name.
    pub fn count_file(&self) {
        self.meter.file_received();
    }

    /// Notes pages of a request that have wrong checksums, and forgets those that have come again.
    ///
    /// # Errors
    /// There are too many.
    pub fn note_damaged(&mut self, range: Range<u64>, damaged: &[(u64, u32)]) -> RootOutcome<()> {
        let again: Vec<u64> = self.damaged.range(range).map(|(offset, _)| *offset).collect();
        for offset in again {
            self.damaged.remove(&offset);
        }
        self.damaged.extend(damaged.iter().copied());
        if damaged.len() > DAMAGED_OF_REQUEST_MAX || self.damaged.len() > DAMAGED_OF_FILE_MAX {
            return Err(refuse(ErrorCode::TooManyErrors, "too many pages have wrong checksums"));
        }
        Ok(())
    }

    /// Writes the data of pages except those that are damaged.
    ///
    /// # Errors
    /// The store cannot write them.
    pub fn write_sound(&mut self, offset: u64, data: &[u8], damaged: &[(u64, u32)]) -> RootOutcome<()> {
        let mut at = offset;
        let end = offset + data.len() as u64;
        for (bad, bytes) in damaged.iter().copied().chain([(end, 0)]) {
            if at < bad {
                self.write(&data[(at - offset) as usize..(bad - offset) as usize], at)?;
            }
            at = bad + u64::from(bytes);
        }
        Ok(())
    }
}

//! A file of a scratch place that is being written: every byte counts towards the quota of the place before it is written, and nothing
//! is written once the place has ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use model::id::Uuid;
use model::name::RelPath;
use parking_lot::Mutex;
use store::{FileAnnouncement, Finish, Result, Sink, Source};

use super::ScratchState;
use super::no_room::NoRoom;
use super::usage::PlaceUsage;

/// The bytes of a file that is being written.
#[derive(Clone, Copy, Debug, Default)]
struct SinkBytes {
    /// Bytes that count towards the quota: up to the greatest end that was written or reserved.
    counted: u64,
    /// The greatest end that was written.
    written: u64,
}

/// A file of a scratch place.
pub(super) struct FileInPlace {
    pub state: Arc<ScratchState>,
    /// The place.
    pub id: Uuid,
    /// The path below the place.
    pub path: RelPath,
    /// The path for error texts.
    pub shown: RelPath,
    pub tag: String,
    /// Whether the place has ended.
    pub has_ended: Arc<AtomicBool>,
}

/// A file of a scratch place that is being written.
pub(super) struct ScratchSink {
    sink: Arc<dyn Sink>,
    file: FileInPlace,
    /// An earlier attempt began it: without a call of `discard` it stays.
    is_resumed: bool,
    bytes: Mutex<SinkBytes>,
}

impl fmt::Debug for ScratchSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchSink").field("path", &self.file.shown).field("sink", &self.sink).finish_non_exhaustive()
    }
}

impl ScratchSink {
    /// A file that begins.
    pub fn new(sink: Arc<dyn Sink>, file: FileInPlace) -> ScratchSink {
        ScratchSink { sink, file, is_resumed: false, bytes: Mutex::default() }
    }

    /// A file that an earlier attempt began and kept.
    ///
    /// # Errors
    /// The file cannot be examined, the place has ended, or its quota is used up.
    pub fn resumed(sink: Arc<dyn Sink>, file: FileInPlace) -> Result<ScratchSink> {
        let size = sink.as_source()?.stat()?.meta.size;
        let mut known = None;
        file.state.note_change(&file.id, |usage| known = usage.resume(&file.path, &file.tag));
        let bytes = SinkBytes { counted: known.unwrap_or(0), written: size };
        let resumed = ScratchSink { sink, file, is_resumed: true, bytes: Mutex::new(bytes) };
        // Bytes of which the table knows nothing count as well.
        resumed.grow_to(size)?;
        Ok(resumed)
    }

    fn check(&self) -> Result<()> {
        if self.file.has_ended.load(Ordering::Acquire) {
            return Err(NoRoom::NoPlace.as_error("write", &self.file.shown));
        }
        Ok(())
    }

    /// Counts the bytes of the file up to `end`.
    fn grow_to(&self, end: u64) -> Result<()> {
        let mut bytes = self.bytes.lock();
        if end > bytes.counted {
            let grown = self.file.state.table.lock().grow(&self.file.id, end - bytes.counted, Instant::now());
            grown.map_err(|why| why.as_error("write", &self.file.shown))?;
            bytes.counted = end;
        }
        Ok(())
    }

    fn note_change(&self, note: impl FnOnce(&mut PlaceUsage)) {
        self.file.state.note_change(&self.file.id, note);
    }

    fn note_written(&self, end: u64) {
        let mut bytes = self.bytes.lock();
        bytes.written = bytes.written.max(end);
    }

    /// The bytes of the file, which count no longer as those of this sink.
    fn take_bytes(&self) -> SinkBytes {
        std::mem::take(&mut *self.bytes.lock())
    }

    fn note_discarded(&self) {
        let counted = self.take_bytes().counted;
        self.note_change(|usage| usage.shrink(counted));
    }

    fn note_kept(&self) {
        let SinkBytes { counted, written } = self.take_bytes();
        self.note_change(|usage| usage.keep(&self.file.path, &self.file.tag, counted, written));
    }
}

impl Drop for ScratchSink {
    fn drop(&mut self) {
        if self.bytes.lock().counted == 0 {
            // Finished, kept or discarded already, or nothing was written.
        } else if self.is_resumed {
            self.note_kept();
        } else {
            self.note_discarded();
        }
    }
}

impl Sink for ScratchSink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let end = offset + buffer.len() as u64;
        self.grow_to(end)?;
        self.sink.write_at(buffer, offset)?;
        self.note_written(end);
        Ok(())
    }

    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        self.check()?;
        self.sink.clear(offset, len)
    }

    fn announce(&self, coming: &FileAnnouncement) -> Result<()> {
        self.sink.announce(coming)
    }

    fn guard(&self) {
        self.sink.guard();
    }

    fn reserve(&self, size: u64) -> Result<bool> {
        self.check()?;
        self.grow_to(size)?;
        self.sink.reserve(size)
    }

    fn note_written_to(&self, end: u64) {
        self.note_written(end);
        self.sink.note_written_to(end);
    }

    fn publish(&self) -> Result<()> {
        self.sink.publish()
    }

    fn flush(&self) -> Result<()> {
        self.sink.flush()
    }

    fn drop_cache(&self) {
        self.sink.drop_cache();
    }

    fn keep(&self) {
        self.sink.keep();
        self.note_kept();
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        self.sink.as_source()
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        if let Err(ended) = self.check() {
            self.discard();
            return Err(ended);
        }
        self.grow_to(finish.size)?;
        self.sink.commit(finish)?;
        let counted = self.take_bytes().counted;
        self.note_change(|usage| usage.finish(&self.file.path, counted, finish.size));
        Ok(())
    }

    fn discard(&self) {
        self.sink.discard();
        self.note_discarded();
    }
}

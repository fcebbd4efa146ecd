//! Writes: their data are read from the connection and written to the file.

use std::sync::Arc;

use serve::buffer;
use xroot::answer::CheckedAnswer;
use xroot::head::FileHandle;
use xroot::pages::{self, PAGE_BYTES, SUM_BYTES};
use xroot::request::{FileRange, VectorPart};
use xroot::{RequestCode, RootAnswer, RootPath, StreamId};

use super::SILENCE;
use super::connection::RootConnection;
use super::failure::{RootFailure, RootOutcome};
use super::files::RootFile;
use super::written_file::{WriteOrder, WrittenFile};
use crate::fireflies::FlowGuard;

/// Pages that are decoded at once: with their checksums they fit the buffer of a thread.
const PAGES_AT_ONCE: usize = 120;

const _: () = assert!(PAGES_AT_ONCE * (PAGE_BYTES + SUM_BYTES) <= buffer::BUFFER_BYTES);

impl RootConnection {
    /// The file of a write.
    fn written(&self, file: FileHandle) -> RootOutcome<Arc<RootFile>> {
        let file = self.session()?.files.get(file)?;
        file.written()?;
        Ok(file)
    }

    /// The file of a write; if it is refused, its data are read and forgotten.
    fn written_or_drained(&mut self, range: &FileRange) -> RootOutcome<Arc<RootFile>> {
        match self.written(range.file) {
            Ok(_) if range.path_id != 0 => Err(unsupported_path()),
            Ok(file) => Ok(file),
            Err(failure) => {
                self.drain(range.bytes)?;
                Err(failure)
            }
        }
    }

    /// Reads data of the client, piece by piece; after a failure the rest is read and forgotten.
    fn receive(
        &mut self,
        bytes: u32,
        mut take: impl FnMut(&mut RootConnection, &[u8]) -> RootOutcome<()>,
    ) -> RootOutcome<()> {
        let mut left = bytes as usize;
        let taken = buffer::with(|buffer| -> RootOutcome<()> {
            while left > 0 {
                let more = left.min(buffer.len());
                let piece = &mut buffer[..more];
                if !self.conn.read_exact(piece, SILENCE)? {
                    return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
                }
                left -= more;
                take(self, piece)?;
            }
            Ok(())
        });
        if matches!(taken, Err(RootFailure::Refused(..))) {
            self.drain(left as u32)?;
        }
        taken
    }

    /// Writes a range.
    pub(super) fn write(&mut self, range: FileRange) -> RootOutcome<RootAnswer> {
        let file = self.written_or_drained(&range)?;
        let mut offset = range.offset;
        self.receive(range.bytes, |_, piece| {
            let mut written = file.written()?.lock();
            written.write(piece, offset)?;
            written.received(piece.len() as u64);
            offset += piece.len() as u64;
            Ok(())
        })?;
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Writes pages with checksums. Pages with wrong checksums are not written, and the answer names them.
    pub(super) fn write_pages(&mut self, stream: StreamId, range: FileRange) -> RootOutcome<Option<RootAnswer>> {
        let file = self.written_or_drained(&range)?;
        let mut damaged = Vec::new();
        let mut offset = range.offset;
        let mut left = range.bytes as usize;
        let outcome = buffer::with(|buffer| -> RootOutcome<()> {
            while left > 0 {
                // All but the first piece begin with a page of the file.
                let first = PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize + SUM_BYTES;
                let more = left.min(first + (PAGES_AT_ONCE - 1) * (PAGE_BYTES + SUM_BYTES));
                let piece = &mut buffer[..more];
                if !self.conn.read_exact(piece, SILENCE)? {
                    return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
                }
                left -= more;
                // Damaged frames cannot be told from data: the connection ends.
                let decoded = pages::decode(offset, piece).map_err(|error| std::io::Error::other(error.to_string()))?;
                file.written()?.lock().write_sound(offset, &piece[..decoded.bytes], &decoded.damaged)?;
                damaged.extend(decoded.damaged);
                offset += decoded.bytes as u64;
            }
            Ok(())
        });
        if let Err(failure @ RootFailure::Refused(..)) = outcome {
            self.drain(left as u32)?;
            return Err(failure);
        }
        outcome?;
        {
            let mut written = file.written()?.lock();
            written.note_damaged(range.offset..offset, &damaged)?;
            written.received(offset - range.offset);
        }
        let list = pages::damaged_list(&damaged);
        let answer = CheckedAnswer {
            stream,
            code: RequestCode::PageWrite,
            is_last: true,
            offset: range.offset,
            data_bytes: list.len() as u32,
        };
        self.conn.write_all(&[&answer.to_bytes()[..], &list].concat())?;
        Ok(None)
    }

    /// Writes several ranges, whose bytes follow one another.
    pub(super) fn write_vector(&mut self, parts: &[VectorPart], is_synced: bool) -> RootOutcome<RootAnswer> {
        let total: u64 = parts.iter().map(|part| u64::from(part.bytes)).sum();
        let mut rest = total;
        for part in parts {
            let written = self.written(part.file).and_then(|file| {
                let mut offset = part.offset;
                rest -= u64::from(part.bytes);
                self.receive(part.bytes, |_, piece| {
                    let mut written = file.written()?.lock();
                    written.write(piece, offset)?;
                    written.received(piece.len() as u64);
                    offset += piece.len() as u64;
                    Ok(())
                })?;
                if is_synced { Ok(file.written()?.lock().flush()?) } else { Ok(()) }
            });
            if let Err(failure @ RootFailure::Refused(..)) = written {
                // The bytes of the other parts are on their way.
                while rest > 0 {
                    let piece = rest.min(1 << 30);
                    self.drain(piece as u32)?;
                    rest -= piece;
                }
                return Err(failure);
            }
            written?;
        }
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Flushes a file.
    pub(super) fn sync(&mut self, stream: StreamId, file: FileHandle) -> RootOutcome<RootAnswer> {
        match &*self.session()?.files.get(file)? {
            RootFile::Read(_) => {}
            RootFile::Written(written) => written.lock().flush()?,
            RootFile::Pulled(pulled) => return self.sync_pulled(stream, pulled),
        }
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Sets the length of an open file.
    pub(super) fn truncate(&mut self, file: FileHandle, bytes: u64) -> RootOutcome<RootAnswer> {
        self.written(file)?.written()?.lock().truncate(bytes)?;
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// Sets the length of a file: a copy of this length takes its place.
    pub(super) fn truncate_place(&mut self, place: &RootPath, bytes: u64) -> RootOutcome<RootAnswer> {
        let resolved = self.resolve(auth::Action::Overwrite, place, "truncate")?;
        let stat = resolved.at.store.stat(&resolved.at.path)?;
        let principal = Arc::clone(&resolved.principal);
        let order = WriteOrder {
            shown: format!("/{}", place.path),
            holder: principal.access.holder().to_owned(),
            size: None,
            mode: stat.meta.mode & 0o777,
            copies: true,
            was_there: true,
            is_forced: false,
            persists_on_close: true,
            meter: self.service.services.meters.request(
                self.protocol(),
                self.peer.ip(),
                crate::services::user(&principal.access),
            ),
            flow: FlowGuard::default(),
        };
        let mut written = WrittenFile::begin(&self.service, resolved, order)?;
        written.truncate(bytes)?;
        written.commit(&self.service)?;
        Ok(RootAnswer::Ok(Vec::new()))
    }
}

/// The data of such a write come on another connection, so that the connections are out of step from here on.
fn unsupported_path() -> RootFailure {
    let reason = "data of a write are taken on the control connection only";
    RootFailure::Broken(std::io::Error::new(std::io::ErrorKind::Unsupported, reason))
}

//! Writing an object. Blocks are collected into parts, several of which are sent at once; a small object is sent in one request.
//!
//! S3 gives an object its name when all of it is there. Blocks come in any order, so a part stays open until all of its blocks are
//! there; ranges are assigned in order, so about as many parts are open as there are streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Fault;
use model::name::RelPath;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use parking_lot::{Condvar, Mutex, MutexGuard};
use store::error::shown;
use store::{Error, FileAnnouncement, Finish, Result, Sink, Source, Store};

use super::{S3, S3Result, facts};
use crate::facts_cache::Namespace;
use crate::request_error::RequestError;

/// The least bytes of a part: a few seconds of a fast path. S3 refuses parts below 5 MiB, except the last.
const PART_BYTES: u64 = 16 << 20;
/// The most parts of an object; S3 permits 10,000.
const PARTS_MAX: u64 = 9_500;
/// Bytes of a part of an object of unknown size, which can have at most 594 GiB.
const UNKNOWN_SIZE_PART_BYTES: u64 = 64 << 20;
/// The most parts that are sent at once.
const PARTS_IN_FLIGHT_MAX: usize = 4;

/// A part that is not complete.
#[derive(Debug, Default)]
struct OpenPart {
    bytes: Vec<u8>,
    /// Ranges that have been written: disjoint, in order.
    written: Vec<(usize, usize)>,
}

impl OpenPart {
    /// Stores bytes at an offset. Bytes that come a second time are the same as before.
    fn put(&mut self, at: usize, piece: &[u8]) {
        let end = at + piece.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(piece);
        self.written.push((at, end));
        self.written.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(self.written.len());
        for (from, to) in self.written.drain(..) {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        self.written = merged;
    }

    fn is_whole(&self, len: usize) -> bool {
        self.written == [(0, len)]
    }
}

#[derive(Debug, Default)]
struct State {
    announcement: Option<FileAnnouncement>,
    open: BTreeMap<u64, OpenPart>,
    sent: BTreeMap<u64, PartId>,
    /// Complete parts that wait to be sent or are being sent: their blocks are not needed again.
    complete_parts: BTreeSet<u64>,
    /// The number of parts that are being sent.
    sending: usize,
    upload: Option<MultipartId>,
    closed: bool,
}

/// An object being sent.
#[derive(Debug)]
pub(super) struct S3Sink {
    s3: S3,
    path: RelPath,
    key: Path,
    state: Mutex<State>,
    /// Signalled when a part has been sent.
    arrived: Condvar,
}

/// Bytes of each part but the last.
fn part_bytes(announcement: Option<FileAnnouncement>) -> u64 {
    match announcement.and_then(|announcement| announcement.size) {
        Some(size) => size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20).max(PART_BYTES),
        None => UNKNOWN_SIZE_PART_BYTES,
    }
}

impl S3Sink {
    pub fn new(s3: &S3, path: &RelPath, key: Path) -> S3Sink {
        let s3 = s3.clone();
        S3Sink { s3, path: path.clone(), key, state: Mutex::default(), arrived: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn as_write_error(&self) -> impl Fn(RequestError) -> Error + '_ {
        |failed| failed.into_store_error("write", &self.path)
    }

    /// Sends a complete part. The first part creates the upload; the others wait for its id.
    fn send(&self, at: u64, bytes: Vec<u8>) -> S3Result<()> {
        let id = {
            let mut state = self.state();
            while state.sending >= PARTS_IN_FLIGHT_MAX && !state.closed {
                self.arrived.wait(&mut state);
            }
            if state.closed {
                return Err(RequestError::protocol_error("the file has been given up"));
            }
            let id = match &state.upload {
                Some(id) => id.clone(),
                // Under the lock: there must be one upload.
                None => {
                    let id = self.s3.ask(|store| store.create_multipart(&self.key))?;
                    state.upload.insert(id).clone()
                }
            };
            state.sending += 1;
            id
        };
        let bytes = PutPayload::from(bytes);
        let sent = self.s3.ask(|store| store.put_part(&self.key, &id, at as usize, bytes.clone()));
        let mut state = self.state();
        state.sending -= 1;
        self.arrived.notify_all();
        // The bytes of a part that failed are gone: the object cannot be finished.
        state.sent.insert(at, sent?);
        state.complete_parts.remove(&at);
        Ok(())
    }

    fn put(&self, buffer: &[u8], offset: u64) -> S3Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let mut state = self.state();
            let part_bytes = part_bytes(state.announcement);
            let at = offset + done as u64;
            let (index, within) = (at / part_bytes, at % part_bytes);
            let len = ((part_bytes - within) as usize).min(buffer.len() - done);
            let piece = &buffer[done..done + len];
            done += len;
            // The block was written before, and its part has been sent.
            if state.sent.contains_key(&index) || state.complete_parts.contains(&index) {
                continue;
            }
            let part = state.open.entry(index).or_default();
            part.put(within as usize, piece);
            if part.is_whole(part_bytes as usize) {
                let bytes = state.open.remove(&index).map(|part| part.bytes).unwrap_or_default();
                state.complete_parts.insert(index);
                drop(state);
                self.send(index, bytes)?;
            }
        }
        Ok(())
    }

    /// Sends the whole object in one request.
    fn put_whole(&self, bytes: Vec<u8>, replace: bool) -> S3Result<()> {
        let mode = if replace { PutMode::Overwrite } else { PutMode::Create };
        let options = PutOptions { mode, ..PutOptions::default() };
        let bytes = PutPayload::from(bytes);
        self.s3.ask(|store| store.put_opts(&self.key, bytes.clone(), options.clone())).map(drop)
    }

    fn finish(&self, finish: &Finish) -> S3Result<()> {
        // Checked for small objects too: not every server honours `If-None-Match`.
        if !finish.replace && self.s3.find(&self.path)?.is_some() {
            return Err(RequestError { status: Some(412), ..RequestError::protocol_error("it is there") });
        }
        let (part_bytes, upload) = {
            let state = self.state();
            (part_bytes(state.announcement), state.upload.clone())
        };
        let last = finish.size.saturating_sub(1) / part_bytes;
        let mut rest = std::mem::take(&mut self.state().open);
        // Only the end of the file may be unwritten.
        let has_gaps = |(at, part): (&u64, &OpenPart)| {
            *at != last && !part.is_whole(part_bytes as usize) || part.written.len() > 1
        };
        if rest.iter().any(has_gaps) {
            return Err(RequestError {
                fault: Fault::Bug,
                ..RequestError::protocol_error("a part of the file never came")
            });
        }
        if upload.is_none() && last == 0 {
            let mut bytes = rest.remove(&0).map(|part| part.bytes).unwrap_or_default();
            bytes.resize(finish.size as usize, 0);
            self.put_whole(bytes, finish.replace)?;
            return self.verify(finish.size);
        }
        for (at, part) in rest {
            let len = part_bytes.min(finish.size - at * part_bytes);
            let mut bytes = part.bytes;
            bytes.resize(len as usize, 0);
            self.send(at, bytes)?;
        }
        let (id, parts) = {
            let mut state = self.state();
            (state.upload.clone(), std::mem::take(&mut state.sent))
        };
        let complete = parts.keys().copied().eq(0..=last);
        let (Some(id), true) = (id, complete) else {
            return Err(RequestError {
                fault: Fault::Bug,
                ..RequestError::protocol_error("a part of the file never came")
            });
        };
        let parts: Vec<PartId> = parts.into_values().collect();
        self.s3.ask(|store| store.complete_multipart(&self.key, &id, parts.clone()))?;
        self.verify(finish.size)
    }

    /// Checks the size of the object. Its bytes need no check: each request was signed with a digest that the server has compared.
    fn verify(&self, size: u64) -> S3Result<()> {
        let meta = self.s3.ask(|store| store.head(&self.key))?;
        if meta.size != size {
            let why = format!("the server accepted {size} bytes and then reports {}", meta.size);
            return Err(RequestError { fault: Fault::Integrity, ..RequestError::protocol_error(why) });
        }
        self.s3.0.cache.store(&self.path, facts(&meta));
        self.s3.parents().remove(&self.path);
        Ok(())
    }
}

impl Sink for S3Sink {
    fn announce(&self, announcement: &FileAnnouncement) -> Result<()> {
        self.state().announcement = Some(*announcement);
        Ok(())
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.put(buffer, offset).map_err(self.as_write_error())
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        Err(Error::Unsupported { what: "reading back what is being written", store: "an S3 server" })
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        if self.state().closed {
            return Err(Error::Unsupported { what: "continuing an upload that was given up", store: "an S3 server" });
        }
        if self.s3.is_dir(&self.path) {
            self.discard();
            return Err(Error::Kind { path: shown(&self.path), found: "a directory", wanted: "a file" });
        }
        let finished = self.finish(finish).map_err(|failed| match failed.status {
            Some(412) => Error::Exists(shown(&self.path)),
            _ => self.as_write_error()(failed.without_retry()),
        });
        match &finished {
            Ok(()) => self.state().closed = true,
            Err(_) => self.discard(),
        }
        finished
    }

    fn discard(&self) {
        let upload = {
            let mut state = self.state();
            if std::mem::replace(&mut state.closed, true) {
                return;
            }
            state.open.clear();
            self.arrived.notify_all();
            // A part that arrived after the abort would be stored, and charged for.
            while state.sending > 0 {
                self.arrived.wait(&mut state);
            }
            state.upload.take()
        };
        if let Some(id) = upload {
            // An upload that is not aborted is stored, and charged for.
            let _ = self.s3.ask(|store| store.abort_multipart(&self.key, &id));
        }
    }
}

impl Drop for S3Sink {
    fn drop(&mut self) {
        self.discard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_whole_when_all_of_its_ranges_are_written() {
        let mut part = OpenPart::default();
        part.put(4, b"efgh");
        assert!(!part.is_whole(8));
        part.put(6, b"gh");
        part.put(0, b"abcd");
        assert!(part.is_whole(8) && part.bytes == b"abcdefgh");
    }

    #[test]
    fn no_object_has_too_many_parts() {
        let announcement = |size| Some(FileAnnouncement { size, mtime: Default::default(), replace: true });
        assert_eq!(part_bytes(announcement(Some(1))), PART_BYTES);
        for size in [1u64 << 30, 1 << 40, 5 << 40] {
            assert!(size.div_ceil(part_bytes(announcement(Some(size)))) <= 10_000);
        }
        assert_eq!(part_bytes(announcement(None)), UNKNOWN_SIZE_PART_BYTES);
    }
}

//! Reading a file of an archive: by several sessions at once where the protocol reads any range, else by one from the beginning to the end.

use std::ops::Range;

use model::fault::Fault;
use model::name::RelPath;
use parking_lot::Mutex;
use store::Result;

use super::{Archive, ArchiveResult, ArchiveSession};
use crate::ahead::{Fetch, RemoteFile};
use crate::facts_cache::{Facts, Namespace};
use crate::request_error::RequestError;

/// A file of a server.
struct ArchiveFile {
    archive: Archive,
    path: RelPath,
    /// The path as requests have it.
    name: String,
    size: u64,
    /// The session that reads this file, where one after the other reads faster.
    own: Mutex<Option<Box<dyn ArchiveSession>>>,
}

/// Opens a file for reading.
///
/// # Errors
/// The protocol cannot express the name.
pub(super) fn open(archive: &Archive, path: &RelPath, facts: &Facts) -> ArchiveResult<RemoteFile> {
    let stat = facts.stat(archive.host(), path);
    let name = archive.path(path)?;
    let file =
        ArchiveFile { archive: archive.clone(), path: path.clone(), name, size: facts.size, own: Mutex::default() };
    Ok(RemoteFile::new(file, stat))
}

impl ArchiveFile {
    /// Reads a range by the file's own session.
    fn read_on(&self, span: &Range<u64>) -> ArchiveResult<Vec<u8>> {
        let mut own = self.own.lock();
        let mut session = match own.take() {
            Some(session) => session,
            None => self.archive.session()?.0,
        };
        let read = session.read(&self.name, span.clone());
        match &read {
            Ok(_) if span.end >= self.size => self.archive.keep(session),
            Ok(_) => *own = Some(session),
            // The next attempt makes another session.
            Err(_) => {}
        }
        read
    }

    fn check(&self, bytes: &[u8], span: &Range<u64>) -> ArchiveResult<()> {
        if bytes.len() as u64 == span.end - span.start {
            return Ok(());
        }
        self.archive.0.cache.forget(&self.path);
        let why = format!(
            "it changed on {} while it was being read; run the same command again when it is at rest",
            self.archive.host()
        );
        Err(RequestError { fault: Fault::Storage, ..RequestError::protocol_error(why) })
    }
}

impl Fetch for ArchiveFile {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let read = || {
            if self.is_random() {
                self.archive.ask_once(&mut |session| session.read(&self.name, span.clone()))
            } else {
                self.read_on(&span)
            }
        };
        let bytes = self.archive.retrying(read).and_then(|bytes| self.check(&bytes, &span).map(|()| bytes));
        self.archive.note_carried();
        bytes.map_err(|failed| failed.into_store_error("read", &self.path))
    }

    fn is_random(&self) -> bool {
        self.archive.0.login.reads_at_random()
    }
}

//! Writing a file to an archive: in order, under a temporary name. Its size is compared with the one that the server then reports, and it
//! is renamed.

use std::sync::Arc;

use model::Kind;
use model::fault::Fault;
use model::name::{Name, RelPath};
use parking_lot::Mutex;
use store::{Finish, Result, Sink, Source, Store};

use super::{Archive, ArchiveResult, ArchiveSession};
use crate::dav::leftovers::temporary_name;
use crate::facts_cache::{Facts, Namespace};
use crate::request_error::RequestError;

/// Zeros that are sent at a time for a hole at the end of a file.
const ZEROS: usize = 256 << 10;

/// A file being sent.
pub(super) struct ArchiveSink {
    archive: Archive,
    path: RelPath,
    temporary: RelPath,
    state: Mutex<ArchiveSinkState>,
}

#[derive(Default)]
struct ArchiveSinkState {
    session: Option<Box<dyn ArchiveSession>>,
    at: u64,
    /// The file is committed or given up.
    closed: bool,
    /// The server may have a part of the file.
    begun: bool,
    /// A part of the file is lost, so that nothing can be sent after it.
    failed: bool,
}

impl std::fmt::Debug for ArchiveSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveSink").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ArchiveSink {
    pub fn new(archive: &Archive, path: &RelPath, tag: &str) -> ArchiveSink {
        // The name is valid: it is made of a tag, and shorter than a name may be.
        let temporary = Name::new(&temporary_name(tag)).map_or_else(|_| path.clone(), |name| path.parent().join(&name));
        ArchiveSink { archive: archive.clone(), path: path.clone(), temporary, state: Mutex::default() }
    }

    fn begin(&self, state: &mut ArchiveSinkState) -> ArchiveResult<Box<dyn ArchiveSession>> {
        let name = self.archive.path(&self.temporary)?;
        let session = self.archive.retrying(|| {
            let (mut session, _) = self.archive.session()?;
            session.begin_write(&name).map(|()| session)
        })?;
        state.begun = true;
        Ok(session)
    }

    fn send(&self, state: &mut ArchiveSinkState, bytes: &[u8]) -> ArchiveResult<()> {
        let sent = self.send_bytes(state, bytes);
        // The bytes sent so far are lost: the whole file must be sent again.
        let begun = state.at > 0;
        state.failed |= sent.is_err() && begun;
        sent.map_err(|failed| if begun { failed.without_retry() } else { failed })
    }

    fn send_bytes(&self, state: &mut ArchiveSinkState, bytes: &[u8]) -> ArchiveResult<()> {
        let mut session = match state.session.take() {
            Some(session) => session,
            None => self.begin(state)?,
        };
        session.write(bytes)?;
        self.archive.note_carried();
        state.at += bytes.len() as u64;
        state.session = Some(session);
        Ok(())
    }

    /// Checks that the server has as many bytes as were sent.
    fn verify(&self, size: u64) -> ArchiveResult<Facts> {
        let facts = self.archive.ask_facts(&self.temporary)?;
        if facts.size == size && facts.kind == Kind::File {
            return Ok(facts);
        }
        let why = format!("{} accepted {size} bytes and then reports {}", self.archive.host(), facts.size);
        Err(RequestError { fault: Fault::Integrity, ..RequestError::protocol_error(why) })
    }

    fn finish(&self, state: &mut ArchiveSinkState, finish: &Finish) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("write", &self.path);
        while state.at < finish.size {
            let zeros = vec![0; (finish.size - state.at).min(ZEROS as u64) as usize];
            self.send(state, &zeros).map_err(cannot)?;
        }
        let mut session = match state.session.take() {
            Some(session) => session,
            None => self.begin(state).map_err(cannot)?,
        };
        session.end_write().map_err(RequestError::without_retry).map_err(cannot)?;
        self.archive.keep(session);
        let facts = self.verify(finish.size).map_err(cannot)?;
        self.archive.rename(&self.temporary, &self.path, finish.replace)?;
        // A rename may change the modification time.
        self.archive.0.cache.store(&self.path, Facts { mtime: None, ..facts });
        Ok(())
    }
}

impl Sink for ArchiveSink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed || state.failed || offset != state.at {
            return self.archive.unsupported("writing out of order");
        }
        self.send(&mut state, buffer).map_err(|failed| failed.into_store_error("write", &self.path))
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        self.archive.unsupported("reading back what is being written")
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed || state.failed {
            return self.archive.unsupported("continuing an upload that broke off");
        }
        let result = self.finish(&mut state, finish);
        if result.is_ok() {
            state.closed = true;
        } else {
            drop(state);
            self.discard();
        }
        result
    }

    fn discard(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        drop(state.session.take());
        if state.begun {
            drop(state);
            if let Ok(name) = self.archive.path(&self.temporary) {
                let _ = self.archive.ask_once(&mut |session| session.remove_file(&name));
            }
        }
    }
}

impl Drop for ArchiveSink {
    fn drop(&mut self) {
        self.discard();
    }
}

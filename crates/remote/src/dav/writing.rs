//! Writing a file to a server. The file is sent in order under a temporary name, its size and digest are compared with those that the
//! server then reports, and it is renamed. Where the server cannot rename, it is sent under its final name.
//!
//! An upload that breaks off begins again, because no method to continue a PUT works with every server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::Kind;
use model::checksum::{BlockSum, Digest};
use model::name::{Name, RelPath};
use model::{Algorithm, Fault};
use parking_lot::{Mutex, MutexGuard};
use store::error::shown;
use store::{Error, FileAnnouncement, Finish, Result, Sink, Source};
use web::{Headers, Method, digest};

use super::{Dav, leftovers};
use crate::facts_cache::{Facts, Namespace};
use crate::request_error::RequestError;
use crate::server::Upload;

/// Zeros that are sent at a time for a hole at the end of a file.
const ZEROS: usize = 256 << 10;

/// A file being sent.
pub(super) struct DavSink {
    dav: Dav,
    path: RelPath,
    /// The temporary name; `None` where the file is sent under its final name.
    temporary: Option<RelPath>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    announcement: Option<FileAnnouncement>,
    upload: Option<Upload>,
    at: u64,
    sum: Option<BlockSum>,
    /// The file is committed or given up.
    closed: bool,
    /// The server may have a part of the file.
    begun: bool,
    /// A part of the file is lost, so that nothing can be sent after it.
    failed: bool,
}

impl std::fmt::Debug for DavSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DavSink").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Dav {
    /// Whether the server can rename files, by its answer to OPTIONS. A server with a `DAV` header and no `Allow` is assumed to.
    fn can_move(&self) -> bool {
        let query = || {
            let Ok(url) = self.url(&RelPath::root(), true) else { return true };
            match self.0.server.ask(&Method::Options, &url, &Headers::new()) {
                Ok(whole) => {
                    let allowed = whole.response.headers.all("allow").collect::<Vec<_>>();
                    let has_dav_field = whole.response.headers.get("dav").is_some();
                    if allowed.is_empty() { has_dav_field } else { whole.response.headers.lists("allow", "MOVE") }
                }
                Err(_) => false,
            }
        };
        *self.0.can_rename.get_or_init(query) && !self.0.rename_failed.load(Ordering::Relaxed)
    }
}

impl DavSink {
    pub fn new(dav: &Dav, path: &RelPath, tag: &str) -> DavSink {
        let name = Name::new(&leftovers::temporary_name(tag)).ok();
        let temporary = name.filter(|_| dav.can_move()).map(|name| path.parent().join(&name));
        DavSink { dav: dav.clone(), path: path.clone(), temporary, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn upload_path(&self) -> &RelPath {
        self.temporary.as_ref().unwrap_or(&self.path)
    }

    fn begin(&self, state: &mut State) -> std::result::Result<Upload, RequestError> {
        self.dav.sweep(&self.path.parent());
        let url = self.dav.url(self.upload_path(), false)?;
        let mut headers = Headers::new().with("Content-Type", "application/octet-stream");
        if let Some(announcement) = &state.announcement {
            // ownCloud and its descendants, dCache and nodes of Longhaul keep this time.
            headers.add("X-OC-Mtime", announcement.mtime.seconds.to_string());
        }
        let replace = state.announcement.is_none_or(|announcement| announcement.replace);
        if self.temporary.is_none() && !replace {
            headers.add("If-None-Match", "*");
        }
        let upload =
            self.dav.0.server.put(&url, &headers, state.announcement.and_then(|announcement| announcement.size))?;
        state.begun = true;
        Ok(upload)
    }

    fn send(&self, state: &mut State, bytes: &[u8]) -> std::result::Result<(), RequestError> {
        let sent = self.send_bytes(state, bytes);
        // The bytes sent so far are lost, so waiting for space does not help: the whole file must be sent again.
        let begun = state.at > 0;
        state.failed |= sent.is_err() && begun;
        sent.map_err(|failed| if begun { failed.without_retry() } else { failed })
    }

    fn send_bytes(&self, state: &mut State, bytes: &[u8]) -> std::result::Result<(), RequestError> {
        let mut upload = match state.upload.take() {
            Some(upload) => upload,
            None => self.begin(state)?,
        };
        upload.write(bytes)?;
        state.upload = Some(upload);
        let sum = BlockSum::of(bytes, true);
        state.sum = Some(state.sum.map_or(sum, |before| before.then(sum, bytes.len() as u64)));
        state.at += bytes.len() as u64;
        Ok(())
    }

    /// Checks that the server has the bytes that were sent.
    fn verify(&self, size: u64, sum: Option<BlockSum>) -> std::result::Result<Facts, RequestError> {
        let (path, host) = (self.upload_path(), self.dav.host());
        let damaged = |why: String| RequestError { fault: Fault::Integrity, ..RequestError::protocol_error(why) };
        let facts = self.dav.ask_facts(path)?;
        if facts.size != size || facts.kind != Kind::File {
            return Err(damaged(format!("{host} accepted {size} bytes and then reports {}", facts.size)));
        }
        let sum = sum.unwrap_or_else(|| BlockSum::of(&[], true));
        let adler = sum.adler32.and_then(|adler| Digest::new(Algorithm::Adler32, &adler.to_be_bytes()));
        let ours = [Some(Digest::crc32c(sum.crc32c)), adler];
        let headers = Headers::new().with("Want-Digest", digest::want(&[Algorithm::Adler32, Algorithm::Crc32c]));
        let url = self.dav.url(path, false)?;
        // A server that reports no digest has at least reported the size.
        let Ok(whole) = self.dav.0.server.ask(&Method::Head, &url, &headers) else { return Ok(facts) };
        let theirs = digest::parse(whole.response.headers.all("digest"));
        let differs = |ours: &Digest| theirs.iter().any(|t| t.algorithm() == ours.algorithm() && t != ours);
        match ours.into_iter().flatten().find(differs) {
            Some(ours) => Err(damaged(format!("{host} has other bytes than were sent: its digest is not {ours}"))),
            None => Ok(facts),
        }
    }

    fn finish(&self, state: &mut State, finish: &Finish) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("write", &self.path);
        while state.at < finish.size {
            let zeros = vec![0; (finish.size - state.at).min(ZEROS as u64) as usize];
            self.send(state, &zeros).map_err(cannot)?;
        }
        let upload = match state.upload.take() {
            Some(upload) => upload,
            None => {
                state.announcement =
                    Some(FileAnnouncement { size: Some(0), mtime: finish.mtime, replace: finish.replace });
                self.begin(state).map_err(cannot)?
            }
        };
        upload.finish().map_err(RequestError::without_retry).map_err(|failed| match failed.status {
            Some(412) if !finish.replace => Error::Exists(shown(&self.path)),
            Some(409) => Error::io("create", &self.path, std::io::Error::from(std::io::ErrorKind::NotFound)),
            _ => cannot(failed),
        })?;
        let facts = self.verify(finish.size, state.sum).map_err(|failed| {
            if failed.fault == Fault::Integrity && self.temporary.is_none() {
                // The damaged file is removed: by its modification time it would look like the newest version.
                self.remove(&self.path);
            }
            cannot(failed)
        })?;
        self.move_into_place(finish)?;
        // A rename may change the file's tag and modification time.
        let facts = if self.temporary.is_some() { Facts { etag: None, mtime: None, ..facts } } else { facts };
        self.dav.0.cache.store(&self.path, facts);
        Ok(())
    }

    /// Removes a file, if the server can be reached.
    fn remove(&self, path: &RelPath) {
        if let Ok(url) = self.dav.url(path, false) {
            let _ = self.dav.0.server.ask(&Method::Delete, &url, &Headers::new());
        }
    }

    /// Gives the file its final name.
    fn move_into_place(&self, finish: &Finish) -> Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        // MOVE would replace a directory and everything in it.
        let existing = self.dav.find(&self.path).map_err(|failed| failed.into_store_error("write", &self.path))?;
        if existing.is_some_and(|facts| facts.kind == Kind::Dir) {
            return Err(Error::Kind { path: shown(&self.path), found: "a directory", wanted: "a file" });
        }
        let moved = self.dav.copy_or_move(&Method::Move, (temporary, &self.path), false, finish.replace);
        moved.map_err(|failed| match failed.status {
            Some(412) => Error::Exists(shown(&self.path)),
            // The server reported that it can rename, and cannot. Later files are sent under their final names; this one begins again.
            Some(403 | 405 | 501) => {
                self.dav.0.rename_failed.store(true, Ordering::Relaxed);
                let why = format!("{} (files are sent under their final names from here on)", failed.why);
                RequestError::connection_error(why).into_store_error("rename", &self.path)
            }
            _ => failed.into_store_error("rename", &self.path),
        })
    }
}

impl Sink for DavSink {
    fn announce(&self, announcement: &FileAnnouncement) -> Result<()> {
        self.state().announcement = Some(*announcement);
        Ok(())
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state();
        if state.closed || state.failed || offset != state.at {
            return Err(Error::Unsupported { what: "writing out of order", store: "a WebDAV or HTTP server" });
        }
        self.send(&mut state, buffer).map_err(|failed| failed.into_store_error("write", &self.path))
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        Err(Error::Unsupported { what: "reading back what is being written", store: "a WebDAV or HTTP server" })
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        let mut state = self.state();
        if state.closed || state.failed {
            return Err(Error::Unsupported {
                what: "continuing an upload that broke off",
                store: "a WebDAV or HTTP server",
            });
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
        let mut state = self.state();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        let upload = state.upload.take();
        // A server that has the whole body stores the file even if the connection closes. The response is awaited, because
        // otherwise the server could store the file after it was removed.
        if state.announcement.is_some_and(|announcement| announcement.size == Some(state.at)) {
            let _ = upload.map(Upload::finish);
        }
        // A file under its final name is not removed: on servers that rename at the end it may still be the old one.
        if let Some(temporary) = self.temporary.as_ref().filter(|_| state.begun) {
            drop(state);
            self.remove(temporary);
        }
    }
}

impl Drop for DavSink {
    fn drop(&mut self) {
        self.discard();
    }
}

//! A server with files behind a login, as a store: FTP and SFTP, which old archives have and nothing else.
//!
//! A connection carries one request at a time. Such a server reports no checksums: of what was written its size is compared.
//!
//! Does not know: the protocol, which [`ArchiveLogin`] and [`ArchiveSession`] stand for.

mod reading;
mod session;
mod writing;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::name::RelPath;
use model::{Kind, Meta, Timestamp};
use parking_lot::Mutex;
use store::error::shown;
use store::{Capabilities, Entries, Error, Finish, PayloadProtection, Result, Sink, Source, Stat, Store, Writes};

use crate::dav::leftovers::is_temporary_name;
use crate::facts_cache::{Entry, Facts, FactsCache, Namespace};
use crate::request_error::RequestError;
use crate::retries::Retries;

pub(crate) use session::{ArchiveLogin, ArchiveSession};

/// Idle sessions that are kept.
const IDLE_MAX: usize = 8;
/// Bytes that are read at a time for a copy.
const COPY_BYTES: usize = 1 << 20;

/// The result of a request.
pub(crate) type ArchiveResult<T> = std::result::Result<T, RequestError>;

/// A server, as a store. Clones share their sessions and caches.
#[derive(Clone, Debug)]
pub struct Archive(Arc<ArchiveShared>);

struct ArchiveShared {
    login: Box<dyn ArchiveLogin>,
    idle: Mutex<Vec<Box<dyn ArchiveSession>>>,
    cache: FactsCache,
    /// The server has answered. From then on, not to reach it counts as an outage, and not as a wrong name.
    was_reached: AtomicBool,
    has_carried: AtomicBool,
}

impl std::fmt::Debug for ArchiveShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveShared").field("host", &self.login.host()).finish_non_exhaustive()
    }
}

impl Archive {
    /// A server behind a login. Makes no connection.
    pub(crate) fn new(login: Box<dyn ArchiveLogin>) -> Archive {
        Archive(Arc::new(ArchiveShared {
            login,
            idle: Mutex::default(),
            cache: FactsCache::default(),
            was_reached: AtomicBool::new(false),
            has_carried: AtomicBool::new(false),
        }))
    }

    fn unsupported<T>(&self, what: &'static str) -> Result<T> {
        Err(Error::Unsupported { what, store: self.0.login.kind() })
    }

    /// A path as the protocol writes it.
    ///
    /// # Errors
    /// The name is not text, or has a line end or another character that the protocol cannot carry.
    fn path(&self, path: &RelPath) -> ArchiveResult<String> {
        let text = std::str::from_utf8(path.as_bytes()).ok().filter(|text| !text.contains(['\r', '\n', '\0']));
        let why = || format!("{} takes no name that is not UTF-8 or has a line end", self.0.login.kind());
        text.map(|text| self.0.login.path(text)).ok_or_else(|| RequestError::config_error(why()))
    }

    /// A session, an idle one if there is one; and whether it has been used before.
    fn session(&self) -> ArchiveResult<(Box<dyn ArchiveSession>, bool)> {
        let kept = self.0.idle.lock().pop();
        if let Some(session) = kept {
            return Ok((session, true));
        }
        let session = self.0.login.connect()?;
        self.0.was_reached.store(true, Ordering::Relaxed);
        Ok((session, false))
    }

    /// Keeps a session on which no request is under way.
    fn keep(&self, session: Box<dyn ArchiveSession>) {
        let mut idle = self.0.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(session);
        }
    }

    /// Makes a request once. A session that was idle may have ended meanwhile: then another one is used.
    fn ask_once<T>(&self, ask: &mut dyn FnMut(&mut dyn ArchiveSession) -> ArchiveResult<T>) -> ArchiveResult<T> {
        loop {
            let (mut session, is_used) = self.session()?;
            match ask(&mut *session) {
                Err(failed) if failed.status.is_none() && failed.may_retry && is_used => {}
                Err(failed) if failed.status.is_none() => return Err(failed),
                answer => {
                    self.keep(session);
                    return answer;
                }
            }
        }
    }

    /// Makes a request, again while it fails for a passing reason. A server that was never reached may be a mistyped name: that fails at
    /// once.
    fn ask<T>(&self, mut ask: impl FnMut(&mut dyn ArchiveSession) -> ArchiveResult<T>) -> ArchiveResult<T> {
        self.retrying(|| self.ask_once(&mut ask))
    }

    fn retrying<T>(&self, mut work: impl FnMut() -> ArchiveResult<T>) -> ArchiveResult<T> {
        let mut retries = Retries::new(self.0.login.patience());
        loop {
            match work() {
                Ok(done) => return Ok(done),
                Err(failed) if failed.status.is_none() && !self.0.was_reached.load(Ordering::Relaxed) => {
                    return Err(failed);
                }
                Err(failed) => retries.wait(failed)?,
            }
        }
    }

    /// Notes that bytes of a file have crossed the network.
    fn note_carried(&self) {
        self.0.has_carried.store(true, Ordering::Relaxed);
    }
}

impl Namespace for Archive {
    fn cache(&self) -> &FactsCache {
        &self.0.cache
    }

    fn host(&self) -> &str {
        self.0.login.host()
    }

    fn lists(&self) -> bool {
        true
    }

    fn ask_facts(&self, path: &RelPath) -> ArchiveResult<Facts> {
        let path = self.path(path)?;
        self.ask(|session| session.facts(&path))
    }

    /// Leaves out files of uploads under way.
    fn ask_entries(&self, path: &RelPath) -> ArchiveResult<Vec<Entry>> {
        let path = self.path(path)?;
        let entries = self.ask(|session| session.entries(&path))?;
        Ok(entries.into_iter().filter(|(name, _)| !is_temporary_name(name.as_bytes())).collect())
    }
}

impl Store for Archive {
    fn payload_protection(&self) -> Option<PayloadProtection> {
        let protection = if self.0.login.is_encrypted() { PayloadProtection::Tls } else { PayloadProtection::Plain };
        self.0.has_carried.load(Ordering::Relaxed).then_some(protection)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::InOrder,
            any_name: false,
            sized: true,
            times: false,
            posix: false,
            sparse: false,
            keeps: true,
            lists: true,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.facts(path)
            .map(|facts| facts.stat(self.host(), path))
            .map_err(|failed| failed.into_store_error("examine", path))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        path.is_root() || self.facts(path).is_ok_and(|facts| facts.kind == Kind::Dir)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let entries = self.ask_entries(path).map_err(|failed| failed.into_store_error("list", path))?;
        Ok(self.to_entries(path, entries))
    }

    fn read_link(&self, _path: &RelPath) -> Result<Vec<u8>> {
        self.unsupported("a symbolic link")
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let facts = self.facts_to_read(path).map_err(|failed| failed.into_store_error("open", path))?;
        if facts.kind == Kind::Dir {
            return Err(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" });
        }
        let opened = reading::open(self, path, &facts).map_err(|failed| failed.into_store_error("open", path))?;
        Ok(Arc::new(opened))
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        if path.is_root() {
            return self.unsupported("creating the root itself");
        }
        Ok(Arc::new(writing::ArchiveSink::new(self, path, tag)))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("create", path);
        let name = self.path(path).map_err(cannot)?;
        let Err(failed) = self.ask(|session| session.make_dir(&name)) else {
            self.0.cache.store(path, Facts::dir());
            return Ok(());
        };
        match self.ask_facts(path) {
            Ok(facts) if facts.kind == Kind::Dir => {
                self.0.cache.store(path, facts);
                Ok(())
            }
            Ok(_) => Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            Err(_) => Err(cannot(failed)),
        }
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        self.unsupported("a symbolic link")
    }

    /// Such a server has no links: the file is read, and written under the other name.
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        let source = self.open(to)?;
        let meta = source.stat()?.meta;
        let sink = self.create(path, tag)?;
        let mut piece = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < meta.size {
            let got = source.read_at(&mut piece, at)?;
            if got == 0 {
                return Err(Error::io("read", to, std::io::Error::from(ErrorKind::UnexpectedEof)));
            }
            sink.write_at(&piece[..got], at)?;
            at += got as u64;
        }
        let Meta { size, mode, mtime, .. } = meta;
        sink.commit(&Finish { size, mode, mtime, durable: false, replace, attributes: None })
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("remove", path);
        let name = self.path(path).map_err(cannot)?;
        let is_dir = self.ask_facts(path).map_err(cannot)?.kind == Kind::Dir;
        self.0.cache.forget(path);
        let removed = self.ask(|session| if is_dir { session.remove_dir(&name) } else { session.remove_file(&name) });
        removed.map_err(cannot)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("rename", from);
        let existing = self.find(to).map_err(cannot)?;
        match existing.map(|facts| facts.kind) {
            Some(_) if !replace => return Err(Error::Exists(shown(to))),
            Some(Kind::Dir) => return Err(Error::io("rename", from, std::io::Error::from(ErrorKind::IsADirectory))),
            _ => {}
        }
        let (old, new) = (self.path(from).map_err(cannot)?, self.path(to).map_err(cannot)?);
        let renamed = match self.ask(|session| session.rename(&old, &new)) {
            // Many servers rename only to a name that is free.
            Err(failed) if failed.status.is_some() && replace => {
                self.ask(|session| session.remove_file(&new)).map_err(|_| cannot(failed))?;
                self.ask(|session| session.rename(&old, &new))
            }
            other => other,
        };
        self.0.cache.forget(from);
        self.0.cache.invalidate(to);
        renamed.map_err(cannot)
    }
}

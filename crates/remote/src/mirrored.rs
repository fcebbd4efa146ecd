//! A set of mirrors: several sources of the same bytes as one store for reading. Bytes are read from all of them in proportion to
//! their rates; readers do not wait for a source that is very slow or fails.
//!
//! The first source decides names, sizes and times; the others are asked for bytes alone. A source that has another size of a file,
//! or refuses it, takes no part in that file. See docs/design/mirrors.md.
//!
//! Does not know: transfers.

mod chooser;
mod file;
mod member;
mod proof;
#[cfg(test)]
mod simulated;
mod source_set;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::fault::{Blame, Fault};
use model::name::RelPath;
use model::{Kind, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use store::error::shown;
use store::{Capabilities, Entries, Error, PayloadProtection, Result, Sink, Source, Stat, Store};

use crate::dav::Dav;
use crate::range_source::{MemberFailure, RangeSource, StoreFile};
use crate::root::Root;
use crate::s3::S3;
use proof::Proof;
use source_set::SourceSet;

/// The most sources of one set.
pub const MEMBERS_MAX: usize = chooser::MEMBERS_MAX;

/// The most files whose facts and checksums are remembered; beyond that all are forgotten.
const FILES_MAX: usize = 65_536;

/// The store of a source.
#[derive(Clone, Debug)]
pub enum SourceStore {
    /// A WebDAV or HTTP server; a node is one too.
    Dav(Dav),
    /// A bucket.
    S3(S3),
    /// A server of XRootD.
    Root(Root),
    /// A local store, or a server that is read like one.
    Local(Arc<dyn Store>),
}

/// One source.
#[derive(Clone, Debug)]
pub struct Member {
    /// The locator.
    pub name: String,
    /// The store.
    pub store: SourceStore,
    /// The path of the file or directory in the store.
    pub path: RelPath,
    /// The path of the same file or directory in the set.
    root: RelPath,
}

/// The contribution of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its locator.
    pub source: String,
    /// Bytes that it was the first to bring.
    pub bytes: u64,
    /// The reason why it was left out, of one file or of all.
    pub left_out: Option<String>,
    /// Whether its bytes came by TLS or in clear.
    pub payload_protection: Option<PayloadProtection>,
    /// Files in which only samples of its bytes were compared with the first source's, since no source reports a digest.
    pub unproven_files: u64,
}

impl Member {
    /// A source of the file or directory `path`.
    pub fn new(name: String, store: SourceStore, path: RelPath) -> Member {
        Member { name, store, path, root: RelPath::root() }
    }

    fn store(&self) -> &dyn Store {
        match &self.store {
            SourceStore::Dav(dav) => dav,
            SourceStore::S3(s3) => s3,
            SourceStore::Root(root) => root,
            SourceStore::Local(store) => &**store,
        }
    }

    /// The path in this source of a path of the set.
    fn path(&self, path: &RelPath) -> RelPath {
        path.below(&self.root).map_or_else(|| path.clone(), |below| self.path.join_path(&below))
    }

    fn open_ranges(&self, path: &RelPath) -> std::result::Result<(u64, Box<dyn RangeSource>), MemberFailure> {
        let path = self.path(path);
        match &self.store {
            SourceStore::Dav(dav) => dav.open_ranges(&path),
            SourceStore::S3(s3) => s3.open_ranges(&path),
            SourceStore::Root(root) => root.open_ranges(&path),
            SourceStore::Local(store) => {
                let source = store.open(&path)?;
                let meta = source.stat()?.meta;
                Ok((meta.size, Box::new(StoreFile(source))))
            }
        }
    }
}

#[derive(Default)]
struct SetMemory {
    files: HashMap<RelPath, Stat>,
    proofs: HashMap<RelPath, (Stat, Arc<Proof>)>,
}

/// A set of mirrors. Clones share all state.
#[derive(Clone)]
pub struct Mirrored {
    sources: Arc<SourceSet>,
    memory: Arc<Mutex<SetMemory>>,
}

impl std::fmt::Debug for Mirrored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrored").field("members", &self.sources.members).finish_non_exhaustive()
    }
}

fn read_only<T>() -> Result<T> {
    Err(Error::Unsupported { what: "writing", store: "a set of mirrors" })
}

impl Mirrored {
    /// A set of these sources, at most [`MEMBERS_MAX`]; the first decides names, sizes and times. A file fails when no source brings a
    /// byte of it for the time `patience`. `report` is called once for each source that fails, with the reason.
    pub fn new(mut members: Vec<Member>, patience: Duration, report: Box<dyn Fn(&str) + Send + Sync>) -> Mirrored {
        members.truncate(MEMBERS_MAX);
        let root = members.first().map(|first| first.path.clone()).unwrap_or_default();
        members.iter_mut().for_each(|member| member.root = root.clone());
        Mirrored { sources: Arc::new(SourceSet::new(members, patience, report)), memory: Arc::default() }
    }

    /// The contribution of each source so far, in the order of [`Mirrored::new`].
    pub fn shares(&self) -> Vec<Share> {
        self.sources.shares()
    }

    /// Whether a file has failed that may succeed if it is read again, because a source with other bytes than the first has been
    /// excluded. Answers `true` once, and `false` until the next such failure.
    pub fn is_retry_useful(&self) -> bool {
        self.sources.take_retry_may_succeed()
    }

    fn remembered(&self) -> MutexGuard<'_, SetMemory> {
        self.memory.lock()
    }

    fn remember(&self, path: &RelPath, stat: Stat) {
        let mut known = self.remembered();
        if known.files.len() >= FILES_MAX {
            known.files.clear();
        }
        known.files.insert(path.clone(), stat);
    }

    /// Asks the first source, and the others only where it cannot be reached. Sources that have failed come last.
    fn ask<T>(&self, path: &RelPath, ask: impl Fn(&dyn Store, &RelPath) -> Result<T>) -> Result<(usize, T)> {
        let members = &self.sources.members;
        let (doubtful, reliable): (Vec<_>, Vec<_>) = (0..members.len()).partition(|m| self.sources.is_doubtful(*m));
        let mut failed: Option<Error> = None;
        for at in reliable.into_iter().chain(doubtful) {
            match ask(members[at].store(), &members[at].path(path)) {
                Ok(answer) => return Ok((at, answer)),
                Err(error) if error.fault() == Fault::Path || at > 0 => {
                    if error.fault() == Fault::Path {
                        self.sources.note_unreachable(at, error.fault(), &model::fault::with_causes(&error));
                    }
                    if failed.is_none() || at == 0 {
                        failed = Some(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or(Error::Unsupported { what: "reading", store: "a set of no mirrors" }))
    }
}

impl Store for Mirrored {
    fn capabilities(&self) -> Capabilities {
        let first = self.sources.members.first().map(|first| first.store().capabilities());
        let plain = Capabilities {
            writes: store::Writes::InOrder,
            any_name: true,
            sized: true,
            times: false,
            posix: false,
            sparse: false,
            keeps: true,
            lists: true,
        };
        Capabilities { sparse: false, sized: true, ..first.unwrap_or(plain) }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        let remembered = self.remembered().files.get(path).copied();
        if let Some(stat) = remembered.filter(|_| self.sources.is_doubtful(0)) {
            return Ok(stat);
        }
        match (self.ask(path, |store, path| store.stat(path)), remembered) {
            // Another source may have the same bytes with another time.
            (Ok((1.., _)), Some(stat)) => Ok(stat),
            (Ok((_, stat)), _) => {
                self.remember(path, stat);
                Ok(stat)
            }
            (Err(error), Some(stat)) if error.fault() == Fault::Path => Ok(stat),
            (Err(error), _) => Err(error),
        }
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.stat(path).is_ok_and(|stat| stat.meta.kind == Kind::Dir)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let (_, entries) = self.ask(path, |store, path| store.list(path))?;
        let (own, dir) = (self.clone(), path.clone());
        Ok(entries.inspected(move |name, stat| own.remember(&dir.join(name), *stat)))
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        self.ask(path, |store, path| store.read_link(path)).map(|(_, to)| to)
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let remembered = self.remembered().files.get(path).copied();
        let stat = match remembered {
            Some(stat) => stat,
            None => self.stat(path)?,
        };
        if stat.meta.kind != Kind::File {
            return Err(Error::Kind { path: shown(path), found: "another kind of entry", wanted: "a file" });
        }
        let proof = {
            let mut known = self.remembered();
            if known.proofs.len() >= FILES_MAX {
                known.proofs.clear();
            }
            let (of, proof) = known.proofs.entry(path.clone()).or_insert_with(|| (stat, Arc::default()));
            if of.meta != stat.meta {
                (*of, *proof) = (stat, Arc::default());
            }
            Arc::clone(proof)
        };
        Ok(Arc::new(file::file(&self.sources, path, stat, proof)))
    }

    fn create(&self, _path: &RelPath, _tag: &str) -> Result<Arc<dyn Sink>> {
        read_only()
    }

    fn make_dir(&self, _path: &RelPath) -> Result<()> {
        read_only()
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        read_only()
    }

    fn make_hard_link(&self, _: &RelPath, _: &RelPath, _: bool, _: &str) -> Result<()> {
        read_only()
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        read_only()
    }

    fn remove(&self, _path: &RelPath) -> Result<()> {
        read_only()
    }

    fn rename(&self, _: &RelPath, _: &RelPath, _: bool) -> Result<()> {
        read_only()
    }
}

//! Several sources of the same bytes as one store, to be read from: what is asked of it comes from all of them, in proportion
//! to what each gives, and one that crawls or dies is not waited for.
//!
//! The first source is the truth for names, lengths and times; the others are asked for bytes alone. Who answers for a file
//! with another length, or refuses by right, takes no part in it. See docs/design/mirrors.md.
//!
//! Does not know: jobs, and what the sources are beyond that they are stores.

mod chooser;
mod crew;
mod file;
mod member;
mod proof;
#[cfg(test)]
mod simulated;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::fault::{Blame, Fault};
use model::name::RelPath;
use model::{Kind, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use store::error::shown;
use store::{Capabilities, Carried, Entries, Error, Result, Sink, Source, Stat, Store};

use crate::dav::Dav;
use crate::pieces::{Near, Pieces, Trouble};
use crate::s3::S3;
use crew::Crew;
use proof::Proof;

/// Sources of one set at most.
pub const MEMBERS_MAX: usize = chooser::MEMBERS_MAX;

/// Files whose facts, and sums of parts, are remembered before all are forgotten.
const FILES_MAX: usize = 65_536;

/// Where a source's bytes rest.
#[derive(Clone, Debug)]
pub enum Place {
    /// On a WebDAV or HTTP server; a node is one as well.
    Dav(Dav),
    /// In a bucket.
    S3(S3),
    /// Somewhere near.
    Near(Arc<dyn Store>),
}

/// One source.
#[derive(Clone, Debug)]
pub struct Member {
    /// What people call it: the locator.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// The file or directory there.
    pub at: RelPath,
    /// The path by which the set calls this file or directory.
    root: RelPath,
}

/// What a source brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its locator.
    pub source: String,
    /// Bytes of which it was the first to bring them.
    pub bytes: u64,
    /// Why it was left out, of one file or of all.
    pub left_out: Option<String>,
    /// How its bytes came.
    pub carried: Option<Carried>,
    /// Files in which its bytes were held against the first source's by samples alone, since no source tells a digest.
    pub unproven_files: u64,
}

impl Member {
    /// A source: `at` is the file or directory of which the others have the same.
    pub fn new(name: String, place: Place, at: RelPath) -> Member {
        Member { name, place, at, root: RelPath::root() }
    }

    fn store(&self) -> &dyn Store {
        match &self.place {
            Place::Dav(dav) => dav,
            Place::S3(s3) => s3,
            Place::Near(store) => &**store,
        }
    }

    /// A path of the set, as this source calls it.
    fn path(&self, path: &RelPath) -> RelPath {
        path.below(&self.root).map_or_else(|| path.clone(), |below| self.at.join_path(&below))
    }

    fn pieces(&self, path: &RelPath) -> std::result::Result<(u64, Box<dyn Pieces>), Trouble> {
        let path = self.path(path);
        match &self.place {
            Place::Dav(dav) => dav.pieces(&path),
            Place::S3(s3) => s3.pieces(&path),
            Place::Near(store) => {
                let source = store.open(&path)?;
                let meta = source.stat()?.meta;
                Ok((meta.size, Box::new(Near(source))))
            }
        }
    }
}

#[derive(Default)]
struct Memory {
    files: HashMap<RelPath, Stat>,
    proofs: HashMap<RelPath, (Stat, Arc<Proof>)>,
}

/// The set. Clones share all that is known.
#[derive(Clone)]
pub struct Mirrored {
    crew: Arc<Crew>,
    memory: Arc<Mutex<Memory>>,
}

impl std::fmt::Debug for Mirrored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrored").field("members", &self.crew.members).finish_non_exhaustive()
    }
}

fn read_only<T>() -> Result<T> {
    Err(Error::Unsupported { what: "writing", store: "a set of mirrors" })
}

impl Mirrored {
    /// Of these sources, the first of which is the truth; at most [`MEMBERS_MAX`]. A file that nobody brings a byte of for the
    /// time of patience fails. `say` is told once of each source that fails, and why.
    pub fn new(mut members: Vec<Member>, patience: Duration, say: Box<dyn Fn(&str) + Send + Sync>) -> Mirrored {
        members.truncate(MEMBERS_MAX);
        let root = members.first().map(|first| first.at.clone()).unwrap_or_default();
        members.iter_mut().for_each(|member| member.root = root.clone());
        Mirrored { crew: Arc::new(Crew::new(members, patience, say)), memory: Arc::default() }
    }

    /// What each source brought so far, in the order in which they were given.
    pub fn shares(&self) -> Vec<Share> {
        self.crew.shares()
    }

    /// Whether a file has failed that would fare better if it were read again: who brought other bytes of it than the first
    /// source has been left out. Told once.
    pub fn fares_better(&self) -> bool {
        self.crew.fares_better()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    fn remember(&self, path: &RelPath, stat: Stat) {
        let mut memory = self.memory();
        if memory.files.len() >= FILES_MAX {
            memory.files.clear();
        }
        memory.files.insert(path.clone(), stat);
    }

    /// Asks the first source, and the others only where it cannot be reached: first those that are thought to be there.
    fn ask<T>(&self, path: &RelPath, ask: impl Fn(&dyn Store, &RelPath) -> Result<T>) -> Result<(usize, T)> {
        let members = &self.crew.members;
        let (doubtful, there): (Vec<_>, Vec<_>) = (0..members.len()).partition(|m| self.crew.is_doubtful(*m));
        let mut failed: Option<Error> = None;
        for at in there.into_iter().chain(doubtful) {
            match ask(members[at].store(), &members[at].path(path)) {
                Ok(answer) => return Ok((at, answer)),
                Err(error) if error.fault() == Fault::Path || at > 0 => {
                    if error.fault() == Fault::Path {
                        self.crew.fell(at, error.fault(), &model::fault::with_causes(&error));
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
        let first = self.crew.members.first().map(|first| first.store().capabilities());
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
        let remembered = self.memory().files.get(path).copied();
        if let Some(stat) = remembered.filter(|_| self.crew.is_doubtful(0)) {
            return Ok(stat);
        }
        match (self.ask(path, |store, path| store.stat(path)), remembered) {
            // Who has the same bytes need not have them of the same day.
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
        let remembered = self.memory().files.get(path).copied();
        let stat = match remembered {
            Some(stat) => stat,
            None => self.stat(path)?,
        };
        if stat.meta.kind != Kind::File {
            return Err(Error::Kind { path: shown(path), found: "no file", wanted: "a file" });
        }
        let proof = {
            let mut memory = self.memory();
            if memory.proofs.len() >= FILES_MAX {
                memory.proofs.clear();
            }
            let (of, proof) = memory.proofs.entry(path.clone()).or_insert_with(|| (stat, Arc::default()));
            if of.meta != stat.meta {
                (*of, *proof) = (stat, Arc::default());
            }
            Arc::clone(proof)
        };
        Ok(Arc::new(file::file(&self.crew, path, stat, proof)))
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

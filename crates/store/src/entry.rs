//! One entry of a directory as a store of its own: what a credential for a single path reaches, be it a file, a directory
//! or not there yet.
//!
//! Paths begin with the entry's name; the empty path is the directory that holds it, which says no more than that it is
//! one. The entry itself is never a link: none is followed there and none is made. Below it, where it is a directory,
//! everything is as in any other confined store.

use std::sync::{Arc, OnceLock};

use model::checksum::Digest;
use model::entry::Attributes;
use model::name::{Name, RelPath};
use model::{Algorithm, Kind, Timestamp};

use crate::error::{in_words, shown};
use crate::{
    Asked, Capabilities, Carried, Entries, Error, Facts, Lineage, Reached, Result, Sink, Source, Space, Stat, Store,
    below_of,
};

/// The entry at `path` of a store as a store of its own, and its path in there. `strictly`: the way to it is one that a
/// credential names ([`Reached::Strictly`]); `make`: missing directories on that way are made.
///
/// # Errors
/// The directory that holds it is not there or leads out of the store; the path is the store's root.
pub fn granted_entry(
    store: &Arc<dyn Store>,
    path: &RelPath,
    strictly: bool,
    make: bool,
) -> Result<(Arc<dyn Store>, RelPath)> {
    let Some(name) = path.name() else {
        return Err(Error::Unsupported { what: "taking the root for one entry", store: "a store" });
    };
    let reached = if strictly { Reached::StrictlyThenNoLink { make } } else { Reached::FreelyThenNoLink };
    let parent = below_of(store, &path.parent(), reached)?;
    let entry = Entry { parent, name, inside: OnceLock::new() };
    let at = entry.itself();
    Ok((Arc::new(entry), at))
}

#[derive(Debug)]
struct Entry {
    /// The directory that holds it; no link is followed there.
    parent: Arc<dyn Store>,
    name: Name,
    /// What is below it, once it was seen to be a directory.
    inside: OnceLock<Arc<dyn Store>>,
}

/// Where a path leads.
enum Place<'a> {
    /// To the directory that holds the entry.
    Above,
    /// To the entry.
    Itself,
    /// Below the entry.
    Inside(&'a dyn Store, RelPath),
}

impl Entry {
    fn itself(&self) -> RelPath {
        RelPath::root().join(&self.name)
    }

    fn place(&self, path: &RelPath) -> Result<Place<'_>> {
        if path.is_root() {
            return Ok(Place::Above);
        }
        match path.below(&self.itself()) {
            None => Err(Error::Outside { path: shown(path), entry: self.name.to_string() }),
            Some(below) if below.is_root() => Ok(Place::Itself),
            Some(below) => Ok(Place::Inside(self.inside()?, below)),
        }
    }

    fn inside(&self) -> Result<&dyn Store> {
        if let Some(inside) = self.inside.get() {
            return Ok(&**inside);
        }
        let opened = below_of(&self.parent, &self.itself(), Reached::Strictly { make: false })?;
        Ok(&**self.inside.get_or_init(|| opened))
    }

    /// The store and the path for something that is done to the entry or to what is below it.
    fn at(&self, path: &RelPath) -> Result<(&dyn Store, RelPath)> {
        match self.place(path)? {
            Place::Above => Err(Error::Outside { path: shown(path), entry: self.name.to_string() }),
            Place::Itself => Ok((&*self.parent, self.itself())),
            Place::Inside(inside, below) => Ok((inside, below)),
        }
    }

    /// The same for what is not done to the entry itself, in words: "made a link", "renamed".
    fn below(&self, path: &RelPath, refused: &'static str) -> Result<(&dyn Store, RelPath)> {
        match self.place(path)? {
            Place::Inside(inside, below) => Ok((inside, below)),
            Place::Above | Place::Itself => Err(Error::Granted { path: shown(path), refused }),
        }
    }
}

impl Store for Entry {
    fn capabilities(&self) -> Capabilities {
        self.parent.capabilities()
    }

    fn carried(&self) -> Option<Carried> {
        self.parent.carried()
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        match self.place(path)? {
            Place::Above => self.parent.stat(path),
            Place::Itself => self.parent.stat(&self.itself()),
            Place::Inside(inside, below) => inside.stat(&below),
        }
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        match self.place(path) {
            Ok(Place::Above) => true,
            Ok(Place::Itself) => self.parent.is_dir(&self.itself()),
            Ok(Place::Inside(inside, below)) => inside.is_dir(&below),
            Err(_) => false,
        }
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let (store, path) = self.at(path)?;
        store.list(&path)
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        let (store, path) = self.at(path)?;
        store.read_link(&path)
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let (store, at) = self.at(path)?;
        store.open(&at).map_err(|error| match store.stat(&at) {
            // That a link leads out says little where it would not be followed anyway.
            Ok(there) if there.meta.kind == Kind::Symlink => {
                Error::Kind { path: shown(path), found: in_words(Kind::Symlink), wanted: "a file" }
            }
            _ => error,
        })
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        let (store, path) = self.at(path)?;
        store.create(&path, tag)
    }

    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        let (store, path) = self.at(path)?;
        store.resume(&path, tag)
    }

    fn join(&self, path: &RelPath, tag: &str, size: u64) -> Result<Option<Arc<dyn Sink>>> {
        let (store, path) = self.at(path)?;
        store.join(&path, tag, size)
    }

    fn forget(&self, path: &RelPath, tag: &str) -> Result<()> {
        let (store, path) = self.at(path)?;
        store.forget(&path, tag)
    }

    fn attributes(&self, path: &RelPath, asked: Asked) -> Result<Attributes> {
        let (store, path) = self.at(path)?;
        store.attributes(&path, asked)
    }

    fn differs(&self, path: &RelPath, from: &Facts<'_>) -> Result<bool> {
        let (store, path) = self.at(path)?;
        store.differs(&path, from)
    }

    fn refresh(&self, path: &RelPath, to: &Facts<'_>) -> Result<bool> {
        let (store, path) = self.at(path)?;
        store.refresh(&path, to)
    }

    fn lineage(&self, path: &RelPath) -> Lineage {
        match self.at(path) {
            Ok((store, path)) => store.lineage(&path),
            Err(_) => Lineage::default(),
        }
    }

    fn space(&self, path: &RelPath) -> Result<Option<Space>> {
        match self.place(path)? {
            Place::Above => self.parent.space(path),
            Place::Itself if self.parent.is_dir(&self.itself()) => self.parent.space(&self.itself()),
            Place::Itself => self.parent.space(&RelPath::root()),
            Place::Inside(inside, below) => inside.space(&below),
        }
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        let (store, path) = self.at(path)?;
        store.make_dir(&path)
    }

    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        let (store, path) = self.below(path, "made a link")?;
        store.make_symlink(&path, target, mtime, replace, tag)
    }

    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        let (store, path) = self.below(path, "made a link")?;
        store.make_hard_link(&path, &self.below(to, "given a second name")?.1, replace, tag)
    }

    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        let (store, path) = self.at(path)?;
        store.finish_dir(&path, mode, mtime)
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        let (store, path) = self.at(path)?;
        store.remove(&path)
    }

    fn remove_unfinished(&self, dir: &RelPath) -> Result<()> {
        let (store, dir) = self.at(dir)?;
        store.remove_unfinished(&dir)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let (store, from) = self.below(from, "renamed")?;
        store.rename(&from, &self.below(to, "replaced by renaming")?.1, replace)
    }

    fn digests(&self, path: &RelPath, wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        let (store, path) = self.at(path)?;
        store.digests(&path, wanted)
    }

    fn note(&self, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
        let (store, path) = self.at(path)?;
        store.note(&path, name)
    }

    fn set_note(&self, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
        let (store, path) = self.at(path)?;
        store.set_note(&path, name, note)
    }
}

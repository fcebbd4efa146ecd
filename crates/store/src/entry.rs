//! One entry of a directory as a store of its own, for a credential for a single path. The entry is a file, a directory, or does
//! not exist yet.
//!
//! Paths begin with the entry's name. The empty path is the directory that holds it, of which only its kind is shown. The entry itself
//! is never a link: none is followed and none is made there. Below it, where it is a directory, the store is like any other confined
//! store.

use std::sync::{Arc, OnceLock};

use model::checksum::Digest;
use model::entry::Attributes;
use model::name::{Name, RelPath};
use model::{Algorithm, Kind, Timestamp};

use crate::error::{kind_phrase, shown};
use crate::{
    AttributeSelection, Capabilities, Entries, Error, Lineage, PathRules, PayloadProtection, Result, Sink, Source,
    Space, Stat, Store, WantedMetadata, below_of,
};

/// The entry at `path` of a store as a store of its own, and its path in that store. `strictly`: the path is one that a
/// credential names ([`PathRules::Strictly`]); `make`: missing directories of the path are made.
///
/// # Errors
/// The directory that holds it does not exist or leads out of the store, or the path is the store's root.
pub fn granted_entry(
    store: &Arc<dyn Store>,
    path: &RelPath,
    strictly: bool,
    make: bool,
) -> Result<(Arc<dyn Store>, RelPath)> {
    let Some(name) = path.name() else {
        return Err(Error::Unsupported { what: "taking the root for one entry", store: "a store" });
    };
    let rules = if strictly { PathRules::StrictlyThenNoLink { make } } else { PathRules::FreelyThenNoLink };
    let parent = below_of(store, &path.parent(), rules)?;
    let entry = GrantedEntry { parent, name, inside: OnceLock::new() };
    let at = entry.itself();
    Ok((Arc::new(entry), at))
}

#[derive(Debug)]
struct GrantedEntry {
    /// The directory that holds it; no link is followed there.
    parent: Arc<dyn Store>,
    name: Name,
    /// The store below it, once it is known to be a directory.
    inside: OnceLock<Arc<dyn Store>>,
}

/// A path, by its relation to the entry.
enum EntryPath<'a> {
    /// The directory that holds the entry.
    Above,
    /// The entry.
    Itself,
    /// Below the entry.
    Inside(&'a dyn Store, RelPath),
}

impl GrantedEntry {
    fn itself(&self) -> RelPath {
        RelPath::root().join(&self.name)
    }

    fn place(&self, path: &RelPath) -> Result<EntryPath<'_>> {
        if path.is_root() {
            return Ok(EntryPath::Above);
        }
        match path.below(&self.itself()) {
            None => Err(Error::Outside { path: shown(path), entry: self.name.to_string() }),
            Some(below) if below.is_root() => Ok(EntryPath::Itself),
            Some(below) => Ok(EntryPath::Inside(self.inside()?, below)),
        }
    }

    fn inside(&self) -> Result<&dyn Store> {
        if let Some(inside) = self.inside.get() {
            return Ok(&**inside);
        }
        let opened = below_of(&self.parent, &self.itself(), PathRules::Strictly { make: false })?;
        Ok(&**self.inside.get_or_init(|| opened))
    }

    /// The store and the path for an operation on the entry or below it.
    fn at(&self, path: &RelPath) -> Result<(&dyn Store, RelPath)> {
        match self.place(path)? {
            EntryPath::Above => Err(Error::Outside { path: shown(path), entry: self.name.to_string() }),
            EntryPath::Itself => Ok((&*self.parent, self.itself())),
            EntryPath::Inside(inside, below) => Ok((inside, below)),
        }
    }

    /// As [`GrantedEntry::at`], for an operation that is refused for the entry itself. `refused` is its participle: "made a link",
    /// "renamed".
    fn below(&self, path: &RelPath, refused: &'static str) -> Result<(&dyn Store, RelPath)> {
        match self.place(path)? {
            EntryPath::Inside(inside, below) => Ok((inside, below)),
            EntryPath::Above | EntryPath::Itself => Err(Error::Granted { path: shown(path), refused }),
        }
    }
}

impl Store for GrantedEntry {
    fn capabilities(&self) -> Capabilities {
        self.parent.capabilities()
    }

    fn payload_protection(&self) -> Option<PayloadProtection> {
        self.parent.payload_protection()
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        match self.place(path)? {
            EntryPath::Above => self.parent.stat(path),
            EntryPath::Itself => self.parent.stat(&self.itself()),
            EntryPath::Inside(inside, below) => inside.stat(&below),
        }
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        match self.place(path) {
            Ok(EntryPath::Above) => true,
            Ok(EntryPath::Itself) => self.parent.is_dir(&self.itself()),
            Ok(EntryPath::Inside(inside, below)) => inside.is_dir(&below),
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
            // A link here is never followed, so the error says that it is a link, not that it leads out of the store.
            Ok(there) if there.meta.kind == Kind::Symlink => {
                Error::Kind { path: shown(path), found: kind_phrase(Kind::Symlink), wanted: "a file" }
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

    fn attributes(&self, path: &RelPath, asked: AttributeSelection) -> Result<Attributes> {
        let (store, path) = self.at(path)?;
        store.attributes(&path, asked)
    }

    fn differs(&self, path: &RelPath, from: &WantedMetadata<'_>) -> Result<bool> {
        let (store, path) = self.at(path)?;
        store.differs(&path, from)
    }

    fn refresh(&self, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
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
            EntryPath::Above => self.parent.space(path),
            EntryPath::Itself if self.parent.is_dir(&self.itself()) => self.parent.space(&self.itself()),
            EntryPath::Itself => self.parent.space(&RelPath::root()),
            EntryPath::Inside(inside, below) => inside.space(&below),
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

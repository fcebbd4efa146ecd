//! A directory of a store as a store of its own, for a credential for a part of an export.
//!
//! What it does not know: links. A store that follows links makes its own confined store ([`Store::confined`]); for other stores it
//! is enough that every path begins with the directory.

use std::sync::Arc;

use model::checksum::Digest;
use model::entry::Attributes;
use model::name::RelPath;
use model::{Algorithm, Timestamp};

use crate::{
    AttributeSelection, Capabilities, Entries, Error, Lineage, PathRules, PayloadProtection, Result, Sink, Source,
    Space, Stat, Store, WantedMetadata, make_dirs,
};

/// The store below a directory; none of its paths leads out of it. Links on the path to the directory are followed as everywhere in
/// the store.
///
/// # Errors
/// The directory does not exist, or leads out of the store.
pub fn below(store: &Arc<dyn Store>, dir: &RelPath) -> Result<Arc<dyn Store>> {
    below_of(store, dir, PathRules::Freely)
}

/// The store below the directory that a credential is for. The directory itself must not be a link; with `make`, missing directories
/// are made.
///
/// # Errors
/// The directory does not exist, is another kind of entry (for example a link), or leads out of the store.
pub fn granted_dir(store: &Arc<dyn Store>, dir: &RelPath, make: bool) -> Result<Arc<dyn Store>> {
    below_of(store, dir, PathRules::Strictly { make })
}

/// The store below a directory, with these rules on links.
///
/// # Errors
/// The directory does not exist, is another kind of entry, or leads out of the store.
pub fn below_of(store: &Arc<dyn Store>, dir: &RelPath, rules: PathRules) -> Result<Arc<dyn Store>> {
    if let Some(confined) = store.confined(dir, rules)? {
        return Ok(confined);
    }
    if dir.is_root() {
        return Ok(Arc::clone(store));
    }
    if let PathRules::Strictly { make: true } | PathRules::StrictlyThenNoLink { make: true } = rules {
        make_dirs(&**store, dir)?;
    }
    if !store.is_dir(dir) {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Error::io("open the directory", dir, missing));
    }
    Ok(Arc::new(Below { store: Arc::clone(store), dir: dir.clone() }))
}

#[derive(Debug)]
struct Below {
    store: Arc<dyn Store>,
    dir: RelPath,
}

impl Below {
    fn at(&self, path: &RelPath) -> RelPath {
        self.dir.join_path(path)
    }
}

impl Store for Below {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn payload_protection(&self) -> Option<PayloadProtection> {
        self.store.payload_protection()
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.store.stat(&self.at(path))
    }

    fn following_links(&self) -> Result<Option<Arc<dyn Store>>> {
        let following = self.store.following_links()?;
        Ok(following.map(|store| Arc::new(Below { store, dir: self.dir.clone() }) as Arc<dyn Store>))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.store.is_dir(&self.at(path))
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        self.store.list(&self.at(path))
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        self.store.read_link(&self.at(path))
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        self.store.open(&self.at(path))
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        self.store.create(&self.at(path), tag)
    }

    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        self.store.resume(&self.at(path), tag)
    }

    fn join(&self, path: &RelPath, tag: &str, size: u64) -> Result<Option<Arc<dyn Sink>>> {
        self.store.join(&self.at(path), tag, size)
    }

    fn forget(&self, path: &RelPath, tag: &str) -> Result<()> {
        self.store.forget(&self.at(path), tag)
    }

    fn attributes(&self, path: &RelPath, asked: AttributeSelection) -> Result<Attributes> {
        self.store.attributes(&self.at(path), asked)
    }

    fn differs(&self, path: &RelPath, from: &WantedMetadata<'_>) -> Result<bool> {
        self.store.differs(&self.at(path), from)
    }

    fn refresh(&self, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
        self.store.refresh(&self.at(path), to)
    }

    fn lineage(&self, path: &RelPath) -> Lineage {
        self.store.lineage(&self.at(path))
    }

    fn space(&self, path: &RelPath) -> Result<Option<Space>> {
        self.store.space(&self.at(path))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.store.make_dir(&self.at(path))
    }

    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        self.store.make_symlink(&self.at(path), target, mtime, replace, tag)
    }

    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        self.store.make_hard_link(&self.at(path), &self.at(to), replace, tag)
    }

    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        self.store.finish_dir(&self.at(path), mode, mtime)
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        if path.is_root() {
            return Err(Error::Unsupported { what: "removing", store: "the root itself" });
        }
        self.store.remove(&self.at(path))
    }

    fn remove_unfinished(&self, dir: &RelPath) -> Result<()> {
        self.store.remove_unfinished(&self.at(dir))
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        if from.is_root() || to.is_root() {
            return Err(Error::Unsupported { what: "renaming", store: "the root itself" });
        }
        self.store.rename(&self.at(from), &self.at(to), replace)
    }

    fn digests(&self, path: &RelPath, wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        self.store.digests(&self.at(path), wanted)
    }

    fn note(&self, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
        self.store.note(&self.at(path), name)
    }

    fn set_note(&self, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
        self.store.set_note(&self.at(path), name, note)
    }
}

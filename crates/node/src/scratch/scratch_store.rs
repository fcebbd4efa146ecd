//! The store of the export that holds the scratch places. Every path of it belongs to a place that has not ended, and every byte that is
//! written counts towards the quota of its place before it is written.
//!
//! It is not a guard of a store (`store::Guard`), because a guard sees a file when it begins and when it gets its name, and not how it
//! grows: one long file could take the whole disk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use model::checksum::Digest;
use model::entry::Attributes;
use model::id::Uuid;
use model::name::RelPath;
use model::{Algorithm, Name, Timestamp};
use store::{
    AttributeSelection, Capabilities, Entries, Error, Lineage, PathRules, PayloadProtection, Result, Sink, Source,
    Space, Stat, Store, WantedMetadata,
};

use super::no_room::NoRoom;
use super::scratch_sink::{FileInPlace, ScratchSink};
use super::{EXPORT, ScratchState, id_of};

/// The store of the export, or of a directory of it.
#[derive(Clone)]
pub(super) struct ScratchStore {
    store: Arc<dyn Store>,
    /// The directory of the export that the store is rooted in.
    dir: RelPath,
    state: Arc<ScratchState>,
}

impl fmt::Debug for ScratchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// A path of a place that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathInPlace {
    id: Uuid,
    /// The path below the place.
    path: RelPath,
}

/// The place that a path below the export leads to, and the rest of the path.
fn split(path: &RelPath) -> Option<PathInPlace> {
    let first = path.as_bytes().split(|b| *b == b'/').next()?;
    let id = id_of(first)?;
    let root = RelPath::parse(first).ok()?;
    Some(PathInPlace { id, path: path.below(&root)? })
}

impl ScratchStore {
    /// The store of the export.
    pub fn new(store: Arc<dyn Store>, state: Arc<ScratchState>) -> ScratchStore {
        ScratchStore { store, dir: RelPath::root(), state }
    }

    /// A store of the same export, rooted in `dir` of this one.
    fn rooted(&self, store: Arc<dyn Store>, dir: &RelPath) -> Arc<dyn Store> {
        Arc::new(ScratchStore { store, dir: self.dir.join_path(dir), state: Arc::clone(&self.state) })
    }

    /// The place of a path, if it has not ended, and the flag that tells its end.
    fn find(&self, doing: &'static str, path: &RelPath) -> Result<(PathInPlace, Arc<AtomicBool>)> {
        let none = || NoRoom::NoPlace.as_error(doing, path);
        let found = split(&self.dir.join_path(path)).ok_or_else(none)?;
        let table = self.state.table.lock();
        let place = table.living(&found.id, Instant::now()).ok_or_else(none)?;
        Ok((found, Arc::clone(&place.has_ended)))
    }

    /// Checks that a path belongs to a place that has not ended.
    fn check(&self, doing: &'static str, path: &RelPath) -> Result<PathInPlace> {
        self.find(doing, path).map(|(found, _)| found)
    }

    /// Checks that a path may be read: that of a place, or the root of the export.
    fn check_reading(&self, doing: &'static str, path: &RelPath) -> Result<()> {
        if self.dir.is_root() && path.is_root() { Ok(()) } else { self.check(doing, path).map(drop) }
    }

    /// Checks a path below a place, for a change that the directory of a place itself does not take.
    fn check_below(&self, doing: &'static str, path: &RelPath) -> Result<PathInPlace> {
        let found = self.check(doing, path)?;
        if found.path.is_root() {
            let refused = "replaced, renamed or removed (DELETE /api/v1/scratches/ID removes a scratch place)";
            return Err(Error::Granted { path: path.to_string(), refused });
        }
        Ok(found)
    }

    /// Checks that a file may be added at a path.
    fn check_new(&self, doing: &'static str, path: &RelPath) -> Result<PathInPlace> {
        let found = self.check_below(doing, path)?;
        let checked = self.state.table.lock().check_path(&found.id, &found.path, Instant::now());
        checked.map_err(|why| why.as_error(doing, path))?;
        Ok(found)
    }

    /// A file of a place, for its sink.
    fn file(&self, path: &RelPath, tag: &str) -> Result<FileInPlace> {
        let (PathInPlace { id, path: below }, has_ended) = self.find("write", path)?;
        let state = Arc::clone(&self.state);
        Ok(FileInPlace { state, id, path: below, shown: path.clone(), tag: tag.to_owned(), has_ended })
    }
}

impl Store for ScratchStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn payload_protection(&self) -> Option<PayloadProtection> {
        self.store.payload_protection()
    }

    fn confined(&self, dir: &RelPath, rules: PathRules) -> Result<Option<Arc<dyn Store>>> {
        // With these rules the directory may be made.
        self.check_reading("open the directory", dir)?;
        let confined = self.store.confined(dir, rules)?;
        Ok(confined.map(|store| self.rooted(store, dir)))
    }

    fn following_links(&self) -> Result<Option<Arc<dyn Store>>> {
        let following = self.store.following_links()?;
        Ok(following.map(|store| self.rooted(store, &RelPath::root())))
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.check_reading("examine", path)?;
        self.store.stat(path)
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.check_reading("examine", path).is_ok() && self.store.is_dir(path)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        self.check_reading("list", path)?;
        let entries = self.store.list(path)?;
        if !(self.dir.is_root() && path.is_root()) {
            return Ok(entries);
        }
        let state = Arc::clone(&self.state);
        let is_living =
            move |name: &[u8]| id_of(name).is_some_and(|id| state.table.lock().living(&id, Instant::now()).is_some());
        let is_shown = move |entry: &Result<(Name, Result<Stat>)>| {
            entry.as_ref().map_or(true, |(name, _)| is_living(name.as_bytes()))
        };
        Ok(Entries::new(entries.filter(is_shown)))
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        self.check_reading("read the link", path)?;
        self.store.read_link(path)
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        self.check_reading("open", path)?;
        self.store.open(path)
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        self.check_new("create", path)?;
        let sink = self.store.create(path, tag)?;
        Ok(Arc::new(ScratchSink::new(sink, self.file(path, tag)?)))
    }

    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        self.check_below("resume", path)?;
        let Some(sink) = self.store.resume(path, tag)? else { return Ok(None) };
        let resumed = ScratchSink::resumed(sink, self.file(path, tag)?)?;
        Ok(Some(Arc::new(resumed)))
    }

    fn join(&self, path: &RelPath, tag: &str, size: u64) -> Result<Option<Arc<dyn Sink>>> {
        // The process that created the file has reserved its bytes.
        self.check_below("join", path)?;
        self.store.join(path, tag, size)
    }

    fn forget(&self, path: &RelPath, tag: &str) -> Result<()> {
        let found = self.check_below("remove", path)?;
        self.store.forget(path, tag)?;
        self.state.note_change(&found.id, |usage| {
            usage.forget(&found.path, tag);
        });
        Ok(())
    }

    fn attributes(&self, path: &RelPath, asked: AttributeSelection) -> Result<Attributes> {
        self.check_reading("examine", path)?;
        self.store.attributes(path, asked)
    }

    fn differs(&self, path: &RelPath, from: &WantedMetadata<'_>) -> Result<bool> {
        self.check_reading("examine", path)?;
        self.store.differs(path, from)
    }

    fn refresh(&self, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
        self.check("change", path)?;
        self.store.refresh(path, to)
    }

    fn lineage(&self, path: &RelPath) -> Lineage {
        self.store.lineage(path)
    }

    fn space(&self, path: &RelPath) -> Result<Option<Space>> {
        self.check_reading("examine the space of", path)?;
        self.store.space(path)
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.check("create the directory", path)?;
        self.store.make_dir(path)
    }

    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        let found = self.check_new("create the link", path)?;
        self.store.make_symlink(path, target, mtime, replace, tag)?;
        self.state.note_change(&found.id, |usage| usage.finish(&found.path, 0, 0));
        Ok(())
    }

    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        let doing = "create the hard link";
        let found = self.check_new(doing, path)?;
        let of = self.check_below(doing, to)?;
        // It counts like a file of its own, because the bytes stay when the first name is removed.
        let size = {
            let mut table = self.state.table.lock();
            let size = table.living(&of.id, Instant::now()).and_then(|place| place.usage.size_of(&of.path));
            let size = size.unwrap_or(0);
            table.grow(&found.id, size, Instant::now()).map_err(|why| why.as_error(doing, path))?;
            size
        };
        let made = self.store.make_hard_link(path, to, replace, tag);
        self.state.note_change(&found.id, |usage| match &made {
            Ok(()) => usage.finish(&found.path, size, size),
            Err(_) => usage.shrink(size),
        });
        made
    }

    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        self.check("change", path)?;
        self.store.finish_dir(path, mode, mtime)
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        let found = self.check_below("remove", path)?;
        self.store.remove(path)?;
        self.state.note_change(&found.id, |usage| usage.remove(&found.path));
        Ok(())
    }

    fn remove_unfinished(&self, dir: &RelPath) -> Result<()> {
        let found = self.check("remove the unfinished files of", dir)?;
        self.store.remove_unfinished(dir)?;
        self.state.note_change(&found.id, |usage| usage.forget_in(&found.path));
        Ok(())
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let source = self.check_below("rename", from)?;
        let target = self.check_below("rename", to)?;
        if source.id != target.id {
            // The bytes would change from one quota to another.
            return Err(Error::Unsupported { what: "a rename from one scratch place to another", store: EXPORT });
        }
        self.store.rename(from, to, replace)?;
        self.state.note_change(&source.id, |usage| usage.rename(&source.path, &target.path));
        Ok(())
    }

    fn digests(&self, path: &RelPath, wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        self.check_reading("read", path)?;
        self.store.digests(path, wanted)
    }

    fn note(&self, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
        self.check_reading("examine", path)?;
        self.store.note(path, name)
    }

    fn set_note(&self, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
        self.check("change", path)?;
        self.store.set_note(path, name, note)
    }
}

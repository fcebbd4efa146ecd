//! A store with a guard that must agree to each change at the moment when it is made: for a new file, when it is begun and again when
//! it gets its name.

use std::fmt::Debug;
use std::sync::Arc;

use model::checksum::Digest;
use model::entry::Attributes;
use model::name::RelPath;
use model::{Algorithm, Timestamp};

use crate::{
    AttributeSelection, Capabilities, Entries, FileAnnouncement, Finish, Lineage, PathRules, PayloadProtection, Result,
    Sink, Source, Space, Stat, Store, WantedMetadata,
};

/// A change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is created, or gets other bytes or facts.
    Put,
    /// It is removed from its directory, with everything below it.
    Gone,
}

/// Decides about the changes of a store.
pub trait Guard: Send + Sync + Debug {
    /// Checks that a change may be made. `exists` looks whether the entry exists.
    ///
    /// # Errors
    /// The reason why the change is refused.
    fn agree(&self, path: &RelPath, change: Change, exists: &dyn Fn() -> bool) -> Result<()>;
    /// Called after an entry was removed.
    fn removed(&self, path: &RelPath);
    /// Called after a file got its name.
    fn added(&self, _path: &RelPath) {}
}

/// A store with a guard. The guard gets the paths of the store with `dir` before them.
pub fn guarded(store: Arc<dyn Store>, dir: RelPath, guard: Arc<dyn Guard>) -> Arc<dyn Store> {
    Arc::new(Guarded { store, dir, guard })
}

#[derive(Clone, Debug)]
struct Guarded {
    store: Arc<dyn Store>,
    dir: RelPath,
    guard: Arc<dyn Guard>,
}

impl Guarded {
    fn agree(&self, path: &RelPath, change: Change) -> Result<()> {
        self.guard.agree(&self.dir.join_path(path), change, &|| self.store.stat(path).is_ok())
    }

    fn sink(&self, path: &RelPath, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(GuardedSink { sink, path: path.clone(), store: self.clone() })
    }
}

impl Store for Guarded {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn payload_protection(&self) -> Option<PayloadProtection> {
        self.store.payload_protection()
    }

    fn confined(&self, dir: &RelPath, rules: PathRules) -> Result<Option<Arc<dyn Store>>> {
        let confined = self.store.confined(dir, rules)?;
        Ok(confined.map(|store| guarded(store, self.dir.join_path(dir), Arc::clone(&self.guard))))
    }

    fn following_links(&self) -> Result<Option<Arc<dyn Store>>> {
        let following = self.store.following_links()?;
        Ok(following.map(|store| guarded(store, self.dir.clone(), Arc::clone(&self.guard))))
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.store.stat(path)
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.store.is_dir(path)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        self.store.list(path)
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        self.store.read_link(path)
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        self.store.open(path)
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        self.agree(path, Change::Put)?;
        Ok(self.sink(path, self.store.create(path, tag)?))
    }

    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        Ok(self.store.resume(path, tag)?.map(|sink| self.sink(path, sink)))
    }

    fn join(&self, path: &RelPath, tag: &str, size: u64) -> Result<Option<Arc<dyn Sink>>> {
        // The process that created the file gives it its name.
        self.store.join(path, tag, size)
    }

    fn forget(&self, path: &RelPath, tag: &str) -> Result<()> {
        self.store.forget(path, tag)
    }

    fn attributes(&self, path: &RelPath, asked: AttributeSelection) -> Result<Attributes> {
        self.store.attributes(path, asked)
    }

    fn differs(&self, path: &RelPath, from: &WantedMetadata<'_>) -> Result<bool> {
        self.store.differs(path, from)
    }

    fn refresh(&self, path: &RelPath, to: &WantedMetadata<'_>) -> Result<bool> {
        if !self.store.differs(path, to)? {
            return Ok(false);
        }
        self.agree(path, Change::Put)?;
        self.store.refresh(path, to)
    }

    fn lineage(&self, path: &RelPath) -> Lineage {
        self.store.lineage(path)
    }

    fn space(&self, path: &RelPath) -> Result<Option<Space>> {
        self.store.space(path)
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        if !self.store.is_dir(path) {
            self.agree(path, Change::Put)?;
        }
        self.store.make_dir(path)
    }

    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        self.agree(path, Change::Put)?;
        self.store.make_symlink(path, target, mtime, replace, tag)
    }

    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        self.agree(path, Change::Put)?;
        self.store.make_hard_link(path, to, replace, tag)
    }

    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        self.agree(path, Change::Put)?;
        self.store.finish_dir(path, mode, mtime)
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        self.agree(path, Change::Gone)?;
        self.store.remove(path)?;
        self.guard.removed(&self.dir.join_path(path));
        Ok(())
    }

    fn remove_unfinished(&self, dir: &RelPath) -> Result<()> {
        self.store.remove_unfinished(dir)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        self.agree(from, Change::Gone)?;
        self.agree(to, Change::Put)?;
        self.store.rename(from, to, replace)?;
        self.guard.removed(&self.dir.join_path(from));
        self.guard.added(&self.dir.join_path(to));
        Ok(())
    }

    fn digests(&self, path: &RelPath, wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        self.store.digests(path, wanted)
    }

    fn note(&self, path: &RelPath, name: &str) -> Result<Option<Vec<u8>>> {
        self.store.note(path, name)
    }

    fn set_note(&self, path: &RelPath, name: &str, note: &[u8]) -> Result<()> {
        self.agree(path, Change::Put)?;
        self.store.set_note(path, name, note)
    }
}

/// A file that is being written to a guarded store.
#[derive(Debug)]
struct GuardedSink {
    sink: Arc<dyn Sink>,
    path: RelPath,
    store: Guarded,
}

impl Sink for GuardedSink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.sink.write_at(buffer, offset)
    }

    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        self.sink.clear(offset, len)
    }

    fn announce(&self, coming: &FileAnnouncement) -> Result<()> {
        self.sink.announce(coming)
    }

    fn guard(&self) {
        self.sink.guard();
    }

    fn reserve(&self, size: u64) -> Result<bool> {
        self.sink.reserve(size)
    }

    fn note_written_to(&self, end: u64) {
        self.sink.note_written_to(end);
    }

    fn publish(&self) -> Result<()> {
        self.sink.publish()
    }

    fn flush(&self) -> Result<()> {
        self.sink.flush()
    }

    fn drop_cache(&self) {
        self.sink.drop_cache();
    }

    fn keep(&self) {
        self.sink.keep();
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        self.sink.as_source()
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        if let Err(refused) = self.store.agree(&self.path, Change::Put) {
            self.sink.discard();
            return Err(refused);
        }
        self.sink.commit(finish)?;
        self.store.guard.added(&self.store.dir.join_path(&self.path));
        Ok(())
    }

    fn discard(&self) {
        self.sink.discard();
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::Error;
    use crate::memory::Memory;

    /// Refuses every change below `shut`, and records removed entries.
    #[derive(Debug, Default)]
    struct Shut(Mutex<Vec<String>>);

    impl Guard for Shut {
        fn agree(&self, path: &RelPath, _change: Change, _exists: &dyn Fn() -> bool) -> Result<()> {
            if path.to_string().contains("shut") { Err(Error::Escapes(path.to_string())) } else { Ok(()) }
        }

        fn removed(&self, path: &RelPath) {
            self.0.lock().push(path.to_string());
        }
    }

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_guard_decides_about_every_change() {
        let (plain, guard) = (Arc::new(Memory::default()), Arc::new(Shut::default()));
        plain.make_dir(&path("shut")).unwrap();
        plain.make_dir(&path("open")).unwrap();
        let store = guarded(plain, path("top"), Arc::clone(&guard) as Arc<dyn Guard>);
        let (mtime, none) = (Timestamp::default(), path("none"));
        assert!(store.create(&path("shut/f"), "t").is_err());
        assert!(store.make_dir(&path("shut/d")).is_err());
        assert!(store.make_dir(&path("shut")).is_ok(), "it is there already");
        assert!(store.make_symlink(&path("shut/l"), b"x", mtime, true, "t").is_err());
        assert!(store.make_hard_link(&path("shut/h"), &none, true, "t").is_err());
        assert!(store.finish_dir(&path("shut"), 0o755, mtime).is_err());
        assert!(store.remove(&path("shut")).is_err());
        assert!(store.rename(&path("open"), &path("shut/o"), false).is_err());
        assert!(store.rename(&path("shut"), &none, false).is_err());
        assert!(store.set_note(&path("shut"), "n", b"x").is_err());
        store.remove(&path("open")).unwrap();
        assert_eq!(*guard.0.lock(), ["top/open"]);
    }

    /// Agrees to the first change only.
    #[derive(Debug, Default)]
    struct AgreesOnce(Mutex<u32>);

    impl Guard for AgreesOnce {
        fn agree(&self, path: &RelPath, _change: Change, _exists: &dyn Fn() -> bool) -> Result<()> {
            let mut calls = self.0.lock();
            *calls += 1;
            if *calls > 1 { Err(Error::Escapes(path.to_string())) } else { Ok(()) }
        }

        fn removed(&self, _path: &RelPath) {}
    }

    #[test]
    fn the_guard_may_refuse_the_commit_of_a_file_that_it_let_begin() {
        let store = guarded(Arc::new(Memory::default()), RelPath::root(), Arc::new(AgreesOnce::default()));
        let sink = store.create(&path("f"), "t").unwrap();
        sink.write_at(b"x", 0).unwrap();
        let finish = Finish {
            size: 1,
            mode: 0o644,
            mtime: Timestamp::default(),
            durable: false,
            replace: true,
            attributes: None,
        };
        assert!(sink.commit(&finish).is_err());
        assert!(store.stat(&path("f")).is_err());
    }
}

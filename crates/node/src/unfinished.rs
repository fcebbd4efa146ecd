//! The temporary names of unfinished files, and the lists by which a later start removes what a killed node left.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::leftovers::UnfinishedFileLog;
use model::RelPath;
use parking_lot::{Mutex, MutexGuard};

use crate::access::ResolvedPath;
use arc_swap::ArcSwap;

/// The unfinished files of a node. There is one list for each export, and not one for each part that a credential opens, because a
/// list is an open file.
pub(crate) struct UnfinishedFiles {
    state: PathBuf,
    /// The directories of the exports, by name.
    roots: ArcSwap<Vec<(String, PathBuf)>>,
    lists: Mutex<HashMap<PathBuf, Arc<LeftoverList>>>,
    last: AtomicU64,
    name_locks: [Mutex<()>; NAME_LOCKS],
}

/// Locks for giving files their final names: enough that files rarely share one.
const NAME_LOCKS: usize = 64;
/// Names that one list gives before a new list replaces it, because a list records the directories of all its files. A list is
/// removed with its last file.
const NAMES_MAX: u64 = 4096;

/// The index of a file's lock, by its path on the host: a credential for a part of an export sees a shorter path.
fn lock_index(resolved: &ResolvedPath) -> usize {
    let mut hasher = DefaultHasher::new();
    resolved.dir.join(OsStr::from_bytes(resolved.path.as_bytes())).hash(&mut hasher);
    (hasher.finish() % NAME_LOCKS as u64) as usize
}

/// A list of leftovers, and the common part of the names on it.
struct LeftoverList {
    tag: String,
    leftovers: Option<UnfinishedFileLog>,
    /// Names that the list has given.
    given: AtomicU64,
}

/// The tag in the temporary name of one unfinished file. It keeps its list alive: hold it until the file has its final name.
pub(crate) struct Tag {
    text: String,
    _list: Arc<LeftoverList>,
}

impl Deref for Tag {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl UnfinishedFiles {
    /// Lists in this state directory, for exports with these directories.
    pub fn new(state: &Path, exports: Vec<(String, PathBuf)>) -> UnfinishedFiles {
        UnfinishedFiles {
            state: state.to_owned(),
            roots: ArcSwap::from_pointee(exports),
            lists: Mutex::default(),
            last: AtomicU64::new(0),
            name_locks: [const { Mutex::new(()) }; NAME_LOCKS],
        }
    }

    /// Replaces the directories of the exports.
    pub fn replace_roots(&self, exports: Vec<(String, PathBuf)>) {
        self.roots.store(Arc::new(exports));
    }

    /// Locks the final name of a file: one thread at a time checks and replaces the entry of that name.
    pub fn lock_name(&self, resolved: &ResolvedPath) -> MutexGuard<'_, ()> {
        self.lock_at(lock_index(resolved))
    }

    /// Locks both names of a rename, always in the same order, so that two renames never wait for each other.
    pub fn lock_names(
        &self,
        one: &ResolvedPath,
        other: &ResolvedPath,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let one = lock_index(one);
        let other = lock_index(other);
        let first = self.lock_at(one.min(other));
        (first, (one != other).then(|| self.lock_at(one.max(other))))
    }

    fn lock_at(&self, at: usize) -> MutexGuard<'_, ()> {
        self.name_locks[at].lock()
    }

    /// The root directory of a file's list, and the file's directory below it.
    fn place(&self, resolved: &ResolvedPath) -> (PathBuf, RelPath) {
        let dir = resolved.path.parent();
        let roots = self.roots.load_full();
        let root = roots.iter().find(|(name, _)| *name == resolved.export).map(|(_, root)| root);
        let below = root.and_then(|root| {
            let confined = resolved.dir.strip_prefix(root).ok()?;
            let confined = RelPath::parse(confined.as_os_str().as_bytes()).ok()?;
            Some((root.clone(), confined.join_path(&dir)))
        });
        below.unwrap_or_else(|| (resolved.dir.clone(), dir))
    }

    fn begin(&self, root: &Path, is_remote: bool) -> Arc<LeftoverList> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        // Without random numbers the process id and a counter make tags unique.
        let tag = engine::identity::random_tag().unwrap_or_else(|_| format!("{}x{number}", std::process::id()));
        let begin = || {
            UnfinishedFileLog::begin(&self.state, root, &tag).inspect_err(|error| {
                tracing::warn!(%error, "cannot record unfinished files; they stay if this node is killed");
            })
        };
        // A remote server is not swept.
        let leftovers = if is_remote { None } else { begin().ok() };
        Arc::new(LeftoverList { tag, leftovers, given: AtomicU64::new(0) })
    }

    /// A tag that no other unfinished file has. The file's directory is recorded in the list.
    pub fn tag(&self, resolved: &ResolvedPath) -> Tag {
        let (root, dir) = self.place(resolved);
        let mut lists = self.lists.lock();
        if lists.get(&root).is_some_and(|list| list.given.load(Ordering::Relaxed) >= NAMES_MAX) {
            lists.remove(&root);
        }
        let list = lists.entry(root).or_insert_with_key(|root| self.begin(root, resolved.is_remote));
        list.given.fetch_add(1, Ordering::Relaxed);
        let list = Arc::clone(list);
        if let Some(leftovers) = &list.leftovers {
            leftovers.note_directory(&dir);
        }
        let text = format!("{}-{:x}", list.tag, self.last.fetch_add(1, Ordering::Relaxed));
        Tag { text, _list: list }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn resolved(dir: PathBuf, name: &str) -> ResolvedPath {
        ResolvedPath::of_test(Arc::new(store::memory::Memory::default()), path(name), dir)
    }

    fn lists(state: &Path) -> usize {
        std::fs::read_dir(state.join("unfinished")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_file_has_one_lock_whatever_path_it_is_reached_by() {
        let (whole, part) = (resolved("/srv/data".into(), "a/f"), resolved("/srv/data/a".into(), "f"));
        assert_eq!(lock_index(&whole), lock_index(&part));
        let unfinished = UnfinishedFiles::new(Path::new("/nonexistent"), Vec::new());
        // Both ends of a rename onto itself are one.
        assert!(unfinished.lock_names(&whole, &part).1.is_none());
    }

    #[test]
    fn all_parts_of_an_export_share_one_list() {
        let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let unfinished = UnfinishedFiles::new(state.path(), vec![("data".into(), root.path().to_owned())]);
        let part = |at: usize| resolved(root.path().join(format!("part{at}")), "sub/f");
        let tags: Vec<Tag> = (0..50).map(|at| unfinished.tag(&part(at))).collect();
        assert_eq!(lists(state.path()), 1);
        let mut texts: Vec<&str> = tags.iter().map(|tag| &**tag).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 50);
        // The unfinished files of a killed node in a part are found from the export's own directory.
        assert_eq!(unfinished.place(&part(7)), (root.path().to_owned(), path("part7/sub")));
        assert_eq!(unfinished.place(&resolved(root.path().to_owned(), "f")), (root.path().to_owned(), RelPath::root()));
    }

    #[test]
    fn a_long_list_is_removed_with_its_last_file() {
        let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let unfinished = UnfinishedFiles::new(state.path(), vec![("data".into(), root.path().to_owned())]);
        let one = || unfinished.tag(&resolved(root.path().to_owned(), "f"));
        let first = one();
        (1..NAMES_MAX).for_each(|_| drop(one()));
        assert_eq!(lists(state.path()), 1);
        drop(one());
        assert_eq!(lists(state.path()), 2, "a file on the first one is not finished");
        drop(first);
        assert_eq!(lists(state.path()), 1);
    }
}

//! The names of files that are not finished, and the lists by which a later start removes what a killed node left.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::leftovers::Leftovers;
use model::RelPath;
use parking_lot::{Mutex, MutexGuard};

use crate::access::ResolvedPath;
use arc_swap::ArcSwap;

/// One list for each export, whatever parts of it credentials are confined to: a list is an open file.
pub(crate) struct Unfinished {
    state: PathBuf,
    /// Where the exports lie.
    roots: ArcSwap<Vec<(String, PathBuf)>>,
    lists: Mutex<HashMap<PathBuf, Arc<List>>>,
    last: AtomicU64,
    turns: [Mutex<()>; TURNS],
}

/// Names that can be given at the same time: enough that nobody waits for another file's.
const TURNS: usize = 64;
/// Names that are given before a list is put aside for a new one: it remembers the directories of all of them. It is gone with
/// the last file that it is about.
const NAMES_MAX: u64 = 4096;

/// Which turn is a file's. By the whole of its place: a credential for a part of an export sees a shorter path.
fn which(reach: &ResolvedPath) -> usize {
    let mut hasher = DefaultHasher::new();
    reach.dir.join(OsStr::from_bytes(reach.path.as_bytes())).hash(&mut hasher);
    (hasher.finish() % TURNS as u64) as usize
}

/// A list, and what the names on it have in common.
struct List {
    tag: String,
    leftovers: Option<Leftovers>,
    given: AtomicU64,
}

/// What stands in the name of one unfinished file. The list lives as long: keep it until the file has its own name.
pub(crate) struct Tag {
    text: String,
    _list: Arc<List>,
}

impl Deref for Tag {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Unfinished {
    /// With its lists in this state directory, for exports that lie there.
    pub fn new(state: &Path, exports: Vec<(String, PathBuf)>) -> Unfinished {
        Unfinished {
            state: state.to_owned(),
            roots: ArcSwap::from_pointee(exports),
            lists: Mutex::default(),
            last: AtomicU64::new(0),
            turns: [const { Mutex::new(()) }; TURNS],
        }
    }

    /// The exports lie there from now on.
    pub fn replace_roots(&self, exports: Vec<(String, PathBuf)>) {
        self.roots.store(Arc::new(exports));
    }

    /// The turn of whoever gives a file this name: what stands there is looked at and replaced by one at a time.
    pub fn turn(&self, reach: &ResolvedPath) -> MutexGuard<'_, ()> {
        self.turn_at(which(reach))
    }

    /// The turns of both ends of a rename. Always in the same order, so that two renames never wait for each other.
    pub fn turns(&self, one: &ResolvedPath, other: &ResolvedPath) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (one, other) = (which(one), which(other));
        let first = self.turn_at(one.min(other));
        (first, (one != other).then(|| self.turn_at(one.max(other))))
    }

    fn turn_at(&self, at: usize) -> MutexGuard<'_, ()> {
        self.turns[at].lock()
    }

    /// The directory that a list is kept for, and where in it a file will be.
    fn place(&self, reach: &ResolvedPath) -> (PathBuf, RelPath) {
        let dir = reach.path.parent();
        let roots = self.roots.load_full();
        let root = roots.iter().find(|(name, _)| *name == reach.export).map(|(_, root)| root);
        let below = root.and_then(|root| {
            let confined = reach.dir.strip_prefix(root).ok()?;
            let confined = RelPath::parse(confined.as_os_str().as_bytes()).ok()?;
            Some((root.clone(), confined.join_path(&dir)))
        });
        below.unwrap_or_else(|| (reach.dir.clone(), dir))
    }

    fn begin(&self, root: &Path, abroad: bool) -> Arc<List> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        // Without random numbers the process and the count are what tells tags apart.
        let tag = engine::identity::random_tag().unwrap_or_else(|_| format!("{}x{number}", std::process::id()));
        let begin = || {
            Leftovers::begin(&self.state, root, &tag).inspect_err(|error| {
                tracing::warn!(%error, "cannot write down unfinished files; if this node is killed they stay");
            })
        };
        // On other people's servers nobody sweeps.
        let leftovers = if abroad { None } else { begin().ok() };
        Arc::new(List { tag, leftovers, given: AtomicU64::new(0) })
    }

    /// A tag that no other unfinished file has; its directory is written down.
    pub fn tag(&self, reach: &ResolvedPath) -> Tag {
        let (root, dir) = self.place(reach);
        let mut lists = self.lists.lock();
        if lists.get(&root).is_some_and(|list| list.given.load(Ordering::Relaxed) >= NAMES_MAX) {
            lists.remove(&root);
        }
        let list = lists.entry(root).or_insert_with_key(|root| self.begin(root, reach.abroad));
        list.given.fetch_add(1, Ordering::Relaxed);
        let list = Arc::clone(list);
        if let Some(leftovers) = &list.leftovers {
            leftovers.opening(&dir);
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

    fn reach(dir: PathBuf, name: &str) -> ResolvedPath {
        ResolvedPath::of_test(Arc::new(store::memory::Memory::default()), path(name), dir)
    }

    fn lists(state: &Path) -> usize {
        std::fs::read_dir(state.join("unfinished")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_place_has_one_turn_however_it_is_reached() {
        let (whole, part) = (reach("/srv/data".into(), "a/f"), reach("/srv/data/a".into(), "f"));
        assert_eq!(which(&whole), which(&part));
        let unfinished = Unfinished::new(Path::new("/nonexistent"), Vec::new());
        // Both ends of a rename onto itself are one.
        assert!(unfinished.turns(&whole, &part).1.is_none());
    }

    #[test]
    fn parts_of_an_export_share_its_list() {
        let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let unfinished = Unfinished::new(state.path(), vec![("data".into(), root.path().to_owned())]);
        let part = |at: usize| reach(root.path().join(format!("part{at}")), "sub/f");
        let tags: Vec<Tag> = (0..50).map(|at| unfinished.tag(&part(at))).collect();
        assert_eq!(lists(state.path()), 1);
        let mut texts: Vec<&str> = tags.iter().map(|tag| &**tag).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 50);
        // What a killed node leaves in a part is found from the export's own directory.
        assert_eq!(unfinished.place(&part(7)), (root.path().to_owned(), path("part7/sub")));
        assert_eq!(unfinished.place(&reach(root.path().to_owned(), "f")), (root.path().to_owned(), RelPath::root()));
    }

    #[test]
    fn a_long_list_is_gone_with_the_last_file_on_it() {
        let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let unfinished = Unfinished::new(state.path(), vec![("data".into(), root.path().to_owned())]);
        let one = || unfinished.tag(&reach(root.path().to_owned(), "f"));
        let first = one();
        (1..NAMES_MAX).for_each(|_| drop(one()));
        assert_eq!(lists(state.path()), 1);
        drop(one());
        assert_eq!(lists(state.path()), 2, "a file on the first one is not finished");
        drop(first);
        assert_eq!(lists(state.path()), 1);
    }
}

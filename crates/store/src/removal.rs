//! Removes trees: children first, without following links. An entry that cannot be removed stays, with the directories above it.

use std::collections::HashSet;

use model::Kind;
use model::name::RelPath;

use crate::{Error, Result, Store};

/// Watches over the removal of a tree.
pub trait Overseer {
    /// Whether the removal goes on.
    fn continues(&mut self) -> bool {
        true
    }

    /// Called before an entry is removed.
    ///
    /// # Errors
    /// The entry stays, for this reason.
    fn may_remove(&mut self, _path: &RelPath) -> Result<()> {
        Ok(())
    }

    /// Called for an entry that stays. The directories above it stay too, without a call.
    ///
    /// # Errors
    /// Ends the removal, for this reason.
    fn stays(&mut self, path: &RelPath, why: Error) -> Result<()>;
}

/// Removes an entry and everything below it, children first. A link is removed, not followed.
///
/// # Errors
/// The first entry that cannot be removed; entries before it are gone.
pub fn remove_all(store: &dyn Store, path: &RelPath) -> Result<()> {
    remove_all_while(store, path, &|| true).map(drop)
}

/// As [`remove_all`], as long as `is_wanted` returns `true`. Returns whether all of it is removed.
///
/// # Errors
/// The first entry that cannot be removed; entries before it are gone.
pub fn remove_all_while(store: &dyn Store, path: &RelPath, is_wanted: &dyn Fn() -> bool) -> Result<bool> {
    remove_tree(store, path, &mut AllOrNothing(is_wanted))
}

/// An overseer for which the first entry that stays ends the removal.
struct AllOrNothing<'a>(&'a dyn Fn() -> bool);

impl Overseer for AllOrNothing<'_> {
    fn continues(&mut self) -> bool {
        (self.0)()
    }

    fn stays(&mut self, _path: &RelPath, why: Error) -> Result<()> {
        Err(why)
    }
}

/// As [`remove_all`], watched by an overseer. Returns whether all of it is removed.
///
/// # Errors
/// The entry does not exist, or the overseer ends the removal; entries before that are gone.
pub fn remove_tree(store: &dyn Store, path: &RelPath, overseer: &mut dyn Overseer) -> Result<bool> {
    let kind = store.stat(path)?.meta.kind;
    let mut removal = Removal { store, overseer, left: Vec::new(), kept: HashSet::new(), is_whole: true };
    if kind == Kind::Dir {
        // A path can be 2,000 levels deep, too deep for recursion on a thread's stack.
        removal.left.push(PendingDirectory::Full(path.clone()));
    } else {
        removal.remove_entry(path)?;
    }
    while let Some(next) = removal.left.pop() {
        let continues = match next {
            PendingDirectory::Full(path) => removal.remove_entries(path)?,
            PendingDirectory::Empty(path) => removal.remove_directory(&path).map(|()| true)?,
        };
        if !continues {
            return Ok(false);
        }
    }
    Ok(removal.is_whole)
}

/// A directory that is to be removed.
enum PendingDirectory {
    /// Its entries have not been removed yet.
    Full(RelPath),
    /// Its entries have been removed, except unfinished files and entries that stay.
    Empty(RelPath),
}

struct Removal<'a> {
    store: &'a dyn Store,
    overseer: &'a mut dyn Overseer,
    left: Vec<PendingDirectory>,
    /// Directories that stay because something in them does.
    kept: HashSet<RelPath>,
    is_whole: bool,
}

impl Removal<'_> {
    /// Reports an entry that stays. An entry that another process has removed meanwhile counts as removed.
    fn report_result(&mut self, path: &RelPath, removed: Result<()>) -> Result<()> {
        match removed {
            Err(why) if !why.is_not_found() => {
                self.keep(&path.parent());
                self.is_whole = false;
                self.overseer.stays(path, why)
            }
            _ => Ok(()),
        }
    }

    /// Keeps a directory, and those above it.
    fn keep(&mut self, dir: &RelPath) {
        let mut above = dir.clone();
        while self.kept.insert(above.clone()) && !above.is_root() {
            above = above.parent();
        }
    }

    fn remove_entry(&mut self, path: &RelPath) -> Result<()> {
        let removed = self.overseer.may_remove(path).and_then(|()| self.store.remove(path));
        self.report_result(path, removed)
    }

    /// Removes the entries of a directory, except its directories, which are added to `left`. A listing holds a descriptor, so it ends
    /// before they are opened. Returns whether the removal goes on.
    fn remove_entries(&mut self, path: RelPath) -> Result<bool> {
        let entries = match self.store.list(&path) {
            Ok(entries) => entries,
            Err(why) => return self.report_result(&path, Err(why)).map(|()| true),
        };
        self.left.push(PendingDirectory::Empty(path.clone()));
        for entry in entries {
            let (name, stat) = match entry {
                Ok(entry) => entry,
                Err(why) => {
                    // What is left of the directory is unknown.
                    self.keep(&path);
                    self.report_result(&path, Err(why))?;
                    continue;
                }
            };
            let below = path.join(&name);
            match stat {
                Ok(stat) if stat.meta.kind == Kind::Dir => self.left.push(PendingDirectory::Full(below)),
                Ok(_) => self.remove_entry(&below)?,
                Err(why) => self.report_result(&below, Err(why))?,
            }
            if !self.overseer.continues() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn remove_directory(&mut self, path: &RelPath) -> Result<()> {
        if self.kept.contains(path) {
            return Ok(());
        }
        let removed = self.overseer.may_remove(path);
        let removed = removed.and_then(|()| self.store.remove_unfinished(path)).and_then(|()| self.store.remove(path));
        self.report_result(path, removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    /// An overseer that keeps some entries, and records those that stay.
    struct Keeping(&'static [&'static str], Vec<String>);

    impl Overseer for Keeping {
        fn may_remove(&mut self, path: &RelPath) -> Result<()> {
            if self.0.contains(&path.to_string().as_str()) { Err(Error::Escapes(path.to_string())) } else { Ok(()) }
        }

        fn stays(&mut self, path: &RelPath, _why: Error) -> Result<()> {
            self.1.push(path.to_string());
            Ok(())
        }
    }

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn tree() -> Memory {
        let store = Memory::default();
        for dir in ["t", "t/a", "t/a/b", "t/c", "t/c/d"] {
            store.make_dir(&path(dir)).unwrap();
        }
        store
    }

    #[test]
    fn an_entry_that_stays_keeps_the_directories_above_it() {
        let (store, mut keeping) = (tree(), Keeping(&["t/a/b"], Vec::new()));
        assert!(!remove_tree(&store, &path("t"), &mut keeping).unwrap());
        assert_eq!(keeping.1, ["t/a/b"], "the overseer is not called for the directories above");
        assert!(store.is_dir(&path("t/a/b")) && !store.is_dir(&path("t/c")));
        assert!(remove_tree(&store, &path("t"), &mut Keeping(&[], Vec::new())).unwrap());
        assert!(!store.is_dir(&path("t")));
    }

    #[test]
    fn the_first_entry_that_stays_may_end_the_removal() {
        let store = tree();
        let mut calls = 0;
        struct Ends<'a>(&'a mut u32);
        impl Overseer for Ends<'_> {
            fn may_remove(&mut self, path: &RelPath) -> Result<()> {
                *self.0 += 1;
                Err(Error::Escapes(path.to_string()))
            }
            fn stays(&mut self, _path: &RelPath, why: Error) -> Result<()> {
                Err(why)
            }
        }
        assert!(remove_tree(&store, &path("t"), &mut Ends(&mut calls)).is_err());
        assert_eq!(calls, 1);
        assert!(!remove_all_while(&store, &path("t"), &|| false).unwrap());
    }
}

//! Extras: entries that the target has and the source lacks, for `--delete`. They are noted directory by directory, and removed when all
//! offered entries are in place and their number is within the bound.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;

use model::fault::Fault;
use model::name::RelPath;
use model::spec::{Delete, Step};
use model::{Meta, Refusal};
use parking_lot::MutexGuard;
use wire::frame::Removal;
use wire::receiver::name_key;

use super::Receiving;

/// The number of extras that are noted by name (about 200 MB); a directory that is removed as a whole counts once. Further extras stay.
const NOTED_MAX: usize = 1 << 20;
/// The right of an owner to write, without which nothing can be removed from a directory.
const WRITABLE: u32 = 0o200;

/// The extras found so far.
#[derive(Default)]
pub(super) struct Extras {
    noted: Vec<Extra>,
    /// The number of extras, including those in directories.
    entries: u64,
    /// The number of extras beyond [`NOTED_MAX`].
    unnoted: u64,
    /// The source is an empty directory.
    is_source_empty: bool,
}

struct Extra {
    path: RelPath,
    /// Its path in messages: below the name of the source root.
    display_path: RelPath,
}

impl Receiving {
    fn extras(&self) -> MutexGuard<'_, Extras> {
        self.extras.lock()
    }

    /// Notes the entries of a directory that were not offered, except for those that filters exclude or other jobs are writing.
    pub(super) fn note_extras(&self, path: &RelPath, display_path: &RelPath, offered: &HashSet<u64>) {
        let entries = match self.store.list(path) {
            Ok(entries) => entries.finished(),
            // In a dry run the directory may not exist.
            Err(error) if error.is_not_found() => return,
            Err(error) => return self.not_removed(display_path, &error),
        };
        if strip_root(display_path).is_root() && offered.is_empty() {
            self.extras().is_source_empty = true;
        }
        for entry in entries {
            let (name, stat) = match entry {
                Ok(entry) => entry,
                Err(error) => return self.not_removed(display_path, &error),
            };
            let is_dir = stat.is_ok_and(|stat| stat.meta.kind == model::Kind::Dir);
            let (below, display_path) = (path.join(&name), display_path.join(&name));
            if offered.contains(&name_key(&name)) || self.is_left_out(&display_path, is_dir) {
                continue;
            }
            match if is_dir { self.entries_in(&below, &display_path) } else { Ok(Some(0)) } {
                Ok(Some(inside)) => self.note(Extra { path: below, display_path }, 1 + inside),
                // The directory stays, because an entry in it stays.
                Ok(None) => self.note_extras(&below, &display_path, &HashSet::new()),
                Err(error) => self.not_removed(&display_path, &error),
            }
            if self.is_over() {
                return;
            }
        }
    }

    fn note(&self, extra: Extra, entries: u64) {
        let mut extras = self.extras();
        extras.entries += entries;
        if extras.noted.len() < NOTED_MAX {
            extras.noted.push(extra);
        } else {
            extras.unnoted += entries;
        }
    }

    fn is_left_out(&self, display_path: &RelPath, is_dir: bool) -> bool {
        !self.filters.takes(&strip_root(display_path), is_dir)
    }

    /// The number of entries in a directory that the source lacks; none where an entry in it must stay.
    fn entries_in(&self, path: &RelPath, display_path: &RelPath) -> store::Result<Option<u64>> {
        // As with removing, only the names of directories are kept after the listing is closed.
        let mut dirs = Vec::new();
        let mut count = 0;
        let mut entries = self.store.list(path)?.finished();
        for entry in entries.by_ref() {
            let (name, stat) = entry?;
            let is_dir = stat?.meta.kind == model::Kind::Dir;
            if self.is_left_out(&display_path.join(&name), is_dir) {
                return Ok(None);
            }
            count += 1;
            dirs.extend(is_dir.then_some(name));
        }
        if entries.left_out() > 0 {
            return Ok(None);
        }
        for name in dirs {
            let Some(inside) = self.entries_in(&path.join(&name), &display_path.join(&name))? else { return Ok(None) };
            count += inside;
        }
        Ok(Some(count))
    }

    /// Removes the extras once all offered entries are in place, or reports why none is removed.
    pub(super) fn remove_extras(&self, unread: u64) {
        let Extras { entries: extras, unnoted, is_source_empty, .. } = *self.extras();
        if extras == 0 {
            return;
        }
        let total = self.found.load(Ordering::Relaxed) + extras;
        let refusal = match &self.policy.may_replace {
            Err(refusal) => Some(refusal.clone()),
            Ok(()) => {
                self.reason_to_keep(extras, total, unread, is_source_empty).map(|why| Refusal::new(Fault::Storage, why))
            }
        };
        if let Some(refusal) = refusal {
            return self.state().machine.not_removed(self.target.path.clone(), refusal);
        }
        if self.policy.options.dry_run {
            return self.plan_removal();
        }
        let _busy = self.busy_with(format!("removing {extras} entries at the target that the source lacks"));
        self.state().machine.removing(Removal { extras, total });
        self.waker.wake();
        self.remove_noted();
        if unnoted > 0 {
            let why = format!("{unnoted} more entries that the source lacks are there: run the same command again");
            let refusal = Refusal::new(Fault::Storage, why);
            self.state().machine.not_removed(self.target.path.clone(), refusal);
        }
    }

    /// Why no extra is removed: the removal of so many is probably a mistake. None where it is not.
    fn reason_to_keep(&self, extras: u64, total: u64, unread: u64, is_source_empty: bool) -> Option<String> {
        let of_target = if self.target.path.is_root() { "the target".to_owned() } else { self.target.path.to_string() };
        let would = format!("--delete would remove {extras} of the {total} entries that are in {of_target}");
        // An empty source is more often a disk that is not mounted than a wish to remove everything.
        if is_source_empty {
            return Some(format!(
                "the source is empty, so {would}: nothing was removed. If that is meant, remove it with `longhaul rm -r`"
            ));
        }
        if unread > 0 {
            return Some(format!(
                "{unread} of the source's entries could not be read, and {would}: nothing was removed, since they may be what is missing. \
                 Make the source readable, or leave them out with --exclude"
            ));
        }
        let delete = self.policy.options.delete;
        if extras > delete.max_removals(total) {
            let bound = match delete {
                Delete::AtMost(max) => format!("more than --max-delete {max}"),
                _ => "more than half of them".to_owned(),
            };
            return Some(format!(
                "{would}, {bound}: nothing was removed. If that is meant, say --max-delete {extras}, or --force for any number"
            ));
        }
        None
    }

    fn plan_removal(&self) {
        for Extra { path, .. } in std::mem::take(&mut self.extras().noted) {
            self.plan(Step::Delete, &path, 0);
            self.state().machine.removed();
        }
    }

    /// Removes the noted extras. Their parent directories keep modes and times.
    fn remove_noted(&self) {
        let noted = std::mem::take(&mut self.extras().noted);
        let mut parents: BTreeMap<RelPath, Option<Meta>> = BTreeMap::new();
        for Extra { path, display_path } in noted {
            let parent = path.parent();
            parents.entry(parent).or_insert_with_key(|parent| self.make_writable(parent));
            match store::remove_all(&*self.store, &path) {
                Ok(()) => self.state().machine.removed(),
                Err(error) => self.not_removed(&display_path, &error),
            }
            if self.is_over() {
                break;
            }
        }
        for (parent, meta) in parents {
            // The extras are removed: a time that cannot be restored is not a failure.
            let _ = meta.map(|meta| self.store.finish_dir(&parent, meta.mode, meta.mtime));
        }
    }

    /// Makes a directory writable. Returns its metadata from before.
    fn make_writable(&self, dir: &RelPath) -> Option<Meta> {
        let meta = self.store.stat(dir).ok()?.meta;
        if meta.mode & WRITABLE == 0 {
            let _ = self.store.finish_dir(dir, meta.mode | WRITABLE, meta.mtime);
        }
        Some(meta)
    }

    fn not_removed(&self, display_path: &RelPath, error: &store::Error) {
        self.state().machine.not_removed(display_path.clone(), Refusal::from_error(error));
    }
}

/// A path below its source root, without the root's own name.
fn strip_root(display_path: &RelPath) -> RelPath {
    let rest = display_path.as_bytes().splitn(2, |b| *b == b'/').nth(1).unwrap_or_default();
    RelPath::parse(rest).unwrap_or_default()
}

//! Walks the source trees, depth first, and offers every entry to the sender's machine as it is found. A job for a
//! list of files walks that list instead, and the directories in it.
//!
//! Memory: one open directory for each level, and one record for each file that has more than one name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::entry::Attributes;
use model::fault::{Blame, Fault};
use model::name::{Name, PATH_BYTES_MAX, RelPath};
use model::spec::Options;
use model::{Expected, Kind, Refusal, Timestamp};
use store::{AttributeSelection, Entries, Stat, Store};
use wire::frame::{Offered, UNKNOWN_SIZE};

use crate::filelist::FileList;
use crate::filter::Filters;

/// One source of a job.
#[derive(Clone, Debug)]
pub struct SourceRoot {
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Its path in the store.
    pub path: RelPath,
    /// The name that it has at the target.
    pub name: Name,
}

impl SourceRoot {
    /// Replaces symbolic links by their targets from now on. A store that cannot follow links leaves them as they are.
    pub(crate) fn follow_links(&mut self) {
        if let Ok(Some(following)) = self.store.following_links() {
            self.store = following;
        }
    }
}

/// Checks that the sources have distinct names: two of one name would overwrite each other.
///
/// # Errors
/// Two sources have the same name.
pub fn distinct_names(sources: &[SourceRoot]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    match sources.iter().find(|s| !seen.insert(&s.name)) {
        None => Ok(()),
        Some(duplicate) => {
            let reason =
                format!("two sources are named {}; copy them one by one, each to its own name", duplicate.name);
            Err(Refusal::new(Fault::Config, reason))
        }
    }
}

/// A file that has several names: its id in the job, its first path at the target, and how many names have not been found yet.
struct LinkedFile {
    id: u64,
    source: u32,
    target_path: RelPath,
    names_left: u64,
}

/// The paths of an entry: below the source root, and below the target. The two differ only for a list of files that renames.
struct EntryPaths {
    path: RelPath,
    target_path: RelPath,
    name: Name,
}

impl EntryPaths {
    fn below(level: &OpenDirectory, name: Name) -> EntryPaths {
        EntryPaths { path: level.path.join(&name), target_path: level.target_path.join(&name), name }
    }
}

/// A directory whose entries are being read.
struct OpenDirectory {
    path: RelPath,
    target_path: RelPath,
    /// Identifies the directory: a link may lead back to it.
    identity: (u64, u64),
    entries: Entries,
}

/// An entry that a scan has found.
#[derive(Clone, Debug)]
pub struct ScannedEntry {
    /// The index of its source.
    pub source: u32,
    /// Its path below the source.
    pub path: RelPath,
    /// The name that it has at the target.
    pub name: Name,
    /// The offer: its kind, with the metadata of that kind.
    pub what: Offered,
    /// Further attributes to preserve.
    pub attributes: Option<Box<Attributes>>,
    /// The file's last change of any kind, where the store knows it.
    pub changed: Option<Timestamp>,
    /// The size and digests that the file must have.
    pub expected: Expected,
}

/// Receives the entries that a scan finds.
pub trait ScanSink {
    /// The sources.
    fn roots(&self) -> &[SourceRoot];
    /// Takes an entry, when there is room for it. Returns its id; `None` when the job is over.
    fn offer(&self, found: ScannedEntry) -> Option<u64>;
    /// Leaves the innermost directory. `None` when the job is over.
    fn leave(&self) -> Option<()>;
    /// Ends the scan: every entry has been offered.
    fn scan_end(&self);
    /// Counts unfinished files of a directory that were left out.
    fn left_out(&self, files: u64);
    /// Notes a directory that may have been reached through a link: the target must not lie in it.
    fn reached(&self, identity: (u64, u64));
    /// Ends the attempt if the source cannot be reached: every further file would fail as well. The next attempt goes on.
    fn unreachable(&self, refusal: &Refusal);
}

/// Walks one job's sources.
pub struct Scanner<'a> {
    sink: &'a dyn ScanSink,
    recursive: bool,
    copy_links: bool,
    selection: AttributeSelection,
    filters: Filters,
    linked: HashMap<(u64, u64), LinkedFile>,
    /// The expected sizes and digests of listed files, by their paths below the target.
    expected: HashMap<RelPath, Expected>,
}

impl<'a> Scanner<'a> {
    /// A scanner that offers to `sink`. Patterns that do not parse have been refused before.
    pub fn new(sink: &'a dyn ScanSink, options: &Options) -> Scanner<'a> {
        let filters = Filters::new(&options.filters).unwrap_or_else(|_| Filters::nothing());
        let selection = AttributeSelection { owner: options.owner, xattrs: options.xattrs };
        let Options { recursive, copy_links, .. } = *options;
        Scanner { sink, recursive, copy_links, selection, filters, linked: HashMap::new(), expected: HashMap::new() }
    }

    /// Walks all sources, or the listed files. Returns early when the job is over.
    pub fn run(mut self, list: Option<FileList>) {
        let roots = self.sink.roots().to_vec();
        let walked = match list {
            Some(mut list) => {
                self.expected = list.take_expected();
                roots.first().and_then(|root| self.walk_list(root, &list))
            }
            None => roots.iter().enumerate().try_for_each(|(index, root)| self.walk(index as u32, root)),
        };
        if walked.is_some() {
            self.sink.scan_end();
        }
    }

    /// `None` when the job is over.
    fn walk(&mut self, source: u32, root: &SourceRoot) -> Option<()> {
        let stat = root.store.stat(&root.path);
        let mut levels: Vec<OpenDirectory> = Vec::new();
        let at = EntryPaths { path: RelPath::root(), target_path: RelPath::root(), name: root.name.clone() };
        // A store that cannot list cannot tell a file from a page that lists files.
        let is_dir = stat.as_ref().is_ok_and(|stat| stat.meta.kind == Kind::Dir);
        if stat.is_ok() && (self.recursive || is_dir) && !root.store.capabilities().lists {
            let refusal = unlisted(&at.name.to_string());
            return self.refuse(source, at, refusal);
        }
        self.entry(source, root, at, stat, &mut levels)?;
        self.walk_levels(source, root, levels)
    }

    fn walk_levels(&mut self, source: u32, root: &SourceRoot, mut levels: Vec<OpenDirectory>) -> Option<()> {
        while let Some(level) = levels.last_mut() {
            match level.entries.next() {
                None => {
                    self.sink.left_out(level.entries.left_out());
                    levels.pop();
                    self.sink.leave()?;
                }
                Some(Ok((name, stat))) => {
                    let at = EntryPaths::below(level, name);
                    let is_dir = stat.as_ref().is_ok_and(|stat| stat.meta.kind == Kind::Dir);
                    if self.filters.takes(&at.path, is_dir) {
                        self.entry(source, root, at, stat, &mut levels)?;
                    }
                }
                Some(Err(error)) => {
                    // The rest of this directory cannot be read: its name stands for what is missing.
                    let name = level.path.name().unwrap_or_else(|| root.name.clone());
                    let at = EntryPaths { path: level.path.clone(), target_path: level.target_path.clone(), name };
                    self.fail(source, at, &error)?;
                    levels.pop();
                    self.sink.leave()?;
                }
            }
        }
        Some(())
    }

    /// Offers the listed files, below directories that are made where they are missing.
    fn walk_list(&mut self, root: &SourceRoot, list: &FileList) -> Option<()> {
        let top = EntryPaths { path: RelPath::root(), target_path: RelPath::root(), name: root.name.clone() };
        self.implied_dir(top)?;
        let mut open: Vec<Name> = Vec::new();
        for (from, to) in list.files() {
            let dirs: Vec<Name> = names(&to.parent());
            let same = open.iter().zip(&dirs).take_while(|(a, b)| a == b).count();
            for _ in same..open.len() {
                self.sink.leave()?;
            }
            open.truncate(same);
            for name in &dirs[same..] {
                let target_path = open.iter().fold(RelPath::root(), |path, name| path.join(name)).join(name);
                self.implied_dir(EntryPaths { path: target_path.clone(), target_path, name: name.clone() })?;
                open.push(name.clone());
            }
            let stat = root.store.stat(&root.path.join_path(from));
            let name = to.name().unwrap_or_else(|| root.name.clone());
            let mut levels = Vec::new();
            self.entry(0, root, EntryPaths { path: from.clone(), target_path: to.clone(), name }, stat, &mut levels)?;
            self.walk_levels(0, root, levels)?;
        }
        for _ in 0..=open.len() {
            self.sink.leave()?;
        }
        Some(())
    }

    /// Offers a directory that a listed file needs: if it exists at the target, it stays as it is.
    fn implied_dir(&mut self, at: EntryPaths) -> Option<()> {
        let offered = Offered::Dir { mode: 0o755, mtime: Timestamp::default() };
        let attributes = Attributes { implied: true, ..Attributes::default() };
        self.offer(0, at, offered, Some(Box::new(attributes)))
    }

    fn entry(
        &mut self,
        source: u32,
        root: &SourceRoot,
        at: EntryPaths,
        stat: store::Result<Stat>,
        levels: &mut Vec<OpenDirectory>,
    ) -> Option<()> {
        let stat = match stat {
            Ok(stat) => stat,
            Err(error) => return self.fail(source, at, &error),
        };
        if at.path.as_bytes().len() > PATH_BYTES_MAX {
            let reason = format!("the path is longer than the {PATH_BYTES_MAX} bytes that Linux opens");
            return self.refuse(source, at, Refusal::new(Fault::Storage, reason));
        }
        let attributes = match self.attributes(root, &at.path, &stat) {
            Ok(attributes) => attributes,
            Err(error) => return self.fail(source, at, &error),
        };
        match stat.meta.kind {
            Kind::Dir => self.dir(source, root, at, &stat, attributes, levels),
            Kind::File => self.file(source, root, at, &stat, attributes),
            Kind::Symlink => match root.store.read_link(&root.path.join_path(&at.path)) {
                Ok(target) => {
                    let offered = Offered::Symlink { mtime: stat.meta.mtime, target };
                    self.offer(source, at, offered, attributes)
                }
                Err(error) => self.fail(source, at, &error),
            },
            Kind::Special => self.offer(source, at, Offered::Special, None),
        }
    }

    /// The further attributes of an entry; most entries have none.
    fn attributes(&self, root: &SourceRoot, path: &RelPath, stat: &Stat) -> store::Result<Option<Box<Attributes>>> {
        let mut attributes = Attributes::default();
        if self.selection.owner || self.selection.xattrs {
            attributes = root.store.attributes(&root.path.join_path(path), self.selection)?;
        }
        attributes.sparse = root.store.capabilities().sparse && stat.allocated < stat.meta.size;
        Ok((!attributes.is_plain()).then(|| Box::new(attributes)))
    }

    fn dir(
        &mut self,
        source: u32,
        root: &SourceRoot,
        at: EntryPaths,
        stat: &Stat,
        attributes: Option<Box<Attributes>>,
        levels: &mut Vec<OpenDirectory>,
    ) -> Option<()> {
        if !self.recursive {
            let reason = format!("{} is a directory; copy it with -r", at.name);
            return self.refuse(source, at, Refusal::new(Fault::Config, reason));
        }
        if self.copy_links
            && let Some(above) = levels.iter().find(|level| level.identity == stat.identity)
        {
            let above = if above.path.is_root() { root.name.to_string() } else { above.path.to_string() };
            let reason = format!("a link that leads back to {above}, of which it is a part: it would have no end");
            return self.refuse(source, at, Refusal::new(Fault::Config, reason));
        }
        if self.copy_links {
            self.sink.reached(stat.identity);
        }
        let entries = match root.store.list(&root.path.join_path(&at.path)) {
            Ok(entries) => entries.finished(),
            Err(error) => return self.fail(source, at, &error),
        };
        let offered = Offered::Dir { mode: stat.meta.mode, mtime: stat.meta.mtime };
        let level = OpenDirectory {
            path: at.path.clone(),
            target_path: at.target_path.clone(),
            identity: stat.identity,
            entries,
        };
        self.offer(source, at, offered, attributes)?;
        levels.push(level);
        Some(())
    }

    fn file(
        &mut self,
        source: u32,
        root: &SourceRoot,
        at: EntryPaths,
        stat: &Stat,
        attributes: Option<Box<Attributes>>,
    ) -> Option<()> {
        let endless = !root.store.capabilities().sized;
        let size = if endless { UNKNOWN_SIZE } else { stat.meta.size };
        let offered = Offered::File { mode: stat.meta.mode, mtime: stat.meta.mtime, size };
        let expected = self.expected.remove(&at.target_path);
        if !endless && let Some(Err(refusal)) = expected.map(|expected| expected.check_bytes(size)) {
            return self.refuse(source, at, refusal);
        }
        // A file with an expectation is compared by itself: it is not offered as a hard link.
        if stat.names < 2 || expected.is_some() {
            let found = found(source, at, offered, attributes);
            let expected = expected.unwrap_or_default();
            return self.sink.offer(ScannedEntry { changed: stat.changed, expected, ..found }).map(drop);
        }
        if let Some(first) = self.linked.get_mut(&stat.identity).filter(|first| first.source == source) {
            let offered = Offered::HardLink { to: first.id, path: first.target_path.clone() };
            first.names_left -= 1;
            if first.names_left == 0 {
                self.linked.remove(&stat.identity);
            }
            return self.offer(source, at, offered, None);
        }
        let target_path = at.target_path.clone();
        let found = found(source, at, offered, attributes);
        let id = self.sink.offer(ScannedEntry { changed: stat.changed, ..found })?;
        self.linked.insert(stat.identity, LinkedFile { id, source, target_path, names_left: stat.names - 1 });
        Some(())
    }

    fn fail(&mut self, source: u32, at: EntryPaths, error: &store::Error) -> Option<()> {
        let mut refusal = Refusal::from_error(error);
        if error.is_not_found() {
            refusal.fault = Fault::Missing;
        }
        debug_assert!(refusal.fault == error.fault() || error.is_not_found());
        self.sink.unreachable(&refusal);
        self.refuse(source, at, refusal)
    }

    fn offer(&self, source: u32, at: EntryPaths, what: Offered, attributes: Option<Box<Attributes>>) -> Option<()> {
        self.sink.offer(found(source, at, what, attributes)).map(drop)
    }

    fn refuse(&self, source: u32, at: EntryPaths, refusal: Refusal) -> Option<()> {
        self.offer(source, at, Offered::Failed(refusal), None)
    }
}

/// An entry without a time of change and without an expectation.
fn found(source: u32, at: EntryPaths, what: Offered, attributes: Option<Box<Attributes>>) -> ScannedEntry {
    ScannedEntry {
        source,
        path: at.path,
        name: at.name,
        what,
        attributes,
        changed: None,
        expected: Expected::default(),
    }
}

/// The refusal for a directory on a server that cannot list.
pub fn unlisted(name: &str) -> Refusal {
    let reason = format!(
        "{name} is on a server that lists no directories (it is no WebDAV server): copy its files one by one, without -r, or name \
         them with --files-from"
    );
    Refusal::new(Fault::Config, reason)
}

fn names(path: &RelPath) -> Vec<Name> {
    let parts = path.as_bytes().split(|b| *b == b'/').filter(|part| !part.is_empty());
    parts.filter_map(|part| Name::new(part).ok()).collect()
}

//! Walking the source trees, depth first, and offering every entry to the sender's machine as it is found. A job for a
//! list of files walks that list instead, and what is below the directories in it.
//!
//! Memory: one open directory per level, and one entry per file that has more than one name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::entry::Attributes;
use model::fault::{Blame, Fault};
use model::name::{Name, PATH_BYTES_MAX, RelPath};
use model::spec::Options;
use model::{Expected, Kind, Refusal, Timestamp};
use store::{Asked, Entries, Stat, Store};
use wire::frame::{Offered, UNKNOWN_SIZE};

use crate::filelist::FileList;
use crate::filter::Filters;

/// One source of a job.
#[derive(Clone, Debug)]
pub struct SourceRoot {
    /// Where it is.
    pub store: Arc<dyn Store>,
    /// Its path there.
    pub path: RelPath,
    /// The name it travels under.
    pub name: Name,
}

impl SourceRoot {
    /// From here on a symbolic link is what it leads to. Where that cannot be had, links are left as they are, which shows at the
    /// target.
    pub(crate) fn follow_links(&mut self) {
        if let Ok(Some(following)) = self.store.following_links() {
            self.store = following;
        }
    }
}

/// Two sources of one name would end up in each other's place.
pub fn distinct_names(sources: &[SourceRoot]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    match sources.iter().find(|s| !seen.insert(&s.name)) {
        None => Ok(()),
        Some(twice) => {
            let reason = format!("two sources are named {}; copy them one by one, each to its own name", twice.name);
            Err(Refusal::new(Fault::Config, reason))
        }
    }
}

/// Several names of one file: its id in the job, the first path at the target, and how many names are still to come.
struct Linked {
    id: u64,
    source: u32,
    placed: RelPath,
    names_left: u64,
}

/// An entry: where it is below the source root, and where it is to be below the target. The two differ only in a list
/// of files that renames.
struct At {
    path: RelPath,
    placed: RelPath,
    name: Name,
}

impl At {
    fn below(level: &Level, name: Name) -> At {
        At { path: level.path.join(&name), placed: level.placed.join(&name), name }
    }
}

struct Level {
    path: RelPath,
    placed: RelPath,
    /// Of the directory: a link may lead back to it.
    identity: (u64, u64),
    entries: Entries,
}

/// An entry that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which of the sources it is in.
    pub source: u32,
    /// Its path there.
    pub path: RelPath,
    /// The name it travels under.
    pub name: Name,
    /// What it is.
    pub what: Offered,
    /// What is to be kept of it besides.
    pub attributes: Option<Box<Attributes>>,
    /// When it was last changed in any way, where the store says so of a file.
    pub changed: Option<Timestamp>,
    /// What it must be.
    pub expected: Expected,
}

/// Takes what a scan finds.
pub trait ScanSink {
    /// The sources.
    fn roots(&self) -> &[SourceRoot];
    /// An entry, taken when there is room; its number. `None` when the job is over.
    fn offer(&self, found: Found) -> Option<u64>;
    /// The innermost directory is done. `None` when the job is over.
    fn leave(&self) -> Option<()>;
    /// Everything has been found.
    fn scan_end(&self);
    /// So many unfinished files of a directory were left out.
    fn left_out(&self, files: u64);
    /// A directory that may have been reached through a link: the target must not lie in it, wherever it is.
    fn reached(&self, identity: (u64, u64));
    /// A source that cannot be reached now would be so for every further file: the attempt ends, for another to go on.
    fn unreachable(&self, refusal: &Refusal);
}

/// Walks one job's sources.
pub struct Scanner<'a> {
    sink: &'a dyn ScanSink,
    recursive: bool,
    copy_links: bool,
    asked: Asked,
    filters: Filters,
    linked: HashMap<(u64, u64), Linked>,
    /// What files must be that were listed, by their paths below the target.
    expected: HashMap<RelPath, Expected>,
}

impl<'a> Scanner<'a> {
    /// A scanner that offers to `sink`. Patterns that do not read have been refused before; here nothing would fit them.
    pub fn new(sink: &'a dyn ScanSink, options: &Options) -> Scanner<'a> {
        let filters = Filters::new(&options.filters).unwrap_or_else(|_| Filters::nothing());
        let asked = Asked { owner: options.owner, xattrs: options.xattrs };
        let Options { recursive, copy_links, .. } = *options;
        Scanner { sink, recursive, copy_links, asked, filters, linked: HashMap::new(), expected: HashMap::new() }
    }

    /// Walks everything, or what is listed. Returns early when the job is over.
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
        let mut levels: Vec<Level> = Vec::new();
        let at = At { path: RelPath::root(), placed: RelPath::root(), name: root.name.clone() };
        // Nobody could tell whether it is one file, or a page that stands for many.
        let is_dir = stat.as_ref().is_ok_and(|stat| stat.meta.kind == Kind::Dir);
        if stat.is_ok() && (self.recursive || is_dir) && !root.store.capabilities().lists {
            let refusal = unlisted(&at.name.to_string());
            return self.refuse(source, at, refusal);
        }
        self.entry(source, root, at, stat, &mut levels)?;
        self.walk_levels(source, root, levels)
    }

    fn walk_levels(&mut self, source: u32, root: &SourceRoot, mut levels: Vec<Level>) -> Option<()> {
        while let Some(level) = levels.last_mut() {
            match level.entries.next() {
                None => {
                    self.sink.left_out(level.entries.left_out());
                    levels.pop();
                    self.sink.leave()?;
                }
                Some(Ok((name, stat))) => {
                    let at = At::below(level, name);
                    let is_dir = stat.as_ref().is_ok_and(|stat| stat.meta.kind == Kind::Dir);
                    if self.filters.takes(&at.path, is_dir) {
                        self.entry(source, root, at, stat, &mut levels)?;
                    }
                }
                Some(Err(error)) => {
                    // The rest of this directory cannot be read: its name stands for what is missing.
                    let name = level.path.name().unwrap_or_else(|| root.name.clone());
                    let at = At { path: level.path.clone(), placed: level.placed.clone(), name };
                    self.fail(source, at, &error)?;
                    levels.pop();
                    self.sink.leave()?;
                }
            }
        }
        Some(())
    }

    /// Offers what is listed, below directories that are made where they are missing.
    fn walk_list(&mut self, root: &SourceRoot, list: &FileList) -> Option<()> {
        let top = At { path: RelPath::root(), placed: RelPath::root(), name: root.name.clone() };
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
                let placed = open.iter().fold(RelPath::root(), |path, name| path.join(name)).join(name);
                self.implied_dir(At { path: placed.clone(), placed, name: name.clone() })?;
                open.push(name.clone());
            }
            let stat = root.store.stat(&root.path.join_path(from));
            let name = to.name().unwrap_or_else(|| root.name.clone());
            let mut levels = Vec::new();
            self.entry(0, root, At { path: from.clone(), placed: to.clone(), name }, stat, &mut levels)?;
            self.walk_levels(0, root, levels)?;
        }
        for _ in 0..=open.len() {
            self.sink.leave()?;
        }
        Some(())
    }

    /// A directory that is there for what is in it: one that exists stays as it is.
    fn implied_dir(&mut self, at: At) -> Option<()> {
        let offered = Offered::Dir { mode: 0o755, mtime: Timestamp::default() };
        let attributes = Attributes { implied: true, ..Attributes::default() };
        self.offer(0, at, offered, Some(Box::new(attributes)))
    }

    fn entry(
        &mut self,
        source: u32,
        root: &SourceRoot,
        at: At,
        stat: store::Result<Stat>,
        levels: &mut Vec<Level>,
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

    /// What else there is to say about an entry; mostly nothing.
    fn attributes(&self, root: &SourceRoot, path: &RelPath, stat: &Stat) -> store::Result<Option<Box<Attributes>>> {
        let mut attributes = Attributes::default();
        if self.asked.owner || self.asked.xattrs {
            attributes = root.store.attributes(&root.path.join_path(path), self.asked)?;
        }
        attributes.sparse = root.store.capabilities().sparse && stat.allocated < stat.meta.size;
        Ok((!attributes.is_plain()).then(|| Box::new(attributes)))
    }

    fn dir(
        &mut self,
        source: u32,
        root: &SourceRoot,
        at: At,
        stat: &Stat,
        attributes: Option<Box<Attributes>>,
        levels: &mut Vec<Level>,
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
        let level = Level { path: at.path.clone(), placed: at.placed.clone(), identity: stat.identity, entries };
        self.offer(source, at, offered, attributes)?;
        levels.push(level);
        Some(())
    }

    fn file(
        &mut self,
        source: u32,
        root: &SourceRoot,
        at: At,
        stat: &Stat,
        attributes: Option<Box<Attributes>>,
    ) -> Option<()> {
        let endless = !root.store.capabilities().sized;
        let size = if endless { UNKNOWN_SIZE } else { stat.meta.size };
        let offered = Offered::File { mode: stat.meta.mode, mtime: stat.meta.mtime, size };
        let expected = self.expected.remove(&at.placed);
        if !endless && let Some(Err(refusal)) = expected.map(|expected| expected.check_bytes(size)) {
            return self.refuse(source, at, refusal);
        }
        // A file of which something is expected is compared by itself, and not another name of one that was sent.
        if stat.names < 2 || expected.is_some() {
            let found = found(source, at, offered, attributes);
            let expected = expected.unwrap_or_default();
            return self.sink.offer(Found { changed: stat.changed, expected, ..found }).map(drop);
        }
        if let Some(first) = self.linked.get_mut(&stat.identity).filter(|first| first.source == source) {
            let offered = Offered::HardLink { to: first.id, path: first.placed.clone() };
            first.names_left -= 1;
            if first.names_left == 0 {
                self.linked.remove(&stat.identity);
            }
            return self.offer(source, at, offered, None);
        }
        let placed = at.placed.clone();
        let found = found(source, at, offered, attributes);
        let id = self.sink.offer(Found { changed: stat.changed, ..found })?;
        self.linked.insert(stat.identity, Linked { id, source, placed, names_left: stat.names - 1 });
        Some(())
    }

    fn fail(&mut self, source: u32, at: At, error: &store::Error) -> Option<()> {
        let mut refusal = Refusal::from_error(error);
        if error.is_not_found() {
            refusal.fault = Fault::Missing;
        }
        debug_assert!(refusal.fault == error.fault() || error.is_not_found());
        self.sink.unreachable(&refusal);
        self.refuse(source, at, refusal)
    }

    fn offer(&self, source: u32, at: At, what: Offered, attributes: Option<Box<Attributes>>) -> Option<()> {
        self.sink.offer(found(source, at, what, attributes)).map(drop)
    }

    fn refuse(&self, source: u32, at: At, refusal: Refusal) -> Option<()> {
        self.offer(source, at, Offered::Failed(refusal), None)
    }
}

/// An entry of which no change is known.
fn found(source: u32, at: At, what: Offered, attributes: Option<Box<Attributes>>) -> Found {
    Found { source, path: at.path, name: at.name, what, attributes, changed: None, expected: Expected::default() }
}

/// Why nothing below it can be copied.
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

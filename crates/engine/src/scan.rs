//! Walking the source trees, depth first, and offering every entry to the sender's machine as it is found.
//!
//! Memory: one open directory per level, and one entry per file that has more than one name.

use std::collections::HashMap;
use std::sync::Arc;

use model::Kind;
use model::fault::{Blame, Fault};
use model::name::{Name, PATH_BYTES_MAX, RelPath};
use model::spec::Options;
use store::{Entries, Stat, Store};
use wire::frame::{Offered, Refusal, UNKNOWN_SIZE};

use crate::send::Sending;

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

/// Several names of one file: its id in the job, the first path, and how many names are still to come.
struct Linked {
    id: u64,
    source: u32,
    path: RelPath,
    names_left: u64,
}

struct Level {
    path: RelPath,
    entries: Entries,
}

/// Walks one job's sources.
pub struct Scanner<'a> {
    sending: &'a Sending,
    recursive: bool,
    linked: HashMap<(u64, u64), Linked>,
}

impl<'a> Scanner<'a> {
    /// A scanner that offers to `sending`.
    pub fn new(sending: &'a Sending, options: &Options) -> Scanner<'a> {
        Scanner { sending, recursive: options.recursive, linked: HashMap::new() }
    }

    /// Walks everything. Returns early when the job is over.
    pub fn run(mut self) {
        let roots = self.sending.roots().to_vec();
        for (index, root) in roots.iter().enumerate() {
            if self.walk(index as u32, root).is_none() {
                return;
            }
        }
        self.sending.scan_end();
    }

    /// `None` when the job is over.
    fn walk(&mut self, source: u32, root: &SourceRoot) -> Option<()> {
        let stat = root.store.stat(&root.path);
        let mut levels: Vec<Level> = Vec::new();
        self.entry(source, root, RelPath::root(), root.name.clone(), stat, &mut levels)?;
        while let Some(level) = levels.last_mut() {
            match level.entries.next() {
                None => {
                    levels.pop();
                    self.sending.leave()?;
                }
                Some(Ok((name, stat))) => {
                    let path = level.path.join(&name);
                    self.entry(source, root, path, name, stat, &mut levels)?;
                }
                Some(Err(error)) => {
                    // The rest of this directory cannot be read: its name stands for what is missing.
                    let path = level.path.clone();
                    let name = path.name().unwrap_or_else(|| root.name.clone());
                    self.fail(source, path, name, &error)?;
                    levels.pop();
                    self.sending.leave()?;
                }
            }
        }
        Some(())
    }

    fn entry(
        &mut self,
        source: u32,
        root: &SourceRoot,
        path: RelPath,
        name: Name,
        stat: store::Result<Stat>,
        levels: &mut Vec<Level>,
    ) -> Option<()> {
        let stat = match stat {
            Ok(stat) => stat,
            Err(error) => return self.fail(source, path, name, &error),
        };
        if path.as_bytes().len() > PATH_BYTES_MAX {
            let reason = format!("the path is longer than the {PATH_BYTES_MAX} bytes that Linux opens");
            return self.offer(source, path, name, Offered::Failed(Refusal::new(Fault::Storage, reason))).map(drop);
        }
        match stat.meta.kind {
            Kind::Dir => self.dir(source, root, path, name, &stat, levels),
            Kind::File => self.file(source, root, path, name, &stat),
            Kind::Symlink => match root.store.read_link(&root.path.join_path(&path)) {
                Ok(target) => {
                    self.offer(source, path, name, Offered::Symlink { mtime: stat.meta.mtime, target }).map(drop)
                }
                Err(error) => self.fail(source, path, name, &error),
            },
            Kind::Special => self.offer(source, path, name, Offered::Special).map(drop),
        }
    }

    fn dir(
        &mut self,
        source: u32,
        root: &SourceRoot,
        path: RelPath,
        name: Name,
        stat: &Stat,
        levels: &mut Vec<Level>,
    ) -> Option<()> {
        if !self.recursive {
            let reason = "is a directory; copy it with -r";
            let refusal = Refusal::new(Fault::Config, format!("{name} {reason}"));
            return self.offer(source, path, name, Offered::Failed(refusal)).map(drop);
        }
        let entries = match root.store.list(&root.path.join_path(&path)) {
            Ok(entries) => entries,
            Err(error) => return self.fail(source, path, name, &error),
        };
        let offered = Offered::Dir { mode: stat.meta.mode, mtime: stat.meta.mtime };
        self.offer(source, path.clone(), name, offered)?;
        levels.push(Level { path, entries });
        Some(())
    }

    fn file(&mut self, source: u32, root: &SourceRoot, path: RelPath, name: Name, stat: &Stat) -> Option<()> {
        let endless = !root.store.capabilities().random_write;
        let size = if endless { UNKNOWN_SIZE } else { stat.meta.size };
        let offered = Offered::File { mode: stat.meta.mode, mtime: stat.meta.mtime, size };
        if stat.names < 2 {
            return self.offer(source, path, name, offered).map(drop);
        }
        if let Some(first) = self.linked.get_mut(&stat.identity).filter(|first| first.source == source) {
            let (to, first_path) = (first.id, first.path.clone());
            first.names_left -= 1;
            if first.names_left == 0 {
                self.linked.remove(&stat.identity);
            }
            return self.offer(source, path, name, Offered::HardLink { to, path: first_path }).map(drop);
        }
        let id = self.offer(source, path.clone(), name, offered)?;
        self.linked.insert(stat.identity, Linked { id, source, path, names_left: stat.names - 1 });
        Some(())
    }

    fn fail(&mut self, source: u32, path: RelPath, name: Name, error: &store::Error) -> Option<()> {
        let mut refusal = Refusal::from_error(error);
        if error.is_not_found() {
            refusal.fault = Fault::Missing;
        }
        debug_assert!(refusal.fault == error.fault() || error.is_not_found());
        self.offer(source, path, name, Offered::Failed(refusal)).map(drop)
    }

    fn offer(&self, source: u32, path: RelPath, name: Name, what: Offered) -> Option<u64> {
        self.sending.offer(source, path, name, what)
    }
}

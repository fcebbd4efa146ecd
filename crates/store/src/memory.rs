//! A store in memory: the smallest complete implementation of the trait, for tests of everything above.
//!
//! It follows no symbolic links: a path leads through directories only.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::name::RelPath;
use model::{Kind, Meta, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::error::{kind_phrase, shown};
use crate::{Capabilities, Entries, Error, Extent, Finish, Result, Sink, Source, Stat, Store, Writes};

#[derive(Clone, Debug)]
enum Node {
    Dir { mode: u32, mtime: Timestamp },
    File { id: u64, bytes: Arc<Vec<u8>>, mode: u32, mtime: Timestamp },
    Link { target: Vec<u8>, mtime: Timestamp },
}

type Tree = BTreeMap<RelPath, Node>;

/// A tree in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    tree: Arc<Mutex<Tree>>,
    next_id: Arc<AtomicU64>,
}

impl Default for Memory {
    fn default() -> Memory {
        let root = Node::Dir { mode: 0o755, mtime: Timestamp::default() };
        let tree = Arc::new(Mutex::new(BTreeMap::from([(RelPath::root(), root)])));
        Memory { tree, next_id: Arc::new(AtomicU64::new(1)) }
    }
}

fn not_found(doing: &'static str, path: &RelPath) -> Error {
    Error::io(doing, path, std::io::Error::from(std::io::ErrorKind::NotFound))
}

fn wrong_kind(path: &RelPath, node: &Node, wanted: &'static str) -> Error {
    Error::Kind { path: shown(path), found: kind_phrase(facts(node, &BTreeMap::new()).meta.kind), wanted }
}

fn has_children(tree: &Tree, path: &RelPath) -> bool {
    tree.keys().any(|p| !p.is_root() && p.parent() == *path)
}

impl Memory {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock()
    }

    fn parent_is_dir(tree: &Tree, doing: &'static str, path: &RelPath) -> Result<()> {
        match tree.get(&path.parent()) {
            Some(Node::Dir { .. }) => Ok(()),
            _ => Err(not_found(doing, path)),
        }
    }

    fn not_the_root(doing: &'static str, path: &RelPath) -> Result<()> {
        if path.is_root() { Err(Error::Unsupported { what: doing, store: "the root itself" }) } else { Ok(()) }
    }

    /// Puts a node under a name, under the rules of a rename.
    fn put(tree: &mut Tree, path: &RelPath, node: Node, replace: bool) -> Result<()> {
        Self::parent_is_dir(tree, "create", path)?;
        match tree.get(path) {
            Some(Node::Dir { .. }) => {
                return Err(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" });
            }
            Some(_) if !replace => return Err(Error::Exists(shown(path))),
            _ => {}
        }
        tree.insert(path.clone(), node);
        Ok(())
    }
}

/// How many names each file has.
fn names(tree: &Tree) -> BTreeMap<u64, u64> {
    let mut names = BTreeMap::new();
    for node in tree.values() {
        if let Node::File { id, .. } = node {
            *names.entry(*id).or_default() += 1;
        }
    }
    names
}

fn facts(node: &Node, names: &BTreeMap<u64, u64>) -> Stat {
    let (kind, mode, size, mtime, id) = match node {
        Node::Dir { mode, mtime } => (Kind::Dir, *mode, 0, *mtime, 0),
        Node::File { id, bytes, mode, mtime } => (Kind::File, *mode, bytes.len() as u64, *mtime, *id),
        Node::Link { mtime, .. } => (Kind::Symlink, 0o777, 0, *mtime, 0),
    };
    let names = names.get(&id).copied().unwrap_or(1);
    Stat { meta: Meta { kind, mode, size, mtime }, identity: (0, id), names, allocated: size, changed: None }
}

impl Store for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::Anywhere,
            any_name: true,
            sized: true,
            times: true,
            posix: true,
            sparse: false,
            keeps: true,
            lists: true,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        let tree = self.tree();
        let node = tree.get(path).ok_or_else(|| not_found("examine", path))?;
        Ok(facts(node, &names(&tree)))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        matches!(self.tree().get(path), Some(Node::Dir { .. }))
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let tree = self.tree();
        match tree.get(path) {
            Some(Node::Dir { .. }) => {}
            Some(_) => return Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            None => return Err(not_found("list", path)),
        }
        let names = names(&tree);
        let children: Vec<_> = tree
            .iter()
            .filter(|(p, _)| !p.is_root() && p.parent() == *path)
            .filter_map(|(p, node)| p.name().map(|name| Ok((name, Ok(facts(node, &names))))))
            .collect();
        Ok(Entries::new(children.into_iter()))
    }

    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        match self.tree().get(path) {
            Some(Node::Link { target, .. }) => Ok(target.clone()),
            _ => Err(not_found("read the link", path)),
        }
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let tree = self.tree();
        match tree.get(path) {
            Some(node @ Node::File { bytes, .. }) => {
                Ok(Arc::new(MemoryFile { bytes: Arc::clone(bytes), stat: facts(node, &names(&tree)) }))
            }
            Some(node) => Err(wrong_kind(path, node, "a file")),
            None => Err(not_found("open", path)),
        }
    }

    fn create(&self, path: &RelPath, _tag: &str) -> Result<Arc<dyn Sink>> {
        Self::not_the_root("create", path)?;
        Self::parent_is_dir(&self.tree(), "create", path)?;
        Ok(Arc::new(MemorySink { store: self.clone(), path: path.clone(), bytes: Mutex::default() }))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        let mut tree = self.tree();
        Self::parent_is_dir(&tree, "create", path)?;
        match tree.get_mut(path) {
            // Its owner must be able to write into it; `finish_dir` sets the final mode later.
            Some(Node::Dir { mode, .. }) => *mode |= 0o700,
            Some(node) => return Err(wrong_kind(path, node, "a directory")),
            None => {
                tree.insert(path.clone(), Node::Dir { mode: 0o755, mtime: Timestamp::default() });
            }
        }
        Ok(())
    }

    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, _tag: &str) -> Result<()> {
        Self::put(&mut self.tree(), path, Node::Link { target: target.to_vec(), mtime }, replace)
    }

    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, _tag: &str) -> Result<()> {
        let mut tree = self.tree();
        let node = tree.get(to).filter(|n| matches!(n, Node::File { .. })).cloned();
        Self::put(&mut tree, path, node.ok_or_else(|| not_found("link", to))?, replace)
    }

    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        match self.tree().get_mut(path) {
            Some(node @ Node::Dir { .. }) => *node = Node::Dir { mode, mtime },
            _ => return Err(not_found("finish", path)),
        }
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        Self::not_the_root("remove", path)?;
        let mut tree = self.tree();
        if has_children(&tree, path) {
            let error = std::io::Error::from(std::io::ErrorKind::DirectoryNotEmpty);
            return Err(Error::io("remove", path, error));
        }
        tree.remove(path).map(drop).ok_or_else(|| not_found("remove", path))
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let mut tree = self.tree();
        Self::not_the_root("rename", from)?;
        Self::not_the_root("rename", to)?;
        Self::parent_is_dir(&tree, "rename", to)?;
        let from_dir = matches!(tree.get(from).ok_or_else(|| not_found("rename", from))?, Node::Dir { .. });
        if !replace && tree.contains_key(to) {
            return Err(Error::Exists(shown(to)));
        }
        let refused = match tree.get(to) {
            _ if from != to && to.starts_with(from) => Some(ErrorKind::InvalidInput),
            _ if from == to => None,
            Some(Node::Dir { .. }) if !from_dir => Some(ErrorKind::IsADirectory),
            Some(Node::Dir { .. }) if has_children(&tree, to) => Some(ErrorKind::DirectoryNotEmpty),
            Some(Node::File { .. } | Node::Link { .. }) if from_dir => Some(ErrorKind::NotADirectory),
            _ => None,
        };
        if let Some(kind) = refused {
            return Err(Error::io("rename", from, std::io::Error::from(kind)));
        }
        let moved: Vec<_> = tree.keys().filter(|p| p.starts_with(from)).cloned().collect();
        for path in moved {
            let below = RelPath::parse(&path.as_bytes()[from.as_bytes().len()..]).unwrap_or_default();
            if let Some(node) = tree.remove(&path) {
                tree.insert(to.join_path(&below), node);
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    bytes: Arc<Vec<u8>>,
    stat: Stat,
}

impl Source for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let from = self.bytes.get(offset as usize..).unwrap_or_default();
        let len = from.len().min(buffer.len());
        buffer[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.stat)
    }

    fn extent(&self, _offset: u64, size: u64) -> Result<Extent> {
        Ok(Extent::Data(size))
    }
}

#[derive(Debug)]
struct MemorySink {
    store: Memory,
    path: RelPath,
    bytes: Mutex<Vec<u8>>,
}

impl MemorySink {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock()
    }
}

impl Sink for MemorySink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let mut bytes = self.bytes();
        let end = offset as usize + buffer.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buffer);
        Ok(())
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        let bytes = Arc::new(self.bytes().clone());
        let node = Node::File { id: 0, bytes: Arc::clone(&bytes), mode: 0, mtime: Timestamp::default() };
        Ok(Arc::new(MemoryFile { bytes, stat: facts(&node, &BTreeMap::new()) }))
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        let mut bytes = std::mem::take(&mut *self.bytes());
        bytes.resize(finish.size as usize, 0);
        let mut tree = self.store.tree();
        // An id is never used twice: a reader may still hold the file that had it.
        let id = self.store.next_id.fetch_add(1, Ordering::Relaxed);
        let node = Node::File { id, bytes: Arc::new(bytes), mode: finish.mode, mtime: finish.mtime };
        Memory::put(&mut tree, &self.path, node, finish.replace)
    }

    fn discard(&self) {
        self.bytes().clear();
    }
}

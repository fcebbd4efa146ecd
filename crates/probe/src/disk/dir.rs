//! A directory by its descriptor. All entries are made, opened and removed through the descriptor, so that a user who moves the
//! directory and puts a link in its place cannot redirect these operations. The path is only for messages.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

/// Depth of directories below the test's own one.
const DEPTH: u32 = 1;
/// Most passes over the entries: some file systems skip an entry where another one was removed. Bounded, as other users may
/// make new entries all the time.
const PASSES_MAX: u32 = 8;
/// Access for the owner alone, of directories and of files.
const OWN_DIR: Mode = Mode::RWXU;
const OWN_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    handle: File,
    path: PathBuf,
}

fn directory() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn file(direct: bool) -> OFlags {
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if direct { common | OFlags::DIRECT } else { common }
}

impl Dir {
    /// Opens a directory by its path, following links.
    pub(super) fn open(path: &Path) -> io::Result<Dir> {
        let handle = retry_on_intr(|| rustix::fs::open(path, directory(), Mode::empty()))?;
        Ok(Dir { handle: handle.into(), path: path.into() })
    }

    /// Opens a directory in this one; a link is refused.
    pub(super) fn below(&self, name: &str) -> io::Result<Dir> {
        let flags = directory() | OFlags::NOFOLLOW;
        let handle = retry_on_intr(|| openat(&self.handle, name, flags, Mode::empty()))?;
        Ok(Dir { handle: handle.into(), path: self.path.join(name) })
    }

    pub(super) fn handle(&self) -> &File {
        &self.handle
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an entry.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a directory in this one, for its owner alone.
    pub(super) fn make_dir(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.handle, name, OWN_DIR)?)
    }

    /// Makes a file for writing, past the page cache if `direct`. Fails if the name exists. On a file system without direct
    /// access an empty file may remain.
    pub(super) fn create(&self, name: &str, direct: bool) -> io::Result<File> {
        let flags = file(direct) | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        Ok(retry_on_intr(|| openat(&self.handle, name, flags, OWN_FILE))?.into())
    }

    /// Opens a file for reading, past the page cache if `direct`.
    pub(super) fn read(&self, name: &str, direct: bool) -> io::Result<File> {
        let flags = file(direct) | OFlags::RDONLY;
        Ok(retry_on_intr(|| openat(&self.handle, name, flags, Mode::empty()))?.into())
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Removes an empty directory in it.
    pub(super) fn remove_dir(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    /// The names of its entries, as far as they are valid UTF-8.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = String>> {
        let entries = rustix::fs::Dir::read_from(&self.handle)?.filter_map(|entry| entry.ok());
        let names = entries.filter(|entry| !is_dots(entry.file_name()));
        Ok(names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned)))
    }

    /// Whether it has no entries. An entry that cannot be read counts as one.
    pub(super) fn is_empty(&self) -> io::Result<bool> {
        let mut entries = rustix::fs::Dir::read_from(&self.handle)?;
        Ok(entries.all(|entry| entry.is_ok_and(|entry| is_dots(entry.file_name()))))
    }

    /// Device and inode, which identify the directory under any name.
    pub(super) fn identity(&self) -> io::Result<(u64, u64)> {
        let metadata = self.handle.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// The first error; the other entries are removed nevertheless.
    pub(super) fn empty(&self) -> io::Result<()> {
        empty(&self.handle, DEPTH)
    }
}

fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}

fn empty(handle: &File, depth: u32) -> io::Result<()> {
    for _ in 0..PASSES_MAX {
        if clear(handle, depth)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Removes the entries that one pass shows; returns their number.
fn clear(handle: &File, depth: u32) -> io::Result<u64> {
    let mut removed = 0;
    let mut failed = None;
    for entry in rustix::fs::Dir::read_from(handle)? {
        let entry = entry?;
        if is_dots(entry.file_name()) {
            continue;
        }
        match discard(handle, entry.file_name(), depth) {
            Ok(()) => removed += 1,
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(removed), Err)
}

fn discard(handle: &File, name: &CStr, depth: u32) -> io::Result<()> {
    match unlinkat(handle, name, AtFlags::empty()) {
        // The entry is a directory: Linux returns the first error, POSIX the second.
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
        other => return Ok(other?),
    }
    let flags = directory() | OFlags::NOFOLLOW;
    let below = retry_on_intr(|| openat(handle, name, flags, Mode::empty()))?;
    empty(&below.into(), depth - 1)?;
    Ok(unlinkat(handle, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn links_and_existing_files_are_refused() {
        let above = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("f"), "theirs").unwrap();
        let dir = Dir::open(above.path()).unwrap();
        symlink(elsewhere.path(), above.path().join("d")).unwrap();
        symlink(elsewhere.path().join("f"), above.path().join("f")).unwrap();
        symlink(elsewhere.path().join("new"), above.path().join("g")).unwrap();
        assert!(dir.below("d").is_err() && dir.make_dir("d").is_err());
        assert!(dir.read("f", false).is_err() && dir.create("f", false).is_err() && dir.create("g", false).is_err());
        dir.empty().unwrap();
        assert_eq!((names(above.path()), names(elsewhere.path())), (0, 1));
        assert_eq!(std::fs::read(elsewhere.path().join("f")).unwrap(), b"theirs");
    }

    #[test]
    fn new_entries_are_accessible_only_to_their_owner() {
        let above = tempfile::tempdir().unwrap();
        let dir = Dir::open(above.path()).unwrap();
        dir.make_dir("d").unwrap();
        dir.below("d").unwrap().create("f", false).unwrap();
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!((mode(dir.at("d")) & 0o077, mode(above.path().join("d/f")) & 0o177), (0, 0));
        dir.below("d").unwrap().rename("f", "g").unwrap();
        assert!(dir.remove_dir("d").is_err() && !dir.is_empty().unwrap());
        dir.empty().unwrap();
        assert!(dir.is_empty().unwrap());
    }

    /// Directories below the depth of a test's own belong to another user.
    #[test]
    fn deeper_directories_are_not_removed() {
        let above = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(above.path().join("a/b/c")).unwrap();
        std::fs::write(above.path().join("f"), "x").unwrap();
        let dir = Dir::open(above.path()).unwrap();
        assert!(dir.empty().is_err());
        assert!(above.path().join("a/b/c").exists() && !above.path().join("f").exists());
    }
}

//! The directory in which a test makes all its files. The test makes it, and removes it however the test ends. This module also
//! knows the free space, and refuses a test that needs more.

use std::fs::File;
use std::io;
use std::path::Path;

use model::Bytes;
use rustix::fs::{FlockOperation, flock};

use super::dir::Dir;
use super::order::SpaceNeeded;
use crate::{Error, Result};

/// Prefix of the directories' names, which shows their origin.
const PREFIX: &str = ".longhaul-probe-";
/// Share of a file system that stays free.
const KEPT: f64 = 0.05;
/// Most bytes that stay free: 5 % of a petabyte would be needlessly much.
const KEPT_MAX: u64 = 4 << 30;
/// Most directories of earlier tests in a report.
const LEFT_BEHIND_MAX: usize = 16;

/// An open directory to test. It stays the same directory, even if it is moved and its name is given to another one.
#[derive(Debug)]
pub struct OpenDirectory(Dir);

impl OpenDirectory {
    /// Opens a directory, following links.
    ///
    /// # Errors
    /// [`Error::File`]: it is not a directory, or may not be read; with the remedy.
    pub fn open(directory: &Path) -> Result<OpenDirectory> {
        Dir::open(directory).map(OpenDirectory).map_err(|e| failed("open", directory, e))
    }

    /// Opens a directory if it has this device and inode: for one that other users can move, and replace by a link or another
    /// directory.
    ///
    /// # Errors
    /// [`Error::File`]: as [`OpenDirectory::open`], or the name is now another directory's.
    pub fn open_same(directory: &Path, identity: (u64, u64)) -> Result<OpenDirectory> {
        let opened = OpenDirectory::open(directory)?;
        let found = opened.0.identity().map_err(|e| failed("examine", directory, e))?;
        if found == identity {
            return Ok(opened);
        }
        let path = directory.display().to_string();
        let why = "another directory has its name now; move it back";
        Err(Error::File { doing: "test below", path, source: io::Error::new(io::ErrorKind::NotFound, why) })
    }

    /// The path that it was opened by.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The directory of a test; removed with all its content when dropped.
#[derive(Debug)]
pub(super) struct TestDirectory<'a> {
    parent: &'a Dir,
    name: String,
    /// Locked while in use, which other tests can see.
    dir: Dir,
    removed: bool,
}

/// The space on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeSpace {
    pub total_bytes: u64,
    /// Free for users without privilege.
    pub free_bytes: u64,
    /// Files that can be made; none where the file system has no such limit.
    pub free_files: Option<u64>,
}

impl FreeSpace {
    pub(super) fn of(directory: &File) -> io::Result<FreeSpace> {
        let stat = rustix::fs::fstatvfs(directory)?;
        Ok(FreeSpace {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            free_files: (stat.f_files > 0).then_some(stat.f_favail),
        })
    }

    /// Bytes that a test leaves free.
    pub(super) fn kept(&self) -> u64 {
        ((self.total_bytes as f64 * KEPT) as u64).min(KEPT_MAX)
    }

    /// Why `needed` does not fit, in words; none if it does.
    pub(super) fn lacks(&self, needed: SpaceNeeded) -> Option<String> {
        if let Some(free) = self.free_files.filter(|free| *free < needed.files) {
            let needed = needed.files;
            return Some(format!("{needed} files are needed and {free} can be made; order fewer, or make room"));
        }
        if self.free_bytes >= needed.bytes.saturating_add(self.kept()) {
            return None;
        }
        let needed = Bytes(needed.bytes);
        let kept = Bytes(self.kept());
        let free = Bytes(self.free_bytes);
        Some(format!(
            "{needed} are needed and {kept} stay free, but only {free} are free; lower the budget, or make room"
        ))
    }
}

/// The error of an operation at a path, with the remedy if one is known.
pub(super) fn failed(doing: &'static str, path: &Path, source: io::Error) -> Error {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let remedy = match source.kind() {
        NotFound | NotADirectory => "name a directory that exists",
        PermissionDenied | ReadOnlyFilesystem => "name a directory that this user may write",
        StorageFull | QuotaExceeded => "make room, or lower the budget",
        _ => return Error::File { doing, path: path.display().to_string(), source },
    };
    let source = io::Error::new(source.kind(), format!("{source}; {remedy}"));
    Error::File { doing, path: path.display().to_string(), source }
}

impl<'a> TestDirectory<'a> {
    /// Makes the directory below `directory`, if there is room for a test.
    ///
    /// # Errors
    /// [`Error::File`]: `directory` may not be written, or there is no room; with the remedy.
    pub(super) fn make(directory: &'a OpenDirectory, needed: SpaceNeeded) -> Result<TestDirectory<'a>> {
        let parent = &directory.0;
        let room = FreeSpace::of(parent.handle()).map_err(|e| failed("read the free space of", parent.path(), e))?;
        if let Some(why) = room.lacks(needed) {
            let doing = "test below";
            let path = parent.path().display().to_string();
            return Err(Error::File { doing, path, source: io::Error::new(io::ErrorKind::StorageFull, why) });
        }
        let name = loop {
            let name = format!("{PREFIX}{:016x}", fastrand::u64(..));
            match parent.make_dir(&name) {
                Ok(()) => break name,
                // The name is taken, once in 2^64: try another one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make a directory below", parent.path(), error)),
            }
        };
        let dir = match open_new(parent, &name) {
            Ok(dir) => dir,
            Err(error) => {
                let _ = parent.remove_dir(&name);
                return Err(failed("open", &parent.at(&name), error));
            }
        };
        // On a file system without locks, other tests report this directory as left behind, and leave it alone.
        let _ = flock(dir.handle(), FlockOperation::NonBlockingLockExclusive);
        Ok(TestDirectory { parent, name, dir, removed: false })
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    pub(super) fn room(&self) -> io::Result<FreeSpace> {
        FreeSpace::of(self.dir.handle())
    }

    /// Directories of earlier tests beside it that no running test has locked.
    pub(super) fn left_behind(&self) -> Vec<String> {
        let Ok(names) = self.parent.names() else { return Vec::new() };
        let is_free = |name: &String| {
            let dir = self.parent.below(name);
            dir.is_ok_and(|dir| flock(dir.handle(), FlockOperation::NonBlockingLockShared).is_ok())
        };
        let ours = names.filter(|name| name.starts_with(PREFIX) && *name != self.name);
        let found = ours.filter(is_free).take(LEFT_BEHIND_MAX);
        found.map(|name| self.parent.at(&name).display().to_string()).collect()
    }

    /// Removes the directory with all its content.
    ///
    /// # Errors
    /// [`Error::File`]: an entry cannot be removed, or the directory was moved.
    pub(super) fn remove(mut self) -> Result<()> {
        self.removed = true;
        self.discard()
    }

    fn discard(&self) -> Result<()> {
        let path = self.dir.path();
        self.dir.empty().map_err(|e| failed("empty", path, e))?;
        self.parent.remove_dir(&self.name).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                let why = "another program moved it away during the test; it is empty, wherever it is";
                Error::File { doing: "remove", path: path.display().to_string(), source: io::Error::new(e.kind(), why) }
            }
            _ => failed("remove", path, e),
        })
    }
}

/// Opens the directory that was made a moment ago, if it is empty. Another user may have put a directory in its place, whose content
/// would be removed with the test.
fn open_new(parent: &Dir, name: &str) -> io::Result<Dir> {
    let dir = parent.below(name)?;
    if !dir.is_empty()? {
        return Err(io::Error::other("another program put a directory in its place; try again"));
    }
    Ok(dir)
}

impl Drop for TestDirectory<'_> {
    fn drop(&mut self) {
        if !self.removed {
            let _ = self.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn names(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_twentieth_of_the_file_system_stays_free() {
        let room = FreeSpace { total_bytes: 40 * GIB, free_bytes: 12 * GIB, free_files: Some(100) };
        let lacks = |bytes, files| room.lacks(SpaceNeeded { bytes, files });
        assert_eq!(lacks(10 * GIB, 100), None);
        let why = lacks(10 * GIB + 1, 1).unwrap();
        assert!(why.starts_with("10.0 GiB are needed and 2.00 GiB stay free, but only 12.0 GiB"), "{why}");
        assert!(lacks(u64::MAX, 1).is_some());
        let why = lacks(1, 101).unwrap();
        assert!(why.starts_with("101 files are needed and 100 can be made"), "{why}");
        let large = FreeSpace { total_bytes: 1 << 50, free_bytes: 5 * GIB, ..room };
        assert_eq!((large.lacks(SpaceNeeded { bytes: GIB, files: 1 }), large.kept()), (None, 4 * GIB));
        let endless = FreeSpace { free_files: None, ..room };
        assert_eq!(endless.lacks(SpaceNeeded { bytes: 1, files: u64::MAX }), None);
    }

    #[test]
    fn the_directory_is_removed_however_the_test_ends() {
        let parent = tempfile::tempdir().unwrap();
        let needed = SpaceNeeded { bytes: 4096, files: 1 };
        let directory = OpenDirectory::open(parent.path()).unwrap();
        let test_dir = TestDirectory::make(&directory, needed).unwrap();
        std::fs::create_dir(test_dir.dir().at("d-1")).unwrap();
        std::fs::write(test_dir.dir().at("d-1").join("f"), "x").unwrap();
        assert_eq!(names(parent.path()), 1);
        test_dir.remove().unwrap();
        assert_eq!(names(parent.path()), 0);
        drop(TestDirectory::make(&directory, needed).unwrap());
        assert_eq!(names(parent.path()), 0);
        let panicked = std::panic::catch_unwind(|| {
            let _test_dir = TestDirectory::make(&directory, needed).unwrap();
            panic!("a defect");
        });
        assert!(panicked.is_err());
        assert_eq!(names(parent.path()), 0);
    }

    #[test]
    fn directories_left_behind_are_reported() {
        let parent = tempfile::tempdir().unwrap();
        let needed = SpaceNeeded { bytes: 4096, files: 1 };
        let directory = OpenDirectory::open(parent.path()).unwrap();
        let [test_dir, other] = [(); 2].map(|()| TestDirectory::make(&directory, needed).unwrap());
        assert_eq!(test_dir.left_behind(), Vec::<String>::new(), "a directory in use is not reported");
        let old = parent.path().join(".longhaul-probe-0");
        std::fs::create_dir(&old).unwrap();
        std::fs::write(parent.path().join(".longhaul-probe-file"), "not one").unwrap();
        assert_eq!(test_dir.left_behind(), [old.display().to_string()]);
        assert_eq!(other.left_behind(), [old.display().to_string()]);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let parent = tempfile::tempdir().unwrap();
        let needed = SpaceNeeded { bytes: 4096, files: 1 };
        let why = |directory: &Path, needed| match OpenDirectory::open(directory)
            .and_then(|directory| TestDirectory::make(&directory, needed).map(drop))
        {
            Err(Error::File { source, path, .. }) => (source.kind(), format!("{path}: {source}")),
            other => panic!("{other:?}"),
        };
        let (kind, text) = why(&parent.path().join("no"), needed);
        assert!(kind == io::ErrorKind::NotFound && text.ends_with("name a directory that exists"), "{text}");
        let file = parent.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(why(&file, needed).0, io::ErrorKind::NotADirectory);
        let (kind, text) = why(parent.path(), SpaceNeeded { bytes: 1 << 60, files: 1 });
        assert!(kind == io::ErrorKind::StorageFull && text.contains("1.00 EiB are needed"), "{text}");
        assert_eq!(names(parent.path()), 1);
    }

    #[test]
    fn a_replaced_directory_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("d");
        std::fs::create_dir(&path).unwrap();
        let identity = Dir::open(&path).unwrap().identity().unwrap();
        OpenDirectory::open_same(&path, identity).unwrap();
        std::fs::rename(&path, parent.path().join("moved")).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
        let outcome = OpenDirectory::open_same(&path, identity);
        assert!(
            matches!(&outcome, Err(Error::File { source, .. }) if source.to_string().contains("another directory"))
        );
    }

    #[test]
    fn a_new_directory_that_is_not_empty_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("d")).unwrap();
        let dir = Dir::open(parent.path()).unwrap();
        open_new(&dir, "d").unwrap();
        std::fs::write(parent.path().join("d/theirs"), "x").unwrap();
        assert!(open_new(&dir, "d").is_err());
    }

    #[test]
    fn a_directory_that_was_moved_is_emptied_where_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let directory = OpenDirectory::open(parent.path()).unwrap();
        let test_dir = TestDirectory::make(&directory, SpaceNeeded { bytes: 4096, files: 1 }).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("theirs"), "x").unwrap();
        test_dir.dir().create("file-1", false).unwrap();
        std::fs::rename(test_dir.dir().path(), parent.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), test_dir.dir().path()).unwrap();
        test_dir.dir().create("file-2", false).unwrap();
        assert_eq!((names(&parent.path().join("moved")), names(elsewhere.path())), (2, 1));
        let Err(Error::File { source, .. }) = test_dir.remove() else { panic!("removed") };
        assert!(source.to_string().starts_with("another program moved it away"), "{source}");
        assert_eq!((names(&parent.path().join("moved")), names(elsewhere.path())), (0, 1));
    }
}

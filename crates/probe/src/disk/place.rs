//! The one directory in which a test does everything: made by it, removed by it however it ends. Knows how much room
//! there is, and refuses when that is too little.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use model::Bytes;
use rustix::fs::{FlockOperation, flock};

use super::order::Needed;
use crate::{Error, Result};

/// How names begin; whoever finds one knows whose it is.
const PREFIX: &str = ".longhaul-probe-";
/// The part of a file system that stays free.
const KEPT: f64 = 0.05;
/// Directories of earlier tests that are told of.
const LEFT_BEHIND_MAX: usize = 16;

/// The directory; removed with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Locked as long as it is in use, so that others know.
    handle: File,
    removed: bool,
}

/// The room on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub total_bytes: u64,
    /// For users.
    pub free_bytes: u64,
    /// None where the file system has no such limit.
    pub free_files: Option<u64>,
}

impl Room {
    pub(super) fn of(directory: &File) -> io::Result<Room> {
        let told = rustix::fs::fstatvfs(directory)?;
        Ok(Room {
            total_bytes: told.f_blocks.saturating_mul(told.f_frsize),
            free_bytes: told.f_bavail.saturating_mul(told.f_frsize),
            free_files: (told.f_files > 0).then_some(told.f_favail),
        })
    }

    /// What stays free, in bytes.
    pub(super) fn kept(&self) -> u64 {
        (self.total_bytes as f64 * KEPT) as u64
    }

    /// Why something has no room here.
    pub(super) fn lacks(&self, needed: Needed) -> Option<String> {
        if let Some(free) = self.free_files.filter(|free| *free < needed.files) {
            let needed = needed.files;
            return Some(format!("{needed} files are needed and {free} can be made; order fewer, or make room"));
        }
        if self.free_bytes >= needed.bytes.saturating_add(self.kept()) {
            return None;
        }
        let (needed, kept, free) = (Bytes(needed.bytes), Bytes(self.kept()), Bytes(self.free_bytes));
        Some(format!(
            "{needed} are needed and {kept} (5 %) stay free, but only {free} are free; lower the budget, or make room"
        ))
    }
}

/// A failure at a path, with what can be done about it.
pub(super) fn failed(doing: &'static str, path: &Path, source: io::Error) -> Error {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let remedy = match source.kind() {
        NotFound | NotADirectory => "name a directory that is there",
        PermissionDenied | ReadOnlyFilesystem => "name a directory that this user may write",
        StorageFull | QuotaExceeded => "make room, or lower the budget",
        _ => return Error::File { doing, path: path.display().to_string(), source },
    };
    let source = io::Error::new(source.kind(), format!("{source}; {remedy}"));
    Error::File { doing, path: path.display().to_string(), source }
}

impl Place {
    /// Makes it below a directory, if there is room.
    ///
    /// # Errors
    /// [`Error::File`]: no directory, not to be written, no room; with the remedy.
    pub(super) fn make(directory: &Path, needed: Needed) -> Result<Place> {
        let above = File::open(directory).map_err(|e| failed("open", directory, e))?;
        if !above.metadata().is_ok_and(|facts| facts.is_dir()) {
            return Err(failed("make files below", directory, io::ErrorKind::NotADirectory.into()));
        }
        let room = Room::of(&above).map_err(|e| failed("ask for the room below", directory, e))?;
        if let Some(why) = room.lacks(needed) {
            let (doing, path) = ("test below", directory.display().to_string());
            return Err(Error::File { doing, path, source: io::Error::new(io::ErrorKind::StorageFull, why) });
        }
        let path = loop {
            let path = directory.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                // One in 2^64.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make a directory below", directory, error)),
            }
        };
        let handle = match File::open(&path) {
            Ok(handle) => handle,
            Err(error) => {
                let _ = std::fs::remove_dir(&path);
                return Err(failed("open", &path, error));
            }
        };
        // Where locks are not to be had, others may take it for left behind: they only say so.
        let _ = flock(&handle, FlockOperation::NonBlockingLockExclusive);
        Ok(Place { path, handle, removed: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn handle(&self) -> &File {
        &self.handle
    }

    /// A name for a file that is not there yet.
    pub(super) fn name(&self, kind: &str, number: u64) -> PathBuf {
        self.path.join(format!("{kind}-{number}"))
    }

    pub(super) fn room(&self) -> io::Result<Room> {
        Room::of(&self.handle)
    }

    /// The directories beside it that no test holds any longer.
    pub(super) fn left_behind(&self) -> Vec<String> {
        let Some(entries) = self.path.parent().and_then(|above| std::fs::read_dir(above).ok()) else {
            return Vec::new();
        };
        let ours = |entry: &std::fs::DirEntry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            is_dir && entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.path() != self.path
        };
        let is_free = |entry: &std::fs::DirEntry| {
            let handle = File::open(entry.path());
            handle.is_ok_and(|handle| flock(&handle, FlockOperation::NonBlockingLockShared).is_ok())
        };
        let found = entries.filter_map(io::Result::ok).filter(ours).filter(is_free).take(LEFT_BEHIND_MAX);
        found.map(|entry| entry.path().display().to_string()).collect()
    }

    /// Removes it, and says so where it cannot.
    pub(super) fn remove(mut self) -> Result<()> {
        self.removed = true;
        std::fs::remove_dir_all(&self.path).map_err(|e| failed("remove", &self.path, e))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.removed {
            let _ = std::fs::remove_dir_all(&self.path);
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
    fn room_is_what_is_free_less_a_twentieth() {
        let room = Room { total_bytes: 100 * GIB, free_bytes: 15 * GIB, free_files: Some(100) };
        let lacks = |bytes, files| room.lacks(Needed { bytes, files });
        assert_eq!(lacks(10 * GIB, 100), None);
        let why = lacks(10 * GIB + 1, 1).unwrap();
        assert!(why.starts_with("10.0 GiB are needed and 5.00 GiB (5 %) stay free, but only 15.0 GiB"), "{why}");
        assert!(lacks(u64::MAX, 1).is_some());
        let why = lacks(1, 101).unwrap();
        assert!(why.starts_with("101 files are needed and 100 can be made"), "{why}");
        let endless = Room { free_files: None, ..room };
        assert_eq!(endless.lacks(Needed { bytes: 1, files: u64::MAX }), None);
    }

    #[test]
    fn it_is_gone_afterwards() {
        let above = tempfile::tempdir().unwrap();
        let needed = Needed { bytes: 4096, files: 1 };
        let place = Place::make(above.path(), needed).unwrap();
        std::fs::create_dir(place.name("d", 1)).unwrap();
        std::fs::write(place.name("d", 1).join("f"), "x").unwrap();
        assert_eq!(names(above.path()), 1);
        place.remove().unwrap();
        assert_eq!(names(above.path()), 0);
        drop(Place::make(above.path(), needed).unwrap());
        assert_eq!(names(above.path()), 0);
        let panicked = std::panic::catch_unwind(|| {
            let _place = Place::make(above.path(), needed).unwrap();
            panic!("a defect");
        });
        assert!(panicked.is_err());
        assert_eq!(names(above.path()), 0);
    }

    #[test]
    fn what_was_left_behind_is_told() {
        let above = tempfile::tempdir().unwrap();
        let needed = Needed { bytes: 4096, files: 1 };
        let [place, other] = [(); 2].map(|()| Place::make(above.path(), needed).unwrap());
        assert_eq!(place.left_behind(), Vec::<String>::new(), "one in use is nobody's business");
        let old = above.path().join(".longhaul-probe-0");
        std::fs::create_dir(&old).unwrap();
        std::fs::write(above.path().join(".longhaul-probe-file"), "not one").unwrap();
        assert_eq!(place.left_behind(), [old.display().to_string()]);
        assert_eq!(other.left_behind(), [old.display().to_string()]);
    }

    #[test]
    fn refusals_name_the_remedy() {
        let above = tempfile::tempdir().unwrap();
        let needed = Needed { bytes: 4096, files: 1 };
        let why = |directory: &Path, needed| match Place::make(directory, needed) {
            Err(Error::File { source, path, .. }) => (source.kind(), format!("{path}: {source}")),
            other => panic!("{other:?}"),
        };
        let (kind, text) = why(&above.path().join("no"), needed);
        assert!(kind == io::ErrorKind::NotFound && text.ends_with("name a directory that is there"), "{text}");
        let file = above.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(why(&file, needed).0, io::ErrorKind::NotADirectory);
        let (kind, text) = why(above.path(), Needed { bytes: 1 << 60, files: 1 });
        assert!(kind == io::ErrorKind::StorageFull && text.contains("1.00 EiB are needed"), "{text}");
        assert_eq!(names(above.path()), 1);
    }
}

//! Files below the agent's directory, before and after a copy. Links are not followed, so that no link leads out of the directory.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A link that leads to `/dev/null`, for one process. It is removed when this is dropped, with whatever a tool has put in its place.
pub(super) struct NullLink(PathBuf);

impl NullLink {
    /// Makes a link in this directory.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn make(directory: &Path) -> Result<NullLink, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // No path of an order has a part that begins with a dot.
        let path = directory.join(format!(".null-{}-{number}", std::process::id()));
        // One may be left of an agent that was killed, and that had the same number.
        let _ = fs::remove_file(&path);
        let made = std::os::unix::fs::symlink("/dev/null", &path);
        made.map_err(|error| format!("cannot make the link {}: {error}", path.display()))?;
        Ok(NullLink(path))
    }

    /// The path of the link.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for NullLink {
    fn drop(&mut self) {
        // The tool may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the directories of a target, and removes what is there under its name, so that all bytes under this name are new.
///
/// # Errors
/// A directory cannot be made, or something else than a file is there.
pub(super) fn prepare_target(directory: &Path, below: &Path) -> Result<PathBuf, String> {
    walk(directory, below, true)?;
    let path = directory.join(below);
    let fail = |why: String| format!("cannot replace {}: {why}", path.display());
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error.to_string())),
        Ok(found) if found.is_dir() => return Err(fail("it is a directory".to_owned())),
        Ok(_) => fs::remove_file(&path).map_err(|error| fail(error.to_string()))?,
    }
    Ok(path)
}

/// The path of a source, which must be a file of this size.
///
/// # Errors
/// It is missing, is no file, or has another size.
pub(super) fn check_source(directory: &Path, below: &Path, bytes: u64) -> Result<PathBuf, String> {
    walk(directory, below, false)?;
    let path = directory.join(below);
    let fail = |why: String| format!("cannot send {}: {why}", path.display());
    let found = fs::symlink_metadata(&path).map_err(|error| fail(error.to_string()))?;
    if !found.is_file() {
        return Err(fail("it is no file (links are not followed)".to_owned()));
    }
    if found.len() != bytes {
        return Err(fail(format!("it has {} bytes, and the order says {bytes}", found.len())));
    }
    Ok(path)
}

/// The size of a local file now; 0 while there is none.
pub(super) fn size(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |found| found.len())
}

/// Walks to the directory of a path, from directory to directory; makes those that are missing where that is wanted.
fn walk(directory: &Path, below: &Path, makes_missing: bool) -> Result<(), String> {
    let mut at = directory.to_owned();
    for part in below.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        let fail = |why: String| format!("cannot use {}: {why}", at.display());
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(fail("it is no directory (links are not followed)".to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound && makes_missing => match fs::create_dir(&at) {
                // Another client makes the same directory.
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(fail(error.to_string())),
                _ => {}
            },
            Err(error) => return Err(fail(error.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_its_directories_and_no_old_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = prepare_target(dir.path(), Path::new("a/b/f")).unwrap();
        assert_eq!(path, dir.path().join("a/b/f"));
        fs::write(&path, "old").unwrap();
        assert_eq!(size(&path), 3);
        assert_eq!(prepare_target(dir.path(), Path::new("a/b/f")).unwrap(), path);
        assert!(!path.exists() && size(&path) == 0);
        assert!(prepare_target(dir.path(), Path::new("a/b")).unwrap_err().contains("it is a directory"));
        fs::write(&path, "file").unwrap();
        assert!(prepare_target(dir.path(), Path::new("a/b/f/g")).unwrap_err().contains("no directory"));
    }

    #[test]
    fn a_source_is_a_file_of_the_size_that_was_ordered() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/f"), "12345").unwrap();
        assert_eq!(check_source(dir.path(), Path::new("a/f"), 5), Ok(dir.path().join("a/f")));
        assert!(
            check_source(dir.path(), Path::new("a/f"), 6).unwrap_err().contains("has 5 bytes, and the order says 6")
        );
        assert!(check_source(dir.path(), Path::new("a"), 0).unwrap_err().contains("no file"));
        assert!(check_source(dir.path(), Path::new("b/f"), 5).is_err() && !dir.path().join("b").exists());
    }

    #[test]
    fn what_is_written_to_a_null_link_is_discarded_and_the_device_stays() {
        use std::os::unix::fs::FileTypeExt;
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (NullLink::make(dir.path()).unwrap(), NullLink::make(dir.path()).unwrap());
        fs::write(first.path(), "data").unwrap();
        assert!(fs::metadata(first.path()).unwrap().file_type().is_char_device());
        // A tool that removes its target, and then writes it.
        fs::remove_file(first.path()).unwrap();
        fs::write(first.path(), "data").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        drop((first, second));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_link_leads_out_of_the_directory() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("f"), "secret").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("f"), dir.path().join("f")).unwrap();
        for below in ["link/f", "link/new/f"] {
            let refused = prepare_target(dir.path(), Path::new(below)).unwrap_err();
            assert!(refused.contains("links are not followed"), "{refused}");
        }
        assert!(check_source(dir.path(), Path::new("link/f"), 6).is_err());
        assert!(check_source(dir.path(), Path::new("f"), 6).unwrap_err().contains("links are not followed"));
        // A link that is the target itself is replaced, and what it leads to stays.
        prepare_target(dir.path(), Path::new("f")).unwrap();
        assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"secret");
        assert!(!outside.path().join("new").exists());
    }
}

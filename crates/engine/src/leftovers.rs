//! Unfinished files of jobs that were killed: a job lists the directories in which it makes them, and the next
//! job with the same state directory removes the files that a dead job left.
//!
//! One small file per job, locked while the job lives. Only names that carry the dead job's own tag are removed.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::{RelPath, hex};
use parking_lot::Mutex;
use store::Store;
use store::posix::{Links, Posix};

/// A living job's list of directories.
#[derive(Debug)]
pub struct UnfinishedFileLog {
    path: PathBuf,
    inner: Mutex<DirectoryList>,
}

#[derive(Debug)]
struct DirectoryList {
    file: File,
    dirs: HashSet<RelPath>,
    bytes: usize,
    bytes_max: usize,
}

/// The bound on the bytes of one job's list. In directories beyond it, the files of a killed job stay.
const LIST_BYTES_MAX: usize = 16 << 20;

impl UnfinishedFileLog {
    /// Starts the list of a job that writes below `root`, with `tag` in the names of its unfinished files.
    ///
    /// # Errors
    /// The list cannot be created, locked or written.
    pub fn begin(state: &Path, root: &Path, tag: &str) -> io::Result<UnfinishedFileLog> {
        let dir = state.join("unfinished");
        fs::create_dir_all(&dir)?;
        let path = dir.join(tag);
        // Locked before it has its name: a sweep must never find it unlocked.
        let unnamed = dir.join(format!("{tag}.new"));
        let mut file = OpenOptions::new().create_new(true).append(true).open(&unnamed)?;
        file.lock()?;
        writeln!(file, "{}", hex::encode(root.as_os_str().as_bytes()))?;
        fs::rename(&unnamed, &path)?;
        let listed = DirectoryList { file, dirs: HashSet::new(), bytes: 0, bytes_max: LIST_BYTES_MAX };
        Ok(UnfinishedFileLog { path, inner: Mutex::new(listed) })
    }

    /// Lists a directory in which an unfinished file is about to be made.
    pub fn note_directory(&self, dir: &RelPath) {
        let mut inner = self.inner.lock();
        let bytes = dir.as_bytes().len() + size_of::<RelPath>();
        if !inner.dirs.contains(dir) && inner.bytes + bytes <= inner.bytes_max {
            inner.dirs.insert(dir.clone());
            inner.bytes += bytes;
            // Without a line the sweep misses this directory; the transfer itself does not depend on it.
            let _ = writeln!(inner.file, "{}", hex::encode(dir.as_bytes()));
        }
    }

    /// Removes the unfinished files that dead jobs left. Returns their number.
    pub fn sweep(state: &Path) -> usize {
        let Ok(entries) = fs::read_dir(state.join("unfinished")) else { return 0 };
        let lists = entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_none());
        lists.filter_map(|path| sweep_one(&path)).sum()
    }
}

impl Drop for UnfinishedFileLog {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn sweep_one(path: &Path) -> Option<usize> {
    let file = File::open(path).ok()?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
    }
    let prefix = store::posix::temporary_name(path.file_name()?.to_str()?);
    let prefix = prefix.strip_suffix(b".part").unwrap_or(&prefix).to_vec();
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    let root = lines.next().and_then(|line| hex::decode(&line));
    let mut removed = 0;
    if let Some(store) =
        root.and_then(|root| Posix::open(Path::new(std::ffi::OsStr::from_bytes(&root)), Links::Inside).ok())
    {
        for dir in lines.filter_map(|line| RelPath::parse(&hex::decode(&line)?).ok()) {
            removed += sweep_dir(&store, &dir, &prefix);
        }
    }
    let _ = fs::remove_file(path);
    Some(removed)
}

fn sweep_dir(store: &Posix, dir: &RelPath, prefix: &[u8]) -> usize {
    let Ok(entries) = store.list(dir) else { return 0 };
    let ours = |name: &model::Name| {
        name.as_bytes().strip_prefix(prefix).is_some_and(|rest| rest.starts_with(b"-") && rest.ends_with(b".part"))
    };
    let names: Vec<_> = entries.flatten().map(|(name, _)| name).filter(ours).collect();
    names.iter().filter(|name| store.remove(&dir.join(name)).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_directories_is_bounded() {
        const MOST: usize = LIST_BYTES_MAX / 16;
        let state = tempfile::tempdir().unwrap();
        let list = UnfinishedFileLog::begin(state.path(), Path::new("/nowhere"), "many").unwrap();
        assert_eq!(std::mem::replace(&mut list.inner.lock().bytes_max, MOST), LIST_BYTES_MAX);
        let dir = |n: usize| RelPath::parse(format!("{n}/{}", "d/".repeat(1000)).as_bytes()).unwrap();
        (0..2 * MOST / 2000).for_each(|n| list.note_directory(&dir(n)));
        let inner = list.inner.lock();
        assert!((MOST - 4000..=MOST).contains(&inner.bytes), "{}", inner.bytes);
        assert!(fs::metadata(&list.path).unwrap().len() as usize <= 2 * MOST + 4096);
    }

    #[test]
    fn only_the_files_of_a_dead_job_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        let names = ["a/b/.longhaul-dead-1f.part", "a/b/.longhaul-alive-1.part", "a/b/kept", ".longhaul-dead-2.part"];
        names.iter().for_each(|name| fs::write(root.path().join(name), "x").unwrap());
        let dir = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let dead = UnfinishedFileLog::begin(state.path(), root.path(), "dead").unwrap();
        dead.note_directory(&dir("a/b"));
        dead.note_directory(&RelPath::root());
        let alive = UnfinishedFileLog::begin(state.path(), root.path(), "alive").unwrap();
        alive.note_directory(&dir("a/b"));
        assert_eq!(UnfinishedFileLog::sweep(state.path()), 0, "both jobs live");
        // A killed process drops its locks and nothing else.
        dead.inner.lock().file.unlock().unwrap();
        assert_eq!(UnfinishedFileLog::sweep(state.path()), 2);
        let left: Vec<bool> = names.iter().map(|name| root.path().join(name).exists()).collect();
        assert_eq!(left, [false, true, true, false]);
        assert_eq!(UnfinishedFileLog::sweep(state.path()), 0);
    }
}

//! The tape library of one export. Files that wait for a recall are passed to the site's program together, so that the library can
//! read all files of a cartridge at once. New files are archived to tape.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::RelPath;
use parking_lot::Mutex;
use store::{Change, Guard};

use super::notes::ArchiveNotes;
use super::program::{FileReply, TapeProgram, Verb};

/// Runs of `recall` at once; further files wait for the next run.
const RECALLS_MAX: usize = 4;
/// Files of one run.
const FILES_MAX: usize = 10_000;
/// How long `locality` and `release` may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
/// The pause between the first new file and the run of `archive`.
const ARCHIVE_AFTER: Duration = Duration::from_secs(1);
/// The pause before `archive` is tried again, and the number of tries.
const ARCHIVE_RETRY_AFTER: Duration = Duration::from_secs(60);
const ARCHIVE_TRIES: u32 = 60;

/// A listener to the recall of files.
pub(crate) trait RecallListener: Send + Sync {
    /// The run for a file has begun.
    fn began(&self, path: &str);
    /// The file is on disk, or the reason why it is not.
    fn ended(&self, path: &str, outcome: Result<(), String>);
    /// The run is over: the outcome of every file has been reported.
    fn run_over(&self);
}

/// The tape library of an export.
pub(crate) struct TapeLibrary {
    program: TapeProgram,
    export: String,
    dir: PathBuf,
    waiting: Mutex<WaitingFiles>,
    /// Files that are not archived yet, across restarts.
    notes: ArchiveNotes,
    /// Locked by a request for localities: one program at a time answers these.
    localities_lock: Mutex<()>,
}

#[derive(Default)]
struct WaitingFiles {
    recalls: VecDeque<(String, Arc<dyn RecallListener>)>,
    runs: usize,
    /// Files to archive, with the number of failed tries.
    archives: BTreeMap<String, u32>,
    is_archiving: bool,
}

impl std::fmt::Debug for TapeLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TapeLibrary").field("export", &self.export).finish_non_exhaustive()
    }
}

impl TapeLibrary {
    /// The tape library of an export's directory, with notes in the state directory.
    pub fn new(program: TapeProgram, export: &str, dir: PathBuf, state: &Path) -> TapeLibrary {
        TapeLibrary {
            program,
            export: export.to_owned(),
            dir,
            waiting: Mutex::default(),
            notes: ArchiveNotes::new(state, export),
            localities_lock: Mutex::default(),
        }
    }

    /// Archives the new files that were not on tape when the node ended.
    pub fn resume(self: &Arc<Self>) {
        let noted = self.notes.all();
        let (existing, missing): (Vec<String>, Vec<String>) =
            noted.into_iter().partition(|path| self.dir.join(path).exists());
        if existing.is_empty() && !missing.is_empty() {
            let (export, files) = (&self.export, missing.len());
            tracing::warn!(
                export,
                files,
                "none of the files that are still to be archived to tape exists: is the disk mounted?"
            );
            return;
        }
        missing.iter().for_each(|path| self.notes.remove(path));
        existing.into_iter().for_each(|path| self.archive(path));
    }

    fn run(
        &self,
        verb: Verb,
        paths: &[String],
        within: Option<Duration>,
        each: impl FnMut(FileReply),
    ) -> Result<(), String> {
        self.program.run(verb, &self.export, &self.dir, paths, within, each)
    }

    /// Recalls files to disk; paths are below the export.
    pub fn recall(self: &Arc<Self>, paths: Vec<String>, to: &Arc<dyn RecallListener>) {
        let mut waiting = self.waiting.lock();
        waiting.recalls.extend(paths.into_iter().map(|path| (path, Arc::clone(to))));
        if waiting.runs < RECALLS_MAX {
            waiting.runs += 1;
            let library = Arc::clone(self);
            std::thread::spawn(move || library.recall_waiting());
        }
    }

    /// Runs the program for the waiting files, until none waits.
    fn recall_waiting(&self) {
        loop {
            let mut batch: HashMap<String, Vec<Arc<dyn RecallListener>>> = HashMap::new();
            {
                let mut waiting = self.waiting.lock();
                let count = waiting.recalls.len().min(FILES_MAX);
                for (path, to) in waiting.recalls.drain(..count) {
                    batch.entry(path).or_default().push(to);
                }
                if batch.is_empty() {
                    waiting.runs -= 1;
                    return;
                }
            }
            let mut paths: Vec<String> = batch.keys().cloned().collect();
            paths.sort();
            let mut listeners: Vec<Arc<dyn RecallListener>> = Vec::new();
            for listener in batch.values().flatten() {
                if !listeners.iter().any(|known| Arc::ptr_eq(known, listener)) {
                    listeners.push(Arc::clone(listener));
                }
            }
            for (path, all) in &batch {
                all.iter().for_each(|listener| listener.began(path));
            }
            let ran = self.run(Verb::Recall, &paths, None, |reply| {
                let outcome = reply.error.map_or(Ok(()), Err);
                for listener in batch.remove(&reply.path).unwrap_or_default() {
                    listener.ended(&reply.path, outcome.clone());
                }
            });
            let why = ran.err().unwrap_or_else(|| "the program ended without a reply for this file".to_owned());
            for (path, all) in batch {
                all.iter().for_each(|listener| listener.ended(&path, Err(why.clone())));
            }
            listeners.iter().for_each(|listener| listener.run_over());
        }
    }

    /// The localities of files: for each file that the program reports a word of the tape REST API, or an error.
    ///
    /// # Errors
    /// The program fails.
    pub fn localities(&self, paths: &[String]) -> Result<HashMap<String, Result<String, String>>, String> {
        let Some(_lock) = self.localities_lock.try_lock_for(ANSWERS_WITHIN) else {
            return Err("too many requests ask where files are".to_owned());
        };
        let mut all = HashMap::new();
        self.run(Verb::Locality, paths, Some(ANSWERS_WITHIN), |FileReply { path, locality, error }| {
            let locality = locality.ok_or_else(|| error.unwrap_or_else(|| "No such file".to_owned()));
            all.insert(path, locality);
        })?;
        Ok(all)
    }

    /// Releases files from disk; a failure is only logged.
    pub fn release(self: &Arc<Self>, paths: Vec<String>) {
        let library = Arc::clone(self);
        std::thread::spawn(move || {
            if let Err(why) = library.run(Verb::Release, &paths, Some(ANSWERS_WITHIN), |_| ()) {
                tracing::warn!(export = library.export, why, "files cannot be released from disk");
            }
        });
    }

    fn archive(self: &Arc<Self>, path: String) {
        let mut waiting = self.waiting.lock();
        waiting.archives.insert(path, 0);
        if !waiting.is_archiving {
            waiting.is_archiving = true;
            let library = Arc::clone(self);
            std::thread::spawn(move || library.archive_waiting());
        }
    }

    /// Archives files until none waits.
    fn archive_waiting(&self) {
        let mut wait = ARCHIVE_AFTER;
        loop {
            std::thread::sleep(wait);
            let mut left = std::mem::take(&mut self.waiting.lock().archives);
            let paths: Vec<String> = left.keys().cloned().collect();
            let ran = self.run(Verb::Archive, &paths, None, |reply| match reply.error {
                None => drop(left.remove(&reply.path)),
                Some(why) => tracing::warn!(export = self.export, path = reply.path, why, "a file is not on tape yet"),
            });
            if let Err(why) = &ran {
                tracing::warn!(export = self.export, why, "files cannot be archived to tape; the node tries again");
            }
            wait = if left.is_empty() { ARCHIVE_AFTER } else { ARCHIVE_RETRY_AFTER };
            let mut waiting = self.waiting.lock();
            // A file that has been written again meanwhile is still to be archived.
            let is_archived = |path: &&String| !left.contains_key(*path) && !waiting.archives.contains_key(*path);
            paths.iter().filter(is_archived).for_each(|path| self.notes.remove(path));
            for (path, tries) in left {
                if tries + 1 < ARCHIVE_TRIES {
                    waiting.archives.entry(path).or_insert(tries + 1);
                } else {
                    let export = &self.export;
                    tracing::error!(export, path, "a file is not on tape; the node tries again after its next start");
                }
            }
            if waiting.archives.is_empty() {
                waiting.is_archiving = false;
                return;
            }
        }
    }
}

/// A guard of an export's store that archives new files.
#[derive(Debug)]
pub(crate) struct ArchiveGuard(pub Arc<TapeLibrary>);

impl Guard for ArchiveGuard {
    fn agree(&self, _: &RelPath, _: Change, _: &dyn Fn() -> bool) -> store::Result<()> {
        Ok(())
    }

    fn removed(&self, path: &RelPath) {
        let path = path.to_string();
        self.0.waiting.lock().archives.remove(&path);
        self.0.notes.remove(&path);
    }

    fn added(&self, path: &RelPath) {
        let path = path.to_string();
        self.0.archive(path.clone());
        // Noted after it is queued: a run that ends in between removes only the note of the former file.
        self.0.notes.add(&path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[derive(Default)]
    struct RecordedRecalls(Mutex<Vec<(String, Result<(), String>)>>);

    impl RecallListener for RecordedRecalls {
        fn began(&self, _: &str) {}

        fn ended(&self, path: &str, outcome: Result<(), String>) {
            self.0.lock().push((path.to_owned(), outcome));
        }

        fn run_over(&self) {}
    }

    fn library(dir: &std::path::Path, script: &str) -> Arc<TapeLibrary> {
        let file = dir.join(format!("{}.sh", model::id::Uuid::now_v7()));
        std::fs::write(&file, script).unwrap();
        let program = TapeProgram::parse(&format!("sh {}", file.display())).unwrap();
        Arc::new(TapeLibrary::new(program, "x", dir.to_owned(), &dir.join("state")))
    }

    fn wait(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn listeners_get_the_outcome_of_every_file() {
        let dir = tempfile::tempdir().unwrap();
        // It reports `a` as recalled and `b` as failed, and omits `c`.
        let script = "cat > seen\necho '{\"path\": \"a\"}'; echo '{\"path\": \"b\", \"error\": \"bad cartridge\"}'";
        let library = library(dir.path(), script);
        let recorded = Arc::<RecordedRecalls>::default();
        library.recall(["a", "b", "c"].map(str::to_owned).into(), &(Arc::clone(&recorded) as Arc<dyn RecallListener>));
        wait("all three have outcomes", || recorded.0.lock().len() == 3);
        let mut outcomes = std::mem::take(&mut *recorded.0.lock());
        outcomes.sort();
        assert_eq!(outcomes[0], ("a".to_owned(), Ok(())));
        assert_eq!(outcomes[1], ("b".to_owned(), Err("bad cartridge".to_owned())));
        assert!(outcomes[2].1.as_ref().unwrap_err().contains("without a reply for this file"));
    }

    #[test]
    fn new_files_are_archived() {
        let dir = tempfile::tempdir().unwrap();
        let library = library(dir.path(), "[ $1 = archive ] && tee -a archived");
        let guard = ArchiveGuard(Arc::clone(&library));
        let path = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        ["a", "b", "gone"].into_iter().for_each(|name| guard.added(&path(name)));
        guard.removed(&path("gone"));
        wait("both are on tape", || {
            std::fs::read_to_string(dir.path().join("archived")).is_ok_and(|text| text.lines().count() == 2)
        });
    }

    #[test]
    fn files_are_archived_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let is_archived = |name: &str| {
            let archived = std::fs::read_to_string(dir.path().join("archived")).unwrap_or_default();
            archived.contains(&format!("\"{name}\""))
        };
        let path = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        // The first program archives nothing.
        let guard = ArchiveGuard(library(dir.path(), "exit 1"));
        for name in ["a", "b/c", "gone", "removed"] {
            guard.added(&path(name));
        }
        guard.removed(&path("gone"));
        std::fs::create_dir(dir.path().join("b")).unwrap();
        ["a", "b/c"].iter().for_each(|name| std::fs::write(dir.path().join(name), name).unwrap());
        let after = library(dir.path(), "[ $1 = archive ] && tee -a archived");
        after.resume();
        wait("both are on tape", || is_archived("a") && is_archived("b/c"));
        assert!(!is_archived("gone") && !is_archived("removed"), "files that no longer exist are not archived");
        wait("nothing is left to do", || after.notes.all().is_empty());
    }
}

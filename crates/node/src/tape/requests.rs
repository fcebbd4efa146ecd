//! Requests to recall files from tape (WLCG Tape REST API, version 1). They are stored in the state directory and continue after a
//! restart.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::id::Uuid;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::RecallListener;
use crate::access::AccessControl;
use crate::clock::now;

/// Files of one request.
pub(crate) const FILES_MAX: usize = 10_000;
/// Unfinished requests of one holder.
const OPEN_EACH_MAX: usize = 250;
/// Requests that are remembered: about 100 MB if each has 1,000 files.
const REQUESTS_MAX: usize = 1_000;

/// The state of a file of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum FileState {
    Submitted,
    Started,
    Cancelled,
    Failed,
    Completed,
}

/// A file of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StagedFile {
    /// The path as the client gave it: `/EXPORT/PATH`.
    pub path: String,
    pub export: String,
    /// The path below the export.
    pub below: String,
    pub state: FileState,
    pub started: Option<i64>,
    pub finished: Option<i64>,
    pub error: Option<String>,
    /// The request has released the file from disk.
    pub is_released: bool,
}

impl StagedFile {
    /// Whether the file is to be recalled, or to stay on disk.
    fn is_wanted(&self) -> bool {
        match self.state {
            FileState::Submitted | FileState::Started | FileState::Completed => !self.is_released,
            FileState::Cancelled | FileState::Failed => false,
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageRequest {
    pub id: Uuid,
    /// The holder who made the request.
    pub holder: String,
    /// Time of the request, seconds since 1970.
    pub created: i64,
    pub files: Vec<StagedFile>,
}

impl StageRequest {
    /// Whether no file is still to be recalled.
    pub fn is_over(&self) -> bool {
        !self.files.iter().any(|file| matches!(file.state, FileState::Submitted | FileState::Started))
    }
}

/// Why an operation on a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StageError {
    /// There is no such request, or it is another holder's.
    Unknown,
    /// A path is not one of the request's files.
    NotAFile(String),
    /// There are too many requests, of this holder or of all.
    Full,
}

/// The requests of a node.
pub(crate) struct StageRequests {
    access: Arc<AccessControl>,
    dir: PathBuf,
    all: Arc<Mutex<BTreeMap<Uuid, StageRequest>>>,
}

/// Updates a request while its files of one export are recalled.
struct RequestListener {
    access: Arc<AccessControl>,
    /// Files that the run has recalled.
    recalled: Mutex<Vec<String>>,
    id: Uuid,
    export: String,
    dir: PathBuf,
    all: Arc<Mutex<BTreeMap<Uuid, StageRequest>>>,
}

impl RequestListener {
    fn change(&self, path: &str, change: impl Fn(&mut StagedFile)) {
        let mut all = self.all.lock();
        let Some(request) = all.get_mut(&self.id) else { return };
        let is_unfinished = |file: &&mut StagedFile| {
            file.export == self.export
                && file.below == path
                && matches!(file.state, FileState::Submitted | FileState::Started)
        };
        request.files.iter_mut().filter(is_unfinished).for_each(change);
        if request.is_over() {
            write(&self.dir, request);
        }
    }
}

impl RequestListener {
    /// Releases recalled files that no request wants any more.
    fn release_unwanted(&self) {
        let recalled = std::mem::take(&mut *self.recalled.lock());
        let unwanted: Vec<String> = {
            let all = self.all.lock();
            let files = all.values().flat_map(|request| &request.files);
            let wanted: HashSet<&str> =
                files.filter(|file| file.export == self.export && file.is_wanted()).map(|file| &*file.below).collect();
            recalled.into_iter().filter(|path| !wanted.contains(path.as_str())).collect()
        };
        if !unwanted.is_empty()
            && let Some(library) = self.access.tape(&self.export)
        {
            library.release(unwanted);
        }
    }
}

impl RecallListener for RequestListener {
    fn began(&self, path: &str) {
        self.change(path, |file| {
            file.state = FileState::Started;
            file.started = Some(now().seconds);
        });
    }

    fn ended(&self, path: &str, outcome: Result<(), String>) {
        self.change(path, |file| {
            file.state = if outcome.is_ok() { FileState::Completed } else { FileState::Failed };
            file.finished = Some(now().seconds);
            file.error = outcome.clone().err();
        });
        if outcome.is_ok() {
            self.recalled.lock().push(path.to_owned());
        }
    }

    fn run_over(&self) {
        self.release_unwanted();
    }
}

/// Writes a request to the state directory. A request that cannot be written is lost with the process.
fn write(dir: &Path, request: &StageRequest) {
    let file = dir.join(format!("{}.json", request.id));
    let part = dir.join(format!("{}.part", request.id));
    let written = serde_json::to_vec(request)
        .map_err(std::io::Error::other)
        .and_then(|text| std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&part, text)))
        .and_then(|()| std::fs::rename(&part, &file));
    if let Err(error) = written {
        tracing::warn!(%error, request = %request.id, "a request for files on tape cannot be stored");
    }
}

impl StageRequests {
    /// The requests in the state directory; [`StageRequests::resume`] continues the unfinished ones.
    pub fn new(access: Arc<AccessControl>, state: &Path) -> StageRequests {
        let dir = state.join("tape");
        let read = |entry: std::fs::DirEntry| -> Option<StageRequest> {
            let path = entry.path();
            (path.extension()? == "json").then(|| serde_json::from_slice(&std::fs::read(&path).ok()?).ok()).flatten()
        };
        let stored = std::fs::read_dir(&dir).into_iter().flatten().flatten().filter_map(read);
        let all = stored.map(|request| (request.id, request)).collect();
        StageRequests { access, dir, all: Arc::new(Mutex::new(all)) }
    }

    /// Recalls the files that had not been recalled when the node ended.
    pub fn resume(&self) {
        let unfinished: Vec<StageRequest> = self.all.lock().values().filter(|one| !one.is_over()).cloned().collect();
        unfinished.iter().for_each(|request| self.begin(request));
    }

    fn begin(&self, request: &StageRequest) {
        let mut by_export: HashMap<&str, Vec<String>> = HashMap::new();
        let waits = |file: &&StagedFile| matches!(file.state, FileState::Submitted | FileState::Started);
        for file in request.files.iter().filter(waits) {
            by_export.entry(&file.export).or_default().push(file.below.clone());
        }
        for (export, paths) in by_export {
            let to: Arc<dyn RecallListener> = Arc::new(RequestListener {
                access: Arc::clone(&self.access),
                recalled: Mutex::default(),
                id: request.id,
                export: export.to_owned(),
                dir: self.dir.clone(),
                all: Arc::clone(&self.all),
            });
            match self.access.tape(export) {
                Some(library) => library.recall(paths, &to),
                None => paths.iter().for_each(|path| to.ended(path, Err(format!("{export} has no tape any more")))),
            }
        }
    }

    /// Accepts a request and recalls its files.
    ///
    /// # Errors
    /// There are too many requests.
    pub fn accept(&self, holder: &str, files: Vec<StagedFile>) -> Result<Uuid, StageError> {
        let request = StageRequest { id: Uuid::now_v7(), holder: holder.to_owned(), created: now().seconds, files };
        {
            let mut all = self.all.lock();
            let is_open = |one: &&StageRequest| one.holder == holder && !one.is_over();
            if all.values().filter(is_open).count() >= OPEN_EACH_MAX {
                return Err(StageError::Full);
            }
            if all.len() >= REQUESTS_MAX {
                let over = all.values().find(|one| one.is_over()).map(|one| one.id).ok_or(StageError::Full)?;
                all.remove(&over);
                let _ = std::fs::remove_file(self.dir.join(format!("{over}.json")));
            }
            write(&self.dir, &request);
            all.insert(request.id, request.clone());
        }
        self.begin(&request);
        Ok(request.id)
    }

    /// A request of a holder.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<StageRequest> {
        self.all.lock().get(id).filter(|request| request.holder == holder).cloned()
    }

    /// Changes the files of a request with these paths.
    fn change(
        &self,
        holder: &str,
        id: &Uuid,
        paths: &[String],
        change: impl Fn(&mut StagedFile),
    ) -> Result<StageRequest, StageError> {
        let mut all = self.all.lock();
        let request = all.get_mut(id).filter(|request| request.holder == holder).ok_or(StageError::Unknown)?;
        let known: HashSet<&str> = request.files.iter().map(|file| file.path.as_str()).collect();
        if let Some(path) = paths.iter().find(|path| !known.contains(path.as_str())) {
            return Err(StageError::NotAFile(path.clone()));
        }
        let named: HashSet<&String> = paths.iter().collect();
        request.files.iter_mut().filter(|file| named.contains(&file.path)).for_each(change);
        write(&self.dir, request);
        Ok(request.clone())
    }

    /// Cancels the recall of files.
    ///
    /// # Errors
    /// There is no such request, or a path is not one of its files: nothing has changed.
    pub fn cancel(&self, holder: &str, id: &Uuid, paths: &[String]) -> Result<(), StageError> {
        let cancel = |file: &mut StagedFile| {
            if matches!(file.state, FileState::Submitted | FileState::Started) {
                file.state = FileState::Cancelled;
                file.finished = Some(now().seconds);
            }
        };
        self.change(holder, id, paths, cancel).map(drop)
    }

    /// Releases files from disk, unless another request wants them there.
    ///
    /// # Errors
    /// There is no such request, or a path is not one of its files: nothing has changed.
    pub fn release(&self, holder: &str, id: &Uuid, paths: &[String]) -> Result<(), StageError> {
        let request = self.change(holder, id, paths, |file| file.is_released = true)?;
        let mut free: HashMap<&str, Vec<String>> = HashMap::new();
        {
            let all = self.all.lock();
            let files = all.values().flat_map(|other| &other.files).filter(|file| file.is_wanted());
            let wanted: HashSet<(&str, &str)> = files.map(|file| (&*file.export, &*file.below)).collect();
            let named: HashSet<&String> = paths.iter().collect();
            for file in request.files.iter().filter(|file| named.contains(&file.path)) {
                if file.state == FileState::Completed && !wanted.contains(&(&*file.export, &*file.below)) {
                    free.entry(&file.export).or_default().push(file.below.clone());
                }
            }
        }
        for (export, paths) in free {
            if let Some(library) = self.access.tape(export) {
                library.release(paths);
            }
        }
        Ok(())
    }

    /// Cancels a request, releases its files, and forgets it.
    ///
    /// # Errors
    /// There is no such request.
    pub fn remove(&self, holder: &str, id: &Uuid) -> Result<(), StageError> {
        let request = self.get(holder, id).ok_or(StageError::Unknown)?;
        let paths: Vec<String> = request.files.iter().map(|file| file.path.clone()).collect();
        self.cancel(holder, id, &paths)?;
        self.release(holder, id, &paths)?;
        self.all.lock().remove(id);
        let _ = std::fs::remove_file(self.dir.join(format!("{id}.json")));
        Ok(())
    }
}

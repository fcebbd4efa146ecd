//! Requests to bring files from tape (WLCG Tape REST API, version 1): kept in the state directory, so that a node that is started again goes on with them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::id::Uuid;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Recalled;
use crate::access::AccessControl;
use crate::clock::now;

/// Files of one request.
pub(crate) const FILES_MAX: usize = 10_000;
/// Requests of one holder that are not over.
const OPEN_EACH_MAX: usize = 250;
/// Requests that are remembered: some 100 MB where each has 1,000 files.
const REQUESTS_MAX: usize = 1_000;

/// How far a file is.
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
    /// As it was asked for: `/EXPORT/PATH`.
    pub path: String,
    pub export: String,
    /// Below the export.
    pub below: String,
    pub state: FileState,
    pub started: Option<i64>,
    pub finished: Option<i64>,
    pub error: Option<String>,
    /// It need not stay on disk for this request any longer.
    pub is_released: bool,
}

impl StagedFile {
    /// Whether it is to come to disk, or to stay there.
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
    /// Whose it is.
    pub holder: String,
    /// Seconds since 1970.
    pub created: i64,
    pub files: Vec<StagedFile>,
}

impl StageRequest {
    /// Whether nothing of it is still to come.
    pub fn is_over(&self) -> bool {
        !self.files.iter().any(|file| matches!(file.state, FileState::Submitted | FileState::Started))
    }
}

/// Why something is not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// There is no such request, or it is another's.
    Unknown,
    /// A path is none of the request's.
    NotOfIt(String),
    /// As many are under way as may be: of whoever asks, or of all.
    Full,
}

/// All requests.
pub(crate) struct StageRequests {
    access: Arc<AccessControl>,
    dir: PathBuf,
    all: Arc<Mutex<BTreeMap<Uuid, StageRequest>>>,
}

/// Hears of the files of one request.
struct Hearing {
    access: Arc<AccessControl>,
    /// What a run has brought.
    came: Mutex<Vec<String>>,
    id: Uuid,
    export: String,
    dir: PathBuf,
    all: Arc<Mutex<BTreeMap<Uuid, StageRequest>>>,
}

impl Hearing {
    fn change(&self, path: &str, change: impl Fn(&mut StagedFile)) {
        let mut all = self.all.lock();
        let Some(request) = all.get_mut(&self.id) else { return };
        let is_it = |file: &&mut StagedFile| {
            file.export == self.export
                && file.below == path
                && matches!(file.state, FileState::Submitted | FileState::Started)
        };
        request.files.iter_mut().filter(is_it).for_each(change);
        if request.is_over() {
            write(&self.dir, request);
        }
    }
}

impl Hearing {
    /// Lets files go that came although nobody wants them any more.
    fn let_go_unwanted(&self) {
        let came = std::mem::take(&mut *self.came.lock());
        let unwanted: Vec<String> = {
            let all = self.all.lock();
            let files = all.values().flat_map(|request| &request.files);
            let wanted: HashSet<&str> =
                files.filter(|file| file.export == self.export && file.is_wanted()).map(|file| &*file.below).collect();
            came.into_iter().filter(|path| !wanted.contains(path.as_str())).collect()
        };
        if !unwanted.is_empty()
            && let Some(library) = self.access.tape(&self.export)
        {
            library.release(unwanted);
        }
    }
}

impl Recalled for Hearing {
    fn began(&self, path: &str) {
        self.change(path, |file| {
            (file.state, file.started) = (FileState::Started, Some(now().seconds));
        });
    }

    fn ended(&self, path: &str, outcome: Result<(), String>) {
        self.change(path, |file| {
            file.state = if outcome.is_ok() { FileState::Completed } else { FileState::Failed };
            file.finished = Some(now().seconds);
            file.error = outcome.clone().err();
        });
        if outcome.is_ok() {
            self.came.lock().push(path.to_owned());
        }
    }

    fn run_over(&self) {
        self.let_go_unwanted();
    }
}

/// Keeps a request. What cannot be written is lost with the node, and asked for anew.
fn write(dir: &Path, request: &StageRequest) {
    let file = dir.join(format!("{}.json", request.id));
    let part = dir.join(format!("{}.part", request.id));
    let written = serde_json::to_vec(request)
        .map_err(std::io::Error::other)
        .and_then(|text| std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&part, text)))
        .and_then(|()| std::fs::rename(&part, &file));
    if let Err(error) = written {
        tracing::warn!(%error, request = %request.id, "a request for files on tape cannot be kept");
    }
}

impl StageRequests {
    /// Those that were made before; what had not come goes on with [`StageRequests::go_on`].
    pub fn new(access: Arc<AccessControl>, state: &Path) -> StageRequests {
        let dir = state.join("tape");
        let read = |entry: std::fs::DirEntry| -> Option<StageRequest> {
            let path = entry.path();
            (path.extension()? == "json").then(|| serde_json::from_slice(&std::fs::read(&path).ok()?).ok()).flatten()
        };
        let kept = std::fs::read_dir(&dir).into_iter().flatten().flatten().filter_map(read);
        let all = kept.map(|request| (request.id, request)).collect();
        StageRequests { access, dir, all: Arc::new(Mutex::new(all)) }
    }

    /// Has what had not come when the node ended brought now.
    pub fn go_on(&self) {
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
            let to: Arc<dyn Recalled> = Arc::new(Hearing {
                access: Arc::clone(&self.access),
                came: Mutex::default(),
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

    /// Accepts a request, and has its files brought.
    ///
    /// # Errors
    /// As many are remembered as may be.
    pub fn accept(&self, holder: &str, files: Vec<StagedFile>) -> Result<Uuid, NotDone> {
        let request = StageRequest { id: Uuid::now_v7(), holder: holder.to_owned(), created: now().seconds, files };
        {
            let mut all = self.all.lock();
            let is_open = |one: &&StageRequest| one.holder == holder && !one.is_over();
            if all.values().filter(is_open).count() >= OPEN_EACH_MAX {
                return Err(NotDone::Full);
            }
            if all.len() >= REQUESTS_MAX {
                let over = all.values().find(|one| one.is_over()).map(|one| one.id).ok_or(NotDone::Full)?;
                all.remove(&over);
                let _ = std::fs::remove_file(self.dir.join(format!("{over}.json")));
            }
            write(&self.dir, &request);
            all.insert(request.id, request.clone());
        }
        self.begin(&request);
        Ok(request.id)
    }

    /// A request of somebody's.
    pub fn get(&self, holder: &str, id: &Uuid) -> Option<StageRequest> {
        self.all.lock().get(id).filter(|request| request.holder == holder).cloned()
    }

    /// Changes files of a request: all of them, or those of some paths.
    fn change(
        &self,
        holder: &str,
        id: &Uuid,
        paths: &[String],
        change: impl Fn(&mut StagedFile),
    ) -> Result<StageRequest, NotDone> {
        let mut all = self.all.lock();
        let request = all.get_mut(id).filter(|request| request.holder == holder).ok_or(NotDone::Unknown)?;
        let known: HashSet<&str> = request.files.iter().map(|file| file.path.as_str()).collect();
        if let Some(path) = paths.iter().find(|path| !known.contains(path.as_str())) {
            return Err(NotDone::NotOfIt(path.clone()));
        }
        let meant: HashSet<&String> = paths.iter().collect();
        request.files.iter_mut().filter(|file| meant.contains(&file.path)).for_each(change);
        write(&self.dir, request);
        Ok(request.clone())
    }

    /// Does not bring files any more.
    ///
    /// # Errors
    /// There is no such request, or a path is none of its: nothing has changed.
    pub fn cancel(&self, holder: &str, id: &Uuid, paths: &[String]) -> Result<(), NotDone> {
        let cancel = |file: &mut StagedFile| {
            if matches!(file.state, FileState::Submitted | FileState::Started) {
                (file.state, file.finished) = (FileState::Cancelled, Some(now().seconds));
            }
        };
        self.change(holder, id, paths, cancel).map(drop)
    }

    /// Lets files go from disk, unless another request wants them there.
    ///
    /// # Errors
    /// There is no such request, or a path is none of its: nothing has changed.
    pub fn release(&self, holder: &str, id: &Uuid, paths: &[String]) -> Result<(), NotDone> {
        let request = self.change(holder, id, paths, |file| file.is_released = true)?;
        let mut free: HashMap<&str, Vec<String>> = HashMap::new();
        {
            let all = self.all.lock();
            let files = all.values().flat_map(|other| &other.files).filter(|file| file.is_wanted());
            let wanted: HashSet<(&str, &str)> = files.map(|file| (&*file.export, &*file.below)).collect();
            let meant: HashSet<&String> = paths.iter().collect();
            for file in request.files.iter().filter(|file| meant.contains(&file.path)) {
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

    /// Does not bring anything of a request any more, lets what has come go, and forgets it.
    ///
    /// # Errors
    /// There is no such request.
    pub fn remove(&self, holder: &str, id: &Uuid) -> Result<(), NotDone> {
        let request = self.get(holder, id).ok_or(NotDone::Unknown)?;
        let paths: Vec<String> = request.files.iter().map(|file| file.path.clone()).collect();
        self.cancel(holder, id, &paths)?;
        self.release(holder, id, &paths)?;
        self.all.lock().remove(id);
        let _ = std::fs::remove_file(self.dir.join(format!("{id}.json")));
        Ok(())
    }
}

//! Stages files from tape before they are moved, many in one request, and releases them when they have been read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::database::stages::{OnTape, StageOutcome, StageRequest};
use crate::database::{DatabaseError, Result};
use crate::state::HubState;
use crate::tape::{TapeError, TapeServer, collapsed};
use crate::time;

/// How often it looks for work.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Requests of one round.
const REQUESTS_MAX: usize = 50;
/// How long a round works on what it has leased: less than the lease.
const WORK_MAX: Duration = Duration::from_secs(80);
/// Endpoints that are asked at once.
const ENDPOINTS_MAX: usize = 8;

/// Runs until told to stop.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    let stager = Arc::new(Stager { hub, apis: Mutex::default() });
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match look(&stager, &stop).await {
            Ok(()) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "files on tape cannot be looked after; it is tried again"),
        }
    }
}

struct Stager {
    hub: Arc<HubState>,
    /// The URLs of the endpoints' tape APIs, by endpoint.
    apis: Mutex<HashMap<String, String>>,
}

/// A server with tape, and the URL of its API.
#[derive(Clone)]
struct TapeApi {
    server: TapeServer,
    api: String,
}

/// What is to be done with a request.
enum Task {
    Ask(StageRequest),
    Follow(StageRequest),
    LetGo(StageRequest),
}

async fn look(stager: &Arc<Stager>, stop: &watch::Receiver<bool>) -> Result<()> {
    let (database, now) = (&stager.hub.database, time::now());
    let until = Instant::now() + WORK_MAX;
    let mut by_endpoint: BTreeMap<String, Vec<Task>> = BTreeMap::new();
    let mut add = |request: StageRequest, task: fn(StageRequest) -> Task| {
        by_endpoint.entry(request.endpoint.clone()).or_default().push(task(request));
    };
    for _ in 0..REQUESTS_MAX {
        let Some(request) = database.take_stages(now).await? else { break };
        add(request, Task::Ask);
    }
    database.open_requests(now).await?.into_iter().for_each(|request| add(request, Task::Follow));
    database.releases(now).await?.into_iter().for_each(|request| add(request, Task::LetGo));
    let mut outcome = Ok(());
    let mut waiting = by_endpoint.into_values();
    let mut running = JoinSet::new();
    loop {
        while running.len() < ENDPOINTS_MAX
            && let Some(tasks) = waiting.next()
        {
            running.spawn(Arc::clone(stager).work(tasks, until, stop.clone()));
        }
        match running.join_next().await {
            None => return outcome,
            // A task that broke off is taken again after its lease.
            Some(Err(_)) => {}
            Some(Ok(done)) => outcome = outcome.and(done),
        }
    }
}

impl Stager {
    /// Works on the tasks of one endpoint, one request after another, until its server does not answer. The rest is taken again after its lease.
    async fn work(self: Arc<Self>, tasks: Vec<Task>, until: Instant, stop: watch::Receiver<bool>) -> Result<()> {
        for task in tasks {
            if *stop.borrow() || Instant::now() >= until {
                break;
            }
            let has_answered = match task {
                Task::Ask(request) => self.ask_for(request).await?,
                Task::Follow(request) => self.follow(request).await?,
                Task::LetGo(request) => self.let_go(request).await?,
            };
            if !has_answered {
                break;
            }
        }
        Ok(())
    }

    /// Finds the tape API of an endpoint.
    async fn find(&self, endpoint: &str) -> std::result::Result<TapeApi, TapeError> {
        let topology = self.hub.topology.load_full();
        let server = self.hub.servers.tape_server(&topology, endpoint).map_err(TapeError::Failed)?;
        let known = self.apis.lock().get(endpoint).cloned();
        if let Some(api) = known {
            return Ok(TapeApi { server, api });
        }
        let asked = server.clone();
        let api = blocking(move || asked.api()).await.map_err(|error| match error {
            TapeError::Forgotten => TapeError::Failed(format!("{endpoint} has no tape REST API")),
            other => other,
        })?;
        self.apis.lock().insert(endpoint.to_owned(), api.clone());
        Ok(TapeApi { server, api })
    }

    /// Whether its server has answered.
    async fn ask_for(&self, request: StageRequest) -> Result<bool> {
        let now = time::now();
        let paths = paths(&request.files);
        let asked = match self.find(&request.endpoint).await {
            Ok(TapeApi { server, api }) => blocking(move || server.stage(&api, &paths)).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(id) => {
                let files = request.files.iter().map(|file| file.file).collect();
                self.hub.database.asked_for(files, id, now).await.map(|()| true)
            }
            Err(error) => self.failed(request, &error).await.map(|()| false),
        }
    }

    /// Handles a server that does not answer: the request is tried again later, and its API is discovered anew.
    async fn failed(&self, request: StageRequest, error: &TapeError) -> Result<()> {
        self.apis.lock().remove(&request.endpoint);
        tracing::warn!(endpoint = request.endpoint, %error, "files cannot be brought from tape now; it is tried again");
        let why = format!("{} does not bring it from tape: {error}", request.endpoint);
        self.hub.database.not_asked(request, why, time::now()).await
    }

    /// Whether its server has answered.
    async fn follow(&self, request: StageRequest) -> Result<bool> {
        let id = request.id.clone();
        let told = match self.find(&request.endpoint).await {
            Ok(TapeApi { server, api }) => blocking(move || server.poll(&api, &id)).await,
            Err(error) => Err(error),
        };
        let told = match told {
            Ok(told) => told,
            // A request that the server has forgotten is made anew.
            Err(TapeError::Forgotten) => request
                .files
                .iter()
                .map(|file| {
                    (path(&file.source), StageOutcome::Failed("the server has forgotten the request".to_owned()))
                })
                .collect(),
            Err(error) => return self.failed(request, &error).await.map(|()| false),
        };
        let outcome = |file: &OnTape| Some((file.file, told.get(&path(&file.source))?.clone()));
        let outcomes: BTreeMap<i64, StageOutcome> = request.files.iter().filter_map(outcome).collect();
        let has_news = outcomes.values().any(|outcome| *outcome == StageOutcome::OnDisk);
        self.hub.database.staged(request, outcomes, time::now()).await?;
        if has_news {
            self.hub.wake.notify_one();
        }
        Ok(true)
    }

    /// Releases files, and forgets them in any case: the server releases them itself in the end. Returns whether it has answered.
    async fn let_go(&self, request: StageRequest) -> Result<bool> {
        let mut has_answered = true;
        if !request.id.is_empty()
            && let Ok(TapeApi { server, api }) = self.find(&request.endpoint).await
        {
            let (id, paths) = (request.id.clone(), paths(&request.files));
            let done = blocking(move || {
                // Files that are still being staged are not needed any more. A server that has staged all of them refuses this.
                let _ = server.cancel(&api, &id, &paths);
                server.release(&api, &id, &paths)
            });
            if let Err(error) = done.await {
                tracing::info!(endpoint = request.endpoint, %error, "files that were read could not be let go");
                has_answered = false;
            }
        }
        self.hub.database.released(request.files.iter().map(|file| file.file).collect()).await.map(|()| has_answered)
    }
}

/// The path of a URL on its server, as a tape API has it.
pub fn path(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    collapsed(&percent_encoding::percent_decode_str(path).decode_utf8_lossy())
}

fn paths(files: &[OnTape]) -> Vec<String> {
    files.iter().map(|file| path(&file.source)).collect()
}

async fn blocking<T: Send + 'static>(
    ask: impl FnOnce() -> std::result::Result<T, TapeError> + Send + 'static,
) -> std::result::Result<T, TapeError> {
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|error| Err(TapeError::Failed(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_path_on_its_server() {
        assert_eq!(path("lh://h:7411/x/a%20b"), "/x/a b");
        assert_eq!(path("davs://h//x//a?authz=1"), "/x/a");
        assert_eq!(path("https://h"), "");
    }
}

//! Stages files from tape before they are moved, many in one request, and releases them once they have been read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::database::stages::{StageOutcome, StageRequest, TapeFile};
use crate::database::{DatabaseError, Result};
use crate::state::HubState;
use crate::tape::{TapeError, TapeServer, collapsed};
use crate::time;

/// How often it looks for requests to make or follow.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// The most new requests of one round.
const REQUESTS_MAX: usize = 50;
/// How long a round works on the requests that it has leased: less than the lease.
const WORK_MAX: Duration = Duration::from_secs(80);
/// The most endpoints that are worked on at once.
const ENDPOINTS_MAX: usize = 8;

/// Runs until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    let stager = Arc::new(Stager { hub, apis: Mutex::default() });
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
        match run_round(&stager, &stop).await {
            Ok(()) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "a round of staging from tape failed; it is tried again"),
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

/// The next step of a stage request.
enum Task {
    Stage(StageRequest),
    Poll(StageRequest),
    Release(StageRequest),
}

async fn run_round(stager: &Arc<Stager>, stop: &watch::Receiver<bool>) -> Result<()> {
    let database = &stager.hub.database;
    let now = time::now();
    let until = Instant::now() + WORK_MAX;
    let mut by_endpoint: BTreeMap<String, Vec<Task>> = BTreeMap::new();
    let mut add = |request: StageRequest, task: fn(StageRequest) -> Task| {
        by_endpoint.entry(request.endpoint.clone()).or_default().push(task(request));
    };
    for _ in 0..REQUESTS_MAX {
        let Some(request) = database.take_stages(now).await? else { break };
        add(request, Task::Stage);
    }
    database.take_open_requests(now).await?.into_iter().for_each(|request| add(request, Task::Poll));
    database.take_releases(now).await?.into_iter().for_each(|request| add(request, Task::Release));
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
            // The requests of a task that ended by a panic are taken again after their leases.
            Some(Err(_)) => {}
            Some(Ok(done)) => outcome = outcome.and(done),
        }
    }
}

impl Stager {
    /// Works on the tasks of one endpoint, one after the other. It stops when the server does not answer: the rest is taken again after its
    /// lease.
    async fn work(self: Arc<Self>, tasks: Vec<Task>, until: Instant, stop: watch::Receiver<bool>) -> Result<()> {
        for task in tasks {
            if *stop.borrow() || Instant::now() >= until {
                break;
            }
            let has_answered = match task {
                Task::Stage(request) => self.stage(request).await?,
                Task::Poll(request) => self.poll(request).await?,
                Task::Release(request) => self.release(request).await?,
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
        let discovering = server.clone();
        let api = blocking(move || discovering.api()).await.map_err(|error| match error {
            TapeError::Unknown => TapeError::Failed(format!("{endpoint} has no tape REST API")),
            other => other,
        })?;
        self.apis.lock().insert(endpoint.to_owned(), api.clone());
        Ok(TapeApi { server, api })
    }

    /// Requests that files are staged; returns whether the server has answered.
    async fn stage(&self, request: StageRequest) -> Result<bool> {
        let now = time::now();
        let paths = paths(&request.files);
        let id = match self.find(&request.endpoint).await {
            Ok(TapeApi { server, api }) => blocking(move || server.stage(&api, &paths)).await,
            Err(error) => Err(error),
        };
        match id {
            Ok(id) => {
                let files = request.files.iter().map(|file| file.file).collect();
                self.hub.database.record_requested(files, id, now).await.map(|()| true)
            }
            Err(error) => self.failed(request, &error).await.map(|()| false),
        }
    }

    /// Handles a server that does not answer: the request is tried again later, and the API of the server is discovered anew.
    async fn failed(&self, request: StageRequest, error: &TapeError) -> Result<()> {
        self.apis.lock().remove(&request.endpoint);
        tracing::warn!(endpoint = request.endpoint, %error, "files cannot be staged from tape now; it is tried again");
        let why = format!("{} does not stage it from tape: {error}", request.endpoint);
        self.hub.database.postpone_request(request, why, time::now()).await
    }

    /// Stores the state of the files of a request; returns whether the server has answered.
    async fn poll(&self, request: StageRequest) -> Result<bool> {
        let id = request.id.clone();
        let polled = match self.find(&request.endpoint).await {
            Ok(TapeApi { server, api }) => blocking(move || server.poll(&api, &id)).await,
            Err(error) => Err(error),
        };
        let by_path = match polled {
            Ok(by_path) => by_path,
            // A request that the server does not know any more is made anew.
            Err(TapeError::Unknown) => request
                .files
                .iter()
                .map(|file| {
                    (
                        path(&file.source),
                        StageOutcome::Failed("the server does not know the request any more".to_owned()),
                    )
                })
                .collect(),
            Err(error) => return self.failed(request, &error).await.map(|()| false),
        };
        let outcome = |file: &TapeFile| Some((file.file, by_path.get(&path(&file.source))?.clone()));
        let outcomes: BTreeMap<i64, StageOutcome> = request.files.iter().filter_map(outcome).collect();
        let has_staged = outcomes.values().any(|outcome| *outcome == StageOutcome::OnDisk);
        self.hub.database.record_staged(request, outcomes, time::now()).await?;
        if has_staged {
            self.hub.wake.notify_one();
        }
        Ok(true)
    }

    /// Releases files; returns whether the server has answered. The request is removed in any case: the server releases the files itself in
    /// the end.
    async fn release(&self, request: StageRequest) -> Result<bool> {
        let mut has_answered = true;
        if !request.id.is_empty()
            && let Ok(TapeApi { server, api }) = self.find(&request.endpoint).await
        {
            let (id, paths) = (request.id.clone(), paths(&request.files));
            let done = blocking(move || {
                // Files that are still being staged are not needed any more. A server that has staged them all refuses to cancel.
                let _ = server.cancel(&api, &id, &paths);
                server.release(&api, &id, &paths)
            });
            if let Err(error) = done.await {
                tracing::info!(endpoint = request.endpoint, %error, "files that were read could not be released");
                has_answered = false;
            }
        }
        self.hub
            .database
            .record_released(request.files.iter().map(|file| file.file).collect())
            .await
            .map(|()| has_answered)
    }
}

/// The path of a URL on its server, in the spelling of tape APIs.
pub fn path(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    collapsed(&percent_encoding::percent_decode_str(path).decode_utf8_lossy())
}

fn paths(files: &[TapeFile]) -> Vec<String> {
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

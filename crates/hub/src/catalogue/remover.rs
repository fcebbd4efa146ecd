//! Deletes copies that no rule holds, and verifies suspected copies, over HTTP at their endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::checksum::Digest;
use model::fault::Blame;
use model::{Algorithm, Fault};
use remote::Dav;
use store::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::database::catalogue::{Removal, Suspicion};
use crate::database::{DatabaseError, Result};
use crate::servers::Servers;
use crate::state::HubState;
use crate::tape::Locality;
use crate::time;
use crate::topology::Topology;

/// The pause after a round without work.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// How long a hub works on the copies that it has leased to delete: half of their lease. It leases the rest again later.
const REMOVE_MAX: Duration = Duration::from_secs(5 * 60);
/// The most endpoints where copies are deleted at the same time.
const ENDPOINTS_MAX: usize = 8;

/// Runs until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        let was_busy = match run_round(&hub).await {
            Ok(was_busy) => was_busy,
            Err(DatabaseError::Stopping) => return,
            Err(error) => {
                tracing::error!(%error, "the catalogue could not delete or verify copies; it tries again");
                false
            }
        };
        let wait = if was_busy { Duration::ZERO } else { POLL_EVERY };
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Deletes and verifies copies; returns whether there were any.
async fn run_round(hub: &Arc<HubState>) -> Result<bool> {
    let until = Instant::now() + REMOVE_MAX;
    let removals = hub.database.take_removals(Arc::clone(&hub.topology.load()), time::now()).await?;
    let suspicions = hub.database.suspicions(time::now()).await?;
    // A suspicion that the endpoint cannot settle now is not returned again for a while.
    let is_busy = !removals.is_empty() || !suspicions.is_empty();
    remove(hub, removals, until).await?;
    for suspicion in suspicions {
        verify(hub, suspicion).await?;
    }
    Ok(is_busy)
}

/// Deletes copies at their endpoints until the time is over: at each endpoint one after another.
async fn remove(hub: &Arc<HubState>, removals: Vec<Removal>, until: Instant) -> Result<()> {
    let mut by_endpoint: std::collections::BTreeMap<String, Vec<Removal>> = std::collections::BTreeMap::new();
    for removal in removals {
        by_endpoint.entry(removal.endpoint.clone()).or_default().push(removal);
    }
    let mut endpoints = by_endpoint.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < ENDPOINTS_MAX
            && let Some((endpoint, removals)) = endpoints.next()
        {
            let hub = Arc::clone(hub);
            running.spawn_blocking(move || remove_at(&hub, &endpoint, removals, until));
        }
        let Some(ended) = running.join_next().await else { return Ok(()) };
        // The copies of a task that panicked are leased again when their lease has ended.
        let Ok(RemovalOutcome { deleted, failed }) = ended else { continue };
        if !deleted.is_empty() {
            hub.database.record_removed(deleted, time::now()).await?;
        }
        if !failed.is_empty() {
            hub.database.record_not_removed(failed, time::now()).await?;
        }
    }
}

/// The result of deletions at one endpoint. Copies that were not tried are in neither list.
#[derive(Default)]
struct RemovalOutcome {
    deleted: Vec<Removal>,
    /// Copies that could not be deleted, each with the reason.
    failed: Vec<(Removal, String)>,
}

/// Deletes copies at one endpoint until the time is over.
fn remove_at(hub: &HubState, endpoint: &str, removals: Vec<Removal>, until: Instant) -> RemovalOutcome {
    let mut outcome = RemovalOutcome::default();
    let topology = hub.topology.load_full();
    for removal in removals {
        if Instant::now() >= until {
            break;
        }
        let deletion = match topology.storage.get(endpoint) {
            None => Err(format!("{endpoint} has no storage any more")),
            Some(place) => {
                let url = place.url_of(&removal.name, removal.path.as_deref());
                hub.servers.file(&topology, endpoint, &url).and_then(|(server, path)| delete(&server, &path))
            }
        };
        match deletion {
            Ok(()) => outcome.deleted.push(removal),
            Err(why) => outcome.failed.push((removal, why)),
        }
    }
    outcome
}

/// Deletes a file. A file that does not exist counts as deleted.
fn delete(server: &Dav, path: &model::RelPath) -> std::result::Result<(), String> {
    match server.remove(path) {
        Err(error) if !error.is_not_found() => Err(model::fault::with_causes(&error)),
        _ => Ok(()),
    }
}

/// The state of a copy, as its endpoint reports it.
enum CopyHealth {
    Good,
    Bad(String),
    /// The endpoint's answer does not decide it.
    Unknown,
}

/// Verifies a suspected copy: it is declared bad, cleared, or verified again later.
async fn verify(hub: &Arc<HubState>, suspicion: Suspicion) -> Result<()> {
    let topology = hub.topology.load_full();
    let Some(place) = topology.storage.get(&suspicion.endpoint) else {
        return hub.database.clear_suspicion(suspicion.file.id, suspicion.endpoint).await;
    };
    let url = place.url_of(&suspicion.file.name, suspicion.path.as_deref());
    let servers = Arc::clone(&hub.servers);
    let endpoint = suspicion.endpoint.clone();
    let file = suspicion.file.clone();
    let is_on_tape = topology.described_endpoint(&endpoint).is_some_and(|it| it.tape);
    let examination =
        tokio::task::spawn_blocking(move || match (is_on_tape, servers.file(&topology, &endpoint, &url)) {
            (true, _) => examine_on_tape(&servers, &topology, &endpoint, &url),
            (false, Ok((server, path))) => {
                examine(&server, &path, file.bytes, file.adler32.as_deref(), file.md5.as_deref())
            }
            (false, Err(_)) => CopyHealth::Unknown,
        });
    let (file, endpoint) = (suspicion.file, suspicion.endpoint);
    match examination.await.unwrap_or(CopyHealth::Unknown) {
        CopyHealth::Good => hub.database.clear_suspicion(file.id, endpoint).await,
        CopyHealth::Unknown => hub.database.postpone_suspicion(file.id, endpoint, time::now()).await,
        CopyHealth::Bad(why) => {
            tracing::warn!(file = %file.name, endpoint, why, "a copy is bad");
            match hub.database.declare_bad(file.name, endpoint, "hub".into(), why, time::now()).await {
                // The copy was removed in the meantime.
                Err(DatabaseError::Refused(_)) => Ok(()),
                declared => declared,
            }
        }
    }
}

/// Reads the locality of a file on tape. The file is not staged, so its checksum is not verified.
fn examine_on_tape(servers: &Servers, topology: &Topology, endpoint: &str, url: &str) -> CopyHealth {
    let path = crate::stager::path(url);
    let read_localities = || -> std::result::Result<_, String> {
        let server = servers.tape_server(topology, endpoint)?;
        let api = server.api().map_err(|error| error.to_string())?;
        server.localities(&api, std::slice::from_ref(&path)).map_err(|error| error.to_string())
    };
    match read_localities().ok().and_then(|localities| localities.get(&path).cloned()) {
        Some(Locality::Present) => CopyHealth::Good,
        Some(Locality::Lost(why)) => CopyHealth::Bad(why),
        Some(Locality::Unknown) | None => CopyHealth::Unknown,
    }
}

/// Compares the size of a file with the catalogue, and a checksum if the server computes one that the catalogue has.
fn examine(server: &Dav, path: &model::RelPath, bytes: i64, adler32: Option<&str>, md5: Option<&str>) -> CopyHealth {
    let stat = match server.stat(path) {
        Ok(stat) => stat,
        Err(error) if error.is_not_found() => return CopyHealth::Bad("it is not there".to_owned()),
        Err(_) => return CopyHealth::Unknown,
    };
    if stat.meta.size != bytes as u64 {
        return CopyHealth::Bad(format!("it has {} bytes instead of {bytes}", stat.meta.size));
    }
    for (algorithm, known) in [(Algorithm::Adler32, adler32), (Algorithm::Md5, md5)] {
        let Some(known) = known else { continue };
        let Ok(wanted) = format!("{}:{known}", algorithm.name()).parse::<Digest>() else { continue };
        match server.digests(path, &[algorithm]) {
            Ok(digests) if digests.contains(&wanted) => return CopyHealth::Good,
            Ok(digests) if !digests.is_empty() => {
                return CopyHealth::Bad(format!("its checksum is {} instead of {wanted}", digests[0]));
            }
            // The server may know the other checksum.
            Ok(_) => {}
            Err(error) if error.fault() == Fault::Missing => return CopyHealth::Bad("it is not there".to_owned()),
            Err(_) => return CopyHealth::Unknown,
        }
    }
    if adler32.or(md5).is_none() { CopyHealth::Good } else { CopyHealth::Unknown }
}

//! Deletes the copies that are to be removed, and verifies suspected ones, over HTTP at their endpoints.

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
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a hub works on the copies that it has taken to delete: half of their lease. The rest is taken again later.
const REMOVE_MAX: Duration = Duration::from_secs(5 * 60);
/// Endpoints that are asked at once.
const ENDPOINTS_MAX: usize = 8;

/// Runs until told to stop.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        let was_busy = match look(&hub).await {
            Ok(was_busy) => was_busy,
            Err(DatabaseError::Stopping) => return,
            Err(error) => {
                tracing::error!(%error, "the catalogue could not look after its copies; it tries again");
                false
            }
        };
        let wait = if was_busy { Duration::ZERO } else { LOOK_EVERY };
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn look(hub: &Arc<HubState>) -> Result<bool> {
    let until = Instant::now() + REMOVE_MAX;
    let removals = hub.database.take_removals(Arc::clone(&hub.topology.load()), time::now()).await?;
    let suspicions = hub.database.suspicions(time::now()).await?;
    // A suspicion that the endpoint cannot settle now is not looked into again for a while.
    let is_busy = !removals.is_empty() || !suspicions.is_empty();
    remove(hub, removals, until).await?;
    for suspicion in suspicions {
        look_into(hub, suspicion).await?;
    }
    Ok(is_busy)
}

/// Deletes copies at their endpoints, one after another at each, until the time is over.
async fn remove(hub: &Arc<HubState>, removals: Vec<Removal>, until: Instant) -> Result<()> {
    let mut by_endpoint: std::collections::BTreeMap<String, Vec<Removal>> = std::collections::BTreeMap::new();
    for removal in removals {
        by_endpoint.entry(removal.endpoint.clone()).or_default().push(removal);
    }
    let mut waiting = by_endpoint.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < ENDPOINTS_MAX
            && let Some((endpoint, removals)) = waiting.next()
        {
            let hub = Arc::clone(hub);
            running.spawn_blocking(move || remove_at(&hub, &endpoint, removals, until));
        }
        let Some(ended) = running.join_next().await else { return Ok(()) };
        // The copies of a task that broke off are taken again when their lease has ended.
        let Ok((gone, left)) = ended else { continue };
        if !gone.is_empty() {
            hub.database.removed(gone, time::now()).await?;
        }
        if !left.is_empty() {
            hub.database.not_removed(left, time::now()).await?;
        }
    }
}

type Outcome = (Vec<Removal>, Vec<(Removal, String)>);

/// Deletes copies at one endpoint. Returns those that are gone, and those that are not, with the reason; copies that were not tried are in neither.
fn remove_at(hub: &HubState, endpoint: &str, removals: Vec<Removal>, until: Instant) -> Outcome {
    let (mut gone, mut left): Outcome = Default::default();
    let topology = hub.topology.load_full();
    for removal in removals {
        if Instant::now() >= until {
            break;
        }
        let deleted = match topology.storage.get(endpoint) {
            None => Err(format!("{endpoint} has no storage any more")),
            Some(place) => {
                let url = place.url_of(&removal.name, removal.path.as_deref());
                hub.servers.file(&topology, endpoint, &url).and_then(|(server, path)| delete(&server, &path))
            }
        };
        match deleted {
            Ok(()) => gone.push(removal),
            Err(why) => left.push((removal, why)),
        }
    }
    (gone, left)
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
    /// The endpoint gives no answer that decides it.
    Unknown,
}

async fn look_into(hub: &Arc<HubState>, suspicion: Suspicion) -> Result<()> {
    let topology = hub.topology.load_full();
    let Some(place) = topology.storage.get(&suspicion.endpoint) else {
        return hub.database.cleared(suspicion.file.id, suspicion.endpoint).await;
    };
    let url = place.url_of(&suspicion.file.name, suspicion.path.as_deref());
    let (servers, endpoint, file) = (Arc::clone(&hub.servers), suspicion.endpoint.clone(), suspicion.file.clone());
    let is_on_tape = topology.described_endpoint(&endpoint).is_some_and(|it| it.tape);
    let asked = tokio::task::spawn_blocking(move || match (is_on_tape, servers.file(&topology, &endpoint, &url)) {
        (true, _) => examine_on_tape(&servers, &topology, &endpoint, &url),
        (false, Ok((server, path))) => {
            examine(&server, &path, file.bytes, file.adler32.as_deref(), file.md5.as_deref())
        }
        (false, Err(_)) => CopyHealth::Unknown,
    });
    let (file, endpoint) = (suspicion.file, suspicion.endpoint);
    match asked.await.unwrap_or(CopyHealth::Unknown) {
        CopyHealth::Good => hub.database.cleared(file.id, endpoint).await,
        CopyHealth::Unknown => hub.database.not_told(file.id, endpoint, time::now()).await,
        CopyHealth::Bad(why) => {
            tracing::warn!(file = %file.name, endpoint, why, "a copy is not what it should be");
            match hub.database.declare_bad(file.name, endpoint, "hub".into(), why, time::now()).await {
                // The copy has been removed meanwhile.
                Err(DatabaseError::Refused(_)) => Ok(()),
                declared => declared,
            }
        }
    }
}

/// Asks for the locality of a file on tape: the file is not staged to be verified.
fn examine_on_tape(servers: &Servers, topology: &Topology, endpoint: &str, url: &str) -> CopyHealth {
    let path = crate::stager::path(url);
    let asked = || -> std::result::Result<_, String> {
        let server = servers.tape_server(topology, endpoint)?;
        let api = server.api().map_err(|error| error.to_string())?;
        server.localities(&api, std::slice::from_ref(&path)).map_err(|error| error.to_string())
    };
    match asked().ok().and_then(|told| told.get(&path).cloned()) {
        Some(Locality::There) => CopyHealth::Good,
        Some(Locality::Lost(why)) => CopyHealth::Bad(why),
        Some(Locality::Unknown) | None => CopyHealth::Unknown,
    }
}

/// Compares size and checksums of a file with the catalogue, as far as the server computes checksums.
fn examine(server: &Dav, path: &model::RelPath, bytes: i64, adler32: Option<&str>, md5: Option<&str>) -> CopyHealth {
    let stat = match server.stat(path) {
        Ok(stat) => stat,
        Err(error) if error.is_not_found() => return CopyHealth::Bad("it is not there".to_owned()),
        Err(_) => return CopyHealth::Unknown,
    };
    if stat.meta.size != bytes as u64 {
        return CopyHealth::Bad(format!("it has {} bytes, and {bytes} are right", stat.meta.size));
    }
    for (algorithm, known) in [(Algorithm::Adler32, adler32), (Algorithm::Md5, md5)] {
        let Some(known) = known else { continue };
        let Ok(wanted) = format!("{}:{known}", algorithm.name()).parse::<Digest>() else { continue };
        match server.digests(path, &[algorithm]) {
            Ok(told) if told.contains(&wanted) => return CopyHealth::Good,
            Ok(told) if !told.is_empty() => {
                return CopyHealth::Bad(format!("its checksum is {}, and {wanted} is right", told[0]));
            }
            // The server may know the other checksum.
            Ok(_) => {}
            Err(error) if error.fault() == Fault::Missing => return CopyHealth::Bad("it is not there".to_owned()),
            Err(_) => return CopyHealth::Unknown,
        }
    }
    if adler32.or(md5).is_none() { CopyHealth::Good } else { CopyHealth::Unknown }
}

//! Folders and files of endpoints: lists and renames them, puts them aside for deletion, and signs links to them.

use std::sync::Arc;
use std::time::Duration;

use model::v1::hub::{Deletion, Download, Folder, FolderEntry, RenameOrder};
use model::{Fault, Kind, Refusal, RelPath};
use remote::Dav;
use store::Store;
use tokio::sync::watch;
use web::Refused;

use crate::catalogue::refused;
use crate::database::DatabaseError;
use crate::database::deletions::DeletionRow;
use crate::roles::Member;
use crate::state::HubState;
use crate::time;
use crate::topology::Topology;

/// How long a link to a file may be used. A download that has begun by then goes on.
pub const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The most entries of a folder that are listed.
const ENTRIES_MAX: usize = 100_000;
/// The prefix of the names under which deleted files lie in their folders; such names are not listed.
const KEPT_PREFIX: &str = ".longhaul-deleted-";
/// How long a deletion can be taken back, milliseconds.
pub const KEPT_MS: i64 = 7 * 86_400_000;
/// How often the hub looks for expired deletions.
const POLL_EVERY: Duration = Duration::from_secs(30);
/// How long the lease of an expired deletion lasts, milliseconds.
const LEASE_MS: i64 = 3_600_000;

/// The activity that a link to a file permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// To read the file.
    Download,
    /// To upload the file, if none exists.
    Upload,
}

impl Activity {
    /// The word in a macaroon.
    pub fn word(self) -> &'static str {
        match self {
            Activity::Download => "DOWNLOAD",
            Activity::Upload => "UPLOAD",
        }
    }
}

/// Lists a folder.
///
/// # Errors
/// No endpoint has the folder, or its server does not answer.
pub async fn list(hub: &Arc<HubState>, at: &str) -> Result<Folder, Refused> {
    let (hub, at) = (Arc::clone(hub), at.to_owned());
    blocking(move || list_blocking(&hub, &at)).await
}

/// Requires that a file or folder exists, of the expected kind.
///
/// # Errors
/// It does not exist, is of the other kind, or its server does not answer.
pub async fn require(hub: &Arc<HubState>, at: &str, is_folder: bool) -> Result<(), Refused> {
    let (hub, at) = (Arc::clone(hub), at.to_owned());
    blocking(move || {
        let server_path = ServerPath::of(&hub, &at)?;
        let stat = server_path.server.stat(&server_path.path).map_err(failed)?;
        match (stat.meta.kind == Kind::Dir, is_folder) {
            (true, false) => Err(Refused::new(400, "it is a folder: its URL has a slash at its end")),
            (false, true) => Err(Refused::new(400, "it is a file: its URL has no slash at its end")),
            _ => Ok(()),
        }
    })
    .await
}

/// A signed link to a file.
///
/// # Errors
/// No endpoint has the file, or its server signs no links.
pub async fn signed_link(
    hub: &Arc<HubState>,
    at: String,
    activity: Activity,
    lifetime: Duration,
) -> Result<Download, Refused> {
    let (hub, expires) = (Arc::clone(hub), time::now() + lifetime.as_millis() as i64);
    let url = blocking(move || {
        let topology = hub.topology.load_full();
        let endpoint = endpoint(&topology, &at)?;
        let link = hub.servers.signed_link(&topology, &endpoint, &at, activity.word(), lifetime);
        link.map_err(|why| Refused::new(409, format!("{endpoint}: {why}")))
    });
    Ok(Download { url: url.await?, expires: time::show(expires) })
}

/// Makes a folder.
///
/// # Errors
/// The folder exists already, or its server refuses.
pub async fn make_folder(hub: &Arc<HubState>, at: String) -> Result<(), Refused> {
    let hub = Arc::clone(hub);
    blocking(move || {
        let server_path = ServerPath::of(&hub, &at)?;
        server_path.server.make_dir(&server_path.path).map_err(failed)
    })
    .await
}

/// Renames a file or folder; the new name must be free.
///
/// # Errors
/// The member has no right to it, the names are at two endpoints, the new name is taken, or the server refuses.
pub async fn rename(hub: &Arc<HubState>, member: &Member, order: RenameOrder) -> Result<(), Refused> {
    require_changeable(hub, member, &order.from)?;
    let hub = Arc::clone(hub);
    blocking(move || {
        let (from, to) = (ServerPath::of(&hub, &order.from)?, ServerPath::of(&hub, &order.to)?);
        if from.endpoint != to.endpoint {
            let reason = "a file is renamed within its endpoint; to another endpoint it is moved by a transfer";
            return Err(Refused::new(400, reason));
        }
        from.server.rename(&from.path, &to.path, false).map_err(failed)
    })
    .await
}

/// Puts a file or folder aside, to be deleted once it cannot be taken back any more.
///
/// # Errors
/// The member has no right to it, or the server refuses.
pub async fn delete(hub: &Arc<HubState>, member: &Member, at: String) -> Result<Deletion, Refused> {
    require_changeable(hub, member, &at)?;
    let mut id = [0; 8];
    let filled = auth::trust::provider().secure_random.fill(&mut id);
    filled.map_err(|_| Refused::new(500, "the system gives no random numbers"))?;
    let id = model::hex::encode(&id);
    let bare = at.trim_end_matches('/');
    let (folder, _) = bare.rsplit_once('/').ok_or_else(|| Refused::new(400, "say which file or folder: at=URL"))?;
    let now = time::now();
    let row = DeletionRow {
        kept_at: format!("{folder}/{KEPT_PREFIX}{id}"),
        endpoint: endpoint(&hub.topology.load(), &at)?,
        owner: member.owner.clone(),
        target: bare.to_owned(),
        deleted: now,
        expires: now + KEPT_MS,
        id,
    };
    // The row is stored first: a file that is renamed without a row would never be deleted.
    hub.database.add_deletion(row.clone()).await.map_err(refused)?;
    let renamed = rename_url(hub, row.target.clone(), row.kept_at.clone()).await;
    if let Err(why) = renamed {
        hub.database.remove_deletion(row.id).await.map_err(refused)?;
        return Err(why);
    }
    Ok(deletion(&row))
}

/// Takes a deletion back: the file or folder has its name again.
///
/// # Errors
/// The deletion has expired, the name is taken by now, or the server refuses.
pub async fn take_back(hub: &Arc<HubState>, member: &Member, id: &str) -> Result<Deletion, Refused> {
    let row = hub.database.deletion(id).await.map_err(refused)?;
    let row = row.filter(|row| member.may_change(&row.owner, &member.community));
    let row = row.ok_or_else(|| Refused::new(404, format!("there is no deletion {id}, or none of yours")))?;
    if row.deleted + KEPT_MS <= time::now() {
        return Err(Refused::new(409, "it was deleted more than 7 days ago, and cannot be taken back"));
    }
    rename_url(hub, row.kept_at.clone(), row.target.clone()).await?;
    hub.database.remove_deletion(row.id.clone()).await.map_err(refused)?;
    Ok(deletion(&row))
}

/// A deletion as the type of the API.
pub fn deletion(row: &DeletionRow) -> Deletion {
    Deletion {
        id: row.id.clone(),
        owner: row.owner.clone(),
        at: web::target::redacted(&row.target),
        deleted: time::show(row.deleted),
        expires: time::show(row.deleted + KEPT_MS),
    }
}

async fn rename_url(hub: &Arc<HubState>, from: String, to: String) -> Result<(), Refused> {
    let hub = Arc::clone(hub);
    blocking(move || {
        let (from, to) = (ServerPath::of(&hub, &from)?, ServerPath::of(&hub, &to)?);
        from.server.rename(&from.path, &to.path, false).map_err(failed)
    })
    .await
}

/// Carries out expired deletions until the hub stops.
pub async fn run(hub: Arc<HubState>, mut stop: watch::Receiver<bool>) {
    loop {
        match delete_expired(&hub).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(DatabaseError::Stopping) => return,
            Err(error) => tracing::error!(%error, "expired deletions cannot be read; the hub tries again"),
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
    }
}

/// Carries out one expired deletion; returns whether there was one. A deletion that fails is tried again after its lease.
async fn delete_expired(hub: &Arc<HubState>) -> Result<bool, DatabaseError> {
    let Some(row) = hub.database.take_expired_deletion(time::now(), LEASE_MS).await? else { return Ok(false) };
    let (state, kept_at) = (Arc::clone(hub), row.kept_at.clone());
    let removal = blocking(move || {
        let server_path = ServerPath::of(&state, &kept_at)?;
        match store::remove_all(&server_path.server, &server_path.path) {
            Err(error) if !error.is_not_found() => Err(failed(error)),
            _ => Ok(()),
        }
    });
    match removal.await {
        Ok(()) => hub.database.remove_deletion(row.id).await?,
        Err(why) => tracing::warn!(endpoint = row.endpoint, why = why.reason, "a deleted file cannot be removed yet"),
    }
    Ok(true)
}

/// Refuses changes of existing files by users, unless the endpoint permits them.
fn require_changeable(hub: &HubState, member: &Member, at: &str) -> Result<(), Refused> {
    let topology = hub.topology.load();
    let name = endpoint(&topology, at)?;
    let is_permitted = topology.described_endpoint(&name).is_some_and(|described| described.changeable);
    if is_permitted || member.role >= model::v1::hub::Role::Operator {
        return Ok(());
    }
    let reason = format!(
        "users may not rename or delete files at {name}: an admin permits it with longhaul hub endpoint set {name} --changeable true"
    );
    Err(Refused { fault: Some(Fault::Auth), ..Refused::new(403, reason) })
}

/// The last name of a URL, as text.
pub fn last_name(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    String::from_utf8_lossy(&web::target::decode(last)).into_owned()
}

/// The described endpoint of a URL.
fn endpoint(topology: &Topology, at: &str) -> Result<String, Refused> {
    let endpoint = topology.endpoint(at).filter(|name| topology.described_endpoint(name).is_some());
    endpoint.ok_or_else(|| {
        let shown = web::target::redacted(at);
        Refused::new(404, format!("no endpoint of the collaboration has URLs like {shown}"))
    })
}

/// The server of a URL, and the path there.
struct ServerPath {
    endpoint: String,
    server: Dav,
    path: RelPath,
}

impl ServerPath {
    fn of(hub: &HubState, at: &str) -> Result<ServerPath, Refused> {
        let topology = hub.topology.load_full();
        let endpoint = endpoint(&topology, at)?;
        let reached = hub.servers.file(&topology, &endpoint, at);
        let (server, path) = reached.map_err(|why| Refused::new(409, format!("{endpoint}: {why}")))?;
        Ok(ServerPath { endpoint, server, path })
    }
}

fn failed(error: store::Error) -> Refused {
    let refusal = Refusal::from_error(&error);
    let fault = if error.is_not_found() { Fault::Missing } else { refusal.fault };
    Refused::from(Refusal { fault, ..refusal })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Refused> + Send + 'static) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Refused::new(500, format!("the request broke off: {error}"))))
}

/// Lists a folder, on a thread that may block.
fn list_blocking(hub: &HubState, at: &str) -> Result<Folder, Refused> {
    let server_path = ServerPath::of(hub, at)?;
    let entries = server_path.server.list(&server_path.path).map_err(failed)?.finished();
    let mut folder = Folder { at: web::target::redacted(at), endpoint: server_path.endpoint, ..Folder::default() };
    for entry in entries {
        let (name, stat) = entry.map_err(failed)?;
        let Ok(stat) = stat else {
            folder.left_out += 1;
            continue;
        };
        if folder.entries.len() == ENTRIES_MAX || name.as_bytes().starts_with(KEPT_PREFIX.as_bytes()) {
            folder.left_out += 1;
            continue;
        }
        let (is_folder, changed) = (stat.meta.kind == Kind::Dir, stat.meta.mtime.seconds);
        folder.entries.push(FolderEntry {
            name: String::from_utf8_lossy(name.as_bytes()).into_owned(),
            href: web::target::encode(name.as_bytes()),
            is_folder,
            bytes: if is_folder { 0 } else { stat.meta.size },
            changed: (changed > 0).then(|| time::show(changed.saturating_mul(1000))),
        });
    }
    folder.entries.sort_by(|a, b| (!a.is_folder, &a.name).cmp(&(!b.is_folder, &b.name)));
    Ok(folder)
}

//! Folders of endpoints: what is in them, for whoever chooses what is to be moved; and links to their files, which the endpoints sign.

use std::sync::Arc;
use std::time::Duration;

use model::v1::hub::{Download, DownloadOrder, Folder, FolderEntry};
use model::{Kind, Refusal};
use store::Store;
use web::Refused;

use super::{Answered, ApiRequest, json};
use crate::state::HubState;
use crate::time;
use crate::topology::Topology;

/// How long a link to a file may be used: a download that has begun goes on.
const LINK_LASTS: Duration = Duration::from_secs(15 * 60);
/// Entries of a folder that are told of.
const ENTRIES_MAX: usize = 100_000;

/// GET /api/v1/folders.
pub(super) async fn list(request: ApiRequest) -> Answered {
    let at = request.parameter("at").ok_or_else(|| Refused::new(400, "say which folder: at=URL"))?;
    let hub = Arc::clone(&request.hub);
    let listed = tokio::task::spawn_blocking(move || look_into(&hub, &at)).await;
    let listed = listed.unwrap_or_else(|error| Err(Refused::new(500, format!("the listing broke off: {error}"))));
    json(200, &listed?)
}

/// POST /api/v1/downloads.
pub(super) async fn download(request: ApiRequest) -> Answered {
    let DownloadOrder { at } = request.read("a download")?;
    let (hub, expires) = (Arc::clone(&request.hub), time::now() + LINK_LASTS.as_millis() as i64);
    let signed = tokio::task::spawn_blocking(move || {
        let topology = hub.topology.load_full();
        let endpoint = endpoint(&topology, &at)?;
        let link = hub.servers.signed_link(&topology, &endpoint, &at, LINK_LASTS);
        link.map_err(|why| Refused::new(409, format!("{endpoint}: {why}")))
    });
    let url =
        signed.await.unwrap_or_else(|error| Err(Refused::new(500, format!("the question broke off: {error}"))))?;
    tracing::info!(target: "access", by = request.member.owner, url = web::target::redacted(&url), "a link was given");
    json(201, &Download { url, expires: time::show(expires) })
}

/// The described endpoint of a URL.
fn endpoint(topology: &Topology, at: &str) -> Result<String, Refused> {
    let endpoint = topology.endpoint(at).filter(|name| topology.described_endpoint(name).is_some());
    endpoint.ok_or_else(|| {
        let shown = web::target::redacted(at);
        Refused::new(404, format!("no endpoint of the collaboration has URLs like {shown}"))
    })
}

fn look_into(hub: &HubState, at: &str) -> Result<Folder, Refused> {
    let topology = hub.topology.load_full();
    let shown = web::target::redacted(at);
    let endpoint = endpoint(&topology, at)?;
    let (server, path) =
        hub.servers.file(&topology, &endpoint, at).map_err(|why| Refused::new(409, format!("{endpoint}: {why}")))?;
    let failed = |error: store::Error| Refused::from(Refusal::from_error(&error));
    let entries = server.list(&path).map_err(failed)?.finished();
    let mut folder = Folder { at: shown, endpoint, ..Folder::default() };
    for entry in entries {
        let (name, stat) = entry.map_err(failed)?;
        let Ok(stat) = stat else {
            folder.left_out += 1;
            continue;
        };
        if folder.entries.len() == ENTRIES_MAX {
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

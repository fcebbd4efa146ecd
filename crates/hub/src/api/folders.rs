//! Folders and files of endpoints: listings, new folders, renames, deletions, and links to files, which the endpoints sign.

use model::v1::hub::{Deletion, Deletions, FileUrl, RenameOrder};
use serde_json::json;
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::refused;
use crate::portal::files::{self, Activity, LINK_LIFETIME};

/// Deletions on a page, unless the request gives a limit.
const PAGE: usize = 100;

/// GET /api/v1/folders.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let at = request.parameter("at").ok_or_else(|| Refused::new(400, "say which folder: at=URL"))?;
    json(200, &files::list(&request.hub, &at).await?)
}

/// POST /api/v1/folders.
pub(super) async fn make(request: ApiRequest) -> ApiResult {
    let FileUrl { at } = request.read("a folder")?;
    files::make_folder(&request.hub, at).await?;
    json(201, &json!({}))
}

/// POST /api/v1/renames.
pub(super) async fn rename(request: ApiRequest) -> ApiResult {
    let order: RenameOrder = request.read("a rename")?;
    files::rename(&request.hub, &request.member, order).await?;
    json(200, &json!({}))
}

/// POST /api/v1/deletions.
pub(super) async fn delete(request: ApiRequest) -> ApiResult {
    let FileUrl { at } = request.read("a deletion")?;
    json(201, &files::delete(&request.hub, &request.member, at).await?)
}

/// GET /api/v1/deletions.
pub(super) async fn deletions(request: ApiRequest) -> ApiResult {
    let limit = request.limit(PAGE)?;
    let rows = request.hub.database.deletions(request.own_or_all(), limit).await.map_err(refused)?;
    let deletions: Vec<Deletion> = rows.iter().map(files::deletion).collect();
    json(200, &Deletions { deletions })
}

/// DELETE /api/v1/deletions/ID.
pub(super) async fn take_back(request: ApiRequest) -> ApiResult {
    json(200, &files::take_back(&request.hub, &request.member, &request.id).await?)
}

/// POST /api/v1/downloads.
pub(super) async fn download(request: ApiRequest) -> ApiResult {
    link(request, Activity::Download).await
}

/// POST /api/v1/uploads.
pub(super) async fn upload(request: ApiRequest) -> ApiResult {
    link(request, Activity::Upload).await
}

async fn link(request: ApiRequest, activity: Activity) -> ApiResult {
    let FileUrl { at } = request.read("a link")?;
    tracing::info!(target: "access", by = request.member.owner, url = web::target::redacted(&at), ?activity, "a link was given");
    json(201, &files::signed_link(&request.hub, at, activity, LINK_LIFETIME).await?)
}

//! Share links: members make, list and end them; a client without an account opens them.

use model::v1::hub::{ShareLink, ShareLinkOrder, ShareLinks, SharedQuery};

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::refused;
use crate::portal::files::Activity;
use crate::portal::share_links;

/// Links on a page, unless the request gives a limit.
const PAGE: usize = 100;

/// POST /api/v1/share-links.
pub(super) async fn make(request: ApiRequest) -> ApiResult {
    let order: ShareLinkOrder = request.read("a link")?;
    json(201, &share_links::make(&request.hub, &request.member, order).await?)
}

/// GET /api/v1/share-links.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let limit = request.limit(PAGE)?;
    let rows = request.hub.database.share_links(request.own_or_all(), limit).await.map_err(refused)?;
    let links: Vec<ShareLink> = rows.iter().map(share_links::to_api).collect();
    json(200, &ShareLinks { links })
}

/// DELETE /api/v1/share-links/ID.
pub(super) async fn end(request: ApiRequest) -> ApiResult {
    let row = share_links::of_id(&request.hub, &request.member, &request.id).await?;
    request.hub.database.remove_share_link(row.id.clone()).await.map_err(refused)?;
    json(200, &share_links::to_api(&row))
}

/// POST /api/v1/shared/TOKEN.
pub(super) async fn open(request: ApiRequest) -> ApiResult {
    let query: SharedQuery = request.read("a question")?;
    json(200, &share_links::open(&request.hub, &request.id, &query).await?)
}

/// POST /api/v1/shared/TOKEN/downloads.
pub(super) async fn download(request: ApiRequest) -> ApiResult {
    link(request, Activity::Download).await
}

/// POST /api/v1/shared/TOKEN/uploads.
pub(super) async fn upload(request: ApiRequest) -> ApiResult {
    link(request, Activity::Upload).await
}

async fn link(request: ApiRequest, activity: Activity) -> ApiResult {
    let query: SharedQuery = request.read("a question")?;
    json(201, &share_links::link(&request.hub, &request.id, &query, activity).await?)
}

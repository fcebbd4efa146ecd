//! Orders that are submitted every day or week.

use model::v1::hub::{Repeat, RepeatOrder, Repeats};

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::refused;
use crate::portal::repeats;

/// POST /api/v1/repeats.
pub(super) async fn make(request: ApiRequest) -> ApiResult {
    let order: RepeatOrder = request.read("a repeat")?;
    json(201, &repeats::make(&request.hub, &request.member, order).await?)
}

/// GET /api/v1/repeats.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.repeats(request.own_or_all()).await.map_err(refused)?;
    let repeats: Vec<Repeat> = rows.iter().map(repeats::to_api).collect();
    json(200, &Repeats { repeats })
}

/// DELETE /api/v1/repeats/ID.
pub(super) async fn end(request: ApiRequest) -> ApiResult {
    let row = repeats::of_id(&request.hub, &request.member, &request.id).await?;
    request.hub.database.remove_repeat(row.id.clone()).await.map_err(refused)?;
    json(200, &repeats::to_api(&row))
}

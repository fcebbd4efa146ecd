//! Webhooks: URLs that are posted the events of names.

use model::v1::hub::{Webhook, WebhookOrder, Webhooks};

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::{refused, webhooks};

/// GET /api/v1/webhooks.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.webhooks().await.map_err(refused)?;
    let webhooks: Vec<Webhook> = rows.iter().map(webhooks::to_api).collect();
    json(200, &Webhooks { webhooks })
}

/// GET /api/v1/webhooks/NAME.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    json(200, &webhooks::to_api(&webhooks::of_name(&request.hub, &request.id).await?))
}

/// PUT /api/v1/webhooks/NAME.
pub(super) async fn set(request: ApiRequest) -> ApiResult {
    let order: WebhookOrder = request.read("a webhook")?;
    json(200, &webhooks::set(&request.hub, &request.member, &request.id, &order).await?)
}

/// DELETE /api/v1/webhooks/NAME.
pub(super) async fn remove(request: ApiRequest) -> ApiResult {
    let row = webhooks::of_name(&request.hub, &request.id).await?;
    request.hub.database.remove_webhook(row.number).await.map_err(refused)?;
    json(200, &webhooks::to_api(&row))
}

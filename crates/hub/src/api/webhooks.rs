//! Webhooks: URLs that are posted the events of names.

use model::v1::hub::{Webhook, WebhookOrder, Webhooks};

use super::{Answered, ApiRequest, json};
use crate::catalogue::{refused, webhooks};

/// GET /api/v1/webhooks.
pub(super) async fn list(request: ApiRequest) -> Answered {
    let rows = request.hub.database.webhooks().await.map_err(refused)?;
    let webhooks: Vec<Webhook> = rows.iter().map(webhooks::shown).collect();
    json(200, &Webhooks { webhooks })
}

/// GET /api/v1/webhooks/NAME.
pub(super) async fn show(request: ApiRequest) -> Answered {
    json(200, &webhooks::shown(&webhooks::of_name(&request.hub, &request.id).await?))
}

/// PUT /api/v1/webhooks/NAME.
pub(super) async fn set(request: ApiRequest) -> Answered {
    let order: WebhookOrder = request.read("a webhook")?;
    json(200, &webhooks::set(&request.hub, &request.member, &request.id, &order).await?)
}

/// DELETE /api/v1/webhooks/NAME.
pub(super) async fn remove(request: ApiRequest) -> Answered {
    let row = webhooks::of_name(&request.hub, &request.id).await?;
    request.hub.database.remove_webhook(row.number).await.map_err(refused)?;
    json(200, &webhooks::shown(&row))
}

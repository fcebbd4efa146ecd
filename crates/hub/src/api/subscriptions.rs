//! Subscriptions: rules that the hub makes for new data.

use model::v1::hub::{Subscription, SubscriptionOrder, Subscriptions};

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::{refused, subscriptions};

/// GET /api/v1/subscriptions.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.subscriptions().await.map_err(refused)?;
    let subscriptions: Vec<Subscription> = rows.iter().map(subscriptions::to_api).collect();
    json(200, &Subscriptions { subscriptions })
}

/// GET /api/v1/subscriptions/NAME.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    json(200, &subscriptions::to_api(&subscriptions::of_name(&request.hub, &request.id).await?))
}

/// PUT /api/v1/subscriptions/NAME.
pub(super) async fn set(request: ApiRequest) -> ApiResult {
    let order: SubscriptionOrder = request.read("a subscription")?;
    let row = subscriptions::set(&request.hub, &request.member, &request.id, &order).await?;
    json(200, &subscriptions::to_api(&row))
}

/// DELETE /api/v1/subscriptions/NAME.
pub(super) async fn remove(request: ApiRequest) -> ApiResult {
    let row = subscriptions::remove(&request.hub, &request.member, &request.id).await?;
    json(200, &subscriptions::to_api(&row))
}

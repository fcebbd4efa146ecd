//! Subscriptions: rules that the hub makes for new data.

use model::v1::hub::{Subscription, SubscriptionOrder, Subscriptions};

use super::{Answered, ApiRequest, json};
use crate::catalogue::{refused, subscriptions};

/// GET /api/v1/subscriptions.
pub(super) async fn list(request: ApiRequest) -> Answered {
    let rows = request.hub.database.subscriptions().await.map_err(refused)?;
    let subscriptions: Vec<Subscription> = rows.iter().map(subscriptions::shown).collect();
    json(200, &Subscriptions { subscriptions })
}

/// GET /api/v1/subscriptions/NAME.
pub(super) async fn show(request: ApiRequest) -> Answered {
    json(200, &subscriptions::shown(&subscriptions::of_name(&request.hub, &request.id).await?))
}

/// PUT /api/v1/subscriptions/NAME.
pub(super) async fn set(request: ApiRequest) -> Answered {
    let order: SubscriptionOrder = request.read("a subscription")?;
    let row = subscriptions::set(&request.hub, &request.member, &request.id, &order).await?;
    json(200, &subscriptions::shown(&row))
}

/// DELETE /api/v1/subscriptions/NAME.
pub(super) async fn remove(request: ApiRequest) -> Answered {
    let row = subscriptions::remove(&request.hub, &request.member, &request.id).await?;
    json(200, &subscriptions::shown(&row))
}

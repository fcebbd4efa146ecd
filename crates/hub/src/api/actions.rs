//! The audit trail: who has changed what.

use model::v1::hub::{HubAction, HubActions};

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::refused;
use crate::database::actions::ActionRow;
use crate::time;

/// Actions on a page, unless the request gives a limit.
const PAGE: usize = 200;

/// GET /api/v1/actions.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let limit = request.limit(PAGE)?;
    let before = request.number("before")?.unwrap_or(i64::MAX);
    let by = request.parameter("by").unwrap_or_default();
    let rows = request.hub.database.actions(&by, before, limit).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|last| last.number);
    json(200, &HubActions { actions: rows.into_iter().map(to_api).collect(), next })
}

fn to_api(row: ActionRow) -> HubAction {
    HubAction {
        number: row.number,
        at: time::show(row.at),
        by: row.owner,
        from: row.address,
        what: row.what,
        path: row.path,
        status: u16::try_from(row.status).unwrap_or_default(),
    }
}

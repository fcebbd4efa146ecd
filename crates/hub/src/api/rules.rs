//! Rules of the catalogue, endpoints with storage, quotas.

use model::v1::hub::{Quotas, Removable, Removables, Rule, RuleChange, RuleOrder, Rules};
use web::Refused;
use web::routes::PROBLEM;

use super::{Answered, ApiRequest, json, with_body};
use crate::catalogue::rules::NotMade;
use crate::catalogue::{find, refused, rules, shown, storage};
use crate::database::catalogue::{Removal, RuleFilter, RuleRow};
use crate::state::HubState;
use crate::time;

/// Rules on a page, unless said.
const PAGE: usize = 100;

/// Rules as the API shows them, with the names that they apply to.
async fn all_shown(hub: &HubState, rows: &[RuleRow]) -> Result<Vec<Rule>, Refused> {
    let ids: Vec<i64> = rows.iter().map(|rule| rule.name).collect();
    let names = hub.database.data_of(&ids).await.map_err(refused)?;
    Ok(rows.iter().map(|rule| shown::rule(rule, names.get(&rule.name).map(|row| &row.name))).collect())
}

async fn one_shown(status: u16, hub: &HubState, row: RuleRow) -> Answered {
    let all = all_shown(hub, std::slice::from_ref(&row)).await?;
    json(status, &all[0])
}

/// POST /api/v1/rules.
pub(super) async fn make(request: ApiRequest) -> Answered {
    let order: RuleOrder = request.read("a rule")?;
    match rules::make(&request.hub, &request.member, &order).await {
        Ok(rule) => one_shown(201, &request.hub, rule).await,
        Err(NotMade::Refused(refused)) => Err(refused),
        Err(NotMade::NotPlaced(why)) => Ok(with_body(409, PROBLEM, serde_json::to_vec(&why).unwrap_or_default())),
    }
}

/// GET /api/v1/rules.
pub(super) async fn list(request: ApiRequest) -> Answered {
    let name = match request.parameter("name") {
        Some(name) => Some(find(&request.hub, &name).await?.id),
        None => None,
    };
    let limit = request.limit(PAGE)?;
    let account = request.parameter("account").unwrap_or_default();
    let which = RuleFilter { name, account, before: request.number("before")?, limit };
    let rows = request.hub.database.rules(&which).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|row| row.number);
    json(200, &Rules { rules: all_shown(&request.hub, &rows).await?, next })
}

/// GET /api/v1/rules/ID.
pub(super) async fn show(request: ApiRequest) -> Answered {
    let rule = rules::of_id(&request.hub, &request.id).await?;
    one_shown(200, &request.hub, rule).await
}

/// GET /api/v1/rules/ID/why.
pub(super) async fn why(request: ApiRequest) -> Answered {
    json(200, &rules::why(&request.hub, &request.id).await?)
}

/// PATCH /api/v1/rules/ID.
pub(super) async fn change(request: ApiRequest) -> Answered {
    let change: RuleChange = request.read("a change")?;
    let rule = rules::change(&request.hub, &request.member, &request.id, &change).await?;
    one_shown(200, &request.hub, rule).await
}

/// DELETE /api/v1/rules/ID.
pub(super) async fn end(request: ApiRequest) -> Answered {
    let rule = rules::end(&request.hub, &request.member, &request.id).await?;
    one_shown(202, &request.hub, rule).await
}

/// GET /api/v1/storage.
pub(super) async fn storage(request: ApiRequest) -> Answered {
    let expression = request.parameter("expression");
    json(200, &storage::list(&request.hub, &request.member, expression.as_deref()).await?)
}

/// GET /api/v1/storage/ENDPOINT/removable.
pub(super) async fn removable(request: ApiRequest) -> Answered {
    let stores = request.hub.database.stores().await.map_err(refused)?;
    let none = || Refused::new(404, format!("nothing is stored at {}", request.id));
    let store = stores.get(&request.id).ok_or_else(none)?;
    let limit = request.limit(PAGE)?;
    let rows = request.hub.database.removable(store.id, time::now(), limit).await.map_err(refused)?;
    let shown = |row: &Removal| Removable { name: row.name.to_string(), bytes: u64::try_from(row.bytes).unwrap_or(0) };
    json(200, &Removables { copies: rows.iter().map(shown).collect() })
}

/// The account in the request's path.
fn account(request: &ApiRequest) -> Result<String, Refused> {
    let text = percent_encoding::percent_decode_str(&request.id).decode_utf8();
    text.map(Into::into).map_err(|_| Refused::new(400, "an account is UTF-8"))
}

/// GET /api/v1/quotas/ACCOUNT.
pub(super) async fn quotas(request: ApiRequest) -> Answered {
    json(200, &storage::quotas(&request.hub, &request.member, &account(&request)?).await?)
}

/// PUT /api/v1/quotas/ACCOUNT.
pub(super) async fn set_quotas(request: ApiRequest) -> Answered {
    let wanted: Quotas = request.read("quotas")?;
    storage::set_quotas(&request.hub, &account(&request)?, &wanted).await?;
    quotas(request).await
}

//! Rules of the catalogue, endpoints with storage, quotas.

use model::v1::hub::{Quotas, Removable, Removables, Rule, RuleChange, RuleOrder, Rules};
use web::Refused;
use web::routes::PROBLEM;

use super::{ApiRequest, ApiResult, json, with_body};
use crate::catalogue::rules::MakeRuleError;
use crate::catalogue::{find, refused, rules, storage, to_api};
use crate::database::catalogue::{Removal, RuleFilter, RuleRow};
use crate::state::HubState;
use crate::time;

/// Rules on a page, unless the request gives a limit.
const PAGE: usize = 100;

/// Rules as types of the API, with the names that they apply to.
async fn rules_to_api(hub: &HubState, rows: &[RuleRow]) -> Result<Vec<Rule>, Refused> {
    let ids: Vec<i64> = rows.iter().map(|rule| rule.name).collect();
    let names = hub.database.data_of(&ids).await.map_err(refused)?;
    Ok(rows.iter().map(|rule| to_api::rule(rule, names.get(&rule.name).map(|row| &row.name))).collect())
}

async fn answer_with(status: u16, hub: &HubState, row: RuleRow) -> ApiResult {
    let all = rules_to_api(hub, std::slice::from_ref(&row)).await?;
    json(status, &all[0])
}

/// POST /api/v1/rules.
pub(super) async fn make(request: ApiRequest) -> ApiResult {
    let order: RuleOrder = request.read("a rule")?;
    match rules::make(&request.hub, &request.member, &order).await {
        Ok(rule) => answer_with(201, &request.hub, rule).await,
        Err(MakeRuleError::Refused(refused)) => Err(refused),
        Err(MakeRuleError::NotPlaced(why)) => Ok(with_body(409, PROBLEM, serde_json::to_vec(&why).unwrap_or_default())),
    }
}

/// GET /api/v1/rules.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let name = match request.parameter("name") {
        Some(name) => Some(find(&request.hub, &name).await?.id),
        None => None,
    };
    let limit = request.limit(PAGE)?;
    let account = request.parameter("account").unwrap_or_default();
    let filter = RuleFilter { name, account, before: request.number("before")?, limit };
    let rows = request.hub.database.rules(&filter).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|row| row.number);
    json(200, &Rules { rules: rules_to_api(&request.hub, &rows).await?, next })
}

/// GET /api/v1/rules/ID.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    let rule = rules::of_id(&request.hub, &request.id).await?;
    answer_with(200, &request.hub, rule).await
}

/// GET /api/v1/rules/ID/why.
pub(super) async fn why(request: ApiRequest) -> ApiResult {
    json(200, &rules::why(&request.hub, &request.id).await?)
}

/// PATCH /api/v1/rules/ID.
pub(super) async fn change(request: ApiRequest) -> ApiResult {
    let change: RuleChange = request.read("a change")?;
    let rule = rules::change(&request.hub, &request.member, &request.id, &change).await?;
    answer_with(200, &request.hub, rule).await
}

/// DELETE /api/v1/rules/ID.
pub(super) async fn end(request: ApiRequest) -> ApiResult {
    let rule = rules::end(&request.hub, &request.member, &request.id).await?;
    answer_with(202, &request.hub, rule).await
}

/// GET /api/v1/storage.
pub(super) async fn storage(request: ApiRequest) -> ApiResult {
    let expression = request.parameter("expression");
    json(200, &storage::list(&request.hub, &request.member, expression.as_deref()).await?)
}

/// GET /api/v1/storage/ENDPOINT/removable.
pub(super) async fn removable(request: ApiRequest) -> ApiResult {
    let stores = request.hub.database.stores().await.map_err(refused)?;
    let none = || Refused::new(404, format!("nothing is stored at {}", request.id));
    let store = stores.get(&request.id).ok_or_else(none)?;
    let limit = request.limit(PAGE)?;
    let rows = request.hub.database.removable(store.id, time::now(), limit).await.map_err(refused)?;
    let to_api = |row: &Removal| Removable { name: row.name.to_string(), bytes: u64::try_from(row.bytes).unwrap_or(0) };
    json(200, &Removables { copies: rows.iter().map(to_api).collect() })
}

/// The account in the request's path.
fn account(request: &ApiRequest) -> Result<String, Refused> {
    let text = percent_encoding::percent_decode_str(&request.id).decode_utf8();
    text.map(Into::into).map_err(|_| Refused::new(400, "an account is UTF-8"))
}

/// GET /api/v1/quotas/ACCOUNT.
pub(super) async fn quotas(request: ApiRequest) -> ApiResult {
    json(200, &storage::quotas(&request.hub, &request.member, &account(&request)?).await?)
}

/// PUT /api/v1/quotas/ACCOUNT.
pub(super) async fn set_quotas(request: ApiRequest) -> ApiResult {
    let wanted: Quotas = request.read("quotas")?;
    storage::set_quotas(&request.hub, &account(&request)?, &wanted).await?;
    quotas(request).await
}

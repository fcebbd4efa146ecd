//! Accounts and scopes. Every holder of a key is an account; the hub stores only the scopes, the usage and the quotas of accounts.

use std::collections::BTreeMap;

use model::v1::hub::{Quota, Quotas, Role};
use serde::Deserialize;
use serde_json::{Value, json};

use super::errors::RucioError;
use super::{RucioRequest, RucioResult, created, done, json_answer, stream, unknown};
use crate::catalogue::storage;
use crate::state::HubState;
use crate::time;

/// `accounts/…`.
pub(super) async fn answer(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    match (method, path) {
        ("GET", ["whoami"]) => account(&request, &request.member.owner),
        ("GET", []) => stream([json!({"account": request.member.owner, "type": "USER", "email": null})]),
        ("GET", [name]) => account(&request, name),
        ("GET", [name, "attr"]) => attributes(&request, name),
        ("GET", [name, "scopes"]) => scopes_of(&request, name).await,
        ("POST", [name, "scopes", scope]) => make_scope(&request, name, scope).await,
        ("GET", [name, "identities"]) => stream([json!({"identity": name, "type": "USERPASS", "email": null})]),
        ("GET", [name, "rules"]) => super::rules::of_account(&request, name).await,
        ("GET", [name, "usage", "local"]) => usage(&request, name, None).await,
        ("GET", [name, "usage", "local", endpoint]) => usage(&request, name, Some(endpoint)).await,
        ("GET", [name, "usage", "global"]) => usage_of_expressions(&request, name).await,
        ("GET", [name, "limits", "local" | "global"]) => limits(&request, name).await,
        ("POST", [name, "limits", "local" | "global", expression]) => set_limit(&request, name, expression).await,
        ("DELETE", [name, "limits", "local" | "global", expression]) => {
            change_limits(&request, name, expression, None).await?;
            done()
        }
        _ => Err(unknown(method, path)),
    }
}

fn account(request: &RucioRequest, name: &str) -> RucioResult {
    if name != request.member.owner && request.member.role < Role::Operator {
        return Err(RucioError::new(
            404,
            "AccountNotFound",
            format!("there is no account {name} that you may know of"),
        ));
    }
    json_answer(
        200,
        &json!({
            "account": name,
            "account_type": "USER",
            "type": "USER",
            "status": "ACTIVE",
            "email": null,
            "suspended_at": null,
            "deleted_at": null,
            "created_at": null,
            "updated_at": null,
        }),
    )
}

fn attributes(request: &RucioRequest, name: &str) -> RucioResult {
    let is_admin = name == request.member.owner && request.member.role == Role::Admin;
    json_answer(200, &json!([{"key": "admin", "value": is_admin}]))
}

async fn scopes_of(request: &RucioRequest, name: &str) -> RucioResult {
    let all = request.hub.database.scopes().await?;
    let mut own: Vec<String> =
        all.into_iter().filter(|(_, account, _)| account == name).map(|(scope, ..)| scope).collect();
    let user_scope = crate::catalogue::own_scope(name);
    if !own.contains(&user_scope) {
        own.push(user_scope);
    }
    json_answer(200, &own)
}

async fn make_scope(request: &RucioRequest, account: &str, scope: &str) -> RucioResult {
    request.member.require(Role::Operator).map_err(|refusal| RucioError::new(403, "AccessDenied", refusal.reason))?;
    replicas::check_scope(scope).map_err(|error| RucioError::new(400, "InvalidObject", error.to_string()))?;
    let database = &request.hub.database;
    if database.scope_account(scope).await?.is_some() {
        return Err(RucioError::new(409, "Duplicate", format!("the scope {scope} exists already")));
    }
    database.make_scope(scope.to_owned(), account.to_owned(), time::now()).await?;
    created()
}

/// `scopes/…`.
pub(super) async fn scopes(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    let all = request.hub.database.scopes().await?;
    match (method, path) {
        ("GET", []) => json_answer(200, &all.iter().map(|(scope, ..)| scope).collect::<Vec<_>>()),
        ("GET", ["owner"]) => {
            let form = |(scope, account, _): &(String, String, i64)| json!({"scope": scope, "account": account});
            json_answer(200, &all.iter().map(form).collect::<Vec<_>>())
        }
        _ => Err(unknown(method, path)),
    }
}

async fn usage(request: &RucioRequest, account: &str, endpoint: Option<&str>) -> RucioResult {
    let hub: &HubState = &request.hub;
    let topology = hub.topology.load();
    let stores = hub.database.stores().await?;
    let held = hub.database.held_bytes(account).await?;
    let left = hub.database.quotas_left(account, &topology).await?;
    let mut lines = Vec::new();
    for place in topology.storage.values().filter(|place| endpoint.is_none_or(|wanted| wanted == place.endpoint)) {
        let bytes = stores.get(&place.endpoint).and_then(|store| held.get(&store.id)).copied().unwrap_or(0);
        let left = left.get(&place.endpoint).map(|left| *left as i64);
        if bytes > 0 || left.is_some() || endpoint.is_some() {
            lines.push(json!({
                "rse": place.endpoint,
                "rse_id": super::forms::id(&place.endpoint),
                "bytes": bytes,
                "files": null,
                "bytes_limit": left.map_or(-1, |left| left + bytes),
                "bytes_remaining": left.unwrap_or(-1),
            }));
        }
    }
    stream(lines)
}

async fn usage_of_expressions(request: &RucioRequest, account: &str) -> RucioResult {
    let hub: &HubState = &request.hub;
    let topology = hub.topology.load();
    let stores = hub.database.stores().await?;
    let held = hub.database.held_bytes(account).await?;
    let line = |(text, limit): (String, i64)| -> Option<Value> {
        let expression: replicas::Expression = text.parse().ok()?;
        let matching = topology.storage.values().filter(|place| expression.matches(&place.endpoint, &place.attributes));
        let bytes: i64 = matching.filter_map(|place| held.get(&stores.get(&place.endpoint)?.id)).sum();
        Some(json!({"rse_expression": text, "bytes": bytes, "bytes_limit": limit, "bytes_remaining": limit - bytes}))
    };
    stream(hub.database.quotas(account).await?.into_iter().filter_map(line).collect::<Vec<_>>())
}

async fn limits(request: &RucioRequest, account: &str) -> RucioResult {
    let quotas = request.hub.database.quotas(account).await?;
    json_answer(200, &quotas.into_iter().collect::<BTreeMap<_, _>>())
}

#[derive(Deserialize)]
struct Limit {
    bytes: i64,
}

async fn set_limit(request: &RucioRequest, account: &str, expression: &str) -> RucioResult {
    let Limit { bytes } = request.read()?;
    // A negative number means no limit.
    change_limits(request, account, expression, u64::try_from(bytes).ok()).await?;
    created()
}

async fn change_limits(
    request: &RucioRequest,
    account: &str,
    expression: &str,
    bytes: Option<u64>,
) -> Result<(), RucioError> {
    request.member.require(Role::Operator).map_err(|refusal| RucioError::new(403, "AccessDenied", refusal.reason))?;
    let mut quotas = storage::quotas(&request.hub, &request.member, account).await?.quotas;
    quotas.retain(|quota| quota.expression != expression);
    quotas.extend(bytes.map(|bytes| Quota { expression: expression.to_owned(), bytes }));
    Ok(storage::set_quotas(&request.hub, account, &Quotas { quotas }).await?)
}

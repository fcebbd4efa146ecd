//! The FTS API: `/config`, for the settings that the hub's description has. Other settings are refused, never silently dropped.

mod links;
mod shares;

use model::v1::hub::{Collaboration, Role, Stopped};
use model::{Fault, Refusal};
use serde_json::{Map, Value, json};
use web::Refused;

use super::settings::{HOST, check_known};
use super::{FtsRequest, FtsResult, json_answer, no_content, storages};
use crate::database::fts::ConfigChange;
use crate::state::unavailable;
use crate::time;

/// The most bytes of a request that the audit of the configuration keeps.
const AUDIT_BYTES_MAX: usize = 4096;

fn refuse(reason: impl Into<String>) -> Refused {
    Refused::new(400, reason)
}

/// Answers the requests below `/config`, and records those that change something.
pub(super) async fn answer(request: FtsRequest, method: &str, what: &[&str]) -> FtsResult {
    if method != "GET" && what.first() != Some(&"se") {
        request.member.require(Role::Admin)?;
    }
    let change = (method != "GET").then(|| audit_entry(&request, method, what));
    let hub = std::sync::Arc::clone(&request.hub);
    let response = route(request, method, what).await?;
    if let Some(change) = change {
        hub.database.add_config_change(change).await.map_err(unavailable)?;
    }
    Ok(response)
}

async fn route(request: FtsRequest, method: &str, what: &[&str]) -> FtsResult {
    match (method, what) {
        ("GET", ["se"]) => storages::show(&request),
        ("POST", ["se"]) => storages::set(request).await,
        ("DELETE", ["se"]) => storages::reset(request).await,
        ("GET", ["links"]) => links::list(&request),
        ("POST", ["links"]) => links::set(request).await,
        ("GET", ["links", name]) => links::show(&request, name),
        ("DELETE", ["links", name]) => links::delete(request, name).await,
        ("GET", ["shares"]) => shares::list(&request),
        ("POST", ["shares"]) => shares::set(request).await,
        ("DELETE", ["shares"]) => shares::delete(request).await,
        ("GET", ["activity_shares"]) => shares::activities(&request),
        ("POST", ["activity_shares"]) => shares::set_activities(request).await,
        ("GET", ["activity_shares", vo]) => shares::activities_of(&request, vo),
        ("DELETE", ["activity_shares", vo]) => shares::delete_activities(request, vo).await,
        ("GET", ["global"]) => global(),
        (_, ["global"]) => Err(refuse(
            "the hub has no settings for all jobs of a VO: retry, max_time_in_queue and timeouts are parameters of a submission",
        )),
        ("POST", ["drain"]) => drain(request).await,
        ("GET", ["audit"]) => audit(request).await,
        (_, ["authorize" | "cloud_storage" | "gridmap", ..]) => Err(refuse(
            "on this hub keys have rights (longhaul hub grant), and endpoints have the keys of their storages (longhaul hub endpoint)",
        )),
        (_, ["se" | "links" | "shares" | "activity_shares" | "drain" | "audit", ..]) => {
            Err(Refused::new(405, format!("{method} is no method of /config/{}", what.join("/"))))
        }
        _ => Err(Refused::new(404, format!("there is no /config/{} here", what.join("/")))),
    }
}

/// The entry of a request in the audit of the configuration.
fn audit_entry(request: &FtsRequest, method: &str, what: &[&str]) -> ConfigChange {
    let mut config = String::from_utf8_lossy(&request.body).into_owned();
    if !request.query.is_empty() {
        config = format!("?{} {config}", request.query);
    }
    let end = (0..=AUDIT_BYTES_MAX.min(config.len())).rev().find(|at| config.is_char_boundary(*at)).unwrap_or(0);
    config.truncate(end);
    let action = format!("{method} /config/{}", what.join("/"));
    ConfigChange { at: time::now(), dn: request.member.distinguished_name(), action, config: config.trim().to_owned() }
}

async fn describe(
    request: &FtsRequest,
    change: impl FnOnce(&mut Collaboration) -> Result<(), Refusal>,
) -> Result<(), Refused> {
    request.hub.describe(change).await.map_err(Refused::from)
}

/// `GET /config/global`: the defaults of jobs.
fn global() -> FtsResult {
    json_answer(
        200,
        &json!([{"vo_name": "*", "retry": 3, "max_time_in_queue": null, "global_timeout": null, "sec_per_mb": null,
            "no_streaming": null, "show_user_dn": true}]),
    )
}

/// `POST /config/drain` with `hostname` and `drain`: stops new transfers, or lets them begin again.
async fn drain(request: FtsRequest) -> FtsResult {
    let body: Map<String, Value> = web::json::read(&request.body, "the configuration")?;
    check_known("drain", &body, &["hostname", "drain"])?;
    let host = body.get("hostname").and_then(Value::as_str).unwrap_or_default();
    if host != HOST {
        return Err(Refused::new(404, format!("the host of this hub is {HOST}, as /status/hosts says")));
    }
    let wanted = body.get("drain").and_then(Value::as_bool).ok_or_else(|| refuse("drain is true or false"))?;
    let reason = format!("{} drains the hub", request.member.owner);
    describe(&request, move |all| {
        match (&all.stopped, wanted) {
            (Some(stopped), _) if !stopped.drain => {
                let reason = "everything is stopped already by another command: longhaul hub start all";
                return Err(Refusal::new(Fault::Config, reason));
            }
            (_, wanted) => {
                all.stopped = wanted.then_some(Stopped { reason, drain: true, refuse: false, ..Stopped::default() })
            }
        }
        Ok(())
    })
    .await?;
    no_content()
}

/// `GET /config/audit`.
async fn audit(request: FtsRequest) -> FtsResult {
    request.member.require(Role::Operator)?;
    let form = |change: &ConfigChange| {
        let at = time::show(change.at);
        json!({"datetime": at.split(['.', 'Z']).next(), "dn": change.dn, "action": change.action, "config": change.config})
    };
    let changes = request.hub.database.config_changes().await.map_err(unavailable)?;
    json_answer(200, &changes.iter().map(form).collect::<Vec<_>>())
}

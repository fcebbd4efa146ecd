//! The FTS API: `/config`, as far as the hub's description has these settings. Settings that it does not have are refused, never silently
//! dropped.

mod links;
mod shares;

use model::v1::hub::{Collaboration, Role, Stopped};
use model::{Fault, Refusal};
use serde_json::{Map, Value, json};
use web::Refused;

use super::settings::{HOST, check_known};
use super::{Answered, FtsRequest, json_answer, nothing, storages};
use crate::database::fts::Audited;
use crate::state::unavailable;
use crate::time;

/// Bytes of what the audit keeps of one request.
const AUDIT_BYTES_MAX: usize = 4096;

fn refuse(reason: impl Into<String>) -> Refused {
    Refused::new(400, reason)
}

/// Answers what is below `/config`.
pub(super) async fn answer(request: FtsRequest, method: &str, what: &[&str]) -> Answered {
    if method != "GET" && what.first() != Some(&"se") {
        request.member.require(Role::Admin)?;
    }
    let noted = (method != "GET").then(|| note(&request, method, what));
    let hub = std::sync::Arc::clone(&request.hub);
    let response = route(request, method, what).await?;
    if let Some(noted) = noted {
        hub.database.audit(noted).await.map_err(unavailable)?;
    }
    Ok(response)
}

async fn route(request: FtsRequest, method: &str, what: &[&str]) -> Answered {
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
            "nothing is the same for all jobs of a VO here: retry, max_time_in_queue and timeouts are parameters of a submission",
        )),
        ("POST", ["drain"]) => drain(request).await,
        ("GET", ["audit"]) => audit(request).await,
        (_, ["authorize" | "cloud_storage" | "gridmap", ..]) => Err(refuse(
            "rights are those of keys here (longhaul hub grant), and storages are reached with the keys of their endpoints (longhaul hub endpoint)",
        )),
        (_, ["se" | "links" | "shares" | "activity_shares" | "drain" | "audit", ..]) => {
            Err(Refused::new(405, format!("{method} is no method of /config/{}", what.join("/"))))
        }
        _ => Err(Refused::new(404, format!("there is no /config/{} here", what.join("/")))),
    }
}

/// What the audit keeps of a request.
fn note(request: &FtsRequest, method: &str, what: &[&str]) -> Audited {
    let mut config = String::from_utf8_lossy(&request.body).into_owned();
    if !request.query.is_empty() {
        config = format!("?{} {config}", request.query);
    }
    let end = (0..=AUDIT_BYTES_MAX.min(config.len())).rev().find(|at| config.is_char_boundary(*at)).unwrap_or(0);
    config.truncate(end);
    let action = format!("{method} /config/{}", what.join("/"));
    Audited { at: time::now(), dn: request.member.distinguished_name(), action, config: config.trim().to_owned() }
}

async fn describe(
    request: &FtsRequest,
    change: impl FnOnce(&mut Collaboration) -> Result<(), Refusal>,
) -> Result<(), Refused> {
    request.hub.describe(change).await.map_err(Refused::from)
}

/// `GET /config/global`: the defaults of jobs.
fn global() -> Answered {
    json_answer(
        200,
        &json!([{"vo_name": "*", "retry": 3, "max_time_in_queue": null, "global_timeout": null, "sec_per_mb": null,
            "no_streaming": null, "show_user_dn": true}]),
    )
}

/// `POST /config/drain` with `hostname` and `drain`: nothing new begins, or it does again.
async fn drain(request: FtsRequest) -> Answered {
    let asked: Map<String, Value> = web::json::read(&request.body, "the configuration")?;
    check_known("drain", &asked, &["hostname", "drain"])?;
    let host = asked.get("hostname").and_then(Value::as_str).unwrap_or_default();
    if host != HOST {
        return Err(Refused::new(404, format!("the host of this hub is {HOST}, as /status/hosts says")));
    }
    let wish = asked.get("drain").and_then(Value::as_bool).ok_or_else(|| refuse("drain is true or false"))?;
    let reason = format!("{} drains the hub", request.member.owner);
    describe(&request, move |all| {
        match (&all.stopped, wish) {
            (Some(stopped), _) if !stopped.drain => {
                let reason = "everything is stopped already, by another command: longhaul hub start all";
                return Err(Refusal::new(Fault::Config, reason));
            }
            (_, wish) => {
                all.stopped = wish.then_some(Stopped { reason, drain: true, refuse: false, ..Stopped::default() })
            }
        }
        Ok(())
    })
    .await?;
    nothing()
}

/// `GET /config/audit`.
async fn audit(request: FtsRequest) -> Answered {
    request.member.require(Role::Operator)?;
    let form = |done: &Audited| {
        let at = time::show(done.at);
        json!({"datetime": at.split(['.', 'Z']).next(), "dn": done.dn, "action": done.action, "config": done.config})
    };
    let done = request.hub.database.audited().await.map_err(unavailable)?;
    json_answer(200, &done.iter().map(form).collect::<Vec<_>>())
}

//! The FTS API: bans and settings of storages, and the list of hosts. A storage is an endpoint of the hub; a ban or a setting for an
//! unknown storage adds it to the hub's description.

use std::collections::{BTreeMap, BTreeSet};

use model::v1::hub::{Collaboration, Endpoint, EndpointKind, Role, Stopped};
use model::{Fault, Refusal};
use serde_json::{Map, Value, json};
use web::Refused;

use super::cancel::cancel;
use super::settings::{HOST, check_known};
use super::{FtsRequest, FtsResult, json_answer, no_content};
use crate::state::unavailable;
use crate::states::JobKind;

/// The storage that a request names.
fn storage(request: &FtsRequest) -> Result<String, Refused> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let storage = request.parameter("storage").or_else(|| body.get("storage")?.as_str().map(str::to_owned));
    storage.ok_or_else(|| Refused::new(400, "Missing storage parameter"))
}

/// The described endpoint of a storage; a new one if there was none.
fn endpoint<'a>(all: &'a mut Collaboration, storage: &str, name: Option<String>) -> Result<&'a mut Endpoint, Refusal> {
    let described = name.filter(|name| all.endpoints.contains_key(name));
    if storage.split_once("://").is_none_or(|(_, host)| host.is_empty()) {
        return Err(Refusal::new(Fault::Config, format!("{storage:?} is no storage: SCHEME://HOST[:PORT]")));
    }
    let new_name =
        || storage.chars().map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' }).collect();
    let name = described.unwrap_or_else(new_name);
    let kind = match storage.split("://").next() {
        Some("lh") => EndpointKind::Node,
        Some("s3") => EndpointKind::S3,
        _ => EndpointKind::Webdav,
    };
    let new = || Endpoint { kind, urls: vec![storage.to_owned()], ..Endpoint::default() };
    Ok(all.endpoints.entry(name).or_insert_with(new))
}

async fn change(request: &FtsRequest, storage: &str, edit: impl FnOnce(&mut Endpoint)) -> Result<(), Refused> {
    request.member.require(Role::Operator)?;
    let name = request.hub.topology.load().endpoint(storage);
    let described = |all: &mut Collaboration| endpoint(all, storage, name).map(edit);
    request.hub.describe(described).await.map_err(Refused::from)
}

/// `GET /ban/se`.
pub(super) fn banned(request: &FtsRequest) -> FtsResult {
    let topology = request.hub.topology.load();
    let form = |(_, endpoint): (&String, &Endpoint)| {
        let stopped = endpoint.stopped.as_ref()?;
        let status = if stopped.refuse { "CANCEL" } else { "WAIT" };
        Some(json!({"se": endpoint.urls.first(), "status": status, "message": stopped.reason, "vo": "*"}))
    };
    json_answer(200, &topology.described.endpoints.iter().filter_map(form).collect::<Vec<_>>())
}

/// `POST /ban/se` with `storage`, and `status` (`cancel` or `wait`), `allow_submit`, `message`. Answers with the ids of the jobs whose
/// files it has cancelled. With `wait` files wait until the ban is lifted.
pub(super) async fn ban(request: FtsRequest) -> FtsResult {
    let storage = storage(&request)?;
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let allow = body.get("allow_submit").and_then(Value::as_bool).unwrap_or(false);
    let status = text("status").unwrap_or_else(|| "cancel".to_owned()).to_ascii_lowercase();
    if !["cancel", "wait"].contains(&status.as_str()) {
        return Err(Refused::new(400, "status is cancel or wait"));
    }
    if allow && status == "cancel" {
        return Err(Refused::new(400, "allow_submit goes with the status wait"));
    }
    if body.get("timeout").is_some_and(|it| it.as_i64().unwrap_or(0) != 0 || it.as_str().is_some_and(|it| it != "0")) {
        return Err(Refused::new(
            400,
            "timeout: files wait for a banned storage as long as their jobs allow (max_time_in_queue)",
        ));
    }
    let reason = text("message").filter(|text| !text.is_empty()).unwrap_or_else(|| "banned".to_owned());
    change(&request, &storage, |it| {
        it.stopped = Some(Stopped { reason, drain: true, refuse: !allow, ..Stopped::default() })
    })
    .await?;
    let name = request.hub.topology.load().endpoint(&storage);
    match name.filter(|_| status == "cancel") {
        Some(name) => json_answer(200, &cancel_at(&request, &name).await?),
        None => json_answer(200, &json!([])),
    }
}

/// Cancels the files whose source or target is an endpoint; returns the ids of their jobs.
async fn cancel_at(request: &FtsRequest, endpoint: &str) -> Result<BTreeSet<String>, Refused> {
    let mut cancelled = BTreeSet::new();
    loop {
        let unended = request.hub.database.unended_files(endpoint).await.map_err(unavailable)?;
        if unended.is_empty() {
            return Ok(cancelled);
        }
        let mut by_job: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for file in unended {
            by_job.entry(file.job).or_default().push(file.id);
        }
        for (id, files) in by_job {
            let job = request.hub.database.job(&id).await.map_err(unavailable)?;
            let job = job.ok_or_else(|| Refused::new(500, format!("the job {id} is missing, but has files")))?;
            // Files with several sources, and hops, can only be cancelled with their whole job.
            if job.kind == JobKind::Independent {
                request.hub.cancel_files(files).await?;
            } else {
                cancel(request, job).await?;
            }
            cancelled.insert(id);
        }
    }
}

/// `DELETE /ban/se?storage=`.
pub(super) async fn unban(request: FtsRequest) -> FtsResult {
    let storage = storage(&request)?;
    change(&request, &storage, |it| it.stopped = None).await?;
    no_content()
}

/// `GET /config/se[?se=]`.
pub(super) fn show(request: &FtsRequest) -> FtsResult {
    let topology = request.hub.topology.load();
    let wanted = request.parameter("se");
    let mut all = Map::new();
    for endpoint in topology.described.endpoints.values() {
        for url in &endpoint.urls {
            let url = url.trim_end_matches('/').to_owned();
            if wanted.as_ref().is_some_and(|wanted| wanted.trim_end_matches('/') != url) {
                continue;
            }
            let limits = &endpoint.limits;
            let megabytes = |bits: Option<u64>| bits.map(|bits| bits as f64 / 8e6);
            all.insert(
                url,
                json!({
                    "se_info": {
                        "inbound_max_active": limits.in_transfers,
                        "outbound_max_active": limits.out_transfers,
                        "inbound_max_throughput": megabytes(limits.in_bit_s),
                        "outbound_max_throughput": megabytes(limits.out_bit_s),
                        "tpc_support": "FULL",
                    },
                    "operations": {},
                }),
            );
        }
    }
    json_answer(200, &all)
}

/// `POST /config/se` with `{SE: {"se_info": {…}}}`. Throughputs are in MB/s, as in FTS.
pub(super) async fn set(request: FtsRequest) -> FtsResult {
    let body: Map<String, Value> = web::json::read(&request.body, "the configuration")?;
    for (storage, config) in &body {
        let info = config.get("se_info").cloned().unwrap_or_default();
        check(storage, config, &info)?;
        let count = |name: &str| info.get(name).and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        let rate = |name: &str| {
            info.get(name).and_then(Value::as_f64).filter(|rate| *rate > 0.0).map(|rate| (rate * 8e6) as u64)
        };
        change(&request, storage, |it| {
            let limits = &mut it.limits;
            limits.in_transfers = count("inbound_max_active").or(limits.in_transfers);
            limits.out_transfers = count("outbound_max_active").or(limits.out_transfers);
            limits.in_bit_s = rate("inbound_max_throughput").or(limits.in_bit_s);
            limits.out_bit_s = rate("outbound_max_throughput").or(limits.out_bit_s);
        })
        .await?;
    }
    json_answer(200, &json!([]))
}

/// Refuses settings that the description of an endpoint does not have. `tpc_support: FULL` is accepted: it holds for all endpoints.
fn check(storage: &str, config: &Value, info: &Value) -> Result<(), Refused> {
    const KNOWN: [&str; 4] =
        ["inbound_max_active", "outbound_max_active", "inbound_max_throughput", "outbound_max_throughput"];
    let mut settings = info.as_object().cloned().unwrap_or_default();
    settings.retain(|name, value| name != "tpc_support" || *value != json!("FULL"));
    check_known(storage, &settings, &KNOWN)?;
    if let Some(object) = config.as_object() {
        let mut others = object.clone();
        others.remove("se_info");
        check_known(storage, &others, &["se_info"])?;
    }
    Ok(())
}

/// `DELETE /config/se?se=`: resets the limits of a storage to the defaults.
pub(super) async fn reset(request: FtsRequest) -> FtsResult {
    let storage = request.parameter("se").ok_or_else(|| Refused::new(400, "Missing se parameter"))?;
    change(&request, &storage, |it| {
        let limits = &mut it.limits;
        limits.in_transfers = None;
        limits.out_transfers = None;
        limits.in_bit_s = None;
        limits.out_bit_s = None;
    })
    .await?;
    no_content()
}

/// `GET /status/hosts`.
pub(super) async fn hosts(request: FtsRequest) -> FtsResult {
    let queues = request.hub.database.queues().await.map_err(unavailable)?;
    let active: i64 = queues.iter().map(|queue| queue.running).sum();
    json_answer(200, &json!({HOST: {"active": active, "staging": 0}}))
}

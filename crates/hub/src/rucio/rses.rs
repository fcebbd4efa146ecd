//! Endpoints with storage: Rucio's storage elements. They are described through the hub's own API; this API only reads them.

use replicas::{DataName, Expression};
use serde_json::{Map, Value, json};

use super::errors::RucioError;
use super::{RucioRequest, RucioResult, forms, json_answer, stream, unknown};
use crate::database::catalogue::StoreUse;
use crate::time;
use crate::topology::{StoragePlace, Topology};

/// `rses/…`.
pub(super) async fn answer(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    let topology = request.hub.topology.load_full();
    match (method, path) {
        ("GET", []) => list(&request, &topology),
        ("GET", [name]) => json_answer(200, &forms::rse(place(&topology, name)?, topology.refuses(name))),
        ("GET", [name, "attr"]) => json_answer(200, &attributes(place(&topology, name)?)),
        ("GET", [name, "usage"]) => {
            let used = request.hub.database.stores().await?.get(*name).copied().unwrap_or_default();
            stream([usage(place(&topology, name)?, used)])
        }
        ("GET", [name, "limits"]) => {
            let mut limits = Map::new();
            if let Some(capacity) = place(&topology, name)?.capacity_bytes {
                limits.insert("MaxSpaceAvailable".into(), capacity.into());
            }
            json_answer(200, &limits)
        }
        ("GET", [name, "protocols"]) => json_answer(200, &forms::rse(place(&topology, name)?, false)["protocols"]),
        ("GET", [name, "protocols", _]) => {
            json_answer(200, &forms::rse(place(&topology, name)?, topology.refuses(name)))
        }
        ("GET", [name, "lfns2pfns"]) => addresses(&request, place(&topology, name)?),
        ("GET", [from, "distances", to]) => {
            let distance = json!({
                "distance": 1,
                "ranking": 1,
                "src_rse_id": forms::id(&place(&topology, from)?.endpoint),
                "dest_rse_id": forms::id(&place(&topology, to)?.endpoint),
            });
            json_answer(200, &[distance])
        }
        ("POST" | "PUT" | "DELETE", [..]) => {
            let text = "endpoints are described at the hub: longhaul hub endpoint set NAME --storage URL --attribute WORD=VALUE";
            Err(RucioError::new(403, "AccessDenied", text))
        }
        _ => Err(unknown(method, path)),
    }
}

/// An endpoint by its name.
pub(super) fn place<'a>(topology: &'a Topology, name: &str) -> Result<&'a StoragePlace, RucioError> {
    let none = || RucioError::new(404, "RSENotFound", format!("there is no endpoint {name} with storage"));
    topology.storage.get(name).ok_or_else(none)
}

/// The endpoints that an expression matches.
///
/// # Errors
/// The expression is invalid, or matches no endpoint.
pub(super) fn matching<'a>(topology: &'a Topology, text: &str) -> Result<Vec<&'a StoragePlace>, RucioError> {
    let wrong = |reason: String| RucioError::new(400, "InvalidRSEExpression", reason);
    let expression: Expression = text.parse().map_err(|error: replicas::ExpressionError| wrong(error.to_string()))?;
    let all = topology.storage.values();
    let matching: Vec<_> = all.filter(|place| expression.matches(&place.endpoint, &place.attributes)).collect();
    if matching.is_empty() {
        return Err(wrong(format!("{text} matches no endpoint with storage")));
    }
    Ok(matching)
}

fn list(request: &RucioRequest, topology: &Topology) -> RucioResult {
    match request.parameter("expression") {
        Some(text) => stream(matching(topology, &text)?.into_iter().map(|place| json!({"rse": place.endpoint}))),
        None => stream(topology.storage.values().map(|place| forms::rse(place, topology.refuses(&place.endpoint)))),
    }
}

fn attributes(place: &StoragePlace) -> Map<String, Value> {
    let value = |text: &String| match text.to_ascii_lowercase().as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => Value::String(text.clone()),
    };
    let mut all: Map<String, Value> = place.attributes.iter().map(|(word, text)| (word.clone(), value(text))).collect();
    all.insert(place.endpoint.clone(), true.into());
    all.insert("lfn2pfn_algorithm".into(), place.naming.word().into());
    all
}

fn usage(place: &StoragePlace, used: StoreUse) -> Value {
    let total = place.capacity_bytes.map(|capacity| capacity as i64);
    json!({
        "rse": place.endpoint,
        "rse_id": forms::id(&place.endpoint),
        "source": "rucio",
        "used": used.bytes,
        "free": total.map(|total| (total - used.bytes).max(0)),
        "total": total,
        "files": used.files,
        "updated_at": forms::time(time::now()),
    })
}

/// The addresses of names at an endpoint.
fn addresses(request: &RucioRequest, place: &StoragePlace) -> RucioResult {
    let mut all = Map::new();
    for text in request.parameters("lfn") {
        let name: DataName = text
            .parse()
            .map_err(|error: replicas::NameError| RucioError::new(400, "InvalidObject", error.to_string()))?;
        if let Some(pfn) = forms::pfn(place, &name, None) {
            all.insert(text, pfn.into());
        }
    }
    json_answer(200, &all)
}

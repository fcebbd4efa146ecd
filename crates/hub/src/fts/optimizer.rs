//! The FTS API: `/optimizer`, which shows the decisions of the scheduler for each pair of storages.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use web::Refused;

use super::{FtsRequest, FtsResult, json_answer};
use crate::state::unavailable;
use crate::time;

/// The decision for a pair, over all its queues.
#[derive(Default)]
struct Pair {
    active: i64,
    queued: i64,
    /// Bytes per second.
    used: f64,
    rate: f64,
    bytes: i64,
    why: Vec<String>,
}

async fn pairs(request: &FtsRequest) -> Result<BTreeMap<(String, String), Pair>, Refused> {
    let hub = &request.hub;
    let topology = hub.topology.load();
    let snapshot = hub.snapshot.load_full();
    let storage = |name: &str| {
        let first_url = topology.described_endpoint(name).and_then(|endpoint| endpoint.urls.first());
        first_url.map_or_else(|| name.to_owned(), |url| super::forms::storage(url))
    };
    let mut pairs: BTreeMap<(String, String), Pair> = BTreeMap::new();
    for queue in hub.database.queues().await.map_err(unavailable)? {
        if !request.member.may_change(&queue.key.owner, &queue.key.community) {
            continue;
        }
        let ends = (storage(&queue.key.source), storage(&queue.key.target));
        let conditions = [("source_se", &ends.0), ("dest_se", &ends.1)];
        if conditions.into_iter().any(|(name, own)| request.parameter(name).is_some_and(|wanted| wanted != *own)) {
            continue;
        }
        let pair = pairs.entry(ends).or_default();
        pair.active += queue.running;
        pair.queued += queue.queued;
        pair.bytes += queue.queued_bytes + queue.running_bytes;
        let Some(decision) = snapshot.queues.get(&queue.id) else { continue };
        pair.used += decision.used;
        pair.rate += decision.rate;
        let text = match decision.constraint.text.as_str() {
            "" => "nothing bounds it".to_owned(),
            text => text.to_owned(),
        };
        if !pair.why.contains(&text) {
            pair.why.push(text);
        }
    }
    Ok(pairs)
}

/// `GET /optimizer/evolution`: the last decision for each pair. Throughputs are in bytes per second.
pub(super) async fn evolution(request: &FtsRequest) -> FtsResult {
    let at = time::show(request.hub.snapshot.load().at);
    let at = at.split(['.', 'Z']).next().unwrap_or_default();
    let form = |((source, target), pair): (&(String, String), &Pair)| {
        let files = (pair.active + pair.queued).max(1);
        json!({
            "datetime": at,
            "source_se": source,
            "dest_se": target,
            "active": pair.active,
            "actual_active": pair.active,
            "queue_size": pair.queued,
            "throughput": pair.used,
            "agrthroughput": pair.used,
            "ema": finite(pair.rate),
            "filesize_avg": pair.bytes as f64 / files as f64,
            "filesize_stddev": Value::Null,
            "success": Value::Null,
            "diff": 0,
            "rationale": pair.why.join("; "),
        })
    };
    json_answer(200, &pairs(request).await?.iter().map(form).collect::<Vec<_>>())
}

/// `GET /optimizer/current`: the running transfers and the rate of each pair.
pub(super) async fn current(request: &FtsRequest) -> FtsResult {
    let at = time::show(request.hub.snapshot.load().at);
    let at = at.split(['.', 'Z']).next().unwrap_or_default();
    let form = |((source, target), pair): (&(String, String), &Pair)| {
        json!({
            "datetime": at,
            "source_se": source,
            "dest_se": target,
            "active": pair.active,
            "nostreams": Value::Null,
            "ema": finite(pair.rate),
        })
    };
    json_answer(200, &pairs(request).await?.iter().map(form).collect::<Vec<_>>())
}

/// A rate, or null if nothing bounds it: JSON has no infinity.
fn finite(rate: f64) -> Value {
    if rate.is_finite() { json!(rate) } else { Value::Null }
}

//! The FTS API: shares of VOs, which are communities here, and of activities within them.

use std::collections::BTreeMap;

use model::v1::hub::{Activity, Community};
use serde_json::{Map, Value, json};
use web::Refused;

use super::{describe, refuse};
use crate::fts::settings::check_known;
use crate::fts::{FtsRequest, FtsResult, json_answer, no_content};

/// `GET /config/shares`.
pub(super) fn list(request: &FtsRequest) -> FtsResult {
    let topology = request.hub.topology.load();
    let form = |(name, community): (&String, &Community)| {
        Some(json!({"source": "*", "destination": "*", "vo": name, "share": community.share?}))
    };
    json_answer(200, &topology.described.communities.iter().filter_map(form).collect::<Vec<_>>())
}

/// The VO of a share; only a share over all pairs is accepted.
fn require_all_pairs(source: &str, destination: &str, vo: &str) -> Result<String, Refused> {
    if (source, destination) != ("*", "*") {
        return Err(refuse("a VO has one share over all pairs here: source and destination are *"));
    }
    if vo.is_empty() {
        return Err(refuse("vo is the name of a VO"));
    }
    Ok(vo.to_owned())
}

fn weight(value: Option<&Value>) -> Result<f64, Refused> {
    let number = value.and_then(|value| value.as_f64().or_else(|| value.as_str()?.parse().ok()));
    number.filter(|share| share.is_finite() && *share > 0.0).ok_or_else(|| refuse("a share is a number larger than 0"))
}

/// `POST /config/shares`.
pub(super) async fn set(request: FtsRequest) -> FtsResult {
    let body: Map<String, Value> = web::json::read(&request.body, "the configuration")?;
    check_known("a share", &body, &["source", "destination", "vo", "share"])?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let vo = require_all_pairs(text("source"), text("destination"), text("vo"))?;
    let share = weight(body.get("share"))?;
    describe(&request, move |all| {
        all.communities.entry(vo).or_default().share = Some(share);
        Ok(())
    })
    .await?;
    json_answer(200, &body)
}

/// `DELETE /config/shares?source=*&destination=*&vo=`.
pub(super) async fn delete(request: FtsRequest) -> FtsResult {
    let text = |name: &str| request.parameter(name).unwrap_or_default();
    let vo = require_all_pairs(&text("source"), &text("destination"), &text("vo"))?;
    describe(&request, move |all| {
        if let Some(community) = all.communities.get_mut(&vo) {
            community.share = None;
        }
        Ok(())
    })
    .await?;
    no_content()
}

fn shares_of(community: &Community) -> BTreeMap<&String, f64> {
    community.activities.iter().filter_map(|(name, activity)| Some((name, activity.share?))).collect()
}

/// `GET /config/activity_shares`.
pub(super) fn activities(request: &FtsRequest) -> FtsResult {
    let topology = request.hub.topology.load();
    let form = |(name, community): (&String, &Community)| {
        let shares = shares_of(community);
        (!shares.is_empty()).then(|| json!({"vo": name, "active": true, "share": shares}))
    };
    json_answer(200, &topology.described.communities.iter().filter_map(form).collect::<Vec<_>>())
}

/// `GET /config/activity_shares/VO`.
pub(super) fn activities_of(request: &FtsRequest, vo: &str) -> FtsResult {
    let topology = request.hub.topology.load();
    let shares = topology.described.communities.get(vo).map(shares_of).filter(|shares| !shares.is_empty());
    let shares = shares.ok_or_else(|| Refused::new(404, format!("{vo} has no shares of activities")))?;
    json_answer(200, &json!({"vo": vo, "active": true, "share": shares}))
}

/// The shares of a request: an object, or a list of objects.
fn shares_in(value: Option<&Value>) -> Result<BTreeMap<String, Activity>, Refused> {
    let maps: Vec<&Map<String, Value>> = match value {
        Some(Value::Object(map)) => vec![map],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).collect(),
        _ => Vec::new(),
    };
    let mut shares = BTreeMap::new();
    for (name, value) in maps.into_iter().flatten() {
        shares.insert(name.clone(), Activity { share: Some(weight(Some(value))?) });
    }
    if shares.is_empty() {
        return Err(refuse("share is an object: activities and their weights"));
    }
    Ok(shares)
}

/// `POST /config/activity_shares` with `vo`, `active`, `share`. Activities that are not named have a share of 1.
pub(super) async fn set_activities(request: FtsRequest) -> FtsResult {
    let body: Map<String, Value> = web::json::read(&request.body, "the configuration")?;
    check_known("shares of activities", &body, &["vo", "active", "share"])?;
    if body.get("active").is_some_and(|active| *active != json!(true)) {
        return Err(refuse("the hub does not store inactive shares of activities: delete them"));
    }
    let vo = body.get("vo").and_then(Value::as_str).filter(|vo| !vo.is_empty());
    let vo = vo.ok_or_else(|| refuse("vo is the name of a VO"))?.to_owned();
    let shares = shares_in(body.get("share"))?;
    describe(&request, move |all| {
        all.communities.entry(vo).or_default().activities = shares;
        Ok(())
    })
    .await?;
    json_answer(200, &body)
}

/// `DELETE /config/activity_shares/VO`.
pub(super) async fn delete_activities(request: FtsRequest, vo: &str) -> FtsResult {
    let vo = vo.to_owned();
    describe(&request, move |all| {
        if let Some(community) = all.communities.get_mut(&vo) {
            community.activities.clear();
        }
        Ok(())
    })
    .await?;
    no_content()
}

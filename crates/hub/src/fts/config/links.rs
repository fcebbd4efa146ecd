//! The FTS API: links, which limit the transfers from a storage to all others, or to a storage from all others. The hub stores them as
//! limits of endpoints.

use model::v1::hub::{Collaboration, Endpoint};
use model::{Fault, Refusal};
use serde_json::{Map, Value, json};
use web::Refused;

use super::{describe, refuse};
use crate::fts::settings::check_known;
use crate::fts::{FtsRequest, FtsResult, json_answer, no_content};

/// The direction that a configuration limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    From,
    To,
}

impl Direction {
    /// The name of a configuration, made from its endpoint and direction.
    fn symbol(self, endpoint: &str) -> String {
        match self {
            Direction::From => format!("from:{endpoint}"),
            Direction::To => format!("to:{endpoint}"),
        }
    }

    fn limit(self, endpoint: &mut Endpoint) -> &mut Option<u32> {
        match self {
            Direction::From => &mut endpoint.limits.out_transfers,
            Direction::To => &mut endpoint.limits.in_transfers,
        }
    }
}

/// The direction and endpoint in the name of a configuration.
fn parse_name(name: &str) -> Result<(Direction, &str), Refused> {
    let none = || {
        Refused::new(404, format!("there is no configuration {name:?}: they are called from:ENDPOINT and to:ENDPOINT"))
    };
    let (direction, endpoint) = name.split_once(':').ok_or_else(none)?;
    match direction {
        "from" => Ok((Direction::From, endpoint)),
        "to" => Ok((Direction::To, endpoint)),
        _ => Err(none()),
    }
}

fn forms(described: &Collaboration) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, endpoint) in &described.endpoints {
        let storage = endpoint.urls.first().map(|url| crate::fts::forms::storage(url)).unwrap_or_default();
        for (direction, most) in
            [(Direction::From, endpoint.limits.out_transfers), (Direction::To, endpoint.limits.in_transfers)]
        {
            let Some(most) = most else { continue };
            let from = if direction == Direction::From { storage.as_str() } else { "*" };
            let to = if direction == Direction::To { storage.as_str() } else { "*" };
            all.push(json!({"symbolicname": direction.symbol(name), "source": from, "destination": to, "min_active": null,
                "max_active": most, "optimizer_mode": null, "nostreams": null, "tcp_buffer_size": null, "no_delegation": null}));
        }
    }
    all
}

/// `GET /config/links`.
pub(super) fn list(request: &FtsRequest) -> FtsResult {
    json_answer(200, &forms(&request.hub.topology.load().described))
}

/// `GET /config/links/NAME`.
pub(super) fn show(request: &FtsRequest, name: &str) -> FtsResult {
    parse_name(name)?;
    let all = forms(&request.hub.topology.load().described);
    let found = all.into_iter().find(|form| form["symbolicname"] == *name);
    json_answer(200, &found.ok_or_else(|| Refused::new(404, format!("{name} has no limit of transfers of its own")))?)
}

/// `POST /config/links`.
pub(super) async fn set(request: FtsRequest) -> FtsResult {
    let body: Map<String, Value> = web::json::read(&request.body, "the configuration")?;
    check_known("a link", &body, &["source", "destination", "symbolicname", "max_active"])?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (from, to) = (text("source"), text("destination"));
    let (direction, storage) = match (from.as_str(), to.as_str()) {
        ("*", "*") => return Err(refuse("the hub has no limit for all storages: name each of them")),
        (storage, "*") => (Direction::From, storage),
        ("*", storage) => (Direction::To, storage),
        _ => {
            return Err(refuse(
                "the hub has no limit for one pair: write * for one of source and destination, or describe the link between their sites (longhaul hub link add)",
            ));
        }
    };
    let most = body.get("max_active").and_then(Value::as_u64).and_then(|most| u32::try_from(most).ok());
    let most = most.filter(|most| *most > 0).ok_or_else(|| refuse("max_active is a number of transfers, 1 or more"))?;
    let unknown = || refuse(format!("the hub's description has no storage {storage:?} (longhaul hub endpoint add)"));
    let name = request.hub.topology.load().endpoint(storage).ok_or_else(unknown)?;
    let symbol = direction.symbol(&name);
    let wanted = text("symbolicname");
    if !wanted.is_empty() && wanted != symbol {
        return Err(refuse(format!("symbolicname: this configuration is called {symbol}")));
    }
    change(&request, direction, name, Some(most)).await?;
    json_answer(200, &json!([symbol]))
}

/// `DELETE /config/links/NAME`.
pub(super) async fn delete(request: FtsRequest, name: &str) -> FtsResult {
    let (direction, endpoint) = parse_name(name)?;
    change(&request, direction, endpoint.to_owned(), None).await?;
    no_content()
}

async fn change(request: &FtsRequest, direction: Direction, name: String, most: Option<u32>) -> Result<(), Refused> {
    describe(request, move |all| {
        let unknown =
            || Refusal::new(Fault::Missing, format!("there is no endpoint {name} (longhaul hub endpoint add)"));
        *direction.limit(all.endpoints.get_mut(&name).ok_or_else(unknown)?) = most;
        Ok(())
    })
    .await
}

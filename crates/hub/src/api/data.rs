//! Names of the catalogue: requests that enter and find them, attach them to datasets and containers, and list the replicas of their files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::v1::hub::{
    BadReplica, Data, DataAt, DataChange, DataHistory, DataKind, DataList, DataNames, DataWhere, FileReplicasList,
    NewDataList, NewReplica, Scope, ScopeOrder, Scopes,
};
use web::Refused;

use super::{ApiRequest, ApiResult, events, json};
use crate::catalogue::{self, data, find, refused, to_api};
use crate::database::catalogue::{DataRow, NameFilter, ReplicaState};
use crate::time;

/// Names, files or events on a page, unless the request gives a limit.
const PAGE: usize = 1_000;

/// The name in the request's path, in which `/` is `%2F`.
fn name(request: &ApiRequest) -> Result<String, Refused> {
    let text = percent_encoding::percent_decode_str(&request.id).decode_utf8();
    text.map(Into::into).map_err(|_| Refused::new(400, "a name is UTF-8"))
}

async fn find_name(request: &ApiRequest) -> Result<DataRow, Refused> {
    find(&request.hub, &name(request)?).await
}

/// POST /api/v1/data.
pub(super) async fn enter(request: ApiRequest) -> ApiResult {
    let list: NewDataList = request.read("names of data")?;
    let entered = data::enter(&request.hub, &request.member, &list).await?;
    let rows = request.hub.database.data_of(&entered.ids).await.map_err(refused)?;
    let rows = entered.ids.iter().filter_map(|id| rows.get(id)).map(|row| to_api::data(row, &BTreeMap::new()));
    json(if entered.new > 0 { 201 } else { 200 }, &DataList { data: rows.collect(), next: None })
}

/// POST /api/v1/data/merge.
pub(super) async fn merge(request: ApiRequest) -> ApiResult {
    let list: NewDataList = request.read("names of data")?;
    json(200, &data::merge(&request.hub, &request.member, &list).await?)
}

/// GET /api/v1/data.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let scope = request.parameter("scope").ok_or_else(|| Refused::new(400, "name the scope: ?scope=NAME"))?;
    let kind = request.parameter("kind").map(|kind| kind_of(&kind)).transpose()?;
    let metadata = web::target::pairs(&request.query).filter_map(|(key, value)| {
        let key = key.strip_prefix("meta.")?.to_owned();
        // A value that is not JSON is taken as a text.
        let value = serde_json::from_str::<serde_json::Value>(&value).unwrap_or(serde_json::Value::String(value));
        Some((key, value.to_string()))
    });
    let filter = NameFilter {
        scope,
        pattern: request.parameter("like").unwrap_or_default(),
        kind,
        metadata: metadata.collect(),
        after: request.parameter("after_name").unwrap_or_default(),
        limit: request.limit(PAGE)?,
    };
    let rows = request.hub.database.data_list(&filter).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == filter.limit).map(|row| row.name.name().to_owned());
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let metadata = request.hub.database.metadata_of(&ids).await.map_err(refused)?;
    let copies = match request.parameter("replicas").as_deref() {
        Some("true") => request.hub.database.replicas_of(&ids).await.map_err(refused)?,
        _ => HashMap::new(),
    };
    let topology = request.hub.topology.load();
    let (no_metadata, no_copies) = (BTreeMap::new(), Vec::new());
    let with_copies = |row: &DataRow| {
        let copies = copies.get(&row.id).unwrap_or(&no_copies);
        let data = to_api::data(row, metadata.get(&row.id).unwrap_or(&no_metadata));
        Data { replicas: to_api::replicas(copies, &row.name, &topology), ..data }
    };
    json(200, &DataList { data: rows.iter().map(with_copies).collect(), next })
}

fn kind_of(text: &str) -> Result<DataKind, Refused> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| Refused::new(400, format!("kind={text}: file, dataset or container")))
}

/// GET /api/v1/data/NAME.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    answer_with(&request, row).await
}

async fn answer_with(request: &ApiRequest, row: DataRow) -> ApiResult {
    let metadata = request.hub.database.metadata(row.id).await.map_err(refused)?;
    let mut data = to_api::data(&row, &metadata);
    if row.kind == DataKind::Container {
        let (_, bytes) = request.hub.database.total(&row).await.map_err(refused)?;
        data.bytes = u64::try_from(bytes).unwrap_or(0);
    }
    json(200, &data)
}

/// PATCH /api/v1/data/NAME.
pub(super) async fn change(request: ApiRequest) -> ApiResult {
    let change: DataChange = request.read("a change")?;
    let row = data::change(&request.hub, &request.member, &name(&request)?, &change).await?;
    answer_with(&request, row).await
}

/// DELETE /api/v1/data/NAME.
pub(super) async fn remove(request: ApiRequest) -> ApiResult {
    let at_once = request.parameter("at_once").as_deref() == Some("true");
    let row = data::remove(&request.hub, &request.member, &name(&request)?, at_once).await?;
    json(202, &to_api::data(&row, &BTreeMap::new()))
}

/// GET /api/v1/data/NAME/removal.
pub(super) async fn removal(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let preview = request.hub.database.removal_preview(&row).await.map_err(refused)?;
    json(200, &to_api::removal(&row, &preview))
}

/// POST /api/v1/data/NAME/replicas/bad.
pub(super) async fn declare_bad(request: ApiRequest) -> ApiResult {
    let bad: BadReplica = request.read("a bad copy")?;
    data::declare_bad(&request.hub, &request.member, &name(&request)?, &bad).await?;
    files(request).await
}

/// GET /api/v1/data/NAME/contents.
pub(super) async fn contents(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let (after, limit) = (request.number("after")?.unwrap_or(0), request.limit(PAGE)?);
    let rows = request.hub.database.contents(row.id, after, limit).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|row| row.id.to_string());
    json(200, &DataList { data: rows.iter().map(|row| to_api::data(row, &BTreeMap::new())).collect(), next })
}

/// POST /api/v1/data/NAME/contents.
pub(super) async fn attach(request: ApiRequest) -> ApiResult {
    let children: DataNames = request.read("names of data")?;
    data::attach(&request.hub, &request.member, &name(&request)?, &children).await?;
    show(request).await
}

/// DELETE /api/v1/data/NAME/contents.
pub(super) async fn detach(request: ApiRequest) -> ApiResult {
    let children: DataNames = request.read("names of data")?;
    data::detach(&request.hub, &request.member, &name(&request)?, &children).await?;
    show(request).await
}

/// GET /api/v1/data/NAME/parents.
pub(super) async fn parents(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let rows = request.hub.database.parents(row.id).await.map_err(refused)?;
    json(200, &DataList { data: rows.iter().map(|row| to_api::data(row, &BTreeMap::new())).collect(), next: None })
}

/// GET /api/v1/data/NAME/files.
pub(super) async fn files(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let (after, limit) = (request.number("after")?.unwrap_or(0), request.limit(PAGE)?);
    let rows = request.hub.database.files_below(&row, after, limit).await.map_err(refused)?;
    let topology = request.hub.topology.load();
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|row| row.file.id);
    json(200, &FileReplicasList { files: rows.iter().map(|row| to_api::file(row, &topology)).collect(), next })
}

/// POST /api/v1/data/NAME/replicas.
pub(super) async fn add_replicas(request: ApiRequest) -> ApiResult {
    let copies: Vec<NewReplica> = request.read("replicas")?;
    data::add_copies(&request.hub, &request.member, &name(&request)?, &copies).await?;
    files(request).await
}

/// GET /api/v1/data/NAME/where.
pub(super) async fn whereabouts(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let (files, bytes) = request.hub.database.total(&row).await.map_err(refused)?;
    let mut endpoints: BTreeMap<String, DataAt> = BTreeMap::new();
    for count in request.hub.database.whereabouts(&row).await.map_err(refused)? {
        let at = endpoints.entry(count.endpoint.clone()).or_default();
        at.endpoint.clone_from(&count.endpoint);
        let (files, bytes) = (u64::try_from(count.files).unwrap_or(0), u64::try_from(count.bytes).unwrap_or(0));
        match count.state {
            ReplicaState::Available => (at.files, at.bytes) = (files, bytes),
            ReplicaState::Wanted | ReplicaState::Copying => {
                at.coming_files += files;
                at.coming_bytes += bytes;
            }
            ReplicaState::Bad | ReplicaState::Deleting => {}
        }
    }
    let (files, bytes) = (u64::try_from(files).unwrap_or(0), u64::try_from(bytes).unwrap_or(0));
    endpoints.values_mut().for_each(|at| at.complete = at.files == files);
    json(200, &DataWhere { name: row.name.to_string(), files, bytes, endpoints: endpoints.into_values().collect() })
}

/// GET /api/v1/data/NAME/history.
pub(super) async fn history(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let (after, limit) = (request.number("after")?.unwrap_or(0), request.limit(PAGE)?);
    let rows = request.hub.database.history(row.id, after, limit).await.map_err(refused)?;
    let next = rows.last().filter(|_| rows.len() as i64 == limit).map(|row| row.number);
    let name = row.name.to_string();
    json(200, &DataHistory { events: rows.iter().map(|row| to_api::event(row, &name)).collect(), next })
}

/// GET /api/v1/data/NAME/events: all events of the name, from its first one on.
pub(super) async fn events_of_one(request: ApiRequest) -> ApiResult {
    let row = find_name(&request).await?;
    let from = events::last_event_id(&request)?.unwrap_or(0);
    follow(&request, from, Some(row.id))
}

/// GET /api/v1/data/events: the events of all names, from now on.
pub(super) async fn events_of_all(request: ApiRequest) -> ApiResult {
    let from = match events::last_event_id(&request)? {
        Some(last) => last,
        None => request.hub.database.last_of_history().await.map_err(refused)?,
    };
    follow(&request, from, None)
}

fn follow(request: &ApiRequest, from: i64, name: Option<i64>) -> ApiResult {
    let hub = Arc::clone(&request.hub);
    events::follow(&request.hub, from, move |from| {
        let hub = Arc::clone(&hub);
        async move {
            let found = hub.database.history_after(name, from, events::PAGE).await.ok()?;
            let mut page = events::Page { last: from, ..events::Page::default() };
            for (event, name) in &found {
                page.last = event.number;
                let json = serde_json::to_string(&to_api::event(event, name)).unwrap_or_default();
                page.text.push_str(&format!("id: {}\nevent: data\ndata: {json}\n\n", event.number));
            }
            Some(page)
        }
    })
}

/// GET /api/v1/scopes.
pub(super) async fn scopes(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.scopes().await.map_err(refused)?;
    let scope =
        |(scope, account, created): (String, String, i64)| Scope { scope, account, created: time::show(created) };
    json(200, &Scopes { scopes: rows.into_iter().map(scope).collect() })
}

/// PUT /api/v1/scopes/NAME.
pub(super) async fn make_scope(request: ApiRequest) -> ApiResult {
    let order: ScopeOrder = request.read("a scope")?;
    let account = order.account.unwrap_or_else(|| request.member.owner.clone());
    replicas::check_scope(&request.id).map_err(|error| Refused::new(400, error.to_string()))?;
    let (scope, now) = (request.id.clone(), time::now());
    let owner =
        request.hub.database.make_scope(scope.clone(), account.clone(), now).await.map_err(catalogue::refused)?;
    if owner != account {
        return Err(Refused::new(409, format!("the scope {scope} belongs to {owner}")));
    }
    let scopes = request.hub.database.scopes().await.map_err(refused)?;
    let found = scopes.into_iter().find(|(name, ..)| *name == scope);
    let created = found.map_or(now, |(_, _, created)| created);
    json(200, &Scope { scope, account, created: time::show(created) })
}

/// GET /api/v1/lost.
pub(super) async fn lost(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.lost(request.limit(PAGE)?).await.map_err(refused)?;
    json(200, &DataList { data: rows.iter().map(|row| to_api::data(row, &BTreeMap::new())).collect(), next: None })
}

//! Names of data: Rucio's data identifiers.

use std::collections::BTreeMap;

use model::v1::hub::{DataChange, DataKind, DataNames, Metadata, NewData, NewDataList, Role};
use replicas::DataName;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::errors::RucioError;
use super::names::{Did, expires_in, find};
use super::{RucioRequest, RucioResult, created, done, filters, forms, json_answer, stream, unknown};
use crate::catalogue::data;
use crate::database::catalogue::{DataRow, NameFilter};

/// The most names that are read from the database at once; answers have all names.
const PAGE: i64 = 1_000;

/// `dids/…`.
pub(super) async fn answer(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    match (method, path) {
        ("POST", []) => add_many(&request).await,
        ("POST", ["attachments"]) => attach_many(&request).await,
        ("POST", ["bulkmeta"]) => bulk_metadata(&request).await,
        ("GET", [scope, "dids", "search"]) => search(&request, scope).await,
        ("GET", [scope]) => descendants(&request, scope).await,
        (_, [scope, name, rest @ ..]) => answer_for_did(request, method, (scope, name), rest).await,
        _ => Err(unknown(method, path)),
    }
}

/// `dids/SCOPE/NAME/…`.
async fn answer_for_did(
    request: RucioRequest,
    method: &str,
    (scope, name): (&str, &str),
    path: &[&str],
) -> RucioResult {
    let text = format!("{scope}:{name}");
    match (method, path) {
        ("POST", []) => {
            let new: NewDid = request.read()?;
            add(&request, &Did { scope: scope.to_owned(), name: name.to_owned() }, new).await?;
            created()
        }
        ("GET", []) => show(&request, &text).await,
        ("GET", ["dids"]) => contents(&request, &text).await,
        ("POST", ["dids"]) => {
            let children: Children = request.read()?;
            attach(&request, &text, &children.dids).await?;
            created()
        }
        ("DELETE", ["dids"]) => {
            let children: Children = request.read()?;
            let names = DataNames { names: children.dids.iter().map(Did::text).collect() };
            data::detach(&request.hub, &request.member, &text, &names).await?;
            done()
        }
        ("GET", ["dids", "history"]) => contents(&request, &text).await,
        ("GET", ["files"]) => files(&request, &text).await,
        ("GET", ["parents"]) => {
            let row = find(&request, &text).await?;
            let parents = request.hub.database.parents(row.id).await?;
            stream(parents.iter().map(forms::child))
        }
        ("GET", ["meta"]) => {
            let row = find(&request, &text).await?;
            json_answer(200, &metadata(&request, &row).await?)
        }
        ("POST", ["meta"]) => {
            let body: MetadataBody = request.read()?;
            change_metadata(&request, &text, body.meta).await?;
            created()
        }
        ("POST", ["meta", "lifetime"]) => set_lifetime(&request, &text).await,
        ("POST", ["meta", key]) => {
            let body: ValueBody = request.read()?;
            change_metadata(&request, &text, [((*key).to_owned(), body.value)].into_iter().collect()).await?;
            created()
        }
        ("DELETE", ["meta"]) => {
            let key = request.parameter("key").unwrap_or_default();
            change_metadata(&request, &text, [(key, Value::Null)].into_iter().collect()).await?;
            done()
        }
        ("PUT", ["status"]) => set_status(&request, &text).await,
        ("GET", ["rules"]) => super::rules::of_name(&request, &text).await,
        ("GET", ["associated_rules"]) => super::rules::of_file(&request, &text).await,
        _ => Err(unknown(method, path)),
    }
}

/// A new name, as a client sends it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NewDid {
    r#type: String,
    statuses: Option<Statuses>,
    meta: Option<Metadata>,
    rules: Option<Vec<super::rules::NewRule>>,
    lifetime: Option<f64>,
    dids: Option<Vec<Did>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Statuses {
    monotonic: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Children {
    dids: Vec<Did>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataBody {
    meta: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ValueBody {
    value: Value,
}

async fn add(request: &RucioRequest, did: &Did, new: NewDid) -> Result<(), RucioError> {
    let kind = forms::kind(&new.r#type)?;
    if kind == DataKind::File {
        return Err(RucioError::new(
            400,
            "UnsupportedOperation",
            "files are entered with their copies: POST /replicas",
        ));
    }
    let name: DataName = did
        .text()
        .parse()
        .map_err(|error: replicas::NameError| RucioError::new(400, "InvalidObject", error.to_string()))?;
    if request.hub.database.data(&name).await?.is_some() {
        return Err(RucioError::new(409, "DataIdentifierAlreadyExists", format!("{name} exists already")));
    }
    let entry = NewData {
        name: did.text(),
        kind,
        metadata: new.meta.unwrap_or_default(),
        monotonic: new.statuses.unwrap_or_default().monotonic,
        expires: expires_in(new.lifetime),
        ..NewData::default()
    };
    let list = NewDataList { data: vec![entry], into: None };
    let entered = data::enter(&request.hub, &request.member, &list).await;
    entered.map_err(|refused| RucioError::from(refused).missing("ScopeNotFound"))?;
    for rule in new.rules.unwrap_or_default() {
        super::rules::make(request, did, &rule).await?;
    }
    if let Some(children) = new.dids.filter(|children| !children.is_empty()) {
        attach(request, &did.text(), &children).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct NewNamedDid {
    scope: String,
    name: String,
    #[serde(flatten)]
    new: NewDid,
}

async fn add_many(request: &RucioRequest) -> RucioResult {
    let all: Vec<NewNamedDid> = request.read()?;
    for NewNamedDid { scope, name, new } in all {
        add(request, &Did { scope, name }, new).await?;
    }
    created()
}

/// Attaches names to a dataset or container. Rucio's clients repeat a request after a failure, so names that it contains already are not an
/// error.
async fn attach(request: &RucioRequest, parent: &str, children: &[Did]) -> Result<(), RucioError> {
    let names = DataNames { names: children.iter().map(Did::text).collect() };
    data::attach(&request.hub, &request.member, parent, &names).await?;
    Ok(())
}

#[derive(Deserialize)]
struct Attachments {
    attachments: Vec<Attachment>,
}

#[derive(Deserialize)]
struct Attachment {
    scope: String,
    name: String,
    dids: Vec<Did>,
}

async fn attach_many(request: &RucioRequest) -> RucioResult {
    let all: Attachments = request.read()?;
    for Attachment { scope, name, dids } in all.attachments {
        attach(request, &format!("{scope}:{name}"), &dids).await?;
    }
    created()
}

async fn show(request: &RucioRequest, text: &str) -> RucioResult {
    let row = find(request, text).await?;
    let total = request.hub.database.total(&row).await?;
    json_answer(200, &forms::did(&row, total))
}

/// All names that a dataset or container contains directly.
pub(super) async fn all_contents(request: &RucioRequest, row: &DataRow) -> Result<Vec<DataRow>, RucioError> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let page = request.hub.database.contents(row.id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.id;
        all.extend(page);
    }
}

async fn contents(request: &RucioRequest, text: &str) -> RucioResult {
    let row = find(request, text).await?;
    stream(all_contents(request, &row).await?.iter().map(forms::child))
}

async fn files(request: &RucioRequest, text: &str) -> RucioResult {
    let row = find(request, text).await?;
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let page = request.hub.database.files_below(&row, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.file.id;
        for file in page {
            let mut object = forms::name_of(&file.file.name);
            object.insert("bytes".into(), file.file.bytes.into());
            object.insert("adler32".into(), file.file.adler32.clone().into());
            object.insert("guid".into(), Value::Null);
            object.insert("events".into(), Value::Null);
            all.push(Value::Object(object));
        }
    }
    stream(all)
}

/// `dids/SCOPE/?name=N&recursive=True`: everything below a name.
async fn descendants(request: &RucioRequest, scope: &str) -> RucioResult {
    let name = request.parameter("name").unwrap_or_default();
    let root = find(request, &format!("{scope}:{name}")).await?;
    let mut lines = vec![line(&root, None, 0)];
    let mut waiting = vec![(root, 1)];
    while let Some((parent, level)) = waiting.pop() {
        for child in all_contents(request, &parent).await? {
            lines.push(line(&child, Some(&parent), level));
            if child.kind != DataKind::File {
                waiting.push((child, level + 1));
            }
        }
    }
    stream(lines)
}

fn line(row: &DataRow, parent: Option<&DataRow>, level: u32) -> Value {
    let mut object = forms::name_of(&row.name);
    object.insert("type".into(), forms::kind_word(row.kind).into());
    object.insert("parent".into(), parent.map_or(Value::Null, |parent| Value::Object(forms::name_of(&parent.name))));
    object.insert("level".into(), level.into());
    Value::Object(object)
}

async fn metadata(request: &RucioRequest, row: &DataRow) -> Result<Value, RucioError> {
    let metadata = request.hub.database.metadata(row.id).await?;
    let total = request.hub.database.total(row).await?;
    Ok(forms::metadata(row, total, &metadata))
}

async fn bulk_metadata(request: &RucioRequest) -> RucioResult {
    let wanted: Children = request.read()?;
    let mut all = Vec::new();
    for did in &wanted.dids {
        // Names that do not exist are left out of the answer.
        if let Ok(row) = find(request, &did.text()).await {
            all.push(metadata(request, &row).await?);
        }
    }
    stream(all)
}

async fn change_metadata(request: &RucioRequest, text: &str, metadata: Metadata) -> Result<(), RucioError> {
    let change = DataChange { metadata, ..DataChange::default() };
    data::change(&request.hub, &request.member, text, &change).await?;
    Ok(())
}

async fn set_lifetime(request: &RucioRequest, text: &str) -> RucioResult {
    let body: ValueBody = request.read()?;
    let expires = expires_in(body.value.as_f64()).unwrap_or_default();
    let change = DataChange { expires: Some(expires), ..DataChange::default() };
    data::change(&request.hub, &request.member, text, &change).await?;
    created()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    open: Option<bool>,
}

async fn set_status(request: &RucioRequest, text: &str) -> RucioResult {
    let status: Status = request.read()?;
    let row = find(request, text).await?;
    if status.open == Some(row.open) {
        let state = if row.open { "open" } else { "closed" };
        return Err(RucioError::new(409, "UnsupportedOperation", format!("{} is {state} already", row.name)));
    }
    if status.open == Some(true) && request.member.role < Role::Operator {
        return Err(RucioError::new(
            403,
            "AccessDenied",
            format!("{} is closed, and only an operator opens it again", row.name),
        ));
    }
    let change = DataChange { open: status.open, ..DataChange::default() };
    data::change(&request.hub, &request.member, text, &change).await?;
    done()
}

/// `dids/SCOPE/dids/search`: names by pattern, kind and metadata.
async fn search(request: &RucioRequest, scope: &str) -> RucioResult {
    let wanted = match request.parameter("filters") {
        Some(text) => filters::read(&text)?,
        None => vec![Map::new()],
    };
    let kind = request.parameter("type").unwrap_or_else(|| "collection".to_owned());
    let is_long = request.parameter("long").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let mut found: BTreeMap<DataName, DataRow> = BTreeMap::new();
    for filter in &wanted {
        for row in matching_names(request, scope, filter, &kind).await? {
            found.insert(row.name.clone(), row);
        }
    }
    if !is_long {
        return stream(found.values().map(|row| row.name.name()));
    }
    let mut lines = Vec::new();
    for row in found.values() {
        let (length, bytes) = match row.kind {
            DataKind::File => (1, row.bytes),
            _ => request.hub.database.total(row).await?,
        };
        let mut object = forms::name_of(&row.name);
        object.insert("did_type".into(), forms::kind_word(row.kind).into());
        object.insert("bytes".into(), bytes.into());
        object.insert("length".into(), length.into());
        lines.push(Value::Object(object));
    }
    stream(lines)
}

/// Names that match one filter.
async fn matching_names(
    request: &RucioRequest,
    scope: &str,
    filter: &Map<String, Value>,
    kind: &str,
) -> Result<Vec<DataRow>, RucioError> {
    let mut name_filter = NameFilter { scope: scope.to_owned(), limit: PAGE, ..NameFilter::default() };
    let kind = filter.get("type").and_then(Value::as_str).unwrap_or(kind).to_ascii_lowercase();
    for (key, value) in filter {
        match (key.as_str(), value.as_str()) {
            ("name", Some(_)) | ("type", _) => {}
            (key, _) if !key.contains('.') => name_filter.metadata.push((key.to_owned(), value.to_string())),
            (key, _) => {
                let text = format!("{key}: the hub compares metadata only by `=`");
                return Err(RucioError::new(400, "DIDFilterSyntaxError", text));
            }
        }
    }
    let name = filter.get("name").and_then(Value::as_str).unwrap_or("*").replace('%', "*");
    name_filter.pattern = name;
    let is_wanted = |row: &DataRow| match kind.as_str() {
        "all" => true,
        "collection" => row.kind != DataKind::File,
        word => forms::kind(word).is_ok_and(|kind| kind == row.kind),
    };
    let mut all = Vec::new();
    loop {
        let page = request.hub.database.data_list(&name_filter).await?;
        let Some(last) = page.last() else { return Ok(all) };
        name_filter.after = last.name.name().to_owned();
        all.extend(page.into_iter().filter(is_wanted));
    }
}

//! Replicas: entering them after an upload, declaring them bad, and listing them by dataset.

use std::collections::BTreeMap;

use model::v1::hub::{BadReplica, DataKind, Metadata, NewData, NewDataList, NewReplica};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::dids::all_contents;
use super::errors::RucioError;
use super::names::{Did, find};
use super::{RucioRequest, RucioResult, created, done, forms, json_answer, listing, rses, stream, unknown, with_body};
use crate::catalogue::data;
use crate::database::catalogue::{DataRow, ReplicaCounts, ReplicaState};

/// `replicas/…`.
pub(super) async fn answer(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    match (method, path) {
        ("POST", ["list"]) => listing::list(&request).await,
        ("POST", []) => add(&request).await,
        ("PUT", []) => update(&request).await,
        ("POST", ["bad"]) => declare_bad(&request).await,
        ("POST", ["datasets_bulk"]) => {
            let wanted: ReplicaQuery = request.read()?;
            let mut lines = Vec::new();
            for did in &wanted.dids {
                let row = find(&request, &did.text()).await?;
                lines.extend(dataset_lines(&request, &row).await?);
            }
            stream(lines)
        }
        ("GET", [scope, name, "datasets"]) => {
            let row = find(&request, &format!("{scope}:{name}")).await?;
            let mut lines = dataset_lines(&request, &row).await?;
            if row.kind == DataKind::Container {
                for child in all_contents(&request, &row).await? {
                    lines.extend(dataset_lines(&request, &child).await?);
                }
            }
            stream(lines)
        }
        ("GET", ["suspicious"]) => json_answer(200, &json!([])),
        ("POST", ["tombstone"]) => tombstone(&request).await,
        _ => Err(unknown(method, path)),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReplicaQuery {
    dids: Vec<Did>,
}

#[derive(Deserialize)]
struct Copies {
    rse: String,
    files: Vec<FileCopy>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FileCopy {
    scope: String,
    name: String,
    bytes: Option<u64>,
    adler32: Option<String>,
    md5: Option<String>,
    meta: Option<Metadata>,
    state: Option<String>,
    pfn: Option<String>,
}

impl FileCopy {
    /// Whether the replica exists: a client enters it before its upload, in the state `COPYING`.
    fn exists(&self) -> bool {
        !matches!(self.state.as_deref(), Some("C" | "COPYING" | "U" | "UNAVAILABLE"))
    }

    fn name(&self) -> String {
        format!("{}:{}", self.scope, self.name)
    }
}

/// The path of an address below the directory of an endpoint; `None` if it is the path that the endpoint gives the name anyway.
fn path_of(
    pfn: Option<&String>,
    place: &crate::topology::StoragePlace,
    name: &str,
) -> Result<Option<String>, RucioError> {
    let Some(pfn) = pfn else { return Ok(None) };
    let (host, port, prefix) = forms::https_address(place).ok_or_else(|| {
        RucioError::new(400, "RSEProtocolNotSupported", format!("{} has no https address", place.endpoint))
    })?;
    let below = pfn.strip_prefix(&format!("https://{host}:{port}{prefix}"));
    let below = below.ok_or_else(|| {
        RucioError::new(
            400,
            "InvalidPath",
            format!("{pfn} is not below https://{host}:{port}{prefix}, where {} has its files", place.endpoint),
        )
    })?;
    let default_path = name.parse().map(|name| place.naming.path(&name)).unwrap_or_default();
    Ok((below != default_path).then(|| below.to_owned()))
}

/// POST replicas: enters files with their existing replicas.
async fn add(request: &RucioRequest) -> RucioResult {
    let copies: Copies = request.read()?;
    let topology = request.hub.topology.load_full();
    let place = rses::place(&topology, &copies.rse)?;
    let mut list = NewDataList::default();
    for file in copies.files {
        let path = path_of(file.pfn.as_ref(), place, &file.name())?;
        let replica = NewReplica { endpoint: copies.rse.clone(), path };
        list.data.push(NewData {
            name: file.name(),
            kind: DataKind::File,
            replicas: file.exists().then_some(replica).into_iter().collect(),
            bytes: file.bytes,
            adler32: file.adler32.map(|sum| format!("{sum:0>8}")),
            md5: file.md5,
            metadata: file.meta.unwrap_or_default().into_iter().filter(|(_, value)| !value.is_null()).collect(),
            ..NewData::default()
        });
    }
    let entered = data::enter(&request.hub, &request.member, &list).await;
    entered.map_err(|refused| RucioError::from(refused).missing("ScopeNotFound"))?;
    created()
}

/// PUT replicas: enters replicas whose upload has ended, and declares others bad.
async fn update(request: &RucioRequest) -> RucioResult {
    let copies: Copies = request.read()?;
    let topology = request.hub.topology.load_full();
    let place = rses::place(&topology, &copies.rse)?;
    for file in copies.files.iter().filter(|file| file.exists()) {
        let replica =
            NewReplica { endpoint: copies.rse.clone(), path: path_of(file.pfn.as_ref(), place, &file.name())? };
        match file.state.as_deref() {
            Some("B" | "BAD") => {
                let bad = BadReplica { endpoint: copies.rse.clone(), why: "a client declared it bad".to_owned() };
                data::declare_bad(&request.hub, &request.member, &file.name(), &bad).await?;
            }
            _ => data::add_copies(&request.hub, &request.member, &file.name(), &[replica]).await?,
        }
    }
    done()
}

/// A copy by its address, or by its name and endpoint.
#[derive(Deserialize)]
#[serde(untagged)]
enum ReplicaId {
    Pfn(String),
    Did { scope: String, name: String, rse: String },
}

#[derive(Deserialize)]
struct BadReplicas {
    #[serde(default)]
    reason: Option<String>,
    replicas: Vec<ReplicaId>,
}

/// POST replicas/bad: declares copies bad. The answer has those that could not be declared bad, by endpoint.
async fn declare_bad(request: &RucioRequest) -> RucioResult {
    let bad: BadReplicas = request.read()?;
    let why = bad.reason.unwrap_or_else(|| "a client declared it bad".to_owned());
    let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for copy in bad.replicas {
        let (name, endpoint) = match copy {
            ReplicaId::Did { scope, name, rse } => (format!("{scope}:{name}"), rse),
            ReplicaId::Pfn(pfn) => match request.name_and_endpoint(&pfn) {
                Some(named) => named,
                None => {
                    left.entry(String::new()).or_default().push(format!("{pfn} Unknown replica"));
                    continue;
                }
            },
        };
        let bad = BadReplica { endpoint: endpoint.clone(), why: why.clone() };
        if let Err(refused) = data::declare_bad(&request.hub, &request.member, &name, &bad).await {
            left.entry(endpoint).or_default().push(format!("{name} {}", refused.reason));
        }
    }
    json_answer(201, &left)
}

impl RucioRequest {
    /// The name and the endpoint of an address; `None` unless the endpoint derives paths from names.
    fn name_and_endpoint(&self, pfn: &str) -> Option<(String, String)> {
        let topology = self.hub.topology.load();
        topology.storage.values().find_map(|place| {
            let (host, port, prefix) = forms::https_address(place)?;
            let below = pfn.strip_prefix(&format!("https://{host}:{port}{prefix}"))?;
            let name = place.naming.name(below)?;
            Some((name.to_string(), place.endpoint.clone()))
        })
    }
}

/// The replicas of a dataset, by endpoint.
async fn dataset_lines(request: &RucioRequest, row: &DataRow) -> Result<Vec<Value>, RucioError> {
    let (files, bytes) = request.hub.database.total(row).await?;
    let counts = request.hub.database.whereabouts(row).await?;
    let line = |at: &ReplicaCounts| {
        let mut object: Map<String, Value> = forms::name_of(&row.name);
        object.insert("rse".into(), at.endpoint.clone().into());
        object.insert("rse_id".into(), forms::id(&at.endpoint).into());
        object.insert("available_length".into(), at.files.into());
        object.insert("available_bytes".into(), at.bytes.into());
        object.insert("length".into(), files.into());
        object.insert("bytes".into(), bytes.into());
        object.insert("state".into(), if at.files == files { "AVAILABLE" } else { "UNAVAILABLE" }.into());
        for word in ["created_at", "updated_at", "accessed_at"] {
            object.insert(word.into(), Value::Null);
        }
        Value::Object(object)
    };
    Ok(counts.iter().filter(|at| at.state == ReplicaState::Available).map(line).collect())
}

/// POST replicas/tombstone: a replica that a rule holds is refused. Others need no tombstone: the hub deletes them itself.
async fn tombstone(request: &RucioRequest) -> RucioResult {
    #[derive(Deserialize)]
    struct TombstoneRequest {
        replicas: Vec<TombstoneReplica>,
    }
    #[derive(Deserialize)]
    struct TombstoneReplica {
        scope: String,
        name: String,
        rse: String,
    }
    let tombstones: TombstoneRequest = request.read()?;
    for TombstoneReplica { scope, name, rse } in tombstones.replicas {
        let row = find(request, &format!("{scope}:{name}")).await?;
        let copies = request.hub.database.replicas_of(&[row.id]).await?;
        let copy = copies.get(&row.id).and_then(|all| all.iter().find(|copy| copy.endpoint == rse));
        let copy =
            copy.ok_or_else(|| RucioError::new(404, "ReplicaNotFound", format!("{} has no copy at {rse}", row.name)))?;
        if copy.locks > 0 {
            let text = format!("{} rules hold the copy of {} at {rse}", copy.locks, row.name);
            return Err(RucioError::new(423, "ReplicaIsLocked", text));
        }
    }
    Ok(with_body(201, "text/html; charset=utf-8", "Created"))
}

//! `replicas/list`: the replicas of files, as lines of JSON or as a Metalink.

use std::collections::BTreeSet;

use http::header;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use web::metalink::{self, MetalinkFile, MetalinkUrl};

use super::errors::RucioError;
use super::names::Did;
use super::{RucioRequest, RucioResult, forms, rses, stream};
use crate::database::catalogue::{DataRow, FileRow, ReplicaState};
use crate::topology::Topology;

/// The most files that are read from the database at once.
const PAGE: i64 = 1_000;

/// Schemes, which clients send as a list or as a text separated by commas.
#[derive(Deserialize)]
#[serde(untagged)]
enum Schemes {
    List(Vec<String>),
    Text(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListingRequest {
    dids: Vec<Did>,
    schemes: Option<Schemes>,
    all_states: bool,
    rse_expression: Option<String>,
    resolve_parents: bool,
}

impl ListingRequest {
    /// Whether the client accepts `https`, the only scheme of the hub.
    fn wants_https(&self) -> bool {
        match &self.schemes {
            None => true,
            Some(Schemes::List(all)) => all.is_empty() || all.iter().any(|scheme| scheme == "https"),
            Some(Schemes::Text(text)) => text.split(',').any(|scheme| scheme.trim() == "https"),
        }
    }
}

/// POST replicas/list.
pub(super) async fn list(request: &RucioRequest) -> RucioResult {
    let wanted: ListingRequest = request.read()?;
    let topology = request.hub.topology.load_full();
    let endpoints: Option<BTreeSet<&str>> = match &wanted.rse_expression {
        None => None,
        Some(text) => Some(rses::matching(&topology, text)?.into_iter().map(|place| place.endpoint.as_str()).collect()),
    };
    let mut files = Vec::new();
    for did in &wanted.dids {
        let found = super::names::find(request, &did.text()).await;
        let row = found
            .map_err(|error| RucioError { status: if error.status == 404 { 400 } else { error.status }, ..error })?;
        let mut after = 0;
        loop {
            let page = request.hub.database.files_below(&row, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.file.id;
            for file in page {
                let copies = copies(&file, &topology, &wanted, endpoints.as_ref());
                // A file that the request names itself is listed even without a matching replica.
                if !copies.is_empty() || row.id == file.file.id {
                    files.push((file, copies));
                }
            }
        }
    }
    let accept = request.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("metalink4+xml") {
        return as_metalink(request, &wanted, files).await;
    }
    let mut lines = Vec::with_capacity(files.len());
    for (file, copies) in &files {
        let parents = if wanted.resolve_parents { Some(ancestors(request, &file.file).await?) } else { None };
        lines.push(line(file, copies, parents));
    }
    stream(lines)
}

/// A replica in the answer.
struct ListedCopy {
    endpoint: String,
    is_tape: bool,
    state: ReplicaState,
    pfn: String,
}

fn copies(
    file: &FileRow,
    topology: &Topology,
    wanted: &ListingRequest,
    endpoints: Option<&BTreeSet<&str>>,
) -> Vec<ListedCopy> {
    if !wanted.wants_https() {
        return Vec::new();
    }
    let is_wanted = |endpoint: &str, state: ReplicaState| {
        endpoints.is_none_or(|endpoints| endpoints.contains(endpoint))
            && (wanted.all_states || state == ReplicaState::Available && !topology.refuses(endpoint))
    };
    let all = forms::copies(file, topology).filter(|(place, state, _)| is_wanted(&place.endpoint, *state));
    let copy = |(place, state, pfn): (&crate::topology::StoragePlace, ReplicaState, String)| {
        let is_tape = place.attributes.get("tape").is_some_and(|text| text == "true");
        ListedCopy { endpoint: place.endpoint.clone(), is_tape, state, pfn }
    };
    let mut copies: Vec<ListedCopy> = all.map(copy).collect();
    // Clients read in the order of the document: replicas that must be staged come last.
    copies.sort_by_key(|copy| copy.is_tape);
    copies
}

fn line(file: &FileRow, copies: &[ListedCopy], parents: Option<Vec<String>>) -> Value {
    let mut object = forms::name_of(&file.file.name);
    object.insert("bytes".into(), file.file.bytes.into());
    object.insert("adler32".into(), file.file.adler32.clone().into());
    object.insert("md5".into(), file.file.md5.clone().into());
    let mut pfns = Map::new();
    let mut rses = Map::new();
    let mut states = Map::new();
    for (at, copy) in copies.iter().enumerate() {
        pfns.insert(
            copy.pfn.clone(),
            json!({
                "rse_id": forms::id(&copy.endpoint),
                "rse": copy.endpoint,
                "type": if copy.is_tape { "TAPE" } else { "DISK" },
                "volatile": false,
                "domain": "wan",
                "priority": at + 1,
                "client_extract": false,
            }),
        );
        rses.insert(copy.endpoint.clone(), json!([copy.pfn]));
        states.insert(copy.endpoint.clone(), forms::replica_word(copy.state).into());
    }
    object.insert("pfns".into(), Value::Object(pfns));
    object.insert("rses".into(), Value::Object(rses));
    object.insert("states".into(), Value::Object(states));
    if let Some(parents) = parents {
        object.insert("parents".into(), parents.into());
    }
    Value::Object(object)
}

/// All names that contain a file, at any depth.
async fn ancestors(request: &RucioRequest, file: &DataRow) -> Result<Vec<String>, RucioError> {
    let mut names = Vec::new();
    let mut waiting = vec![file.id];
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        for parent in request.hub.database.parents(id).await? {
            if seen.insert(parent.id) {
                names.push(parent.name.to_string());
                waiting.push(parent.id);
            }
        }
    }
    Ok(names)
}

async fn as_metalink(
    request: &RucioRequest,
    wanted: &ListingRequest,
    files: Vec<(FileRow, Vec<ListedCopy>)>,
) -> RucioResult {
    let mut all = Vec::with_capacity(files.len());
    for (file, copies) in files {
        let parents = if wanted.resolve_parents { ancestors(request, &file.file).await? } else { Vec::new() };
        let url = |copy: ListedCopy| MetalinkUrl { endpoint: copy.endpoint, address: copy.pfn };
        all.push(MetalinkFile {
            name: file.file.name.name().to_owned(),
            identity: file.file.name.to_string(),
            parents,
            adler32: file.file.adler32,
            md5: file.file.md5,
            bytes: file.file.bytes,
            urls: copies.into_iter().map(url).collect(),
        });
    }
    Ok(super::with_body(200, metalink::MEDIA, metalink::write(&all)))
}

//! The WLCG Tape REST API, version 1: requests to recall files from tape to disk, many in one request, and to release them. Paths
//! are those of the node over HTTP: `/EXPORT/PATH`.

use std::collections::HashMap;

use auth::{Action, Actions};
use model::RelPath;
use model::id::Uuid;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{read_within, send};
use super::required_id;
use crate::http::refused::{Outcome, Refused, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::tape::requests::{FILES_MAX, FileState, StageError, StagedFile};

/// Bytes of the body of a request: as many files as it may have, with paths of 800 bytes.
const BODY_BYTES_MAX: usize = 8 << 20;
/// The path of the discovery document.
const DISCOVERY: &[u8] = b".well-known/wlcg-tape-rest-api";

#[derive(Deserialize)]
pub(super) struct StageOrder {
    files: Vec<OrderedFile>,
}

#[derive(Deserialize)]
struct OrderedFile {
    path: String,
}

#[derive(Deserialize)]
struct Paths {
    paths: Vec<String>,
}

/// Whether a GET asks for the discovery document.
pub(crate) fn is_discovery(context: &RequestContext<'_>) -> bool {
    context.target.path.as_bytes() == DISCOVERY
}

/// Answers with the discovery document.
pub(crate) fn describe(context: &mut RequestContext<'_>) -> Outcome {
    if !context.service.access_control.has_tape() {
        return Err(refuse(404, "no export of this node has tape"));
    }
    let uri = format!("{}/api/v1/tape", context.origin());
    let described = json!({
        "sitename": rustix::system::uname().nodename().to_string_lossy(),
        "description": "Longhaul: exports with tape behind them",
        "endpoints": [{"uri": uri, "version": "v1", "metadata": {}}],
    });
    send(context, 200, &described)
}

/// An export and a path below it.
struct ExportPath {
    export: String,
    below: RelPath,
}

/// Resolves a path of the API.
///
/// # Errors
/// The path names no export, or the principal lacks the right.
fn place(context: &RequestContext<'_>, path: &str, needed: Actions) -> Result<ExportPath, String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let Some((export, rest)) = parts.split_first() else { return Err("it names no export".to_owned()) };
    let below = RelPath::parse(rest.join("/").as_bytes()).map_err(|error| error.to_string())?;
    let access = context.access();
    let by_token = access.actions_below(export, true, &below).contains(needed);
    // The tokens of today's clients lack the scopes for tape: the right to read a file includes its recall.
    if !by_token && access.allow(Action::Read, export, true, &below).is_err() {
        return Err("Permission denied".to_owned());
    }
    Ok(ExportPath { export: (*export).to_owned(), below })
}

/// POST /api/v1/tape/stage.
pub(super) fn stage(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let order: StageOrder = read_within(context, "a request to stage", BODY_BYTES_MAX)?;
    if order.files.is_empty() || order.files.len() > FILES_MAX {
        let status = if order.files.is_empty() { 400 } else { 413 };
        return Err(refuse(status, format!("a request has 1 to {FILES_MAX} files; send several")));
    }
    let file = |path: String| {
        let mut file = StagedFile {
            path,
            export: String::new(),
            below: String::new(),
            state: FileState::Submitted,
            started: None,
            finished: None,
            error: None,
            is_released: false,
        };
        match place(context, &file.path, Actions::STAGE) {
            Err(why) => {
                file.state = FileState::Failed;
                file.error = Some(why);
            }
            Ok(ExportPath { export, below }) => {
                if context.service.access_control.tape(&export).is_none() {
                    (file.state, file.error) = state_without_tape(context, &export, &below);
                }
                file.export = export;
                file.below = below.to_string();
            }
        }
        file
    };
    let files: Vec<StagedFile> = order.files.into_iter().map(|ordered| file(ordered.path)).collect();
    if files.iter().all(|file| file.error.as_deref() == Some("Permission denied")) {
        return Err(context.deny(refuse(403, "your credential permits the recall of none of these files")));
    }
    let id = context.service.services.stage_requests.accept(context.access().holder(), files).map_err(refusal_of)?;
    send(context, 201, &json!({"requestId": id}))
}

/// The state of a file in an export without tape, and the reason of a failure.
fn state_without_tape(context: &RequestContext<'_>, export: &str, below: &RelPath) -> (FileState, Option<String>) {
    match context.resolve(Action::Stat, export, below).map(|at| at.store.stat(&at.path).is_ok()) {
        Ok(true) => (FileState::Completed, None),
        _ => (FileState::Failed, Some("No such file".to_owned())),
    }
}

/// The refusal for an error of the stage requests.
fn refusal_of(why: StageError) -> RequestFailure {
    match why {
        StageError::Unknown => refuse(404, "there is no such request, or you may not see it"),
        StageError::NotAFile(path) => refuse(400, format!("{path} is not a file of the request: nothing was done")),
        StageError::Full => {
            Refused::new(503, "the node has as many requests as it accepts").with("Retry-After", "600").into()
        }
    }
}

/// GET /api/v1/tape/stage/ID.
pub(super) fn progress(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let request = context.service.services.stage_requests.get(context.access().holder(), &id);
    let request = request.ok_or_else(|| refusal_of(StageError::Unknown))?;
    let mut answer = Map::new();
    answer.insert("id".into(), json!(id));
    answer.insert("createdAt".into(), json!(request.created));
    if let Some(started) = request.files.iter().filter_map(|file| file.started).min() {
        answer.insert("startedAt".into(), json!(started));
    }
    if request.is_over() {
        let finished = request.files.iter().filter_map(|file| file.finished).max();
        answer.insert("completedAt".into(), json!(finished.unwrap_or(request.created)));
    }
    answer.insert("files".into(), request.files.iter().map(file_progress).collect());
    send(context, 200, &answer)
}

/// A file as JSON: with `onDisk` or with `state`, never both.
fn file_progress(file: &StagedFile) -> Value {
    let mut answer = Map::new();
    answer.insert("path".into(), json!(file.path));
    match file.state {
        FileState::Completed => answer.insert("onDisk".into(), json!(true)),
        state => answer.insert("state".into(), json!(state)),
    };
    let facts = [("startedAt", file.started.map(|at| json!(at))), ("finishedAt", file.finished.map(|at| json!(at)))];
    for (name, value) in facts.into_iter().chain([("error", file.error.as_ref().map(|error| json!(error)))]) {
        answer.extend(value.map(|value| (name.to_owned(), value)));
    }
    Value::Object(answer)
}

/// POST /api/v1/tape/stage/ID/cancel.
pub(super) fn cancel(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let order: Paths = read_within(context, "paths", BODY_BYTES_MAX)?;
    let holder = context.access().holder();
    context.service.services.stage_requests.cancel(holder, &id, &order.paths).map_err(refusal_of)?;
    send(context, 200, &json!({}))
}

/// DELETE /api/v1/tape/stage/ID.
pub(super) fn remove(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    context.service.services.stage_requests.remove(context.access().holder(), &id).map_err(refusal_of)?;
    send(context, 200, &json!({}))
}

/// POST /api/v1/tape/release/ID.
pub(super) fn release(context: &mut RequestContext<'_>, id: Option<Uuid>) -> Outcome {
    let id = required_id(id)?;
    let order: Paths = read_within(context, "paths", BODY_BYTES_MAX)?;
    let holder = context.access().holder();
    context.service.services.stage_requests.release(holder, &id, &order.paths).map_err(refusal_of)?;
    send(context, 200, &json!({}))
}

/// POST /api/v1/tape/archiveinfo.
pub(super) fn archive_info(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let order: Paths = read_within(context, "paths", BODY_BYTES_MAX)?;
    if order.paths.len() > FILES_MAX {
        return Err(refuse(413, format!("a request has at most {FILES_MAX} paths; send several requests")));
    }
    let mut localities: HashMap<usize, Result<String, String>> = HashMap::new();
    let mut on_tape: HashMap<String, Vec<(usize, String)>> = HashMap::new();
    for (at, path) in order.paths.iter().enumerate() {
        match place(context, path, Actions::POLL) {
            Err(why) => drop(localities.insert(at, Err(why))),
            Ok(ExportPath { export, below }) if context.service.access_control.tape(&export).is_none() => {
                let outcome = match state_without_tape(context, &export, &below) {
                    (FileState::Completed, _) => Ok("DISK".to_owned()),
                    (_, why) => Err(why.unwrap_or_default()),
                };
                localities.insert(at, outcome);
            }
            Ok(ExportPath { export, below }) => on_tape.entry(export).or_default().push((at, below.to_string())),
        }
    }
    for (export, files) in on_tape {
        let Some(library) = context.service.access_control.tape(&export) else { continue };
        let paths: Vec<String> = files.iter().map(|(_, path)| path.clone()).collect();
        let known = library.localities(&paths);
        for (at, path) in files {
            let outcome = match &known {
                Ok(known) => known.get(&path).cloned().unwrap_or_else(|| Ok("UNAVAILABLE".to_owned())),
                Err(why) => {
                    tracing::warn!(export, why, "the localities of files cannot be determined");
                    Ok("UNAVAILABLE".to_owned())
                }
            };
            localities.insert(at, outcome);
        }
    }
    let lines: Vec<Value> = order
        .paths
        .iter()
        .enumerate()
        .map(|(at, path)| match localities.remove(&at) {
            Some(Ok(locality)) => json!({"path": path, "locality": locality}),
            Some(Err(error)) => json!({"path": path, "error": error}),
            None => json!({"path": path, "locality": "UNAVAILABLE"}),
        })
        .collect();
    send(context, 200, &lines)
}

//! Requests to bring files from tape, and to give them up again.

use std::collections::BTreeMap;

use auth::{Action, Actions};
use model::id::Uuid;
use serde_json::json;
use xroot::codes::prepare_options;
use xroot::{ErrorCode, RootAnswer, RootPath};

use super::connection::RootConnection;
use super::failure::{RootOutcome, refuse};
use super::query::text;
use super::resolved::{Resolved, export_and_path};
use crate::tape::requests::{FileState, StagedFile};

impl RootConnection {
    /// Brings files from tape, gives them up again, or cancels an earlier request.
    pub(super) fn prepare(&mut self, options: u8, more_options: u16, lines: &[Vec<u8>]) -> RootOutcome<RootAnswer> {
        if options & prepare_options::CANCEL != 0 {
            let (id, paths) = request_id(lines)?;
            let holder = self.session()?.access().holder().to_owned();
            let cancelled = self.service.services.stage_requests.cancel(&holder, &id, &paths);
            cancelled
                .map_err(|_| refuse(ErrorCode::NotFound, "there is no such request, or it is another client's"))?;
            return Ok(RootAnswer::Ok(Vec::new()));
        }
        if more_options & prepare_options::EVICT != 0 {
            self.evict(lines)?;
            return Ok(text("0"));
        }
        let files: Vec<StagedFile> = lines.iter().map(|line| self.staged(line)).collect::<RootOutcome<_>>()?;
        let holder = self.session()?.access().holder().to_owned();
        let id = self.service.services.stage_requests.accept(&holder, files);
        let id = id.map_err(|_| refuse(ErrorCode::Overloaded, "the node has as many requests as it accepts"))?;
        Ok(text(&id.to_string()))
    }

    /// A file to bring from tape.
    fn staged(&self, line: &[u8]) -> RootOutcome<StagedFile> {
        let place = RootPath::parse(line)?;
        let resolved = self.resolve_for_tape(&place, Actions::STAGE)?;
        let has_tape = self.service.services.access.tape(&resolved.place.export).is_some();
        let is_there = resolved.at.store.stat(&resolved.at.path).is_ok();
        let (state, error) = match (has_tape, is_there) {
            (_, false) => (FileState::Failed, Some("No such file".to_owned())),
            (false, true) => (FileState::Completed, None),
            (true, true) => (FileState::Submitted, None),
        };
        Ok(StagedFile {
            path: format!("/{}", place.path),
            export: resolved.place.export,
            below: resolved.path.to_string(),
            state,
            started: None,
            finished: None,
            error,
            is_released: false,
        })
    }

    /// The tokens of today's clients lack the scopes for tape: the right to read a file includes its recall.
    fn resolve_for_tape(&self, place: &RootPath, needed: Actions) -> RootOutcome<Resolved> {
        if let Some((export, path)) = export_and_path(&place.path)? {
            let principal = self.principal(place)?;
            if principal.access.actions_below(&export, true, &path).contains(needed)
                && let Ok(resolved) = self.resolve(Action::Stat, place, "prepare")
            {
                return Ok(resolved);
            }
        }
        self.resolve(Action::Read, place, "prepare")
    }

    fn evict(&self, lines: &[Vec<u8>]) -> RootOutcome<()> {
        let mut by_export: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in lines {
            let place = RootPath::parse(line)?;
            let resolved = self.resolve_for_tape(&place, Actions::STAGE)?;
            by_export.entry(resolved.place.export).or_default().push(resolved.path.to_string());
        }
        for (export, paths) in by_export {
            if let Some(tape) = self.service.services.access.tape(&export) {
                tape.release(paths);
            }
        }
        Ok(())
    }

    /// The state of a request to bring files from tape.
    pub(super) fn prepared(&mut self, about: &[u8]) -> RootOutcome<RootAnswer> {
        let lines: Vec<Vec<u8>> =
            about.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        let (id, paths) = request_id(&lines)?;
        let holder = self.session()?.access().holder().to_owned();
        let request = self.service.services.stage_requests.get(&holder, &id);
        let request = request
            .ok_or_else(|| refuse(ErrorCode::NotFound, "there is no such request, or it is another client's"))?;
        let wanted = |file: &&StagedFile| paths.is_empty() || paths.contains(&file.path);
        let responses: Vec<_> = request
            .files
            .iter()
            .filter(wanted)
            .map(|file| {
                json!({
                    "path": file.path, "path_exists": file.error.as_deref() != Some("No such file"),
                    "on_tape": true, "online": matches!(file.state, FileState::Completed), "requested": true,
                    "has_reqid": true, "req_time": request.created.to_string(),
                    "error_text": file.error.as_deref().unwrap_or_default(),
                })
            })
            .collect();
        Ok(text(&json!({"request_id": id.to_string(), "responses": responses}).to_string()))
    }
}

/// The id of a request, and the paths that follow it.
fn request_id(lines: &[Vec<u8>]) -> RootOutcome<(Uuid, Vec<String>)> {
    let text = |line: &Vec<u8>| String::from_utf8_lossy(line).into_owned();
    let (first, paths) =
        lines.split_first().ok_or_else(|| refuse(ErrorCode::ArgMissing, "the id of the request is missing"))?;
    let id = text(first).trim().parse::<Uuid>();
    let id = id.map_err(|_| refuse(ErrorCode::ArgInvalid, "that is not the id of a request of this node"))?;
    Ok((id, paths.iter().map(text).collect()))
}

//! Delegated keys for copies between Longhaul nodes: the active end of a third-party copy sends the client's credential for this
//! node, and gets a key with which the native engine copies that one file.

use auth::Action;
use serve::Length;
use web::{Headers, Response};

use super::refused::{Outcome, RequestOutcome, refuse};
use super::request_context::RequestContext;
use crate::copies::delegated_key::{KeyReply, KeyRequest, VERSION};
use crate::http::short_body::read_short_body;

/// The media type of the request and of the reply.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.longhaul.session+json";
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 4096;

/// Answers a POST of that type.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(404, "a key is for one file")) };
    // Checked before the body is read: the node does not wait for a client that may neither read nor write there.
    if let Err(failure) = context.resolve(Action::Read, &export, &path) {
        context.resolve(Action::Create, &export, &path).map_err(|_| failure)?;
    }
    let body = read_short_body(context.exchange, REQUEST_BYTES_MAX, "a request for a key")?;
    let request: KeyRequest =
        serde_json::from_slice(&body).map_err(|e| refuse(400, format!("not a request for a key: {e}")))?;
    if request.v != VERSION {
        return Err(refuse(
            400,
            format!("version {} of requests for a key is not known here; version 1 is", request.v),
        ));
    }
    let action = if request.write { Action::Create } else { Action::Read };
    let resolved = context.resolve(action, &export, &path)?;
    if resolved.store.is_dir(&resolved.path) {
        return Err(refuse(409, "a key is for one file, and this is a directory"));
    }
    let replaces = request.write && context.resolve(Action::Overwrite, &export, &path).is_ok();
    let job = request.write.then_some(*request.job.as_bytes());
    let key = context.service.access_control.delegate(context.access(), &export, &path, job, replaces)?;
    let text = serde_json::to_vec(&KeyReply::new(&key, export, &path)).map_err(|e| refuse(500, e.to_string()))?;
    let response = Response::new(200).with("Content-Type", MEDIA_TYPE).with("Cache-Control", "no-store");
    context.exchange.begin(response, Length::Known(text.len() as u64))?;
    context.exchange.write(&text)?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 200, bytes: 0 })
}

//! Copies by the native engine that were ordered by HTTP: the request for a key, and the way back to HTTP.

use std::sync::Arc;

use auth::Fingerprint;
use model::id::JobId;
use web::{Client, Dialer, Headers, HttpUrl, Method};

use super::remote::RemoteFile;
use super::watch;
use crate::access::ResolvedPath;
use crate::copies::delegated_key::{KeyReply, KeyRequest, VERSION};
use crate::copies::native::{CopyResult, NativeContext, NativeCopy, may_fall_back};
use crate::copies::progress::{CopyProgress, Failure};
use crate::http::delegation::MEDIA_TYPE;
use crate::http::refused::Outcome;
use crate::http::request_context::RequestContext;

/// Bytes of the reply to a request for a key.
const ANSWER_BYTES_MAX: usize = 8192;

/// Requests a key from the other server; none if it is not a node, or delegates no key.
pub(crate) fn request(dialer: &Dialer, found: &RemoteFile, write: bool) -> Option<NativeCopy> {
    let node: Fingerprint = found.node.as_ref()?.parse().ok()?;
    let job = JobId::random().0;
    let request = serde_json::to_vec(&KeyRequest { v: VERSION, write, job }).ok()?;
    let mut client = Client::new(dialer, &found.url).ok()?;
    let address = client.conn().peer();
    let length = request.len().to_string();
    let headers = found.headers.clone().with("Content-Type", MEDIA_TYPE).with("Content-Length", length);
    client.send(&Method::Post, found.url.path_and_query(), &headers).ok()?;
    client.write(&request).ok()?;
    let (response, mut body) = client.final_response(&Method::Post).ok()?;
    if response.status != 200 {
        tracing::info!(status = response.status, "the other node delegates no key; the copy goes over HTTP");
        return None;
    }
    let reply: KeyReply = serde_json::from_slice(&client.read_all(&mut body, ANSWER_BYTES_MAX).ok()?).ok()?;
    let file = reply.read().filter(|(key, _)| key.node == node)?;
    Some(NativeCopy::new(file, address, !found.url.is_secure(), job, Arc::clone(&dialer.guard)))
}

/// What a native copy to or from `resolved` needs of a request.
pub(crate) fn native_context<'a>(context: &RequestContext<'_>, resolved: &'a ResolvedPath) -> NativeContext<'a> {
    NativeContext {
        services: Arc::clone(&context.service.services),
        holder: context.access().holder().to_owned(),
        resolved,
    }
}

/// Copies by the native engine; none if the copy could not begin and HTTP may succeed.
pub(crate) fn attempt(
    context: &mut RequestContext<'_>,
    native: &NativeCopy,
    progress: &CopyProgress,
    pulls: bool,
    copy: impl FnOnce() -> Result<CopyResult, Failure> + Send,
) -> Outcome<Option<Result<CopyResult, Failure>>> {
    progress.add_remote(native.at());
    match watch::run(context, progress, pulls, copy)? {
        Err(failure) if may_fall_back(&failure, progress) => {
            tracing::info!(error = failure.text, "the native copy could not begin; the copy goes over HTTP");
            Ok(None)
        }
        result => Ok(Some(result)),
    }
}

/// Asks a destination whether it is a node, before a push; none if it is not.
pub(crate) fn find_node(dialer: &Dialer, url: &HttpUrl, headers: &Headers) -> Option<RemoteFile> {
    let fields = headers.clone().with("Longhaul-Offer", "1");
    let answer = web::client::fetch(dialer, &Method::Options, url, &fields).ok()?;
    let found = super::remote::read(&answer.response, answer.url, headers.clone());
    (answer.response.status == 200 && found.node.is_some() && found.url.is_same_origin(url)).then_some(found)
}

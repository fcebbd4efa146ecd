//! Rucio's REST API for the clients of Rucio 41, below `/rucio` on the hub's port, answered from the hub's own catalogue.
//!
//! docs/design/rucio.md describes the clients. They compare media types and success codes exactly, send bodies without a media type, and
//! write `/` of names as `%2F` in paths. An access key of the hub is the password of `userpass` and the token, so that the hub stores no
//! tokens.

mod accounts;
mod dids;
mod errors;
mod filters;
mod forms;
mod listing;
mod login;
mod names;
mod replicas;
mod rses;
mod rules;

use std::sync::Arc;

use authn::Principal;
use authn::tower::AuthenticateLayer;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use model::v1::node::Problem;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use web::routes::PROBLEM;

use self::errors::RucioError;
use crate::limits;
use crate::roles::Member;
use crate::state::HubState;

/// The path of the API on the hub's port.
pub const PREFIX: &str = "/rucio";

/// The media type of answers with one JSON value on each line.
const STREAM: &str = "application/x-json-stream";
const TOKEN: HeaderName = HeaderName::from_static("x-rucio-auth-token");
/// The most bytes of a refusal by authentication.
const REASON_BYTES_MAX: usize = 64 << 10;

/// An authenticated request.
pub(crate) struct RucioRequest {
    pub hub: Arc<HubState>,
    pub member: Member,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

type RucioResult = Result<Response, RucioError>;

impl RucioRequest {
    /// A parameter of the query.
    fn parameter(&self, name: &str) -> Option<String> {
        web::target::pairs(&self.query).find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// All parameters of this name.
    fn parameters(&self, name: &str) -> Vec<String> {
        web::target::pairs(&self.query).filter(|(key, _)| key == name).map(|(_, value)| value).collect()
    }

    /// The body, read as JSON whatever its media type; an empty body is an empty object.
    fn read<T: DeserializeOwned>(&self) -> Result<T, RucioError> {
        let text: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        web::json::read(text, "the body").map_err(|refused| RucioError::new(400, "InvalidObject", refused.reason))
    }
}

/// The router of everything below [`PREFIX`].
pub fn router(hub: &Arc<HubState>) -> Router {
    let layer = AuthenticateLayer::new(Arc::clone(&hub.authenticator));
    let hub = Arc::clone(hub);
    let answer = move |request| answer(hub, request);
    let bounded = DefaultBodyLimit::max(limits::BODY_BYTES_MAX);
    Router::new()
        .fallback(answer)
        .layer(layer)
        .layer(bounded)
        .layer(axum::middleware::from_fn(translate_authentication))
}

/// The path of a request, below [`PREFIX`].
#[derive(Clone)]
struct RucioPath(String);

/// Wraps authentication: passes Rucio's token to it as the credential, hides Rucio's paths from it, because they name no files, and turns
/// its refusals into errors of Rucio.
async fn translate_authentication(mut request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let path = uri.path().strip_prefix(PREFIX).unwrap_or(uri.path()).to_owned();
    if let Some(credential) = login::credential(&path, request.headers()) {
        request.headers_mut().insert(header::AUTHORIZATION, credential);
    }
    let mut parts = uri.into_parts();
    let query = parts.path_and_query.as_ref().and_then(|it| it.query()).map_or(String::new(), |it| format!("?{it}"));
    parts.path_and_query = format!("{PREFIX}/{query}").parse().ok();
    if let Ok(hidden) = Uri::from_parts(parts) {
        *request.uri_mut() = hidden;
    }
    request.extensions_mut().insert(RucioPath(path));
    let response = next.run(request).await;
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|it| it.as_bytes() == PROBLEM.as_bytes());
    if !is_problem {
        return response;
    }
    let (head, body) = response.into_parts();
    let problem = axum::body::to_bytes(body, REASON_BYTES_MAX).await.unwrap_or_default();
    let reason = serde_json::from_slice::<Problem>(&problem).map(|problem| problem.reason).unwrap_or_default();
    RucioError::new(head.status.as_u16(), "CannotAuthenticate", reason).response()
}

async fn answer(hub: Arc<HubState>, request: Request) -> Response {
    match try_answer(hub, request).await {
        Ok(response) => response,
        Err(error) => error.response(),
    }
}

async fn try_answer(hub: Arc<HubState>, request: Request) -> RucioResult {
    let (parts, body) = request.into_parts();
    let RucioPath(path) = parts.extensions.get::<RucioPath>().cloned().unwrap_or(RucioPath(String::new()));
    let segments = segments(&path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = parts.method.as_str();
    // Traces come without a credential; they are not stored.
    match (method, segments.as_slice()) {
        ("GET", ["ping"]) => return json_answer(200, &json!({"version": "41.5.1"})),
        ("POST", ["traces"]) => return created(),
        _ => {}
    }
    let principal = parts.extensions.get::<Arc<Principal>>().cloned();
    let principal =
        principal.ok_or_else(|| RucioError::new(500, "RucioException", "the request was not authenticated"))?;
    if principal.is_anonymous {
        return Err(RucioError::new(
            401,
            "CannotAuthenticate",
            "the request has no token: log in, with an access key of the hub as the password",
        ));
    }
    let member = hub.credentials.member(&principal).await;
    let member = member.map_err(|refusal| RucioError::new(401, "CannotAuthenticate", refusal.reason))?;
    let too_long =
        |_| RucioError::new(413, "InvalidObject", format!("the body is longer than {} bytes", limits::BODY_BYTES_MAX));
    let body = axum::body::to_bytes(body, limits::BODY_BYTES_MAX).await.map_err(too_long)?;
    // Python's clients write a space as `+`.
    let query = parts.uri.query().unwrap_or_default().replace('+', "%20");
    let request = RucioRequest { hub, member, query, headers: parts.headers, body };
    route(request, method, &segments).await
}

/// The parts of a path. The path is split before its escapes are decoded: a name may have an escaped slash.
fn segments(path: &str) -> Result<Vec<String>, RucioError> {
    let not_utf8 = |_| RucioError::new(400, "InvalidPath", "the path has escapes that are not UTF-8");
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| percent_decode_str(&part.replace('+', " ")).decode_utf8().map(Into::into).map_err(not_utf8))
        .collect()
}

async fn route(request: RucioRequest, method: &str, path: &[&str]) -> RucioResult {
    match path {
        ["auth", how @ ..] => login::answer(request, method, how).await,
        ["accounts", rest @ ..] => accounts::answer(request, method, rest).await,
        ["scopes", rest @ ..] => accounts::scopes(request, method, rest).await,
        ["dids", rest @ ..] => dids::answer(request, method, rest).await,
        ["replicas", rest @ ..] => replicas::answer(request, method, rest).await,
        ["rules", rest @ ..] => rules::answer(request, method, rest).await,
        ["rses", rest @ ..] => rses::answer(request, method, rest).await,
        ["locks", rest @ ..] => rules::locks(request, method, rest).await,
        ["subscriptions", ..] => stream(Vec::<Value>::new()),
        _ => Err(unknown(method, path)),
    }
}

/// The error for an unknown path or method.
fn unknown(method: &str, path: &[&str]) -> RucioError {
    let text = format!("the hub has no {method} /{} of Rucio's; docs/rucio.md says what it has", path.join("/"));
    RucioError::new(404, "UnsupportedOperation", text)
}

fn with_body(status: u16, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer with one JSON value; its media type is exactly `application/json`.
fn json_answer(status: u16, value: &impl Serialize) -> RucioResult {
    let text = serde_json::to_vec(value).map_err(|error| RucioError::new(500, "RucioException", error.to_string()))?;
    Ok(with_body(status, "application/json", text))
}

/// An answer with one JSON value on each line.
fn stream<T: Serialize>(values: impl IntoIterator<Item = T>) -> RucioResult {
    let mut text = Vec::new();
    for value in values {
        serde_json::to_writer(&mut text, &value)
            .map_err(|error| RucioError::new(500, "RucioException", error.to_string()))?;
        text.push(b'\n');
    }
    Ok(with_body(200, STREAM, text))
}

/// Rucio's answer `Created` (201).
fn created() -> RucioResult {
    Ok(with_body(201, "text/html; charset=utf-8", "Created"))
}

/// The empty answer to a request that was carried out.
fn done() -> RucioResult {
    Ok(with_body(200, "text/html; charset=utf-8", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_its_escapes_are_decoded() {
        let parts = |path: &str| segments(path).map_err(|error| error.class);
        assert_eq!(parts("/dids/user.ann/a%2Fb+c/meta/").unwrap(), ["dids", "user.ann", "a/b c", "meta"]);
        assert_eq!(parts("/dids/%ff"), Err("InvalidPath"));
    }
}

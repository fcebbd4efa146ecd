//! FTS3's REST API for FTS clients and for Rucio, below `/fts3` on the hub's port, answered from the hub's own queue.
//!
//! It follows FTS3 REST 3.13 and its client 3.14 (cern-fts). Clients put `//` before a path; errors are `{"status", "message"}`.

mod archive;
mod cancel;
mod config;
mod delegation;
pub(crate) mod forms;
mod jobs;
mod optimizer;
mod settings;
mod storages;
mod submission;
mod users;

use std::borrow::Cow;
use std::sync::Arc;

use authn::Principal;
use authn::tower::AuthenticateLayer;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use model::v1::node::Problem;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Value, json};
use web::Refused;
use web::routes::PROBLEM;

use crate::limits;
use crate::roles::Member;
use crate::server::ClientChain;
use crate::state::HubState;

/// The path of the API on the hub's port.
pub const PREFIX: &str = "/fts3";

/// An authenticated request.
pub(crate) struct FtsRequest {
    pub hub: Arc<HubState>,
    pub member: Member,
    /// How the client has authenticated: `certificate`, `oauth2` or `unauthenticated`.
    pub method: &'static str,
    /// The certificates that the client has sent in the TLS handshake, if any.
    pub client_chain: Option<ClientChain>,
    pub query: String,
    pub body: Bytes,
}

impl FtsRequest {
    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        web::target::pairs(&self.query).find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// A parameter that is a list separated by commas.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.parameter(name).unwrap_or_default();
        text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }
}

/// The most bytes of a refusal by authentication.
const REASON_BYTES_MAX: usize = 64 << 10;

type FtsResult = Result<Response, Refused>;

/// The router of everything below [`PREFIX`].
pub fn router(hub: &Arc<HubState>) -> Router {
    let layer = AuthenticateLayer::new(Arc::clone(&hub.authenticator));
    let hub = Arc::clone(hub);
    let answer = move |request| answer(hub, request);
    let bounded = DefaultBodyLimit::max(limits::BODY_BYTES_MAX);
    Router::new().fallback(answer).layer(layer).layer(bounded).layer(axum::middleware::from_fn(refusals_as_fts))
}

/// Turns refusals by authentication into errors of FTS.
async fn refusals_as_fts(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|it| it.as_bytes() == PROBLEM.as_bytes());
    if !response.status().is_client_error() || !is_problem {
        return response;
    }
    let (head, body) = response.into_parts();
    let problem = axum::body::to_bytes(body, REASON_BYTES_MAX).await.unwrap_or_default();
    let reason = serde_json::from_slice::<Problem>(&problem).map(|problem| problem.reason).unwrap_or_default();
    let mut response = error(&Refused::new(head.status.as_u16(), reason));
    let challenges =
        head.headers.iter().filter(|(name, _)| **name != header::CONTENT_TYPE && **name != header::CONTENT_LENGTH);
    response.headers_mut().extend(challenges.map(|(name, value)| (name.clone(), value.clone())));
    response
}

async fn answer(hub: Arc<HubState>, request: Request) -> Response {
    match try_answer(hub, request).await {
        Ok(response) => response,
        Err(refused) => error(&refused),
    }
}

async fn try_answer(hub: Arc<HubState>, request: Request) -> FtsResult {
    let (parts, body) = request.into_parts();
    let principal = parts.extensions.get::<Arc<Principal>>().cloned();
    let principal = principal.ok_or_else(|| Refused::new(500, "the request was not authenticated"))?;
    // FTS answers 403 where a credential is missing: its clients do not try again with one.
    let member = hub.credentials.member(&principal).await.map_err(|refusal| Refused::new(403, refusal.reason))?;
    let method = match principal.credential {
        authn::Credential::Certificate { .. } => "certificate",
        authn::Credential::None => "unauthenticated",
        _ => "oauth2",
    };
    let too_long =
        |_| Refused::new(413, format!("the body is longer than {} bytes, or broke off", limits::BODY_BYTES_MAX));
    let body = axum::body::to_bytes(body, limits::BODY_BYTES_MAX).await.map_err(too_long)?;
    let path = parts.uri.path();
    let path = path.strip_prefix(PREFIX).unwrap_or(path);
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let client_chain = parts.extensions.get::<ClientChain>().cloned();
    let request = FtsRequest { hub, member, method, client_chain, query, body };
    // Clients write `//jobs`: empty parts are skipped.
    let segments = path.split('/').filter(|part| !part.is_empty());
    let not_utf8 = |_| Refused::new(400, "the path has escapes that are not UTF-8");
    let segments = segments.map(|part| percent_decode_str(part).decode_utf8());
    let segments: Vec<Cow<'_, str>> = segments.collect::<Result<_, _>>().map_err(not_utf8)?;
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    route(request, parts.method.as_str(), &segments).await
}

async fn route(request: FtsRequest, method: &str, path: &[&str]) -> FtsResult {
    match (method, path) {
        ("GET" | "HEAD", []) => json_answer(200, &index()),
        ("GET", ["whoami"]) => json_answer(200, &forms::whoami(&request.member, request.method)),
        ("GET", ["whoami", "certificate"]) => delegation::certificate(&request),
        ("GET", ["delegation", id]) => delegation::show(request, id).await,
        ("DELETE", ["delegation", id]) => delegation::remove(request, id).await,
        ("GET", ["delegation", id, "request"]) => delegation::request(request, id).await,
        ("PUT" | "POST", ["delegation", id, "credential"]) => delegation::take(request, id).await,
        ("POST", ["delegation", id, "voms"]) => delegation::no_voms(&request, id),
        ("GET", ["jobs"]) => jobs::list(request).await,
        ("POST" | "PUT", ["jobs"]) => jobs::submit(request).await,
        ("GET", ["jobs", ids]) => jobs::show(request, ids).await,
        ("DELETE", ["jobs", "all"]) => cancel::all(request, None).await,
        ("DELETE", ["jobs", "vo", vo]) => cancel::all(request, Some(vo)).await,
        ("DELETE", ["jobs", id, "files", files]) => cancel::files(request, id, files).await,
        ("DELETE", ["jobs", ids]) => cancel::jobs(request, ids).await,
        ("POST", ["jobs", ids]) => jobs::modify(request, ids).await,
        ("GET", ["jobs", id, "files"]) => jobs::files(request, id).await,
        ("GET", ["jobs", id, "dm"]) => jobs::no_deletions(request, id).await,
        ("GET", ["jobs", id, "files", file, "retries"]) => jobs::retries(request, id, file).await,
        ("GET", ["jobs", id, field]) => jobs::field(request, id, field).await,
        ("GET", ["files"]) => jobs::all_files(request).await,
        ("GET", ["ban", "se"]) => storages::banned(&request),
        ("POST", ["ban", "se"]) => storages::ban(request).await,
        ("DELETE", ["ban", "se"]) => storages::unban(request).await,
        ("GET", ["ban", "dn"]) => users::banned(&request).await,
        ("POST", ["ban", "dn"]) => users::ban(request).await,
        ("DELETE", ["ban", "dn"]) => users::unban(request).await,
        ("GET", ["archive"]) => archive::list(request).await,
        ("GET", ["archive", id]) => archive::show(request, id, None).await,
        ("GET", ["archive", id, field]) => archive::show(request, id, Some(field)).await,
        ("GET", ["optimizer"]) => json_answer(200, &true),
        ("GET", ["optimizer", "evolution"]) => optimizer::evolution(&request).await,
        ("GET", ["optimizer", "current"]) => optimizer::current(&request).await,
        (_, ["config", what @ ..]) => config::answer(request, method, what).await,
        ("GET", ["status", "hosts"]) => storages::hosts(request).await,
        ("GET", ["api-docs", "schema", "submit"]) => json_answer(200, &jobs::schema()),
        (_, ["jobs" | "whoami" | "delegation" | "files" | "ban" | "status" | "archive" | "optimizer", ..]) => {
            Err(Refused::new(405, format!("{method} is no method of /{}", path.join("/"))))
        }
        _ => Err(Refused::new(404, format!("there is no /{} here", path.join("/")))),
    }
}

/// `GET /`: clients read the version of the API, as numbers.
fn index() -> Value {
    let version = json!({"major": 3, "minor": 14, "patch": 2});
    json!({
        "api": version,
        "core": version,
        "schema": {"major": 9, "minor": 0, "patch": 0},
        "delegation": {"major": 1, "minor": 0, "patch": 0},
        "software": concat!("longhaul/", env!("CARGO_PKG_VERSION")),
        "_links": {
            "curies": [{"name": "fts", "href": "https://gitlab.cern.ch/fts/fts3", "templated": true}],
            "fts:whoami": {"href": "/whoami", "title": "Check user certificate"},
            "fts:joblist": {"href": "/jobs{?vo_name,user_dn}", "templated": true, "title": "List of active jobs"},
            "fts:job": {"href": "/jobs/{id}", "templated": true, "title": "Job information"},
        },
    })
}

/// An answer in JSON.
fn json_answer(status: u16, value: &impl Serialize) -> FtsResult {
    let unwritable = |error: serde_json::Error| Refused::new(500, format!("the answer cannot be written: {error}"));
    let body = serde_json::to_vec(value).map_err(unwritable)?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The empty answer to a request that was carried out.
fn no_content() -> FtsResult {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// A refusal as an error of FTS.
fn error(refused: &Refused) -> Response {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or("Error"));
    let body = json!({"status": text, "message": refused.reason});
    json_answer(status.as_u16(), &body).unwrap_or_default()
}

//! The API of a watch, below `/api/v1/watch`. The hub authenticates the client first. An anonymous client sees what the
//! configuration shows to its network.

mod answers;
mod document;
mod viewer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use authn::tower::Caller;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use model::v1::hub::Role;
use serde::Serialize;
use serde::de::DeserializeOwned;
use web::Refused;
use web::routes::{self, Answer, JSON, PROBLEM, Route, RouteError};

use crate::state::Watch;
use crate::time;
use viewer::{Viewer, Viewers};

/// The largest body of a request, bytes.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// The path of the API.
pub const PREFIX: &str = "/api/v1/watch";

/// A request with its viewer.
pub(crate) struct WatchRequest {
    pub watch: Arc<Watch>,
    pub viewer: Viewer,
    pub id: String,
    pub query: String,
    pub body: bytes::Bytes,
}

type ApiResult = Result<Response, Refused>;
type AnswerFuture = Pin<Box<dyn Future<Output = ApiResult> + Send>>;

/// The function that answers a route, and the role that the route requires.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    /// None where every viewer is allowed.
    pub role: Option<Role>,
    pub answer: fn(WatchRequest) -> AnswerFuture,
}

macro_rules! handler {
    ($role:expr, $answer:path) => {
        Handler { role: $role, answer: |request| Box::pin($answer(request)) }
    };
}

/// All routes.
pub(crate) const ROUTES: &[Route<Handler>] = &[
    Route {
        method: "GET",
        path: "/api/v1/watch",
        name: "watch",
        summary: "Lists the routes of the watch",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "method, path and summary of each route", "Index")],
        handler: handler!(None, answers::index),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/openapi.json",
        name: "watch_openapi",
        summary: "Returns the OpenAPI document of the watch",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "an OpenAPI document")],
        handler: handler!(None, answers::openapi),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/grid",
        name: "grid",
        summary: "Returns the health of all pairs, forward and reverse",
        query: &[("test", "`latency`, `throughput` or `path`; default: all three")],
        body: None,
        answers: &[Answer::json(200, "a cell for each pair and test", "Grid")],
        handler: handler!(None, answers::grid),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/history",
        name: "history",
        summary: "Returns the measurements of a pair over time",
        query: &[
            ("from", "one end"),
            ("to", "the other end; left out for the counters of an interface"),
            (
                "test",
                "`latency`, `throughput`, `throughput reverse`, `path`, `counters`, or `exercise NAME: FLOW`; default: `latency`",
            ),
            ("since", "RFC 3339, or a duration before now: `7d`; default: one day before `until`"),
            ("until", "RFC 3339, or a duration before now; default: now"),
            ("rows", "the most rows; default: 1000"),
        ],
        body: None,
        answers: &[Answer::json(200, "rows of numbers", "History"), Answer::problem(404, "no such pair")],
        handler: handler!(None, answers::history),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/alarms",
        name: "alarms",
        summary: "Lists alarms, newest first: current ones, and with `since` also past ones",
        query: &[("since", "RFC 3339, or a duration before now: `7d`"), ("limit", "the most alarms; default: 1000")],
        body: None,
        answers: &[Answer::json(200, "alarms", "Alarms")],
        handler: handler!(None, answers::alarms),
    },
    Route {
        method: "POST",
        path: "/api/v1/watch/alarms/{id}/acknowledgement",
        name: "acknowledge",
        summary: "Acknowledges an alarm: no more notices are sent about it until it is over",
        query: &[],
        body: Some("Acknowledgement"),
        answers: &[Answer::json(200, "the alarm", "Alarm"), Answer::problem(404, "no current alarm has this id")],
        handler: handler!(Some(Role::Operator), answers::acknowledge),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/why",
        name: "why_path",
        summary: "Explains a path: the rate to expect, the rate measured, and its alarms",
        query: &[("from", "one end"), ("to", "the other end")],
        body: None,
        answers: &[Answer::json(200, "both directions", "Why"), Answer::problem(404, "no such pair")],
        handler: handler!(None, answers::why),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/evidence",
        name: "evidence",
        summary: "Returns explanation and history of a path as one HTML page, to be sent to another domain",
        query: &[
            ("from", "one end"),
            ("to", "the other end"),
            ("since", "RFC 3339, or a duration before now: `7d`; default: one week"),
        ],
        body: None,
        answers: &[Answer { status: 200, means: "an HTML page", schema: None, media: "text/html" }],
        handler: handler!(None, answers::evidence),
    },
    Route {
        method: "POST",
        path: "/api/v1/watch/records",
        name: "post_record",
        summary: "Stores a record from the HTTP archiver of pScheduler (`op` post or put), to be shown beside the nodes' measurements",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "source, target and test of the stored record")],
        handler: handler!(Some(Role::Operator), answers::record),
    },
    Route {
        method: "PUT",
        path: "/api/v1/watch/records",
        name: "put_record",
        summary: "Stores a record from the HTTP archiver of pScheduler, like POST",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "source, target and test of the stored record")],
        handler: handler!(Some(Role::Operator), answers::record),
    },
    Route {
        method: "POST",
        path: "/api/v1/watch/exercises",
        name: "postExerciseOutcome",
        summary: "Takes the outcome of a repeated exercise: its rates are archived, and a flow that lost a tenth or more raises an alarm",
        query: &[],
        body: Some("ExerciseOutcome"),
        answers: &[
            Answer::json(200, "the alarms that it raised", "Alarms"),
            Answer::problem(400, "the outcome is not plausible"),
        ],
        handler: handler!(Some(Role::Operator), answers::exercise),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/annotations",
        name: "annotations",
        summary: "Lists annotations: events that operators noted",
        query: &[("since", "RFC 3339, or a duration before now: `7d`; default: one week")],
        body: None,
        answers: &[Answer::any(200, "annotations, oldest first")],
        handler: handler!(Some(Role::User), answers::annotations),
    },
    Route {
        method: "POST",
        path: "/api/v1/watch/annotations",
        name: "annotate",
        summary: "Adds an annotation; an alarm that begins at about its time names it",
        query: &[],
        body: Some("Annotation"),
        answers: &[Answer::json(201, "the annotation", "Annotation")],
        handler: handler!(Some(Role::Operator), answers::annotate),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/nodes",
        name: "watch_nodes",
        summary: "Lists the nodes that measure for this watch, and the tests that they refuse",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "the nodes")],
        handler: handler!(Some(Role::User), answers::nodes),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/talkers",
        name: "talkers",
        summary: "Lists the addresses that moved most bytes through all nodes",
        query: &[
            ("window", "`minute`, `hour` or `start` (since each node started); default: `hour`"),
            ("top", "the most addresses; default: 20, at most 1000"),
        ],
        body: None,
        answers: &[Answer::json(200, "addresses, fastest first, and the bytes that each node moved", "Talkers")],
        handler: handler!(Some(Role::User), answers::talkers),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/directory",
        name: "directory",
        summary: "Returns the nodes that the client may see, signed: a compact JWS of a `Directory`",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "a signed directory")],
        handler: handler!(None, answers::directory),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/directory/key",
        name: "directory_key",
        summary: "Returns the public key that verifies the signature of the directory",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "`key`: ed25519:…", "DirectoryKey")],
        handler: handler!(Some(Role::User), answers::directory_key),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/interfaces",
        name: "interfaces",
        summary: "Lists interfaces with their utilisation, errors and received light. Their history: `history?from=NAME&test=counters`",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "interfaces", "Interfaces")],
        handler: handler!(Some(Role::User), answers::interfaces),
    },
    Route {
        method: "GET",
        path: "/api/v1/watch/map",
        name: "map",
        summary: "Returns places with their coordinates, and the health of the paths between them",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "places and paths")],
        handler: handler!(None, answers::map),
    },
];

/// The router of everything below [`PREFIX`]. Requests carry a [`Caller`] among their extensions.
pub fn router(watch: Arc<Watch>) -> Router {
    let viewers = Arc::new(Viewers::default());
    let answer = move |request: Request| {
        let watch = Arc::clone(&watch);
        let viewers = Arc::clone(&viewers);
        async move { try_answer(watch, &viewers, request).await.unwrap_or_else(|refused| problem(&refused)) }
    };
    Router::new().fallback(answer).layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

async fn try_answer(watch: Arc<Watch>, viewers: &Viewers, request: Request) -> ApiResult {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let found = routes::find(ROUTES, parts.method.as_str(), path.trim_start_matches('/'));
    let (route, id) = found.map_err(|unrouted| match unrouted {
        RouteError::Path => Refused::new(404, format!("there is no {path} here; GET {PREFIX} lists what there is")),
        RouteError::Method(methods) => {
            let allowed = methods.join(", ");
            Refused::new(405, format!("{} is no method of {path}: {allowed}", parts.method)).with("Allow", allowed)
        }
    })?;
    let caller = parts.extensions.get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| Refused::new(500, "the request carries no caller"))?;
    let viewer = viewers.viewer(&caller, &watch.watched.load().config)?;
    if let Some(role) = route.handler.role {
        viewer.require(role)?;
    }
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await;
    let body =
        body.map_err(|_| Refused::new(413, format!("the body is longer than {BODY_BYTES_MAX} bytes, or broke off")))?;
    let id = id.unwrap_or_default().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    (route.handler.answer)(WatchRequest { watch, viewer, id, query, body }).await
}

impl WatchRequest {
    /// A parameter of the query.
    fn parameter(&self, name: &str) -> Option<String> {
        web::target::pairs(&self.query).find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// A parameter that is required.
    fn required(&self, name: &str) -> Result<String, Refused> {
        self.parameter(name).ok_or_else(|| Refused::new(400, format!("the parameter {name} is missing: ?{name}=…")))
    }

    /// A number within bounds.
    fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Refused> {
        let Some(text) = self.parameter(name) else { return Ok(default) };
        let read = text.parse().ok().filter(|number| (1..=most).contains(number));
        read.ok_or_else(|| Refused::new(400, format!("{name} is a number from 1 to {most}, and not {text:?}")))
    }

    /// A time: RFC 3339, or a duration before now.
    fn time(&self, name: &str) -> Result<Option<i64>, Refused> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let ago = || model::duration::parse(&text).ok().map(|span| time::now().saturating_sub(span.as_millis() as i64));
        let read = time::parse(&text).or_else(ago);
        let wrong = || {
            Refused::new(
                400,
                format!("{name}={text} is not a valid time: write it like 2026-11-01T10:00:00Z, or 7d for a week ago"),
            )
        };
        read.map(Some).ok_or_else(wrong)
    }

    /// The body, read as JSON.
    fn read<T: DeserializeOwned>(&self, what: &str) -> Result<T, Refused> {
        web::json::read(&self.body, what)
    }
}

/// An answer in JSON.
fn json(status: u16, value: &impl Serialize) -> ApiResult {
    let text = serde_json::to_vec(value);
    let text = text.map_err(|error| Refused::new(500, format!("the answer cannot be written: {error}")))?;
    Ok(with_body(status, JSON, text))
}

fn with_body(status: u16, media: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A refusal as a problem document (RFC 9457).
fn problem(refused: &Refused) -> Response {
    let mut response = with_body(refused.status, PROBLEM, serde_json::to_vec(&refused.problem()).unwrap_or_default());
    for (name, value) in refused.headers.iter() {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The list of routes.
fn route_list() -> serde_json::Value {
    let entry = |route: &Route<Handler>| serde_json::json!({"method": route.method, "path": route.path, "summary": route.summary});
    let routes: Vec<_> = ROUTES.iter().map(entry).collect();
    serde_json::json!({"document": format!("{PREFIX}/openapi.json"), "questions": routes})
}

/// The OpenAPI document of the API.
pub fn document() -> serde_json::Value {
    document::document(ROUTES)
}

#[cfg(test)]
mod tests;

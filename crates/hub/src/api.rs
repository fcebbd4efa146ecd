//! The hub's own API, `/api/v1`: authenticates a request, finds its route, and writes refusals as problem documents.

mod accesses;
mod actions;
mod audits;
mod collaboration;
mod data;
mod document;
mod events;
mod exercises;
mod folders;
mod jobs;
mod metrics;
mod plan;
mod queues;
mod repeats;
mod rules;
mod session;
mod share_links;
mod sign_in;
mod site_catalogue;
mod subscriptions;
mod table;
mod webhooks;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use authn::tower::{AuthenticateLayer, Caller, Connection};
use authn::{Credential, Principal};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use model::v1::hub::{NotPromised, Offer, Role};
use model::{Fault, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;
use web::Refused;
use web::routes::{JSON, PROBLEM, Route, RouteError};

use crate::database::actions::ActionRow;
use crate::limits;
use crate::portal::cookies::BrowserRequest;
use crate::portal::sessions::{self, SessionCredential};
use crate::roles::Member;
use crate::state::HubState;
use crate::time;

/// The document of the API.
pub fn document() -> serde_json::Value {
    document::document(&table::ROUTES)
}

/// A request that was authenticated, with its body.
#[derive(Clone)]
pub(crate) struct ApiRequest {
    pub hub: Arc<HubState>,
    pub member: Member,
    /// The text in the place of `{id}` in the path.
    pub id: String,
    pub query: String,
    pub head: Arc<http::request::Parts>,
    /// Whether the request came over TLS.
    pub is_secure: bool,
    /// The credential that the request has.
    pub credential: SessionCredential,
    pub body: Bytes,
}

/// An answer, or a refusal.
pub(crate) type ApiResult = Result<Response, Refused>;
type ApiFuture = Pin<Box<dyn Future<Output = ApiResult> + Send>>;

/// The function that answers a route, and the role that the route requires.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    /// `None` if no role is required: anonymous clients may send the request.
    pub role: Option<Role>,
    pub answer: fn(ApiRequest) -> ApiFuture,
}

impl ApiRequest {
    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        web::target::pairs(&self.query).find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// A parameter that is a number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Refused> {
        let wrong = |text: String| Refused::new(400, format!("{name}={text} is no number"));
        self.parameter(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// The owner whose rows are listed: the member, or, for an operator, an empty text that stands for every owner.
    pub fn own_or_all(&self) -> &str {
        if self.member.role >= Role::Operator { "" } else { &self.member.owner }
    }

    /// The number of rows that the client wants on a page.
    pub fn limit(&self, default: usize) -> Result<i64, Refused> {
        let limit = self.number("limit")?.unwrap_or(default as i64);
        if (1..=limits::PAGE_MAX as i64).contains(&limit) {
            return Ok(limit);
        }
        Err(Refused::new(400, format!("limit is 1 to {}", limits::PAGE_MAX)))
    }

    /// The header fields of the request.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The body, read as JSON.
    pub fn read<T: DeserializeOwned>(&self, what: &str) -> Result<T, Refused> {
        let kind = self.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON)) {
            return Err(Refused::new(415, format!("{what} is JSON: send it with Content-Type: {JSON}")));
        }
        web::json::read(&self.body, what)
    }
}

/// A part of the API that another crate answers: all requests below a path. They carry a [`Caller`] among their extensions.
#[derive(Clone)]
pub struct ApiPart {
    /// The path below which the other crate answers: `/api/v1/watch`.
    pub prefix: &'static str,
    /// Answers these requests.
    pub router: Router,
}

/// The router of everything below `/api/v1`, the parts of other crates included.
pub fn router(hub: &Arc<HubState>, parts: Vec<ApiPart>) -> Router {
    let layer = AuthenticateLayer::new(Arc::clone(&hub.authenticator));
    let hub = Arc::clone(hub);
    let parts: Arc<[ApiPart]> = parts.into();
    let answer = move |request: axum::extract::Request| {
        let is_below = |part: &&ApiPart| {
            let rest = request.uri().path().strip_prefix(part.prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let part = parts.iter().find(is_below).cloned();
        async move {
            match part {
                Some(part) => answer_part(&hub, part, request).await,
                None => answer(hub, request).await,
            }
        }
    };
    Router::new().fallback(answer).layer(layer).layer(DefaultBodyLimit::max(limits::BODY_BYTES_MAX))
}

/// Hands a request to the part of another crate, with its caller: a member, or an anonymous client.
async fn answer_part(hub: &HubState, mut part: ApiPart, request: axum::extract::Request) -> Response {
    let principal = request.extensions().get::<Arc<Principal>>().cloned();
    let connection = request.extensions().get::<Connection>().cloned();
    let (Some(principal), Some(connection)) = (principal, connection) else {
        return problem(&Refused::new(500, "the request was not authenticated"));
    };
    let (head, body) = request.into_parts();
    let member = match member(hub, &principal, BrowserRequest::of(&head, connection.is_secure)).await {
        Ok(member) => Some((member.owner, member.role)),
        Err(refused) if refused.status == 401 && principal.is_anonymous => None,
        Err(refused) => return problem(&refused),
    };
    let mut request = axum::extract::Request::from_parts(head, body);
    request.extensions_mut().insert(Caller { peer: connection.peer, principal: member });
    match Service::call(&mut part.router, request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The member who sends a request: by a credential, else by a session of the portal, else by the connection's certificate.
async fn member(hub: &HubState, principal: &Principal, browser: BrowserRequest<'_>) -> Result<Member, Refused> {
    let has_credential = !matches!(principal.credential, Credential::None | Credential::Certificate { .. });
    if !has_credential && let Some(member) = sessions::member(hub, browser).await? {
        return Ok(hub.credentials.require_not_banned(member)?);
    }
    hub.credentials.member(principal).await.map_err(|refusal| unauthenticated(principal, refusal))
}

async fn answer(hub: Arc<HubState>, request: axum::extract::Request) -> Response {
    match try_answer(hub, request).await {
        Ok(response) => response,
        Err(refused) => problem(&refused),
    }
}

/// The route of a request, and the id in its path.
fn route(method: &str, path: &str) -> Result<(&'static Route<Handler>, String), Refused> {
    match web::routes::find(&table::ROUTES, method, path.trim_start_matches('/')) {
        Ok((route, id)) => Ok((route, id.unwrap_or_default().to_owned())),
        Err(RouteError::Path) => {
            Err(Refused::new(404, format!("there is no {path} here; GET /api/v1 lists what there is")))
        }
        Err(RouteError::Method(methods)) => {
            let allowed = methods.join(", ");
            Err(Refused::new(405, format!("{method} is no method of {path}: {allowed}")).with("Allow", allowed))
        }
    }
}

async fn try_answer(hub: Arc<HubState>, request: axum::extract::Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let (route, id) = route(head.method.as_str(), head.uri.path())?;
    let principal = head.extensions.get::<Arc<Principal>>().cloned();
    let principal = principal.ok_or_else(|| Refused::new(500, "the request was not authenticated"))?;
    let is_secure = head.extensions.get::<Connection>().is_some_and(|connection| connection.is_secure);
    let member = match route.handler.role {
        None => Member::user("", ""),
        Some(_) => member(&hub, &principal, BrowserRequest::of(&head, is_secure)).await?,
    };
    let credential = match &principal.credential {
        Credential::Key { id } => SessionCredential { grant_id: id.clone(), ends: None },
        Credential::Token { claims } => {
            SessionCredential { ends: Some(claims.expires.saturating_mul(1000)), ..SessionCredential::default() }
        }
        _ => SessionCredential::default(),
    };
    let action = action(route, &head, &member);
    let query = head.uri.query().unwrap_or_default().to_owned();
    let audit_trail = hub.audit_trail.clone();
    let request =
        ApiRequest { hub, member, id, query, head: Arc::new(head), is_secure, credential, body: Bytes::new() };
    let answered = carry_out(route.handler, request, body).await;
    if let Some(action) = action {
        let status = answered.as_ref().map_or_else(|refused| refused.status, |answer| answer.status().as_u16());
        audit_trail.note(ActionRow { status: i64::from(status), ..action }).await;
    }
    answered
}

/// Reads the body of a request and answers it, if its member has the role that the route requires.
async fn carry_out(handler: Handler, request: ApiRequest, body: Body) -> ApiResult {
    if let Some(role) = handler.role {
        request.member.require(role)?;
    }
    let body = axum::body::to_bytes(body, limits::BODY_BYTES_MAX).await.map_err(|_| {
        Refused::new(413, format!("the body is longer than {} bytes, or broke off", limits::BODY_BYTES_MAX))
    })?;
    (handler.answer)(ApiRequest { body, ..request }).await
}

/// The row of the audit trail for a request that changes something; its status is not known yet.
fn action(route: &Route<Handler>, head: &http::request::Parts, member: &Member) -> Option<ActionRow> {
    if route.method == "GET" || route.name == exercises::REPORT {
        return None;
    }
    // The path of a route without a role holds a secret: the token of a share link.
    let path = if route.handler.role.is_some() { head.uri.path() } else { route.path };
    let address = head.extensions.get::<Connection>().map(|connection| connection.peer.to_string());
    Some(ActionRow {
        at: time::now(),
        owner: member.owner.clone(),
        address: address.unwrap_or_default(),
        what: route.name.to_owned(),
        path: path.to_owned(),
        ..ActionRow::default()
    })
}

/// An anonymous client is asked for a credential (401); a principal without the role is refused (403).
fn unauthenticated(principal: &Principal, refusal: Refusal) -> Refused {
    if principal.is_anonymous && refusal.fault == Fault::Auth {
        let refused = Refused { fault: Some(Fault::Auth), ..Refused::new(401, refusal.reason) };
        return refused.with("WWW-Authenticate", "Bearer realm=\"longhaul\"");
    }
    refusal.into()
}

/// An answer in JSON.
pub(crate) fn json(status: u16, value: &impl Serialize) -> ApiResult {
    let text = serde_json::to_vec(value)
        .map_err(|error| Refused::new(500, format!("the answer cannot be written: {error}")))?;
    Ok(with_body(status, JSON, text))
}

fn with_body(status: u16, media: &'static str, mut body: Vec<u8>) -> Response {
    body.push(b'\n');
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A refusal as a problem document (RFC 9457).
pub(crate) fn problem(refused: &Refused) -> Response {
    let problem = refused.problem();
    let mut response = with_body(problem.status, PROBLEM, serde_json::to_vec(&problem).unwrap_or_default());
    for (name, value) in refused.headers.iter() {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The answer to a deadline that cannot be promised, with the deadline or the bytes that can.
pub(crate) fn not_promised(text: &str, offer: Offer) -> Response {
    let problem = NotPromised { problem: Refused::new(409, text).problem(), offer };
    with_body(409, PROBLEM, serde_json::to_vec(&problem).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-hub.json");
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var_os("LONGHAUL_WRITE_OPENAPI").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == text,
            "LONGHAUL_WRITE_OPENAPI=1 cargo test -p hub --lib the_committed_document writes it again"
        );
    }

    #[test]
    fn every_reference_of_the_document_has_a_schema() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}

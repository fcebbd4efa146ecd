//! The layer of tower around a service that has roles instead of exports.
#![allow(clippy::unwrap_used, missing_docs)]

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use auth::x509::{CertificateCheck, Identity};
use auth::{AccessKey, Fingerprint, Grant, Policy, Rights};
use authn::tower::{AuthenticateLayer, Connection};
use authn::{Authenticator, Credentials, Issuers, Principal};
use model::{Fault, Refusal, RelPath};
use tower_layer::Layer;
use tower_service::Service;

/// The credentials of a service with one key.
struct Roles;

fn key() -> AccessKey {
    AccessKey::new([1; 8], [2; 32], Fingerprint([3; 32]))
}

impl Credentials for Roles {
    fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy::parse("").unwrap())
    }

    fn anonymous(&self) -> Option<Rights> {
        None
    }

    fn grant_of_key(&self, key: &AccessKey) -> Result<Grant, Refusal> {
        match (key.id, *key.expose_secret()) {
            ([1, ..], [2, ..]) => {
                Ok(Grant::new(key.id, key.expose_secret(), "operator".into(), &RelPath::root(), Rights::Read, 0))
            }
            ([9, ..], _) => Err(Refusal::new(Fault::Local, "the keys cannot be read")),
            _ => Err(Refusal::new(Fault::Auth, "there is no such key")),
        }
    }

    fn is_delegated(&self, _: &Grant) -> bool {
        false
    }

    fn macaroon_key(&self) -> Result<[u8; 32], Refusal> {
        Ok([7; 32])
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }
}

/// Answers with the name of the principal.
#[derive(Clone)]
struct WhoAmI;

impl Service<http::Request<()>> for WhoAmI {
    type Response = http::Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<()>) -> Self::Future {
        let principal = request.extensions().get::<Arc<Principal>>().unwrap();
        let name = if principal.is_anonymous { "anonymous".to_owned() } else { principal.access.who() };
        ready(Ok(http::Response::new(name)))
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<String>, Infallible>> + Send>>;

fn respond_to(
    authorization: Option<impl TryInto<http::HeaderValue, Error: std::fmt::Debug>>,
    connection: Option<Connection>,
) -> http::Response<String> {
    let mut request = http::Request::builder().uri("https://hub.example:8446/api/v1/queue?x=1");
    if let Some(value) = authorization {
        request = request.header("Authorization", value.try_into().unwrap());
    }
    let mut request = request.body(()).unwrap();
    if let Some(connection) = connection {
        request.extensions_mut().insert(connection);
    }
    respond(request)
}

fn respond(request: http::Request<()>) -> http::Response<String> {
    let state = tempfile::tempdir().unwrap();
    let authenticator = Authenticator::new(Arc::new(Roles), Issuers::new(state.path(), None));
    let mut service = AuthenticateLayer::new(Arc::new(authenticator)).layer(WhoAmI);
    let answer: Answer = service.call(request);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer).unwrap()
}

fn connection() -> Option<Connection> {
    Some(Connection { peer: "192.0.2.1".parse().unwrap(), is_secure: true, certificate: None })
}

#[test]
fn a_key_names_its_principal() {
    let answer = respond_to(Some(format!("Bearer {}", key().expose_text())), connection());
    assert_eq!(answer.status(), 200);
    assert!(!answer.body().is_empty() && answer.body() != "anonymous", "{}", answer.body());
}

#[test]
fn without_a_credential_the_principal_is_anonymous() {
    let answer = respond_to(None::<String>, connection());
    assert_eq!((answer.status().as_u16(), answer.body().as_str()), (200, "anonymous"));
}

#[test]
fn an_invalid_credential_is_refused_with_a_challenge() {
    let stranger = AccessKey::new([5; 8], [6; 32], Fingerprint([3; 32])).expose_text().to_string();
    // A field that is not text still presents a credential.
    assert_eq!(respond_to(Some(&b"Bearer \xff"[..]), connection()).status(), 401);
    for (shown, status) in [(stranger.as_str(), 401), ("a.b.c", 401), ("lhk1_short", 401)] {
        let answer = respond_to(Some(format!("Bearer {shown}")), connection());
        assert_eq!(answer.status(), status, "{shown}: {}", answer.body());
        let challenges: Vec<_> = answer.headers().get_all("WWW-Authenticate").iter().collect();
        assert!(challenges[0].to_str().unwrap().starts_with("Bearer realm=\"longhaul\", error=\"invalid_token\""));
        assert_eq!(challenges.len(), 2, "and Basic");
    }
}

fn shown(client: CertificateCheck) -> Option<Connection> {
    connection().map(|connection| Connection { certificate: Some(Arc::new(client)), ..connection })
}

#[test]
fn an_invalid_certificate_is_refused_with_its_reason() {
    let rejected = || shown(CertificateCheck::Rejected("the proxy certificate of ann expired yesterday".into()));
    let answer = respond_to(None::<String>, rejected());
    let problem: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(
        (answer.status().as_u16(), &problem["reason"], &answer.headers()["content-type"]),
        (401, &"the proxy certificate of ann expired yesterday".into(), &"application/problem+json".parse().unwrap())
    );
    let answer = respond_to(Some(format!("Bearer {}", key().expose_text())), rejected());
    assert_eq!(answer.status(), 200, "another credential decides");
    // A certificate that was valid when the connection began, and has expired since.
    let over = Identity {
        name: "CN=ann".into(),
        grid_name: "/CN=ann".into(),
        proxies: 1,
        is_limited: false,
        expires: 1,
        attributes: Vec::new(),
        refused_attributes: Vec::new(),
    };
    let answer = respond_to(None::<String>, shown(CertificateCheck::Verified(over.clone())));
    assert!(answer.status() == 401 && answer.body().contains("has expired meanwhile"), "{}", answer.body());
    let good = CertificateCheck::Verified(Identity { expires: i64::MAX, ..over });
    assert_eq!(respond_to(None::<String>, shown(good)).status(), 403, "no rule of this service is for it");
}

#[test]
fn a_page_of_another_site_cannot_use_a_browsers_certificate() {
    let identity = Identity {
        name: "CN=ann".into(),
        grid_name: "/CN=ann".into(),
        proxies: 0,
        is_limited: false,
        expires: i64::MAX,
        attributes: Vec::new(),
        refused_attributes: Vec::new(),
    };
    let status = |method: &str, origin: &str| {
        let request = http::Request::builder().method(method).uri("/x").header("Host", "hub.example:8446");
        let mut request = request.header("Origin", origin).body(()).unwrap();
        request.extensions_mut().insert(shown(CertificateCheck::Verified(identity.clone())).unwrap());
        let answer = respond(request);
        (answer.status().as_u16(), answer.body().contains("of another site"))
    };
    assert_eq!(status("POST", "https://evil.example"), (403, true));
    assert_eq!(status("POST", "null"), (403, true));
    assert_eq!(status("POST", "https://hub.example:8446"), (403, false));
    assert_eq!(status("GET", "https://evil.example"), (403, false), "reads are not refused for their origin");
}

#[test]
fn a_failure_of_the_service_to_check_a_credential_is_answered_500() {
    let unreadable = AccessKey::new([9; 8], [2; 32], Fingerprint([3; 32])).expose_text().to_string();
    assert_eq!(respond_to(Some(format!("Bearer {unreadable}")), connection()).status(), 500);
    let answer = respond_to(None::<String>, None);
    assert_eq!(answer.status(), 500);
    assert!(answer.body().contains("did not describe the connection"), "{}", answer.body());
}

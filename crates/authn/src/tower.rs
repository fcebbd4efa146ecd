//! Authentication as a layer of tower: an inner service gets requests with their [`Principal`] among the extensions, and never a
//! refused request.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use auth::x509::CertificateCheck;
use model::v1::hub::Role;
use tower_layer::Layer;
use tower_service::Service;
use web::head::HeadError;
use web::{Refused, Request, target};

use crate::{AuthRequest, Authenticator, Principal};

/// The connection of a request. The listener inserts it into the extensions of each request.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The address of the client.
    pub peer: IpAddr,
    /// It uses TLS.
    pub is_secure: bool,
    /// The result of verifying the client's certificates, where it presented any.
    pub certificate: Option<Arc<CertificateCheck>>,
}

/// The sender of a request, for a part of a hub. The hub inserts it into the extensions of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The address of the client.
    pub peer: IpAddr,
    /// The principal's name and rights; `None` for an anonymous client.
    pub principal: Option<(String, Role)>,
}

/// Authenticates the requests of the services that it wraps.
#[derive(Clone)]
pub struct AuthenticateLayer(Arc<Authenticator>);

impl AuthenticateLayer {
    /// Authenticates with this authenticator.
    pub fn new(authenticator: Arc<Authenticator>) -> AuthenticateLayer {
        AuthenticateLayer(authenticator)
    }
}

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Authenticate<S>;

    fn layer(&self, inner: S) -> Authenticate<S> {
        Authenticate { authenticator: Arc::clone(&self.0), inner }
    }
}

/// A service behind an [`AuthenticateLayer`].
#[derive(Clone)]
pub struct Authenticate<S> {
    authenticator: Arc<Authenticator>,
    inner: S,
}

impl<S, B, R> Service<http::Request<B>> for Authenticate<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: From<String> + Send + 'static,
{
    type Response = http::Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        // The service that was ready answers; its clone is made ready for the next request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let authenticator = Arc::clone(&self.authenticator);
        let connection = request.extensions().get::<Connection>().cloned();
        let (parts, body) = request.into_parts();
        let head = web::parts::request(&parts);
        let mut request = http::Request::from_parts(parts, body);
        Box::pin(async move {
            // Authentication may fetch the keys of an issuer, or delay a client that guesses: neither may block a thread of the runtime.
            let result = tokio::task::spawn_blocking(move || authenticate(&authenticator, connection, head)).await;
            let panicked = |_| {
                Err(Box::new(Refused::new(500, "authentication failed unexpectedly; please report it with the log")))
            };
            match result.unwrap_or_else(panicked) {
                Ok(principal) => {
                    request.extensions_mut().insert(Arc::new(principal));
                    inner.call(request).await
                }
                Err(refused) => Ok(answer(*refused)),
            }
        })
    }
}

fn authenticate(
    authenticator: &Authenticator,
    connection: Option<Connection>,
    head: Result<Request, HeadError>,
) -> Result<Principal, Box<Refused>> {
    let unknown = || Refused::new(500, "the listener did not describe the connection of this request");
    let Connection { peer, is_secure, certificate } = connection.ok_or_else(unknown)?;
    let head = head.map_err(|error| Refused::new(error.status(), error.to_string()))?;
    // The paths of an API are not files: only the query of a target may hold a credential.
    let query = head.target.split_once('?').map_or("", |(_, query)| query);
    let target =
        target::parse(&format!("/?{query}")).map_err(|error| Refused::new(error.status(), error.to_string()))?;
    let certificate = certificate.as_ref();
    let (request, target) = (&head, &target);
    authenticator.authenticate(&AuthRequest { request, target, peer, is_secure, certificate, reads_public_data: false })
}

fn answer<R: From<String>>(refused: Refused) -> http::Response<R> {
    let problem = serde_json::to_string(&refused.problem()).unwrap_or_default();
    let mut response = http::Response::new(R::from(problem + "\n"));
    *response.status_mut() = http::StatusCode::from_u16(refused.status).unwrap_or(http::StatusCode::FORBIDDEN);
    let fields = refused.headers.iter().filter_map(|(name, value)| {
        Some((http::HeaderName::try_from(name).ok()?, http::HeaderValue::try_from(value).ok()?))
    });
    for (name, value) in fields {
        response.headers_mut().append(name, value);
    }
    let media = http::HeaderValue::from_static(web::routes::PROBLEM);
    response.headers_mut().insert(http::header::CONTENT_TYPE, media);
    response
}

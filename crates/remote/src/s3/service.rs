//! Our HTTP client, in place of the one of `object_store`.
//!
//! Does not know: S3. Requests come signed and are sent unchanged.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use model::Fault;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use web::{Headers, HttpUrl, Method};

use super::listing;
use crate::failed::Failed;
use crate::server::{ClientRequest, SETTLE, Server};

/// The most bytes of a response: a chunk of a file, or a page of a listing.
const ANSWER_BYTES: usize = 64 << 20;

#[derive(Clone, Debug)]
pub(super) struct Connector(pub Arc<Server>);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn error(failed: Failed) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, failed)
}

/// Adds the remedy to a refusal of a key whose session has ended.
fn turned_away(failed: Failed, body: &[u8]) -> Failed {
    let said = String::from_utf8_lossy(body);
    if !["<Code>ExpiredToken", "<Code>TokenRefreshRequired"].iter().any(|code| said.contains(code)) {
        return failed;
    }
    let why = format!(
        "{} (the key's session has ended: renew it where it is kept; keys in files are read anew, variables are not)",
        failed.why
    );
    Failed { fault: Fault::Auth, general: true, why, ..failed }
}

impl Connector {
    fn send(&self, request: HttpRequest) -> Result<HttpResponse, Failed> {
        let (parts, body) = request.into_parts();
        let url = HttpUrl::parse(&parts.uri.to_string()).map_err(|e| Failed::peer(e.to_string()))?;
        let mut headers = Headers::new();
        for (name, value) in &parts.headers {
            // The client adds these two itself.
            if !["host", "content-length"].contains(&name.as_str()) {
                let value = value.to_str().map_err(|e| Failed::peer(e.to_string()))?;
                headers.add(name.as_str(), value);
            }
        }
        let body = whole(body);
        let method = Method::parse(parts.method.as_str());
        let plain = ClientRequest::plain(&method, &url, &headers);
        let asked = ClientRequest { body: &body, most: ANSWER_BYTES, follow: false, within: SETTLE, ..plain };
        let whole = self.0.whole(&asked)?;
        // The library tells these two apart by itself; of all others it makes a sentence with the server's XML in it.
        if whole.response.status >= 400 && !matches!(whole.response.status, 404 | 412) {
            return Err(turned_away(whole.refusal(&url), &whole.body));
        }
        let mut response = http::Response::builder().status(whole.response.status);
        for (name, value) in whole.response.headers.iter() {
            response = response.header(name, value);
        }
        let is_listing = method == Method::Get && url.query().is_some_and(|query| query.contains("list-type=2"));
        let sifted = if is_listing { listing::sifted(&whole.body) } else { None };
        let body = match sifted {
            Some((page, nameless)) => {
                response = response.extension(nameless);
                page
            }
            None => whole.body,
        };
        response
            .body(HttpResponseBody::from(Bytes::from(body)))
            .map_err(|e| Failed::peer(format!("{} answers with a malformed head: {e}", url.authority())))
    }
}

/// A request's body in one piece: we put it together from one.
fn whole(body: object_store::client::HttpRequestBody) -> Bytes {
    if let Some(bytes) = body.as_bytes() {
        return bytes.clone();
    }
    let mut body = pin!(body);
    let mut pieces = Vec::new();
    let waker = Waker::noop();
    while let Poll::Ready(Some(Ok(frame))) = http_body::Body::poll_frame(body.as_mut(), &mut Context::from_waker(waker))
    {
        pieces.extend(frame.into_data());
    }
    match <[Bytes; 1]>::try_from(pieces) {
        Ok([one]) => one,
        Err(pieces) => pieces.concat().into(),
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.send(request).map_err(error)
    }
}

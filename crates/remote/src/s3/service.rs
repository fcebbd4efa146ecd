//! Longhaul's HTTP client, in place of the one of `object_store`.
//!
//! Does not know S3: requests are signed already and are sent unchanged.

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
use crate::request_error::RequestError;
use crate::server::{CHANGE_ANSWER_MAX, ClientRequest, Server};

/// The most bytes of a response: a chunk of a file, or a page of a listing.
const ANSWER_BYTES: usize = 64 << 20;

#[derive(Clone, Debug)]
pub(super) struct Connector(pub Arc<Server>);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn error(failed: RequestError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, failed)
}

/// Adds the remedy to a refusal of a key whose session has ended.
fn with_expiry_remedy(failed: RequestError, body: &[u8]) -> RequestError {
    let text = String::from_utf8_lossy(body);
    if !["<Code>ExpiredToken", "<Code>TokenRefreshRequired"].iter().any(|code| text.contains(code)) {
        return failed;
    }
    let why = format!(
        "{} (the key's session has ended: renew it where it is kept; keys in files are read anew, variables are not)",
        failed.why
    );
    RequestError { fault: Fault::Auth, affects_all_files: true, why, ..failed }
}

impl Connector {
    fn send(&self, request: HttpRequest) -> Result<HttpResponse, RequestError> {
        let (parts, body) = request.into_parts();
        let url = HttpUrl::parse(&parts.uri.to_string()).map_err(|e| RequestError::protocol_error(e.to_string()))?;
        let mut headers = Headers::new();
        for (name, value) in &parts.headers {
            // The client adds these two itself.
            if !["host", "content-length"].contains(&name.as_str()) {
                let value = value.to_str().map_err(|e| RequestError::protocol_error(e.to_string()))?;
                headers.add(name.as_str(), value);
            }
        }
        let body = whole(body);
        let method = Method::parse(parts.method.as_str());
        let plain = ClientRequest::plain(&method, &url, &headers);
        let request =
            ClientRequest { body: &body, most: ANSWER_BYTES, follow: false, within: CHANGE_ANSWER_MAX, ..plain };
        let whole = self.0.buffered(&request)?;
        // The library has errors of its own for these two; for all others it quotes the server's XML.
        if whole.response.status >= 400 && !matches!(whole.response.status, 404 | 412) {
            return Err(with_expiry_remedy(whole.refusal(&url), &whole.body));
        }
        let mut response = http::Response::builder().status(whole.response.status);
        for (name, value) in whole.response.headers.iter() {
            response = response.header(name, value);
        }
        let is_listing = method == Method::Get && url.query().is_some_and(|query| query.contains("list-type=2"));
        let cleaned = if is_listing { listing::without_pathless(&whole.body) } else { None };
        let body = match cleaned {
            Some((page, pathless)) => {
                response = response.extension(pathless);
                page
            }
            None => whole.body,
        };
        response.body(HttpResponseBody::from(Bytes::from(body))).map_err(|e| {
            RequestError::protocol_error(format!("{} answers with a malformed head: {e}", url.authority()))
        })
    }
}

/// The body of a request as one buffer. Requests of this crate are made with one buffer.
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

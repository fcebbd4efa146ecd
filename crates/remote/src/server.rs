//! HTTP requests to servers. Connections are kept and used again; redirects are followed without sending the credential to other
//! servers; a refused token is read again; requests that fail for a passing reason are tried again.
//!
//! Does not know: what a request is for. All requests of this crate are made here.

mod redirects;
mod upload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::fault::Fault;
use parking_lot::{Mutex, MutexGuard};
use store::PayloadProtection;
use web::client::ClientError;
use web::target::pairs;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

use crate::pauses;
use crate::request_error::{RequestError, may_pass};
use crate::retries::{Retries, retry_after};

use redirects::RedirectChain;
pub use redirects::Redirects;
pub(crate) use upload::Upload;

/// Returns the current bearer token, if there is one. Called for every request, since other programs renew tokens.
pub type TokenSource = dyn Fn() -> Result<Option<String>, String> + Send + Sync;

/// Settings for requests to servers.
#[derive(Clone)]
pub struct ServerSettings {
    /// Makes connections, and holds the authorities that are trusted.
    pub dialer: Dialer,
    /// The credential of this client.
    pub token: Arc<TokenSource>,
    /// Addresses to which redirects are followed.
    pub redirects: Redirects,
    /// The time for which one request is tried again.
    pub patience: Duration,
}

/// Idle connections kept, to all servers together.
const IDLE_MAX: usize = 64;
/// The most bytes that are read of the body of a refusal.
const REFUSAL_BYTES: usize = 64 << 10;
/// The longest time that a server may take to answer a request without a body.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The longest time that a server may take to answer an upload, a change or a request for a digest: some servers write a file a
/// second time, or read all of it back.
pub(crate) const CHANGE_ANSWER_MAX: Duration = Duration::from_secs(600);

/// A client of servers, with its idle connections.
pub(crate) struct Server {
    settings: ServerSettings,
    idle: Mutex<Vec<(String, Client)>>,
    /// Whether files were carried by TLS (index 0), and in clear (index 1).
    carried: [AtomicBool; 2],
    /// A server has answered. From then on a server that cannot be reached counts as down, not as mistyped.
    was_reached: AtomicBool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("idle", &self.idle().len()).finish_non_exhaustive()
    }
}

/// A request, with its body in memory.
#[derive(Clone, Copy)]
pub(crate) struct ClientRequest<'a> {
    pub method: &'a Method,
    pub url: &'a HttpUrl,
    pub headers: &'a Headers,
    pub body: &'a [u8],
    /// The most bytes of the body of a response.
    pub most: usize,
    /// Whether redirects are followed. A signed request cannot follow them: its signature covers its address.
    pub follow: bool,
    /// The longest time that the response may take.
    pub within: Duration,
}

impl<'a> ClientRequest<'a> {
    /// A request without a body, with a short response.
    pub fn plain(method: &'a Method, url: &'a HttpUrl, headers: &'a Headers) -> ClientRequest<'a> {
        let takes_long = method.changes() || headers.get("want-digest").is_some();
        let within = if takes_long { CHANGE_ANSWER_MAX } else { ANSWER_MAX };
        ClientRequest { method, url, headers, body: b"", most: REFUSAL_BYTES, follow: true, within }
    }
}

/// A response with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct BufferedResponse {
    pub response: Response,
    /// The address that answered, after redirects.
    pub url: HttpUrl,
    pub body: Vec<u8>,
    /// The request was tried before: an earlier try may have had its effect.
    pub repeated: bool,
}

/// A response whose body is still to be read.
pub(crate) struct StreamingResponse {
    pub client: Client,
    pub response: Response,
    pub body: Body,
    pub url: HttpUrl,
}

impl StreamingResponse {
    /// The failure that this response reports, with the server's explanation.
    pub fn refusal(mut self) -> RequestError {
        let body = self.client.read_all(&mut self.body, REFUSAL_BYTES).unwrap_or_default();
        refused(&self.url, &self.response, &body)
    }
}

/// The failure that a response reports. A `Retry-After` in it holds for all requests of this process to that server.
fn refused(url: &HttpUrl, response: &Response, body: &[u8]) -> RequestError {
    let failed = RequestError::refusal(url.authority(), response.status, body);
    match retry_after(response.headers.get("retry-after")).filter(|_| failed.may_retry) {
        Some(pause) => {
            pauses::record(&origin(url), pause);
            let why = format!("{}; it asks for a pause of {} s", failed.why, pause.as_secs());
            RequestError { pause: Some(pause), why, ..failed }
        }
        None => failed,
    }
}

fn origin(url: &HttpUrl) -> String {
    format!("{}://{}:{}", if url.is_secure() { "https" } else { "http" }, url.host(), url.port())
}

fn is_persistent(response: &Response) -> bool {
    response.minor >= 1 && !response.headers.lists("connection", "close")
}

impl Server {
    pub fn new(settings: ServerSettings) -> Server {
        Server { settings, idle: Mutex::default(), carried: Default::default(), was_reached: AtomicBool::new(false) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(String, Client)>> {
        self.idle.lock()
    }

    /// Opens a connection to the next server of a chain, unless that server has asked for a pause.
    fn dial(&self, redirects: &RedirectChain) -> Result<Client, RequestError> {
        self.check_pause(&redirects.url)?;
        Ok(Client::new(&redirects.dialer(&self.settings.dialer, self.settings.redirects), &redirects.url)?)
    }

    /// Fails while a server's pause (`Retry-After`) lasts.
    fn check_pause(&self, url: &HttpUrl) -> Result<(), RequestError> {
        match pauses::remaining(&origin(url)) {
            None => Ok(()),
            Some(left) => {
                let seconds = left.as_secs_f64().ceil();
                let why = format!("{} asks for a pause of another {seconds} s", url.authority());
                Err(RequestError { status: Some(429), pause: Some(left), ..RequestError::connection_error(why) })
            }
        }
    }

    /// A connection, and whether it has been used before.
    fn connection(&self, redirects: &RedirectChain) -> Result<(Client, bool), RequestError> {
        self.check_pause(&redirects.url)?;
        let name = origin(&redirects.url);
        loop {
            let kept = {
                let mut idle = self.idle();
                idle.iter().rposition(|(known, _)| *known == name).map(|at| idle.remove(at).1)
            };
            match kept {
                // A connection that is closed, or has bytes that belong to no request, cannot be used.
                Some(client) if client.conn().is_closed_by_peer() || client.conn().has_unread() => {}
                Some(client) => return Ok((client, true)),
                None => return Ok((self.dial(redirects)?, false)),
            }
        }
    }

    /// Keeps a connection whose last response has been read to its end.
    pub fn keep(&self, url: &HttpUrl, response: &Response, client: Client) {
        if is_persistent(response) {
            let mut idle = self.idle();
            if idle.len() >= IDLE_MAX {
                idle.remove(0);
            }
            idle.push((origin(url), client));
        }
    }

    /// The token for an address. None in clear text, and none where the address itself holds a credential.
    ///
    /// # Errors
    /// The source of tokens fails.
    pub fn token(&self, url: &HttpUrl) -> Result<Option<String>, RequestError> {
        let is_credential = |name: &str| ["authz", "access_token"].iter().any(|known| name.eq_ignore_ascii_case(known));
        let in_query = url.query().is_some_and(|query| pairs(query).any(|(name, _)| is_credential(&name)));
        let has_credential = url.is_presigned() || in_query;
        if !url.is_secure() || has_credential {
            return Ok(None);
        }
        let wrong =
            |why| RequestError { fault: Fault::Config, affects_all_files: true, ..RequestError::protocol_error(why) };
        (self.settings.token)().map_err(wrong)
    }

    /// Sends a request, and sends it once more where a kept connection turns out to be dead. A request that changes something
    /// gets a new connection, because it would be unknown whether a dead one has delivered it.
    fn send(
        &self,
        request: &ClientRequest<'_>,
        redirects: &RedirectChain,
        token: Option<&str>,
    ) -> Result<StreamingResponse, RequestError> {
        let headers = match token {
            Some(token) => redirects.headers.clone().with("Authorization", format!("Bearer {token}")),
            None => redirects.headers.clone(),
        };
        loop {
            let (mut client, used) =
                if request.method.changes() { (self.dial(redirects)?, false) } else { self.connection(redirects)? };
            let mut exchange = || -> Result<(Response, Body), ClientError> {
                client.send(request.method, redirects.url.path_and_query(), &headers)?;
                if !request.body.is_empty() {
                    client.write(request.body)?;
                }
                client.final_response_within(request.method, request.within)
            };
            match exchange() {
                Ok((response, body)) => {
                    self.was_reached.store(true, Ordering::Relaxed);
                    if matches!(request.method, Method::Get | Method::Put) && (200..300).contains(&response.status) {
                        self.note_transport(&client);
                    }
                    return Ok(StreamingResponse { client, response, body, url: redirects.url.clone() });
                }
                Err(ClientError::Broken { source, .. }) if used && source.kind() != std::io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Notes whether this connection, which carries a file, uses TLS.
    fn note_transport(&self, client: &Client) {
        self.carried[usize::from(client.conn().tls().is_none())].store(true, Ordering::Relaxed);
    }

    /// Whether files were carried by TLS or, at least one of them, in clear.
    pub fn payload_protection(&self) -> Option<PayloadProtection> {
        let [tls, plain] = [0, 1].map(|kind| self.carried[kind].load(Ordering::Relaxed));
        plain.then_some(PayloadProtection::Plain).or(tls.then_some(PayloadProtection::Tls))
    }

    /// Sends a request once and follows redirects. The body of the response is unread.
    ///
    /// # Errors
    /// There is no response, a redirect may not be followed, or the server's pause lasts.
    pub fn streaming_once(&self, request: &ClientRequest<'_>) -> Result<StreamingResponse, RequestError> {
        let mut headers = request.headers.clone();
        let takes_body = matches!(request.method.name(), "PUT" | "POST" | "PROPFIND");
        if takes_body && headers.get("content-length").is_none() {
            headers.add("Content-Length", request.body.len().to_string());
        }
        let mut redirects = RedirectChain::new(request.url, headers);
        loop {
            let may_send_token = redirects.is_first_server && redirects.headers.get("authorization").is_none();
            let token = if may_send_token { self.token(&redirects.url)? } else { None };
            let mut streaming = self.send(request, &redirects, token.as_deref())?;
            if streaming.response.status == 401 && token.is_some() {
                let renewed = self.token(&redirects.url)?.filter(|renewed| Some(renewed) != token.as_ref());
                if renewed.is_some() {
                    streaming = self.send(request, &redirects, renewed.as_deref())?;
                }
            }
            if !request.follow || !redirects.advance(&streaming.response, streaming.client.conn().peer())? {
                return Ok(streaming);
            }
        }
    }

    /// Sends a request and tries again while it fails for a passing reason. The body of the response is unread.
    ///
    /// # Errors
    /// As [`Server::streaming_once`], and responses that may pass but did not.
    pub fn streaming(&self, request: &ClientRequest<'_>) -> Result<StreamingResponse, RequestError> {
        let mut retries = Retries::new(self.settings.patience);
        loop {
            let failed = match self.streaming_once(request) {
                Ok(streaming) if may_pass(streaming.response.status) => streaming.refusal(),
                Ok(streaming) => return Ok(streaming),
                Err(failed) => failed,
            };
            self.wait(&mut retries, failed)?;
        }
    }

    /// Waits before the next try. A server that has never been reached may be a mistyped name: that fails at once.
    fn wait(&self, retries: &mut Retries, failed: RequestError) -> Result<(), RequestError> {
        if failed.status.is_none() && !self.was_reached.load(Ordering::Relaxed) {
            return Err(failed);
        }
        retries.wait(failed)
    }

    /// Sends a request and reads the whole body of the response. A response that breaks off is requested again.
    ///
    /// # Errors
    /// As [`Server::streaming`]; or the body is longer than the request permits.
    pub fn buffered(&self, request: &ClientRequest<'_>) -> Result<BufferedResponse, RequestError> {
        let mut retries = Retries::new(self.settings.patience);
        loop {
            match self.buffered_once(request) {
                Ok(whole) => return Ok(BufferedResponse { repeated: retries.is_repeated(), ..whole }),
                Err(failed) => self.wait(&mut retries, failed)?,
            }
        }
    }

    fn buffered_once(&self, request: &ClientRequest<'_>) -> Result<BufferedResponse, RequestError> {
        let mut streaming = self.streaming_once(request)?;
        if may_pass(streaming.response.status) {
            return Err(streaming.refusal());
        }
        let most = if streaming.response.status < 300 { request.most } else { REFUSAL_BYTES.max(request.most) };
        let body = match streaming.client.read_all(&mut streaming.body, most) {
            Ok(body) => body,
            Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::FileTooLarge => {
                let why = format!("{} sends more than the {most} bytes that were expected", streaming.url.authority());
                return Err(RequestError::protocol_error(why));
            }
            Err(error) => return Err(error.into()),
        };
        if !streaming.body.ends_with_connection() {
            self.keep(&streaming.url, &streaming.response, streaming.client);
        }
        Ok(BufferedResponse { response: streaming.response, url: streaming.url, body, repeated: false })
    }

    /// Sends a request without a body.
    ///
    /// # Errors
    /// As [`Server::buffered`], and every response whose status is not 2xx.
    pub fn ask(&self, method: &Method, url: &HttpUrl, headers: &Headers) -> Result<BufferedResponse, RequestError> {
        let whole = self.buffered(&ClientRequest::plain(method, url, headers))?;
        // An earlier try has removed the file, and its response was lost.
        let done = *method == Method::Delete && whole.repeated && matches!(whole.response.status, 404 | 410);
        if done || (200..300).contains(&whole.response.status) { Ok(whole) } else { Err(whole.refusal(url)) }
    }
}

impl BufferedResponse {
    /// The failure that this response reports.
    pub fn refusal(&self, url: &HttpUrl) -> RequestError {
        refused(url, &self.response, &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_computes_a_digest_gets_time_to_read_the_file() {
        let url = HttpUrl::parse("http://h/f").unwrap();
        let within = |method, headers: &Headers| ClientRequest::plain(&method, &url, headers).within;
        let wants = Headers::new().with("Want-Digest", "adler32");
        assert_eq!(within(Method::Head, &wants), CHANGE_ANSWER_MAX);
        assert_eq!(
            (within(Method::Head, &Headers::new()), within(Method::Delete, &Headers::new())),
            (ANSWER_MAX, CHANGE_ANSWER_MAX)
        );
    }
}

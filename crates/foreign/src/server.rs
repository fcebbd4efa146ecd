//! Asking a server: connections kept and used again, redirects followed without showing our credentials to others, a token read
//! anew when it is refused, tries again for what passes.
//!
//! Does not know: what is asked for. Whatever the verb, a request and its answer go through here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::fault::Fault;
use web::client::{ClientError, REDIRECTS_MAX, for_others, redirect};
use web::target::pairs;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

use crate::failed::{Failed, may_pass};
use crate::patience::{Patience, retry_after};

/// Finds the bearer token to show now, where there is one. Asked for every request: tokens are renewed behind our back.
pub type TokenSource = dyn Fn() -> Result<Option<String>, String> + Send + Sync;

/// How servers are spoken to.
#[derive(Clone)]
pub struct Means {
    /// How connections are made, and whom to trust.
    pub dialer: Dialer,
    /// Who we are.
    pub token: Arc<TokenSource>,
    /// How long one request is tried again.
    pub patience: Duration,
}

/// Idle connections kept, to all servers together.
const IDLE_MAX: usize = 64;
/// Bytes of a refusal that are read for its words.
const REFUSAL_BYTES: usize = 64 << 10;
/// How long a server may take to answer a question.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
/// How long the server may work on what it has been sent in full, or on a change that it was asked for: some write it down a second time, or read all of it back.
pub(crate) const SETTLE: Duration = Duration::from_secs(600);

/// Servers, and the connections to them.
pub(crate) struct Server {
    means: Means,
    idle: Mutex<Vec<(String, Client)>>,
    /// Somebody has answered: whoever cannot be reached from here on is away for a while, and not mistyped.
    met: AtomicBool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("idle", &self.idle().len()).finish_non_exhaustive()
    }
}

/// A request whose answer fits into memory.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub method: &'a Method,
    pub url: &'a HttpUrl,
    pub headers: &'a Headers,
    pub body: &'a [u8],
    /// The most bytes of an answer.
    pub most: usize,
    /// Who signs a request has signed its address as well.
    pub follow: bool,
    /// How long an answer may take.
    pub within: Duration,
}

impl<'a> Asked<'a> {
    /// A question without a body, with an answer of a few words.
    pub fn plain(method: &'a Method, url: &'a HttpUrl, headers: &'a Headers) -> Asked<'a> {
        let within = if method.changes() { SETTLE } else { SILENCE };
        Asked { method, url, headers, body: b"", most: REFUSAL_BYTES, follow: true, within }
    }
}

/// An answer with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub response: Response,
    pub body: Vec<u8>,
    /// An earlier try may have done already what was asked for.
    pub repeated: bool,
}

/// An answer whose body is still to be read.
pub(crate) struct Begun {
    pub client: Client,
    pub response: Response,
    pub body: Body,
    pub url: HttpUrl,
}

impl Begun {
    /// The refusal that it is, with the server's own words.
    pub fn refusal(mut self) -> Failed {
        let said = self.client.read_all(&mut self.body, REFUSAL_BYTES).unwrap_or_default();
        refused(&self.url, &self.response, &said)
    }
}

/// A refusal, with how long to wait where the server says so.
fn refused(url: &HttpUrl, response: &Response, body: &[u8]) -> Failed {
    let pause = retry_after(response.headers.get("retry-after"));
    Failed { pause, ..Failed::status(url.authority(), response.status, body) }
}

fn origin(url: &HttpUrl) -> String {
    format!("{}://{}:{}", if url.is_secure() { "https" } else { "http" }, url.host(), url.port())
}

fn keeps(response: &Response) -> bool {
    response.minor >= 1 && !response.headers.lists("connection", "close")
}

impl Server {
    pub fn new(means: Means) -> Server {
        Server { means, idle: Mutex::default(), met: AtomicBool::new(false) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(String, Client)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection, and whether it has been used before.
    fn connection(&self, url: &HttpUrl) -> Result<(Client, bool), Failed> {
        let name = origin(url);
        loop {
            let kept = {
                let mut idle = self.idle();
                idle.iter().rposition(|(known, _)| *known == name).map(|at| idle.remove(at).1)
            };
            match kept {
                // What says something unasked, or has hung up, is of no use.
                Some(client) if client.conn().is_gone() || client.conn().has_unread() => {}
                Some(client) => return Ok((client, true)),
                None => return Ok((Client::new(&self.means.dialer, url)?, false)),
            }
        }
    }

    /// Keeps a connection whose last answer has been read to its end.
    pub fn keep(&self, url: &HttpUrl, response: &Response, client: Client) {
        if keeps(response) {
            let mut idle = self.idle();
            if idle.len() >= IDLE_MAX {
                idle.remove(0);
            }
            idle.push((origin(url), client));
        }
    }

    /// What says who we are. Only where nobody else can read it, and where the address does not say it already.
    pub fn token(&self, url: &HttpUrl) -> Result<Option<String>, Failed> {
        let says_who = |name: &str| ["authz", "access_token"].iter().any(|known| name.eq_ignore_ascii_case(known));
        let said = url.is_presigned() || url.query().is_some_and(|query| pairs(query).any(|(name, _)| says_who(&name)));
        if !url.is_secure() || said {
            return Ok(None);
        }
        let wrong = |why| Failed { fault: Fault::Config, general: true, ..Failed::peer(why) };
        (self.means.token)().map_err(wrong)
    }

    /// Sends a head and what goes with it; sends it once more where a kept connection turns out to be dead. What changes
    /// something goes over a fresh connection: nobody can tell whether a dead one has delivered it.
    fn send(&self, asked: &Asked<'_>, url: &HttpUrl, headers: &Headers) -> Result<Begun, Failed> {
        loop {
            let (mut client, used) = match asked.method.changes() {
                true => (Client::new(&self.means.dialer, url)?, false),
                false => self.connection(url)?,
            };
            let mut told = || -> Result<(Response, Body), ClientError> {
                client.send(asked.method, url.path_and_query(), headers)?;
                if !asked.body.is_empty() {
                    client.write(asked.body)?;
                }
                client.answer_within(asked.method, asked.within)
            };
            match told() {
                Ok((response, body)) => {
                    self.met.store(true, Ordering::Relaxed);
                    return Ok(Begun { client, response, body, url: url.clone() });
                }
                Err(ClientError::Broken { source, .. }) if used && source.kind() != std::io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The answer to a request, after redirects; its body unread. One try.
    pub fn once(&self, asked: &Asked<'_>) -> Result<Begun, Failed> {
        let (mut url, mut headers) = (asked.url.clone(), asked.headers.clone());
        let takes_body = matches!(asked.method.name(), "PUT" | "POST" | "PROPFIND");
        if takes_body && headers.get("content-length").is_none() {
            headers.add("Content-Length", asked.body.len().to_string());
        }
        let mut own = true;
        for _ in 0..=REDIRECTS_MAX {
            let token = if own && headers.get("authorization").is_none() { self.token(&url)? } else { None };
            let mut begun = self.authorised(asked, &url, &headers, token.as_deref())?;
            if begun.response.status == 401 && token.is_some() {
                let renewed = self.token(&url)?.filter(|renewed| Some(renewed) != token.as_ref());
                if renewed.is_some() {
                    begun = self.authorised(asked, &url, &headers, renewed.as_deref())?;
                }
            }
            let Some(to) = redirect(&begun.response, &url).filter(|_| asked.follow) else { return Ok(begun) };
            own &= may_go(&url, &to)?;
            if !own {
                headers = for_others(&headers);
            }
            url = to;
        }
        Err(Failed::peer(format!("{} was the last of more than {REDIRECTS_MAX} redirects", url.authority())))
    }

    fn authorised(
        &self,
        asked: &Asked<'_>,
        url: &HttpUrl,
        headers: &Headers,
        token: Option<&str>,
    ) -> Result<Begun, Failed> {
        match token {
            Some(token) => self.send(asked, url, &headers.clone().with("Authorization", format!("Bearer {token}"))),
            None => self.send(asked, url, headers),
        }
    }

    /// The answer to a request; its body unread. Answers that pass are waited out.
    pub fn begin(&self, asked: &Asked<'_>) -> Result<Begun, Failed> {
        let mut patience = Patience::new(self.means.patience);
        loop {
            let failed = match self.once(asked) {
                Ok(begun) if may_pass(begun.response.status) => begun.refusal(),
                Ok(begun) => return Ok(begun),
                Err(failed) => failed,
            };
            self.wait(&mut patience, failed)?;
        }
    }

    /// Waits before the next try. Nobody is helped by waiting for a mistyped name.
    fn wait(&self, patience: &mut Patience, failed: Failed) -> Result<(), Failed> {
        if failed.status.is_none() && !self.met.load(Ordering::Relaxed) {
            return Err(failed);
        }
        patience.wait(failed)
    }

    /// The answer to a request with all of its body. What breaks off is asked for again.
    pub fn whole(&self, asked: &Asked<'_>) -> Result<Whole, Failed> {
        let mut patience = Patience::new(self.means.patience);
        loop {
            match self.whole_once(asked) {
                Ok(whole) => return Ok(Whole { repeated: patience.is_repeated(), ..whole }),
                Err(failed) => self.wait(&mut patience, failed)?,
            }
        }
    }

    fn whole_once(&self, asked: &Asked<'_>) -> Result<Whole, Failed> {
        let mut begun = self.once(asked)?;
        if may_pass(begun.response.status) {
            return Err(begun.refusal());
        }
        let most = if begun.response.status < 300 { asked.most } else { REFUSAL_BYTES.max(asked.most) };
        let body = match begun.client.read_all(&mut begun.body, most) {
            Ok(body) => body,
            Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::FileTooLarge => {
                let why = format!("{} sends more than the {most} bytes that were due", begun.url.authority());
                return Err(Failed::peer(why));
            }
            Err(error) => return Err(error.into()),
        };
        if !begun.body.ends_with_line() {
            self.keep(&begun.url, &begun.response, begun.client);
        }
        Ok(Whole { response: begun.response, body, repeated: false })
    }

    /// The answer to a request without a body, where it is one of success; the refusal that it is otherwise.
    pub fn ask(&self, method: &Method, url: &HttpUrl, headers: &Headers) -> Result<Whole, Failed> {
        let whole = self.whole(&Asked::plain(method, url, headers))?;
        // What was asked for has been done already, and the answer was lost.
        let done = *method == Method::Delete && whole.repeated && matches!(whole.response.status, 404 | 410);
        if done || (200..300).contains(&whole.response.status) { Ok(whole) } else { Err(whole.refusal(url)) }
    }

    /// Begins to send a file, whose bytes come later. The body goes to whoever says that he takes it: servers that know names
    /// send on to those that keep bytes.
    pub fn put(self: &Arc<Server>, url: &HttpUrl, headers: &Headers, size: Option<u64>) -> Result<Upload, Failed> {
        let mut patience = Patience::new(self.means.patience);
        let mut expects = true;
        loop {
            match self.put_once(url, headers, size, expects) {
                Err(failed) if failed.is(&[417]) && expects => expects = false,
                Err(failed) => self.wait(&mut patience, failed)?,
                Ok(upload) => return Ok(upload),
            }
        }
    }

    fn put_once(
        self: &Arc<Server>,
        url: &HttpUrl,
        headers: &Headers,
        size: Option<u64>,
        expects: bool,
    ) -> Result<Upload, Failed> {
        let mut headers = match size {
            Some(size) => headers.clone().with("Content-Length", size.to_string()),
            None => headers.clone().with("Transfer-Encoding", "chunked"),
        };
        let expects = expects && size != Some(0);
        if expects {
            headers.add("Expect", "100-continue");
        }
        let (mut url, mut own, mut stale) = (url.clone(), true, None);
        let mut redirects = 0;
        while redirects <= REDIRECTS_MAX {
            let token = if own { self.token(&url)? } else { None };
            let shown = match &token {
                Some(token) => headers.clone().with("Authorization", format!("Bearer {token}")),
                None => headers.clone(),
            };
            // A fresh connection: one that has died meanwhile could take half a file before it says so.
            let mut client = Client::new(&self.means.dialer, &url)?;
            client.send(&Method::Put, url.path_and_query(), &shown)?;
            let upload =
                |client| Upload { server: Arc::clone(self), client, url: url.clone(), chunked: size.is_none() };
            if !expects {
                return Ok(upload(client));
            }
            let (response, body) = match client.receive_within(&Method::Put, EXPECT) {
                Ok((response, _)) if response.status < 200 => return Ok(upload(client)),
                // Says nothing: it waits for the body.
                Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::TimedOut => {
                    return Ok(upload(client));
                }
                answer => answer?,
            };
            if let Some(to) = redirect(&response, &url) {
                own &= may_go(&url, &to)?;
                if !own {
                    headers = for_others(&headers);
                }
                url = to;
                redirects += 1;
                continue;
            }
            if response.status == 401 && token.is_some() && stale != token && self.token(&url)? != token {
                stale = token;
                continue;
            }
            let failed = Begun { client, response, body, url }.refusal();
            return Err(match failed.status {
                Some(200..300) => Failed::peer("it answered before it had a byte of the file"),
                _ => failed,
            });
        }
        Err(Failed::peer(format!("{} was the last of more than {REDIRECTS_MAX} redirects", url.authority())))
    }
}

/// How long a server may take to say that it wants the body.
const EXPECT: Duration = Duration::from_secs(5);

/// Whether a redirect stays with the same server, to which we say who we are. From TLS to a clear line none is followed.
fn may_go(from: &HttpUrl, to: &HttpUrl) -> Result<bool, Failed> {
    if from.is_secure() && !to.is_secure() {
        let why = format!("{} redirects from TLS to a clear line, which is not followed", from.authority());
        return Err(Failed { fault: Fault::Auth, ..Failed::peer(why) });
    }
    Ok(from.is_same_origin(to))
}

impl Whole {
    /// The refusal that it is.
    pub fn refusal(&self, url: &HttpUrl) -> Failed {
        refused(url, &self.response, &self.body)
    }
}

/// A file on its way to a server.
pub(crate) struct Upload {
    server: Arc<Server>,
    client: Client,
    url: HttpUrl,
    chunked: bool,
}

impl Upload {
    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        if bytes.is_empty() {
            return Ok(());
        }
        let sent = match self.chunked {
            true => self
                .client
                .write(format!("{:x}\r\n", bytes.len()).as_bytes())
                .and_then(|()| self.client.write(bytes))
                .and_then(|()| self.client.write(b"\r\n")),
            false => self.client.write(bytes),
        };
        sent.map_err(|error| self.reason(error))
    }

    /// Why the line broke: a server that does not want the rest often says so before it hangs up.
    fn reason(&mut self, error: ClientError) -> Failed {
        match self.client.answer_within(&Method::Put, Duration::from_secs(2)) {
            Ok((response, mut body)) if response.status >= 300 => {
                let said = self.client.read_all(&mut body, REFUSAL_BYTES).unwrap_or_default();
                refused(&self.url, &response, &said)
            }
            _ => error.into(),
        }
    }

    /// All bytes have been sent: the server's answer.
    pub fn finish(mut self) -> Result<Response, Failed> {
        if self.chunked {
            self.client.write(b"0\r\n\r\n").map_err(|error| self.reason(error))?;
        }
        let (response, mut body) = self.client.answer_within(&Method::Put, SETTLE)?;
        let said = self.client.read_all(&mut body, REFUSAL_BYTES);
        if !(200..300).contains(&response.status) {
            let failed = refused(&self.url, &response, &said.unwrap_or_default());
            // Too late to go where it should have gone: the next attempt may be told in time.
            let late = (300..400).contains(&response.status);
            return Err(if late { Failed { fault: Fault::Path, general: true, ..failed } } else { failed });
        }
        if said.is_ok() && !body.ends_with_line() {
            self.server.keep(&self.url, &response, self.client);
        }
        Ok(response)
    }
}

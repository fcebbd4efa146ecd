//! Asking a server: connections kept and used again, redirects followed without showing our credentials to others, a token read
//! anew when it is refused, tries again for what passes.
//!
//! Does not know: what is asked for. Whatever the verb, a request and its answer go through here.

mod upload;
mod way;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::fault::Fault;
use parking_lot::{Mutex, MutexGuard};
use store::Carried;
use web::client::ClientError;
use web::target::pairs;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

use crate::failed::{Failed, may_pass};
use crate::patience::{Patience, retry_after};
use crate::pauses;

pub(crate) use upload::Upload;
pub use way::Redirects;
use way::Way;

/// Finds the bearer token to show now, where there is one. Asked for every request: tokens are renewed behind our back.
pub type TokenSource = dyn Fn() -> Result<Option<String>, String> + Send + Sync;

/// How servers are spoken to.
#[derive(Clone)]
pub struct Means {
    /// How connections are made, and whom to trust.
    pub dialer: Dialer,
    /// Who we are.
    pub token: Arc<TokenSource>,
    /// Where servers may send us on to.
    pub redirects: Redirects,
    /// How long one request is tried again.
    pub patience: Duration,
}

/// Idle connections kept, to all servers together.
const IDLE_MAX: usize = 64;
/// Bytes of a refusal that are read for its words.
const REFUSAL_BYTES: usize = 64 << 10;
/// How long a server may take to answer a question.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
/// How long the server may work on what it has been sent in full, on a change that it was asked for, or on a digest: some write it
/// down a second time, or read all of it back.
pub(crate) const SETTLE: Duration = Duration::from_secs(600);

/// Servers, and the connections to them.
pub(crate) struct Server {
    means: Means,
    idle: Mutex<Vec<(String, Client)>>,
    /// Files came or went within TLS, and in clear.
    carried: [AtomicBool; 2],
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
        let works = method.changes() || headers.get("want-digest").is_some();
        let within = if works { SETTLE } else { SILENCE };
        Asked { method, url, headers, body: b"", most: REFUSAL_BYTES, follow: true, within }
    }
}

/// An answer with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub response: Response,
    /// Who answered, after redirects.
    pub url: HttpUrl,
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

/// A refusal. How long the server asks to be left alone holds for whoever asks it from here.
fn refused(url: &HttpUrl, response: &Response, body: &[u8]) -> Failed {
    let failed = Failed::status(url.authority(), response.status, body);
    match retry_after(response.headers.get("retry-after")).filter(|_| failed.again) {
        Some(pause) => {
            pauses::told(&origin(url), pause);
            let why = format!("{}; it asks to be left alone for {} s", failed.why, pause.as_secs());
            Failed { pause: Some(pause), why, ..failed }
        }
        None => failed,
    }
}

fn origin(url: &HttpUrl) -> String {
    format!("{}://{}:{}", if url.is_secure() { "https" } else { "http" }, url.host(), url.port())
}

fn keeps(response: &Response) -> bool {
    response.minor >= 1 && !response.headers.lists("connection", "close")
}

impl Server {
    pub fn new(means: Means) -> Server {
        Server { means, idle: Mutex::default(), carried: Default::default(), met: AtomicBool::new(false) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(String, Client)>> {
        self.idle.lock()
    }

    /// A fresh connection to whoever comes next on the way, unless he asked to be left alone.
    fn dial(&self, way: &Way) -> Result<Client, Failed> {
        self.leave_alone(&way.url)?;
        Ok(Client::new(&way.dialer(&self.means.dialer, self.means.redirects), &way.url)?)
    }

    fn leave_alone(&self, url: &HttpUrl) -> Result<(), Failed> {
        match pauses::left(&origin(url)) {
            None => Ok(()),
            Some(left) => {
                let seconds = left.as_secs_f64().ceil();
                let why = format!("{} asks to be left alone for another {seconds} s", url.authority());
                Err(Failed { status: Some(429), pause: Some(left), ..Failed::path(why) })
            }
        }
    }

    /// A connection, and whether it has been used before.
    fn connection(&self, way: &Way) -> Result<(Client, bool), Failed> {
        self.leave_alone(&way.url)?;
        let name = origin(&way.url);
        loop {
            let kept = {
                let mut idle = self.idle();
                idle.iter().rposition(|(known, _)| *known == name).map(|at| idle.remove(at).1)
            };
            match kept {
                // What says something unasked, or has hung up, is of no use.
                Some(client) if client.conn().is_gone() || client.conn().has_unread() => {}
                Some(client) => return Ok((client, true)),
                None => return Ok((self.dial(way)?, false)),
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
    fn send(&self, asked: &Asked<'_>, way: &Way, token: Option<&str>) -> Result<Begun, Failed> {
        let headers = match token {
            Some(token) => way.headers.clone().with("Authorization", format!("Bearer {token}")),
            None => way.headers.clone(),
        };
        loop {
            let (mut client, used) = match asked.method.changes() {
                true => (self.dial(way)?, false),
                false => self.connection(way)?,
            };
            let mut told = || -> Result<(Response, Body), ClientError> {
                client.send(asked.method, way.url.path_and_query(), &headers)?;
                if !asked.body.is_empty() {
                    client.write(asked.body)?;
                }
                client.answer_within(asked.method, asked.within)
            };
            match told() {
                Ok((response, body)) => {
                    self.met.store(true, Ordering::Relaxed);
                    if matches!(asked.method, Method::Get | Method::Put) && (200..300).contains(&response.status) {
                        self.carries(&client);
                    }
                    return Ok(Begun { client, response, body, url: way.url.clone() });
                }
                Err(ClientError::Broken { source, .. }) if used && source.kind() != std::io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Files come or go over this connection, wherever redirects have led to.
    fn carries(&self, client: &Client) {
        self.carried[usize::from(client.conn().tls().is_none())].store(true, Ordering::Relaxed);
    }

    /// How files came and went so far.
    pub fn carried(&self) -> Option<Carried> {
        let [tls, plain] = [0, 1].map(|kind| self.carried[kind].load(Ordering::Relaxed));
        plain.then_some(Carried::Plain).or(tls.then_some(Carried::Tls))
    }

    /// The answer to a request, after redirects; its body unread. One try.
    pub fn once(&self, asked: &Asked<'_>) -> Result<Begun, Failed> {
        let mut headers = asked.headers.clone();
        let takes_body = matches!(asked.method.name(), "PUT" | "POST" | "PROPFIND");
        if takes_body && headers.get("content-length").is_none() {
            headers.add("Content-Length", asked.body.len().to_string());
        }
        let mut way = Way::new(asked.url, headers);
        loop {
            let may_say = way.own && way.headers.get("authorization").is_none();
            let token = if may_say { self.token(&way.url)? } else { None };
            let mut begun = self.send(asked, &way, token.as_deref())?;
            if begun.response.status == 401 && token.is_some() {
                let renewed = self.token(&way.url)?.filter(|renewed| Some(renewed) != token.as_ref());
                if renewed.is_some() {
                    begun = self.send(asked, &way, renewed.as_deref())?;
                }
            }
            if !asked.follow || !way.goes_on(&begun.response, begun.client.conn().peer())? {
                return Ok(begun);
            }
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
        Ok(Whole { response: begun.response, url: begun.url, body, repeated: false })
    }

    /// The answer to a request without a body, where it is one of success; the refusal that it is otherwise.
    pub fn ask(&self, method: &Method, url: &HttpUrl, headers: &Headers) -> Result<Whole, Failed> {
        let whole = self.whole(&Asked::plain(method, url, headers))?;
        // What was asked for has been done already, and the answer was lost.
        let done = *method == Method::Delete && whole.repeated && matches!(whole.response.status, 404 | 410);
        if done || (200..300).contains(&whole.response.status) { Ok(whole) } else { Err(whole.refusal(url)) }
    }
}

impl Whole {
    /// The refusal that it is.
    pub fn refusal(&self, url: &HttpUrl) -> Failed {
        refused(url, &self.response, &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_a_digest_has_time_to_read_the_file() {
        let url = HttpUrl::parse("http://h/f").unwrap();
        let within = |method, headers: &Headers| Asked::plain(&method, &url, headers).within;
        let wants = Headers::new().with("Want-Digest", "adler32");
        assert_eq!(within(Method::Head, &wants), SETTLE);
        assert_eq!((within(Method::Head, &Headers::new()), within(Method::Delete, &Headers::new())), (SILENCE, SETTLE));
    }
}

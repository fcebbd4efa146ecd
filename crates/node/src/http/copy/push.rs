//! Push: a file from here goes to another server by one PUT, whose word is waited for before the body is sent.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use auth::Action;
use model::checksum::Digest;
use model::{Algorithm, Fault, RelPath};
use serve::PIECE_BYTES;
use serve::buffer;
use store::{Source, Stat};
use web::client::{REDIRECTS_MAX, for_others, redirect};
use web::copy::Order;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response, digest};

use super::gauge::{Failure, Gauge, Line};
use super::remote::{self, before};
use super::{accept, done, early, native, watch};
use crate::access::ResolvedPath;
use crate::digests::Digests;
use crate::http::get;
use crate::http::refused::{Outcome, refuse};
use crate::http::request_context::RequestContext;
use crate::secrets::Secrets;

/// How long a destination may think before it lets the body come; then the body comes anyway (RFC 9110, section 10.1.1).
const GO_ON_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take over the last bytes, its own digest included.
const FINISH_WITHIN: Duration = Duration::from_secs(300);

/// Between two looks at whether the destination has said something before all has been sent.
const LOOK_EVERY_BYTES: u64 = 4 << 20;
/// For the rest of a head that has begun.
const WORD_WITHIN: Duration = Duration::from_secs(20);

/// What became of a body.
enum Sent {
    /// All of it went.
    All,
    /// It was answered before.
    Answered(Response, Body),
}

/// What goes, and where to.
struct Job<'a> {
    dialer: &'a Dialer,
    source: &'a dyn Source,
    /// What it was when it was opened, and how many of its digests were noted then.
    stat: Stat,
    known: usize,
    digests: &'a Digests,
    size: u64,
    /// What the bytes are, as far as that is known or has to be.
    digest: Option<Digest>,
    must_verify: bool,
    secrets: Secrets,
    gauge: &'a Gauge,
}

/// Answers a COPY with a Destination.
pub(crate) fn answer(context: &mut RequestContext<'_>, order: &Order, destination: &HttpUrl) -> Outcome {
    let shown = context.shown();
    let Some((export, path)) = context.place()? else { return Err(refuse(404, "a copy begins with a file")) };
    let reach = context.reach(Action::Read, &export, &path)?;
    if reach.store.is_dir(&reach.path) {
        return Err(refuse(409, format!("{shown} is a directory; files are copied one by one")));
    }
    let source = reach.store.open(&reach.path)?;
    let stat = source.stat()?;
    let current = get::current(&stat);
    if get::judge(context.request(), false, Some(&current)) != web::conditions::Verdict::Proceed {
        return Err(refuse(412, "the file is not the one that If-Match or If-None-Match mean"));
    }
    is_promised(context, &source, &reach.path)?;
    let digest = known(context, order, &source, &reach.path)?;
    let dialer = remote::dialer(context, order);
    let gauge = remote::gauge(context, order, true);
    let headers = remote::without_authorization(destination, remote::headers(order));
    if !order.overwrite && !order.no_head {
        refuse_existing(&dialer, destination, &headers).map_err(before)?;
    }
    let mut accepted = false;
    let asked = native::ask(&dialer, destination, &headers);
    if let Some(native) = asked.and_then(|found| native::Native::offered(&dialer, &found, true)) {
        accept(context)?;
        accepted = true;
        if let Some(result) = natively(context, &native, &reach, &gauge, order.overwrite)? {
            return done(context, &gauge, result);
        }
    }
    let line = match Line::dial(&dialer, destination, &gauge) {
        Ok(line) => line,
        Err(failure) => return early(context, &gauge, accepted, failure),
    };
    if !accepted {
        accept(context)?;
    }
    let must_verify = order.require_checksum == Some(true);
    // A digest that was made for this may have been noted with the file, which is a change of its facts.
    let (stat, digests) = (source.stat()?, &context.web.services.digests);
    let known = digests.known(&*source)?.len();
    let (size, secrets) = (stat.meta.size, remote::secrets(order));
    let job = Job {
        dialer: &dialer,
        source: &*source,
        stat,
        known,
        digests,
        size,
        digest,
        must_verify,
        secrets,
        gauge: &gauge,
    };
    let result = watch::run(context, &gauge, false, || send(&job, line, destination, &headers))?;
    done(context, &gauge, result)
}

/// By the native engine; none where that could not begin.
fn natively(
    context: &mut RequestContext<'_>,
    native: &native::Native,
    reach: &ResolvedPath,
    gauge: &Gauge,
    overwrite: bool,
) -> Outcome<Option<Result<u64, Failure>>> {
    let native_context = native::Context::new(context, reach);
    let moved = native::attempt(context, native, gauge, false, || native.push(&native_context, gauge, overwrite))?;
    Ok(moved.map(|result| result.map(|moved| moved.bytes)))
}

/// Whether the file has the digests that the request says it has.
fn is_promised(context: &RequestContext<'_>, source: &Arc<dyn Source>, path: &RelPath) -> Outcome<()> {
    for wanted in remote::promised(context.request())? {
        let have = context.web.services.digests.make(&**source, path, wanted.algorithm())?;
        if have != wanted {
            let reason = format!("checksum mismatch: the file has {have}, and the request says {wanted}");
            return Err(refuse(412, reason));
        }
    }
    Ok(())
}

/// What can be compared afterwards: what is known, or what has to be made because the client insists.
fn known(
    context: &RequestContext<'_>,
    order: &Order,
    source: &Arc<dyn Source>,
    path: &RelPath,
) -> Outcome<Option<Digest>> {
    match order.require_checksum {
        Some(false) => Ok(None),
        Some(true) => {
            context.web.services.digests.make(&**source, path, Algorithm::Adler32).map(Some).map_err(Into::into)
        }
        None => {
            let known = context.web.services.digests.known(&**source)?;
            Ok(known.into_iter().find(|digest| digest.algorithm() == Algorithm::Adler32))
        }
    }
}

/// `Overwrite: F` is not known to PUT: what is there is asked for first.
fn refuse_existing(dialer: &Dialer, destination: &HttpUrl, headers: &Headers) -> Result<(), Failure> {
    let answer = web::client::ask(dialer, &Method::Head, destination, headers)?;
    match answer.response.status {
        200..=299 => {
            Err(Failure::new(Fault::Config, 412, "the destination exists already (Overwrite: F): File exists"))
        }
        404 | 410 | 405 | 501 => Ok(()),
        status => Err(remote::of_status(status, format!("Remote side failed with status code {status} (HEAD)"))),
    }
}

fn send<'a>(job: &Job<'a>, first: Line<'a>, destination: &HttpUrl, headers: &Headers) -> Result<u64, Failure> {
    let (mut line, mut url, mut headers) = (Some(first), destination.clone(), headers.clone());
    for _ in 0..=REDIRECTS_MAX {
        let mut line = line.take().map_or_else(|| Line::dial(job.dialer, &url, job.gauge), Ok)?;
        let (response, body) = put(job, &mut line.client, &url, &headers)?;
        let Some(to) = redirect(&response, &url) else {
            return match response.status {
                200 | 201 | 202 | 204 | 205 => {
                    drop(line);
                    verify(job, &url, &headers).map(|()| job.size)
                }
                _ => Err(remote::refused(&mut line.client, &response, body, "PUT", &url, &job.secrets)),
            };
        };
        if url.is_secure() && !to.is_secure() {
            return Err(Failure::new(Fault::Auth, 403, "the destination redirects from TLS to a clear line"));
        }
        if !url.is_same_origin(&to) {
            headers = for_others(&headers);
        }
        url = to;
        job.gauge.begin_again();
    }
    Err(Failure::new(Fault::Peer, 508, "the destination redirects in circles"))
}

/// One PUT. A destination that answers before the body does not get it.
fn put(job: &Job<'_>, client: &mut Client, url: &HttpUrl, headers: &Headers) -> Result<(Response, Body), Failure> {
    let mut headers = headers.clone().with("Content-Length", job.size.to_string());
    if job.size > 0 {
        headers.add("Expect", "100-continue");
    }
    if let Some(digest) = &job.digest {
        headers.add("Repr-Digest", digest::repr::format(digest));
    }
    client.send(&Method::Put, url.path_and_query(), &headers)?;
    if job.size > 0
        && let Some((response, body)) = word(client)?
    {
        return not_yet(response, body);
    }
    match body(job, client) {
        Ok(Sent::All) => {}
        Ok(Sent::Answered(response, body)) => return not_yet(response, body),
        Err(failure) => {
            // Who stops reading has mostly said why, or where else to go.
            return match client.receive_within(&Method::Put, Duration::from_secs(2)) {
                Ok((response, body)) if response.status >= 300 => Ok((response, body)),
                _ => Err(failure),
            };
        }
    }
    // From here on the bound is FINISH_WITHIN.
    job.gauge.all_moved();
    Ok(client.answer_within(&Method::Put, FINISH_WITHIN)?)
}

/// An answer to a body that has not come: a no, or where else to go. One that says that all is done is no answer to this.
fn not_yet(response: Response, body: Body) -> Result<(Response, Body), Failure> {
    match response.status {
        300.. => Ok((response, body)),
        status => {
            let text = format!("the destination said {status} before all bytes had been sent: it cannot have them");
            Err(Failure::new(Fault::Peer, 502, text))
        }
    }
}

/// What the destination says to the head: none where the body may come.
fn word(client: &mut Client) -> Result<Option<(Response, Body)>, Failure> {
    match client.receive_within(&Method::Put, GO_ON_WITHIN) {
        Ok((response, _)) if response.status < 200 => Ok(None),
        Ok(answer) => Ok(Some(answer)),
        Err(web::ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::TimedOut => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The file's bytes. The last one goes when all others have been read and the file is still what it was: a destination that
/// never gets it keeps nothing of a file that was rewritten on its way.
fn body(job: &Job<'_>, client: &mut Client) -> Result<Sent, Failure> {
    let last = job.size.saturating_sub(1);
    let mut at = 0;
    while at < last {
        let end = last.min(at + LOOK_EVERY_BYTES);
        span(job, client, at..end)?;
        at = end;
        if let Some((response, body)) = said_early(client)? {
            return Ok(Sent::Answered(response, body));
        }
    }
    still(job)?;
    span(job, client, last..job.size)?;
    still(job).map(|()| Sent::All)
}

/// What the destination has said while the body was on its way. Some send on whoever they have told to go on: a manager that knows
/// only then which server has room.
fn said_early(client: &mut Client) -> Result<Option<(Response, Body)>, Failure> {
    let lost = |error| Failure::new(Fault::Path, 502, format!("the connection to the destination broke: {error}"));
    while client.conn_mut().has_word().map_err(lost)? {
        let (response, body) = client.receive_within(&Method::Put, WORD_WITHIN)?;
        if response.status >= 200 {
            return Ok(Some((response, body)));
        }
    }
    Ok(None)
}

/// Whether it is the file that was opened.
fn still(job: &Job<'_>) -> Result<(), Failure> {
    let (then, now) = (&job.stat, job.source.stat()?);
    let is_same = (then.meta.size, then.meta.mtime) == (now.meta.size, now.meta.mtime);
    // A digest that somebody else asked for meanwhile is noted with the file, which is a change of its facts.
    let is_noted = || job.digests.known(job.source).is_ok_and(|known| known.len() > job.known);
    if is_same && (then.changed == now.changed || is_noted()) {
        return Ok(());
    }
    Err(Failure::new(Fault::Storage, 409, "the file changed while it was copied"))
}

fn span(job: &Job<'_>, client: &mut Client, span: Range<u64>) -> Result<(), Failure> {
    let lost = |error: std::io::Error| {
        Failure::new(Fault::Path, 502, format!("the connection to the destination broke: {error}"))
    };
    let shorter = || Failure::new(Fault::Storage, 409, "the file became shorter while it was copied");
    let mut at = span.start;
    if let Some(file) = job.source.descriptor().filter(|_| client.conn().sends_files()) {
        while at < span.end {
            match client.conn_mut().send_file(file, at, span.end - at).map_err(lost)? {
                0 => return Err(shorter()),
                sent => {
                    at += sent;
                    job.gauge.add(sent);
                }
            }
        }
        return Ok(());
    }
    buffer::with(|buffer| {
        while at < span.end {
            let most = (span.end - at).min(PIECE_BYTES as u64) as usize;
            let got = job.source.read_at(&mut buffer[..most], at)?;
            if got == 0 {
                return Err(shorter());
            }
            client.write(&buffer[..got])?;
            at += got as u64;
            job.gauge.add(got as u64);
        }
        Ok(())
    })
}

/// Asks the destination what it has.
fn verify(job: &Job<'_>, url: &HttpUrl, headers: &Headers) -> Result<(), Failure> {
    let Some(ours) = job.digest.filter(|_| !url.is_presigned()) else {
        return if job.must_verify { Err(unverified()) } else { Ok(()) };
    };
    let asked = headers.clone().with("Want-Digest", digest::want(&[ours.algorithm()]));
    let answer = web::client::ask(job.dialer, &Method::Head, url, &asked);
    let answer = match answer {
        Ok(answer) if answer.response.status == 200 => answer,
        _ if job.must_verify => return Err(unverified()),
        _ => return Ok(()),
    };
    let fields = &answer.response.headers;
    let length = fields.get("content-length").and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length != job.size) {
        let text =
            format!("CHECKSUM MISMATCH: the destination has {} bytes instead of {}", length.unwrap_or(0), job.size);
        return Err(Failure::new(Fault::Integrity, 502, text));
    }
    match digest::parse(fields.all("digest")).into_iter().find(|theirs| theirs.algorithm() == ours.algorithm()) {
        Some(theirs) if theirs != ours => {
            let text = format!("checksum mismatch: the destination has {theirs}, the source {ours}");
            Err(Failure::new(Fault::Integrity, 502, text))
        }
        Some(_) => Ok(()),
        None if job.must_verify => Err(unverified()),
        None => Ok(()),
    }
}

fn unverified() -> Failure {
    let text = "the destination tells no checksum to compare, and RequireChecksumVerification is true";
    Failure::new(Fault::Integrity, 502, text)
}

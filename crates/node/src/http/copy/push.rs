//! Push: copies a file from this node to another server by one PUT, which waits for `100 Continue` before it sends the body.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use auth::Action;
use model::checksum::Digest;
use model::{Algorithm, Fault, RelPath};
use serve::PIECE_BYTES;
use serve::buffer;
use store::{Source, Stat};
use web::client::{REDIRECTS_MAX, fields_for_other_servers, redirect};
use web::copy::CopyRequest;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response, digest};

use super::remote::{self, as_status};
use super::{accept, digests, end_copy, fail_early, native, watch};
use crate::access::ResolvedPath;
use crate::copies::native::NativeCopy;
use crate::copies::progress::{CopyConnection, CopyProgress, Failure};
use crate::digests::Digests;
use crate::http::get;
use crate::http::refused::{Outcome, refuse};
use crate::http::request_context::RequestContext;
use crate::secrets::Secrets;

/// How long `100 Continue` is waited for; then the body is sent anyway (RFC 9110, section 10.1.1).
const CONTINUE_WITHIN: Duration = Duration::from_secs(30);
/// How long the destination may take after the last byte, its own digest included.
const FINISH_WITHIN: Duration = Duration::from_secs(300);

/// Bytes between two checks for an early answer of the destination.
const CHECK_EVERY_BYTES: u64 = 4 << 20;
/// How long the rest of an answer's head may take.
const HEAD_WITHIN: Duration = Duration::from_secs(20);

/// The outcome of sending a body.
enum BodyOutcome {
    /// The whole body was sent.
    All,
    /// The destination answered before the end.
    Answered(Response, Body),
}

/// A push: the file, and what the threads need to send it.
struct Push<'a> {
    dialer: &'a Dialer,
    source: &'a dyn Source,
    /// The state of the file when it was opened.
    stat: Stat,
    /// How many digests of the file were known then.
    known_digests: usize,
    digests: &'a Digests,
    size: u64,
    /// The digest to compare afterwards, if one is known or required.
    digest: Option<Digest>,
    must_verify: bool,
    secrets: Secrets,
    progress: &'a CopyProgress,
}

/// Answers a COPY with a Destination.
pub(crate) fn answer(context: &mut RequestContext<'_>, order: &CopyRequest, destination: &HttpUrl) -> Outcome {
    let shown = context.shown_target();
    let Some((export, path)) = context.place()? else { return Err(refuse(404, "the source of a copy is a file")) };
    let resolved = context.resolve(Action::Read, &export, &path)?;
    if resolved.store.is_dir(&resolved.path) {
        return Err(refuse(409, format!("{shown} is a directory; files are copied one by one")));
    }
    let source = resolved.store.open(&resolved.path)?;
    let stat = source.stat()?;
    let current = get::current(&stat);
    if get::evaluate(context.request(), false, Some(&current)) != web::conditions::Verdict::Proceed {
        return Err(refuse(412, "If-Match or If-None-Match does not hold for the current file"));
    }
    check_promised(context, &source, &resolved.path)?;
    let digest = known(context, order, &source, &resolved.path)?;
    let dialer = remote::dialer(context, order);
    let progress = remote::progress(context, order, true);
    let headers = remote::without_authorization(destination, remote::headers(order));
    if !order.overwrite && !order.no_head {
        refuse_existing(&dialer, destination, &headers).map_err(as_status)?;
    }
    let mut accepted = false;
    let node = native::find_node(&dialer, destination, &headers);
    if let Some(native) = node.and_then(|found| native::request(&dialer, &found, true)) {
        accept(context)?;
        accepted = true;
        if let Some(result) = copy_natively(context, &native, &resolved, &progress, order.overwrite)? {
            return end_copy(context, &progress, result);
        }
    }
    let connection = match CopyConnection::dial(&dialer, destination, &progress) {
        Ok(connection) => connection,
        Err(failure) => return fail_early(context, &progress, accepted, failure),
    };
    if !accepted {
        accept(context)?;
    }
    // A digest that was just computed may have been noted on the file, which changes the file's ctime (`Stat::changed`).
    let stat = source.stat()?;
    let digests = &context.service.services.digests;
    let push = Push {
        dialer: &dialer,
        source: &*source,
        known_digests: digests.known(&*source)?.len(),
        digests,
        size: stat.meta.size,
        stat,
        digest,
        must_verify: order.require_checksum == Some(true),
        secrets: remote::secrets(order),
        progress: &progress,
    };
    let result = watch::run(context, &progress, false, || send(&push, connection, destination, &headers))?;
    end_copy(context, &progress, result)
}

/// Copies by the native engine; none if that could not begin.
fn copy_natively(
    context: &mut RequestContext<'_>,
    native: &NativeCopy,
    resolved: &ResolvedPath,
    progress: &CopyProgress,
    overwrite: bool,
) -> Outcome<Option<Result<u64, Failure>>> {
    let native_context = native::native_context(context, resolved);
    let moved =
        native::attempt(context, native, progress, false, || native.push(&native_context, progress, overwrite))?;
    Ok(moved.map(|result| result.map(|moved| moved.bytes)))
}

/// Checks that the file has the digests that the request names.
fn check_promised(context: &RequestContext<'_>, source: &Arc<dyn Source>, path: &RelPath) -> Outcome<()> {
    for wanted in digests::in_request(context.request())? {
        let have = context.service.services.digests.compute(&**source, path, wanted.algorithm())?;
        if have != wanted {
            let reason = format!("checksum mismatch: the file has {have}, and the request says {wanted}");
            return Err(refuse(412, reason));
        }
    }
    Ok(())
}

/// The digest to compare afterwards: one that is known, or one that is computed because the client requires it.
fn known(
    context: &RequestContext<'_>,
    order: &CopyRequest,
    source: &Arc<dyn Source>,
    path: &RelPath,
) -> Outcome<Option<Digest>> {
    match order.require_checksum {
        Some(false) => Ok(None),
        Some(true) => {
            context.service.services.digests.compute(&**source, path, Algorithm::Adler32).map(Some).map_err(Into::into)
        }
        None => {
            let known = context.service.services.digests.known(&**source)?;
            Ok(known.into_iter().find(|digest| digest.algorithm() == Algorithm::Adler32))
        }
    }
}

/// Checks by HEAD that the destination does not exist, because PUT has no `Overwrite: F`.
///
/// # Errors
/// It exists, or the server cannot be asked.
fn refuse_existing(dialer: &Dialer, destination: &HttpUrl, headers: &Headers) -> Result<(), Failure> {
    let answer = web::client::fetch(dialer, &Method::Head, destination, headers)?;
    match answer.response.status {
        200..=299 => {
            Err(Failure::new(Fault::Config, 412, "the destination exists already (Overwrite: F): File exists"))
        }
        404 | 410 | 405 | 501 => Ok(()),
        status => Err(remote::of_status(status, format!("Remote side failed with status code {status} (HEAD)"))),
    }
}

fn send<'a>(
    push: &Push<'a>,
    first: CopyConnection<'a>,
    destination: &HttpUrl,
    headers: &Headers,
) -> Result<u64, Failure> {
    let mut connection = Some(first);
    let mut url = destination.clone();
    let mut headers = headers.clone();
    for _ in 0..=REDIRECTS_MAX {
        let mut connection =
            connection.take().map_or_else(|| CopyConnection::dial(push.dialer, &url, push.progress), Ok)?;
        let (response, body) = put(push, &mut connection.client, &url, &headers)?;
        let Some(to) = redirect(&response, &url) else {
            return match response.status {
                200 | 201 | 202 | 204 | 205 => {
                    drop(connection);
                    verify(push, &url, &headers).map(|()| push.size)
                }
                _ => Err(remote::refused(&mut connection.client, &response, body, "PUT", &url, &push.secrets)),
            };
        };
        if url.is_secure() && !to.is_secure() {
            return Err(Failure::new(Fault::Auth, 403, "the destination redirects from TLS to clear text"));
        }
        if !url.is_same_origin(&to) {
            headers = fields_for_other_servers(&headers);
        }
        url = to;
        push.progress.reset();
    }
    Err(Failure::new(Fault::Peer, 508, "the destination redirects in circles"))
}

/// Sends one PUT. A destination that answers before the body does not get the body.
fn put(push: &Push<'_>, client: &mut Client, url: &HttpUrl, headers: &Headers) -> Result<(Response, Body), Failure> {
    let mut headers = headers.clone().with("Content-Length", push.size.to_string());
    if push.size > 0 {
        headers.add("Expect", "100-continue");
    }
    if let Some(digest) = &push.digest {
        headers.add("Repr-Digest", digest::repr::format(digest));
    }
    client.send(&Method::Put, url.path_and_query(), &headers)?;
    if push.size > 0
        && let Some((response, body)) = answer_to_head(client)?
    {
        return check_early(response, body);
    }
    match send_body(push, client) {
        Ok(BodyOutcome::All) => {}
        Ok(BodyOutcome::Answered(response, body)) => return check_early(response, body),
        Err(failure) => {
            // A server that stops reading has usually answered with a reason or a redirect.
            return match client.receive_within(&Method::Put, Duration::from_secs(2)) {
                Ok((response, body)) if response.status >= 300 => Ok((response, body)),
                _ => Err(failure),
            };
        }
    }
    // From here on the time is bounded by FINISH_WITHIN.
    push.progress.all_moved();
    Ok(client.final_response_within(&Method::Put, FINISH_WITHIN)?)
}

/// Checks an answer that arrived before the body was sent: it may be a refusal or a redirect, but not a success.
fn check_early(response: Response, body: Body) -> Result<(Response, Body), Failure> {
    match response.status {
        300.. => Ok((response, body)),
        status => {
            let text =
                format!("the destination answered {status} before all bytes had been sent, so it cannot have the file");
            Err(Failure::new(Fault::Peer, 502, text))
        }
    }
}

/// The answer to the head of the request; none if the body may be sent.
fn answer_to_head(client: &mut Client) -> Result<Option<(Response, Body)>, Failure> {
    match client.receive_within(&Method::Put, CONTINUE_WITHIN) {
        Ok((response, _)) if response.status < 200 => Ok(None),
        Ok(answer) => Ok(Some(answer)),
        Err(web::ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::TimedOut => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends the file's bytes. The last byte is sent when all others have been read and the file has not changed: a destination that
/// never gets the last byte keeps nothing of a file that was rewritten meanwhile.
fn send_body(push: &Push<'_>, client: &mut Client) -> Result<BodyOutcome, Failure> {
    let last = push.size.saturating_sub(1);
    let mut at = 0;
    while at < last {
        let end = last.min(at + CHECK_EVERY_BYTES);
        send_range(push, client, at..end)?;
        at = end;
        if let Some((response, body)) = early_answer(client)? {
            return Ok(BodyOutcome::Answered(response, body));
        }
    }
    check_unchanged(push)?;
    send_range(push, client, last..push.size)?;
    check_unchanged(push).map(|()| BodyOutcome::All)
}

/// The answer of the destination while the body is being sent, if there is one. The managers of some storage systems redirect only
/// after `100 Continue`, when they know which server has room.
fn early_answer(client: &mut Client) -> Result<Option<(Response, Body)>, Failure> {
    let lost = |error| Failure::new(Fault::Path, 502, format!("the connection to the destination broke: {error}"));
    while client.conn_mut().has_input().map_err(lost)? {
        let (response, body) = client.receive_within(&Method::Put, HEAD_WITHIN)?;
        if response.status >= 200 {
            return Ok(Some((response, body)));
        }
    }
    Ok(None)
}

/// Checks that the file has not changed since it was opened.
fn check_unchanged(push: &Push<'_>) -> Result<(), Failure> {
    let then = &push.stat;
    let now = push.source.stat()?;
    let is_same = (then.meta.size, then.meta.mtime) == (now.meta.size, now.meta.mtime);
    // A digest that another client asked for meanwhile is noted on the file, which changes the file's ctime.
    let is_noted = || push.digests.known(push.source).is_ok_and(|known| known.len() > push.known_digests);
    if is_same && (then.changed == now.changed || is_noted()) {
        return Ok(());
    }
    Err(Failure::new(Fault::Storage, 409, "the file changed while it was copied"))
}

fn send_range(push: &Push<'_>, client: &mut Client, range: Range<u64>) -> Result<(), Failure> {
    let lost = |error: std::io::Error| {
        Failure::new(Fault::Path, 502, format!("the connection to the destination broke: {error}"))
    };
    let shorter = || Failure::new(Fault::Storage, 409, "the file became shorter while it was copied");
    let mut at = range.start;
    if let Some(file) = push.source.descriptor().filter(|_| client.conn().sends_files()) {
        client.conn_mut().hold_short_segments(true).map_err(lost)?;
        while at < range.end {
            match client.conn_mut().send_file(file, at, range.end - at).map_err(lost)? {
                0 => return Err(shorter()),
                sent => {
                    at += sent;
                    push.progress.add(sent);
                }
            }
        }
        client.conn_mut().hold_short_segments(false).map_err(lost)?;
        return Ok(());
    }
    buffer::with(|buffer| {
        while at < range.end {
            let most = (range.end - at).min(PIECE_BYTES as u64) as usize;
            let got = push.source.read_at(&mut buffer[..most], at)?;
            if got == 0 {
                return Err(shorter());
            }
            client.write(&buffer[..got])?;
            at += got as u64;
            push.progress.add(got as u64);
        }
        Ok(())
    })
}

/// Asks the destination for its size and digest of the file, and compares them.
fn verify(push: &Push<'_>, url: &HttpUrl, headers: &Headers) -> Result<(), Failure> {
    let Some(ours) = push.digest.filter(|_| !url.is_presigned()) else {
        return if push.must_verify { Err(unverified()) } else { Ok(()) };
    };
    let fields = headers.clone().with("Want-Digest", digest::want(&[ours.algorithm()]));
    let answer = web::client::fetch(push.dialer, &Method::Head, url, &fields);
    let answer = match answer {
        Ok(answer) if answer.response.status == 200 => answer,
        _ if push.must_verify => return Err(unverified()),
        _ => return Ok(()),
    };
    let fields = &answer.response.headers;
    let length = fields.get("content-length").and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length != push.size) {
        let text =
            format!("CHECKSUM MISMATCH: the destination has {} bytes instead of {}", length.unwrap_or(0), push.size);
        return Err(Failure::new(Fault::Integrity, 502, text));
    }
    match digest::parse(fields.all("digest")).into_iter().find(|theirs| theirs.algorithm() == ours.algorithm()) {
        Some(theirs) if theirs != ours => {
            let text = format!("checksum mismatch: the destination has {theirs}, the source {ours}");
            Err(Failure::new(Fault::Integrity, 502, text))
        }
        Some(_) => Ok(()),
        None if push.must_verify => Err(unverified()),
        None => Ok(()),
    }
}

fn unverified() -> Failure {
    let text = "the destination reports no checksum to compare, and RequireChecksumVerification is true";
    Failure::new(Fault::Integrity, 502, text)
}

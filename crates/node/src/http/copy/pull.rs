//! Pull: copies a file from another server to this node, over several connections that write in place.

use std::time::Duration;

use auth::Action;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, Fault, Kind};
use parking_lot::Mutex;
use serve::buffer;
use store::{Sink, Writes};
use web::client::{REDIRECTS_MAX, fields_for_other_servers, redirect};
use web::copy::CopyRequest;
use web::range::ContentRange;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

use super::digests::FileAddress;
use super::ranges::{RangeQueue, RangeTask};
use super::remote::{self, RemoteFile, as_status};
use super::{accept, digests, end_copy, fail_early, native, watch};
use crate::access::ResolvedPath;
use crate::clock::now;
use crate::copies::native::NativeCopy;
use crate::copies::progress::{CopyConnection, CopyProgress, Failure};
use crate::http::get;
use crate::http::put;
use crate::http::refused::{Outcome, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::new_file::{self, FileSums};
use crate::secrets::Secrets;

/// Bytes of a file for each further connection.
const CONNECTION_BYTES: u64 = 64 << 20;
/// The most connections by default.
const CONNECTIONS: u64 = 4;
/// How often a connection may break without a byte in between.
const BREAKS_MAX: u32 = 4;

/// The parts that the threads of a pull share.
struct Pull<'a> {
    dialer: &'a Dialer,
    file: &'a RemoteFile,
    sink: &'a dyn Sink,
    progress: &'a CopyProgress,
    secrets: Secrets,
    /// A digest of the file is known, and will be compared.
    has_stated_digest: bool,
    /// The most connections.
    connections_max: u64,
    /// The trailers of the bodies that the source sent.
    trailers: Mutex<Headers>,
}

impl Pull<'_> {
    /// Reads the trailers of a body that has ended: they may report a failure, or digests. Digests after a part of the file are
    /// those of the part and are not kept.
    ///
    /// # Errors
    /// The trailers report a failure.
    fn read_trailers(&self, body: &Body, is_whole: bool) -> Result<(), Failure> {
        let trailers = body.trailers();
        // xrootd reports a failed read in this trailer, because it has sent the status long before.
        let status = trailers.get("x-transfer-status");
        if let Some(status) = status.filter(|status| !status.trim_start().starts_with("200")) {
            let quoted: String = status.chars().filter(|c| !c.is_control()).take(200).collect();
            return Err(Failure::new(Fault::Peer, 502, format!("the source says at the end of its file: {quoted}")));
        }
        if !is_whole {
            return Ok(());
        }
        let mut all = self.trailers.lock();
        trailers.iter().for_each(|(name, value)| all.add(name, value));
        Ok(())
    }

    /// The digests of the whole file in its trailers.
    fn trailer_digests(&self) -> Vec<Digest> {
        let all = self.trailers.lock();
        digests::in_fields(&all)
    }
}

/// Resolves the target of the copy, and makes every check that is possible before the source is asked. Returns the kind of the
/// existing entry as well.
fn target(context: &RequestContext<'_>, order: &CopyRequest) -> Outcome<(ResolvedPath, Option<Kind>)> {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let resolved = context.resolve(Action::Create, &export, &path)?;
    let existing = put::existing_target(context, &resolved, context.target.is_dir)?;
    if existing.is_some() {
        if !order.overwrite {
            return Err(refuse(
                412,
                format!("{} exists already, and the copy may not replace it (Overwrite: F)", context.shown_target()),
            ));
        }
        context.resolve(Action::Overwrite, &export, &path)?;
    }
    put::conditions(context, &resolved, existing.is_some())?;
    Ok((resolved, existing))
}

/// Answers a COPY with a Source.
pub(crate) fn answer(context: &mut RequestContext<'_>, order: &CopyRequest, source: &HttpUrl) -> Outcome {
    let (resolved, existing) = target(context, order)?;
    let requested = digests::in_request(context.request())?;
    let dialer = remote::dialer(context, order);
    let file = remote::find_source(&dialer, order, source, &requested).map_err(as_status)?;
    let stated = digests::expected(order, &file.digests, &requested)?;
    new_file::check_room(&*resolved.store, &resolved.path, file.size.unwrap_or(0))?;
    let progress = remote::progress(context, order, false);
    // A native copy does not evaluate the conditions once more at its end.
    let has_conditions = context.request().headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("if"));
    let mut accepted = false;
    if let Some(native) = native::request(&dialer, &file, false).filter(|_| requested.is_empty() && !has_conditions) {
        accept(context)?;
        accepted = true;
        // As over HTTP: a principal that may only create does not replace a file that has appeared meanwhile.
        let replace = order.overwrite && put::may_replace(context)?;
        if let Some(result) = copy_natively(context, &native, &resolved, &progress, replace)? {
            return end_copy(context, &progress, result);
        }
    }
    let unfinished = match put::begin(context, &resolved, file.size) {
        Ok(unfinished) => unfinished,
        Err(error) => return fail_early(context, &progress, accepted, as_failure(error, Fault::Storage)),
    };
    // A store that takes files in order gets one connection.
    let anywhere = resolved.store.capabilities().writes == Writes::Anywhere;
    let streams_max = context.service.access_control.policy().third_party.max_streams;
    let sink = &*unfinished.0;
    let pull = Pull {
        dialer: &dialer,
        file: &file,
        sink,
        progress: &progress,
        secrets: remote::secrets(order),
        has_stated_digest: !stated.is_empty(),
        connections_max: if anywhere { streams_max.into() } else { 1 },
        trailers: Mutex::default(),
    };
    // The first marker names this connection.
    let first = match connect(&pull) {
        Ok(first) => first,
        Err(failure) => return fail_early(context, &progress, accepted, failure),
    };
    if !accepted {
        accept(context)?;
    }
    let serial: Vec<Algorithm> = stated.iter().map(Digest::algorithm).filter(|a| a.is_serial()).collect();
    let fetched = watch::run(context, &progress, true, || fetch(&pull, order, first, &serial))?;
    let result = fetched.and_then(|(mut sums, in_answer)| {
        let in_trailers = if order.require_checksum == Some(false) { Vec::new() } else { pull.trailer_digests() };
        sums.complete(sink, &in_trailers)?;
        for stated in [&stated, &in_answer, &in_trailers] {
            put::compare(&sums, stated).map_err(|error| as_failure(error, Fault::Integrity))?;
        }
        let place = || {
            let _name_lock = context.service.services.unfinished.lock_name(&resolved);
            let is_there = get::kind(&resolved)?.is_some();
            put::conditions(context, &resolved, is_there)?;
            let replace = is_there && order.overwrite && (existing.is_some() || put::may_replace(context)?);
            put::commit(context, &resolved, &*unfinished.0, &sums, now(), replace)
        };
        place().map_err(|error| as_failure(error, Fault::Storage))?;
        Ok(sums.size)
    });
    // Dropped before the last line, after which the client may read the file.
    drop(unfinished);
    end_copy(context, &progress, result)
}

/// Copies by the native engine; none if that could not begin.
fn copy_natively(
    context: &mut RequestContext<'_>,
    native: &NativeCopy,
    resolved: &ResolvedPath,
    progress: &CopyProgress,
    replace: bool,
) -> Outcome<Option<Result<u64, Failure>>> {
    let native_context = native::native_context(context, resolved);
    let moved = native::attempt(context, native, progress, true, || {
        store::make_dirs(&*resolved.store, &resolved.path.parent())?;
        native.pull(&native_context, progress, replace)
    })?;
    Ok(moved.map(|result| result.map(|moved| moved.bytes)))
}

/// A refusal of this node as a failure, when its status can no longer be sent.
fn as_failure(error: RequestFailure, fault: Fault) -> Failure {
    match error {
        RequestFailure::Refused(refused) => Failure::new(fault, refused.status, refused.reason.clone()),
        RequestFailure::Broken(error) => Failure::new(Fault::Local, 500, error.to_string()),
    }
}

/// Fetches the file, and meanwhile the digests that the source has not stated yet.
fn fetch<'a>(
    pull: &Pull<'a>,
    order: &CopyRequest,
    first: CopyConnection<'a>,
    serial: &[Algorithm],
) -> Result<(FileSums, Vec<Digest>), Failure> {
    std::thread::scope(|scope| {
        let source = FileAddress { url: &pull.file.url, headers: &pull.file.headers };
        let request = move || digests::request(pull.dialer, order, &source, pull.progress);
        let requested = pull.file.digests_follow.then(|| scope.spawn(request));
        // Nobody waits for the digests of a file that was not fetched.
        let fetched = fetch_bytes(pull, order, first, serial).inspect_err(|_| pull.progress.cancel());
        // A failure here has cancelled the fetching, and is the reason of its failure.
        let digests = requested.map_or(Ok(Vec::new()), |request| request.join().unwrap_or_else(|_| Err(bug())))?;
        let mut sums = fetched?;
        sums.complete(pull.sink, &digests)?;
        Ok((sums, digests))
    })
}

fn fetch_bytes<'a>(
    pull: &Pull<'a>,
    order: &CopyRequest,
    first: CopyConnection<'a>,
    serial: &[Algorithm],
) -> Result<FileSums, Failure> {
    let (size, block) = match pull.file.size {
        Some(size) if size > 0 => (size, fetch_ranges(pull, order, first, size)?),
        // An empty file is requested as well: some servers answer HEAD with 0 if they do not know the size.
        _ => fetch_unknown_size(pull, first)?,
    };
    pull.progress.all_moved();
    let serial = match serial {
        [] => Vec::new(),
        // Read back from the page cache: the bytes arrived in parts, and these digests need them in order.
        serial => store::digest::of_file(&*pull.sink.as_source()?, &model::RelPath::root(), serial)?,
    };
    Ok(FileSums { size, block, serial })
}

/// The failure of a thread that panicked.
fn bug() -> Failure {
    Failure::new(Fault::Bug, 500, "the node failed while copying; its log says where")
}

/// Fetches a file of known size, over several connections if the source takes ranges.
fn fetch_ranges<'a>(
    pull: &Pull<'a>,
    order: &CopyRequest,
    first: CopyConnection<'a>,
    size: u64,
) -> Result<BlockSum, Failure> {
    let wanted = order.streams.map_or(CONNECTIONS.min(size / CONNECTION_BYTES), u64::from);
    let wanted = wanted.clamp(1, pull.connections_max);
    let connections = if pull.file.takes_ranges { wanted.min(size.div_ceil(1 << 20).max(1)) } else { 1 };
    let parts = RangeQueue::new(size, connections);
    let results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..connections).map(|_| scope.spawn(|| work(pull, &parts, None, connections))).collect();
        let own = work(pull, &parts, Some(first), connections);
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(bug())));
        let mut results: Vec<_> = joined.collect();
        results.insert(0, own);
        results
    });
    // The first failure cancels the other connections, so their own failures are not the reason.
    let failure = results.into_iter().filter_map(Result::err).min_by_key(Failure::is_temporary);
    // A source that broke the protocol is not trusted even if all bytes have arrived.
    if let Some(sum) = parts.whole(size).filter(|_| failure.as_ref().is_none_or(Failure::is_temporary)) {
        return Ok(sum);
    }
    Err(failure.unwrap_or_else(|| Failure::new(Fault::Path, 502, "the source sent fewer bytes than it announced")))
}

/// The work of one thread: part after part, with a new connection after each break.
fn work<'a>(
    pull: &Pull<'a>,
    parts: &RangeQueue,
    mut connection: Option<CopyConnection<'a>>,
    connections: u64,
) -> Result<(), Failure> {
    let mut breaks = 0;
    let mut last = u64::MAX;
    while let Some(task) = parts.take() {
        let result = match connection.take().map_or_else(|| connect(pull), Ok) {
            Ok(connection) => part(pull, parts, &task, connection, connections),
            Err(failure) => Err(failure),
        };
        match result {
            Ok(kept) => {
                connection = kept;
                breaks = 0;
            }
            Err(failure) => {
                parts.release(&task);
                let has_advanced = task.at != last;
                breaks = if has_advanced { 1 } else { breaks + 1 };
                last = task.at;
                // A source without ranges can only send the whole file again.
                let begun = pull.progress.bytes() > 0 && !pull.file.takes_ranges;
                if !failure.is_temporary() || breaks > BREAKS_MAX || pull.progress.is_cancelled() || begun {
                    pull.progress.cancel();
                    return Err(failure);
                }
                std::thread::sleep(Duration::from_millis(200 << breaks));
            }
        }
    }
    Ok(())
}

fn connect<'a>(pull: &Pull<'a>) -> Result<CopyConnection<'a>, Failure> {
    CopyConnection::dial(pull.dialer, &pull.file.url, pull.progress)
}

/// Fetches a part. Returns the connection if it can be used again.
fn part<'a>(
    pull: &Pull<'a>,
    parts: &RangeQueue,
    task: &RangeTask,
    connection: CopyConnection<'a>,
    connections: u64,
) -> Result<Option<CopyConnection<'a>>, Failure> {
    let whole = connections == 1 && task.at == 0;
    // Trailers are sent to clients that ask for them (RFC 9110, section 6.5.1).
    let mut headers = pull.file.headers.clone().with("TE", "trailers").with("Connection", "TE");
    if !whole {
        headers.add("Range", format!("bytes={}-{}", task.at, task.end - 1));
    }
    let GetResponse { mut connection, response, body, url } = fetch_from(pull, connection, headers)?;
    match response.status {
        200 if whole => {}
        206 if !whole => check_range(&response, task, pull.file)?,
        200 => {
            return Err(Failure::new(
                Fault::Peer,
                502,
                "the source takes no ranges, though its answer to HEAD says so",
            ));
        }
        _ => return Err(remote::refused(&mut connection.client, &response, body, "GET", &url, &pull.secrets)),
    }
    remote::check_coding(&response, &url, pull.has_stated_digest)?;
    // After a redirect the server that has the bytes may use other entity tags than the server that redirected.
    let moved_on = url.as_str() != pull.file.url.as_str();
    if !moved_on {
        check_unchanged(&response, pull.file)?;
    }
    let length = body.length();
    if length.is_some_and(|length| length != task.end - task.at) {
        let requested = task.end - task.at;
        let sends = length.unwrap_or(0);
        let text = format!("the source sends {sends} bytes where {requested} were requested");
        return Err(Failure::new(Fault::Peer, 502, text));
    }
    let reached = copy(pull, parts, task, &mut connection.client, body)?;
    let keeps = reached == task.end && !moved_on && !response.headers.lists("connection", "close");
    Ok(keeps.then_some(connection))
}

/// An answer to a GET, its connection, and its URL after redirects.
struct GetResponse<'a> {
    connection: CopyConnection<'a>,
    response: Response,
    body: Body,
    url: HttpUrl,
}

/// Sends a GET and follows redirects: the manager of a storage system redirects to the server that has the bytes.
fn fetch_from<'a>(
    pull: &Pull<'a>,
    mut connection: CopyConnection<'a>,
    mut headers: Headers,
) -> Result<GetResponse<'a>, Failure> {
    let mut url = pull.file.url.clone();
    for _ in 0..=REDIRECTS_MAX {
        connection.client.send(&Method::Get, url.path_and_query(), &headers)?;
        let (response, body) = connection.client.final_response(&Method::Get)?;
        let Some(to) = redirect(&response, &url) else { return Ok(GetResponse { connection, response, body, url }) };
        if url.is_secure() && !to.is_secure() {
            return Err(Failure::new(Fault::Auth, 403, "the source redirects from TLS to clear text"));
        }
        if !url.is_same_origin(&to) {
            headers = fields_for_other_servers(&headers);
        }
        url = to;
        connection = CopyConnection::dial(pull.dialer, &url, pull.progress)?;
    }
    Err(Failure::new(Fault::Peer, 508, "the source redirects in circles"))
}

fn check_range(response: &web::Response, task: &RangeTask, file: &RemoteFile) -> Result<(), Failure> {
    let range = response.headers.get("content-range").and_then(ContentRange::parse);
    match range {
        Some(ContentRange::Part(span, total))
            if span.start == task.at && span.end() == task.end && total.is_none_or(|t| Some(t) == file.size) =>
        {
            Ok(())
        }
        _ => Err(Failure::new(Fault::Peer, 502, "the source answers with another range than the one asked for")),
    }
}

/// Checks that the file has not changed at the source: parts of two versions must not be mixed.
fn check_unchanged(response: &web::Response, file: &RemoteFile) -> Result<(), Failure> {
    let now = response.headers.get("etag");
    match (&file.etag, now) {
        (Some(then), Some(now)) if then != now => {
            Err(Failure::new(Fault::Integrity, 409, "the file changed at the source while it was copied"))
        }
        _ => Ok(()),
    }
}

/// Writes the bytes of a part up to its current end: another connection may have taken the rest.
fn copy(
    pull: &Pull<'_>,
    parts: &RangeQueue,
    task: &RangeTask,
    client: &mut Client,
    mut body: web::Body,
) -> Result<u64, Failure> {
    buffer::with(|buffer| {
        let mut at = task.at;
        loop {
            let end = parts.end(task);
            if at >= end {
                // The length of a chunked body is known only at its end.
                if end == task.end && body.length().is_none() {
                    if client.read(&mut body, &mut buffer[..1])? > 0 {
                        return Err(Failure::new(Fault::Peer, 502, "the source sends more bytes than it announced"));
                    }
                    pull.read_trailers(&body, task.at == 0 && Some(task.end) == pull.file.size)?;
                }
                return Ok(at);
            }
            let most = (end - at).min(buffer.len() as u64) as usize;
            let filled = fill(pull, client, &mut body, &mut buffer[..most]);
            let got = *filled.as_ref().unwrap_or_else(|(got, _)| got);
            let piece = &buffer[..got];
            pull.sink.write_at(piece, at)?;
            parts.record(task, at, got as u64, BlockSum::of(piece, true));
            at += got as u64;
            match filled {
                Err((_, error)) => return Err(error),
                Ok(0) if at < end => {
                    return Err(Failure::new(Fault::Path, 502, "the source closed before all bytes came"));
                }
                Ok(_) => {}
            }
        }
    })
}

/// Fills the buffer unless the body ends before.
///
/// # Errors
/// The connection broke; the number is that of the bytes that arrived before.
fn fill(pull: &Pull<'_>, client: &mut Client, body: &mut Body, buffer: &mut [u8]) -> Result<usize, (usize, Failure)> {
    let mut filled = 0;
    while filled < buffer.len() {
        match client.read(body, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => {
                filled += got;
                // Counted as they arrive: a slow source does not count as stalled.
                pull.progress.add(got as u64);
            }
            Err(error) => return Err((filled, error.into())),
        }
    }
    Ok(filled)
}

/// Gets a file of unknown size over one connection, until the body ends.
fn fetch_unknown_size<'a>(pull: &Pull<'a>, connection: CopyConnection<'a>) -> Result<(u64, BlockSum), Failure> {
    let headers = pull.file.headers.clone().with("TE", "trailers").with("Connection", "TE");
    let GetResponse { mut connection, response, mut body, url } = fetch_from(pull, connection, headers)?;
    let client = &mut connection.client;
    if response.status != 200 {
        return Err(remote::refused(client, &response, body, "GET", &url, &pull.secrets));
    }
    remote::check_coding(&response, &url, pull.has_stated_digest)?;
    if body.ends_with_connection() && client.conn().tls().is_none() && !pull.has_stated_digest {
        let text = "the source does not state the length of its file, and over a connection in clear text a truncated file \
                    looks complete; a digest (Repr-Digest, or one of the source) or https would show it";
        return Err(Failure::new(Fault::Peer, 502, text));
    }
    let mut at = 0;
    let mut sum = BlockSum::of(&[], true);
    buffer::with(|buffer| {
        loop {
            let got = fill(pull, client, &mut body, buffer).map_err(|(_, failure)| failure)?;
            if got == 0 {
                pull.read_trailers(&body, true)?;
                return Ok((at, sum));
            }
            pull.sink.write_at(&buffer[..got], at)?;
            sum = sum.then(BlockSum::of(&buffer[..got], true), got as u64);
            at += got as u64;
        }
    })
}

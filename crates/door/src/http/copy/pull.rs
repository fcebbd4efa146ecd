//! Pull: the file of another server comes here, over several connections, each writing in place.

use std::time::Duration;

use auth::Action;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, Fault};
use store::Sink;
use web::copy::Order;
use web::range::ContentRange;
use web::{Client, Dialer, HttpUrl, Method};

use super::gauge::{Failure, Gauge, Line};
use super::ranges::{Parts, Task};
use super::remote::{self, Found, before};
use super::{accept, done, native, watch};
use crate::host::Reach;
use crate::http::digests::Stamp;
use crate::http::put::{self, Sums};
use crate::http::refused::{Outcome, Trouble, refuse};
use crate::http::visit::Visit;
use crate::http::{buffer, now};

/// A file is worth another connection from here on.
const CONNECTION_BYTES: u64 = 64 << 20;
/// Connections, where the client does not say how many.
const CONNECTIONS: u64 = 4;
/// Connections at most, whatever the client says.
const CONNECTIONS_MAX: u64 = 16;
/// Times that a connection may break without a byte in between.
const BREAKS_MAX: u32 = 4;

/// Everything that the threads of a pull share.
struct Job<'a> {
    dialer: &'a Dialer,
    found: &'a Found,
    sink: &'a dyn Sink,
    gauge: &'a Gauge,
}

/// Answers a COPY with a Source.
pub(crate) fn answer(visit: &mut Visit<'_>, order: &Order, source: &HttpUrl) -> Outcome {
    let Some((export, path)) = visit.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let reach = visit.reach(Action::Create, &export, &path)?;
    let there = put::target(visit, &reach, visit.target.is_dir)?;
    if there.is_some() {
        if !order.overwrite {
            return Err(refuse(
                412,
                format!("{} exists already, and the copy may not replace it (Overwrite: F)", visit.shown()),
            ));
        }
        visit.reach(Action::Overwrite, &export, &path)?;
    }
    let dialer = remote::dialer(visit, order);
    let found = remote::look(&dialer, order, source).map_err(before)?;
    let promised = expected(order, &found)?;
    put::room(&*reach.store, &reach.path, found.size.unwrap_or(0))?;
    let gauge = remote::gauge(visit, order, false);
    let mut accepted = false;
    if let Some(native) = native::Native::offered(&dialer, &found, false).filter(|_| order.repr_digest.is_none()) {
        accept(visit)?;
        accepted = true;
        if let Some(result) = natively(visit, &native, &reach, &gauge, order.overwrite)? {
            return done(visit, &gauge, result);
        }
    }
    let unfinished = put::begin(visit, &reach, found.size)?;
    let job = Job { dialer: &dialer, found: &found, sink: &*unfinished.0, gauge: &gauge };
    // The connection that the markers name is there before the first of them.
    let first = connect(&job).map_err(before)?;
    if !accepted {
        accept(visit)?;
    }
    let serial: Vec<Algorithm> = promised.iter().map(Digest::algorithm).filter(|a| a.is_serial()).collect();
    let fetched = watch::run(visit, &gauge, true, || fetch(&job, order, first, &serial))?;
    let result = fetched.and_then(|sums| {
        put::compare(&sums, &promised).map_err(|trouble| failed(trouble, Fault::Integrity))?;
        let placed = put::put_in_place(visit, &reach, &*unfinished.0, &sums, now(), order.overwrite);
        placed.map_err(|trouble| failed(trouble, Fault::Storage))?;
        Ok(sums.size)
    });
    // Before the last line, which tells the client that it may look.
    drop(unfinished);
    done(visit, &gauge, result)
}

/// By the native engine; none where that could not begin.
fn natively(
    visit: &mut Visit<'_>,
    native: &native::Native,
    reach: &Reach,
    gauge: &Gauge,
    overwrite: bool,
) -> Outcome<Option<Result<u64, Failure>>> {
    let context = native::Context::new(visit, reach);
    gauge.is_with(native.at());
    let moved = watch::run(visit, gauge, true, || {
        store::make_dirs(&*reach.store, &reach.path.parent())?;
        native.pull(&context, gauge, overwrite)
    })?;
    match moved {
        Ok(moved) => {
            let source = reach.store.open(&reach.path)?;
            let stat = source.stat()?;
            let stamp = Stamp { size: stat.meta.size, mtime: stat.meta.mtime, inode: stat.identity.1 };
            visit.web.digests.keep(&*source, stat.identity, stamp, &moved.digests);
            Ok(Some(Ok(moved.bytes)))
        }
        Err(failure) if native::may_fall_back(&failure, gauge) => {
            tracing::info!(error = failure.text, "the native copy could not begin; the copy goes over HTTP");
            Ok(None)
        }
        Err(failure) => Ok(Some(Err(failure))),
    }
}

/// A refusal of ours, once its status cannot be said any more.
fn failed(trouble: Trouble, fault: Fault) -> Failure {
    match trouble {
        Trouble::Refused(refused) => Failure::new(fault, refused.status, refused.reason.clone()),
        Trouble::Broken(error) => Failure::new(Fault::Local, 500, error.to_string()),
    }
}

/// The digests that the bytes must have: what the client knows, and what the source says.
fn expected(order: &Order, found: &Found) -> Outcome<Vec<Digest>> {
    let mut promised = found.digests.clone();
    if let Some(wanted) = order.repr_digest {
        if let Some(says) = found.digests.iter().find(|d| d.algorithm() == wanted.algorithm() && **d != wanted) {
            let reason = format!("checksum mismatch: the source has {says}, and Repr-Digest says {wanted}");
            return Err(refuse(412, reason));
        }
        promised.push(wanted);
    }
    if promised.is_empty() && order.require_checksum == Some(true) {
        let reason = "the source tells no checksum that this node can verify, and RequireChecksumVerification is true";
        return Err(refuse(412, reason));
    }
    if order.require_checksum == Some(false) {
        // The client compares by itself; what it said in so many words still holds.
        promised.retain(|digest| order.repr_digest == Some(*digest));
    }
    Ok(promised)
}

fn fetch<'a>(job: &Job<'a>, order: &Order, first: Line<'a>, serial: &[Algorithm]) -> Result<Sums, Failure> {
    let (size, block) = match job.found.size {
        Some(size) => (size, in_parts(job, order, first, size)?),
        None => of_unknown_size(job, first)?,
    };
    let serial = match serial {
        [] => Vec::new(),
        // Read back from the cache: bytes came in parts, and these digests want them in order.
        serial => store::digest::of_file(&*job.sink.as_source()?, &model::RelPath::root(), serial)?,
    };
    Ok(Sums { size, block, serial })
}

fn in_parts<'a>(job: &Job<'a>, order: &Order, first: Line<'a>, size: u64) -> Result<BlockSum, Failure> {
    let asked = order.streams.map_or(CONNECTIONS.min(size / CONNECTION_BYTES), u64::from).clamp(1, CONNECTIONS_MAX);
    let connections = if job.found.takes_ranges { asked.min(size.div_ceil(1 << 20).max(1)) } else { 1 };
    let parts = Parts::new(size, connections);
    let results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..connections).map(|_| scope.spawn(|| work(job, &parts, None, connections))).collect();
        let own = work(job, &parts, Some(first), connections);
        let bug = |_| Err(Failure::new(Fault::Bug, 500, "the node failed while copying; its log says where"));
        let mut results: Vec<_> = others.into_iter().map(|other| other.join().unwrap_or_else(bug)).collect();
        results.insert(0, own);
        results
    });
    if let Some(sum) = parts.whole(size) {
        return Ok(sum);
    }
    let failure = results.into_iter().find_map(Result::err);
    Err(failure.unwrap_or_else(|| Failure::new(Fault::Path, 502, "the source sent less than it said")))
}

/// One connection's work: part after part, over breaks of the line.
fn work<'a>(job: &Job<'a>, parts: &Parts, mut line: Option<Line<'a>>, connections: u64) -> Result<(), Failure> {
    let (mut breaks, mut last) = (0, u64::MAX);
    while let Some(task) = parts.take() {
        let result = match line.take().map_or_else(|| connect(job), Ok) {
            Ok(line) => part(job, parts, &task, line, connections),
            Err(failure) => Err(failure),
        };
        match result {
            Ok(kept) => (line, breaks) = (kept, 0),
            Err(failure) => {
                parts.give_back(&task);
                let came_further = task.at != last;
                (breaks, last) = (if came_further { 1 } else { breaks + 1 }, task.at);
                // Who takes no ranges can only send all of it again.
                let begun = job.gauge.bytes() > 0 && !job.found.takes_ranges;
                if !failure.passes() || breaks > BREAKS_MAX || job.gauge.is_cancelled() || begun {
                    job.gauge.cancel();
                    return Err(failure);
                }
                std::thread::sleep(Duration::from_millis(200 << breaks));
            }
        }
    }
    Ok(())
}

fn connect<'a>(job: &Job<'a>) -> Result<Line<'a>, Failure> {
    Line::dial(job.dialer, &job.found.url, job.gauge)
}

/// Fetches a part; gives the connection back if it can be used again.
fn part<'a>(
    job: &Job<'a>,
    parts: &Parts,
    task: &Task,
    mut line: Line<'a>,
    connections: u64,
) -> Result<Option<Line<'a>>, Failure> {
    let client = &mut line.client;
    let whole = connections == 1 && task.at == 0;
    let mut headers = job.found.headers.clone();
    if !whole {
        headers.add("Range", format!("bytes={}-{}", task.at, task.end - 1));
    }
    client.send(&Method::Get, job.found.url.path_and_query(), &headers)?;
    let (response, body) = client.answer(&Method::Get)?;
    match response.status {
        200 if whole => {}
        206 if !whole => check_range(&response, task, job.found)?,
        200 => return Err(Failure::new(Fault::Peer, 502, "the source takes no ranges, though it said so")),
        _ => return Err(remote::refused(client, &response, body, "GET", &job.found.url)),
    }
    unchanged(&response, job.found)?;
    let length = body.length();
    if length.is_some_and(|length| length != task.end - task.at) {
        let (said, sends) = (task.end - task.at, length.unwrap_or(0));
        return Err(Failure::new(Fault::Peer, 502, format!("the source sends {sends} bytes where {said} were due")));
    }
    let reached = copy(job, parts, task, client, body)?;
    let keeps = reached == task.end && !response.headers.lists("connection", "close");
    Ok(keeps.then_some(line))
}

fn check_range(response: &web::Response, task: &Task, found: &Found) -> Result<(), Failure> {
    let range = response.headers.get("content-range").and_then(ContentRange::parse);
    match range {
        Some(ContentRange::Part(span, total))
            if span.start == task.at && span.end() == task.end && total.is_none_or(|t| Some(t) == found.size) =>
        {
            Ok(())
        }
        _ => Err(Failure::new(Fault::Peer, 502, "the source answers with another range than the one asked for")),
    }
}

/// Parts of two versions make no file.
fn unchanged(response: &web::Response, found: &Found) -> Result<(), Failure> {
    let now = response.headers.get("etag");
    match (&found.etag, now) {
        (Some(then), Some(now)) if then != now => {
            Err(Failure::new(Fault::Integrity, 409, "the file changed at the source while it was copied"))
        }
        _ => Ok(()),
    }
}

/// Writes what comes, up to where the part ends by now: others may have taken its end.
fn copy(job: &Job<'_>, parts: &Parts, task: &Task, client: &mut Client, mut body: web::Body) -> Result<u64, Failure> {
    buffer::with(|buffer| {
        let mut at = task.at;
        loop {
            let end = parts.end(task);
            if at >= end {
                return Ok(at);
            }
            let most = (end - at).min(buffer.len() as u64) as usize;
            let filled = fill(client, &mut body, &mut buffer[..most]);
            let got = *filled.as_ref().unwrap_or_else(|(got, _)| got);
            let piece = &buffer[..got];
            job.sink.write_at(piece, at)?;
            parts.came(task, at, got as u64, BlockSum::of(piece, true));
            job.gauge.add(got as u64);
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

/// Fills the buffer as far as bytes come; what came before a break counts.
fn fill(client: &mut Client, body: &mut web::Body, buffer: &mut [u8]) -> Result<usize, (usize, Failure)> {
    let mut filled = 0;
    while filled < buffer.len() {
        match client.read(body, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) => return Err((filled, error.into())),
        }
    }
    Ok(filled)
}

/// A source that does not say how long its file is sends it over one connection, until it ends.
fn of_unknown_size(job: &Job<'_>, mut line: Line<'_>) -> Result<(u64, BlockSum), Failure> {
    let client = &mut line.client;
    client.send(&Method::Get, job.found.url.path_and_query(), &job.found.headers)?;
    let (response, mut body) = client.answer(&Method::Get)?;
    if response.status != 200 {
        return Err(remote::refused(client, &response, body, "GET", &job.found.url));
    }
    let (mut at, mut sum) = (0, BlockSum::of(&[], true));
    buffer::with(|buffer| {
        loop {
            let got = fill(client, &mut body, buffer).map_err(|(_, failure)| failure)?;
            if got == 0 {
                return Ok((at, sum));
            }
            job.sink.write_at(&buffer[..got], at)?;
            sum = sum.then(BlockSum::of(&buffer[..got], true), got as u64);
            job.gauge.add(got as u64);
            at += got as u64;
        }
    })
}

//! Pull: the file of another server comes here, over several connections, each writing in place.

use std::time::Duration;

use auth::Action;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, Fault, Kind};
use parking_lot::Mutex;
use serve::buffer;
use store::{Sink, Writes};
use web::client::{REDIRECTS_MAX, for_others, redirect};
use web::copy::Order;
use web::range::ContentRange;
use web::{Body, Client, Dialer, Headers, HttpUrl, Method, Response};

use super::gauge::{Failure, Gauge, Line};
use super::ranges::{Parts, Task};
use super::remote::{self, Found, before};
use super::{accept, done, early, native, watch};
use crate::access::ResolvedPath;
use crate::clock::now;
use crate::digests::Stamp;
use crate::http::get;
use crate::http::put::{self, Sums};
use crate::http::refused::{Outcome, Trouble, refuse};
use crate::http::request_context::RequestContext;
use crate::secrets::Secrets;

/// A file is worth another connection from here on.
const CONNECTION_BYTES: u64 = 64 << 20;
/// Connections, where the client does not say how many.
const CONNECTIONS: u64 = 4;
/// Times that a connection may break without a byte in between.
const BREAKS_MAX: u32 = 4;

/// Everything that the threads of a pull share.
struct Job<'a> {
    dialer: &'a Dialer,
    found: &'a Found,
    sink: &'a dyn Sink,
    gauge: &'a Gauge,
    secrets: Secrets,
    /// There is a digest that the bytes must have.
    has_promise: bool,
    /// Connections at most.
    most: u64,
    /// What the source said behind the bodies that it sent.
    trailers: Mutex<Headers>,
}

impl Job<'_> {
    /// A body is over: what comes behind it may say that it is not what it should be, or what it is.
    /// Digests behind a part are of the part.
    fn ends(&self, body: &Body, is_whole: bool) -> Result<(), Failure> {
        let trailers = body.trailers();
        // As xrootd says it, where it could not read on: the status was sent long before.
        if let Some(said) = trailers.get("x-transfer-status").filter(|said| !said.trim_start().starts_with("200")) {
            let quoted: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
            return Err(Failure::new(Fault::Peer, 502, format!("the source says at the end of its file: {quoted}")));
        }
        if !is_whole {
            return Ok(());
        }
        let mut all = self.trailers.lock();
        trailers.iter().for_each(|(name, value)| all.add(name, value));
        Ok(())
    }

    /// The digests of the whole file that came behind it.
    fn behind(&self) -> Vec<Digest> {
        let all = self.trailers.lock();
        remote::digests(&all)
    }
}

/// Where the file is to come, and what is there: all that can be refused before anybody is asked for it.
fn target(context: &RequestContext<'_>, order: &Order) -> Outcome<(ResolvedPath, Option<Kind>)> {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let reach = context.reach(Action::Create, &export, &path)?;
    let there = put::target(context, &reach, context.target.is_dir)?;
    if there.is_some() {
        if !order.overwrite {
            return Err(refuse(
                412,
                format!("{} exists already, and the copy may not replace it (Overwrite: F)", context.shown()),
            ));
        }
        context.reach(Action::Overwrite, &export, &path)?;
    }
    put::conditions(context, &reach, there.is_some())?;
    Ok((reach, there))
}

/// Answers a COPY with a Source.
pub(crate) fn answer(context: &mut RequestContext<'_>, order: &Order, source: &HttpUrl) -> Outcome {
    let (reach, there) = target(context, order)?;
    let said = remote::promised(context.request())?;
    let dialer = remote::dialer(context, order);
    let found = remote::look(&dialer, order, source, &said).map_err(before)?;
    let promised = expected(order, &found, &said)?;
    put::room(&*reach.store, &reach.path, found.size.unwrap_or(0))?;
    let gauge = remote::gauge(context, order, false);
    // The native way ends without another look at what they mean.
    let has_conditions = context.request().headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("if"));
    let mut accepted = false;
    if let Some(native) = native::Native::offered(&dialer, &found, false).filter(|_| said.is_empty() && !has_conditions)
    {
        accept(context)?;
        accepted = true;
        // As over HTTP: what came into this place meanwhile goes for nobody who may only create.
        let replace = order.overwrite && put::may_replace(context)?;
        if let Some(result) = natively(context, &native, &reach, &gauge, replace)? {
            return done(context, &gauge, result);
        }
    }
    let unfinished = match put::begin(context, &reach, found.size) {
        Ok(unfinished) => unfinished,
        Err(trouble) => return early(context, &gauge, accepted, failed(trouble, Fault::Storage)),
    };
    let (secrets, has_promise) = (remote::secrets(order), !promised.is_empty());
    // Where a file is taken in order, one connection brings it.
    let anywhere = reach.store.capabilities().writes == Writes::Anywhere;
    let most = if anywhere { context.web.rules.policy().third_party.max_streams.into() } else { 1 };
    let sink = &*unfinished.0;
    let trailers = Mutex::default();
    let job = Job { dialer: &dialer, found: &found, sink, gauge: &gauge, secrets, has_promise, most, trailers };
    // The connection that the markers name is there before the first of them.
    let first = match connect(&job) {
        Ok(first) => first,
        Err(failure) => return early(context, &gauge, accepted, failure),
    };
    if !accepted {
        accept(context)?;
    }
    let serial: Vec<Algorithm> = promised.iter().map(Digest::algorithm).filter(|a| a.is_serial()).collect();
    let fetched = watch::run(context, &gauge, true, || fetch(&job, order, first, &serial))?;
    let result = fetched.and_then(|mut sums| {
        let behind = if order.require_checksum == Some(false) { Vec::new() } else { job.behind() };
        sums.complete(sink, &behind)?;
        for promised in [&promised, &behind] {
            put::compare(&sums, promised).map_err(|trouble| failed(trouble, Fault::Integrity))?;
        }
        let place = || {
            let _turn = context.web.unfinished.turn(&reach);
            let is_there = get::kind(&reach)?.is_some();
            put::conditions(context, &reach, is_there)?;
            let replace = is_there && order.overwrite && (there.is_some() || put::may_replace(context)?);
            put::put_in_place(context, &reach, &*unfinished.0, &sums, now(), replace)
        };
        place().map_err(|trouble| failed(trouble, Fault::Storage))?;
        Ok(sums.size)
    });
    // Before the last line, which tells the client that it may look.
    drop(unfinished);
    done(context, &gauge, result)
}

/// By the native engine; none where that could not begin.
fn natively(
    context: &mut RequestContext<'_>,
    native: &native::Native,
    reach: &ResolvedPath,
    gauge: &Gauge,
    replace: bool,
) -> Outcome<Option<Result<u64, Failure>>> {
    let native_context = native::Context::new(context, reach);
    let moved = native::attempt(context, native, gauge, true, || {
        store::make_dirs(&*reach.store, &reach.path.parent())?;
        native.pull(&native_context, gauge, replace)
    })?;
    if let Some(Ok(moved)) = &moved
        && let Ok((stat, source)) = reach.store.open(&reach.path).and_then(|source| Ok((source.stat()?, source)))
    {
        let stamp = Stamp { size: stat.meta.size, mtime: stat.meta.mtime, inode: stat.identity.1 };
        context.web.services.digests.keep(&*source, stat.identity, stamp, &moved.digests);
    }
    Ok(moved.map(|result| result.map(|moved| moved.bytes)))
}

/// A refusal of ours, once its status cannot be said any more.
fn failed(trouble: Trouble, fault: Fault) -> Failure {
    match trouble {
        Trouble::Refused(refused) => Failure::new(fault, refused.status, refused.reason.clone()),
        Trouble::Broken(error) => Failure::new(Fault::Local, 500, error.to_string()),
    }
}

/// The digests that the bytes must have: what the client knows, and what the source says.
fn expected(order: &Order, found: &Found, said: &[Digest]) -> Outcome<Vec<Digest>> {
    let mut promised = found.digests.clone();
    for wanted in said {
        if let Some(says) = found.digests.iter().find(|d| d.algorithm() == wanted.algorithm() && *d != wanted) {
            let reason = format!("checksum mismatch: the source has {says}, and the request says {wanted}");
            return Err(refuse(412, reason));
        }
        promised.push(*wanted);
    }
    if promised.is_empty() && order.require_checksum == Some(true) {
        let reason = "the source tells no checksum that this node can verify, and RequireChecksumVerification is true";
        return Err(refuse(412, reason));
    }
    if order.require_checksum == Some(false) {
        // The client compares by itself; what it said in so many words still holds.
        promised.retain(|digest| said.contains(digest));
    }
    Ok(promised)
}

fn fetch<'a>(job: &Job<'a>, order: &Order, first: Line<'a>, serial: &[Algorithm]) -> Result<Sums, Failure> {
    let (size, block) = match job.found.size {
        Some(size) if size > 0 => (size, in_parts(job, order, first, size)?),
        // Of an empty file too the source is asked: some say 0 to HEAD where they do not know.
        _ => of_unknown_size(job, first)?,
    };
    job.gauge.all_moved();
    let serial = match serial {
        [] => Vec::new(),
        // Read back from the cache: bytes came in parts, and these digests want them in order.
        serial => store::digest::of_file(&*job.sink.as_source()?, &model::RelPath::root(), serial)?,
    };
    Ok(Sums { size, block, serial })
}

fn in_parts<'a>(job: &Job<'a>, order: &Order, first: Line<'a>, size: u64) -> Result<BlockSum, Failure> {
    let asked = order.streams.map_or(CONNECTIONS.min(size / CONNECTION_BYTES), u64::from).clamp(1, job.most);
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
    // The first to fail ends the others: what broke them is not the reason.
    let failure = results.into_iter().filter_map(Result::err).min_by_key(Failure::passes);
    // Somebody who lied is not believed although all bytes are there.
    if let Some(sum) = parts.whole(size).filter(|_| failure.as_ref().is_none_or(Failure::passes)) {
        return Ok(sum);
    }
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
    line: Line<'a>,
    connections: u64,
) -> Result<Option<Line<'a>>, Failure> {
    let whole = connections == 1 && task.at == 0;
    // What is behind a body is sent to those who ask for it (RFC 9110, section 6.5.1).
    let mut headers = job.found.headers.clone().with("TE", "trailers").with("Connection", "TE");
    if !whole {
        headers.add("Range", format!("bytes={}-{}", task.at, task.end - 1));
    }
    let Got { mut line, response, body, url } = fetch_from(job, line, headers)?;
    match response.status {
        200 if whole => {}
        206 if !whole => check_range(&response, task, job.found)?,
        200 => return Err(Failure::new(Fault::Peer, 502, "the source takes no ranges, though it said so")),
        _ => return Err(remote::refused(&mut line.client, &response, body, "GET", &url, &job.secrets)),
    }
    remote::uncoded(&response, &url, job.has_promise)?;
    // Who keeps the bytes may tag them otherwise than who keeps the names.
    let moved_on = url.as_str() != job.found.url.as_str();
    if !moved_on {
        unchanged(&response, job.found)?;
    }
    let length = body.length();
    if length.is_some_and(|length| length != task.end - task.at) {
        let (said, sends) = (task.end - task.at, length.unwrap_or(0));
        return Err(Failure::new(Fault::Peer, 502, format!("the source sends {sends} bytes where {said} were due")));
    }
    let reached = copy(job, parts, task, &mut line.client, body)?;
    let keeps = reached == task.end && !moved_on && !response.headers.lists("connection", "close");
    Ok(keeps.then_some(line))
}

/// An answer to a GET, and where it came from.
struct Got<'a> {
    line: Line<'a>,
    response: Response,
    body: Body,
    url: HttpUrl,
}

/// Sends a GET, and goes where it is sent: doors that know of a file themselves send on whoever wants its bytes.
fn fetch_from<'a>(job: &Job<'a>, mut line: Line<'a>, mut headers: Headers) -> Result<Got<'a>, Failure> {
    let mut url = job.found.url.clone();
    for _ in 0..=REDIRECTS_MAX {
        line.client.send(&Method::Get, url.path_and_query(), &headers)?;
        let (response, body) = line.client.answer(&Method::Get)?;
        let Some(to) = redirect(&response, &url) else { return Ok(Got { line, response, body, url }) };
        if url.is_secure() && !to.is_secure() {
            return Err(Failure::new(Fault::Auth, 403, "the source redirects from TLS to a clear line"));
        }
        if !url.is_same_origin(&to) {
            headers = for_others(&headers);
        }
        url = to;
        line = Line::dial(job.dialer, &url, job.gauge)?;
    }
    Err(Failure::new(Fault::Peer, 508, "the source redirects in circles"))
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
                // Chunks say only at their end how many there are.
                if end == task.end && body.length().is_none() {
                    if client.read(&mut body, &mut buffer[..1])? > 0 {
                        return Err(Failure::new(Fault::Peer, 502, "the source sends more bytes than it said"));
                    }
                    job.ends(&body, task.at == 0 && Some(task.end) == job.found.size)?;
                }
                return Ok(at);
            }
            let most = (end - at).min(buffer.len() as u64) as usize;
            let filled = fill(job, client, &mut body, &mut buffer[..most]);
            let got = *filled.as_ref().unwrap_or_else(|(got, _)| got);
            let piece = &buffer[..got];
            job.sink.write_at(piece, at)?;
            parts.came(task, at, got as u64, BlockSum::of(piece, true));
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
fn fill(job: &Job<'_>, client: &mut Client, body: &mut Body, buffer: &mut [u8]) -> Result<usize, (usize, Failure)> {
    let mut filled = 0;
    while filled < buffer.len() {
        match client.read(body, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => {
                filled += got;
                // As they come: a slow source is not one that stalls.
                job.gauge.add(got as u64);
            }
            Err(error) => return Err((filled, error.into())),
        }
    }
    Ok(filled)
}

/// A source that does not say how long its file is sends it over one connection, until it ends.
fn of_unknown_size<'a>(job: &Job<'a>, line: Line<'a>) -> Result<(u64, BlockSum), Failure> {
    let headers = job.found.headers.clone().with("TE", "trailers").with("Connection", "TE");
    let Got { mut line, response, mut body, url } = fetch_from(job, line, headers)?;
    let client = &mut line.client;
    if response.status != 200 {
        return Err(remote::refused(client, &response, body, "GET", &url, &job.secrets));
    }
    remote::uncoded(&response, &url, job.has_promise)?;
    if body.ends_with_line() && client.conn().tls().is_none() && !job.has_promise {
        let text = "the source does not say how long its file is, and over a line in clear a file that was cut short looks \
                    whole; a digest (Repr-Digest, or one that the source tells) or https would show it";
        return Err(Failure::new(Fault::Peer, 502, text));
    }
    let (mut at, mut sum) = (0, BlockSum::of(&[], true));
    buffer::with(|buffer| {
        loop {
            let got = fill(job, client, &mut body, buffer).map_err(|(_, failure)| failure)?;
            if got == 0 {
                job.ends(&body, true)?;
                return Ok((at, sum));
            }
            job.sink.write_at(&buffer[..got], at)?;
            sum = sum.then(BlockSum::of(&buffer[..got], true), got as u64);
            at += got as u64;
        }
    })
}

//! GET and HEAD: a file, whole or in parts; a directory as a page for people.

use std::sync::Arc;

use auth::Action;
use model::{Kind, RelPath};
use serve::Length;
use store::{Source, Stat};
use web::conditions::{Conditions, Current, Verdict};
use web::range::{self, ContentRange, Multipart, ResolvedRanges, Span};
use web::{Headers, Method, Request, Response, date};

use super::etag::etag;
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::RequestContext;
use super::{now, page, want_digest};

/// The media type of a file whose suffix has no other.
const FILE_TYPE: &str = "application/octet-stream";
/// The policy for a browser that displays an uploaded file: no script runs.
const NO_SCRIPTS_POLICY: &str =
    "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'";

/// Bodies from this length on are faster without HTTP/2, which cuts them into frames and counts windows.
const BULK_BYTES: u64 = 8 << 20;
/// A connection of HTTP/2 that has sent this many bytes is one that many files come over: the next ones are faster without it, too. The change
/// costs some round trips.
const BULK_CONNECTION_BYTES: u64 = 64 << 20;

/// Entity tag and time of an entry, for conditions.
pub(crate) fn current(stat: &Stat) -> Current {
    Current { etag: Some(etag(stat)), modified: Some(stat.meta.mtime) }
}

/// Evaluates the conditions of a request against the current entry.
pub(crate) fn evaluate(request: &Request, reading: bool, current: Option<&Current>) -> Verdict {
    let joined = |name: &str| {
        let values: Vec<&str> = request.headers.all(name).collect();
        (!values.is_empty()).then(|| values.join(","))
    };
    let (if_match, if_none_match) = (joined("if-match"), joined("if-none-match"));
    let conditions = Conditions {
        if_match: if_match.as_deref(),
        if_none_match: if_none_match.as_deref(),
        if_modified_since: request.headers.get("if-modified-since"),
        if_unmodified_since: request.headers.get("if-unmodified-since"),
    };
    conditions.evaluate(reading, current)
}

/// Whether a browser would run scripts in a file of this media type.
fn is_active(kind: &str) -> bool {
    ["text/html", "text/xml", "application/xml"].contains(&kind) || kind.ends_with("+xml")
}

/// The media type of a file, by the suffix of its name.
pub(crate) fn content_type(path: &RelPath) -> &'static str {
    let name = path.name().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).unwrap_or_default();
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending);
    match ending {
        // RFC 4047; the library does not know these suffixes.
        Some(ending) if ["fits", "fit", "fts"].iter().any(|known| ending.eq_ignore_ascii_case(known)) => {
            "application/fits"
        }
        Some(ending) => mime_guess::from_ext(ending).first_raw().unwrap_or(FILE_TYPE),
        None => FILE_TYPE,
    }
}

/// The fields of an answer that describe a file.
fn file_fields(stat: &Stat) -> Headers {
    Headers::new()
        .with("Accept-Ranges", "bytes")
        .with("ETag", etag(stat).to_string())
        .with("Last-Modified", date::http(stat.meta.mtime))
}

/// Answers GET and HEAD.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return page::exports(context) };
    // HEAD needs only the right to stat.
    let reading = context.request().method == Method::Get;
    let action = match (reading, context.target.is_dir) {
        (false, _) => Action::Stat,
        // The right to list does not include the right to read.
        (true, true) => Action::List,
        (true, false) => Action::Read,
    };
    let resolved = context.resolve(action, &export, &path)?;
    if resolved.store.is_dir(&resolved.path) {
        // The client is a node that copies files: the page of a directory is not a file.
        if context.request().headers.get("longhaul-offer").is_some() {
            return Err(refuse(409, format!("{} is a directory; files are copied one by one", context.shown_target())));
        }
        return page::directory(context, &*resolved.store, &resolved.path);
    }
    if context.target.is_dir {
        return Err(refuse(
            404,
            format!("{} is not a directory, but the path ends with a slash", context.shown_target()),
        ));
    }
    let source = resolved.store.open(&resolved.path)?;
    let stat = source.stat()?;
    let file = OpenFile { source, stat, path: resolved.path };
    let mut headers = file_fields(&file.stat);
    match evaluate(context.request(), true, Some(&current(&file.stat))) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            let response = Response { headers, ..Response::new(304) };
            context.exchange.begin(response, Length::Known(0))?;
            context.exchange.end(&Headers::new())?;
            return Ok(RequestOutcome { status: 304, bytes: 0 });
        }
        Verdict::Failed => {
            return Err(refuse(412, "If-Match or If-Unmodified-Since does not hold for the current file"));
        }
    }
    context.add_fingerprint(&mut headers);
    want_digest::add_digest(
        &context.service.services.digests,
        &*context.exchange,
        &file.source,
        &file.path,
        &mut headers,
    )?;
    send(context, &file, headers)
}

/// A file that is open for an answer.
struct OpenFile {
    source: Arc<dyn Source>,
    stat: Stat,
    path: RelPath,
}

/// The ranges of a file that a request asks for.
fn requested_ranges(request: &Request, stat: &Stat) -> ResolvedRanges {
    // Ranges are for GET only (RFC 9110, section 14.2); HEAD has the answer of a GET without them.
    let ranges = request.headers.get("range").filter(|_| request.method == Method::Get);
    let if_range_holds = || {
        let if_range = request.headers.get("if-range");
        if_range.is_none_or(|value| range::if_range_holds(value, Some(&etag(stat)), Some(stat.meta.mtime), now()))
    };
    match ranges.and_then(range::parse) {
        Some(specs) if if_range_holds() => range::resolve(&specs, stat.meta.size),
        _ => ResolvedRanges::Whole,
    }
}

fn send(context: &mut RequestContext<'_>, file: &OpenFile, mut headers: Headers) -> Outcome {
    let size = file.stat.meta.size;
    headers.add("X-Content-Type-Options", "nosniff");
    if is_active(content_type(&context.target.path)) {
        headers.add("Content-Security-Policy", NO_SCRIPTS_POLICY);
    }
    let ranges = requested_ranges(context.request(), &file.stat);
    // The flow ends when the answer has been sent.
    let _flow = (!matches!(ranges, ResolvedRanges::Unsatisfiable)).then(|| context.begin_flow(true));
    match ranges {
        // Too many ranges are answered with the whole file: after a 416 davix returns an empty body without an error; after a 200
        // it asks for one range after the other.
        ResolvedRanges::Whole | ResolvedRanges::Excessive => {
            headers.add("Content-Type", content_type(&context.target.path));
            whole(context, file, headers)
        }
        ResolvedRanges::Parts(spans) => match spans.as_slice() {
            [span] => {
                headers.add("Content-Type", content_type(&context.target.path));
                headers.add("Content-Range", ContentRange::Part(*span, Some(size)).to_string());
                part(context, file, 206, headers, *span)
            }
            spans => parts(context, file, headers, spans),
        },
        ResolvedRanges::Unsatisfiable => Err(unsatisfiable(size, "the file has no byte in the range asked for")),
    }
}

fn unsatisfiable(size: u64, reason: &str) -> super::refused::RequestFailure {
    Refused::new(416, reason).with("Content-Range", ContentRange::Unsatisfied(size).to_string()).into()
}

fn whole(context: &mut RequestContext<'_>, file: &OpenFile, headers: Headers) -> Outcome {
    let span = Span { start: 0, len: file.stat.meta.size };
    if wants_trailer(context.request()) {
        return with_trailer(context, file, headers, span);
    }
    part(context, file, 200, headers, span)
}

fn part(context: &mut RequestContext<'_>, file: &OpenFile, status: u16, headers: Headers, span: Span) -> Outcome {
    let is_bulk = span.len >= BULK_BYTES || context.exchange.bytes_sent_by_connection() >= BULK_CONNECTION_BYTES;
    if is_bulk && context.request().method == Method::Get && context.exchange.leave_to_http1() {
        return Ok(RequestOutcome { status: 307, bytes: 0 });
    }
    context.exchange.begin(Response { headers, ..Response::new(status) }, Length::Known(span.len))?;
    let bytes = if context.request().method == Method::Get { span.len } else { 0 };
    if bytes > 0 {
        context.send(&*file.source, span.start, bytes)?;
    }
    context.exchange.end(&Headers::new())?;
    if status == 200 && context.request().method == Method::Get {
        context.meter.file_sent();
    }
    Ok(RequestOutcome { status, bytes })
}

fn parts(context: &mut RequestContext<'_>, file: &OpenFile, mut headers: Headers, spans: &[Span]) -> Outcome {
    let kind = content_type(&context.target.path);
    let frame = Multipart::new(&context.service.boundary(), kind, file.stat.meta.size);
    let length = frame.len(spans).ok_or_else(|| refuse(416, "the ranges together are longer than any answer"))?;
    headers.add("Content-Type", frame.content_type());
    context.exchange.begin(Response { headers, ..Response::new(206) }, Length::Known(length))?;
    let mut bytes = 0;
    for span in spans {
        context.exchange.write(frame.head(*span).as_bytes())?;
        context.send(&*file.source, span.start, span.len)?;
        bytes += span.len;
    }
    context.exchange.write(frame.tail().as_bytes())?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 206, bytes })
}

/// Whether the client asks for a status in the trailers (xrootd's `X-Transfer-Status`).
fn wants_trailer(request: &Request) -> bool {
    request.headers.lists("te", "trailers")
        && request.headers.get("x-transfer-status").is_some_and(|v| v.eq_ignore_ascii_case("true"))
        && request.method == Method::Get
        && request.minor == 1
}

fn with_trailer(context: &mut RequestContext<'_>, file: &OpenFile, mut headers: Headers, span: Span) -> Outcome {
    headers.add("Trailer", "X-Transfer-Status");
    context.exchange.begin(Response { headers, ..Response::new(200) }, Length::Open)?;
    let sent = context.send(&*file.source, span.start, span.len);
    let status_text = match &sent {
        Ok(()) => "200: OK".to_owned(),
        Err(error) => format!("500: {error}"),
    };
    context.exchange.end(&Headers::new().with("X-Transfer-Status", status_text))?;
    sent?;
    context.meter.file_sent();
    Ok(RequestOutcome { status: 200, bytes: span.len })
}

/// The kind of an entry, links to directories followed; none if it does not exist.
pub(crate) fn kind(resolved: &crate::access::ResolvedPath) -> Outcome<Option<Kind>> {
    if resolved.store.is_dir(&resolved.path) {
        return Ok(Some(Kind::Dir));
    }
    match resolved.store.stat(&resolved.path) {
        Ok(stat) => Ok(Some(stat.meta.kind)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

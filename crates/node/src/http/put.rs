//! PUT: every check is made before a client that waits for `100 Continue` sends its body. The bytes are stored under a temporary
//! name; only a complete file gets its final name.

use auth::Action;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, Kind, Timestamp};
use serve::Length;
use serve::buffer;
use store::Sink;
use web::conditions::Verdict;
use web::form::Parts;
use web::{Headers, Request, Response, digest};

use super::get::{current, evaluate};
use super::refused::{Outcome, Refused, RequestOutcome, cut_short, refuse};
use super::request_context::RequestContext;
use super::{get, now};
use crate::access::ResolvedPath;
use crate::new_file::{self, FILE_MODE, FileSums, ListedSink, check_room};

/// Answers PUT.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let resolved = context.resolve(Action::Create, &export, &path)?;
    let existing = existing_target(context, &resolved, context.target.is_dir)?;
    if existing.is_some() {
        context.resolve(Action::Overwrite, &export, &path)?;
    }
    conditions(context, &resolved, existing.is_some())?;
    check(context.request())?;
    let length = context.exchange.body_length();
    check_room(&*resolved.store, &resolved.path, length.unwrap_or(0))?;
    let mut stated = stated_digests(&context.request().headers)?;
    let unfinished = begin(context, &resolved, length)?;
    let flow = context.begin_flow(false);
    let mut sums =
        receive(context, &*unfinished.0, &stated, &mut |context, into| context.exchange.read(into).map_err(cut_short))?;
    flow.end();
    let in_trailers = stated_digests(&context.exchange.trailers())?;
    sums.complete(&*unfinished.0, &in_trailers)?;
    stated.extend(in_trailers);
    let (headers, replaced) = finish(context, &resolved, &*unfinished.0, &sums, &stated, existing.is_some())?;
    let status = if replaced { 204 } else { 201 };
    context.meter.file_received();
    context.exchange.begin(Response { headers, ..Response::new(status) }, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status, bytes: sums.size })
}

/// Evaluates the conditions of the request against the current entry.
pub(crate) fn conditions(context: &RequestContext<'_>, resolved: &ResolvedPath, is_there: bool) -> Outcome<()> {
    context.evaluate_if()?;
    // An entry that this node may not open exists nevertheless.
    let open_stat = || resolved.store.open(&resolved.path).and_then(|source| source.stat());
    let stat = is_there.then(|| open_stat().or_else(|_| resolved.store.stat(&resolved.path)).ok()).flatten();
    match evaluate(context.request(), false, stat.map(|stat| current(&stat)).as_ref()) {
        Verdict::Proceed => Ok(()),
        _ => Err(refuse(412, "If-Match or If-None-Match does not hold for the current entry")),
    }
}

/// Whether the principal may replace an entry that has appeared at the target meanwhile.
pub(crate) fn may_replace(context: &RequestContext<'_>) -> Outcome<bool> {
    let Some((export, path)) = context.place()? else { return Ok(false) };
    Ok(context.resolve(Action::Overwrite, &export, &path).is_ok())
}

/// The kind of the existing entry at the target, if any.
///
/// # Errors
/// A file cannot replace that entry.
pub(crate) fn existing_target(
    context: &RequestContext<'_>,
    resolved: &ResolvedPath,
    names_dir: bool,
) -> Outcome<Option<Kind>> {
    let shown = context.shown_target();
    if names_dir || resolved.path.is_root() {
        return Err(refuse(409, format!("{shown} names a directory; a file needs a name of its own")));
    }
    match get::kind(resolved)? {
        Some(Kind::Dir) => Err(refuse(409, format!("{shown} is a directory"))),
        Some(Kind::Special) => Err(refuse(409, format!("{shown} is a FIFO, socket or device"))),
        other => Ok(other),
    }
}

/// Checks that the request has neither a range nor a content coding.
///
/// # Errors
/// It has one of them.
pub(crate) fn check(request: &Request) -> Outcome<()> {
    // RFC 9110, section 14.5: a server without partial PUT refuses it; otherwise a part would be stored as the whole file.
    if request.headers.get("content-range").is_some() {
        return Err(refuse(400, "a part of a file cannot be put (Content-Range); send all of it"));
    }
    if request.headers.get("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(refuse(415, "files are stored as they are sent; send this one without Content-Encoding"));
    }
    Ok(())
}

/// The digests that a client promises, in the head or the trailers. Unknown algorithms are ignored; a malformed digest of a known
/// algorithm is refused, because the client would assume that it was verified.
pub(crate) fn stated_digests(headers: &Headers) -> Outcome<Vec<Digest>> {
    let md5 = headers.all("content-md5").find(|value| digest::parse_content_md5(value).is_none());
    let damaged = digest::first_malformed(headers.all("digest")).or(md5);
    let damaged = damaged.or_else(|| {
        ["repr-digest", "content-digest"].iter().find_map(|n| digest::repr::first_malformed(headers.all(n)))
    });
    let damaged = damaged.or_else(|| headers.all("oc-checksum").find_map(digest::first_malformed_oc));
    if let Some(damaged) = damaged {
        let shown = model::name::show_bytes(damaged.as_bytes());
        return Err(refuse(400, format!("the digest {shown} is not valid; send it whole, or leave it out")));
    }
    let mut stated = digest::parse(headers.all("digest"));
    stated.extend(digest::repr::parse(headers.all("repr-digest")));
    // The content is the file itself, since codings and parts have been refused.
    stated.extend(digest::repr::parse(headers.all("content-digest")));
    stated.extend(headers.get("content-md5").and_then(digest::parse_content_md5));
    stated.extend(headers.all("oc-checksum").flat_map(digest::parse_oc));
    Ok(stated)
}

/// Stores a part of a form as a new file; returns its bytes.
pub(crate) fn receive_part(
    context: &mut RequestContext<'_>,
    resolved: &ResolvedPath,
    parts: &mut Parts,
) -> Outcome<u64> {
    check_room(&*resolved.store, &resolved.path, 0)?;
    let unfinished = begin(context, resolved, None)?;
    let sums = receive(context, &*unfinished.0, &[], &mut |context, into| {
        parts.read(into, &mut |more: &mut [u8]| context.exchange.read(more).map_err(cut_short))
    })?;
    let _name_lock = context.service.services.unfinished.lock_name(resolved);
    commit(context, resolved, &*unfinished.0, &sums, now(), false)?;
    Ok(sums.size)
}

/// Reads more bytes of a file; 0 at its end.
type ReadBody<'a> = &'a mut dyn FnMut(&mut RequestContext<'_>, &mut [u8]) -> Outcome<usize>;

/// Appends the body to a file. `sums` holds what was received, after a failure as well.
pub(crate) fn append_body(context: &mut RequestContext<'_>, sink: &dyn Sink, sums: &mut FileSums) -> Outcome<()> {
    buffer::with(|buffer| -> Outcome<()> {
        loop {
            let got = fill(context, buffer, &mut |context, into| context.exchange.read(into).map_err(cut_short))?;
            if got == 0 {
                return Ok(());
            }
            let piece = &buffer[..got];
            sink.write_at(piece, sums.size)?;
            context.meter.received(got as u64);
            sums.block = sums.block.then(BlockSum::of(piece, true), got as u64);
            sums.size += got as u64;
        }
    })
}

/// Creates a file under a temporary name, with the directories above it and reserved space.
pub(crate) fn begin(context: &RequestContext<'_>, resolved: &ResolvedPath, length: Option<u64>) -> Outcome<ListedSink> {
    Ok(new_file::begin(&context.service.services.unfinished, resolved, length)?)
}

fn receive(
    context: &mut RequestContext<'_>,
    sink: &dyn Sink,
    stated: &[Digest],
    read: ReadBody<'_>,
) -> Outcome<FileSums> {
    let serial: Vec<Algorithm> = stated.iter().map(Digest::algorithm).filter(|a| a.is_serial()).collect();
    let mut in_order = store::digest::SerialDigests::new(&serial);
    let mut size = 0;
    let mut block = BlockSum::of(&[], true);
    buffer::with(|buffer| -> Outcome<()> {
        loop {
            let got = fill(context, buffer, read)?;
            if got == 0 {
                return Ok(());
            }
            let piece = &buffer[..got];
            context.meter.received(got as u64);
            block = block.then(BlockSum::of(piece, true), got as u64);
            in_order.feed(size, piece);
            sink.write_at(piece, size)?;
            size += got as u64;
        }
    })?;
    Ok(FileSums { size, block, serial: in_order.finish(size).unwrap_or_default() })
}

/// Fills the buffer unless the body ends before, so that writes are large and aligned.
fn fill(context: &mut RequestContext<'_>, buffer: &mut [u8], read: ReadBody<'_>) -> Outcome<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(context, &mut buffer[filled..])? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

/// Compares the computed digests with the stated ones.
pub(crate) fn compare(sums: &FileSums, stated: &[Digest]) -> Outcome<()> {
    let made = sums.digests();
    for wanted in stated {
        if let Some(have) = made.iter().find(|have| have.algorithm() == wanted.algorithm() && *have != wanted) {
            let reason = format!("checksum mismatch: the received bytes have {have}, and should have {wanted}");
            return Err(Refused::new(400, reason).into());
        }
    }
    Ok(())
}

/// Gives a complete file its final name, if it has the stated digests and the conditions still hold. Returns the fields of the
/// answer, and whether the file replaced another.
///
/// # Errors
/// A digest differs, a condition no longer holds, or the store cannot commit the file.
pub(crate) fn finish(
    context: &RequestContext<'_>,
    resolved: &ResolvedPath,
    sink: &dyn Sink,
    sums: &FileSums,
    stated: &[Digest],
    was_there: bool,
) -> Outcome<(Headers, bool)> {
    compare(sums, stated).inspect_err(|_| context.service.services.meters.damaged())?;
    // Of concurrent PUTs with the same condition one succeeds.
    let _name_lock = context.service.services.unfinished.lock_name(resolved);
    let is_there = get::kind(resolved)?.is_some();
    conditions(context, resolved, is_there)?;
    let replace = is_there && (was_there || may_replace(context)?);
    // ownCloud's field, which rclone and others send.
    let client_mtime = context.request().headers.get("x-oc-mtime").and_then(|text| text.trim().parse::<i64>().ok());
    let mtime = client_mtime.map_or_else(now, |seconds| Timestamp { seconds, nanos: 0 });
    let mut headers = commit(context, resolved, sink, sums, mtime, replace)?;
    if client_mtime.is_some() {
        headers.add("X-OC-Mtime", "accepted");
    }
    Ok((headers, is_there))
}

/// Gives a file its final name and keeps its digests. `replace` allows it to replace an entry of that name. Returns the fields of the answer.
pub(crate) fn commit(
    context: &RequestContext<'_>,
    resolved: &ResolvedPath,
    sink: &dyn Sink,
    sums: &FileSums,
    mtime: Timestamp,
    replace: bool,
) -> Outcome<Headers> {
    let digests = &context.service.services.digests;
    let finish = new_file::finish(sums.size, FILE_MODE, mtime, replace);
    let committed = new_file::commit(digests, resolved, sink, &finish, &sums.digests())?;
    let tag = web::conditions::ETag::of_file(committed.inode, sums.size, committed.mtime);
    Ok(Headers::new().with("ETag", tag.to_string()).with("Last-Modified", web::date::http(committed.mtime)))
}

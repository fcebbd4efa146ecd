//! PUT: all is decided before a client that waits for a word sends its body; the bytes go under a temporary name, and only
//! what arrived whole gets the final one.

use std::sync::Arc;

use auth::Action;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, Kind, RelPath, Timestamp};
use serve::Length;
use serve::buffer;
use store::{Coming, Finish, Sink, Store};
use web::conditions::Verdict;
use web::form::Parts;
use web::{Headers, Request, Response, digest};

use super::get::{current, judge};
use super::refused::{Done, Outcome, Refused, cut_short, refuse};
use super::request_context::RequestContext;
use super::unfinished::Tag;
use super::{dead, get, now};
use crate::access::ResolvedPath;
use crate::digests::Stamp;

/// The mode of a file that comes without one.
pub(crate) const FILE_MODE: u32 = 0o644;
/// From here on room is reserved before the first byte.
const RESERVED_FROM: u64 = 1 << 20;

/// Answers PUT.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let reach = context.reach(Action::Create, &export, &path)?;
    let there = target(context, &reach, context.target.is_dir)?;
    if there.is_some() {
        context.reach(Action::Overwrite, &export, &path)?;
    }
    conditions(context, &reach, there.is_some())?;
    check(context.request())?;
    let length = context.exchange.body_length();
    room(&*reach.store, &reach.path, length.unwrap_or(0))?;
    let mut promised = promised(&context.request().headers)?;
    let unfinished = begin(context, &reach, length)?;
    let flying = context.fly(false);
    let mut sums = receive(context, &*unfinished.0, &promised, &mut |context, into| {
        context.exchange.read(into).map_err(cut_short)
    })?;
    flying.end();
    let said_last = self::promised(&context.exchange.trailers())?;
    sums.complete(&*unfinished.0, &said_last)?;
    promised.extend(said_last);
    let (headers, replaced) = finish(context, &reach, &*unfinished.0, &sums, &promised, there.is_some())?;
    let status = if replaced { 204 } else { 201 };
    context.moving.file_came();
    context.exchange.begin(Response { headers, ..Response::new(status) }, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(Done { status, bytes: sums.size })
}

/// What is there has to be what the conditions of the request mean.
pub(crate) fn conditions(context: &RequestContext<'_>, reach: &ResolvedPath, is_there: bool) -> Outcome<()> {
    context.judge_if()?;
    // What this node may not read is there all the same.
    let look = || reach.store.open(&reach.path).and_then(|source| source.stat());
    let stat = is_there.then(|| look().or_else(|_| reach.store.stat(&reach.path)).ok()).flatten();
    match judge(context.request(), false, stat.map(|stat| current(&stat)).as_ref()) {
        Verdict::Proceed => Ok(()),
        _ => Err(refuse(412, "what is there is not what If-Match or If-None-Match mean")),
    }
}

/// Whether what may stand there by the time a file is whole goes for it: that may have come meanwhile.
pub(crate) fn may_replace(context: &RequestContext<'_>) -> Outcome<bool> {
    let Some((export, path)) = context.place()? else { return Ok(false) };
    Ok(context.reach(Action::Overwrite, &export, &path).is_ok())
}

/// What is there already, if a file may come in its place.
pub(crate) fn target(context: &RequestContext<'_>, reach: &ResolvedPath, names_dir: bool) -> Outcome<Option<Kind>> {
    let shown = context.shown();
    if names_dir || reach.path.is_root() {
        return Err(refuse(409, format!("{shown} names a directory; a file needs a name of its own")));
    }
    match get::kind(reach)? {
        Some(Kind::Dir) => Err(refuse(409, format!("{shown} is a directory"))),
        Some(Kind::Special) => Err(refuse(409, format!("{shown} is a FIFO, socket or device"))),
        other => Ok(other),
    }
}

/// What a request must not ask of PUT.
pub(crate) fn check(request: &Request) -> Outcome<()> {
    // RFC 9110, section 14.5: a server that does not know partial PUT refuses, lest a part be taken for the whole.
    if request.headers.get("content-range").is_some() {
        return Err(refuse(400, "a part of a file cannot be put (Content-Range); send all of it"));
    }
    if request.headers.get("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(refuse(415, "bytes are kept as they come; send them without Content-Encoding"));
    }
    Ok(())
}

/// Whether there is room. What is written while others write may still fill the device.
pub(crate) fn room(store: &dyn Store, path: &RelPath, bytes: u64) -> Outcome<()> {
    let mut dir = path.parent();
    let space = loop {
        match store.space(&dir) {
            Err(error) if error.is_not_found() && !dir.is_root() => dir = dir.parent(),
            other => break other?,
        }
    };
    match space {
        Some(space) if space.free_bytes < bytes => {
            Err(refuse(507, format!("{bytes} bytes do not fit: {} are free here", space.free_bytes)))
        }
        _ => Ok(()),
    }
}

/// The digests that a client says its bytes have, in the head or behind the body. Of algorithms that are not known here nothing can be
/// said; one that is known and does not read would be taken for verified by whoever sent it.
pub(crate) fn promised(headers: &Headers) -> Outcome<Vec<Digest>> {
    let md5 = headers.all("content-md5").find(|value| digest::parse_content_md5(value).is_none());
    let damaged = digest::damaged(headers.all("digest")).or(md5);
    let damaged = damaged
        .or_else(|| ["repr-digest", "content-digest"].iter().find_map(|n| digest::repr::damaged(headers.all(n))));
    let damaged = damaged.or_else(|| headers.all("oc-checksum").find_map(digest::damaged_oc));
    if let Some(damaged) = damaged {
        let shown = model::name::show_bytes(damaged.as_bytes());
        return Err(refuse(400, format!("the digest {shown} does not read; send it whole, or leave it out")));
    }
    let mut promised = digest::parse(headers.all("digest"));
    promised.extend(digest::repr::parse(headers.all("repr-digest")));
    // What is sent is the file itself: codings and parts have been refused.
    promised.extend(digest::repr::parse(headers.all("content-digest")));
    promised.extend(headers.get("content-md5").and_then(digest::parse_content_md5));
    promised.extend(headers.all("oc-checksum").flat_map(digest::parse_oc));
    Ok(promised)
}

/// A file that is not finished, and where it stands.
pub(crate) struct Unfinished(pub Arc<dyn Sink>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Harmless where it has its name.
        self.0.discard();
    }
}

/// The same, and its place on the list of those, which it leaves after it is gone or has its name.
pub(crate) struct Begun(pub Arc<dyn Sink>, #[expect(dead_code, reason = "held, not looked at")] (Unfinished, Tag));

/// Starts a file beside its final name, with its directories and its room.
pub(crate) fn begin(context: &RequestContext<'_>, reach: &ResolvedPath, length: Option<u64>) -> Outcome<Begun> {
    store::make_dirs(&*reach.store, &reach.path.parent())?;
    let tag = context.web.unfinished.tag(reach);
    let sink = reach.store.create(&reach.path, &tag)?;
    let begun = Begun(Arc::clone(&sink), (Unfinished(sink), tag));
    begun.0.announce(&Coming { size: length, mtime: now(), replace: true })?;
    if let Some(bytes) = length.filter(|bytes| *bytes >= RESERVED_FROM) {
        begun.0.reserve(bytes)?;
    }
    Ok(begun)
}

/// What was made of bytes while they passed.
pub(crate) struct Sums {
    pub size: u64,
    pub block: BlockSum,
    /// Digests that need every byte in order, where one was promised.
    pub serial: Vec<Digest>,
}

impl Sums {
    /// Reads the bytes again, which are in the cache, for promised digests that were not made while they passed: those that need
    /// every byte in order, and that nobody had spoken of yet.
    pub fn complete(&mut self, sink: &dyn Sink, promised: &[Digest]) -> store::Result<()> {
        let is_made = |algorithm| self.serial.iter().any(|made| made.algorithm() == algorithm);
        let mut missing: Vec<Algorithm> = promised.iter().map(Digest::algorithm).collect();
        missing.retain(|algorithm| algorithm.is_serial() && !is_made(*algorithm));
        if !missing.is_empty() {
            self.serial.extend(store::digest::of_file(&*sink.as_source()?, &RelPath::root(), &missing)?);
        }
        Ok(())
    }

    /// All digests that are known.
    pub fn digests(&self) -> Vec<Digest> {
        let mut all = vec![Digest::crc32c(self.block.crc32c)];
        all.extend(self.block.adler32.and_then(|sum| Digest::new(Algorithm::Adler32, &sum.to_be_bytes())));
        all.extend(self.serial.iter().cloned());
        all
    }
}

/// Takes a part of a form as a file that is not there.
pub(crate) fn receive_part(context: &mut RequestContext<'_>, reach: &ResolvedPath, parts: &mut Parts) -> Outcome<u64> {
    room(&*reach.store, &reach.path, 0)?;
    let unfinished = begin(context, reach, None)?;
    let sums = receive(context, &*unfinished.0, &[], &mut |context, into| {
        parts.read(into, &mut |more: &mut [u8]| context.exchange.read(more).map_err(cut_short))
    })?;
    let _turn = context.web.unfinished.turn(reach);
    put_in_place(context, reach, &*unfinished.0, &sums, now(), false)?;
    Ok(sums.size)
}

/// Brings more of a file; nothing at its end.
type Bring<'a> = &'a mut dyn FnMut(&mut RequestContext<'_>, &mut [u8]) -> Outcome<usize>;

/// Takes what comes behind what is there already; how far it came is in `sums`, also where it broke off.
pub(crate) fn go_on(context: &mut RequestContext<'_>, sink: &dyn Sink, sums: &mut Sums) -> Outcome<()> {
    buffer::with(|buffer| -> Outcome<()> {
        loop {
            let got = fill(context, buffer, &mut |context, into| context.exchange.read(into).map_err(cut_short))?;
            if got == 0 {
                return Ok(());
            }
            let piece = &buffer[..got];
            sink.write_at(piece, sums.size)?;
            context.moving.came(got as u64);
            sums.block = sums.block.then(BlockSum::of(piece, true), got as u64);
            sums.size += got as u64;
        }
    })
}

fn receive(context: &mut RequestContext<'_>, sink: &dyn Sink, promised: &[Digest], bring: Bring<'_>) -> Outcome<Sums> {
    let serial: Vec<Algorithm> = promised.iter().map(Digest::algorithm).filter(|a| a.is_serial()).collect();
    let mut in_order = store::digest::InOrder::new(&serial);
    let (mut size, mut block) = (0, BlockSum::of(&[], true));
    buffer::with(|buffer| -> Outcome<()> {
        loop {
            let got = fill(context, buffer, bring)?;
            if got == 0 {
                return Ok(());
            }
            let piece = &buffer[..got];
            context.moving.came(got as u64);
            block = block.then(BlockSum::of(piece, true), got as u64);
            in_order.feed(size, piece);
            sink.write_at(piece, size)?;
            size += got as u64;
        }
    })?;
    Ok(Sums { size, block, serial: in_order.finish(size).unwrap_or_default() })
}

/// Fills the buffer as far as the body goes: what is written has the size and place that a disk likes.
fn fill(context: &mut RequestContext<'_>, buffer: &mut [u8], bring: Bring<'_>) -> Outcome<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match bring(context, &mut buffer[filled..])? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

/// Holds what came against what was promised.
pub(crate) fn compare(sums: &Sums, promised: &[Digest]) -> Outcome<()> {
    let made = sums.digests();
    for wanted in promised {
        if let Some(have) = made.iter().find(|have| have.algorithm() == wanted.algorithm() && *have != wanted) {
            let reason = format!("checksum mismatch: the bytes that came have {have}, and should have {wanted}");
            return Err(Refused::new(400, reason).into());
        }
    }
    Ok(())
}

/// Gives a file that came whole its name, if its digests are the promised ones and it may still stand there; whether it replaced another.
pub(crate) fn finish(
    context: &RequestContext<'_>,
    reach: &ResolvedPath,
    sink: &dyn Sink,
    sums: &Sums,
    promised: &[Digest],
    was_there: bool,
) -> Outcome<(Headers, bool)> {
    compare(sums, promised).inspect_err(|_| context.web.services.meters.damaged())?;
    // Others put too, and of those with the same condition one has its way.
    let _turn = context.web.unfinished.turn(reach);
    let is_there = get::kind(reach)?.is_some();
    conditions(context, reach, is_there)?;
    let replace = is_there && (was_there || may_replace(context)?);
    // ownCloud's field, which rclone and others send.
    let told = context.request().headers.get("x-oc-mtime").and_then(|text| text.trim().parse::<i64>().ok());
    let mtime = told.map_or_else(now, |seconds| Timestamp { seconds, nanos: 0 });
    let mut headers = put_in_place(context, reach, sink, sums, mtime, replace)?;
    if told.is_some() {
        headers.add("X-OC-Mtime", "accepted");
    }
    Ok((headers, is_there))
}

/// Gives a file its name, and its digests with it. What came into its place meanwhile is replaced only by those who may.
pub(crate) fn put_in_place(
    context: &RequestContext<'_>,
    reach: &ResolvedPath,
    sink: &dyn Sink,
    sums: &Sums,
    mtime: Timestamp,
    replace: bool,
) -> Outcome<Headers> {
    let finish = Finish { size: sums.size, mode: FILE_MODE, mtime, durable: false, replace, attributes: None };
    if reach.abroad {
        // What it is there is known when it is there.
        sink.commit(&finish)?;
        let there = reach.store.stat(&reach.path)?;
        let (inode, mtime) = (there.identity.1, there.meta.mtime);
        let tag = web::conditions::ETag::of_file(inode, sums.size, mtime);
        return Ok(Headers::new().with("ETag", tag.to_string()).with("Last-Modified", web::date::http(mtime)));
    }
    let source = sink.as_source()?;
    let identity = source.stat()?.identity;
    let stamp = Stamp { size: sums.size, mtime, inode: identity.1 };
    context.web.services.digests.keep(&*source, identity, stamp, &sums.digests());
    dead::keeping(&*reach.store, &reach.path, &mut || sink.commit(&finish))?;
    let tag = web::conditions::ETag::of_file(identity.1, sums.size, mtime);
    tracing::debug!(path = %reach.path, bytes = sums.size, "put in place");
    Ok(Headers::new().with("ETag", tag.to_string()).with("Last-Modified", web::date::http(mtime)))
}

//! PUT: every check is made before a client that waits for `100 Continue` sends its body. The bytes go under a temporary name, and
//! only a complete file gets the final one.

use std::sync::Arc;

use auth::Action;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, Kind, RelPath, Timestamp};
use serve::Length;
use serve::buffer;
use store::{FileAnnouncement, Finish, Sink, Store};
use web::conditions::Verdict;
use web::form::Parts;
use web::{Headers, Request, Response, digest};

use super::get::{current, judge};
use super::refused::{Outcome, Refused, RequestOutcome, cut_short, refuse};
use super::request_context::RequestContext;
use super::unfinished::Tag;
use super::{dead, get, now};
use crate::access::ResolvedPath;
use crate::digests::Stamp;

/// The mode of a new file.
pub(crate) const FILE_MODE: u32 = 0o644;
/// Files from this length on get their space reserved before the first byte.
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
    Ok(RequestOutcome { status, bytes: sums.size })
}

/// Evaluates the conditions of the request against the present entry.
pub(crate) fn conditions(context: &RequestContext<'_>, reach: &ResolvedPath, is_there: bool) -> Outcome<()> {
    context.judge_if()?;
    // An entry that this node may not read exists all the same.
    let look = || reach.store.open(&reach.path).and_then(|source| source.stat());
    let stat = is_there.then(|| look().or_else(|_| reach.store.stat(&reach.path)).ok()).flatten();
    match judge(context.request(), false, stat.map(|stat| current(&stat)).as_ref()) {
        Verdict::Proceed => Ok(()),
        _ => Err(refuse(412, "what is there is not what If-Match or If-None-Match mean")),
    }
}

/// Whether the principal may replace an entry that has appeared at the target meanwhile.
pub(crate) fn may_replace(context: &RequestContext<'_>) -> Outcome<bool> {
    let Some((export, path)) = context.place()? else { return Ok(false) };
    Ok(context.reach(Action::Overwrite, &export, &path).is_ok())
}

/// The kind of the present entry at the target; refuses one that a file cannot replace.
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

/// Refuses partial PUT and content codings.
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

/// Checks that the bytes fit. Other writers may still fill the device later.
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

/// The digests that a client promises, in the head or the trailers. Unknown algorithms are ignored; a malformed digest of a known
/// algorithm is refused, because the client would take it for verified.
pub(crate) fn promised(headers: &Headers) -> Outcome<Vec<Digest>> {
    let md5 = headers.all("content-md5").find(|value| digest::parse_content_md5(value).is_none());
    let damaged = digest::damaged(headers.all("digest")).or(md5);
    let damaged = damaged
        .or_else(|| ["repr-digest", "content-digest"].iter().find_map(|n| digest::repr::damaged(headers.all(n))));
    let damaged = damaged.or_else(|| headers.all("oc-checksum").find_map(digest::damaged_oc));
    if let Some(damaged) = damaged {
        let shown = model::name::show_bytes(damaged.as_bytes());
        return Err(refuse(400, format!("the digest {shown} is not valid; send it whole, or leave it out")));
    }
    let mut promised = digest::parse(headers.all("digest"));
    promised.extend(digest::repr::parse(headers.all("repr-digest")));
    // The content is the file itself: codings and parts have been refused.
    promised.extend(digest::repr::parse(headers.all("content-digest")));
    promised.extend(headers.get("content-md5").and_then(digest::parse_content_md5));
    promised.extend(headers.all("oc-checksum").flat_map(digest::parse_oc));
    Ok(promised)
}

/// The sink of a file without its final name. Dropping it discards the file.
pub(crate) struct UncommittedSink(pub Arc<dyn Sink>);

impl Drop for UncommittedSink {
    fn drop(&mut self) {
        // No effect on a file that has its final name.
        self.0.discard();
    }
}

/// An uncommitted sink with its tag. The tag is dropped last: the list of leftovers keeps the file until it is gone or has its name.
pub(crate) struct ListedSink(
    pub Arc<dyn Sink>,
    #[expect(dead_code, reason = "held, not looked at")] (UncommittedSink, Tag),
);

/// Creates a file under a temporary name, with the directories above it and reserved space.
pub(crate) fn begin(context: &RequestContext<'_>, reach: &ResolvedPath, length: Option<u64>) -> Outcome<ListedSink> {
    store::make_dirs(&*reach.store, &reach.path.parent())?;
    let tag = context.web.unfinished.tag(reach);
    let sink = reach.store.create(&reach.path, &tag)?;
    let begun = ListedSink(Arc::clone(&sink), (UncommittedSink(sink), tag));
    begun.0.announce(&FileAnnouncement { size: length, mtime: now(), replace: true })?;
    if let Some(bytes) = length.filter(|bytes| *bytes >= RESERVED_FROM) {
        begun.0.reserve(bytes)?;
    }
    Ok(begun)
}

/// The size and digests of a file, computed while its bytes passed.
pub(crate) struct FileSums {
    pub size: u64,
    pub block: BlockSum,
    /// Digests that need every byte in order, where such a digest was promised.
    pub serial: Vec<Digest>,
}

impl FileSums {
    /// Computes promised digests that are missing, by reading the bytes again from the page cache: digests that need every byte in
    /// order and were promised only behind the body.
    pub fn complete(&mut self, sink: &dyn Sink, promised: &[Digest]) -> store::Result<()> {
        let is_made = |algorithm| self.serial.iter().any(|made| made.algorithm() == algorithm);
        let mut missing: Vec<Algorithm> = promised.iter().map(Digest::algorithm).collect();
        missing.retain(|algorithm| algorithm.is_serial() && !is_made(*algorithm));
        if !missing.is_empty() {
            self.serial.extend(store::digest::of_file(&*sink.as_source()?, &RelPath::root(), &missing)?);
        }
        Ok(())
    }

    /// All digests that have been computed.
    pub fn digests(&self) -> Vec<Digest> {
        let mut all = vec![Digest::crc32c(self.block.crc32c)];
        all.extend(self.block.adler32.and_then(|sum| Digest::new(Algorithm::Adler32, &sum.to_be_bytes())));
        all.extend(self.serial.iter().cloned());
        all
    }
}

/// Stores a part of a form as a new file; returns its bytes.
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

/// Reads more bytes of a file; 0 at its end.
type ReadBody<'a> = &'a mut dyn FnMut(&mut RequestContext<'_>, &mut [u8]) -> Outcome<usize>;

/// Appends the body to a file. `sums` tells how far it came, after a failure as well.
pub(crate) fn go_on(context: &mut RequestContext<'_>, sink: &dyn Sink, sums: &mut FileSums) -> Outcome<()> {
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

fn receive(
    context: &mut RequestContext<'_>,
    sink: &dyn Sink,
    promised: &[Digest],
    read: ReadBody<'_>,
) -> Outcome<FileSums> {
    let serial: Vec<Algorithm> = promised.iter().map(Digest::algorithm).filter(|a| a.is_serial()).collect();
    let mut in_order = store::digest::InOrder::new(&serial);
    let (mut size, mut block) = (0, BlockSum::of(&[], true));
    buffer::with(|buffer| -> Outcome<()> {
        loop {
            let got = fill(context, buffer, read)?;
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
    Ok(FileSums { size, block, serial: in_order.finish(size).unwrap_or_default() })
}

/// Fills the buffer as far as the body goes, so that writes are large and aligned.
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

/// Compares the computed digests with the promised ones.
pub(crate) fn compare(sums: &FileSums, promised: &[Digest]) -> Outcome<()> {
    let made = sums.digests();
    for wanted in promised {
        if let Some(have) = made.iter().find(|have| have.algorithm() == wanted.algorithm() && *have != wanted) {
            let reason = format!("checksum mismatch: the bytes that came have {have}, and should have {wanted}");
            return Err(Refused::new(400, reason).into());
        }
    }
    Ok(())
}

/// Gives a complete file its final name, if its digests are the promised ones and the conditions still hold. Returns the fields of
/// the answer, and whether the file replaced another.
pub(crate) fn finish(
    context: &RequestContext<'_>,
    reach: &ResolvedPath,
    sink: &dyn Sink,
    sums: &FileSums,
    promised: &[Digest],
    was_there: bool,
) -> Outcome<(Headers, bool)> {
    compare(sums, promised).inspect_err(|_| context.web.services.meters.damaged())?;
    // Of concurrent PUTs with the same condition one succeeds.
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

/// Gives a file its final name and notes its digests. `replace` allows an entry of that name to be replaced.
pub(crate) fn put_in_place(
    context: &RequestContext<'_>,
    reach: &ResolvedPath,
    sink: &dyn Sink,
    sums: &FileSums,
    mtime: Timestamp,
    replace: bool,
) -> Outcome<Headers> {
    let finish = Finish { size: sums.size, mode: FILE_MODE, mtime, durable: false, replace, attributes: None };
    if reach.abroad {
        // A remote server tells the file's facts only after the commit.
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

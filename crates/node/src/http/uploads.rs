//! Resumable uploads (draft-ietf-httpbis-resumable-upload), for browsers that send large files for hours.
//!
//! `PUT FILE` with `Upload-Complete: ?0` and `Upload-Length` begins an upload, and `Location` names its address, `FILE?upload=ID`.
//! `PATCH` there appends at `Upload-Offset`, and the last part has `Upload-Complete: ?1`; `HEAD` tells the offset, and `DELETE` ends
//! the upload. All of that needs the right to create the file, and the upload's id. Bytes are on stable storage before they are
//! acknowledged, so an upload outlives the node process. As with PUT, the file gets its name once it is complete.

mod journal;

use std::sync::Arc;

use auth::Action;
use model::checksum::BlockSum;
use model::{Kind, RelPath};
use serve::Length;
use store::{FileAnnouncement, Sink};
use web::{Headers, Method, Request, Response};

pub(crate) use self::journal::Uploads;
use self::journal::{Upload, UploadId};
use super::now;
use super::put::{self, FileSums};
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::RequestContext;
use crate::access::ResolvedPath;

/// The parameter of an upload's address that holds the id.
const PARAMETER: &str = "upload";

/// Whether a request is about an upload, or begins one.
pub(crate) fn is_meant(context: &RequestContext<'_>) -> bool {
    let request = context.request();
    let begins = request.method == Method::Put && is_complete(request) == Some(false);
    let is_about = matches!(request.method, Method::Head | Method::Patch | Method::Delete) && named(context).is_some();
    begins || is_about
}

/// Answers a request about an upload.
pub(crate) fn answer(context: &mut RequestContext<'_>, method: &Method) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let reach = context.reach(Action::Create, &export, &path)?;
    if reach.abroad {
        return Err(refuse(400, format!("{export} is no directory of this node: send the file in one piece")));
    }
    if *method == Method::Put {
        return begin(context, &reach);
    }
    let id = named(context).ok_or_else(unknown)?;
    let upload = context.web.uploads.read(&id)?.filter(|upload| upload.is_of(&reach)).ok_or_else(unknown)?;
    match method {
        Method::Patch => append(context, &reach, &id, upload),
        Method::Delete => {
            reach.store.forget(&reach.path, &id.tag())?;
            context.web.uploads.remove(&id);
            say(context, 204, Headers::new())
        }
        _ => {
            let headers = facts(upload.offset, false).with("Upload-Length", upload.bytes.to_string());
            say(context, 204, headers.with("Cache-Control", "no-store"))
        }
    }
}

fn unknown() -> super::refused::Trouble {
    refuse(404, "there is no such upload any more, or none of this file: begin a new one")
}

fn named(context: &RequestContext<'_>) -> Option<UploadId> {
    let query = context.target.query.as_deref()?;
    let id = web::target::pairs(query).find(|(name, _)| name == PARAMETER).map(|(_, id)| id)?;
    UploadId::parse(&id)
}

/// `Upload-Complete`: a boolean of structured fields (RFC 9651).
fn is_complete(request: &Request) -> Option<bool> {
    match request.headers.get("upload-complete")?.trim() {
        "?0" => Some(false),
        "?1" => Some(true),
        _ => None,
    }
}

fn number(request: &Request, field: &str) -> Option<u64> {
    request.headers.get(field).and_then(|text| text.trim().parse().ok())
}

fn facts(offset: u64, is_complete: bool) -> Headers {
    let complete = if is_complete { "?1" } else { "?0" };
    Headers::new().with("Upload-Offset", offset.to_string()).with("Upload-Complete", complete)
}

fn say(context: &mut RequestContext<'_>, status: u16, headers: Headers) -> Outcome {
    context.exchange.begin(Response { headers, ..Response::new(status) }, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status, bytes: 0 })
}

/// Whether a file of this name exists. Refuses where the principal may not replace it.
fn is_there(context: &RequestContext<'_>, reach: &ResolvedPath) -> Outcome<bool> {
    let there: Option<Kind> = put::target(context, reach, context.target.is_dir)?;
    if there.is_some() && !put::may_replace(context)? {
        return Err(refuse(403, format!("{} is there already, and this credential replaces nothing", context.shown())));
    }
    Ok(there.is_some())
}

/// Begins an upload. This request has no body.
fn begin(context: &mut RequestContext<'_>, reach: &ResolvedPath) -> Outcome {
    let was_there = is_there(context, reach)?;
    put::conditions(context, reach, was_there)?;
    put::check(context.request())?;
    let bytes = number(context.request(), "upload-length");
    let bytes = bytes.ok_or_else(|| refuse(400, "an upload in parts says how long the file is: Upload-Length"))?;
    if context.exchange.body_length() != Some(0) {
        return Err(refuse(400, "the request that begins an upload in parts has no body: send parts with PATCH"));
    }
    put::room(&*reach.store, &reach.path, bytes)?;
    store::make_dirs(&*reach.store, &reach.path.parent())?;
    let id = UploadId::new()?;
    let upload = Upload::new(reach, bytes);
    // Written down before the file is created: an unknown partial file would never be removed.
    context.web.uploads.write(&id, &upload)?;
    let sink = PartialUpload(reach.store.create(&reach.path, &id.tag())?);
    sink.0.announce(&FileAnnouncement { size: Some(bytes), mtime: now(), replace: true })?;
    let headers = facts(0, false).with("Location", format!("?{PARAMETER}={id}"));
    say(context, 201, headers)
}

/// The sink of an upload. Dropping it keeps the partial file, because more parts may come.
struct PartialUpload(Arc<dyn Sink>);

impl Drop for PartialUpload {
    fn drop(&mut self) {
        self.0.keep();
    }
}

/// Appends a part; the last one gives the file its name. The bytes of a part that broke off count.
fn append(context: &mut RequestContext<'_>, reach: &ResolvedPath, id: &UploadId, mut upload: Upload) -> Outcome {
    let is_last = is_complete(context.request()).unwrap_or(false);
    let offset = number(context.request(), "upload-offset");
    if offset != Some(upload.offset) {
        let reason = format!("the upload has {} bytes: go on there (Upload-Offset)", upload.offset);
        let refused = Refused::new(409, reason).with("Upload-Offset", upload.offset.to_string());
        return Err(refused.with("Upload-Complete", "?0").into());
    }
    let length = context.exchange.body_length();
    if length.is_some_and(|length| length > upload.bytes - upload.offset) {
        return Err(refuse(
            400,
            format!("the file was to have {} bytes, and this part goes beyond them", upload.bytes),
        ));
    }
    let promised = put::promised(&context.request().headers)?;
    let busy =
        || refuse(409, "another request appends to this upload, or what came of it is gone: ask how far it is (HEAD)");
    let sink = PartialUpload(reach.store.resume(&reach.path, &id.tag())?.ok_or_else(busy)?);
    let mut sums = FileSums { size: upload.offset, block: upload.sum(), serial: Vec::new() };
    let flying = context.fly(false);
    let came = put::go_on(context, &*sink.0, &mut sums);
    flying.end();
    if sums.size > upload.bytes {
        return Err(refuse(400, format!("the file was to have {} bytes, and more came", upload.bytes)));
    }
    // On stable storage before the offset is acknowledged.
    sink.0.flush()?;
    upload.reached(&sums);
    context.web.uploads.write(id, &upload)?;
    came?;
    if !is_last {
        return say(context, 204, facts(upload.offset, false));
    }
    if upload.offset != upload.bytes {
        let reason = format!("the file was to have {} bytes, and has {}", upload.bytes, upload.offset);
        return Err(refuse(400, reason));
    }
    let was_there = is_there(context, reach)?;
    sums.complete(&*sink.0, &promised)?;
    let (headers, replaced) = put::finish(context, reach, &*sink.0, &sums, &promised, was_there)?;
    context.web.uploads.remove(id);
    context.moving.file_came();
    let headers = headers.with("Upload-Offset", upload.bytes.to_string()).with("Upload-Complete", "?1");
    say(context, if replaced { 204 } else { 201 }, headers)
}

impl Upload {
    fn new(reach: &ResolvedPath, bytes: u64) -> Upload {
        let none = BlockSum::of(&[], true);
        let dir = reach.path.parent();
        let parent = if dir.is_root() { reach.dir.clone() } else { reach.dir.join(os(&dir)) };
        Upload {
            export: reach.export.clone(),
            path: absolute(reach),
            folder: parent,
            bytes,
            offset: 0,
            crc32c: none.crc32c,
            adler32: none.adler32,
        }
    }

    fn is_of(&self, reach: &ResolvedPath) -> bool {
        self.export == reach.export && self.path == absolute(reach)
    }

    fn sum(&self) -> BlockSum {
        BlockSum { crc32c: self.crc32c, adler32: self.adler32 }
    }

    fn reached(&mut self, sums: &FileSums) {
        self.offset = sums.size;
        self.crc32c = sums.block.crc32c;
        self.adler32 = sums.block.adler32;
    }
}

/// The path of a file on this host: a credential for a part of an export sees a shorter path.
fn absolute(reach: &ResolvedPath) -> std::path::PathBuf {
    reach.dir.join(os(&reach.path))
}

fn os(path: &RelPath) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path.as_bytes())
}

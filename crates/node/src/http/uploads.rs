//! Resumable uploads (draft-ietf-httpbis-resumable-upload), for browsers that send large files for hours.
//!
//! `PUT FILE` with `Upload-Complete: ?0` and `Upload-Length` begins an upload, and `Location` names its address, `FILE?upload=ID`.
//! `PATCH` there appends at `Upload-Offset`, and the last part has `Upload-Complete: ?1`; `HEAD` returns the offset, and `DELETE` ends
//! the upload. All of these need the right to create the file, and the upload's id. Bytes are on stable storage before they are
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
use super::put;
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::RequestContext;
use crate::access::ResolvedPath;
use crate::new_file::{self, FileSums};

/// The parameter of an upload's address that holds the id.
const PARAMETER: &str = "upload";

/// Whether a request is about an upload, or begins one.
pub(crate) fn is_upload(context: &RequestContext<'_>) -> bool {
    let request = context.request();
    let begins = request.method == Method::Put && is_complete(request) == Some(false);
    let is_about =
        matches!(request.method, Method::Head | Method::Patch | Method::Delete) && upload_id(context).is_some();
    begins || is_about
}

/// Answers a request about an upload.
pub(crate) fn answer(context: &mut RequestContext<'_>, method: &Method) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(405, "a file needs a name below an export")) };
    let resolved = context.resolve(Action::Create, &export, &path)?;
    if resolved.is_remote {
        return Err(refuse(400, format!("{export} lies on a remote server: send the file in one piece")));
    }
    if *method == Method::Put {
        return begin(context, &resolved);
    }
    let id = upload_id(context).ok_or_else(unknown)?;
    let upload = context.service.uploads.read(&id)?.filter(|upload| upload.is_of(&resolved)).ok_or_else(unknown)?;
    match method {
        Method::Patch => append(context, &resolved, &id),
        Method::Delete => {
            resolved.store.forget(&resolved.path, &id.tag())?;
            context.service.uploads.remove(&id);
            send_status(context, 204, Headers::new())
        }
        _ => {
            let headers = upload_fields(upload.offset, false).with("Upload-Length", upload.bytes.to_string());
            send_status(context, 204, headers.with("Cache-Control", "no-store"))
        }
    }
}

fn unknown() -> super::refused::RequestFailure {
    refuse(404, "this file has no upload with that id, or no longer: begin a new one")
}

/// The upload's id in the address of a request.
fn upload_id(context: &RequestContext<'_>) -> Option<UploadId> {
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

fn upload_fields(offset: u64, is_complete: bool) -> Headers {
    let complete = if is_complete { "?1" } else { "?0" };
    Headers::new().with("Upload-Offset", offset.to_string()).with("Upload-Complete", complete)
}

fn send_status(context: &mut RequestContext<'_>, status: u16, headers: Headers) -> Outcome {
    context.exchange.begin(Response { headers, ..Response::new(status) }, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status, bytes: 0 })
}

/// Whether a file of this name exists.
///
/// # Errors
/// It exists and the principal may not replace it.
fn is_there(context: &RequestContext<'_>, resolved: &ResolvedPath) -> Outcome<bool> {
    let existing: Option<Kind> = put::existing_target(context, resolved, context.target.is_dir)?;
    if existing.is_some() && !put::may_replace(context)? {
        return Err(refuse(
            403,
            format!("{} exists already, and this credential replaces nothing", context.shown_target()),
        ));
    }
    Ok(existing.is_some())
}

/// Begins an upload. This request has no body.
fn begin(context: &mut RequestContext<'_>, resolved: &ResolvedPath) -> Outcome {
    let was_there = is_there(context, resolved)?;
    put::conditions(context, resolved, was_there)?;
    put::check(context.request())?;
    let bytes = number(context.request(), "upload-length");
    let bytes = bytes.ok_or_else(|| refuse(400, "an upload in parts states the length of the file: Upload-Length"))?;
    if context.exchange.body_length() != Some(0) {
        return Err(refuse(400, "the request that begins an upload in parts has no body: send parts with PATCH"));
    }
    new_file::check_room(&*resolved.store, &resolved.path, bytes)?;
    store::make_dirs(&*resolved.store, &resolved.path.parent())?;
    let id = UploadId::new()?;
    let upload = Upload::new(resolved, bytes);
    // Recorded before the file is created: an unknown partial file would never be removed.
    context.service.uploads.write(&id, &upload)?;
    let sink = PartialUpload(resolved.store.create(&resolved.path, &id.tag())?);
    sink.0.guard();
    sink.0.announce(&FileAnnouncement { size: Some(bytes), mtime: now(), replace: true })?;
    // Dropped before the answer: that cuts the file to the bytes of this sink, and the client may send the first part at once.
    drop(sink);
    let headers = upload_fields(0, false).with("Location", format!("?{PARAMETER}={id}"));
    send_status(context, 201, headers)
}

/// The sink of an upload. Dropping it keeps the partial file, because more parts may come.
struct PartialUpload(Arc<dyn Sink>);

impl Drop for PartialUpload {
    fn drop(&mut self) {
        self.0.keep();
    }
}

/// Appends a part; after the last part the file gets its name. The received bytes of an interrupted part are kept.
fn append(context: &mut RequestContext<'_>, resolved: &ResolvedPath, id: &UploadId) -> Outcome {
    let is_last = is_complete(context.request()).unwrap_or(false);
    let busy = || {
        refuse(409, "another request appends to this upload, or its bytes have been removed: ask for its offset (HEAD)")
    };
    let sink = PartialUpload(resolved.store.resume(&resolved.path, &id.tag())?.ok_or_else(busy)?);
    // Read under the file's lock: an earlier request may have appended meanwhile.
    let mut upload = context.service.uploads.read(id)?.ok_or_else(unknown)?;
    let offset = number(context.request(), "upload-offset");
    if offset != Some(upload.offset) {
        let reason = format!("the upload has {} bytes: continue there (Upload-Offset)", upload.offset);
        let refused = Refused::new(409, reason).with("Upload-Offset", upload.offset.to_string());
        return Err(refused.with("Upload-Complete", "?0").into());
    }
    let length = context.exchange.body_length();
    if length.is_some_and(|length| length > upload.bytes - upload.offset) {
        return Err(refuse(
            400,
            format!("the file has {} bytes by Upload-Length, and this part would exceed them", upload.bytes),
        ));
    }
    let stated = put::stated_digests(&context.request().headers)?;
    let mut sums = FileSums { size: upload.offset, block: upload.sum(), serial: Vec::new() };
    let flow = context.begin_flow(false);
    let appended = put::append_body(context, &*sink.0, &mut sums);
    flow.end();
    if sums.size > upload.bytes {
        return Err(refuse(400, format!("the file has {} bytes by Upload-Length, and more were sent", upload.bytes)));
    }
    // On stable storage before the offset is acknowledged.
    sink.0.flush()?;
    upload.advance(&sums);
    context.service.uploads.write(id, &upload)?;
    appended?;
    if !is_last {
        // Dropped before the answer: the sink holds the file's lock, and the client may send the next part at once.
        drop(sink);
        return send_status(context, 204, upload_fields(upload.offset, false));
    }
    if upload.offset != upload.bytes {
        let reason = format!("the file has {} bytes by Upload-Length, and {} were sent", upload.bytes, upload.offset);
        return Err(refuse(400, reason));
    }
    let was_there = is_there(context, resolved)?;
    sums.complete(&*sink.0, &stated)?;
    let (headers, replaced) = put::finish(context, resolved, &*sink.0, &sums, &stated, was_there)?;
    context.service.uploads.remove(id);
    context.meter.file_received();
    let headers = headers.with("Upload-Offset", upload.bytes.to_string()).with("Upload-Complete", "?1");
    send_status(context, if replaced { 204 } else { 201 }, headers)
}

impl Upload {
    fn new(resolved: &ResolvedPath, bytes: u64) -> Upload {
        let none = BlockSum::of(&[], true);
        let dir = resolved.path.parent();
        let parent = if dir.is_root() { resolved.dir.clone() } else { resolved.dir.join(os(&dir)) };
        Upload {
            export: resolved.export.clone(),
            path: absolute(resolved),
            folder: parent,
            bytes,
            offset: 0,
            crc32c: none.crc32c,
            adler32: none.adler32,
        }
    }

    fn is_of(&self, resolved: &ResolvedPath) -> bool {
        self.export == resolved.export && self.path == absolute(resolved)
    }

    fn sum(&self) -> BlockSum {
        BlockSum { crc32c: self.crc32c, adler32: self.adler32 }
    }

    fn advance(&mut self, sums: &FileSums) {
        self.offset = sums.size;
        self.crc32c = sums.block.crc32c;
        self.adler32 = sums.block.adler32;
    }
}

/// The path of a file on this host: a credential for a part of an export sees a shorter path.
fn absolute(resolved: &ResolvedPath) -> std::path::PathBuf {
    resolved.dir.join(os(&resolved.path))
}

fn os(path: &RelPath) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path.as_bytes())
}

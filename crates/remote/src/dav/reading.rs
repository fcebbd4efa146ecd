//! Reading a file of a server: over several connections, or over one where the server does not support ranges.
//!
//! Every response is compared with the facts of the file when it was opened, so that no read mixes two versions of a file.

mod piece;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Fault;
use model::name::RelPath;
use parking_lot::Mutex;
use store::{Error, Result};
use web::range::ContentRange;
use web::{ClientError, Headers, Method};

use super::Dav;
use super::facts::of_response;
use crate::ahead::{CHUNK_BYTES, Fetch, RemoteFile};
use crate::facts_cache::{Facts, Namespace};
use crate::request_error::RequestError;
use crate::server::{ClientRequest, StreamingResponse};

/// Why a response that does not agree with the facts of the opened file is refused.
const OTHER_VERSION: &str = "its size, time or tag differs from that of the file that was opened";
/// Chunks that are kept for readers that lag, where the file comes in order over one connection.
const SPARE_MAX: usize = 16;

/// Opens a file for reading.
pub(super) fn open(dav: &Dav, path: &RelPath, facts: Facts) -> RemoteFile {
    let stat = facts.stat(dav.host(), path);
    let no_ranges = AtomicBool::new(false);
    RemoteFile::new(DavFile { dav: dav.clone(), path: path.clone(), facts, no_ranges, body: Mutex::default() }, stat)
}

struct DavFile {
    dav: Dav,
    path: RelPath,
    facts: Facts,
    no_ranges: AtomicBool,
    body: Mutex<SequentialBody>,
}

/// The body of a GET without ranges, read in order.
#[derive(Default)]
struct SequentialBody {
    response: Option<StreamingResponse>,
    /// The offset of the next byte.
    at: u64,
    /// Chunks that were read before a reader asked for them, by their offsets.
    spare: BTreeMap<u64, Vec<u8>>,
}

/// The answer to a request for a range.
enum RangeAnswer {
    Bytes(Vec<u8>),
    /// The whole file, although a part was asked for.
    All(Box<StreamingResponse>),
}

impl Fetch for DavFile {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let fetched = if self.no_ranges.load(Ordering::Relaxed) {
            self.in_order(&span)
        } else {
            match self.range(&span) {
                Ok(RangeAnswer::Bytes(bytes)) => Ok(bytes),
                Ok(RangeAnswer::All(response)) => {
                    self.read_in_order_from(*response);
                    self.in_order(&span)
                }
                Err(failed) => Err(failed),
            }
        };
        fetched.map_err(|failed| match failed.status {
            Some(404 | 410 | 412 | 416) => {
                self.dav.0.cache.forget(&self.path);
                self.changed()
            }
            _ => failed.into_store_error("read", &self.path),
        })
    }

    fn is_random(&self) -> bool {
        !self.no_ranges.load(Ordering::Relaxed)
    }
}

impl DavFile {
    fn changed(&self) -> Error {
        let why = format!(
            "it changed on {} while it was being read; run the same command again when it is at rest",
            self.dav.host()
        );
        RequestError { fault: Fault::Storage, ..RequestError::protocol_error(why) }.into_store_error("read", &self.path)
    }

    fn is_whole(&self, span: &Range<u64>) -> bool {
        *span == (0..self.facts.size)
    }

    /// Asks for a range. Tries again where the connection breaks; fails where the response contradicts the file's facts.
    fn range(&self, span: &Range<u64>) -> std::result::Result<RangeAnswer, RequestError> {
        let url = self.dav.url(&self.path, false)?;
        let mut headers = Headers::new().with("Accept-Encoding", "identity");
        if !self.is_whole(span) {
            headers.add("Range", format!("bytes={}-{}", span.start, span.end - 1));
        }
        let method = Method::Get;
        let most = (span.end - span.start) as usize;
        let request = ClientRequest::plain(&method, &url, &headers);
        let mut broken = 0;
        loop {
            let mut streaming = self.dav.0.server.streaming(&request)?;
            match streaming.response.status {
                206 if !self.is_whole(span) => self.check_range(&streaming, span)?,
                200 if self.is_whole(span) => {}
                200 => {
                    self.check_facts(&streaming, streaming.body.length())?;
                    return Ok(RangeAnswer::All(Box::new(streaming)));
                }
                status if (200..300).contains(&status) => {
                    return Err(RequestError::protocol_error(format!(
                        "{} answered {status} to a GET",
                        self.dav.host()
                    )));
                }
                _ => return Err(streaming.refusal()),
            }
            let length = streaming.body.length().filter(|length| *length != most as u64);
            if let Some(length) = length {
                let why = format!("{} sends {length} bytes where {most} were expected", self.dav.host());
                return Err(if self.is_whole(span) {
                    self.changed_to(&why)
                } else {
                    RequestError::protocol_error(why)
                });
            }
            if self.is_whole(span) {
                self.check_facts(&streaming, Some(self.facts.size))?;
            }
            match streaming.client.read_all(&mut streaming.body, most) {
                Ok(bytes) if bytes.len() == most => {
                    if !streaming.body.ends_with_connection() {
                        self.dav.0.server.keep(&streaming.url, &streaming.response, streaming.client);
                    }
                    return Ok(RangeAnswer::Bytes(bytes));
                }
                Ok(bytes) => {
                    let why = format!("{} ended after {} of {most} bytes", self.dav.host(), bytes.len());
                    pause_before_retry(&mut broken, RequestError::protocol_error(why))?;
                }
                Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::FileTooLarge => {
                    let why = format!("{} sends more than the {most} bytes that were expected", self.dav.host());
                    return Err(RequestError::protocol_error(why));
                }
                Err(error) => {
                    let broke = RequestError::from(error);
                    // A server that keeps breaking off its responses fails for this file, not for all.
                    pause_before_retry(
                        &mut broken,
                        RequestError { fault: Fault::Peer, affects_all_files: false, ..broke },
                    )?;
                }
            }
        }
    }

    fn check_range(&self, streaming: &StreamingResponse, span: &Range<u64>) -> std::result::Result<(), RequestError> {
        let reported = streaming.response.headers.get("content-range").unwrap_or("no range");
        match ContentRange::parse(reported) {
            Some(ContentRange::Part(part, size)) if part.start == span.start && part.end() == span.end => {
                self.check_facts(streaming, size)
            }
            _ => {
                let reported: String = reported.chars().filter(|c| !c.is_control()).take(60).collect();
                let host = self.dav.host();
                let last = span.end - 1;
                Err(RequestError::protocol_error(format!(
                    "{host} answered {reported:?} when asked for bytes {}-{last}",
                    span.start
                )))
            }
        }
    }

    /// Checks that a response describes the file that was opened.
    fn check_facts(&self, streaming: &StreamingResponse, size: Option<u64>) -> std::result::Result<(), RequestError> {
        let mut now = of_response(&streaming.response, size.unwrap_or(self.facts.size));
        // A server that stores the data may report other tags and times than the server that redirected to it.
        if streaming.url.authority() != self.dav.host() {
            (now.etag, now.mtime) = (None, None);
        }
        if now.agrees(&self.facts) { Ok(()) } else { Err(self.changed_to(OTHER_VERSION)) }
    }

    fn changed_to(&self, why: &str) -> RequestError {
        RequestError { status: Some(412), ..RequestError::protocol_error(why) }
    }

    /// Reads in order from now on, beginning with this response to a GET of the whole file.
    fn read_in_order_from(&self, response: StreamingResponse) {
        let mut body = self.body.lock();
        if !self.no_ranges.swap(true, Ordering::Relaxed) {
            *body = SequentialBody { response: Some(response), ..SequentialBody::default() };
        }
    }

    /// Reads a span of a file that comes in order. Begins the file again where the span has passed.
    fn in_order(&self, span: &Range<u64>) -> std::result::Result<Vec<u8>, RequestError> {
        let mut bytes = Vec::with_capacity((span.end - span.start) as usize);
        let mut at = span.start;
        while at < span.end {
            let (chunk, within) = (at / CHUNK_BYTES * CHUNK_BYTES, (at % CHUNK_BYTES) as usize);
            let held = self.chunk_in_order(chunk)?;
            let end = (within as u64 + span.end - at).min(held.len() as u64) as usize;
            bytes.extend_from_slice(&held[within..end]);
            at = chunk + end as u64;
        }
        Ok(bytes)
    }

    fn chunk_in_order(&self, start: u64) -> std::result::Result<Vec<u8>, RequestError> {
        let mut body = self.body.lock();
        let mut broken = 0;
        loop {
            if let Some(bytes) = body.spare.remove(&start) {
                return Ok(bytes);
            }
            match self.advance(&mut body, start) {
                Ok(()) => {}
                Err(failed) => {
                    *body = SequentialBody::default();
                    pause_before_retry(&mut broken, failed)?;
                }
            }
        }
    }

    /// Reads the next chunk into `spare`.
    fn advance(&self, body: &mut SequentialBody, start: u64) -> std::result::Result<(), RequestError> {
        if body.response.is_none() || body.at > start {
            *body = SequentialBody { response: Some(self.begin_again()?), ..SequentialBody::default() };
        }
        let Some(response) = &mut body.response else { return Ok(()) };
        let len = CHUNK_BYTES.min(self.facts.size - body.at) as usize;
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match response.client.read(&mut response.body, &mut bytes[filled..])? {
                0 => {
                    return Err(RequestError::protocol_error(format!(
                        "{} ended before all bytes came",
                        self.dav.host()
                    )));
                }
                got => filled += got,
            }
        }
        if body.spare.len() >= SPARE_MAX {
            body.spare.pop_first();
        }
        body.spare.insert(body.at, bytes);
        body.at += len as u64;
        Ok(())
    }

    fn begin_again(&self) -> std::result::Result<StreamingResponse, RequestError> {
        let url = self.dav.url(&self.path, false)?;
        let headers = Headers::new().with("Accept-Encoding", "identity");
        let method = Method::Get;
        let streaming = self.dav.0.server.streaming(&ClientRequest::plain(&method, &url, &headers))?;
        if streaming.response.status != 200 {
            return Err(streaming.refusal());
        }
        self.check_facts(&streaming, streaming.body.length())?;
        Ok(streaming)
    }
}

/// Counts a response that broke off and pauses before the next try. Fails after three, or where a retry is pointless.
fn pause_before_retry(broken: &mut u32, failed: RequestError) -> std::result::Result<(), RequestError> {
    *broken += 1;
    let hopeless = failed.status.is_some() || failed.fault == Fault::Auth;
    if *broken > 3 || hopeless {
        return Err(failed);
    }
    std::thread::sleep(std::time::Duration::from_millis(100 << *broken));
    Ok(())
}

//! Reading a range of a file that several servers have: one try, whose bytes are passed on as they come, and which another thread can
//! give up.
//!
//! Does not know: the other servers.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use model::RelPath;
use web::{Headers, Method};

use super::DavFile;
use crate::dav::Dav;
use crate::facts_cache::{Facts, Namespace};
use crate::range_source::{MemberFailure, RangeSource, ReadHandle};
use crate::request_error::RequestError;
use crate::server::ClientRequest;

/// Bytes that are read from a connection at a time.
const READ_BYTES: usize = 64 << 10;

impl Dav {
    /// Opens a file that other servers have too, for reading by ranges. Returns its size in bytes with it.
    pub(crate) fn open_ranges(&self, path: &RelPath) -> Result<(u64, Box<dyn RangeSource>), MemberFailure> {
        let facts = self.facts_to_read(path).map_err(|failed| MemberFailure::of(failed, "open", path))?;
        let size = if facts.kind == model::Kind::File { facts.size } else { return Err(MemberFailure::dir(path)) };
        Ok((size, Box::new(fetching(self, path, facts))))
    }
}

fn fetching(dav: &Dav, path: &RelPath, facts: Facts) -> DavFile {
    let (dav, path) = (dav.clone(), path.clone());
    DavFile { dav, path, facts, no_ranges: AtomicBool::new(false), body: Default::default() }
}

impl RangeSource for DavFile {
    fn read_range(
        &self,
        span: Range<u64>,
        handle: &ReadHandle,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), MemberFailure> {
        self.read_range_once(&span, handle, take).map_err(|failed| match failed.status {
            Some(404 | 410 | 412 | 416) => {
                self.dav.0.cache.forget(&self.path);
                MemberFailure::of(RequestError { status: None, may_retry: false, ..failed }, "read", &self.path)
            }
            _ => MemberFailure::of(failed, "read", &self.path),
        })
    }
}

impl DavFile {
    fn read_range_once(
        &self,
        span: &Range<u64>,
        handle: &ReadHandle,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), RequestError> {
        let url = self.dav.url(&self.path, false)?;
        let mut headers = Headers::new().with("Accept-Encoding", "identity");
        if !self.is_whole(span) {
            headers.add("Range", format!("bytes={}-{}", span.start, span.end - 1));
        }
        let method = Method::Get;
        let mut streaming = self.dav.0.server.streaming_once(&ClientRequest::plain(&method, &url, &headers))?;
        match streaming.response.status {
            206 if !self.is_whole(span) => self.check_range(&streaming, span)?,
            200 if self.is_whole(span) => self.check_facts(&streaming, streaming.body.length())?,
            200 => return Err(RequestError::protocol_error(format!("{} does not support ranges", self.dav.host()))),
            status if (200..300).contains(&status) => {
                return Err(RequestError::protocol_error(format!("{} answered {status} to a GET", self.dav.host())));
            }
            _ => return Err(streaming.refusal()),
        }
        handle.set_connection(streaming.client.conn().socket());
        let mut left = span.end - span.start;
        let mut buffer = vec![0; READ_BYTES];
        while left > 0 {
            let got = streaming.client.read(&mut streaming.body, &mut buffer)?;
            if got == 0 || got as u64 > left {
                let why = format!(
                    "{} sends fewer or more bytes than the {} that were expected",
                    self.dav.host(),
                    span.end - span.start
                );
                return Err(RequestError { may_retry: got == 0, ..RequestError::protocol_error(why) });
            }
            left -= got as u64;
            if !take(&buffer[..got]) {
                return Ok(());
            }
        }
        // A chunked body ends after its last byte, with a further read.
        let ended = streaming.body.length().is_some() || streaming.client.read(&mut streaming.body, &mut buffer)? == 0;
        if handle.finish_unless_given_up() && ended && !streaming.body.ends_with_connection() {
            self.dav.0.server.keep(&streaming.url, &streaming.response, streaming.client);
        }
        Ok(())
    }
}

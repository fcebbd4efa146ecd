//! Reads of one open file on one connection, several under way at once: no request waits for the answers to earlier ones. Pages are
//! compared with their checksums where the connection is in clear text.
//!
//! A server that always has a further request sends without a pause. Where it had only one, it would wait a round trip after each, and
//! TCP would begin again with a small window when that pause exceeds its retransmission timeout (RFC 5681, section 4.1).

use std::collections::VecDeque;
use std::ops::Range;

use xroot::answer::{AnswerHead, CheckedAnswer};
use xroot::head::FileHandle;
use xroot::request::FileRange;
use xroot::{RootRequest, Status, StreamId, pages};

use super::Root;
use super::connection::{AnswerPart, RootConnection, RootResult};

/// Bytes of one request of a range: a chunk that is read ahead.
const REQUEST_BYTES: u64 = crate::ahead::CHUNK_BYTES;
/// How often a page is asked for again whose checksum is wrong.
const REPEATS_MAX: u32 = 3;
/// Requests for pages whose checksums were wrong, at once on one connection.
const REPEATED_MAX: usize = 128;

/// Takes bytes that arrived: the number of the request, the offset in the file, the bytes. Ends the reading by `false`.
pub(super) type TakeBytes<'a> = dyn FnMut(u64, u64, &[u8]) -> bool + 'a;

/// A request whose answer has not arrived, or not all of it.
#[derive(Clone, Copy)]
struct RangeRequest {
    /// The number that its sender gave it.
    number: u64,
    stream: StreamId,
    range: FileRange,
    arrived: u32,
    /// How often its pages were asked for before.
    repeats: u32,
}

/// An open file, its connection, and the requests that are under way on it.
pub(super) struct PipelinedReads {
    root: Root,
    pub connection: RootConnection,
    pub file: FileHandle,
    /// The oldest first.
    requests: VecDeque<RangeRequest>,
    /// How many of them ask for damaged pages again.
    repeated: usize,
}

impl PipelinedReads {
    /// No request is under way yet.
    pub fn new(root: Root, connection: RootConnection, file: FileHandle) -> PipelinedReads {
        PipelinedReads { root, connection, file, requests: VecDeque::new(), repeated: 0 }
    }

    /// How many requests are under way.
    pub fn under_way(&self) -> usize {
        self.requests.len()
    }

    /// Reads a range by requests of 8 MiB, of which at most `requests_max` are under way. `take` gets the bytes with their offsets, which
    /// are out of order where pages were damaged, and ends the reading by `false`. Returns whether all of it was read.
    ///
    /// # Errors
    /// The server cannot read the file or breaks the protocol, or the connection broke.
    pub fn read(
        &mut self,
        span: Range<u64>,
        requests_max: usize,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> RootResult<bool> {
        let mut next = span.start;
        loop {
            while self.under_way() < requests_max && next < span.end {
                let bytes = (span.end - next).min(REQUEST_BYTES) as u32;
                self.ask(next, bytes, 0)?;
                next += u64::from(bytes);
            }
            if self.under_way() == 0 {
                return Ok(true);
            }
            if !self.receive(&mut |_, offset, bytes| take(offset, bytes))? {
                return Ok(false);
            }
        }
    }

    /// Asks for bytes. `number` comes back with each part of them.
    ///
    /// # Errors
    /// The connection broke.
    pub fn ask(&mut self, offset: u64, bytes: u32, number: u64) -> RootResult<()> {
        self.send(offset, bytes, number, 0)
    }

    fn send(&mut self, offset: u64, bytes: u32, number: u64, repeats: u32) -> RootResult<()> {
        let range = FileRange { file: self.file, offset, bytes, path_id: 0 };
        let request = if self.connection.has_pages() {
            RootRequest::PageRead { range, is_repeated: repeats > 0 }
        } else {
            RootRequest::Read(range)
        };
        let stream = self.connection.send(&request)?;
        self.repeated += usize::from(repeats > 0);
        self.requests.push_back(RangeRequest { number, stream, range, arrived: 0, repeats });
        Ok(())
    }

    /// Waits for a part of an answer, of whatever request, and passes its bytes on. Returns what `take` returned.
    ///
    /// # Errors
    /// The server cannot read the file or breaks the protocol, or the connection broke.
    pub fn receive(&mut self, take: &mut TakeBytes) -> RootResult<bool> {
        match self.connection.receive(self.connection.silence())? {
            AnswerPart::Body { head, bytes } => self.bytes(&head, &bytes, take),
            AnswerPart::Pages { answer, mut encoded } => self.pages(&answer, &mut encoded, take),
        }
    }

    /// Counts `bytes` more bytes of an answer. Returns its request as it was before; none if there is no such request.
    fn arrived(&mut self, stream: StreamId, bytes: usize, is_last: bool) -> RootResult<Option<RangeRequest>> {
        let Some(at) = self.requests.iter().position(|asked| asked.stream == stream) else { return Ok(None) };
        let asked = &mut self.requests[at];
        let before = *asked;
        let left = asked.range.bytes - asked.arrived;
        if bytes as u64 > u64::from(left) || is_last && (bytes as u64) < u64::from(left) {
            return Err(self.root.wrong_length());
        }
        asked.arrived += bytes as u32;
        if is_last {
            self.requests.remove(at);
            self.repeated -= usize::from(before.repeats > 0);
        }
        Ok(Some(before))
    }

    /// Passes bytes without checksums on.
    fn bytes(&mut self, head: &AnswerHead, bytes: &[u8], take: &mut TakeBytes) -> RootResult<bool> {
        self.root.check_part(&self.connection, head, bytes)?;
        if self.connection.has_pages() {
            return Err(self.root.wrong("no checksums where they were asked for"));
        }
        let asked = self.arrived(head.stream, bytes.len(), head.status == Status::Ok)?;
        Ok(asked.is_none_or(|asked| take(asked.number, asked.range.offset + u64::from(asked.arrived), bytes)))
    }

    /// Passes pages on whose checksums are right, and asks for the others again.
    fn pages(&mut self, answer: &CheckedAnswer, encoded: &mut [u8], take: &mut TakeBytes) -> RootResult<bool> {
        let decoded = pages::decode(answer.offset, encoded).map_err(|error| self.root.0.server.wrong(&error))?;
        let asked = self.arrived(answer.stream, decoded.bytes, answer.is_last)?;
        let Some(asked) = asked else { return Ok(true) };
        if answer.offset != asked.range.offset + u64::from(asked.arrived) {
            return Err(self.root.wrong_length());
        }
        let is_beyond = asked.repeats >= REPEATS_MAX || self.repeated >= REPEATED_MAX;
        if !decoded.damaged.is_empty() && is_beyond {
            return Err(self.root.damages());
        }
        let end = answer.offset + decoded.bytes as u64;
        let mut at = answer.offset;
        for (offset, bytes) in decoded.damaged.into_iter().chain([(end, 0)]) {
            let sound = &encoded[(at - answer.offset) as usize..(offset - answer.offset) as usize];
            if !sound.is_empty() && !take(asked.number, at, sound) {
                return Ok(false);
            }
            if bytes > 0 {
                self.send(offset, bytes, asked.number, asked.repeats + 1)?;
            }
            at = offset + u64::from(bytes);
        }
        Ok(true)
    }
}

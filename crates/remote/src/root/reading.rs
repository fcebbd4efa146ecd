//! Reading a file of a server: chunks over several connections, each of which has the file open. Pages are compared with their
//! checksums where the connection is in clear text.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use model::fault::Fault;
use model::name::RelPath;
use parking_lot::Mutex;
use store::Result;
use xroot::answer::{AnswerHead, OpenAnswer};
use xroot::codes::open_options;
use xroot::head::FileHandle;
use xroot::request::FileRange;
use xroot::{Malformed, RootAnswer, RootRequest, Status, pages};

use super::Root;
use super::connection::{self, AnswerPart, FILES_MAX, RootConnection, RootReply, RootResult, RootTarget};
use super::redirect_chain::RedirectChain;
use crate::facts_cache::{Facts, Namespace};
use crate::range_source::{MemberFailure, RangeSource, ReadHandle};
use crate::request_error::RequestError;

/// Bytes of one request: a chunk that is read ahead. Each request costs a round trip.
pub(super) const REQUEST_BYTES: u64 = crate::ahead::CHUNK_BYTES;
/// How often a page is asked for again whose checksum is wrong.
pub(super) const REPEATS_MAX: u32 = 3;

/// The answer of a server that is asked to open a file.
pub(super) enum Opening {
    Opened(OpenAnswer),
    /// Another server has it.
    Elsewhere(RootTarget),
}

impl Root {
    /// Opens a file for reading on a connection to a server.
    pub(super) fn open_on(
        &self,
        connection: &mut RootConnection,
        path: &RelPath,
        to: &RootTarget,
    ) -> RootResult<Opening> {
        let place = to.add_parameters(self.path(path)?);
        let options = open_options::READ | open_options::RETURN_STAT;
        match connection.ask(&RootRequest::Open { place, mode: 0, options })? {
            RootReply::Done(body) => {
                let open = OpenAnswer::parse(&body).map_err(|error| self.0.server.wrong(&error))?;
                self.0.server.note_transport(connection);
                Ok(Opening::Opened(open))
            }
            RootReply::Elsewhere(next) => Ok(Opening::Elsewhere(next)),
        }
    }

    /// Checks that an answer to a read is not a refusal.
    pub(super) fn check_part(&self, connection: &RootConnection, head: &AnswerHead, bytes: &[u8]) -> RootResult<()> {
        if matches!(head.status, Status::Ok | Status::Partial) {
            return Ok(());
        }
        match RootAnswer::parse(head, bytes) {
            Ok(RootAnswer::Error { code, text }) => Err(connection::refusal(&connection.authority, code, &text)),
            _ => Err(self.wrong("an answer that no read has")),
        }
    }

    pub(super) fn wrong(&self, what: &'static str) -> RequestError {
        self.0.server.wrong(&Malformed::Order(what))
    }

    /// The failure of a read with more or fewer bytes than were asked for.
    pub(super) fn wrong_length(&self) -> RequestError {
        let why = format!("{} sends fewer or more bytes than were asked for", self.host());
        RequestError { fault: Fault::Storage, ..RequestError::protocol_error(why) }
    }

    /// The failure of a server whose bytes never have their checksums.
    pub(super) fn damages(&self) -> RequestError {
        let why = format!("{} sends bytes that do not have their checksums, again and again", self.host());
        RequestError { fault: Fault::Integrity, ..RequestError::protocol_error(why) }
    }
}

/// A file of a server.
pub(super) struct RootFile {
    root: Root,
    path: RelPath,
    facts: Facts,
    /// Its number in this process. Connections have files open by it, and not by their paths: what is opened later may be another file.
    number: u64,
    /// The server that has it, once that is known.
    at: Mutex<Option<RootTarget>>,
}

/// Where a file is open.
enum OpenAt {
    /// On this connection.
    Here(Box<RootConnection>, FileHandle),
    /// Not yet: another server has it.
    Elsewhere(RootTarget),
}

impl RootFile {
    pub fn new(root: &Root, path: &RelPath, facts: Facts) -> RootFile {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        RootFile { root: root.clone(), path: path.clone(), facts, number, at: Mutex::default() }
    }

    /// The server, as a store.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Tries to read again while that fails for a passing reason.
    ///
    /// # Errors
    /// The last failure.
    pub fn retrying<T>(&self, read: impl FnMut() -> RootResult<T>) -> Result<T> {
        self.root.0.server.retrying(read).map_err(|failed| failed.into_store_error("read", &self.path))
    }

    /// Reads a range once, over one connection.
    ///
    /// # Errors
    /// The server cannot be reached, cannot read the file, or breaks the protocol.
    pub fn read_whole(&self, span: &Range<u64>) -> RootResult<Vec<u8>> {
        let mut bytes = Vec::with_capacity((span.end - span.start) as usize);
        self.read_once(span, None, &mut |more| {
            bytes.extend_from_slice(more);
            true
        })?;
        Ok(bytes)
    }

    /// Keeps a connection on which no answer is outstanding.
    pub fn keep(&self, connection: RootConnection) {
        self.root.0.server.keep(connection);
    }

    /// A connection on which the file is open.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses to open the file.
    pub fn connection(&self) -> RootResult<(RootConnection, FileHandle)> {
        let known = self.at.lock().clone();
        let mut chain = RedirectChain::new(self.root.0.server.origin(), known);
        loop {
            match self.connection_to(chain.to()) {
                Ok(OpenAt::Here(connection, file)) => {
                    *self.at.lock() = Some(chain.to().clone());
                    return Ok((*connection, file));
                }
                Ok(OpenAt::Elsewhere(next)) => chain.follow(next)?,
                Err(error) => chain.go_back(error)?,
            }
        }
    }

    /// A connection to a server on which the file is open, or the server that this one names.
    fn connection_to(&self, to: &RootTarget) -> RootResult<OpenAt> {
        let server = &self.root.0.server;
        let (mut connection, _) = server.connection(to)?;
        if let Some(handle) = connection.files.get(&self.number) {
            let handle = *handle;
            return Ok(OpenAt::Here(Box::new(connection), handle));
        }
        match self.root.open_on(&mut connection, &self.path, to)? {
            Opening::Opened(open) => {
                self.check(&open)?;
                self.note_open(&mut connection, open.file)?;
                Ok(OpenAt::Here(Box::new(connection), open.file))
            }
            Opening::Elsewhere(next) => {
                server.keep(connection);
                Ok(OpenAt::Elsewhere(next))
            }
        }
    }

    /// Keeps a file open on a connection, and closes another one if there are many.
    fn note_open(&self, connection: &mut RootConnection, file: FileHandle) -> RootResult<()> {
        if connection.files.len() >= FILES_MAX
            && let Some(old) = connection.files.keys().min().copied()
            && let Some(handle) = connection.files.remove(&old)
        {
            connection.ask(&RootRequest::Close(handle))?;
        }
        connection.files.insert(self.number, file);
        Ok(())
    }

    /// Checks that the file is the one whose facts are known.
    fn check(&self, open: &OpenAnswer) -> RootResult<()> {
        let Some(facts) = &open.facts else { return Ok(()) };
        let same_time = self.facts.mtime.is_none_or(|known| facts.mtime == 0 || known.seconds == facts.mtime);
        if facts.size == self.facts.size && same_time {
            return Ok(());
        }
        self.root.0.cache.forget(&self.path);
        let why = format!(
            "it changed on {} while it was being read; run the same command again when it is at rest",
            self.root.host()
        );
        Err(RequestError { fault: Fault::Storage, ..RequestError::protocol_error(why) })
    }

    /// Reads a range once. `take` gets the bytes in order, and ends the read by `false`.
    fn read_once(
        &self,
        span: &Range<u64>,
        handle: Option<&ReadHandle>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> RootResult<()> {
        let (mut connection, file) = self.connection()?;
        if let Some(handle) = handle {
            handle.set_connection(connection.conn.socket());
        }
        let has_pages = connection.has_pages();
        let mut at = span.start;
        while at < span.end {
            let bytes = (span.end - at).min(REQUEST_BYTES) as u32;
            let range = FileRange { file, offset: at, bytes, path_id: 0 };
            let goes_on = if has_pages {
                self.read_pages(&mut connection, range, take)?
            } else {
                self.read_bytes(&mut connection, range, take)?
            };
            at += u64::from(bytes);
            if !goes_on {
                return Ok(());
            }
        }
        if handle.is_none_or(ReadHandle::finish_unless_given_up) {
            self.keep(connection);
        }
        Ok(())
    }

    /// Reads a range without checksums.
    fn read_bytes(
        &self,
        connection: &mut RootConnection,
        range: FileRange,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> RootResult<bool> {
        let stream = connection.send(&RootRequest::Read(range))?;
        let mut left = range.bytes as usize;
        loop {
            let AnswerPart::Body { head, bytes } = connection.receive(connection.silence())? else {
                return Err(self.root.wrong("checksums where none were asked for"));
            };
            if head.stream != stream {
                continue;
            }
            self.root.check_part(connection, &head, &bytes)?;
            if bytes.len() > left || (head.status == Status::Ok && bytes.len() < left) {
                return Err(self.root.wrong_length());
            }
            left -= bytes.len();
            if !take(&bytes) {
                return Ok(false);
            }
            if head.status == Status::Ok {
                return Ok(true);
            }
        }
    }

    /// Reads a range as pages. Pages whose checksums are wrong are asked for again.
    fn read_pages(
        &self,
        connection: &mut RootConnection,
        range: FileRange,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> RootResult<bool> {
        let mut data = self.pages(connection, range, false)?;
        for _ in 0..=REPEATS_MAX {
            if data.damaged.is_empty() {
                return Ok(take(&data.bytes));
            }
            for (offset, bytes) in std::mem::take(&mut data.damaged) {
                let again = self.pages(connection, FileRange { offset, bytes, ..range }, true)?;
                let at = (offset - range.offset) as usize;
                data.bytes[at..at + again.bytes.len()].copy_from_slice(&again.bytes);
                data.damaged.extend(again.damaged);
            }
        }
        Err(self.root.damages())
    }

    fn pages(&self, connection: &mut RootConnection, range: FileRange, is_repeated: bool) -> RootResult<CheckedBytes> {
        let stream = connection.send(&RootRequest::PageRead { range, is_repeated })?;
        let mut data = CheckedBytes { bytes: Vec::with_capacity(range.bytes as usize), damaged: Vec::new() };
        loop {
            match connection.receive(connection.silence())? {
                AnswerPart::Body { head, bytes } if head.stream == stream => {
                    self.root.check_part(connection, &head, &bytes)?;
                    return Err(self.root.wrong("no checksums where they were asked for"));
                }
                AnswerPart::Body { .. } => {}
                AnswerPart::Pages { answer, .. } if answer.stream != stream => {}
                AnswerPart::Pages { answer, mut encoded } => {
                    let decoded = pages::decode(answer.offset, &mut encoded);
                    let decoded = decoded.map_err(|error| self.root.0.server.wrong(&error))?;
                    let in_order = answer.offset == range.offset + data.bytes.len() as u64;
                    if !in_order || data.bytes.len() + decoded.bytes > range.bytes as usize {
                        return Err(self.root.wrong_length());
                    }
                    data.bytes.extend_from_slice(&encoded[..decoded.bytes]);
                    data.damaged.extend(decoded.damaged);
                    if answer.is_last {
                        return if data.bytes.len() == range.bytes as usize {
                            Ok(data)
                        } else {
                            Err(self.root.wrong_length())
                        };
                    }
                }
            }
        }
    }
}

/// Bytes of a file, and the pages of them whose checksums are wrong.
struct CheckedBytes {
    bytes: Vec<u8>,
    damaged: Vec<(u64, u32)>,
}

impl RangeSource for RootFile {
    fn read_range(
        &self,
        span: Range<u64>,
        handle: &ReadHandle,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> std::result::Result<(), MemberFailure> {
        let read = self.read_once(&span, Some(handle), take);
        read.map_err(|failed| MemberFailure::of(failed, "read", &self.path))
    }
}

//! Reading ranges of a file of a server, over connections that keep it open.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use model::fault::Fault;
use model::name::RelPath;
use parking_lot::Mutex;
use store::Result;
use xroot::answer::{AnswerHead, OpenAnswer};
use xroot::codes::open_options;
use xroot::head::FileHandle;
use xroot::{Malformed, RootAnswer, RootRequest, Status};

use super::Root;
use super::connection::{self, FILES_MAX, RootConnection, RootReply, RootResult, RootTarget};
use super::pipelined_reads::PipelinedReads;
use super::redirect_chain::RedirectChain;
use crate::facts_cache::{Facts, Namespace};
use crate::range_source::{MemberFailure, RangeSource, ReadHandle};
use crate::request_error::RequestError;

/// Requests under way for one range: the server sends one answer while it is asked for the next.
const REQUESTS_MAX: usize = 2;

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
        let (connection, file) = self.connection()?;
        if let Some(handle) = handle {
            handle.set_connection(connection.conn.socket());
        }
        let mut reads = PipelinedReads::new(self.root.clone(), connection, file);
        let mut order = InOrder { next: span.start, early: BTreeMap::new() };
        let is_read = reads.read(span.clone(), REQUESTS_MAX, &mut |offset, bytes| order.put(offset, bytes, take))?;
        if !is_read {
            return Ok(());
        }
        if handle.is_none_or(ReadHandle::finish_unless_given_up) {
            self.keep(reads.connection);
        }
        Ok(())
    }
}

/// Brings bytes into order that arrive out of it: those that were damaged arrive again after later ones.
struct InOrder {
    /// The offset of the next byte.
    next: u64,
    /// Bytes beyond it, by their offsets; not more than the requests under way ask for.
    early: BTreeMap<u64, Vec<u8>>,
}

impl InOrder {
    /// Passes on all bytes that are next now. Returns `false` once `take` does.
    fn put(&mut self, offset: u64, bytes: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        if offset != self.next {
            self.early.insert(offset, bytes.to_vec());
            return true;
        }
        self.next += bytes.len() as u64;
        let mut goes_on = take(bytes);
        while goes_on && let Some(bytes) = self.early.remove(&self.next) {
            self.next += bytes.len() as u64;
            goes_on = take(&bytes);
        }
        goes_on
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_arrive_early_wait_for_those_before_them() {
        let mut order = InOrder { next: 10, early: BTreeMap::new() };
        let mut taken = Vec::new();
        let parts: [(u64, &[u8]); 5] = [(10, b"ab"), (14, b"ef"), (16, b"g"), (12, b"cd"), (17, b"h")];
        let mut lengths = Vec::new();
        for (offset, bytes) in parts {
            assert!(order.put(offset, bytes, &mut |bytes| {
                taken.extend_from_slice(bytes);
                true
            }));
            lengths.push(taken.len());
        }
        assert_eq!(taken, b"abcdefgh");
        assert_eq!(lengths, [2, 2, 2, 7, 8]);
        assert!(order.early.is_empty());
    }

    #[test]
    fn a_reader_that_has_enough_gets_no_more_also_of_what_arrived_early() {
        let mut order = InOrder { next: 0, early: BTreeMap::new() };
        assert!(order.put(2, b"cd", &mut |_| unreachable!("it is not next")));
        let mut calls = 0;
        assert!(!order.put(0, b"ab", &mut |_| {
            calls += 1;
            false
        }));
        assert_eq!(calls, 1);
    }
}

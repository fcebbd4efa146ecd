//! Reading a whole file over one connection, by requests that do not wait for the answers to earlier ones: the key of a third-party copy
//! opens a file only once.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};

use model::name::RelPath;
use store::Result;
use store::error::shown;
use xroot::answer::{AnswerHead, CheckedAnswer};
use xroot::head::FileHandle;
use xroot::request::FileRange;
use xroot::{QueryKind, RootRequest, Status, StreamId, pages};

use super::Root;
use super::connection::{AnswerPart, RootConnection, RootReply, RootResult};
use super::reading::{Opening, REPEATS_MAX, REQUEST_BYTES};
use super::redirect_chain::RedirectChain;
use crate::ahead::AHEAD;
use crate::request_error::RequestError;

/// Requests under way.
const REQUESTS_MAX: usize = AHEAD as usize + 1;
/// Requests for pages whose checksums were wrong, for each request of the file.
const REPEATED_MAX: usize = 128;

/// A file that is open to be read once.
pub struct WholeRead {
    root: Root,
    path: RelPath,
    connection: RootConnection,
    file: FileHandle,
    size: u64,
}

/// Ends the reading of a file from another thread, also while its server is silent.
#[derive(Debug)]
pub struct ReadInterrupter(TcpStream);

impl ReadInterrupter {
    /// Breaks the connection: the read fails at once.
    pub fn interrupt(&self) {
        // An error means that it is broken already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A request whose answer has not arrived, or not all of it.
#[derive(Clone, Copy)]
struct RangeRequest {
    stream: StreamId,
    range: FileRange,
    arrived: u32,
    /// How often its pages were asked for before.
    repeats: u32,
}

/// The requests under way, the oldest first.
#[derive(Default)]
struct RangeRequests(VecDeque<RangeRequest>);

impl RangeRequests {
    /// Counts `bytes` more bytes of an answer. Returns its request as it was before; none if there is no such request.
    fn arrived(
        &mut self,
        root: &Root,
        stream: StreamId,
        bytes: usize,
        is_last: bool,
    ) -> RootResult<Option<RangeRequest>> {
        let Some(at) = self.0.iter().position(|asked| asked.stream == stream) else { return Ok(None) };
        let asked = &mut self.0[at];
        let before = *asked;
        let left = asked.range.bytes - asked.arrived;
        if bytes as u64 > u64::from(left) || is_last && (bytes as u64) < u64::from(left) {
            return Err(root.wrong_length());
        }
        asked.arrived += bytes as u32;
        if is_last {
            self.0.remove(at);
        }
        Ok(Some(before))
    }
}

impl Root {
    /// Opens a file to read it once, whole.
    ///
    /// # Errors
    /// It cannot be opened, or the server does not say its size.
    pub fn open_whole(&self, path: &RelPath) -> Result<WholeRead> {
        self.try_open_whole(path).map_err(|failed| failed.into_store_error("open", path))
    }

    fn try_open_whole(&self, path: &RelPath) -> RootResult<WholeRead> {
        let mut chain = RedirectChain::new(self.0.server.origin(), None);
        loop {
            let (mut connection, _) = self.0.server.connection(chain.to())?;
            match self.open_on(&mut connection, path, chain.to())? {
                Opening::Opened(open) => {
                    let facts = open.facts.ok_or_else(|| self.wrong("a file without its size"))?;
                    if facts.is_dir() {
                        return Err(RequestError::config_error(format!("{} is a directory", shown(path))));
                    }
                    let (root, path) = (self.clone(), path.clone());
                    return Ok(WholeRead { root, path, connection, file: open.file, size: facts.size });
                }
                Opening::Elsewhere(next) => chain.follow(next)?,
            }
        }
    }
}

impl WholeRead {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The address of the server that the file is open at.
    pub fn peer(&self) -> SocketAddr {
        self.connection.conn.peer()
    }

    /// Whether the connection speaks TLS.
    pub fn is_secure(&self) -> bool {
        self.connection.is_secure
    }

    /// Asks the server about the open file (`kXR_Qopaqug`).
    ///
    /// # Errors
    /// The server does not know the question, or the connection breaks.
    pub fn ask_about(&mut self, question: &[u8]) -> Result<Vec<u8>> {
        let kind = QueryKind::OpaqueOfFile.number();
        let request = RootRequest::Query { kind, file: self.file, text: question.to_vec() };
        match self.connection.ask(&request) {
            Ok(RootReply::Done(answer)) => Ok(answer),
            Ok(RootReply::Elsewhere(_)) => {
                Err(self.root.wrong("another server for an open file").into_store_error("ask about", &self.path))
            }
            Err(failed) => Err(failed.into_store_error("ask about", &self.path)),
        }
    }

    /// Ends this read from another thread.
    ///
    /// # Errors
    /// This process has no descriptor left.
    pub fn interrupter(&self) -> io::Result<ReadInterrupter> {
        self.connection.conn.socket().try_clone().map(ReadInterrupter)
    }

    /// Reads all of it. `take` gets the bytes with their offsets, which may be out of order, and ends the reading by `false`.
    ///
    /// # Errors
    /// The server cannot read the file or breaks the protocol, or the connection breaks.
    pub fn read(mut self, take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<()> {
        let path = self.path.clone();
        self.read_all(take).map_err(|failed| failed.into_store_error("read", &path))
    }

    fn read_all(&mut self, take: &mut dyn FnMut(u64, &[u8]) -> bool) -> RootResult<()> {
        let mut requests = RangeRequests::default();
        let mut next = 0;
        loop {
            while requests.0.len() < REQUESTS_MAX && next < self.size {
                let bytes = (self.size - next).min(REQUEST_BYTES) as u32;
                self.ask(&mut requests, next, bytes, 0)?;
                next += u64::from(bytes);
            }
            if requests.0.is_empty() {
                return Ok(());
            }
            let goes_on = match self.connection.receive(self.connection.silence())? {
                AnswerPart::Body { head, bytes } => self.bytes(&mut requests, &head, &bytes, take)?,
                AnswerPart::Pages { answer, mut encoded } => self.pages(&mut requests, &answer, &mut encoded, take)?,
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, requests: &mut RangeRequests, offset: u64, bytes: u32, repeats: u32) -> RootResult<()> {
        let range = FileRange { file: self.file, offset, bytes, path_id: 0 };
        let request = if self.connection.has_pages() {
            RootRequest::PageRead { range, is_repeated: repeats > 0 }
        } else {
            RootRequest::Read(range)
        };
        let stream = self.connection.send(&request)?;
        requests.0.push_back(RangeRequest { stream, range, arrived: 0, repeats });
        Ok(())
    }

    /// Passes bytes without checksums on.
    fn bytes(
        &self,
        requests: &mut RangeRequests,
        head: &AnswerHead,
        bytes: &[u8],
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> RootResult<bool> {
        self.root.check_part(&self.connection, head, bytes)?;
        if self.connection.has_pages() {
            return Err(self.root.wrong("no checksums where they were asked for"));
        }
        let asked = requests.arrived(&self.root, head.stream, bytes.len(), head.status == Status::Ok)?;
        Ok(asked.is_none_or(|asked| take(asked.range.offset + u64::from(asked.arrived), bytes)))
    }

    /// Passes pages on whose checksums are right, and asks for the others again.
    fn pages(
        &mut self,
        requests: &mut RangeRequests,
        answer: &CheckedAnswer,
        encoded: &mut [u8],
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> RootResult<bool> {
        let decoded = pages::decode(answer.offset, encoded).map_err(|error| self.root.0.server.wrong(&error))?;
        let asked = requests.arrived(&self.root, answer.stream, decoded.bytes, answer.is_last)?;
        let Some(asked) = asked else { return Ok(true) };
        if answer.offset != asked.range.offset + u64::from(asked.arrived) {
            return Err(self.root.wrong_length());
        }
        let is_beyond = asked.repeats >= REPEATS_MAX || requests.0.len() >= REQUESTS_MAX + REPEATED_MAX;
        if !decoded.damaged.is_empty() && is_beyond {
            return Err(self.root.damages());
        }
        let end = answer.offset + decoded.bytes as u64;
        let mut at = answer.offset;
        for (offset, bytes) in decoded.damaged.into_iter().chain([(end, 0)]) {
            let sound = &encoded[(at - answer.offset) as usize..(offset - answer.offset) as usize];
            if !sound.is_empty() && !take(at, sound) {
                return Ok(false);
            }
            if bytes > 0 {
                self.ask(requests, offset, bytes, asked.repeats + 1)?;
            }
            at = offset + u64::from(bytes);
        }
        Ok(true)
    }
}

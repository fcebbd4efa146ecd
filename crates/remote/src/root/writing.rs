//! Writing a file to a server: in order, with many requests under way, under a temporary name. Its size and checksum are compared with
//! those that the server then reports, and it is renamed.

use std::collections::VecDeque;
use std::sync::Arc;

use model::checksum::{BlockSum, Digest};
use model::fault::Fault;
use model::name::{Name, RelPath};
use model::{Algorithm, Kind};
use parking_lot::Mutex;
use store::{Error, FileAnnouncement, Finish, Result, Sink, Source, Store};
use xroot::answer::OpenAnswer;
use xroot::codes::open_options;
use xroot::head::FileHandle;
use xroot::request::FileRange;
use xroot::{Malformed, RootAnswer, RootRequest, StreamId, pages};

use super::Root;
use super::connection::{self, AnswerPart, RootConnection, RootResult};
use crate::dav::leftovers::temporary_name;
use crate::facts_cache::{Facts, Namespace};
use crate::request_error::RequestError;

/// Bytes of one request.
const REQUEST_BYTES: usize = 2 << 20;
/// Bytes whose answers are awaited: 1.8 Gbit/s over 300 ms.
const UNANSWERED_BYTES_MAX: u64 = 64 << 20;
/// Zeros that are sent at a time for a hole at the end of a file.
const ZEROS: usize = 256 << 10;

/// A file being sent.
pub(super) struct RootSink {
    root: Root,
    path: RelPath,
    temporary: RelPath,
    state: Mutex<SinkState>,
}

#[derive(Default)]
struct SinkState {
    announcement: Option<FileAnnouncement>,
    upload: Option<RootUpload>,
    at: u64,
    sum: Option<BlockSum>,
    /// The file is committed or given up.
    closed: bool,
    /// The server may have a part of the file.
    begun: bool,
    /// A part of the file is lost, so that nothing can be sent after it.
    failed: bool,
}

/// An open file at the server, and the writes whose answers have not come.
struct RootUpload {
    connection: RootConnection,
    file: FileHandle,
    unanswered: VecDeque<(StreamId, u64)>,
    unanswered_bytes: u64,
}

impl std::fmt::Debug for RootSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RootSink").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RootSink {
    pub fn new(root: &Root, path: &RelPath, tag: &str) -> RootSink {
        // The name is valid: it is made of a tag, and shorter than a name may be.
        let temporary = Name::new(&temporary_name(tag)).map_or_else(|_| path.clone(), |name| path.parent().join(&name));
        RootSink { root: root.clone(), path: path.clone(), temporary, state: Mutex::default() }
    }

    fn begin(&self, state: &mut SinkState) -> RootResult<RootUpload> {
        let mut place = self.root.path(&self.temporary)?;
        if let Some(size) = state.announcement.and_then(|announcement| announcement.size) {
            place = place.with("oss.asize", size.to_string());
        }
        let options = open_options::NEW | open_options::UPDATE | open_options::PERSIST_ON_CLOSE;
        let request = RootRequest::Open { place, mode: 0o644, options };
        let server = &self.root.0.server;
        let (connection, body) = server.retrying(|| server.ask_once(&request))?;
        let open = OpenAnswer::parse(&body).map_err(|error| server.wrong(&error))?;
        server.note_transport(&connection);
        state.begun = true;
        Ok(RootUpload { connection, file: open.file, unanswered: VecDeque::new(), unanswered_bytes: 0 })
    }

    fn send(&self, state: &mut SinkState, bytes: &[u8]) -> RootResult<()> {
        let sent = self.send_bytes(state, bytes);
        // The bytes sent so far are lost: the whole file must be sent again.
        let begun = state.at > 0;
        state.failed |= sent.is_err() && begun;
        sent.map_err(|failed| if begun { failed.without_retry() } else { failed })
    }

    fn send_bytes(&self, state: &mut SinkState, bytes: &[u8]) -> RootResult<()> {
        let mut upload = match state.upload.take() {
            Some(upload) => upload,
            None => self.begin(state)?,
        };
        for piece in bytes.chunks(REQUEST_BYTES) {
            upload.write(piece, state.at)?;
            state.at += piece.len() as u64;
        }
        state.upload = Some(upload);
        let sum = BlockSum::of(bytes, true);
        state.sum = Some(state.sum.map_or(sum, |before| before.then(sum, bytes.len() as u64)));
        Ok(())
    }

    /// Checks that the server has the bytes that were sent.
    fn verify(&self, size: u64, sum: Option<BlockSum>) -> RootResult<Facts> {
        let host = self.root.host();
        let damaged = |why: String| RequestError { fault: Fault::Integrity, ..RequestError::protocol_error(why) };
        let facts = self.root.ask_facts(&self.temporary)?;
        if facts.size != size || facts.kind != Kind::File {
            return Err(damaged(format!("{host} accepted {size} bytes and then reports {}", facts.size)));
        }
        let sum = sum.unwrap_or_else(|| BlockSum::of(&[], true));
        let Some(ours) = sum.adler32.and_then(|adler| Digest::new(Algorithm::Adler32, &adler.to_be_bytes())) else {
            return Ok(facts);
        };
        // A server that reports no checksum has at least reported the size.
        let theirs = self.root.digests(&self.temporary, &[Algorithm::Adler32]).unwrap_or_default();
        match theirs.first() {
            Some(theirs) if *theirs != ours => {
                Err(damaged(format!("{host} has other bytes than were sent: its digest is not {ours}")))
            }
            _ => Ok(facts),
        }
    }

    fn finish(&self, state: &mut SinkState, finish: &Finish) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("write", &self.path);
        while state.at < finish.size {
            let zeros = vec![0; (finish.size - state.at).min(ZEROS as u64) as usize];
            self.send(state, &zeros).map_err(cannot)?;
        }
        let upload = match state.upload.take() {
            Some(upload) => upload,
            None => self.begin(state).map_err(cannot)?,
        };
        let connection = upload.close().map_err(RequestError::without_retry).map_err(cannot)?;
        self.root.0.server.keep(connection);
        let facts = self.verify(finish.size, state.sum).map_err(cannot)?;
        self.root.rename(&self.temporary, &self.path, finish.replace)?;
        // A rename may change the modification time.
        self.root.0.cache.store(&self.path, Facts { mtime: None, ..facts });
        Ok(())
    }
}

impl RootUpload {
    /// Sends the next bytes, and takes answers that have come.
    fn write(&mut self, bytes: &[u8], offset: u64) -> RootResult<()> {
        let range = |length: usize| FileRange { file: self.file, offset, bytes: length as u32, path_id: 0 };
        let (request, data) = if self.connection.has_pages() {
            let mut encoded = Vec::new();
            pages::encode(offset, bytes, &mut encoded);
            (RootRequest::PageWrite { range: range(encoded.len()), is_repeated: false }, Some(encoded))
        } else {
            (RootRequest::Write(range(bytes.len())), None)
        };
        let stream = self.connection.send(&request)?;
        let data = data.as_deref().unwrap_or(bytes);
        let sent = self.connection.conn.write_all(data);
        sent.map_err(|error| self.connection.broken(&error))?;
        self.unanswered.push_back((stream, bytes.len() as u64));
        self.unanswered_bytes += bytes.len() as u64;
        while self.unanswered_bytes > UNANSWERED_BYTES_MAX || self.has_answer()? {
            self.take_answer()?;
        }
        Ok(())
    }

    fn has_answer(&mut self) -> RootResult<bool> {
        let has_input = self.connection.conn.has_input();
        Ok(!self.unanswered.is_empty() && has_input.map_err(|error| self.connection.broken(&error))?)
    }

    /// Reads the answer to a write.
    fn take_answer(&mut self) -> RootResult<()> {
        let silence = self.connection.silence();
        let stream = match self.connection.receive(silence)? {
            AnswerPart::Pages { answer, encoded } if encoded.is_empty() => answer.stream,
            AnswerPart::Pages { .. } => {
                let why = format!("{} has got bytes that do not have their checksums", self.connection.authority);
                return Err(RequestError { fault: Fault::Integrity, ..RequestError::protocol_error(why) });
            }
            AnswerPart::Body { head, bytes } => match RootAnswer::parse(&head, &bytes) {
                Ok(RootAnswer::Ok(_)) => head.stream,
                Ok(RootAnswer::Error { code, text }) => {
                    return Err(connection::refusal(&self.connection.authority, code, &text));
                }
                Ok(RootAnswer::Notice) => return Ok(()),
                _ => {
                    let error = Malformed::Order("an answer that no write has");
                    return Err(connection::wrong(&self.connection.authority, &error));
                }
            },
        };
        let at = self.unanswered.iter().position(|(of, _)| *of == stream);
        if let Some((_, bytes)) = at.and_then(|at| self.unanswered.remove(at)) {
            self.unanswered_bytes -= bytes;
        }
        Ok(())
    }

    /// Takes all answers and closes the file.
    fn close(mut self) -> RootResult<RootConnection> {
        while !self.unanswered.is_empty() {
            self.take_answer()?;
        }
        self.connection.ask(&RootRequest::Close(self.file))?;
        Ok(self.connection)
    }
}

impl Sink for RootSink {
    fn announce(&self, announcement: &FileAnnouncement) -> Result<()> {
        self.state.lock().announcement = Some(*announcement);
        Ok(())
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed || state.failed || offset != state.at {
            return Err(Error::Unsupported { what: "writing out of order", store: "an XRootD server" });
        }
        self.send(&mut state, buffer).map_err(|failed| failed.into_store_error("write", &self.path))
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        Err(Error::Unsupported { what: "reading back what is being written", store: "an XRootD server" })
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed || state.failed {
            return Err(Error::Unsupported { what: "continuing an upload that broke off", store: "an XRootD server" });
        }
        let result = self.finish(&mut state, finish);
        if result.is_ok() {
            state.closed = true;
        } else {
            drop(state);
            self.discard();
        }
        result
    }

    fn discard(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        // The server removes a file whose connection ends before it is closed; an old one does not.
        drop(state.upload.take());
        if state.begun {
            drop(state);
            if let Ok(place) = self.root.path(&self.temporary) {
                let _ = self.root.0.server.ask_once(&RootRequest::Remove(place));
            }
        }
    }
}

impl Drop for RootSink {
    fn drop(&mut self) {
        self.discard();
    }
}

//! Sends the data of reads.

use std::io;
use std::sync::Arc;

use serve::buffer;
use store::Source;
use web::Conn;
use xroot::answer::{AnswerHead, CheckedAnswer};
use xroot::head::FileHandle;
use xroot::limits::{PAGES_ANSWER_BYTES_MAX, VECTOR_PART_BYTES_MAX};
use xroot::pages::{self, PAGE_BYTES};
use xroot::request::{FileRange, VectorPart};
use xroot::{ErrorCode, RequestCode, Status, StreamId};

use super::failure::{self, RootFailure, RootOutcome, refuse};
use super::files::RootFile;
use super::written_file::WrittenFile;

/// Bytes of parts of a vector read that are sent in one piece.
const PARTS_AT_ONCE: usize = 1 << 20;
/// Bytes of pages that are sent in one piece: they stay in the cache of the processor while their checksums are made.
const PAGES_AT_ONCE: usize = 64 * PAGE_BYTES;

const _: () = assert!(PAGES_AT_ONCE <= PAGES_ANSWER_BYTES_MAX);

/// How a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadKind {
    /// The bytes.
    Plain,
    /// Pages with checksums.
    Pages,
}

/// A read that is to be answered, on whatever connection.
pub(super) enum ReadOrder {
    Range { kind: ReadKind, stream: StreamId, file: Arc<RootFile>, range: FileRange },
    Parts { stream: StreamId, files: Vec<(FileHandle, Arc<RootFile>)>, parts: Vec<VectorPart> },
}

impl ReadOrder {
    /// Reads the file and sends the answer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn answer(&self, conn: &mut Conn) -> io::Result<()> {
        let (stream, outcome) = match self {
            ReadOrder::Range { kind, stream, file, range } => {
                (*stream, send_range(conn, *stream, *kind, file, range, &mut PageBuffers::default()))
            }
            ReadOrder::Parts { stream, files, parts } => (*stream, send_parts(conn, *stream, files, parts)),
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(RootFailure::Refused(code, reason)) => conn.write_all(&failure::answer(code, &reason).to_bytes(stream)),
            Err(RootFailure::Broken(error)) => Err(error),
        }
    }
}

/// The buffers of an answer with pages.
#[derive(Default)]
pub(super) struct PageBuffers {
    data: Vec<u8>,
    encoded: Vec<u8>,
}

/// What a read reads: a file as it was opened, or the part of a file that was written so far.
struct Readable {
    source: Arc<dyn Source>,
    size: u64,
}

impl Readable {
    fn of(file: &RootFile) -> RootOutcome<Readable> {
        match file {
            RootFile::Read(read) => Ok(Readable { source: Arc::clone(&read.source), size: read.stat.meta.size }),
            RootFile::Written(written) => Readable::unfinished(&written.lock()),
            RootFile::Pulled(pulled) => Readable::unfinished(&pulled.file().lock()),
        }
    }

    fn unfinished(written: &WrittenFile) -> RootOutcome<Readable> {
        let (source, size) = written.read_back()?;
        Ok(Readable { source, size })
    }

    /// The bytes of a range that are there.
    fn bytes(&self, range: &FileRange) -> u64 {
        u64::from(range.bytes).min(self.size.saturating_sub(range.offset))
    }
}

/// Counts what was sent.
fn count(file: &RootFile, bytes: u64) {
    if let RootFile::Read(read) = file {
        read.sent(bytes);
    }
}

/// The head of an answer of so many bytes.
fn head(stream: StreamId, status: Status, bytes: usize) -> [u8; 8] {
    AnswerHead { stream, status, bytes: bytes as u32 }.to_bytes()
}

/// Reads a range and sends it.
///
/// # Errors
/// The file cannot be read, or the connection broke. After the first byte of an answer only the connection can end it.
pub(super) fn send_range(
    conn: &mut Conn,
    stream: StreamId,
    kind: ReadKind,
    file: &RootFile,
    range: &FileRange,
    buffers: &mut PageBuffers,
) -> RootOutcome<()> {
    let readable = Readable::of(file)?;
    let bytes = readable.bytes(range);
    match (kind, readable.source.descriptor()) {
        (ReadKind::Pages, _) => send_pages(conn, stream, file, &readable, range.offset, bytes, buffers),
        (ReadKind::Plain, Some(descriptor)) if conn.sends_files() && bytes > 0 => {
            conn.write_before_body(&head(stream, Status::Ok, bytes as usize))?;
            let mut at = range.offset;
            while at < range.offset + bytes {
                let sent = conn.send_file(descriptor, at, range.offset + bytes - at)?;
                if sent == 0 {
                    return Err(io::Error::other("the file became shorter while it was read").into());
                }
                at += sent;
                count(file, sent);
            }
            Ok(())
        }
        (ReadKind::Plain, _) => send_pieces(conn, stream, file, &readable, range.offset, bytes),
    }
}

/// Sends a range in pieces, each an answer of its own, so that an error can follow.
fn send_pieces(
    conn: &mut Conn,
    stream: StreamId,
    file: &RootFile,
    readable: &Readable,
    offset: u64,
    bytes: u64,
) -> RootOutcome<()> {
    buffer::with(|buffer| {
        let mut at = 0;
        loop {
            let more = (bytes - at).min(buffer.len() as u64) as usize;
            let got = if more == 0 { 0 } else { readable.source.read_at(&mut buffer[..more], offset + at)? };
            at += got as u64;
            let is_last = got < more || at == bytes;
            let status = if is_last { Status::Ok } else { Status::Partial };
            conn.write_all(&head(stream, status, got))?;
            conn.write_all(&buffer[..got])?;
            count(file, got as u64);
            if is_last {
                return Ok(());
            }
        }
    })
}

/// Sends a range as pages with checksums.
fn send_pages(
    conn: &mut Conn,
    stream: StreamId,
    file: &RootFile,
    readable: &Readable,
    offset: u64,
    bytes: u64,
    buffers: &mut PageBuffers,
) -> RootOutcome<()> {
    let PageBuffers { data, encoded } = buffers;
    let mut at = offset;
    let end = offset + bytes;
    loop {
        // All but the first piece begin with a page of the file.
        let most = PAGES_AT_ONCE - (at % PAGE_BYTES as u64) as usize;
        let more = (end - at).min(most as u64) as usize;
        data.resize(more, 0);
        let got = if more == 0 { 0 } else { readable.source.read_at(data, at)? };
        let is_last = got < more || at + got as u64 == end;
        encoded.clear();
        encoded.resize(xroot::answer::ANSWER_HEAD_BYTES + xroot::answer::CHECKED_BYTES, 0);
        pages::encode(at, &data[..got], encoded);
        let data_bytes = pages::encoded_bytes(at, got) as u32;
        let answer = CheckedAnswer { stream, code: RequestCode::PageRead, is_last, offset: at, data_bytes };
        let head = answer.to_bytes();
        encoded[..head.len()].copy_from_slice(&head);
        conn.write_all(encoded)?;
        count(file, got as u64);
        at += got as u64;
        if is_last {
            return Ok(());
        }
    }
}

/// Reads several ranges and sends them, each behind its place in the list.
///
/// # Errors
/// A range ends beyond its file, a file cannot be read, or the connection broke.
pub(super) fn send_parts(
    conn: &mut Conn,
    stream: StreamId,
    files: &[(FileHandle, Arc<RootFile>)],
    parts: &[VectorPart],
) -> RootOutcome<()> {
    let mut pieces = Vec::with_capacity(PARTS_AT_ONCE);
    for (number, part) in parts.iter().enumerate() {
        let file = files.iter().find(|(handle, _)| *handle == part.file).map(|(_, file)| file);
        let file = file.ok_or_else(|| refuse(ErrorCode::FileNotOpen, "no file is open under a handle of the list"))?;
        if part.bytes > VECTOR_PART_BYTES_MAX {
            return Err(refuse(ErrorCode::ArgTooLong, format!("a part is longer than {VECTOR_PART_BYTES_MAX} bytes")));
        }
        pieces.extend_from_slice(&part.file.0);
        pieces.extend_from_slice(&part.bytes.to_be_bytes());
        pieces.extend_from_slice(&part.offset.to_be_bytes());
        let begin = pieces.len();
        pieces.resize(begin + part.bytes as usize, 0);
        let readable = Readable::of(file)?;
        let got = readable.source.read_at(&mut pieces[begin..], part.offset)?;
        if got < part.bytes as usize {
            return Err(refuse(ErrorCode::ArgInvalid, format!("part {number} of the list ends beyond its file")));
        }
        count(file, u64::from(part.bytes));
        if pieces.len() >= PARTS_AT_ONCE && number + 1 < parts.len() {
            conn.write_all(&head(stream, Status::Partial, pieces.len()))?;
            conn.write_all(&pieces)?;
            pieces.clear();
        }
    }
    conn.write_all(&head(stream, Status::Ok, pieces.len()))?;
    conn.write_all(&pieces)?;
    Ok(())
}

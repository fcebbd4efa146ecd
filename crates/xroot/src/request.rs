//! Requests, as a server parses them and a client writes them. The data of a write follow their request, and are not a part of it.

mod parse;
mod write;

use crate::attributes::AttributesRequest;
use crate::codes::RequestCode;
use crate::credentials::CredentialKind;
use crate::head::{FileHandle, SessionId};
use crate::place::{FileOrPath, RootPath};

/// What a client wants with its connection, as its request for the protocol says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It does not say.
    Unknown,
    /// To bind the connection to a session.
    Bind,
    /// To begin a session.
    Login,
    /// To have a file copied by the server.
    Copy,
    /// Another one, by its number.
    Other(u8),
}

/// A part of a vector read, or the place of a part of a vector write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorPart {
    /// The file.
    pub file: FileHandle,
    /// Its length in bytes.
    pub bytes: u32,
    /// Its offset in the file.
    pub offset: u64,
}

/// A range of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: FileHandle,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u32,
    /// The connection on which the answer is wanted: 0 is that of the request.
    pub path_id: u8,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootRequest {
    /// Agrees on the version and on TLS.
    Protocol {
        /// The version of the client.
        version: u32,
        /// [`crate::codes::protocol_flags`].
        flags: u8,
        /// What the client wants with the connection.
        purpose: Purpose,
    },
    /// Begins a session.
    Login {
        /// The process of the client.
        process: u32,
        /// The name of its user, as the client says.
        user: String,
        /// Whether it is a client of version 5 or newer: it can speak TLS.
        is_able_tls: bool,
        /// Whether it takes answers that come later.
        takes_async: bool,
        /// What the client says about itself: `xrd.appname=…&xrd.info=…`, and others.
        about: RootPath,
    },
    /// A credential.
    Authenticate {
        /// Its kind.
        kind: CredentialKind,
        /// Its bytes, which begin with the name of its kind.
        credential: Vec<u8>,
    },
    /// Binds the connection to a session.
    Bind(SessionId),
    /// Ends another session of the client.
    EndSession(SessionId),
    /// Asks for an empty answer.
    Ping,
    /// Opens a file.
    Open {
        /// The file.
        place: RootPath,
        /// Permission bits of a new file.
        mode: u16,
        /// [`crate::codes::open_options`].
        options: u16,
    },
    /// Closes a file.
    Close(FileHandle),
    /// Reads a range.
    Read(FileRange),
    /// Reads a range as pages with checksums.
    PageRead {
        /// The range.
        range: FileRange,
        /// The client reads it again, because a checksum was wrong.
        is_repeated: bool,
    },
    /// Reads several ranges.
    ReadVector {
        /// The ranges.
        parts: Vec<VectorPart>,
        /// The connection on which the answer is wanted.
        path_id: u8,
    },
    /// Writes a range, whose bytes follow.
    Write(FileRange),
    /// Writes pages with checksums, which follow.
    PageWrite {
        /// The range; its length is that of the pages with their checksums.
        range: FileRange,
        /// The client writes a page again, because its checksum was wrong.
        is_repeated: bool,
    },
    /// Writes several ranges, whose bytes follow.
    WriteVector {
        /// The ranges.
        parts: Vec<VectorPart>,
        /// Whether each is flushed.
        is_synced: bool,
    },
    /// Flushes a file, or begins a third-party copy.
    Sync(FileHandle),
    /// Sets the length of a file.
    Truncate {
        /// The file.
        of: FileOrPath,
        /// Its new length.
        bytes: u64,
    },
    /// Asks for the facts of an entry.
    Stat {
        /// The entry.
        of: FileOrPath,
        /// Asks for the space of the file system instead.
        of_file_system: bool,
    },
    /// Lists a directory.
    List {
        /// The directory.
        place: RootPath,
        /// [`crate::codes::list_options`].
        options: u8,
    },
    /// Makes a directory.
    MakeDirectory {
        /// The directory.
        place: RootPath,
        /// Makes those above it as well, and is content with one that exists.
        with_parents: bool,
    },
    /// Renames an entry.
    Move {
        /// Its name.
        from: RootPath,
        /// Its new name.
        to: RootPath,
    },
    /// Removes a file.
    Remove(RootPath),
    /// Removes an empty directory.
    RemoveDirectory(RootPath),
    /// Sets the mode of an entry.
    ChangeMode {
        /// The entry.
        place: RootPath,
        /// The permission bits.
        mode: u16,
    },
    /// A query.
    Query {
        /// Its number; [`crate::QueryKind`] knows those that are common.
        kind: u16,
        /// The file that it is about, where it is about one.
        file: FileHandle,
        /// Its text.
        text: Vec<u8>,
    },
    /// Asks which server has a file.
    Locate(RootPath),
    /// Brings files from tape, or says that they are no longer needed on disk.
    Prepare {
        /// [`crate::codes::prepare_options`], the first field.
        options: u8,
        /// The second field.
        more_options: u16,
        /// The files; the id of an earlier request comes first where it is cancelled.
        lines: Vec<Vec<u8>>,
    },
    /// Extended attributes.
    Attributes(AttributesRequest),
    /// Tells the server a name of the client.
    Set,
    /// Another known request, which is not read further.
    Other(RequestCode),
}

#[cfg(test)]
mod tests;

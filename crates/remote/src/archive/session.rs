//! What a protocol of archives does.

use std::ops::Range;
use std::time::Duration;

use super::ArchiveResult;
use crate::facts_cache::{Entry, Facts};

/// How to log in at a server.
pub(crate) trait ArchiveLogin: Send + Sync {
    /// `an FTP server`, for messages.
    fn kind(&self) -> &'static str;
    /// The server's name, for messages too.
    fn host(&self) -> &str;
    /// Whether the bytes of files are encrypted on their way.
    fn is_encrypted(&self) -> bool;
    /// The time for which one request is tried again.
    fn patience(&self) -> Duration;
    /// A path below the address, as requests have it.
    fn path(&self, path: &str) -> String;
    /// Whether a session reads any range of a file as fast as the next one.
    fn reads_at_random(&self) -> bool;
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses.
    fn connect(&self) -> ArchiveResult<Box<dyn ArchiveSession>>;
}

/// A session with a server. After an error without a status it cannot be used any more.
pub(crate) trait ArchiveSession: Send {
    /// The facts of a path. A symbolic link is followed.
    fn facts(&mut self, path: &str) -> ArchiveResult<Facts>;
    /// The entries of a directory.
    fn entries(&mut self, path: &str) -> ArchiveResult<Vec<Entry>>;
    /// All bytes of a range of a file. Ranges that follow each other are read in one go.
    fn read(&mut self, path: &str, span: Range<u64>) -> ArchiveResult<Vec<u8>>;
    /// Begins a new file.
    fn begin_write(&mut self, path: &str) -> ArchiveResult<()>;
    /// Writes the next bytes of the file.
    fn write(&mut self, bytes: &[u8]) -> ArchiveResult<()>;
    /// Ends the file: the server has all of its bytes.
    fn end_write(&mut self) -> ArchiveResult<()>;
    /// Makes a directory.
    fn make_dir(&mut self, path: &str) -> ArchiveResult<()>;
    /// Removes a file.
    fn remove_file(&mut self, path: &str) -> ArchiveResult<()>;
    /// Removes an empty directory.
    fn remove_dir(&mut self, path: &str) -> ArchiveResult<()>;
    /// Renames, and replaces a file of the new name if the protocol can.
    fn rename(&mut self, from: &str, to: &str) -> ArchiveResult<()>;
}

//! Files that clients write, for every protocol that writes a file as a whole: under a temporary name until they are complete, then by a
//! rename, with the digests that were made of their bytes.
//!
//! Does not know: where the bytes come from, and the rights of the client.

use std::sync::Arc;

use model::checksum::{BlockSum, Digest};
use model::{Algorithm, RelPath, Timestamp};
use store::{FileAnnouncement, Finish, Sink, Store};

use crate::access::ResolvedPath;
use crate::clock::now;
use crate::dead_properties;
use crate::digests::{Digests, Stamp};
use crate::unfinished::{Tag, UnfinishedFiles};

/// The mode of a new file.
pub(crate) const FILE_MODE: u32 = 0o644;
/// For files of at least this length the space is reserved before the first byte.
const RESERVED_FROM: u64 = 1 << 20;

/// Checks that the bytes fit. Other writers may still fill the device later.
///
/// # Errors
/// They do not fit, or the store cannot say how much space there is.
pub(crate) fn check_room(store: &dyn Store, path: &RelPath, bytes: u64) -> store::Result<()> {
    let mut dir = path.parent();
    let space = loop {
        match store.space(&dir) {
            Err(error) if error.is_not_found() && !dir.is_root() => dir = dir.parent(),
            other => break other?,
        }
    };
    match space {
        Some(space) if space.free_bytes < bytes => {
            let why = format!("{bytes} bytes do not fit: {} are free here", space.free_bytes);
            Err(store::Error::io("write", path, std::io::Error::new(std::io::ErrorKind::StorageFull, why)))
        }
        _ => Ok(()),
    }
}

/// The sink of a file without its final name. Dropping it discards the file.
pub(crate) struct UncommittedSink(pub Arc<dyn Sink>);

impl Drop for UncommittedSink {
    fn drop(&mut self) {
        // No effect on a file that has its final name.
        self.0.discard();
    }
}

/// An uncommitted sink with its tag. The tag is dropped last: the list of leftovers keeps the file until it is gone or has its name.
pub(crate) struct ListedSink(
    pub Arc<dyn Sink>,
    #[expect(dead_code, reason = "kept until it is dropped")] (UncommittedSink, Tag),
);

impl ListedSink {
    /// Reserves space, unless the file is small.
    ///
    /// # Errors
    /// There is not so much space.
    pub fn reserve(&self, length: Option<u64>) -> store::Result<()> {
        if let Some(bytes) = length.filter(|bytes| *bytes >= RESERVED_FROM) {
            self.0.reserve(bytes)?;
        }
        Ok(())
    }
}

/// Creates a file under a temporary name, with the directories above it and reserved space.
///
/// # Errors
/// The store cannot make it.
pub(crate) fn begin(
    unfinished: &UnfinishedFiles,
    resolved: &ResolvedPath,
    length: Option<u64>,
) -> store::Result<ListedSink> {
    let begun = begin_unreserved(unfinished, resolved, length)?;
    begun.reserve(length)?;
    Ok(begun)
}

/// Creates a file under a temporary name, with the directories above it.
///
/// # Errors
/// The store cannot make it.
pub(crate) fn begin_unreserved(
    unfinished: &UnfinishedFiles,
    resolved: &ResolvedPath,
    length: Option<u64>,
) -> store::Result<ListedSink> {
    store::make_dirs(&*resolved.store, &resolved.path.parent())?;
    let tag = unfinished.tag(resolved);
    let sink = resolved.store.create(&resolved.path, &tag)?;
    let begun = ListedSink(Arc::clone(&sink), (UncommittedSink(sink), tag));
    begun.0.announce(&FileAnnouncement { size: length, mtime: now(), replace: true })?;
    Ok(begun)
}

/// The size and digests of a file, computed while it is received.
pub(crate) struct FileSums {
    pub size: u64,
    pub block: BlockSum,
    /// Digests that need every byte in order, if such a digest was stated.
    pub serial: Vec<Digest>,
}

impl FileSums {
    /// Computes stated digests that are missing, by reading the bytes again from the page cache: those that need every byte in
    /// order and were stated only after the body.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn complete(&mut self, sink: &dyn Sink, stated: &[Digest]) -> store::Result<()> {
        let is_made = |algorithm| self.serial.iter().any(|made| made.algorithm() == algorithm);
        let mut missing: Vec<Algorithm> = stated.iter().map(Digest::algorithm).collect();
        missing.retain(|algorithm| algorithm.is_serial() && !is_made(*algorithm));
        if !missing.is_empty() {
            self.serial.extend(store::digest::of_file(&*sink.as_source()?, &RelPath::root(), &missing)?);
        }
        Ok(())
    }

    /// All digests that have been computed.
    pub fn digests(&self) -> Vec<Digest> {
        let mut all = vec![Digest::crc32c(self.block.crc32c)];
        all.extend(self.block.adler32.and_then(|sum| Digest::new(Algorithm::Adler32, &sum.to_be_bytes())));
        all.extend(self.serial.iter().cloned());
        all
    }
}

/// How a file of a client is finished: its owner is the node, and it need not reach stable storage at once.
pub(crate) fn finish(size: u64, mode: u32, mtime: Timestamp, replace: bool) -> Finish {
    Finish { size, mode, mtime, durable: false, replace, attributes: None }
}

/// A file that has its final name.
pub(crate) struct Committed {
    pub inode: u64,
    pub mtime: Timestamp,
}

/// Gives a file its final name and keeps its digests.
///
/// # Errors
/// The store cannot commit it.
pub(crate) fn commit(
    digests: &Digests,
    resolved: &ResolvedPath,
    sink: &dyn Sink,
    finish: &Finish,
    made: &[Digest],
) -> store::Result<Committed> {
    if resolved.is_remote {
        // A remote server reports the file's attributes only after the commit.
        sink.commit(finish)?;
        let stat = resolved.store.stat(&resolved.path)?;
        return Ok(Committed { inode: stat.identity.1, mtime: stat.meta.mtime });
    }
    let source = sink.as_source()?;
    let identity = source.stat()?.identity;
    let stamp = Stamp { size: finish.size, mtime: finish.mtime, inode: identity.1 };
    digests.keep(&*source, identity, stamp, made);
    dead_properties::replace_file(&*resolved.store, &resolved.path, &mut || sink.commit(finish))?;
    tracing::debug!(path = %resolved.path, bytes = finish.size, "committed");
    Ok(Committed { inode: identity.1, mtime: finish.mtime })
}

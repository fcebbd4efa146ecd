//! Stores: one trait over directories of a file system, memory, pipes, and the stores without a disk `null:` and `zero:`; digests; one
//! conformance suite for all.
//!
//! All calls are blocking and positional: the data plane is plain threads, and a block is written at its offset, not at a cursor. The
//! abilities of a back end are data ([`Capabilities`]), not a question of its type.
//!
//! What this crate does not know: the network, the protocol, and rights. A store refuses paths that lead out of its root; its callers
//! decide who may write below it.
//!
//! A file is written under a tag, and has its name once it is committed:
//!
//! ```
//! use model::name::RelPath;
//! use store::Store;
//! use store::memory::Memory;
//!
//! let store = Memory::default();
//! let path = RelPath::parse(b"run7")?;
//! let sink = store.create(&path, "tag")?;
//! sink.write_at(b"events", 0)?;
//! assert!(store.stat(&path).is_err(), "not committed yet");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod below;
pub mod digest;
pub mod ends;
mod entries;
mod entry;
pub mod error;
mod guarded;
pub mod memory;
pub mod pipe;
pub mod posix;
mod removal;

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use model::checksum::Digest;
use model::entry::Attributes;
use model::name::RelPath;
use model::{Algorithm, Meta, Timestamp};

pub use below::{below, below_of, granted_dir};
pub use entries::{Entries, is_unfinished_name};
pub use entry::granted_entry;
pub use error::{Error, Result};
pub use guarded::{Change, Guard, guarded};
pub use removal::{Overseer, remove_all, remove_all_while, remove_tree};

/// In which order the bytes of a file can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Any range at any time, also one that was written before.
    Anywhere,
    /// From the first byte to the last, each once.
    InOrder,
    /// Any range at any time, each once and all of them: the back end collects parts and uploads each one that is full.
    InParts,
}

/// What a back end can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// In which order files can be written.
    pub writes: Writes,
    /// Any bytes but `/` and NUL are a name; otherwise only text is.
    pub any_name: bool,
    /// A file's length is known before it is read.
    pub sized: bool,
    /// A file keeps the modification time that it is given; otherwise it has that of its writing.
    pub times: bool,
    /// Modes, symbolic and hard links, and times of directories are kept.
    pub posix: bool,
    /// Holes take no space and can be found.
    pub sparse: bool,
    /// What is written is kept.
    pub keeps: bool,
    /// Directories can be listed. A store may learn only at its first request that they cannot.
    pub lists: bool,
}

/// An entry's facts, with the identity by which its hard links are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The facts that are transferred.
    pub meta: Meta,
    /// Device and inode: equal for two names of one file.
    pub identity: (u64, u64),
    /// Names that the file has.
    pub names: u64,
    /// Bytes that it takes on the device; less than its size where it has holes.
    pub allocated: u64,
    /// The last change of the data or of the facts, a time that cannot be set; `None` where the store keeps none. On Linux the ctime,
    /// which is exact to the nanosecond from 6.13 on, and to the tick before.
    pub changed: Option<Timestamp>,
}

/// The extent at an offset of a file, with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Data, up to this offset.
    Data(u64),
    /// A hole, up to this offset: it reads as zeros.
    Hole(u64),
}

/// The attributes to read or to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeSelection {
    /// The owner.
    pub owner: bool,
    /// Extended attributes and ACLs.
    pub xattrs: bool,
}

/// The position of an entry in the host's file systems, as devices and inodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The entry itself, where it exists.
    pub itself: Option<(u64, u64)>,
    /// The directories above it, innermost first, up to the host's root directory; for a missing entry from the nearest directory that
    /// exists.
    pub above: Vec<(u64, u64)>,
}

/// The metadata that an entry should have.
#[derive(Clone, Copy, Debug)]
pub struct WantedMetadata<'a> {
    /// Permission bits.
    pub mode: u32,
    /// Last change.
    pub mtime: Timestamp,
    /// The attributes that are compared and set.
    pub asked: AttributeSelection,
    /// Their values; `None` where the entry should have none.
    pub attributes: Option<&'a Attributes>,
}

/// Space on the device of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    /// Bytes of the whole device.
    pub total_bytes: u64,
    /// The device.
    pub device: u64,
}

/// The facts of a file that are known before its first byte is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAnnouncement {
    /// Its length in bytes; `None` where it is unknown.
    pub size: Option<u64>,
    /// Its last change.
    pub mtime: Timestamp,
    /// An existing file of that name may be replaced.
    pub replace: bool,
}

/// How a file is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Its length in bytes; ranges below it that were not written are holes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change.
    pub mtime: Timestamp,
    /// It reaches stable storage before the call returns.
    pub durable: bool,
    /// An existing file of that name is replaced; otherwise it is an error.
    pub replace: bool,
    /// Owner and extended attributes to give it.
    pub attributes: Option<Box<Attributes>>,
}

/// How links are treated on the path to the root directory of a confined store, and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRules {
    /// As every path of the store: links that stay inside are followed, in the confined store too.
    Freely,
    /// As every path of the store; in the confined store no link is followed.
    FreelyThenNoLink,
    /// Component by component, as a credential names it. A link on the path may lead only below the directory that it lies in, so
    /// that a client who makes one reaches nothing that it could not write there anyway; the last component is not a link.
    Strictly {
        /// Missing directories are made.
        make: bool,
    },
    /// Component by component, to the directory that holds the entry of a credential; in the confined store no link is followed.
    StrictlyThenNoLink {
        /// Missing directories are made.
        make: bool,
    },
}

/// Whether the bytes of files crossed a network by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PayloadProtection {
    /// All of them by TLS.
    Tls,
    /// Some of them in clear text.
    Plain,
}

/// A place that holds a tree. Paths are below its root; no call follows a link out of it.
pub trait Store: Send + Sync + Debug {
    /// The abilities of the back end.
    fn capabilities(&self) -> Capabilities;
    /// Facts about an entry; a symbolic link is not followed. Idempotent.
    fn stat(&self, path: &RelPath) -> Result<Stat>;
    /// The same tree with symbolic links replaced by their targets, as far as this store may follow them; `None` where there are no
    /// links.
    fn following_links(&self) -> Result<Option<Arc<dyn Store>>> {
        Ok(None)
    }
    /// Whether the path leads to a directory, links inside the root followed. Idempotent.
    fn is_dir(&self, path: &RelPath) -> bool;
    /// The entries of a directory. Idempotent.
    fn list(&self, path: &RelPath) -> Result<Entries>;
    /// The target of a symbolic link. Idempotent.
    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>>;
    /// Opens a file to read. Idempotent.
    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>>;
    /// Starts a file beside its final name, under a name made from `tag`. Dropping the sink discards it.
    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>>;
    /// Continues a file that was started with this tag and kept ([`Sink::keep`]); `None` where there is none.
    fn resume(&self, _path: &RelPath, _tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        Ok(None)
    }
    /// Opens a file that another process has started with this tag, and will finish. The caller uses only [`Sink::write_at`],
    /// [`Sink::clear`] and [`Sink::flush`]; dropping the sink changes nothing. `size` is the final length in bytes. `None` where this
    /// host sees no such file.
    fn join(&self, _path: &RelPath, _tag: &str, _size: u64) -> Result<Option<Arc<dyn Sink>>> {
        Ok(None)
    }
    /// Removes a file that was started with this tag and kept. Idempotent.
    fn forget(&self, _path: &RelPath, _tag: &str) -> Result<()> {
        Ok(())
    }
    /// Owner and extended attributes of an entry. Idempotent.
    fn attributes(&self, _path: &RelPath, _asked: AttributeSelection) -> Result<Attributes> {
        Ok(Attributes::default())
    }
    /// The directories above an entry, above the store's own root too; empty where a back end has no such thing.
    fn lineage(&self, _path: &RelPath) -> Lineage {
        Lineage::default()
    }
    /// Whether an entry has other facts than these. Idempotent.
    fn differs(&self, _path: &RelPath, _from: &WantedMetadata<'_>) -> Result<bool> {
        Ok(false)
    }
    /// Gives an entry the facts that it should have. Returns whether any were different. New files get theirs in [`Sink::commit`]. A
    /// store without owners and modes does nothing. Idempotent.
    fn refresh(&self, _path: &RelPath, _to: &WantedMetadata<'_>) -> Result<bool> {
        Ok(false)
    }
    /// Space on the device of a directory; `None` where the store has no bound. Idempotent.
    fn space(&self, _path: &RelPath) -> Result<Option<Space>> {
        Ok(None)
    }
    /// Makes a directory; one that exists is left as it is and made usable. Idempotent.
    fn make_dir(&self, path: &RelPath) -> Result<()>;
    /// Makes a symbolic link; replaces a file or link of that name where allowed. `tag` as for `create`.
    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()>;
    /// Makes another name for a file; replaces a file or link of that name where allowed. `tag` as for `create`.
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()>;
    /// Sets mode and modification time of a directory. Idempotent.
    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()>;
    /// Removes a file, a link or an empty directory.
    fn remove(&self, path: &RelPath) -> Result<()>;
    /// Removes all unfinished files of a directory, which is about to be removed. Idempotent.
    fn remove_unfinished(&self, _dir: &RelPath) -> Result<()> {
        Ok(())
    }
    /// Renames; a file of the new name is replaced where allowed, and so is an empty directory by another one.
    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()>;
    /// A store rooted in a directory of this one; no path leads out of it. `None` where no path could anyway, so that [`below`] need
    /// only put the directory before each path.
    fn confined(&self, _dir: &RelPath, _rules: PathRules) -> Result<Option<Arc<dyn Store>>> {
        Ok(None)
    }
    /// Whether the bytes of files have crossed the network by TLS so far; `None` where none have crossed a network.
    fn payload_protection(&self) -> Option<PayloadProtection> {
        None
    }
    /// Those of the wanted digests that the back end itself reports, without reading the file here. Idempotent.
    fn digests(&self, _path: &RelPath, _wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        Ok(Vec::new())
    }
    /// A note on an entry, as [`Source::note`]; for directories too. Idempotent.
    fn note(&self, _path: &RelPath, _name: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    /// Sets a note on an entry, in place of one of this name; an empty note removes it.
    fn set_note(&self, path: &RelPath, _name: &str, _note: &[u8]) -> Result<()> {
        let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
        Err(Error::io("leave a note on", path, source))
    }
}

/// A file being read.
pub trait Source: Send + Sync + Debug {
    /// Reads at an offset; fewer bytes than asked only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// The number of bytes from an offset on that are known to be zeros, so that a buffer of zeros need not be filled with
    /// them again. They are data, not a hole. `None` where they must be read.
    fn zeros_at(&self, _offset: u64, _len: usize) -> Option<usize> {
        None
    }
    /// The facts now, which may differ from those listed.
    fn stat(&self) -> Result<Stat>;
    /// The extent at an offset before the end of the file.
    fn extent(&self, offset: u64, size: u64) -> Result<Extent>;
    /// The file's descriptor, for calls that move its bytes past this process. `None` where it has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// A note on the file (an extended attribute `user.longhaul.NAME`). `None` where there is none, or the store keeps no notes.
    fn note(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }
    /// Sets a note on the file. Returns whether the store keeps it, which may depend on the file system and on the file's owner.
    fn set_note(&self, _name: &str, _note: &[u8]) -> bool {
        false
    }
}

/// A file being written, not yet under its name.
pub trait Sink: Send + Sync + Debug {
    /// Writes all of the buffer at an offset.
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()>;
    /// Makes a range of a resumed file a hole again, whatever an earlier attempt wrote there.
    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        let zeros = vec![0; len.min(1 << 20) as usize];
        let mut at = offset;
        while at < offset + len {
            let piece = (offset + len - at).min(zeros.len() as u64);
            self.write_at(&zeros[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }
    /// Announces the facts of the file before its first byte, where they are known.
    fn announce(&self, _coming: &FileAnnouncement) -> Result<()> {
        Ok(())
    }
    /// Prepares the file for a later attempt, which finds it by its name: from now on it is locked, and it is neither renamed nor removed
    /// where that name has become another file's. [`Store::resume`] does the same.
    fn guard(&self) {}
    /// Reserves space for a file of this length in bytes; a full device is an error. Returns whether the space is reserved: not every
    /// store can.
    fn reserve(&self, _size: u64) -> Result<bool> {
        Ok(false)
    }
    /// Notes that a process that has joined the file has written up to an offset ([`Store::join`]).
    fn note_written_to(&self, _end: u64) {}
    /// Makes the bytes written so far visible to all hosts that share the file system, and reports errors that were delayed. Costs nothing
    /// on a local file system.
    fn publish(&self) -> Result<()> {
        Ok(())
    }
    /// Writes the bytes so far to stable storage.
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    /// Drops cached pages of the file, as far as the system permits, so that later reads come from the device: some writes may not have
    /// reached it, or another host may have written.
    fn drop_cache(&self) {}
    /// Keeps the file under its temporary name, for [`Store::resume`].
    fn keep(&self) {
        self.discard();
    }
    /// The file as a source, to read back what was written.
    fn as_source(&self) -> Result<Arc<dyn Source>>;
    /// Gives the file its length, mode, time and name. Called at most once, unless it failed for lack of space; any other failure
    /// discards the file.
    fn commit(&self, finish: &Finish) -> Result<()>;
    /// Removes what was written. Harmless after `commit`.
    fn discard(&self);
}

/// Makes a directory and all its missing parents.
///
/// # Errors
/// A directory cannot be made, or another entry has its name.
pub fn make_dirs(store: &dyn Store, path: &RelPath) -> Result<()> {
    if store.is_dir(path) {
        return Ok(());
    }
    if !path.is_root() {
        make_dirs(store, &path.parent())?;
    }
    match store.make_dir(path) {
        // Where a link leads out of the store, that is the error to report.
        Err(conflict @ Error::Kind { .. }) => match store.list(path) {
            Err(escapes @ Error::Escapes(_)) => Err(escapes),
            _ => Err(conflict),
        },
        other => other,
    }
}

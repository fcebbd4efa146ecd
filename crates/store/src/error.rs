//! The errors of stores: the operation, the path, the reason and the remedy.

use std::io;

use model::Kind;
use model::fault::{Blame, Fault, Retry};
use model::name::RelPath;

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {doing} {path}{}", remedy(.source))]
    Io {
        /// The operation: "read", "create", …
        doing: &'static str,
        /// The path.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system accepted bytes and could not store them. It reports this once: a second call would succeed, although the bytes are
    /// lost. So a retry must read back what the file holds.
    #[error("what was written to {path} could not be kept{}", remedy(.source))]
    Late {
        /// The path.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The path, or a link on it, leads out of the root.
    #[error("{0} leads out of its export or directory, which is not allowed")]
    Escapes(String),
    /// Another entry than the one that the credential is for.
    #[error("the credential is for {entry} alone, not for {path}")]
    Outside {
        /// The requested path.
        path: String,
        /// The entry that the credential is for.
        entry: String,
    },
    /// The operation would rename or replace the very entry that the credential is for, or make a link of it.
    #[error("the credential is for {path}, which cannot be {refused}")]
    Granted {
        /// The entry.
        path: String,
        /// The refused operation, as a participle.
        refused: &'static str,
    },
    /// The name of an unfinished file. Only the store itself uses such names.
    #[error("{0} is the name of an unfinished file; such names are this program's own")]
    Unfinished(String),
    /// A client holds a lock on the entry.
    #[error("{path} is locked by {who} until {until}; wait, or have it unlocked there")]
    Locked {
        /// The entry.
        path: String,
        /// The owner of the lock.
        who: String,
        /// When the lock expires, in UTC.
        until: String,
    },
    /// A file exists, and may not be replaced.
    #[error("{0} exists already and differs (--no-overwrite)")]
    Exists(String),
    /// The entry is of another kind.
    #[error("{path} is {found}, not {wanted}")]
    Kind {
        /// The entry.
        path: String,
        /// Its kind.
        found: &'static str,
        /// The expected kind.
        wanted: &'static str,
    },
    /// A remote server refused, or did not answer.
    #[error("cannot {doing} {path}: {why}")]
    Server {
        /// The operation: "read", "create", …
        doing: &'static str,
        /// The path.
        path: String,
        /// The fault.
        fault: Fault,
        /// Operations on other files would fail in the same way.
        general: bool,
        /// The reason, in words.
        why: String,
    },
    /// The back end cannot do this.
    #[error("{what} is not possible on {store}")]
    Unsupported {
        /// The operation.
        what: &'static str,
        /// The kind of store.
        store: &'static str,
    },
}

/// What the user can do about it, where that is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => " (free space there, then run the same command again)",
        io::ErrorKind::QuotaExceeded => {
            " (the quota is used up; raise it or free space, then run the same command again)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (remount it writable or choose another target)",
        io::ErrorKind::PermissionDenied => " (check the owner and mode for the user that runs this program)",
        _ => "",
    }
}

/// A path for people: the root shows as a dot.
pub fn shown(path: &RelPath) -> String {
    if path.is_root() { ".".into() } else { path.to_string() }
}

/// A kind of entry as a sentence names it.
pub(crate) fn kind_phrase(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Dir => "a directory",
        Kind::Symlink => "a symbolic link",
        Kind::Special => "a FIFO, socket or device",
    }
}

impl Error {
    /// An operation that the system refused.
    pub fn io(doing: &'static str, path: &RelPath, source: impl Into<io::Error>) -> Error {
        Error::Io { doing, path: shown(path), source: source.into() }
    }

    /// Whether the entry is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Bytes that were written before are lost, or may be.
    pub(crate) fn late(path: &RelPath, source: impl Into<io::Error>) -> Error {
        Error::Late { path: shown(path), source: source.into() }
    }

    /// Whether the device is full, or the quota is used up.
    pub fn is_full(&self) -> bool {
        let Error::Io { source, .. } = self else { return false };
        [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&source.kind())
    }

    /// Whether the unfinished file is worth keeping: space may become free, and after a loss the next attempt reads back what is left.
    pub fn keeps_file(&self) -> bool {
        self.is_full() || matches!(self, Error::Late { .. })
    }

    /// Whether every further file would fail the same way: full, over quota, read-only, broken device.
    pub fn is_fatal(&self) -> bool {
        let source = match self {
            Error::Io { source, .. } | Error::Late { source, .. } => source,
            Error::Server { general, .. } => return *general,
            _ => return false,
        };
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::ReadOnlyFilesystem];
        kinds.contains(&source.kind()) || source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
    }
}

impl Blame for Error {
    fn fault(&self) -> Fault {
        match self {
            Error::Escapes(_) | Error::Outside { .. } | Error::Granted { .. } | Error::Unfinished(_) => Fault::Auth,
            Error::Unsupported { .. } => Fault::Config,
            Error::Server { fault, .. } => *fault,
            Error::Io { source, .. } => match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => Fault::Local,
                _ => Fault::Storage,
            },
            _ => Fault::Storage,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Retry::After,
            Error::Server { fault: Fault::Path, .. } => Retry::After,
            _ => Retry::Never,
        }
    }
}

//! What a store can fail with: which operation, on what, why, and what to do about it.

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
    /// The system said no.
    #[error("cannot {doing} {path}{}", remedy(.source))]
    Io {
        /// What was being done: "read", "create", …
        doing: &'static str,
        /// On what.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The system had taken what was written and could not keep it. Said once: to ask again would find nothing wrong, and the
    /// bytes are not there all the same. So there is no trying again but with what is found there, read anew.
    #[error("what was written to {path} could not be kept{}", remedy(.source))]
    Late {
        /// Of what.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The path, or a link on it, leads out of the root.
    #[error("{0} leads out of its export or directory, which is not allowed")]
    Escapes(String),
    /// Another entry than the one that the credential is for.
    #[error("what was shown is for {entry} alone, and {path} is something else")]
    Outside {
        /// What was wanted.
        path: String,
        /// What may be had.
        entry: String,
    },
    /// The entry that the credential is for stays what it is: a file or a directory of that name.
    #[error("{path} is what the credential is for, and cannot be {refused}")]
    Granted {
        /// The entry.
        path: String,
        /// What it was to be.
        refused: &'static str,
    },
    /// The name of a file that is not finished: those are given by the store alone.
    #[error("{0} is the name of an unfinished file; such names are this program's own")]
    Unfinished(String),
    /// Somebody has locked it, and has not given it back.
    #[error("{path} is locked by {who} until {until}; wait, or have it unlocked there")]
    Locked {
        /// What.
        path: String,
        /// Who has it.
        who: String,
        /// Until when, in UTC.
        until: String,
    },
    /// A file was there, and replacing it was not asked for.
    #[error("{0} exists already and differs (--no-overwrite)")]
    Exists(String),
    /// Something of another kind is in the way.
    #[error("{path} is {found}, not {wanted}")]
    Kind {
        /// What is in the way.
        path: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// Somebody else's server, where the bytes rest, said no, or nothing.
    #[error("cannot {doing} {path}: {why}")]
    Server {
        /// What was being done.
        doing: &'static str,
        /// On what.
        path: String,
        /// Whose fault it is.
        fault: Fault,
        /// Every other file would meet the same.
        general: bool,
        /// What happened, in words.
        why: String,
    },
    /// The back end cannot do this.
    #[error("{what} is not possible on {store}")]
    Unsupported {
        /// What.
        what: &'static str,
        /// Where.
        store: &'static str,
    },
}

/// What a person can do about it, where that is known.
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
pub(crate) fn in_words(kind: Kind) -> &'static str {
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

    /// What was written before is lost, or may be.
    pub(crate) fn late(path: &RelPath, source: impl Into<io::Error>) -> Error {
        Error::Late { path: shown(path), source: source.into() }
    }

    /// Whether there is no room, or no more of a quota.
    pub fn is_full(&self) -> bool {
        let Error::Io { source, .. } = self else { return false };
        [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&source.kind())
    }

    /// Whether the unfinished file is worth keeping: room may come, and where some of it was lost, the next attempt finds what is there.
    pub fn may_go_on(&self) -> bool {
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
